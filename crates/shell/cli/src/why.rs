//! `bourg why`: explains why tasks are pending, and what change would let them start.

mod details;
mod history;

use std::fmt::Write as _;

use api::v1;
use client::Connection;
use client::Target;
use command::output::{self, Format, Listing};
use command::{Done, Failure, with_cell};
use model::{Bytes, Priority, Resources, Time};
use present::{not_started, start_lost};

use super::WhyArgs;
use super::moment::Moment;
use super::selection::{Among, choose};

/// The words of reasons that may end while a task waits: something ends, or a machine comes back.
const PASSING: &[&str] = &[
    "lack",
    "not up",
    "unreachable",
    "draining",
    "keep",
    "short of",
    "maximum number",
    "on no machine",
];
/// The maximum number of jobs that are listed.
const OVERVIEW_MAX: usize = 100;

pub(super) fn why(cell: Target<'_>, args: &WhyArgs) -> Done {
    if args.job.is_none() && args.labels.is_none() {
        return overview(cell, args);
    }
    if let Some(most) = args.history {
        return history::history(cell, args, most);
    }
    with_cell(cell, async |mut connection| {
        let at = args.at.map(Moment::message);
        let among = Among::Alive(at);
        let named = args.job.as_slice();
        let chosen = choose(&mut connection, named, args.labels.as_ref(), &among).await?;
        let mut answers = Vec::new();
        for job in chosen {
            let (tasks, job) = (Some((&job.tasks).into()), Some(job.job));
            let request = v1::WhyRequest { job, tasks, at, scores: args.scores };
            answers.push(
                connection
                    .ask(request, async |mut client, request| client.jobs.why(request).await)
                    .await?,
            );
        }
        match answers.as_slice() {
            [answer] if args.labels.is_none() => {
                output::object(&args.output, answer, &name(answer), || show(answer))
            }
            several => show_several(&args.output, several),
        }
    })
}

/// The jobs of the user that have pending tasks, each with its first reason: first those that do not change by
/// waiting.
fn overview(cell: Target<'_>, args: &WhyArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let at = args.at.map(Moment::message);
        let request = v1::StatusRequest { mine: true, at, ..v1::StatusRequest::default() };
        let status = connection
            .ask(request, async |mut client, request| client.jobs.status(request).await)
            .await?;
        let waits = |job: &v1::JobStatus| {
            job.counts.is_some_and(|counts| {
                // One that is being started may have been tried before.
                let starting = counts.scheduled > counts.running;
                counts.pending > 0 || counts.queued > 0 || starting
            })
        };
        let mut answers = Vec::new();
        for job in status.jobs.into_iter().filter(waits).take(OVERVIEW_MAX + 1) {
            let name = job.spec.map(|spec| spec.name).unwrap_or_default();
            let job = Some(v1::JobAddress { user: job.user, job: name });
            let request = v1::WhyRequest { job, at, ..v1::WhyRequest::default() };
            answers.push(
                connection
                    .ask(request, async |mut client, request| client.jobs.why(request).await)
                    .await?,
            );
        }
        let more = answers.len() > OVERVIEW_MAX;
        answers.retain(says_something);
        answers.truncate(OVERVIEW_MAX);
        if !matches!(args.output, Format::Table | Format::Wide) {
            return show_several(&args.output, &answers);
        }
        if answers.is_empty() {
            return output::print("none of your tasks is pending\n");
        }
        let mut lines: Vec<(bool, String)> = answers.iter().map(first_reason).collect();
        // Stable: otherwise in the order of the jobs.
        lines.sort_by_key(|(passes, _)| *passes);
        let mut text: String = lines.into_iter().map(|(_, line)| line).collect();
        if more {
            let _infallible =
                writeln!(text, "and more than {OVERVIEW_MAX} in all: bourg status lists them");
        }
        output::print(&text)?;
        output::say("next: bourg why JOB tells more of one\n");
        Ok(())
    })
}

