//! Any table is read or rejected; any rows result in a cell.

use std::collections::BTreeSet;

use proptest::prelude::*;
use trace::google2011::{JobIn, Scale, StepKind, Trace};

const MACHINES: &str = "machine_id,cpu,memory,platform_id\n1,0.5,0.25,\n2,1,1,\n";

fn read(removals: &str, task_events: &str) -> Option<Trace> {
    let removals = format!("time_us,machine_id,platform_id,cpu,memory\n{removals}");
    let (machines, removals) = (MACHINES.as_bytes(), removals.as_bytes());
    Trace::read(Scale::default(), machines, removals, task_events.as_bytes()).ok()
}

/// Rows that are individually valid and mostly contradict each other.
fn rows() -> impl Strategy<Value = String> {
    let at = prop_oneof![Just(0_u64), 600_000_000..610_000_000_u64];
    let row = (at, 0..3_u8, 0..3_u8, 0..4_u8, 0..9_u8, 0..3_u8, 0..12_u8).prop_map(
        |(at, job, index, machine, kind, user, priority)| {
            let machine = if machine == 0 { String::new() } else { machine.to_string() };
            format!("{at},,{job},{index},{machine},{kind},u{user},2,{priority},0.1,,,1\n")
        },
    );
    proptest::collection::vec(row, 0..60).prop_map(|rows| rows.concat())
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "([0-9,.e\\-]{0,9}|,|\n){0,40}") {
        let _either = read(&text, &text);
    }

    #[test]
    fn a_trace_of_any_rows_has_consistent_parts(rows in rows()) {
        let Some(Trace { snapshot, churn }) = read("", &rows) else {
            return Err(TestCaseError::fail("every row can be"));
        };
        prop_assert_eq!(churn.counts.rows, rows.lines().count() as u64);
        prop_assert_eq!(snapshot.jobs.len(), churn.standing.len());
        for (job, runs) in snapshot.jobs.iter().zip(&churn.standing) {
            prop_assert!(!job.tasks.is_empty());
            prop_assert_eq!(job.tasks.len(), runs.len());
        }
        let mut names = BTreeSet::new();
        for job in snapshot.jobs.iter().chain(churn.arrivals.iter().map(|arrival| &arrival.job)) {
            prop_assert!(names.insert(job.name.clone()));
            prop_assert!(job.tasks.is_sorted_by(|one, two| one.index < two.index));
        }
        prop_assert!(churn.steps.is_sorted_by_key(|step| step.at));
        for step in &churn.steps {
            let StepKind::Kill { job, tasks } = &step.what else { continue };
            let (job, from) = match job {
                JobIn::Snapshot(place) => (&snapshot.jobs[*place], model::Time::ZERO),
                JobIn::Arrivals(place) => {
                    (&churn.arrivals[*place].job, churn.arrivals[*place].at)
                }
            };
            prop_assert!(step.at >= from);
            prop_assert!(tasks.iter().all(|place| *place < job.tasks.len()));
        }
        let ended = churn.counts.finished + churn.counts.failed + churn.counts.killed;
        let standing = churn.standing.iter().flatten();
        let runs = standing.chain(churn.arrivals.iter().flat_map(|arrival| &arrival.runs));
        prop_assert!(runs.map(Vec::len).sum::<usize>() as u64 <= ended);
    }
}
