//! Priorities, priority bands, scheduling classes and appclasses.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The priority of a job, 0 to 450. A higher priority can preempt a lower one (paper, section 2.5;
/// numbers as in trace version 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u16);

/// The non-overlapping priority bands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Band {
    /// 0 to 99: weak guarantees, not charged.
    Free,
    /// 100 to 115: waits in the queue until there is room.
    BestEffortBatch,
    /// 116 to 119: guarantees between best-effort batch and production.
    Mid,
    /// 120 to 359: user-facing services; never preempted by another production job.
    Production,
    /// 360 and above: monitoring of everything else.
    Monitoring,
}

/// The text or number is not a priority.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PriorityError {
    /// Outside 0 to 450.
    #[error("a priority is a number from 0 to 450, this one is {0}")]
    OutOfRange(i64),
    /// Neither a number nor the name of a band.
    #[error(
        "'{}' is not a priority: use a number from 0 to 450 or a band \
         (free, best-effort-batch, mid, production, monitoring)",
        .0.escape_debug()
    )]
    NotOne(String),
}

impl Priority {
    /// The highest priority.
    pub const MAX: u16 = 450;

    /// Checks a number.
    ///
    /// # Errors
    /// When the number is not 0 to 450.
    pub fn new(number: i64) -> Result<Self, PriorityError> {
        match u16::try_from(number) {
            Ok(number) if number <= Self::MAX => Ok(Self(number)),
            _ => Err(PriorityError::OutOfRange(number)),
        }
    }

    /// The number.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }

    /// The band of this priority.
    #[inline]
    #[must_use]
    pub fn band(self) -> Band {
        match self.0 {
            0..100 => Band::Free,
            100..116 => Band::BestEffortBatch,
            116..120 => Band::Mid,
            120..360 => Band::Production,
            _ => Band::Monitoring,
        }
    }

    /// Production and monitoring: "prod" in the paper's sense (section 2.5).
    #[inline]
    #[must_use]
    pub fn is_prod(self) -> bool {
        self.band() >= Band::Production
    }
}

impl Band {
    /// All bands, lowest first.
    pub const ALL: [Self; 5] =
        [Self::Free, Self::BestEffortBatch, Self::Mid, Self::Production, Self::Monitoring];

    /// The name used in files and flags.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::BestEffortBatch => "best-effort-batch",
            Self::Mid => "mid",
            Self::Production => "production",
            Self::Monitoring => "monitoring",
        }
    }

    /// Whether jobs in this band are charged to a quota: all bands but the free one (paper, section
    /// 2.5, "infinite quota at priority zero").
    #[must_use]
    pub fn is_charged(self) -> bool {
        self != Self::Free
    }

    /// The default priority of the band, which its name stands for.
    #[must_use]
    pub fn usual(self) -> Priority {
        Priority(match self {
            Self::Free => 25,
            Self::BestEffortBatch => 110,
            Self::Mid => 117,
            Self::Production => 200,
            Self::Monitoring => 360,
        })
    }
}

/// Parses a band's name, or a number in the band.
impl FromStr for Band {
    type Err = PriorityError;

    fn from_str(text: &str) -> Result<Self, PriorityError> {
        text.parse().map(Priority::band)
    }
}

/// Parses a number, or a band's name for that band's default priority.
impl FromStr for Priority {
    type Err = PriorityError;

    fn from_str(text: &str) -> Result<Self, PriorityError> {
        if let Ok(number) = text.parse() {
            return Self::new(number);
        }
        Band::ALL
            .into_iter()
            .find(|band| band.name() == text)
            .map(Band::usual)
            .ok_or_else(|| PriorityError::NotOne(text.to_owned()))
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// `production(200)`.
impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}({})", self.band(), self.0))
    }
}

/// How latency-sensitive a job is, 0 to 3. It affects how the task is treated on its machine; the
/// priority decides whether it gets a machine (trace v3, `scheduling_class`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchedulingClass(u8);

/// The number is not a scheduling class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a scheduling class is a number from 0 to 3, this one is {0}")]
pub struct SchedulingClassError(pub i64);

impl SchedulingClass {
    /// The most latency-sensitive class.
    pub const MAX: u8 = 3;

    /// Checks a number.
    ///
    /// # Errors
    /// When the number is not 0 to 3.
    pub fn new(number: i64) -> Result<Self, SchedulingClassError> {
        match u8::try_from(number) {
            Ok(number) if number <= Self::MAX => Ok(Self(number)),
            _ => Err(SchedulingClassError(number)),
        }
    }

    /// The number.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    /// The default for a job that does not set a class: 0 for batch, 2 for latency-sensitive jobs.
    #[must_use]
    pub fn usual(appclass: Appclass) -> Self {
        Self(match appclass {
            Appclass::Batch => 0,
            Appclass::LatencySensitive => 2,
        })
    }
}

impl fmt::Display for SchedulingClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a task is treated on its machine, independent of its priority (paper, section 6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Appclass {
    /// Throughput-oriented; yields the CPU to latency-sensitive tasks.
    #[default]
    Batch,
    /// User-facing; may be given CPU time at the expense of batch tasks.
    LatencySensitive,
}

impl Appclass {
    /// Both appclasses.
    pub const ALL: [Self; 2] = [Self::Batch, Self::LatencySensitive];

    /// The name used in files and flags.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::LatencySensitive => "latency-sensitive",
        }
    }
}

impl fmt::Display for Appclass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_begin_and_end_where_the_trace_says() {
        let cases = [
            (0, Band::Free),
            (99, Band::Free),
            (100, Band::BestEffortBatch),
            (115, Band::BestEffortBatch),
            (116, Band::Mid),
            (119, Band::Mid),
            (120, Band::Production),
            (359, Band::Production),
            (360, Band::Monitoring),
            (450, Band::Monitoring),
        ];
        for (number, band) in cases {
            assert_eq!(Priority::new(number).expect("in range").band(), band, "{number}");
        }
        for band in Band::ALL {
            assert_eq!(band.usual().band(), band);
            assert_eq!(band.name().parse(), Ok(band.usual()));
        }
    }

    #[test]
    fn scheduling_classes_are_0_to_3() {
        for (number, known) in [(-1, false), (0, true), (3, true), (4, false), (256, false)] {
            assert_eq!(SchedulingClass::new(number).is_ok(), known, "{number}");
        }
        assert_eq!(SchedulingClass::usual(Appclass::LatencySensitive).number(), 2);
    }

    #[test]
    fn an_invalid_priority_is_refused() {
        assert_eq!(Priority::new(451), Err(PriorityError::OutOfRange(451)));
        assert_eq!("-1".parse::<Priority>(), Err(PriorityError::OutOfRange(-1)));
        assert!(
            "high".parse::<Priority>().expect_err("no band").to_string().contains("production")
        );
    }

    #[test]
    fn a_band_is_given_by_its_name_or_a_priority() {
        for (text, band) in [
            ("free", Ok(Band::Free)),
            ("0", Ok(Band::Free)),
            ("best-effort-batch", Ok(Band::BestEffortBatch)),
            ("115", Ok(Band::BestEffortBatch)),
            ("116", Ok(Band::Mid)),
            ("120", Ok(Band::Production)),
            ("production", Ok(Band::Production)),
            ("450", Ok(Band::Monitoring)),
            ("451", Err(PriorityError::OutOfRange(451))),
            ("prod", Err(PriorityError::NotOne("prod".to_owned()))),
        ] {
            assert_eq!(text.parse(), band, "{text}");
        }
    }
}
