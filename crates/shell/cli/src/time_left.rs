//! How long tasks may still run (`maxRuntime`).

use api::v1;
use model::{Span, Time};

/// How long a task may still run; none if nothing ends it, or it does not run.
pub(super) fn of(task: &v1::TaskStatus, now: u64) -> Option<Span> {
    let runs = task.state() == v1::TaskState::Running && task.must_end > 0;
    runs.then(|| Time(task.must_end).since(Time(now)))
}

/// A line for each task that is bounded: `task 0 has 12 m left until maxRuntime ends it`.
pub(super) fn lines(job: &v1::JobStatus, now: u64) -> String {
    let line = |task: &v1::TaskStatus| {
        let left = of(task, now)?;
        Some(format!("task {} has {left} left until maxRuntime ends it\n", task.index))
    };
    job.tasks.iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_runs_says_how_much_time_it_has_left() {
        let task = |index, state: v1::TaskState, must_end| v1::TaskStatus {
            index,
            state: state.into(),
            must_end,
            ..v1::TaskStatus::default()
        };
        let tasks = vec![
            task(0, v1::TaskState::Running, 90_000_000),
            task(1, v1::TaskState::Running, 0),
            task(2, v1::TaskState::Running, 10_000_000),
            task(3, v1::TaskState::Stopping, 90_000_000),
        ];
        let job = v1::JobStatus { tasks, ..v1::JobStatus::default() };
        let shown = "\
task 0 has 1 m left until maxRuntime ends it
task 2 has 0 s left until maxRuntime ends it
";
        assert_eq!(lines(&job, 30_000_000), shown);
    }
}
