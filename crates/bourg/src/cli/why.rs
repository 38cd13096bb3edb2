//! `bourg why`: why tasks are pending, and what would let them start.

use std::fmt::Write as _;

use model::{Priority, Resources, Time};
use proto::v1;

use super::cells::Connection;
use super::exit::{Done, Failure};
use super::moment::Moment;
use super::{WhyArgs, job_address, output, with_cell};

pub(super) fn why(cell: Option<&str>, args: &WhyArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let request = v1::WhyRequest {
            job: Some(job_address(&args.job)),
            tasks: Some((&args.job.tasks).into()),
            at: args.at.map(Moment::message),
        };
        let answer =
            connection.ask(request, async |mut client, request| client.why(request).await).await?;
        let name = format!("{}/{}", answer.user, answer.job);
        output::object(&args.output, &answer, &name, || show(&answer))
    })
}

/// The explanation of a job, as people read it.
pub(super) async fn explain(
    connection: &mut Connection,
    job: v1::JobAddress,
) -> Result<String, Failure> {
    let request = v1::WhyRequest { job: Some(job), tasks: None, at: None };
    let answer =
        connection.ask(request, async |mut client, request| client.why(request).await).await?;
    Ok(show(&answer))
}

fn show(answer: &v1::WhyResponse) -> String {
    let name = format!("{}/{}", answer.user, answer.job);
    if answer.queued > 0 {
        let (jobs, s) = (answer.waits_for.join(", "), if answer.queued == 1 { "" } else { "s" });
        return format!(
            "{name}: {} task{s} queued until {jobs} has finished\n true at index {}\n",
            answer.queued, answer.index
        );
    }
    if answer.groups.is_empty() {
        return format!("{name}: nothing is pending\n");
    }
    let mut text = String::new();
    for group in &answer.groups {
        show_group(&mut text, answer, group, &name);
    }
    let _infallible = writeln!(text, " true at index {}", answer.index);
    text
}

fn show_group(text: &mut String, answer: &v1::WhyResponse, group: &v1::PendingGroup, name: &str) {
    let now = Time(answer.time);
    let tasks: u32 = group.tasks.iter().map(|range| range.last - range.first + 1).sum();
    let which = match tasks == answer.tasks {
        true => String::new(),
        false => format!(" ({})", ranges(&group.tasks)),
    };
    let priority = Priority::new(answer.priority.into());
    let priority = priority.map(|priority| priority.to_string()).unwrap_or_default();
    let limit = group.limit.and_then(|limit| Resources::try_from(limit).ok());
    let limit = limit.map(|limit| limit.to_string()).unwrap_or_default();
    let _infallible = writeln!(
        text,
        "{name}: {tasks} of {} task{} pending{which} for {}, {priority}, asking {limit} each",
        answer.tasks,
        if answer.tasks == 1 { "" } else { "s" },
        now.since(Time(group.since)),
    );
    if group.cause != "new" {
        let _infallible = writeln!(text, " {}", group.cause);
    }
    if !group.avoids.is_empty() {
        let machines = group.avoids.join(", ");
        let _infallible =
            writeln!(text, " it crashed on {machines} of late: others come first, where it fits");
    }
    if !group.last_end_text.is_empty() {
        let _infallible = writeln!(text, " its last life ended: {}", group.last_end_text);
    }
    if group.not_before > answer.time {
        let wait = Time(group.not_before).since(now);
        let _infallible = writeln!(text, " it is tried again in {wait}");
    }
    match group.machines {
        0 => text.push_str(" the cell has no machines\n"),
        machines => {
            let mut lead =
                format!(" of {machines} machine{}", if machines == 1 { "" } else { "s" });
            if group.fits > 0 {
                let fit = if group.fits == 1 { "fits" } else { "fit" };
                let _infallible = writeln!(
                    text,
                    "{lead}  {} {fit}: the scheduler will place it there",
                    group.fits
                );
                lead = " ".repeat(lead.chars().count());
            }
            for misfit in &group.misfits {
                let nearest = match misfit.nearest.as_str() {
                    "" => String::new(),
                    nearest => format!(" ({nearest})"),
                };
                let _infallible =
                    writeln!(text, "{lead}  {} {}{nearest}", misfit.machines, misfit.reason);
                lead = " ".repeat(lead.chars().count());
            }
        }
    }
    if !group.smallest_change.is_empty() {
        let _infallible =
            writeln!(text, " smallest change that starts one now: {}", group.smallest_change);
    }
}

fn ranges(ranges: &[v1::IndexRange]) -> String {
    let range = |range: &v1::IndexRange| match range.first == range.last {
        true => range.first.to_string(),
        false => format!("{}-{}", range.first, range.last),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}