/// The job and the first reason why its tasks are pending, in a line; and whether that passes by waiting.
fn first_reason(answer: &v1::WhyResponse) -> (bool, String) {
    let name = name(answer);
    if let Some(place) = answer.queue_place.as_ref().filter(|_| answer.pending == 0) {
        let s = if answer.queued == 1 { "" } else { "s" };
        let line = present::queue_place(place, answer.time);
        return (true, format!("{name}  {} task{s} queued: {line}\n", answer.queued));
    }
    if answer.queued > 0 && answer.pending == 0 {
        let s = if answer.queued == 1 { "" } else { "s" };
        let until = present::until(&answer.waits);
        return (true, format!("{name}  {} task{s} queued {until}\n", answer.queued));
    }
    if let (0, [first, ..]) = (answer.pending, answer.starting.as_slice()) {
        let why = not_started(first).unwrap_or_default();
        return (true, format!("{name}  {}: {why}\n", started_again(first, answer)));
    }
    let s = if answer.pending == 1 { "" } else { "s" };
    let pending = format!("{name}  {} task{s} pending", answer.pending);
    // Of all groups of tasks, one that does not become placeable by waiting comes first.
    let reasons = answer.groups.iter().map(|group| group_reason(group, answer.time));
    let first = reasons.min_by_key(|(passes, _)| *passes);
    let (passes, why) = first.unwrap_or((true, "being placed".to_owned()));
    (passes, format!("{pending}: {why}\n"))
}

/// The first reason without the name of the job and without amounts, so that it stays the same while nothing changes.
fn first_reason_in_short(answer: &v1::WhyResponse) -> String {
    if let Some(ended) = answer.ended_because.first() {
        return ended.clone();
    }
    let mut short = answer.clone();
    for group in &mut short.groups {
        // "retried in 3 s" differs at each moment.
        group.not_before = group.not_before.min(short.time);
        group.unschedulable_reasons.iter_mut().for_each(|reason| reason.nearest.clear());
    }
    if !says_something(&short) {
        return "no task is pending".to_owned();
    }
    let (_, line) = first_reason(&short);
    line.trim_end().trim_start_matches(&name(answer)).trim_start().to_owned()
}

/// The first reason of a group, and whether it passes by waiting.
fn group_reason(group: &v1::PendingGroup, time: u64) -> (bool, String) {
    let last_end = group.last_end.as_ref();
    let lost = group
        .pending_cause
        .as_ref()
        .and_then(|cause| start_lost(cause, last_end, group.not_before, time));
    if let Some(why) = lost {
        return (true, why);
    }
    if group.not_before > time {
        let end = match group.last_end_text.as_str() {
            "" => String::new(),
            end => format!(", its last run ended: {end}"),
        };
        return (true, format!("retried in {}{end}", Time(group.not_before).since(Time(time))));
    }
    if group.fits > 0 {
        return (true, "the scheduler will place it".to_owned());
    }
    let words = |reason: &v1::UnschedulableReason| match reason.nearest.as_str() {
        "" => format!("{} {}", reason.machines, reason.reason),
        nearest => format!("{} {} ({nearest})", reason.machines, reason.reason),
    };
    let all = group.machines;
    let is_passing = |reason: &v1::UnschedulableReason| {
        PASSING.iter().any(|passing| reason.reason.contains(passing))
    };
    let reasons = &group.unschedulable_reasons;
    let passing = reasons.iter().find(|reason| is_passing(reason));
    match (all, passing.or(reasons.first())) {
        (0, _) => (false, "the cell has no machines".to_owned()),
        (_, Some(reason)) if !group.own_machine.is_empty() => {
            let why = own_machine(&group.own_machine, reason);
            (passing.is_some(), why)
        }
        (_, Some(reason)) => (passing.is_some(), format!("of {all} machines, {}", words(reason))),
        (_, None) => (true, "being placed".to_owned()),
    }
}

