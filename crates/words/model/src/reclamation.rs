//! The settings of resource reclamation, as the paper names them (section 5.5, figure 12).

use std::fmt;
use std::str::FromStr;

use crate::NotListed;

/// How near to the usage the reservations of a cell may come.
///
/// The paper gives no numbers, only that the aggressive setting has a smaller safety margin than
/// the baseline, that medium is mid-way, and that Google deployed medium after the experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reclamation {
    /// Reservations are the limits: nothing is reclaimed.
    Off,
    /// The largest margin: the paper's original setting.
    Baseline,
    /// Mid-way between baseline and aggressive: the setting of a new cell.
    #[default]
    Medium,
    /// The smallest margin.
    Aggressive,
}

impl Reclamation {
    /// All settings, the smallest effect first.
    pub const ALL: [Self; 4] = [Self::Off, Self::Baseline, Self::Medium, Self::Aggressive];

    /// The name used in commands and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Baseline => "baseline",
            Self::Medium => "medium",
            Self::Aggressive => "aggressive",
        }
    }
}

impl FromStr for Reclamation {
    type Err = NotListed;

    fn from_str(text: &str) -> Result<Self, NotListed> {
        Self::ALL.into_iter().find(|setting| setting.name() == text).ok_or_else(|| {
            let known = Self::ALL.into_iter().map(Self::name).collect();
            NotListed { text: text.to_owned(), what: "setting of resource reclamation", known }
        })
    }
}

impl fmt::Display for Reclamation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_are_shown() {
        for setting in Reclamation::ALL {
            assert_eq!(setting.to_string().parse(), Ok(setting));
        }
        for bad in ["", "Medium", " medium", "conservative", "\u{1b}[31m"] {
            assert!(bad.parse::<Reclamation>().is_err(), "{bad}");
        }
        assert_eq!(
            "fast\n".parse::<Reclamation>().expect_err("not one").to_string(),
            "'fast\\n' is not a setting of resource reclamation: use one of off, baseline, medium, \
             aggressive"
        );
    }
}
