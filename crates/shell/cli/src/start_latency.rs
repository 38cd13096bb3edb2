//! Where the time of the starts of tasks went, as a table and in a line.

use api::v1;
use command::output;
use model::{StartLatency, StartPart};

/// The table of `-o wide`: a row for each task of which something is known. Empty if there is none.
pub(super) fn table(job: &v1::JobStatus) -> String {
    let known = job.tasks.iter().filter_map(|task| Some((task, known(task)?)));
    let row = |(task, latency): (&v1::TaskStatus, StartLatency)| {
        let shown = |part| latency.part(part).map_or("-".to_owned(), |took| took.to_string());
        let mut row = vec![task.index.to_string()];
        row.extend(StartPart::ALL.map(shown));
        row.push(latency.total().to_string());
        row
    };
    let rows: Vec<_> = known.map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let headings = ["TASK", "QUEUE", "DECIDE", "FETCH", "START", "HEALTHY", "TOTAL"];
    format!("where the time of the starts went:\n{}", output::table(&headings, rows))
}

/// A line for each task: `task 0 started in 21 s: queue 1 s, decide 3 ms, fetch 20 s, start 80 ms`.
pub(super) fn lines(job: &v1::JobStatus) -> String {
    let known = job.tasks.iter().filter_map(|task| Some((task, known(task)?)));
    let line = |(task, latency): (&v1::TaskStatus, StartLatency)| {
        let index = task.index;
        match task.state() {
            v1::TaskState::Starting => {
                format!("task {index} is starting: {latency} until it had a machine\n")
            }
            _ => format!("task {index} started in {}: {latency}\n", latency.total()),
        }
    };
    known.map(line).collect()
}

/// What is known of a task's start.
fn known(task: &v1::TaskStatus) -> Option<StartLatency> {
    let latency = api::start_latency::read(task.start_latency.as_ref()).unwrap_or_default();
    (!latency.is_unknown()).then_some(latency)
}

#[cfg(test)]
mod tests {
    use model::Span;

    use super::*;

    fn job() -> v1::JobStatus {
        let task = |index, state: v1::TaskState, parts: &[(StartPart, u64)]| {
            let add = |latency: StartLatency, (part, milliseconds): &(StartPart, u64)| {
                latency.with(*part, Span::from_millis(*milliseconds))
            };
            let latency = parts.iter().fold(StartLatency::UNKNOWN, add);
            let start_latency = api::start_latency::message(latency);
            v1::TaskStatus { index, state: state.into(), start_latency, ..Default::default() }
        };
        use StartPart::{Decide, Fetch, Healthy, Queue, Start};
        let all = [(Queue, 1_000), (Decide, 3), (Fetch, 20_000), (Start, 80), (Healthy, 1_500)];
        let tasks = vec![
            task(0, v1::TaskState::Running, &all),
            task(1, v1::TaskState::Starting, &all[..2]),
            task(2, v1::TaskState::Pending, &[]),
        ];
        v1::JobStatus { tasks, ..v1::JobStatus::default() }
    }

    #[test]
    fn the_table_has_each_task_of_which_something_is_known() {
        let shown = "\
where the time of the starts went:
TASK  QUEUE  DECIDE  FETCH  START  HEALTHY  TOTAL
0     1 s    3 ms    20 s   80 ms  1.5 s    22.5 s
1     1 s    3 ms    -      -      -        1 s
";
        assert_eq!(table(&job()), shown);
        assert_eq!(table(&v1::JobStatus::default()), "");
    }

    #[test]
    fn a_line_says_what_is_known_of_a_task() {
        let shown = "\
task 0 started in 22.5 s: queue 1 s, decide 3 ms, fetch 20 s, start 80 ms, healthy 1.5 s
task 1 is starting: queue 1 s, decide 3 ms until it had a machine
";
        assert_eq!(lines(&job()), shown);
    }
}
