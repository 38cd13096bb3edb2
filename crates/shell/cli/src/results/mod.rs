//! `bourg results`: the outputs of ended tasks, into a directory for each. [`super::copy`] fetches single
//! ones in the same way.
//!
//! An archive is written to a file before it is unpacked, so that a fetch that was cut goes on where it
//! was:
//!
//! ```text
//! DIR/INDEX                              the outputs of a task, complete
//! DIR/.bourg-results/INDEX/INSTANCE.tar  an archive that is not complete
//! DIR/.bourg-results/INDEX/INSTANCE      the outputs, while they are unpacked
//! DIR/.bourg-results/INDEX/INSTANCE.done exists if DIR/INDEX has the outputs of that incarnation
//! ```

mod fetch;
mod place;

use std::collections::{BTreeMap, VecDeque};
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::v1;
use clap::Args;
use client::{Connection, Target};
use command::output::say;
use command::{Failure, job_address};
use model::{Address, Bytes, TaskIndex, TaskSelection};
use tokio::task::JoinSet;

use self::fetch::{Fetched, Fetching};
pub(super) use self::fetch::{Pieces, open_outputs};
use self::place::ResultsPlace;
use super::interrupt::with_cell_until_signal;

/// How many tasks are fetched from at once.
const FETCHES_AT_ONCE: usize = 8;
/// How many failures are shown one by one.
const FAILURES_SHOWN: usize = 10;
/// How often the progress is shown at a terminal.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(super) struct ResultsArgs {
    /// A job, or some of its tasks: user/job, job, user/job/7, job/0-4.
    job: Address,
    /// The directory for them, made if it is not there: DIR/0, DIR/1, ...
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Do not say how much was fetched.
    #[arg(long, short)]
    quiet: bool,
}

/// What has been done so far, for those who wait.
#[derive(Debug, Default)]
pub(super) struct FetchProgress {
    tasks: AtomicU32,
    pub(super) bytes: AtomicU64,
}

/// Fetches.
pub(super) fn results(cell: Target<'_>, args: &ResultsArgs) -> Result<ExitCode, Failure> {
    let place = ResultsPlace::open(&args.to)?;
    let (outcomes, waiting) = with_cell_until_signal(cell, async |mut connection| {
        let outcomes = fetch_all(connection.clone(), args, Arc::new(place)).await?;
        let has_ended = |fetched: &Result<Fetched, _>| !matches!(fetched, Ok(Fetched::NotEnded));
        let waiting = match outcomes.values().all(has_ended) {
            true => None,
            false => status(&mut connection, &args.job).await?,
        };
        Ok((outcomes, waiting))
    })?;
    Ok(tell(&args.job, &outcomes, waiting.as_ref(), args.quiet))
}

/// What became of each task.
type Outcomes = BTreeMap<u32, Result<Fetched, Failure>>;

