//! `bourg queue`: the batch queue, in the order of turns, and the other jobs with pending tasks.

use api::v1;
use clap::Args;
use client::{Connection, Target};
use command::output::{self, Format};
use command::{Done, Failure, with_cell};
use model::{Address, Priority, TaskSelection, Time};

use super::ListArgs;
use super::moment::Moment;
use super::show::{Printer, repeat};

#[derive(Debug, Args)]
pub(super) struct QueueListArgs {
    /// Show only one user's jobs, or one job: user, job, or user/job. The places are those in the whole queue. A single
    /// word is a user with waiting jobs, or else one of your jobs.
    which: Option<Address>,
    /// Show at most so many jobs of the queue.
    #[arg(long, short = 'n', default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    last: u32,
    /// Leave out so many jobs before.
    #[arg(long, value_name = "JOBS", default_value_t = 0)]
    skip: u32,
    /// Show at most so many of the other jobs with pending tasks, with the first reason of each.
    #[arg(long, value_name = "JOBS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=100))]
    pending: u32,
    /// Output format: table, wide (with the shares and weights of users), json, yaml, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
    /// Refresh the output whenever it changes.
    #[arg(long, short)]
    watch: bool,
    /// Show the state at this moment: an index (88412), a time (2026-11-19 03:10, UTC) or an age
    /// (10m).
    #[arg(long, value_name = "MOMENT", conflicts_with = "watch")]
    at: Option<Moment>,
}

pub(super) fn queue(cell: Target<'_>, args: &QueueListArgs) -> Done {
    if let Some(tasks) = args.which.as_ref().filter(|which| which.tasks != TaskSelection::All) {
        return Err(Failure::usage(format!(
            "error: '{tasks}' names tasks: a job has one place in the queue"
        )));
    }
    let list =
        ListArgs { output: args.output.clone(), watch: args.watch, labels: None, at: args.at };
    with_cell(cell, async |mut connection| {
        repeat(&list, async || {
            let answer = page(&mut connection, args).await?;
            let index = if args.watch { answer.index } else { 0 };
            let format = args.output.clone();
            let print = move || {
                output::object(&format, &answer, "queue", || {
                    show(&answer, matches!(format, Format::Wide))
                })
            };
            Ok((index, Box::new(print) as Printer))
        })
        .await
    })
}

async fn page(
    connection: &mut Connection,
    args: &QueueListArgs,
) -> Result<v1::QueueResponse, Failure> {
    let request = v1::QueueRequest {
        most: args.last,
        skip: args.skip,
        pending: args.pending,
        at: args.at.map(Moment::message),
        ..v1::QueueRequest::default()
    };
    let Some(which) = &args.which else { return ask(connection, request).await };
    let job = which.job.to_string();
    if let Some(user) = &which.user {
        let user = user.to_string();
        return ask(connection, v1::QueueRequest { user, job, ..request }).await;
    }
    // One word is a user with something that waits, else a job of the caller's own.
    let of_user = v1::QueueRequest { user: job.clone(), ..request.clone() };
    let answer = ask(connection, of_user).await?;
    if answer.all_jobs > 0 || answer.all_pending_jobs > 0 {
        return Ok(answer);
    }
    match ask(connection, v1::QueueRequest { job, ..request }).await {
        Ok(of_job) => Ok(of_job),
        // Nothing of that user waits, which is no error.
        Err(_) => Ok(answer),
    }
}

async fn ask(
    connection: &mut Connection,
    request: v1::QueueRequest,
) -> Result<v1::QueueResponse, Failure> {
    let answer = connection
        .ask(request, async |mut client, request| client.jobs.queue(request).await)
        .await?;
    Ok(answer)
}

fn show(answer: &v1::QueueResponse, is_wide: bool) -> String {
    let mut text = summary(answer);
    if !answer.jobs.is_empty() {
        text.push_str(&places(answer));
    }
    let shown = u32::try_from(answer.jobs.len()).unwrap_or(u32::MAX);
    if shown < answer.all_jobs {
        text.push_str(&format!("{shown} of {} jobs shown\n", answer.all_jobs));
    }
    if is_wide && !answer.users.is_empty() {
        text.push_str(&format!("\n{}", users(answer)));
    }
    if !answer.pending.is_empty() {
        text.push_str(&format!("\n{}", pending(answer)));
        let shown = u32::try_from(answer.pending.len()).unwrap_or(u32::MAX);
        if shown < answer.all_pending_jobs {
            let all = answer.all_pending_jobs;
            text.push_str(&format!("{shown} of {all} jobs with pending tasks shown\n"));
        }
    }
    text
}

/// `queue on: 3 jobs with 40 tasks wait`.
fn summary(answer: &v1::QueueResponse) -> String {
    let is_on = answer.settings.as_ref().is_some_and(|settings| settings.on);
    let on = if is_on { "on" } else { "off" };
    let (jobs, tasks) = (answer.all_jobs, answer.all_tasks);
    match jobs {
        0 => format!("queue {on}: nothing waits in it\n"),
        _ => {
            let jobs_s = if jobs == 1 { "" } else { "s" };
            let (s, wait) = if tasks == 1 { ("", "waits") } else { ("s", "wait") };
            format!("queue {on}: {tasks} task{s} of {jobs} job{jobs_s} {wait}\n")
        }
    }
}

