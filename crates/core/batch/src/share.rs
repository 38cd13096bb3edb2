//! Weighted dominant shares, in integers.

use std::fmt;

use model::{Dimension, Resources, ShareWeights, Span, Time};

/// A share of 1, in the unit of shares.
const WHOLE: u128 = 1_000_000_000;
/// A weight of 1, in the unit of weights.
const ONE: u128 = 1_000;

/// The largest share that a user has of any dimension, divided by the user's weight there, in billionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DominantShare(pub u64);

impl DominantShare {
    /// The share of a usage in a capacity. What is used of a dimension without capacity counts as everything.
    #[must_use]
    pub fn of(used: &Resources, capacity: &Resources, weights: &ShareWeights) -> Self {
        let share = |(dimension, weight)| Self::of_one(dimension, weight, used, capacity);
        weights.each().map(share).max().unwrap_or_default()
    }

    /// The dimension of the largest share; `None` if nothing is used. Of equal ones, the first.
    #[must_use]
    pub fn dimension(
        used: &Resources,
        capacity: &Resources,
        weights: &ShareWeights,
    ) -> Option<Dimension> {
        let mut found: Option<(Self, Dimension)> = None;
        for (dimension, weight) in weights.each() {
            let share = Self::of_one(dimension, weight, used, capacity);
            if share.0 > 0 && found.is_none_or(|(largest, _)| share > largest) {
                found = Some((share, dimension));
            }
        }
        found.map(|(_, dimension)| dimension)
    }

    fn of_one(dimension: Dimension, weight: u32, used: &Resources, capacity: &Resources) -> Self {
        let used = u128::from(used.get(dimension)) * WHOLE * ONE;
        let whole = u128::from(capacity.get(dimension)) * u128::from(weight);
        Self(match used.checked_div(whole) {
            Some(share) => u64::try_from(share).unwrap_or(u64::MAX),
            None if used == 0 => 0,
            None => u64::MAX,
        })
    }
}

/// In percent, with two digits.
impl fmt::Display for DominantShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = self.0 / 100_000;
        write!(f, "{}.{:02} %", hundredths / 100, hundredths % 100)
    }
}

/// What the tasks of a user use, and its average over the past if that counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShareUsage {
    /// Now: the requests of all tasks that were enabled and have not ended.
    pub(crate) now: Resources,
    average: Resources,
    /// When the average was true.
    at: Time,
}

impl ShareUsage {
    /// Changes what is used, at a moment.
    pub(crate) fn change(
        &mut self,
        at: Time,
        half_life: Option<Span>,
        now: impl FnOnce(Resources) -> Resources,
    ) {
        if let Some(half_life) = half_life {
            self.average = self.averaged(at, half_life);
        }
        self.at = self.at.max(at);
        self.now = now(self.now);
    }

    /// What counts at a moment. Without a memory, what is used. With one, the larger of that and the average: what was
    /// just enabled counts at once, and what was used long ago not any more.
    pub(crate) fn counted(&self, at: Time, half_life: Option<Span>) -> Resources {
        match half_life {
            None => self.now,
            Some(half_life) => self.now.most(self.averaged(at, half_life)),
        }
    }

    /// The average at a moment: its distance from what is used halves in each half-life.
    fn averaged(&self, at: Time, half_life: Span) -> Resources {
        let age = at.since(self.at);
        Resources::each(|dimension| {
            let (now, before) = (self.now.get(dimension), self.average.get(dimension));
            let distance = half_life.halved(before.abs_diff(now), age);
            if before > now { now.saturating_add(distance) } else { now.saturating_sub(distance) }
        })
    }
}

#[cfg(test)]
mod tests {
    use model::{Bytes, MilliCores};

    use super::*;

    fn amounts(cpu: u64, ram: u64) -> Resources {
        Resources { cpu: MilliCores(cpu), ram: Bytes(ram), ..Resources::default() }
    }

    #[test]
    fn the_share_is_that_of_the_dominant_dimension_by_weight() {
        let capacity = amounts(9, 18);
        let of = |used, weights: &ShareWeights| DominantShare::of(&used, &capacity, weights);
        let one = ShareWeights::default();
        let table =
            [((0, 0), "0.00 %"), ((3, 12), "66.66 %"), ((6, 2), "66.66 %"), ((9, 18), "100.00 %")];
        for ((cpu, ram), shown) in table {
            assert_eq!(of(amounts(cpu, ram), &one).to_string(), shown, "<{cpu}, {ram}>");
        }
        // Equal fractions are equal shares.
        assert_eq!(of(amounts(6, 0), &one), of(amounts(0, 12), &one));
        let two = one.with(Dimension::Ram, 2_000).expect("a weight");
        assert_eq!(of(amounts(0, 12), &two), of(amounts(3, 0), &one));
        let dominant = |used| DominantShare::dimension(&used, &capacity, &one);
        assert_eq!(dominant(amounts(0, 0)), None);
        assert_eq!(dominant(amounts(3, 12)), Some(Dimension::Ram));
        assert_eq!(dominant(amounts(6, 2)), Some(Dimension::Cpu));
        assert_eq!(dominant(amounts(9, 18)), Some(Dimension::Cpu), "the first of equal ones");
        let no_disk = Resources::each(|_| 1);
        assert_eq!(of(no_disk, &one), DominantShare(u64::MAX));
    }

    #[test]
    fn the_past_counts_less_and_less() {
        let hour = Span::from_secs(3_600);
        let at = |hours: u64| Time(0) + hour.saturating_mul(hours);
        let mut usage = ShareUsage::default();
        usage.change(at(0), Some(hour), |_| amounts(1_000, 0));
        assert_eq!(usage.counted(at(0), Some(hour)), amounts(1_000, 0));
        usage.change(at(2), Some(hour), |_| amounts(0, 0));
        let counted = [2, 3, 4].map(|hours| usage.counted(at(hours), Some(hour)).cpu.0);
        assert_eq!(counted, [750, 375, 187]);
        assert_eq!(usage.counted(at(2), None), amounts(0, 0));
    }
}
