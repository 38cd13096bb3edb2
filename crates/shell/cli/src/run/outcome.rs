//! The outcome of a job that the command waited for: a message, the last output of a failed task,
//! and an exit status.

use std::time::Duration;

use api::v1::end::How;
use api::{v1, word};
use command::{Code, Failure};
use model::{TaskIndex, TaskSelection};

use crate::run;
use crate::run::Far;
use crate::said::starts_lost;

/// The exit status of a process that a signal killed is this plus the signal, as in shells.
const SIGNALLED: u32 = 128;
const SIGKILL: u32 = 9;
/// The exit status if the program could not be started, as in shells.
const NOT_STARTED: u8 = 127;
/// Ranges of failed tasks that a message names.
const RANGES_MAX: usize = 20;

/// The exit status for the end of a failed task; `None` if its program is not what failed.
fn exit_status(task: &v1::TaskStatus) -> Option<u8> {
    let status = match task.last_end.as_ref()?.how.as_ref()? {
        How::Exited(code) => *code,
        How::Signalled(signal) => SIGNALLED.saturating_add(*signal),
        How::OutOfMemory(_) => SIGNALLED + SIGKILL,
        How::NotStarted(_) => return Some(NOT_STARTED),
        How::Unhealthy(_)
        | How::Stopped(_)
        | How::Lost(_)
        | How::BrokeRule(_)
        | How::OutOfResources(_)
        | How::OverRuntime(_) => return None,
    };
    u8::try_from(status).ok().filter(|status| *status > 0)
}

/// The first task that failed permanently.
pub(super) fn failed(job: &v1::JobStatus) -> Option<&v1::TaskStatus> {
    job.tasks.iter().find(|task| task.state() == v1::TaskState::Failed)
}

/// The tasks that failed permanently: the first of many ranges.
fn which_failed(job: &v1::JobStatus) -> String {
    which(job, |task| task.state() == v1::TaskState::Failed)
}

/// Some tasks of a job: the first of many ranges.
fn which(job: &v1::JobStatus, is: impl Fn(&v1::TaskStatus) -> bool) -> String {
    let chosen = job.tasks.iter().filter(|task| is(task));
    let single = chosen.map(|task| (TaskIndex(task.index), TaskIndex(task.index)));
    let mut which = TaskSelection::Some(single.collect()).normalised();
    let mut more = "";
    if let TaskSelection::Some(ranges) = &mut which
        && ranges.len() > RANGES_MAX
    {
        ranges.truncate(RANGES_MAX);
        more = ", …";
    }
    format!("{which}{more}")
}

/// The failure of a job that is dead without having finished, or none of whose running tasks can
/// become healthy. If the command waited for the end, it has the exit status of the first failed
/// task.
pub(super) fn dead(name: &str, job: &v1::JobStatus, end_was_waited_for: bool) -> Failure {
    let counts = job.counts.unwrap_or_default();
    let (failed, state) = (failed(job), word::<v1::JobState>(job.state));
    let failure = if !run::is_dead(job) {
        let all = run::count(run::is_alloc_set(job), counts.tasks);
        let (ended, fail) = (counts.failed + counts.killed, "failed or were killed");
        Failure::failed(format!("error: {ended} of {all} of {name} {fail} permanently"))
            .next(format!("bourg status {name} · bourg kill {name}"))
    } else if let Some(task) = failed.filter(|_| job.state() == v1::JobState::Failed) {
        let (index, end) = (task.index, &task.last_end_text);
        let (what, again) = match counts.tasks {
            0 | 1 => (format!("task {index} {end}"), String::new()),
            all => (
                format!(
                    "{} of {all} tasks failed ({}), the first with: {end}",
                    counts.failed,
                    which_failed(job)
                ),
                format!(" · bourg restart {name} --failed"),
            ),
        };
        Failure::failed(format!("error: {name} {state}: {what}"))
            .next(format!("bourg logs {name}/{index}{again}"))
    } else {
        // Killed by a user, or with another job.
        let why = match (job.reason.as_str(), is_killed_by_user(job)) {
            ("", _) => String::new(),
            (why, true) => format!(" {why}"),
            (why, false) => format!(": {why}"),
        };
        Failure::failed(format!("error: {name} {state}{why}")).next(format!("bourg events {name}"))
    };
    match failed.and_then(exit_status).filter(|_| end_was_waited_for) {
        Some(status) => failure.exit_status(status),
        None => failure,
    }
}

