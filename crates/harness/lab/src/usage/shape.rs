//! The shapes of drawn usage.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The shape of drawn usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Calibrated to published data of 2019: see [`super::draw`]. The estimator's parameters were
    /// compared with it.
    #[default]
    Calibrated,
    /// Calibrated to the 677 rows of the trace of 2011: more of the memory is used.
    Calibrated2011,
    /// On and off: between almost nothing and almost everything, all tasks of a job together.
    Bursty,
    /// A constant level, and every few hours another one.
    Steps,
    /// Memory grows to the limit in hours, and begins anew.
    Leaking,
}

/// The text is not the name of a shape.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "'{}' is not a shape of usage: use calibrated, calibrated-2011, bursty, steps or leaking",
    .0.escape_debug()
)]
pub struct ShapeError(pub String);

impl Shape {
    /// All shapes; the first two are calibrated.
    pub const ALL: [Self; 5] =
        [Self::Calibrated, Self::Calibrated2011, Self::Bursty, Self::Steps, Self::Leaking];

    /// The name used in commands and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Calibrated => "calibrated",
            Self::Calibrated2011 => "calibrated-2011",
            Self::Bursty => "bursty",
            Self::Steps => "steps",
            Self::Leaking => "leaking",
        }
    }

    /// Whether levels and peaks are those of published data.
    #[must_use]
    pub fn is_calibrated(self) -> bool {
        matches!(self, Self::Calibrated | Self::Calibrated2011)
    }
}

impl FromStr for Shape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let named = Self::ALL.into_iter().find(|shape| shape.name() == text);
        named.ok_or_else(|| ShapeError(text.to_owned()))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
