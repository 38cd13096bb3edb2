//! The epoch of a cell that an operator has restored.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// Which restoration a cell continues from (design, section 4). All replicas of a cell have the
/// same one, and a Borglet obeys the orders of one.
///
/// Of two restorations, the one with the higher counter is later. Two with the same counter were
/// made without knowledge of each other: neither is later, and the random part tells them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RestoreEpoch {
    /// How often the cell was restored, as far as the restoration knew.
    pub counter: u64,
    /// Drawn at the restoration; 0 in a cell that was never restored.
    pub random: u64,
}

impl RestoreEpoch {
    /// A cell that was never restored.
    pub const NEVER: Self = Self { counter: 0, random: 0 };

    /// The epoch of a restoration that knows of others up to this counter.
    #[must_use]
    pub fn after(counter: u64, random: u64) -> Self {
        Self { counter: counter.saturating_add(1), random }
    }

    /// Whether both are restorations of the same cell that know nothing of each other.
    #[must_use]
    pub fn conflicts_with(self, other: Self) -> bool {
        self.partial_cmp(&other).is_none()
    }
}

/// By the counter. Epochs that differ only in the random part are not ordered.
impl PartialOrd for RestoreEpoch {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.counter.cmp(&other.counter) {
            Ordering::Equal => (self.random == other.random).then_some(Ordering::Equal),
            order => Some(order),
        }
    }
}

/// Displayed as the counter, and in a restored cell the random part in hexadecimal after it.
impl fmt::Display for RestoreEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self == Self::NEVER {
            true => f.write_str("0"),
            false => write!(f, "{}-{:016x}", self.counter, self.random),
        }
    }
}

impl FromStr for RestoreEpoch {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (counter, random) = text.split_once('-').unwrap_or((text, "0"));
        let counter = counter.parse().map_err(|_| ())?;
        let random = u64::from_str_radix(random, 16).map_err(|_| ())?;
        let epoch = Self { counter, random };
        // Only the canonical form, so that each epoch has exactly one text.
        if epoch.to_string() == text { Ok(epoch) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(counter: u64, random: u64) -> RestoreEpoch {
        RestoreEpoch { counter, random }
    }

    #[test]
    fn the_counter_orders_and_the_random_part_tells_apart() {
        assert!(epoch(2, 1) > epoch(1, 9));
        assert_eq!(epoch(1, 9).partial_cmp(&epoch(1, 9)), Some(Ordering::Equal));
        assert!(epoch(1, 9).conflicts_with(epoch(1, 8)));
        assert!(!epoch(1, 9).conflicts_with(epoch(2, 8)));
        assert_eq!(RestoreEpoch::after(4, 7), epoch(5, 7));
    }

    #[test]
    fn an_epoch_reads_back_what_it_prints_and_nothing_else() {
        for (of, text) in [(epoch(0, 0), "0"), (epoch(3, 0xab), "3-00000000000000ab")] {
            assert_eq!((of.to_string().as_str(), text.parse()), (text, Ok(of)));
        }
        for bad in ["", "-", "3", "3-ab", "03-00000000000000ab", "3-00000000000000AB", "x"] {
            assert_eq!(bad.parse::<RestoreEpoch>(), Err(()), "{bad}");
        }
    }
}
