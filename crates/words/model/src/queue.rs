//! The settings of a cell's batch queue, and what it enables.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use thiserror::Error;

use crate::{CollectionId, Dimension, NotListed, Span};

/// What happens when the next tasks of the user with the smallest share do not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoorestUser {
    /// They get a reservation, which nobody delays. The default: large tasks start at some time, whatever else waits.
    #[default]
    WaitedFor,
    /// Others go on, as if they were not there. Machines are fuller, and large tasks may wait for ever.
    Skipped,
}

impl PoorestUser {
    /// Both settings.
    pub const ALL: [Self; 2] = [Self::WaitedFor, Self::Skipped];

    /// The name used in commands and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::WaitedFor => "waited-for",
            Self::Skipped => "skipped",
        }
    }
}

impl FromStr for PoorestUser {
    type Err = NotListed;

    fn from_str(text: &str) -> Result<Self, NotListed> {
        Self::ALL.into_iter().find(|setting| setting.name() == text).ok_or_else(|| {
            let known = Self::ALL.into_iter().map(Self::name).collect();
            NotListed { text: text.to_owned(), what: "treatment of the poorest user", known }
        })
    }
}

impl fmt::Display for PoorestUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The settings of a cell's batch queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Whether best-effort batch jobs wait in it. If not, their tasks are pending at once.
    pub on: bool,
    /// What happens when the poorest user's tasks do not fit.
    pub poorest: PoorestUser,
    /// How long the past counts: what was used counts half after that time. `None`: only what is used now counts.
    pub half_life: Option<Span>,
    /// How long a task is assumed to run of which nothing is known.
    pub assumed_runtime: Span,
}

impl QueueSettings {
    /// The half-lives and the assumed runtimes that can be set: from a second to a year.
    pub const SPANS: RangeInclusive<Span> = Span::from_secs(1)..=Span::from_secs(366 * 86_400);
}

/// A cell without a queue.
impl Default for QueueSettings {
    fn default() -> Self {
        let assumed_runtime = Span::from_secs(3_600);
        Self { on: false, poorest: PoorestUser::default(), half_life: None, assumed_runtime }
    }
}

/// Tasks of a job that may be scheduled from now on: those of them that wait in the queue, in the order of their
/// indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Enabled {
    /// The job.
    pub job: CollectionId,
    /// How many of its tasks.
    pub tasks: u32,
}

/// A weight of 1, in the unit of weights.
const ONE: u32 = 1_000;

/// A user's weight in each dimension, from 0.001 to 1,000. Twice the weight is twice the share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareWeights {
    /// In thousandths, as [`Dimension::ALL`].
    thousandths: [u32; Dimension::ALL.len()],
}

impl Default for ShareWeights {
    fn default() -> Self {
        Self { thousandths: [ONE; Dimension::ALL.len()] }
    }
}

/// The weight is outside of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a weight is from 0.001 to 1000, in steps of 0.001, and this one is {thousandths} thousandths"
)]
pub struct BadWeight {
    /// The rejected weight.
    pub thousandths: u32,
}

impl ShareWeights {
    /// The smallest and the largest weight, in thousandths.
    pub const RANGE: RangeInclusive<u32> = 1..=1_000_000;

    /// These weights with another one in one dimension.
    ///
    /// # Errors
    /// If it is outside of [`Self::RANGE`].
    pub fn with(mut self, dimension: Dimension, thousandths: u32) -> Result<Self, BadWeight> {
        if !Self::RANGE.contains(&thousandths) {
            return Err(BadWeight { thousandths });
        }
        for (place, weight) in Dimension::ALL.into_iter().zip(&mut self.thousandths) {
            if place == dimension {
                *weight = thousandths;
            }
        }
        Ok(self)
    }

    /// The weight in each dimension, in thousandths.
    pub fn each(&self) -> impl Iterator<Item = (Dimension, u32)> + use<> {
        Dimension::ALL.into_iter().zip(self.thousandths)
    }
}

/// `cpu 1, ram 2.5, disk 1, disk-rate 1`.
impl fmt::Display for ShareWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (dimension, weight)) in self.each().enumerate() {
            let separator = if place == 0 { "" } else { ", " };
            write!(f, "{separator}{dimension} {}", in_ones(weight))?;
        }
        Ok(())
    }
}

/// A number of thousandths as a decimal number without trailing zeros.
fn in_ones(thousandths: u32) -> String {
    let (ones, rest) = (thousandths / ONE, thousandths % ONE);
    match rest {
        0 => ones.to_string(),
        _ => format!("{ones}.{rest:03}").trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_have_a_range_and_are_shown_as_they_are_typed() {
        let one = ShareWeights::default();
        for bad in [0, 1_000_001, u32::MAX] {
            assert_eq!(one.with(Dimension::Cpu, bad), Err(BadWeight { thousandths: bad }));
        }
        for (thousandths, shown) in
            [(1, "0.001"), (1_000, "1"), (2_500, "2.5"), (1_000_000, "1000")]
        {
            let weights = one.with(Dimension::Cpu, thousandths).expect("a weight");
            let first = weights.to_string();
            assert!(first.starts_with(&format!("{} {shown},", Dimension::Cpu)), "{first}");
        }
    }

    #[test]
    fn settings_are_read_as_they_are_shown() {
        for setting in PoorestUser::ALL {
            assert_eq!(setting.to_string().parse(), Ok(setting));
        }
        assert!("Skipped".parse::<PoorestUser>().is_err());
    }
}