/// `2 of 5 tasks being started again (0-1)`; without `again` at their first start.
fn started_again(group: &v1::StartingGroup, answer: &v1::WhyResponse) -> String {
    let tasks: u32 = group.tasks.iter().map(|range| range.last - range.first + 1).sum();
    let s = if answer.tasks == 1 { "" } else { "s" };
    let which = match tasks == answer.tasks {
        true => String::new(),
        false => format!(" ({})", ranges(&group.tasks)),
    };
    let again = if group.tries > 0 { " again" } else { "" };
    format!("{tasks} of {} task{s} being started{again}{which}", answer.tasks)
}

/// Whether there is a reason why a task does not run.
fn says_something(answer: &v1::WhyResponse) -> bool {
    answer.queued > 0
        || !answer.groups.is_empty()
        || !answer.rejecting.is_empty()
        || !answer.starting.is_empty()
        || answer.machines_without_task > 0
}

/// `its machine m3 is draining`.
fn own_machine(machine: &str, reason: &v1::UnschedulableReason) -> String {
    let nearest = match reason.nearest.as_str() {
        "" => String::new(),
        nearest => format!(" ({nearest})"),
    };
    format!("its machine {machine} {}{nearest}", reason.reason)
}

fn name(answer: &v1::WhyResponse) -> String {
    format!("{}/{}", answer.user, answer.job)
}

/// Prints the explanations of several jobs; as a table, only of those with pending tasks.
fn show_several(format: &Format, answers: &[v1::WhyResponse]) -> Done {
    if let Format::Table | Format::Wide = format {
        let waits = |answer: &&v1::WhyResponse| says_something(answer);
        let text: String = answers.iter().filter(waits).map(show).collect();
        return match (text.is_empty(), answers) {
            (true, [one]) => output::print(&show(one)),
            (true, all) => output::print(&format!("no task of {} jobs is pending\n", all.len())),
            (false, _) => output::print(&text),
        };
    }
    let listing = Listing { items: answers, name, headings: &[], wide: 0, row: |_| Vec::new() };
    output::list(format, &listing)
}

/// The explanation of a job, for people.
pub(super) async fn explain(
    connection: &mut Connection,
    job: v1::JobAddress,
) -> Result<String, Failure> {
    let request = v1::WhyRequest { job: Some(job), ..v1::WhyRequest::default() };
    let answer =
        connection.ask(request, async |mut client, request| client.jobs.why(request).await).await?;
    Ok(show(&answer))
}

fn show(answer: &v1::WhyResponse) -> String {
    let name = name(answer);
    let mut text = String::new();
    if answer.queued > 0 {
        let s = if answer.queued == 1 { "" } else { "s" };
        match &answer.queue_place {
            Some(place) => show_queued(&mut text, answer, place),
            None => {
                let until = present::until(&answer.waits);
                let _infallible =
                    writeln!(text, "{name}: {} task{s} queued {until}", answer.queued);
            }
        }
        for group in &answer.queued_groups {
            text.push_str(&when_started(group));
        }
    }
    let mut ended = String::new();
    details::ended(&mut ended, answer, &name);
    if !says_something(answer) && answer.scores.is_empty() {
        return match answer.ended_because.is_empty() {
            true => format!("{name}: no task is pending\n{ended}"),
            false => ended,
        };
    }
    if let Some(line) = without_task(&answer.without_task, answer.machines_without_task) {
        let _infallible = writeln!(text, "{name}: {line}");
    }
    for machine in &answer.rejecting {
        let _infallible = writeln!(
            text,
            "{name}: tasks are placed on {machine}, which rejects this cell's orders\n next: bourg \
             machine show {machine}, then bourg machine obey {machine}"
        );
    }
    for group in &answer.starting {
        let Some(why) = not_started(group) else { continue };
        let _infallible = writeln!(text, "{name}: {}\n {why}", started_again(group, answer));
    }
    if let Some(gang) = &answer.gang {
        text.push_str(&waiting_gang(&name, gang));
    }
    for group in &answer.groups {
        show_group(&mut text, answer, group, &name);
    }
    if answer.more > 0 {
        let more = answer.more;
        let _infallible = writeln!(
            text,
            " {more} more pending, with different requests: select some, as in {name}/0-99"
        );
    }
    details::of_job(&mut text, answer);
    text.push_str(&ended);
    show_scores(&mut text, answer);
    let _infallible = writeln!(text, " as of index {}", answer.index);
    text
}

