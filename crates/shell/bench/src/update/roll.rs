//! Updates that restart every task of the job, one of them with a fail-over in the middle.

use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use cell::{UpdateJob, UpdateState};
use model::{Span, TaskSelection, Version};
use serde::Serialize;
use spec::JobSpec;

use super::steered::Steered;

/// The results of an update.
#[derive(Debug, Serialize)]
pub(super) struct Rolled {
    pub(super) changes: usize,
    /// The maximum number of tasks that were down at once.
    pub(super) down_max: u32,
    pub(super) simulated_seconds: f64,
    pub(super) operations: u64,
    pub(super) step_operations: u64,
    pub(super) observe_operations: u64,
    pub(super) operations_per_task: f64,
    pub(super) polls: u64,
    pub(super) orders: u64,
    /// Of the replica's steps: proposing, encoding, applying, controllers, orders and reports.
    pub(super) cpu_seconds: f64,
    pub(super) cpu_us_per_task: f64,
    /// Of a second without an update, in which the machines are polled.
    pub(super) idle_cpu_ms_per_second: f64,
    pub(super) cpu_us_per_task_without_polls: f64,
    pub(super) bound_us: f64,
    /// With the polls.
    pub(super) held: bool,
}

/// The results of an update with a fail-over.
#[derive(Debug, Serialize)]
pub(super) struct FailedOver {
    pub(super) changes: usize,
    /// The committed changes before it, and those on their way to the disk, which it loses.
    pub(super) changed_before: usize,
    pub(super) steps_not_durable: usize,
    /// Committed changes of tasks that were changed already, and tasks that were not changed.
    pub(super) steps_repeated: u32,
    pub(super) steps_lost: usize,
    /// From the start of the new leader to the next committed change.
    pub(super) next_step_simulated_ms: f64,
    pub(super) next_step_cpu_ms: f64,
    pub(super) simulated_seconds: f64,
    pub(super) down_max: u32,
}

const BOUND_US: f64 = 1_000.0;
/// How long the idle cell is watched.
const IDLE: Span = Span::from_secs(20);
/// The maximum time of an update.
const PATIENCE: Span = Span::from_secs(24 * 3_600);

/// An update in an undisturbed cell.
#[expect(clippy::cast_precision_loss, reason = "rates, rounded for display")]
pub(super) fn roll(steered: &mut Steered) -> anyhow::Result<Rolled> {
    steered.begin_counts();
    steered.run_for(IDLE)?;
    let idle = steered.cpu.as_secs_f64() / seconds(IDLE);
    steered.begin_counts();
    let begun = steered.now;
    let version = open(steered)?;
    until_done(steered, |_| false)?;
    check(steered, version)?;
    let simulated_seconds = seconds(steered.now.since(begun));
    let (tasks, cpu) = (f64::from(steered.job()?.spec.tasks), steered.cpu.as_secs_f64());
    let counts = &steered.counts;
    let cpu_us_per_task = rounded(cpu * 1e6 / tasks);
    Ok(Rolled {
        changes: counts.changes.len(),
        down_max: counts.down_max,
        simulated_seconds: rounded(simulated_seconds),
        operations: counts.operations,
        step_operations: counts.step_operations,
        observe_operations: counts.observe_operations,
        operations_per_task: rounded(counts.operations as f64 / tasks),
        polls: counts.polls,
        orders: counts.orders,
        cpu_seconds: rounded(cpu),
        cpu_us_per_task,
        idle_cpu_ms_per_second: rounded(idle * 1e3),
        cpu_us_per_task_without_polls: rounded((cpu - idle * simulated_seconds) * 1e6 / tasks),
        bound_us: BOUND_US,
        held: cpu_us_per_task < BOUND_US,
    })
}

