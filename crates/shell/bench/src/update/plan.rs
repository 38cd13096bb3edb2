//! Plans: what a master does to answer `bourg plan`, without the words of the answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, ensure};
use cell::{Cell, ChangeKind, Job, Mutation, UpdateJob};
use model::{Bytes, MilliCores, TaskIndex, TaskSelection};
use serde::Serialize;
use spec::JobSpec;

use super::made::in_half;
use crate::scheduling::run::{Spent, Stopwatch};

/// A change's plan.
#[derive(Debug, Serialize)]
pub(super) struct Planned {
    pub(super) change: &'static str,
    pub(super) in_place: u32,
    pub(super) restart: u32,
    pub(super) moves: u32,
    /// Of the tasks that would be stopped, those for which there is a machine.
    pub(super) placed: usize,
    pub(super) unplaced: usize,
    pub(super) median_ms: f64,
    pub(super) max_ms: f64,
    pub(super) cpu_median_ms: f64,
    pub(super) cpu_max_ms: f64,
    /// What the change does to each task; the cell after it; machines for the stopped tasks. The
    /// medians, of processor time.
    pub(super) kinds_cpu_ms: f64,
    pub(super) preview_cpu_ms: f64,
    pub(super) placing_cpu_ms: f64,
    pub(super) bound_ms: f64,
    /// By the longest.
    pub(super) held: bool,
}

const BOUND_MS: f64 = 100.0;

/// A change of a job that is planned.
#[derive(Clone, Copy)]
struct PlannedChange {
    name: &'static str,
    edit: fn(&mut JobSpec),
    /// What it does to every task that has room for it.
    expected: ChangeKind,
}

/// The planned changes.
const CHANGES: [PlannedChange; 3] = [
    PlannedChange {
        name: "another command",
        edit: |spec| spec.task.cmd.push("--more".to_owned()),
        expected: ChangeKind::Restart,
    },
    PlannedChange {
        name: "higher limits",
        edit: |spec| {
            spec.task.limit.cpu = MilliCores(spec.task.limit.cpu.0 + 1);
            spec.task.limit.ram = Bytes(spec.task.limit.ram.0 + (1 << 20));
        },
        expected: ChangeKind::InPlace,
    },
    PlannedChange {
        name: "other machines",
        edit: |spec| spec.task.constraints = vec![in_half("b")],
        expected: ChangeKind::Move,
    },
];

/// One plan, and the time of its parts.
struct PlanRun {
    kinds: BTreeMap<ChangeKind, u32>,
    placed: usize,
    unplaced: usize,
    parts: [Spent; 3],
    all: Spent,
}

/// Plans each change so often.
pub(super) fn measure(cell: &Cell, job: &Job, runs: u16) -> anyhow::Result<Vec<Planned>> {
    let changes = CHANGES.into_iter();
    changes.map(|change| planned(cell, job, change, runs)).collect()
}

fn planned(cell: &Cell, job: &Job, change: PlannedChange, runs: u16) -> anyhow::Result<Planned> {
    let PlannedChange { name: change, edit, expected } = change;
    let mut spec = JobSpec::clone(&job.spec);
    edit(&mut spec);
    let spec = Arc::new(spec);
    let runs = (0..runs).map(|_| plan(cell, job, &spec));
    let runs = runs.collect::<anyhow::Result<Vec<_>>>()?;
    let first = runs.first().context("no plan was made")?;
    let of = |kind| first.kinds.get(&kind).copied().unwrap_or_default();
    let kinds = &first.kinds;
    // Where a machine is full, a task that grows moves.
    let as_expected = kinds.keys().all(|kind| [expected, ChangeKind::Move].contains(kind));
    ensure!(of(expected) > 0 && as_expected, "{change} does something else: {kinds:?}");
    let sorted = |time: fn(&PlanRun) -> f64| {
        let mut times: Vec<f64> = runs.iter().map(time).collect();
        times.sort_unstable_by(f64::total_cmp);
        times
    };
    let median = |time: fn(&PlanRun) -> f64| {
        let times = sorted(time);
        times.get(times.len() / 2).copied().unwrap_or_default()
    };
    let max = |time: fn(&PlanRun) -> f64| sorted(time).last().copied().unwrap_or_default();
    let max_ms = max(|run| wall(run.all));
    Ok(Planned {
        change,
        in_place: of(ChangeKind::InPlace),
        restart: of(ChangeKind::Restart),
        moves: of(ChangeKind::Move),
        placed: first.placed,
        unplaced: first.unplaced,
        median_ms: median(|run| wall(run.all)),
        max_ms,
        cpu_median_ms: median(|run| cpu(run.all)),
        cpu_max_ms: max(|run| cpu(run.all)),
        kinds_cpu_ms: median(|run| cpu(run.parts[0])),
        preview_cpu_ms: median(|run| cpu(run.parts[1])),
        placing_cpu_ms: median(|run| cpu(run.parts[2])),
        bound_ms: BOUND_MS,
        held: max_ms < BOUND_MS,
    })
}

/// As `masterd` plans a change.
fn plan(cell: &Cell, job: &Job, spec: &Arc<JobSpec>) -> anyhow::Result<PlanRun> {
    let all = Stopwatch::start()?;
    let watch = Stopwatch::start()?;
    let changes = job.spec.changes(spec);
    let mut kinds: BTreeMap<ChangeKind, u32> = BTreeMap::new();
    for index in (0..job.size().max(spec.tasks)).map(TaskIndex) {
        *kinds.entry(cell.change_kind(job, spec, index)).or_default() += 1;
    }
    let classified = watch.stop()?;
    let watch = Stopwatch::start()?;
    let (owner, tasks) = (job.owner.clone(), TaskSelection::All);
    let update = UpdateJob { owner, spec: Arc::clone(spec), tasks, policy: None, expected: None };
    let now = cell.time();
    let mutation = Mutation::from(update);
    let preview = cell.preview(now, &job.owner, &mutation);
    let preview =
        preview.map_err(|rejection| anyhow::anyhow!(diagnostics::sentence(&rejection)))?;
    let previewed = watch.stop()?;
    let watch = Stopwatch::start()?;
    let after = preview.job(job.id).context("the job is gone")?;
    let found = scheduler::preview(&preview, after, now);
    let placed = watch.stop()?;
    let (assignments, unplaced) = (found.assignments.len(), found.unplaced);
    drop((found, preview, changes));
    let parts = [classified, previewed, placed];
    Ok(PlanRun { kinds, placed: assignments, unplaced, parts, all: all.stop()? })
}

fn wall(spent: Spent) -> f64 {
    (spent.wall.as_secs_f64() * 1e5).round() / 1e2
}

fn cpu(spent: Spent) -> f64 {
    (spent.cpu.as_secs_f64() * 1e5).round() / 1e2
}