fn places(answer: &v1::QueueResponse) -> String {
    let row = |place: &v1::QueuePlace| {
        vec![
            match place.place {
                0 => present::amount::UNMEASURED.to_owned(),
                number => number.to_string(),
            },
            format!("{}/{}", place.user, place.job),
            place.queued.to_string(),
            place.pending.saturating_add(place.running).to_string(),
            present::queue_share(place.share, &place.dimension),
            present::queue_wait(place.waits_for.as_ref()),
            present::queue_start(place, answer.time),
            present::queue_start_basis(place).to_owned(),
        ]
    };
    let headings = ["PLACE", "JOB", "WAIT", "RUN", "SHARE", "WAITS FOR", "STARTS", "BY"];
    output::table(&headings, answer.jobs.iter().map(row).collect())
}

fn users(answer: &v1::QueueResponse) -> String {
    let row = |share: &v1::UserShare| {
        vec![
            share.user.clone(),
            present::queue_share(share.share, &share.dimension),
            present::queue_weights(share),
            present::amount::cpu_and_ram(share.used.as_ref()),
            share.jobs.to_string(),
        ]
    };
    let headings = ["USER", "SHARE", "WEIGHTS", "USED", "JOBS"];
    output::table(&headings, answer.users.iter().map(row).collect())
}

fn pending(answer: &v1::QueueResponse) -> String {
    let row = |job: &v1::PendingJob| {
        let priority = Priority::new(job.priority.into());
        let band = priority.map(|priority| priority.band().to_string()).unwrap_or_default();
        let reason = match job.reason.as_str() {
            "" => present::amount::UNMEASURED.to_owned(),
            reason => format!("{} of {} {reason}", job.reason_machines, job.machines),
        };
        vec![
            format!("{}/{}", job.user, job.job),
            band,
            job.pending.to_string(),
            Time(answer.time).since(Time(job.since)).to_string(),
            reason,
        ]
    };
    let headings = ["JOB", "BAND", "PENDING", "SINCE", "MACHINES"];
    output::table(&headings, answer.pending.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use v1::queue_wait::What;

    use super::*;

    fn answer() -> v1::QueueResponse {
        let wait = |what| Some(v1::QueueWait { what: Some(what) });
        let minute = 60_000_000;
        let place = |place, user: &str, job: &str, queued, what| v1::QueuePlace {
            place,
            user: user.to_owned(),
            job: job.to_owned(),
            queued,
            share: 333_333_333,
            dimension: "cpu".to_owned(),
            waits_for: wait(what),
            ..v1::QueuePlace::default()
        };
        let first = v1::QueuePlace {
            running: 4,
            starts: 10 * minute,
            starts_by: "expectedRuntime".to_owned(),
            ..place(1, "ana", "render", 12, What::Reservation(10 * minute))
        };
        v1::QueueResponse {
            time: minute,
            settings: Some(v1::QueueSettings { on: true, ..v1::QueueSettings::default() }),
            jobs: vec![first, place(0, "ben", "load", 1, What::AtOnce(2))],
            all_jobs: 3,
            all_tasks: 14,
            users: vec![v1::UserShare {
                user: "ana".to_owned(),
                share: 333_333_333,
                dimension: "cpu".to_owned(),
                weights: Some(v1::ShareWeights {
                    cpu: 2_000,
                    ram: 1_000,
                    disk: 1_000,
                    disk_rate: 1_000,
                }),
                used: Some(v1::Resources {
                    cpu_milli: 4_000,
                    ram_bytes: 1 << 30,
                    ..Default::default()
                }),
                jobs: 1,
            }],
            pending: vec![v1::PendingJob {
                user: "ana".to_owned(),
                job: "web".to_owned(),
                priority: 200,
                pending: 2,
                since: 0,
                reason: "lack RAM".to_owned(),
                reason_machines: 3,
                machines: 5,
            }],
            all_pending_jobs: 1,
            ..v1::QueueResponse::default()
        }
    }

    #[test]
    fn the_queue_is_a_table_of_80_columns() {
        let shown = show(&answer(), false);
        let expected = "\
queue on: 14 tasks of 3 jobs wait
PLACE  JOB         WAIT  RUN  SHARE        WAITS FOR    STARTS  BY
1      ana/render  12    4    33.33 % cpu  reservation  in 9 m  expectedRuntime
-      ben/load    1     0    33.33 % cpu  atOnce 2     -
2 of 3 jobs shown

JOB      BAND        PENDING  SINCE  MACHINES
ana/web  production  2        1 m    3 of 5 lack RAM
";
        assert_eq!(shown, expected);
        assert!(shown.lines().all(|line| line.chars().count() <= 80));
        let wide = show(&answer(), true);
        assert!(wide.contains("ana   33.33 % cpu  CPU 2, RAM 1,"), "{wide}");
    }

    #[test]
    fn an_empty_queue_says_so() {
        let answer = v1::QueueResponse::default();
        assert_eq!(show(&answer, false), "queue off: nothing waits in it\n");
    }
}