/// Whether a user killed the job, and not the end of another job.
fn is_killed_by_user(job: &v1::JobStatus) -> bool {
    use v1::kill_reason::Why;
    use v1::state_reason::Reason;

    let reason = job.state_reason.as_ref().and_then(|reason| reason.reason.as_ref());
    matches!(reason, Some(Reason::Killed(v1::KillReason { why: Some(Why::User(_) | Why::Now(_)) })))
}

/// The failure of a job whose tasks fail again and again. It stays, and its tasks are retried.
pub(super) fn keeps_failing(name: &str, task: &v1::TaskStatus, failures: u32) -> Failure {
    let (index, end) = (task.index, &task.last_end_text);
    let how = task.last_end.as_ref().and_then(|end| end.how.as_ref());
    if starts_lost(task) > 0
        && let Some(How::Lost(reason)) = how
    {
        return Failure::failed(format!(
            "error: {name} cannot start: {failures} failures, the last of task {index}: {}; it is tried again, and no \
             longer waited for",
            reason.escape_debug()
        ))
        .next(format!("bourg why {name} · bourg kill {name} · bourg run --keep-waiting waits on"));
    }
    let (keeps, times) = match how {
        Some(How::Exited(0)) => ("ending", "ends"),
        _ => ("failing", "failures"),
    };
    Failure::failed(format!(
        "error: {name} keeps {keeps}: {failures} {times}, the last of task {index}: {end}; it is started again, \
         and no longer waited for"
    ))
    .next(format!(
        "bourg logs {name}/{index} · bourg kill {name} · bourg run --keep-waiting waits on"
    ))
}

/// The failure of a job that did not reach the awaited state in time.
pub(super) fn late(name: &str, job: Option<&v1::JobStatus>, wait: Duration, far: Far) -> Failure {
    let Some(job) = job else {
        return Failure::failed(format!("error: {name} does not exist"));
    };
    let (counts, wait) = (job.counts.unwrap_or_default(), wait.as_secs());
    if counts.queued > 0 {
        let until = present::until(&job.waits);
        let text = format!("error: not placed within {wait} s: {name} is queued {until}");
        let look = match job.waits_for.first() {
            Some(first) => format!("bourg status {first}"),
            None => format!("bourg why {name} · bourg queue"),
        };
        return Failure::new(Code::NotPlaced, text).next(format!("{look} · bourg kill {name}"));
    }
    let is_alloc_set = run::is_alloc_set(job);
    if counts.pending > 0
        && job.tasks.iter().all(|task| task.state() != v1::TaskState::Pending || task.restarts == 0)
    {
        let text = format!(
            "error: not placed within {wait} s: {} of the {} of {name}; it stays pending",
            counts.pending,
            run::count(is_alloc_set, counts.tasks)
        );
        return Failure::new(Code::NotPlaced, text)
            .next(format!("bourg why {name} · bourg kill {name}"));
    }
    let is_far = |task: &v1::TaskStatus| match far {
        Far::Healthy => {
            task.state() == v1::TaskState::Finished || task.health() == v1::Health::Healthy
        }
        Far::Finished => task.state() == v1::TaskState::Finished,
        Far::Running => {
            matches!(task.state(), v1::TaskState::Running | v1::TaskState::Finished)
        }
        Far::Dead => task.state().is_dead(),
    };
    let sick = not_ready(job).filter(|_| far == Far::Healthy);
    let sick = sick.or_else(|| job.tasks.iter().find(|task| !is_far(task)).map(how_it_is));
    let text = format!(
        "error: {} of {} tasks of {name} are {far} after {wait} s{}",
        job.tasks.iter().filter(|task| is_far(task)).count(),
        counts.tasks,
        sick.unwrap_or_default()
    );
    let next = match is_alloc_set {
        true => format!("bourg why {name} · bourg status {name}"),
        false => format!("bourg logs {name} · bourg status {name}"),
    };
    Failure::failed(text).next(next)
}