async fn fetch_all(
    mut connection: Connection,
    args: &ResultsArgs,
    place: Arc<ResultsPlace>,
) -> Result<Outcomes, Failure> {
    let waiting: VecDeque<u32> = indexes(&mut connection, &args.job).await?.into();
    let total = waiting.len();
    let waiting = Arc::new(Mutex::new(waiting));
    let progress = Arc::new(FetchProgress::default());
    let mut workers = JoinSet::new();
    for _ in 0..FETCHES_AT_ONCE.min(total) {
        let (waiting, progress) = (Arc::clone(&waiting), Arc::clone(&progress));
        let mut fetching = Fetching {
            connection: connection.clone(),
            job: job_address(&args.job),
            place: Arc::clone(&place),
            progress: Arc::clone(&progress),
        };
        workers.spawn(async move {
            let mut outcomes = Vec::new();
            loop {
                let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let Some(task) = next else { return outcomes };
                outcomes.push((task, fetching.task(task).await));
                progress.tasks.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let shows = !args.quiet && std::io::stderr().is_terminal();
    let mut interval = tokio::time::interval(PROGRESS_INTERVAL);
    let mut outcomes = Outcomes::new();
    loop {
        tokio::select! {
            done = workers.join_next() => match done {
                Some(done) => outcomes.extend(done.map_err(Failure::failed)?),
                None => break,
            },
            _ = interval.tick(), if shows => {
                let (tasks, bytes) = (&progress.tasks, &progress.bytes);
                let bytes = Bytes(bytes.load(Ordering::Relaxed));
                eprint!("\r\x1b[K{} of {total} tasks, {bytes}", tasks.load(Ordering::Relaxed));
                let _closed = std::io::stderr().flush();
            }
        }
    }
    if shows {
        eprint!("\r\x1b[K");
    }
    Ok(outcomes)
}

/// The job with its tasks.
async fn status(
    connection: &mut Connection,
    address: &Address,
) -> Result<Option<v1::JobStatus>, Failure> {
    let jobs = vec![job_address(address)];
    let request = v1::StatusRequest { jobs, tasks: true, ..Default::default() };
    let answer = connection
        .ask(request, async |mut client, request| client.jobs.status(request).await)
        .await?;
    Ok(answer.jobs.into_iter().next())
}

/// The indexes of the tasks that an address names.
async fn indexes(connection: &mut Connection, address: &Address) -> Result<Vec<u32>, Failure> {
    let request = v1::StatusRequest { jobs: vec![job_address(address)], ..Default::default() };
    let answer = connection
        .ask(request, async |mut client, request| client.jobs.status(request).await)
        .await?;
    let tasks = answer.jobs.first().and_then(|job| job.counts).unwrap_or_default().tasks;
    if !address.tasks.is_within(tasks) {
        let last = tasks.saturating_sub(1);
        let text = format!("error: {} has tasks 0 to {last} only", address.job);
        return Err(Failure::usage(text));
    }
    Ok((0..tasks).filter(|index| address.tasks.contains(TaskIndex(*index))).collect())
}

/// Says what became of the tasks. Exits with 1 if something is not here.
fn tell(
    job: &Address,
    outcomes: &Outcomes,
    status: Option<&v1::JobStatus>,
    quiet: bool,
) -> ExitCode {
    let (mut new, mut here, mut nothing, mut waiting) = (0_u32, 0_u32, Vec::new(), Vec::new());
    let (mut files, mut bytes, mut skipped, mut failed) = (0, 0, 0_u32, 0_usize);
    for (task, outcome) in outcomes {
        match outcome {
            Ok(Fetched::New { copied, left_out, waits }) => {
                if !waits.is_empty() {
                    say(&format!("task {task}: {waits}\n"));
                }
                new += 1;
                files += copied.files;
                bytes += copied.bytes;
                for what in left_out {
                    skipped += 1;
                    say(&format!("task {task}: skipped {what}\n"));
                }
            }
            Ok(Fetched::IsHere) => here += 1,
            Ok(Fetched::InPackage(package)) => say(&format!(
                "task {task}: its outputs are package {package}, which jobs mount (packages)\n"
            )),
            Ok(Fetched::Nothing) => nothing.push(*task),
            Ok(Fetched::NotEnded) => waiting.push(*task),
            Err(failure) => {
                failed += 1;
                if failed <= FAILURES_SHOWN {
                    let text = failure.to_string();
                    let text = text.strip_prefix("error: ").unwrap_or(&text);
                    say(&format!("error: task {task}: {text}\n"));
                }
            }
        }
    }
    if failed > FAILURES_SHOWN {
        say(&format!("error: and {} more tasks\n", failed - FAILURES_SHOWN));
    }
    if !quiet {
        let (of_tasks, of_files) = (plural(new, "task"), plural(files, "file"));
        let before = if here > 0 { format!("; {here} were here") } else { String::new() };
        say(&format!("fetched {of_tasks}: {of_files}, {}{before}\n", Bytes(bytes)));
        if !nothing.is_empty() {
            say(&format!("{} left nothing\n", named(&nothing)));
        }
    }
    if !waiting.is_empty() {
        say(&not_ended(&shown_job(job), &waiting, status));
    }
    ExitCode::from(u8::from(failed > 0 || skipped > 0 || !waiting.is_empty()))
}

/// `ana/pi`, or `pi` of the user who asks.
fn shown_job(job: &Address) -> String {
    match &job.user {
        Some(user) => format!("{user}/{}", job.job),
        None => job.job.to_string(),
    }
}

/// What the tasks that have not ended do, and how to wait for them. What they have written so far can be copied.
fn not_ended(job: &str, waiting: &[u32], status: Option<&v1::JobStatus>) -> String {
    let mut doing: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    let mut runs = None;
    let tasks = status.map(|job| job.tasks.as_slice()).unwrap_or_default();
    for index in waiting {
        let task = tasks.iter().find(|task| task.index == *index);
        let does = match task.map(v1::TaskStatus::state) {
            Some(v1::TaskState::Running) => {
                runs = runs.or(Some(*index));
                "still running"
            }
            Some(v1::TaskState::Queued | v1::TaskState::Pending | v1::TaskState::Starting) => {
                "not started yet"
            }
            Some(v1::TaskState::Stopping) => "being stopped",
            _ => "not ended",
        };
        doing.entry(does).or_default().push(*index);
    }
    let mut text = String::new();
    for (does, tasks) in &doing {
        text.push_str(&format!("error: {}: {does}; outputs are kept at the end\n", named(tasks)));
    }
    let outputs = status.and_then(|job| job.spec.as_ref()?.outputs.first());
    let now = match (runs, outputs) {
        (Some(task), Some(path)) => {
            let path = path.escape_debug();
            format!("; what is there now: bourg cp {job}/{task}:{path} .")
        }
        _ => String::new(),
    };
    text.push_str(&format!("next: bourg wait {job} --for dead, then the same again{now}\n"));
    text
}

fn plural(count: impl Into<u64>, what: &str) -> String {
    let count = count.into();
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// `task 3`, `tasks 0-2,7`; the tasks are in order.
fn named(tasks: &[u32]) -> String {
    let mut ranges: Vec<(TaskIndex, TaskIndex)> = Vec::new();
    for task in tasks {
        match ranges.last_mut() {
            Some((_, last)) if last.0.checked_add(1) == Some(*task) => *last = TaskIndex(*task),
            _ => ranges.push((TaskIndex(*task), TaskIndex(*task))),
        }
    }
    let word = if tasks.len() == 1 { "task" } else { "tasks" };
    format!("{word} {}", TaskSelection::Some(ranges))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_have_not_ended_are_named_with_what_they_do() {
        use v1::TaskState::{Finished, Pending, Queued, Running, Stopping};
        let job = |states: &[v1::TaskState], outputs: &[&str]| {
            let task = |(index, state): (u32, &v1::TaskState)| v1::TaskStatus {
                index,
                state: (*state).into(),
                ..v1::TaskStatus::default()
            };
            let outputs = outputs.iter().map(ToString::to_string).collect();
            v1::JobStatus {
                tasks: (0..).zip(states).map(task).collect(),
                spec: Some(v1::JobSpec { outputs, ..v1::JobSpec::default() }),
                ..v1::JobStatus::default()
            }
        };
        let wait = "next: bourg wait ana/pi --for dead, then the same again";
        let kept = "outputs are kept at the end";
        for (states, outputs, waiting, said) in [
            (
                &[Running, Finished, Running][..],
                &["out", "log"][..],
                &[0, 2][..],
                format!(
                    "error: tasks 0,2: still running; {kept}\n{wait}; what is there now: bourg cp ana/pi/0:out .\n"
                ),
            ),
            (
                &[Pending, Queued, Stopping],
                &["out"],
                &[0, 1, 2],
                format!(
                    "error: task 2: being stopped; {kept}\nerror: tasks 0-1: not started yet; {kept}\n{wait}\n"
                ),
            ),
            // One has ended meanwhile, and the other is gone.
            (
                &[Finished],
                &["out"],
                &[0, 1],
                format!("error: tasks 0-1: not ended; {kept}\n{wait}\n"),
            ),
        ] {
            assert_eq!(not_ended("ana/pi", waiting, Some(&job(states, outputs))), said);
        }
    }

    #[test]
    fn tasks_are_named_in_ranges() {
        for (tasks, text) in [
            (&[3][..], "task 3"),
            (&[0, 1, 2, 7], "tasks 0-2,7"),
            (&[1, 3, 5], "tasks 1,3,5"),
            (&[u32::MAX - 1, u32::MAX], "tasks 4294967294-4294967295"),
        ] {
            assert_eq!(named(tasks), text);
        }
        assert_eq!(
            (plural(1_u32, "file"), plural(0_u64, "file")),
            ("1 file".into(), "0 files".into())
        );
    }
}
