//! Figure 10: how many more machines a cell needs without reclamation.
//!
//! Cells are compacted by the production scheduler, as in `bourg bench pack`, once with a
//! reservation for each task and once with its limit. The reservations are those of the replay: a
//! task has the ratios of one of the replay's tasks, production those of production.

use lab::Ratios;
use model::Reclamation;
use model::{Bytes, MachineName, MilliCores, Random, Resources};
use serde::Serialize;
use trace::google2011::{Scale, slice};
use trace::shapes::{Shape, generate};
use trace::{CellSnapshot, Job};

use crate::scheduling::input::Maker;
use crate::scheduling::pack::compacted;

/// Cells in the shapes of 2019 have so many tasks for one of the replayed cell: their requests are
/// smaller than those of 2011, and machines have to be full, not few.
const DRAWN_TASKS: usize = 4;
/// Machines, times so many, so that a cell has room without reclamation, too.
const TIMES: usize = 2;

/// The machines that a cell needs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Compacted {
    pub(crate) cell: String,
    pub(crate) tasks: usize,
    /// With limits: the median over the orders of removal.
    pub(crate) without: usize,
    pub(crate) with: Vec<With>,
}

/// The machines that a cell needs with a setting.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct With {
    pub(crate) setting: &'static str,
    pub(crate) machines: usize,
    /// How many percent more are needed without reclamation.
    pub(crate) more_without_percent: f64,
}

/// The size of a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactionSize {
    pub(crate) machines: usize,
    pub(crate) tasks: usize,
}

/// Compacts the slice of the real cell of 2011, and cells in the eight shapes of 2019 whose size
/// follows that of the replayed cell.
pub(crate) fn cells(
    settings: &[(Reclamation, Vec<Ratios>)],
    replayed: CompactionSize,
    seed: u64,
    orders: u64,
) -> anyhow::Result<Vec<Compacted>> {
    let slice = slice::read(Scale::default()).snapshot;
    let CompactionSize { machines, tasks } = replayed;
    let real = ("the real cell of 2011, a twenty-fifth".to_owned(), slice);
    let drawn = Shape::names().filter_map(Shape::named).map(|shape| {
        (
            format!("in the shape of {}", shape.name()),
            generate(&shape, machines, tasks * DRAWN_TASKS, seed),
        )
    });
    let cells = std::iter::once(real).chain(drawn);
    cells.map(|(name, snapshot)| compact(name, snapshot, settings, seed, orders)).collect()
}

fn compact(
    cell: String,
    mut snapshot: CellSnapshot,
    settings: &[(Reclamation, Vec<Ratios>)],
    seed: u64,
    orders: u64,
) -> anyhow::Result<Compacted> {
    repeat_machines(&mut snapshot)?;
    let median = |mut machines: Vec<usize>| {
        machines.sort_unstable();
        machines.get(machines.len() / 2).copied().unwrap_or(0)
    };
    let jobs = Maker::with_reservations(&snapshot, |_, limit| limit)?;
    let without = median(compacted(&snapshot, &jobs, seed, orders)?);
    let mut with = Vec::new();
    for (setting, ratios) in settings {
        let mut drawn = Drawn::new(ratios, seed);
        let jobs = Maker::with_reservations(&snapshot, |job, limit| drawn.reservation(job, limit))?;
        let machines = median(compacted(&snapshot, &jobs, seed, orders)?);
        let more_without_percent = percent_more(without, machines);
        with.push(With { setting: setting.name(), machines, more_without_percent });
    }
    Ok(Compacted { cell, tasks: snapshot.tasks().count(), without, with })
}

/// Adds copies of all machines.
fn repeat_machines(snapshot: &mut CellSnapshot) -> anyhow::Result<()> {
    let originals = snapshot.machines.clone();
    for copy in 1..TIMES {
        for machine in &originals {
            let name = MachineName::new(&format!("{}-{copy}", machine.name))?;
            snapshot.machines.push(trace::Machine { name, ..machine.clone() });
        }
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a percentage, rounded for display")]
fn percent_more(one: usize, than: usize) -> f64 {
    let ratio = one as f64 / than.max(1) as f64;
    ((ratio - 1.0) * 1e3).round() / 10.0
}

/// Reservations, drawn from the ratios of a replay.
struct Drawn<'a> {
    production: Vec<&'a Ratios>,
    others: Vec<&'a Ratios>,
    random: Random,
}

impl<'a> Drawn<'a> {
    fn new(ratios: &'a [Ratios], seed: u64) -> Self {
        let (production, others) = ratios.iter().partition(|one| one.prod);
        Self { production, others, random: Random::new(seed) }
    }

    fn reservation(&mut self, job: &Job, limit: Resources) -> Resources {
        let of = if job.priority.is_prod() { &self.production } else { &self.others };
        let Some(ratios) = self.random.one_of(of) else { return limit };
        let part = |amount: u64, permille: u64| {
            let part = u128::from(amount) * u128::from(permille) / 1_000;
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        let reservation = Resources {
            cpu: MilliCores(part(limit.cpu.0, ratios.cpu)),
            ram: Bytes(part(limit.ram.0, ratios.ram)),
            ..limit
        };
        reservation.least(limit)
    }
}