/// `: tasks 0,2 are healthy, but not ready: HTTP 503`, of tasks whose readiness check fails.
fn not_ready(job: &v1::JobStatus) -> Option<String> {
    let is_unready = |task: &&v1::TaskStatus| {
        task.state() == v1::TaskState::Running && task.health() == v1::Health::Unready
    };
    let first = job.tasks.iter().find(is_unready)?;
    let (which, number) =
        (which(job, |task| is_unready(&task)), job.tasks.iter().filter(is_unready).count());
    let are = if number == 1 { "task {} is" } else { "tasks {} are" }.replace("{}", &which);
    let check = match first.check.as_str() {
        "" => String::new(),
        said => format!(": {}", said.escape_debug()),
    };
    Some(format!(": {are} healthy, but not ready{check}"))
}

/// `: task 0 is running, and its check says: HTTP 503, its last run ended with exit code 1`.
fn how_it_is(task: &v1::TaskStatus) -> String {
    let last = match task.last_end_text.as_str() {
        "" => String::new(),
        end => format!(", its last run ended with {end}"),
    };
    let is_checked = task.state() == v1::TaskState::Running && !task.check.is_empty();
    let check = match is_checked {
        true => format!(", its check says: {}", task.check.escape_debug()),
        false => String::new(),
    };
    format!(": task {} is {}{check}{last}", task.index, word::<v1::TaskState>(task.state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failed_tasks_are_named_up_to_a_bound() {
        let job = |failed: &dyn Fn(u32) -> bool| {
            let state = |index| match failed(index) {
                true => v1::TaskState::Failed,
                false => v1::TaskState::Finished,
            };
            let task = |index| v1::TaskStatus {
                index,
                state: state(index).into(),
                ..v1::TaskStatus::default()
            };
            v1::JobStatus { tasks: (0..100).map(task).collect(), ..v1::JobStatus::default() }
        };
        assert_eq!(which_failed(&job(&|index| index == 3 || index == 17)), "3,17");
        assert_eq!(which_failed(&job(&|index| index < 98)), "0-97");
        let many = which_failed(&job(&|index| index % 2 == 0));
        assert!(many.starts_with("0,2,4,") && many.ends_with(",38, …"), "{many}");
    }

    #[test]
    fn tasks_that_are_not_ready_are_named_with_what_their_check_said() {
        use v1::Health::{Healthy, Unknown, Unready};
        let task = |(index, health): (u32, v1::Health)| v1::TaskStatus {
            index,
            state: v1::TaskState::Running.into(),
            health: health.into(),
            check: if health == Healthy { "" } else { "HTTP 503" }.to_owned(),
            ..v1::TaskStatus::default()
        };
        for (healths, said) in [
            (
                &[Healthy, Unready][..],
                "1 of 2 tasks of ana/web are healthy after 9 s: task 1 is healthy, but not ready: HTTP 503",
            ),
            (&[Unready, Healthy, Unready], ": tasks 0,2 are healthy, but not ready: HTTP 503"),
            (&[Healthy, Unknown], ": task 1 is running, its check says: HTTP 503"),
        ] {
            let tasks: Vec<_> = (0..).zip(healths.iter().copied()).map(task).collect();
            let all = u32::try_from(tasks.len()).expect("a few");
            let counts = v1::JobCounts { tasks: all, ..Default::default() };
            let job = v1::JobStatus { tasks, counts: Some(counts), ..v1::JobStatus::default() };
            let late = late("ana/web", Some(&job), Duration::from_secs(9), Far::Healthy);
            assert!(late.to_string().contains(said), "{late}");
        }
    }

    fn ended(how: How) -> v1::TaskStatus {
        let last_end = Some(v1::End { how: Some(how) });
        let state = v1::TaskState::Failed.into();
        v1::TaskStatus { state, last_end, ..v1::TaskStatus::default() }
    }

    #[test]
    fn a_tasks_end_is_an_exit_status_as_shells_have_it() {
        for (how, status) in [
            (How::Exited(3), Some(3)),
            (How::Exited(255), Some(255)),
            (How::Exited(256), None),
            (How::Signalled(15), Some(143)),
            (How::OutOfMemory(v1::OutOfMemory::default()), Some(137)),
            (How::NotStarted("no such file".to_owned()), Some(127)),
            (How::Unhealthy("GET / → 500".to_owned()), None),
            (How::Lost("rebooted".to_owned()), None),
        ] {
            let text = format!("{how:?}");
            assert_eq!(exit_status(&ended(how)), status, "{text}");
        }
        assert_eq!(exit_status(&v1::TaskStatus::default()), None);
    }
}
