//! When tasks without a health check have run long enough: a program that does not find its configuration, its
//! data or its port ends soon after its start, and is healthy until then as far as the cell knows.

use std::time::Duration;

use api::v1;
use model::{Span, Time};

/// So long has each task to run, if nothing went wrong.
const FIRST_RUN: Span = Span::from_secs(2);
/// So long after one has failed.
const AFTER_FAILURE: Span = Span::from_secs(10);

/// How long the tasks have to run before they count as healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settling {
    /// They are as healthy as the cell says.
    No,
    /// The command has just started them.
    Started,
    /// One of them has failed meanwhile.
    Failed,
}

/// How long the newest of the tasks that run has still to run, as of a time of the master; `None` if all have run
/// long enough, or a health check says how they are.
pub(super) fn left(job: &v1::JobStatus, settling: Settling, now: Time) -> Option<Duration> {
    let needed = match settling {
        Settling::No => return None,
        Settling::Started => FIRST_RUN,
        Settling::Failed => AFTER_FAILURE,
    };
    let spec = job.spec.as_ref()?;
    if spec.health_check.is_some() || spec.allocs.is_some() {
        return None;
    }
    let runs = job.tasks.iter().filter(|task| task.state() == v1::TaskState::Running);
    let newest = Time(runs.map(|task| task.since).max()?);
    let left = needed.0.saturating_sub(now.since(newest).0);
    (left > 0).then(|| Duration::from_micros(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_without_a_check_run_for_a_while_before_they_count_as_healthy() {
        use Settling::{Failed, No, Started};
        use v1::TaskState::{Finished, Running};
        let now = Time(20_000_000);
        let checked = Some(v1::HealthCheck::default());
        // The health check; the states of the tasks and for how many seconds they are in it; the seconds left.
        for (check, tasks, settling, seconds) in [
            (None, &[(Running, 1)][..], Started, Some(1)),
            (None, &[(Running, 1)], Failed, Some(9)),
            (None, &[(Running, 1)], No, None),
            (None, &[(Running, 4)], Started, None),
            (None, &[(Running, 4)], Failed, Some(6)),
            (None, &[(Running, 15), (Running, 1)], Started, Some(1)),
            (None, &[(Running, 15), (Finished, 1)], Started, None),
            (None, &[], Started, None),
            (checked, &[(Running, 1)], Failed, None),
        ] {
            let task = |(state, age): &(v1::TaskState, u64)| v1::TaskStatus {
                state: (*state).into(),
                since: now.0 - age * 1_000_000,
                ..v1::TaskStatus::default()
            };
            let spec = v1::JobSpec { health_check: check, ..v1::JobSpec::default() };
            let tasks_are: Vec<_> = tasks.iter().map(task).collect();
            let job = v1::JobStatus { spec: Some(spec), tasks: tasks_are, ..Default::default() };
            assert_eq!(
                left(&job, settling, now),
                seconds.map(Duration::from_secs),
                "{tasks:?} {settling:?}"
            );
        }
    }
}
