//! What jobs do, in words.

use std::borrow::Cow;

use api::{v1, word};

/// The state of a job as people see it. In the life cycle it is running from when its first task has a machine;
/// while no program of it runs it is shown as starting, or as pending if it has no machine, either. One that was
/// resized to nothing, or that no machine of the cell suits, has no tasks.
#[must_use]
pub fn job_state(job: &v1::JobStatus) -> Cow<'static, str> {
    let state = word::<v1::JobState>(job.state);
    let lives = matches!(job.state(), v1::JobState::Pending | v1::JobState::Running);
    if lives && job.counts.is_some_and(|counts| counts.tasks == 0) {
        return "no tasks".into();
    }
    let Some(counts) = job.counts.filter(|_| job.state() == v1::JobState::Running) else {
        return state;
    };
    let ended = counts.finished > 0 || counts.failed > 0 || counts.killed > 0;
    match (counts.running, counts.scheduled, counts.pending) {
        (0, 1.., _) if !ended => "starting".into(),
        (0, 0, 1..) if !ended => word::<v1::JobState>(v1::JobState::Pending.into()),
        _ => state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_running_once_a_program_of_it_runs() {
        use v1::JobState::{Failed, Finished, Pending, Queued, Running};
        // Its state, its tasks that have a machine, those that run, those that are pending, those that finished;
        // what is shown.
        let cases = [
            (Queued, [0, 0, 0, 0], "queued"),
            (Pending, [0, 0, 3, 0], "pending"),
            (Running, [3, 0, 0, 0], "starting"),
            (Running, [1, 0, 2, 0], "starting"),
            (Running, [1, 1, 2, 0], "running"),
            (Running, [0, 0, 3, 0], "pending"),
            (Running, [0, 0, 1, 2], "running"),
            (Finished, [0, 0, 0, 3], "finished"),
            (Failed, [0, 0, 0, 3], "failed"),
        ];
        for (state, [scheduled, running, pending, finished], expected) in cases {
            let counts = v1::JobCounts {
                tasks: 3,
                scheduled,
                running,
                pending,
                finished,
                ..Default::default()
            };
            let job =
                v1::JobStatus { state: state.into(), counts: Some(counts), ..Default::default() };
            assert_eq!(job_state(&job), expected, "{counts:?}");
        }
        for (state, expected) in [(Pending, "no tasks"), (Queued, "queued"), (Finished, "finished")]
        {
            let counts = Some(v1::JobCounts::default());
            let empty = v1::JobStatus { state: state.into(), counts, ..Default::default() };
            assert_eq!(job_state(&empty), expected);
        }
        let unknown = v1::JobStatus { state: Running.into(), ..v1::JobStatus::default() };
        assert_eq!(job_state(&unknown), "running");
    }
}
