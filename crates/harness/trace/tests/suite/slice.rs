//! The embedded slice of the real cell.

use std::collections::BTreeSet;

use model::{Dimension, Resources, Time};
use trace::google2011::{ChurnCounts, Scale, Trace, slice};
use trace::{CellSnapshot, Dropped, Job, PerMille};

fn trace() -> Trace {
    slice::read(Scale::default())
}

#[test]
fn the_slice_is_a_twenty_fifth_of_the_cell() {
    let Trace { snapshot, churn } = trace();
    assert_eq!(snapshot.machines.len(), 495);
    assert_eq!((snapshot.running(), snapshot.pending()), (5_379, 508));
    assert_eq!(snapshot.dropped, Dropped::default());
    assert_eq!(churn.outages.len(), 302);
    assert_eq!(
        churn.counts,
        ChurnCounts {
            rows: 18_214,
            submitted: 1_909,
            restarts: 210,
            scheduled: 2_302,
            evictions: 185,
            finished: 1_742,
            failed: 18,
            killed: 397,
            ..ChurnCounts::default()
        }
    );
}

#[test]
fn the_slice_has_the_request_ratio_of_the_whole_cell() {
    let snapshot = trace().snapshot;
    let per_cent = |tasks: Resources, dimension| {
        tasks.get(dimension) * 100 / snapshot.capacity().get(dimension)
    };
    // Of the whole: 112 and 92, production alone 72 and 58.
    let running = requested(&snapshot, |_| true);
    assert_eq!((per_cent(running, Dimension::Cpu), per_cent(running, Dimension::Ram)), (114, 93));
    let prod = requested(&snapshot, |job| job.priority.is_prod());
    assert_eq!((per_cent(prod, Dimension::Cpu), per_cent(prod, Dimension::Ram)), (72, 57));
}

#[test]
fn production_over_commits_memory_on_no_machine() {
    let snapshot = trace().snapshot;
    let mut left: Vec<Resources> = snapshot.machines.iter().map(|m| m.capacity).collect();
    for job in snapshot.jobs.iter().filter(|job| job.priority.is_prod()) {
        for task in &job.tasks {
            let Some(machine) = task.machine else { continue };
            assert!(task.request.ram <= left[machine].ram, "{}/{}", job.name, task.index);
            left[machine] = left[machine].minus(task.request);
        }
    }
}

#[test]
fn no_job_that_wants_different_machines_has_two_tasks_on_one() {
    let snapshot = trace().snapshot;
    let apart = snapshot.jobs.iter().filter(|job| job.different_machines);
    let mut several = 0;
    for job in apart {
        let machines: Vec<usize> = job.tasks.iter().filter_map(|task| task.machine).collect();
        let different: BTreeSet<&usize> = machines.iter().collect();
        assert_eq!(different.len(), machines.len(), "{}", job.name);
        several += usize::from(machines.len() > 1);
    }
    assert!(several > 50, "{several}");
}

#[test]
fn every_job_of_the_slice_can_be_submitted() {
    let Trace { snapshot, churn } = trace();
    let arrivals = churn.arrivals.iter().map(|arrival| &arrival.job);
    let mut names = BTreeSet::new();
    for job in snapshot.jobs.iter().chain(arrivals) {
        assert_eq!(job.spec(PerMille::ALL).problems(), [], "{}", job.name);
        assert!(names.insert(job.name.clone()), "{} is there twice", job.name);
    }
    let overrides: usize = snapshot.specs(PerMille::ALL).map(|spec| spec.overrides.len()).sum();
    assert!(overrides < 700, "{overrides} overrides for 5,887 tasks");
}

#[test]
fn the_churn_has_runs_for_every_task_in_order_of_time() {
    let Trace { snapshot, churn } = trace();
    let tasks = |job: &Job| job.tasks.len();
    let runs: Vec<usize> = churn.standing.iter().map(Vec::len).collect();
    assert_eq!(snapshot.jobs.iter().map(tasks).collect::<Vec<_>>(), runs);
    assert!(churn.arrivals.iter().all(|arrival| tasks(&arrival.job) == arrival.runs.len()));
    assert!(churn.steps.is_sorted_by_key(|step| step.at));
    assert!(churn.steps.iter().all(|step| step.at > Time::ZERO));
}

fn requested(snapshot: &CellSnapshot, of: impl Fn(&Job) -> bool) -> Resources {
    let jobs = snapshot.jobs.iter().filter(|job| of(job));
    let tasks = jobs.flat_map(|job| &job.tasks).filter(|task| task.machine.is_some());
    tasks.fold(Resources::default(), |sum, task| sum.plus(task.request))
}
