//! What a replay gives: sums over time, distributions, totals.

use model::Reclamation;
use model::{Resources, Span};

/// An amount of CPU and of memory, averaged or summed: milli-cores and bytes, or these times a
/// number of rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// CPU.
    pub cpu: u128,
    /// Memory.
    pub ram: u128,
}

/// A slot of the timeline: averages over 5 minutes, as in the paper's figure 12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its beginning, from that of the replay.
    pub at: Span,
    /// The setting.
    pub setting: Reclamation,
    /// The limits, reservations and usage of production.
    pub production: [Amounts; 3],
    /// Those of all tasks.
    pub all: [Amounts; 3],
    /// The limits beyond the capacity of their machines.
    pub reclaimed: Amounts,
    /// How many tasks run.
    pub running: u64,
    /// Would-be out-of-memory events since the beginning.
    pub ooms: u64,
}

/// The slots of a replay, in the order of time.
pub type Timeline = Vec<Slot>;

/// A distribution of ratios, from 0 to 2, in steps of half a percent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cdf {
    counts: Vec<u64>,
}

/// The distributions of figure 11.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cdfs {
    /// Usage by limit, averaged over windows.
    pub cpu_usage: Cdf,
    /// Reservation by limit, at the ends of windows.
    pub cpu_reservation: Cdf,
    /// Usage by limit, averaged over windows.
    pub ram_usage: Cdf,
    /// Reservation by limit, at the ends of windows.
    pub ram_reservation: Cdf,
}

/// Reservations by limit of one task, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratios {
    /// Whether it is production.
    pub prod: bool,
    /// CPU.
    pub cpu: u64,
    /// Memory.
    pub ram: u64,
}

/// Sums over a whole replay, or over the time of one setting in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Rounds.
    pub rounds: u64,
    /// Limits, reservations and usage of production, each times rounds.
    pub production: [Amounts; 3],
    /// Those of all tasks.
    pub all: [Amounts; 3],
    /// The limits beyond the capacity of their machines.
    pub reclaimed: Amounts,
    /// The share of its work that a machine would lose if limits had to fit, in millionths: the sum
    /// over all machines and rounds, and how many these are.
    pub reclaimed_shares: (u128, u64),
    /// The capacity of all machines.
    pub capacity: Amounts,
    /// Tasks times microseconds.
    pub task_micros: u128,
    /// Tasks killed because a machine's memory was short, below their limit.
    pub ooms: u64,
    /// Those that were above their limit then.
    pub ooms_above_limit: u64,
    /// Of those, production within its limit: always 0.
    pub production_killed: u64,
    /// Tasks that had to leave because production arrived.
    pub preempted: u64,
    /// Tasks placed.
    pub placed: u64,
    /// Production tasks that no machine had room for.
    pub unplaced: u64,
    /// Samples that the estimator rejected.
    pub rejected: u64,
    /// Changes of reservations.
    pub changes: u64,
    /// The tasks, in all rounds, that used more than their reservation, up to the limit, after the
    /// round.
    pub below_usage: u64,
    /// The tasks, in all rounds, whose reservation was above their limit: always 0.
    pub above_limit: u64,
}

/// The outcome of a replay.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Over time.
    pub timeline: Timeline,
    /// The distributions, of the whole replay.
    pub cdfs: Cdfs,
    /// By setting, in the order of the schedule.
    pub totals: Vec<(Reclamation, Totals)>,
    /// Of the tasks that ran at the end.
    pub ratios: Vec<Ratios>,
    /// Machines.
    pub machines: usize,
}

impl Amounts {
    /// Adds resources.
    pub fn add(&mut self, resources: Resources) {
        self.cpu += u128::from(resources.cpu.0);
        self.ram += u128::from(resources.ram.0);
    }

    /// Adds other amounts.
    pub fn plus(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.ram += other.ram;
    }

    /// Divided by a number, rounded down.
    #[must_use]
    pub fn by(self, number: u64) -> Self {
        let number = u128::from(number.max(1));
        Self { cpu: self.cpu / number, ram: self.ram / number }
    }
}

impl Totals {
    /// All would-be out-of-memory events.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.ooms + self.ooms_above_limit
    }

    /// Would-be out-of-memory events in 1,000,000 task-hours: thousandths of the paper's unit.
    #[must_use]
    pub fn ooms_per_million_task_hours(&self) -> u64 {
        let hours = self.task_micros / 3_600_000_000;
        let all = u128::from(self.events()) * 1_000_000;
        u64::try_from(all / hours.max(1)).unwrap_or(u64::MAX)
    }

    /// The share of the work that runs in reclaimed resources, in thousandths: what a machine would
    /// lose if the limits of its tasks had to fit, averaged over machines.
    #[must_use]
    pub fn reclaimed_permille(&self) -> u64 {
        let (sum, number) = self.reclaimed_shares;
        permille(sum, u128::from(number) * 1_000_000)
    }
}

/// One amount by another, in thousandths; 0 if there is nothing to compare with.
#[must_use]
pub(crate) fn permille(part: u128, of: u128) -> u64 {
    let permille = (part * 1_000).checked_div(of).unwrap_or(0);
    u64::try_from(permille).unwrap_or(u64::MAX)
}

impl Default for Cdf {
    fn default() -> Self {
        Self { counts: vec![0; Self::STEPS + 1] }
    }
}

impl Cdf {
    /// The number of steps up to a ratio of 2.
    const STEPS: usize = 400;

    /// Adds a ratio; nothing if there is nothing to compare with.
    pub(crate) fn add(&mut self, part: u64, of: u64) {
        let steps = (u128::from(part) * 200).checked_div(u128::from(of));
        let Some(steps) = steps else { return };
        let step = usize::try_from(steps).map_or(Self::STEPS, |step| step.min(Self::STEPS));
        if let Some(count) = self.counts.get_mut(step) {
            *count += 1;
        }
    }

    /// How many ratios it has.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The points of its curve: a ratio and the share of those up to it, both in thousandths. Ratios
    /// are rounded down to half a percent; the last point is of all ratios from 2 up.
    #[must_use]
    pub fn points(&self) -> Vec<(u64, u64)> {
        let all = u128::from(self.count());
        let mut sum = 0_u128;
        let points = self.counts.iter().zip(0..).map(|(count, step)| {
            sum += u128::from(*count);
            (step * 5, permille(sum, all))
        });
        points.collect()
    }

    /// The ratio, in thousandths, that so many thousandths are at most.
    #[must_use]
    pub fn percentile(&self, share: u64) -> u64 {
        let points = self.points();
        let found = points.iter().find(|(_, sum)| *sum >= share).or(points.last());
        found.map_or(0, |(ratio, _)| *ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_gives_its_percentiles() {
        let mut cdf = Cdf::default();
        for percent in 0..100 {
            cdf.add(percent, 100);
        }
        cdf.add(1, 0);
        assert_eq!(cdf.count(), 100);
        assert_eq!([500, 900, 1_000].map(|share| cdf.percentile(share)), [490, 890, 990]);
        cdf.add(u64::MAX, 1);
        assert_eq!(cdf.percentile(1_000), 2_000, "2 and more");
    }

    #[test]
    fn rates_are_of_task_hours() {
        let hour = 3_600_000_000;
        let totals = Totals { task_micros: 2_000 * hour, ooms: 3, ..Totals::default() };
        assert_eq!(totals.ooms_per_million_task_hours(), 1_500);
        assert_eq!(Totals::default().ooms_per_million_task_hours(), 0);
    }
}
