//! One run: places every task of a cell, as far as possible, and applies every placement.

use std::time::Duration;

use anyhow::ensure;
use cell::{Cell, Op, Outcome};
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use placement::Settings;
use scheduler::Scheduler;

use super::input::NOW;

/// The results of a run.
pub(crate) struct Run {
    pub(crate) scheduler: Scheduler,
    pub(crate) placed: usize,
    pub(crate) pending: usize,
    pub(crate) evicted: usize,
    pub(crate) passes: usize,
    /// Building arrays and queue, and the passes.
    pub(crate) planning: Spent,
    /// Applying the plans to the scheduler's copy of the cell, and following them.
    pub(crate) following: Spent,
}

/// Elapsed time, by wall clock and CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

impl Spent {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { wall: self.wall + other.wall, cpu: self.cpu + other.cpu }
    }
}

/// Measures both clocks.
pub(crate) struct Stopwatch {
    wall: std::time::Instant,
    cpu: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> anyhow::Result<Self> {
        Ok(Self { wall: std::time::Instant::now(), cpu: cpu()? })
    }

    pub(crate) fn stop(&self) -> anyhow::Result<Spent> {
        Ok(Spent { wall: self.wall.elapsed(), cpu: cpu()?.saturating_sub(self.cpu) })
    }
}

/// The CPU time of this thread so far.
fn cpu() -> anyhow::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

/// The peak resident memory of this process.
pub(crate) fn peak_rss_bytes() -> anyhow::Result<u64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok(u64::try_from(usage.max_rss()).unwrap_or(0) << 10)
}

/// Places every task of a cell, as far as possible. Stops as soon as more than `pending_most` tasks
/// cannot be placed.
pub(crate) fn from_scratch(
    cell: Cell,
    settings: Settings,
    pending_most: usize,
) -> anyhow::Result<Run> {
    let (mut planning, mut following) = (Spent::default(), Spent::default());
    let watch = Stopwatch::start()?;
    let mut scheduler = Scheduler::with(cell, settings);
    let (mut placed, mut passes, mut evicted) = (0, 0, 0);
    loop {
        let begun = if passes == 0 { None } else { Some(Stopwatch::start()?) };
        let plan = scheduler.pass(NOW);
        planning = planning.plus(begun.as_ref().unwrap_or(&watch).stop()?);
        passes += 1;
        if plan.assignments.is_empty() || plan.unplaced > pending_most {
            let pending = plan.unplaced;
            return Ok(Run { scheduler, placed, pending, evicted, passes, planning, following });
        }
        placed += plan.assignments.len();
        evicted += plan.assignments.iter().map(|one| one.victims.len()).sum::<usize>();
        let begun = Stopwatch::start()?;
        let outcome = scheduler.follow(NOW, &Op::assign(plan.assignments)).outcome;
        following = following.plus(begun.stop()?);
        let Outcome::Assigned(judged) = outcome else { anyhow::bail!("{outcome:?}") };
        let refused = judged.iter().find_map(|one| one.as_ref().err());
        ensure!(refused.is_none(), "the cell rejected an assignment: {refused:?}");
    }
}