/// `ana/train: a gang, placed whole: 3 of its 4 pending tasks fit now`, and what the next one lacks.
fn waiting_gang(name: &str, gang: &v1::WaitingGang) -> String {
    let v1::WaitingGang { tasks, stopping, fit, reasons } = gang;
    let s = if *tasks == 1 { "" } else { "s" };
    let mut text =
        format!("{name}: a gang, placed whole: {fit} of its {tasks} pending task{s} fit now\n");
    if *stopping > 0 {
        let _infallible = writeln!(text, " it waits for {stopping} of its tasks to stop");
    }
    for reason in reasons {
        let nearest = match reason.nearest.as_str() {
            "" => String::new(),
            nearest => format!(" ({nearest})"),
        };
        let (machines, why) = (reason.machines, &reason.reason);
        let _infallible = writeln!(text, " for one more:  {machines} {why}{nearest}");
    }
    text
}

/// The place of a job in the batch queue, who is ahead of it, and what it waits for.
fn show_queued(text: &mut String, answer: &v1::WhyResponse, place: &v1::QueuePlace) {
    let s = if answer.queued == 1 { "" } else { "s" };
    let line = present::queue_place(place, answer.time);
    let mut lines = vec![
        format!("{}: {} task{s} queued: {line}", name(answer), answer.queued),
        format!(" until {}", present::queue_wait_in_full(place.waits_for.as_ref(), answer.time)),
    ];
    let share = present::queue_share(place.share, &place.dimension);
    let ahead = answer.users_ahead.iter().map(|ahead| {
        format!("{} {}", ahead.user, present::queue_share(ahead.share, &ahead.dimension))
    });
    let mut ahead: Vec<String> = ahead.collect();
    let more =
        answer.users_ahead_count as usize - ahead.len().min(answer.users_ahead_count as usize);
    if more > 0 {
        ahead.push(format!("{more} more"));
    }
    lines.push(match (place.place, ahead.is_empty()) {
        (0, _) => format!(" {}'s share: {share}", place.user),
        (place_of_all, true) => {
            format!(" place {place_of_all} of all; {}'s share: {share}, the smallest", place.user)
        }
        (place_of_all, false) => format!(
            " place {place_of_all} of all; {}'s share: {share}; ahead: {}",
            place.user,
            ahead.join(", ")
        ),
    });
    if let Some(runtime) = place.runtime.and_then(|runtime| api::span(&runtime).ok()) {
        lines.push(format!(" its tasks run for {runtime} ({})", place.runtime_by));
    }
    for line in lines {
        let _infallible = writeln!(text, "{line}");
    }
}

