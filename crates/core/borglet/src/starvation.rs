//! Keeps greedy latency-sensitive tasks from starving batch tasks for long (paper, section 6.2: "the Borglet
//! dynamically adjusts the resource caps of greedy LS tasks in order to ensure that they do not starve batch
//! tasks for multiple minutes, selectively applying CFS bandwidth control when needed").
//!
//! Latency-sensitive tasks come first, and may take everything for some seconds. If batch tasks have had less
//! than their floor for [`BURST`] in a row, or for [`BUDGET`] of the last [`WINDOW`], the latency-sensitive
//! tasks that use more than their limit are capped for [`RELIEF`] at least. A task that keeps to its limit is
//! never capped: if nobody else is greedy, batch tasks wait.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use model::{InstanceId, MilliCores, Permille, Span, Time};

/// How long batch tasks may be starved in a row.
pub(crate) const BURST: Span = Span::from_secs(5);
/// How long they may be starved in all within [`WINDOW`].
pub(crate) const BUDGET: Span = Span::from_secs(15);
/// See [`BUDGET`].
pub(crate) const WINDOW: Span = Span::from_secs(60);
/// How long a cap lasts at least.
pub(crate) const RELIEF: Span = Span::from_secs(10);

// Shares are in thousandths.
/// The share of the machine that batch tasks get while others are capped, if they want as much. With less than
/// half of it they are starved.
const BATCH_SHARE: u64 = 100;
/// A batch task wants CPU if it waited for it for that share of the time.
const WAITING: u16 = 500;
/// Where the kernel does not measure that: every batch task does while that share of the machine is used.
const FULL: u64 = 950;
/// What a task uses above its limit because measuring is not exact.
const TOLERANCE: u64 = 50;
/// The longest time that one reading stands for: nothing is known of a pause.
const READING_MAX: Span = Span::from_secs(5);
/// When caps that turn out to be too high are lowered to the limits.
const TIGHTEN: Span = Span::from_secs(2);

/// What a running task used since the last reading, about a second ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) instance: InstanceId,
    pub(crate) batch: bool,
    pub(crate) limit: MilliCores,
    pub(crate) used: MilliCores,
    /// The share of the time in which it waited for CPU, if that is measured.
    pub(crate) waited: Option<Permille>,
}

/// Why a task is capped: what batch tasks had and lacked, and who took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greed {
    /// What the task used.
    pub used: MilliCores,
    /// Its limit.
    pub limit: MilliCores,
    /// What all batch tasks used.
    pub batch_used: MilliCores,
    /// What they are to have.
    pub batch_wanted: MilliCores,
    /// How long they were starved within the last minute.
    pub starved: Span,
}

/// A change of a cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuCap {
    /// The task is capped, or its cap is lowered.
    At(MilliCores, Greed),
    /// The cap is lifted, after this time.
    Lifted(Span),
}

impl CpuCap {
    /// The maximum that applies from now on; `None` without a cap.
    #[must_use]
    pub fn max(&self) -> Option<MilliCores> {
        match self {
            Self::At(max, _) => Some(*max),
            Self::Lifted(_) => None,
        }
    }
}

/// The rule and its numbers.
impl fmt::Display for CpuCap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(max, greed) => {
                let Greed { used, limit, batch_used, batch_wanted, starved } = greed;
                write!(
                    f,
                    "capped at {max}: it used {used}, more than its limit of {limit}, while batch tasks \
                     had {batch_used} of the {batch_wanted} that they are to have; they were starved \
                     for {starved} of the last {WINDOW}"
                )
            }
            Self::Lifted(after) => write!(f, "no longer capped, after {after}"),
        }
    }
}

/// The state of the control loop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Starvation {
    last: Option<Time>,
    /// How long batch tasks have been starved without a break.
    run: Span,
    /// When they were starved within the last [`WINDOW`], and for how long.
    starved: VecDeque<(Time, Span)>,
    /// Since when there are caps.
    since: Option<Time>,
    caps: BTreeMap<InstanceId, (MilliCores, Greed)>,
}

impl Starvation {
    /// The cap of a task.
    pub(crate) fn cap(&self, instance: InstanceId) -> Option<MilliCores> {
        self.caps.get(&instance).map(|(max, _)| *max)
    }

    /// Whether batch tasks are starved now, although greedy tasks are capped if there are any.
    pub(crate) fn is_starved(&self) -> bool {
        self.run > Span::ZERO
    }

    /// The tasks with caps.
    pub(crate) fn capped(&self) -> Vec<InstanceId> {
        self.caps.keys().copied().collect()
    }

    /// The cap of a task as it was told.
    pub(crate) fn again(&self, instance: InstanceId) -> Option<CpuCap> {
        self.caps.get(&instance).map(|(max, greed)| CpuCap::At(*max, *greed))
    }