/// An update whose leader is replaced in the middle, while steps are on their way to its disk.
pub(super) fn fail_over(steered: &mut Steered) -> anyhow::Result<FailedOver> {
    let tasks = steered.job()?.spec.tasks;
    steered.begin_counts();
    let begun = steered.now;
    let version = open(steered)?;
    let half = tasks as usize / 2;
    until_done(steered, |steered| steered.counts.changes.len() >= half && steered.not_durable > 0)?;
    let (changed_before, steps_not_durable) = (steered.counts.changes.len(), steered.not_durable);
    let (at, cpu) = (steered.now, steered.cpu);
    steered.restart()?;
    until_done(steered, |steered| steered.counts.changes.len() > changed_before)?;
    let (next_at, next_cpu) = steered.counts.last_change.context("no step followed")?;
    until_done(steered, |_| false)?;
    check(steered, version)?;
    let counts = &steered.counts;
    Ok(FailedOver {
        changes: counts.changes.len(),
        changed_before,
        steps_not_durable,
        steps_repeated: counts.changes.values().map(|times| times - 1).sum(),
        steps_lost: tasks as usize - counts.changes.len(),
        next_step_simulated_ms: rounded(seconds(next_at.since(at)) * 1e3),
        next_step_cpu_ms: rounded(next_cpu.saturating_sub(cpu).as_secs_f64() * 1e3),
        simulated_seconds: rounded(seconds(steered.now.since(begun))),
        down_max: counts.down_max,
    })
}

/// Opens an update to another command.
fn open(steered: &mut Steered) -> anyhow::Result<Version> {
    let job = steered.job()?;
    let mut spec = JobSpec::clone(&job.spec);
    let argument = spec.task.cmd.last_mut().context("a command")?;
    *argument = format!("--version={}", job.last_version.0 + 1);
    let (owner, spec, tasks) = (job.owner.clone(), Arc::new(spec), TaskSelection::All);
    let update = UpdateJob { owner, spec, tasks, policy: None, expected: None };
    match steered.request(update.into())? {
        cell::Reply::Updated { version, unchanged: false, .. } => Ok(version),
        other => bail!("{other:?}"),
    }
}

/// Goes on until the update has succeeded, or something else is true.
fn until_done(steered: &mut Steered, or: impl Fn(&Steered) -> bool) -> anyhow::Result<()> {
    let until = steered.now + PATIENCE;
    loop {
        let update = steered.job()?.update.as_ref().context("there is no update")?;
        match &update.state {
            UpdateState::Succeeded { .. } => return Ok(()),
            UpdateState::Rolling if steered.now < until => {}
            _ => bail!("the update goes wrong: {update:?}"),
        }
        if or(steered) {
            return Ok(());
        }
        steered.turn()?;
    }
}

/// Each task was changed exactly once: by one step, which was committed, and by one start on its
/// machine; all have the new version, and never more were down than the budget allows.
fn check(steered: &Steered, version: Version) -> anyhow::Result<()> {
    let (job, counts) = (steered.job()?, &steered.counts);
    let tasks = job.spec.tasks;
    for (what, times) in [("changed", &counts.changes), ("started", &counts.starts)] {
        for index in 0..tasks {
            let times = times.get(&index).copied().unwrap_or_default();
            ensure!(times == 1, "task {index} was {what} {times} times");
        }
    }
    let old = job.tasks().find(|(_, task)| task.version != version);
    ensure!(old.is_none(), "a task has another version: {old:?}");
    let update = job.update.as_ref().context("there is no update")?;
    let disruptions = update.disruptions;
    ensure!(disruptions == tasks, "{disruptions} disruptions of {tasks} tasks");
    let (down, most) = (counts.down_max, job.spec.down_max());
    ensure!(down <= most, "{down} tasks were down at once, and {most} may be");
    let violations = steered.cell().check();
    ensure!(violations.is_empty(), "the cell is inconsistent: {violations:?}");
    Ok(())
}

fn seconds(span: Span) -> f64 {
    span.to_std().as_secs_f64()
}

fn rounded(number: f64) -> f64 {
    (number * 1e2).round() / 1e2
}