/// `2 machines without a task: quota of production cpu (m4, m5)`; `None` if there is none.
pub(super) fn without_task(shown: &[v1::MachineWithoutTask], all: u32) -> Option<String> {
    let first = shown.first()?;
    let names: Vec<_> = shown.iter().take(3).map(|without| without.machine.as_str()).collect();
    let more = if all as usize > names.len() { ", …" } else { "" };
    let s = if all == 1 { "" } else { "s" };
    Some(format!("{all} machine{s} without a task: {} ({}{more})", first.why, names.join(", ")))
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
        "{name}: {tasks} of {} task{} pending{which} for {}, {priority}, requesting {limit} each",
        answer.tasks,
        if answer.tasks == 1 { "" } else { "s" },
        now.since(Time(group.since)),
    );
    let is_new = matches!(
        group.pending_cause,
        Some(v1::PendingCause { cause: Some(v1::pending_cause::Cause::Submitted(_)) })
    );
    let last_end = group.last_end.as_ref();
    let start_lost = group
        .pending_cause
        .as_ref()
        .and_then(|cause| start_lost(cause, last_end, group.not_before, answer.time));
    if !is_new && start_lost.is_none() {
        let _infallible = writeln!(text, " {}", group.cause);
    }
    if !group.avoids.is_empty() {
        let machines = group.avoids.join(", ");
        let _infallible =
            writeln!(text, " it crashed on {machines} recently: the scheduler prefers others");
    }
    if let Some(why) = &start_lost {
        let _infallible = writeln!(text, " {why}");
    } else if !group.last_end_text.is_empty() {
        let _infallible = writeln!(text, " its last run ended: {}", group.last_end_text);
    }
    if group.not_before > answer.time && start_lost.is_none() {
        let wait = Time(group.not_before).since(now);
        let _infallible = writeln!(text, " it is retried in {wait}");
    }
    match group.machines {
        0 => text.push_str(" the cell has no machines\n"),
        _ if !group.own_machine.is_empty() && group.fits == 0 => {
            for reason in &group.unschedulable_reasons {
                let why = own_machine(&group.own_machine, reason);
                let _infallible = writeln!(text, " {why}");
            }
        }
        machines => {
            let s = if machines == 1 { "" } else { "s" };
            let mut lead = match answer.alloc_set.as_str() {
                "" => format!(" of {machines} machine{s}"),
                set => format!(" of {machines} alloc{s} of {set}"),
            };
            if group.fits > 0 {
                let fit = if group.fits == 1 { "fits" } else { "fit" };
                // A start that was lost was made where there is room.
                let then = match start_lost {
                    None => "the scheduler will place it there",
                    Some(_) => "it is tried again where there is room",
                };
                let _infallible = writeln!(text, "{lead}  {} {fit}: {then}", group.fits);
                lead = " ".repeat(lead.chars().count());
            }
            for unschedulable_reason in &group.unschedulable_reasons {
                let nearest = match unschedulable_reason.nearest.as_str() {
                    "" => String::new(),
                    nearest => format!(" ({nearest})"),
                };
                let _infallible = writeln!(
                    text,
                    "{lead}  {} {}{nearest}",
                    unschedulable_reason.machines, unschedulable_reason.reason
                );
                lead = " ".repeat(lead.chars().count());
            }
        }
    }
    details::failed_checks(text, group);
    if !group.smallest_change.is_empty() {
        let _infallible =
            writeln!(text, " smallest change that starts one now: {}", group.smallest_change);
    }
    details::for_all(text, group);
    details::preemption(text, group);
}

/// What the queued tasks would meet if their job started now.
fn when_started(group: &v1::PendingGroup) -> String {
    let of = group.machines;
    let reasons = group.unschedulable_reasons.iter();
    let reasons = reasons.map(|reason| format!(", {} {}", reason.machines, reason.reason));
    let s = if of == 1 { "" } else { "s" };
    format!(
        " tasks {}: they would fit {} of {of} machine{s} now{}\n",
        ranges(&group.tasks),
        group.fits,
        reasons.collect::<String>()
    )
}

/// For example ` scores for task 0, lower is better: m1 9214 = packing 4507 × 2 + mixing 200 × 1`.
fn show_scores(text: &mut String, answer: &v1::WhyResponse) {
    if answer.scores.is_empty() {
        return;
    }
    let task = answer.scored_task;
    let _infallible = writeln!(text, " scores of machines for task {task}, lower is better:");
    for score in &answer.scores {
        let terms = score.terms.iter().filter(|term| term.value > 0);
        let terms = terms.map(|term| format!("{} {} × {}", term.name, term.value, term.weight));
        let terms: Vec<String> = terms.collect();
        let sum = if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") };
        let _infallible = write!(text, "  {}  {} = {sum}", score.machine, score.score);
        let _infallible = match score.packages_needed {
            0 => writeln!(text),
            needed => {
                let (has, of) = (Bytes(score.packages_there), Bytes(needed));
                writeln!(text, "; has {has} of {of} of its packages")
            }
        };
    }
}

fn ranges(ranges: &[v1::IndexRange]) -> String {
    let range = |range: &v1::IndexRange| match range.first == range.last {
        true => range.first.to_string(),
        false => format!("{}-{}", range.first, range.last),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}