    /// Takes in a reading of all running tasks on a machine with some CPU, of which some was used in all.
    /// Returns the caps that change.
    pub(crate) fn observe(
        &mut self,
        now: Time,
        capacity: MilliCores,
        machine_used: Option<MilliCores>,
        tasks: &[Observed],
    ) -> Vec<(InstanceId, CpuCap)> {
        let elapsed = self.last.map_or(Span::ZERO, |last| now.since(last)).min(READING_MAX);
        self.last = Some(now);
        self.caps.retain(|instance, _| tasks.iter().any(|task| task.instance == *instance));
        let batch = Batch::of(tasks, capacity, machine_used);
        if batch.is_starved() {
            self.run = self.run + elapsed;
            self.starved.push_back((now, elapsed));
        } else {
            self.run = Span::ZERO;
        }
        while self.starved.front().is_some_and(|(at, _)| now.since(*at) >= WINDOW) {
            self.starved.pop_front();
        }
        let starved = self.starved.iter().fold(Span::ZERO, |sum, (_, span)| sum + *span);
        let over_budget = starved >= BUDGET;
        match self.since {
            None if batch.is_starved() && (self.run >= BURST || over_budget) => {
                let changes = self.begin(tasks, &batch, starved);
                self.since = (!self.caps.is_empty()).then_some(now);
                changes
            }
            None => Vec::new(),
            Some(since) if now.since(since) >= RELIEF && !over_budget || self.caps.is_empty() => {
                self.since = None;
                self.run = Span::ZERO;
                let lifted = CpuCap::Lifted(now.since(since));
                std::mem::take(&mut self.caps).into_keys().map(|of| (of, lifted)).collect()
            }
            Some(since) if batch.is_starved() && now.since(since) >= TIGHTEN => {
                self.tighten(tasks, &batch, starved)
            }
            Some(_) => Vec::new(),
        }
    }

    /// Takes what batch tasks lack from the greedy ones, from each in proportion to its excess.
    fn begin(
        &mut self,
        tasks: &[Observed],
        batch: &Batch,
        starved: Span,
    ) -> Vec<(InstanceId, CpuCap)> {
        let greedy: Vec<_> = tasks.iter().filter_map(|task| Some((task, excess(task)?))).collect();
        let all: u64 = greedy.iter().map(|(_, excess)| excess).sum();
        let lacking = batch.wanted.0.saturating_sub(batch.used.0).min(all);
        let part = |excess: u64| {
            let part = u128::from(lacking) * u128::from(excess);
            u64::try_from(part.div_ceil(u128::from(all.max(1)))).unwrap_or(excess)
        };
        let cap = |(task, excess): (&Observed, u64)| {
            let max = MilliCores(task.used.0 - part(excess).min(excess));
            let greed = batch.greed(task, starved);
            self.caps.insert(task.instance, (max, greed));
            (task.instance, CpuCap::At(max, greed))
        };
        greedy.into_iter().map(cap).collect()
    }

    /// The caps were too high, or more tasks have become greedy: each task above its limit is capped at
    /// the limit.
    fn tighten(
        &mut self,
        tasks: &[Observed],
        batch: &Batch,
        starved: Span,
    ) -> Vec<(InstanceId, CpuCap)> {
        let mut changes = Vec::new();
        for task in tasks.iter().filter(|task| !task.batch) {
            let above = match self.caps.get(&task.instance) {
                Some((cap, _)) => *cap > task.limit,
                None => excess(task).is_some(),
            };
            if above {
                let greed = batch.greed(task, starved);
                self.caps.insert(task.instance, (task.limit, greed));
                changes.push((task.instance, CpuCap::At(task.limit, greed)));
            }
        }
        changes
    }
}

fn share(whole: MilliCores, thousandths: u64) -> u64 {
    whole.0.saturating_mul(thousandths) / 1_000
}

/// What a latency-sensitive task uses above its limit.
fn excess(task: &Observed) -> Option<u64> {
    let tolerated = share(task.limit, TOLERANCE);
    let greedy = !task.batch && task.used.0 > task.limit.0.saturating_add(tolerated);
    greedy.then(|| task.used.0 - task.limit.0)
}

/// The batch tasks together.
struct Batch {
    used: MilliCores,
    /// What they are to have: nothing if none of them waits.
    wanted: MilliCores,
}

impl Batch {
    fn of(tasks: &[Observed], capacity: MilliCores, machine_used: Option<MilliCores>) -> Self {
        let full = machine_used.is_some_and(|used| used.0 >= share(capacity, FULL));
        let (mut used, mut limits) = (0_u64, 0_u64);
        for task in tasks.iter().filter(|task| task.batch) {
            used = used.saturating_add(task.used.0);
            if task.waited.map_or(full, |waited| waited.thousandths() >= WAITING) {
                limits = limits.saturating_add(task.limit.0);
            }
        }
        let wanted = limits.min(share(capacity, BATCH_SHARE));
        Self { used: MilliCores(used), wanted: MilliCores(wanted) }
    }

    fn is_starved(&self) -> bool {
        self.used.0.saturating_mul(2) < self.wanted.0
    }

    fn greed(&self, task: &Observed, starved: Span) -> Greed {
        let Observed { used, limit, .. } = *task;
        Greed { used, limit, batch_used: self.used, batch_wanted: self.wanted, starved }
    }
}

#[cfg(test)]
mod tests;
