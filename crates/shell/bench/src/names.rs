//! `bourg bench names`: what names cost a replica: following the changes of a large cell, and answering
//! from it.
//!
//! The cell is that of `bourg bench apply`. Tasks start one after the other; after each, the names take in
//! the operation, as they do in a replica. Not here: sockets (`cargo run --release -p nameserver --example
//! queries` measures them).

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bns::Changes;
use cell::{Job, Observation, Op};
use command::Done;
use command::output::{self, Format};
use model::{Bytes, InstanceId, TaskIndex, Time};
use serde::Serialize;

use super::apply::{ApplySize, filled, resident};
use super::thread_time;

/// The results.
#[derive(Debug, Serialize)]
struct Figures {
    machines: u64,
    jobs: usize,
    tasks: u64,
    /// The memory of what is kept for names.
    names_bytes: u64,
    /// The time until all names are known, at a start.
    begin_ms: f64,
    /// Operations that were taken in, each with one task that has changed.
    operations: u32,
    /// CPU time to take in one of them.
    follow_us: f64,
    follow_us_max: f64,
    /// The number of tasks in the largest job, and CPU time to read its record.
    largest: u32,
    record_us: f64,
}

/// Fills a cell, and measures its names.
pub(crate) fn names(size: ApplySize, json: bool) -> Done {
    let figures = measure(size)?;
    let format = if json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "names", || {
        format!(
            "names of {} tasks in {} jobs on {} machines: {}, known after {} ms; {} µs for an \
             operation (at most {}), {} µs for the record of {} tasks\n",
            figures.tasks,
            figures.jobs,
            figures.machines,
            Bytes(figures.names_bytes),
            figures.begin_ms,
            figures.follow_us,
            figures.follow_us_max,
            figures.record_us,
            figures.largest
        )
    })
}

fn measure(size: ApplySize) -> anyhow::Result<Figures> {
    let mut cell = filled(size, |id| format!("10.0.{}.{}:7801", id / 250, id % 250))?;
    let (before, begun) = (resident()?, Instant::now());
    let mut changes = Changes::of(&cell);
    let begin = begun.elapsed();
    let names_bytes = resident()?.saturating_sub(before);

    // The first task of as many jobs as there are operations.
    let first = |job: &Arc<Job>| job.instance(TaskIndex(0));
    let most = usize::try_from(size.operations)?;
    let instances: Vec<InstanceId> = cell.jobs().filter_map(first).take(most).collect();
    let (mut operations, mut spent, mut longest) = (0, Duration::ZERO, Duration::ZERO);
    for instance in instances {
        let machine = cell.placement(instance).context("a task has no machine")?.machine;
        let observations = vec![Observation::started(instance)];
        let at = Time(cell.time().0 + 10);
        let applied = cell.apply(at, &Op::Observe { machine, observations });
        let (index, begun) = (changes.index(), thread_time());
        changes.applied(&cell, &applied.events);
        let took = thread_time().saturating_sub(begun);
        ensure!(changes.after(index)?.count() == 1, "a change was missed");
        (operations, spent, longest) = (operations + 1, spent + took, longest.max(took));
    }
    let largest = cell.jobs().max_by_key(|job| job.spec.tasks).context("a cell without jobs")?;
    let begun = thread_time();
    let tasks = bns::tasks(&cell, largest).filter(|task| !task.host.is_empty()).count();
    let record = thread_time().saturating_sub(begun);
    ensure!(tasks == largest.spec.tasks as usize, "tasks are missing in a record");
    Ok(Figures {
        machines: size.machines,
        jobs: cell.job_count(),
        tasks: cell.task_count(),
        names_bytes,
        begin_ms: micros(begin) / 1e3,
        operations,
        follow_us: micros(spent / operations.max(1)),
        follow_us_max: micros(longest),
        largest: largest.spec.tasks,
        record_us: micros(record),
    })
}

fn micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e8).round() / 100.0
}
