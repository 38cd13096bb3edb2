//! The settings of the estimator, as the paper names them (section 5.5, figure 12).

use std::fmt;
use std::str::FromStr;

use model::{Permille, Span};
use thiserror::Error;

/// How near to the usage reservations may come, for a whole cell.
///
/// The paper gives no numbers, only that the aggressive setting has a smaller safety margin than
/// the baseline, that medium is mid-way, and that Google deployed medium after the experiment. The
/// settings therefore differ in the margin alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setting {
    /// Reservations are the limits.
    Off,
    /// The largest margin: the paper's original setting.
    #[default]
    Baseline,
    /// Mid-way between baseline and aggressive.
    Medium,
    /// The smallest margin.
    Aggressive,
}

/// What a setting means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The first part of the safety margin: a share of the usage. The larger a task, the larger its
    /// variations.
    pub margin_of_usage: Permille,
    /// The second part: a share of the limit. It covers an idle task that begins to work.
    pub margin_of_limit: Permille,
    /// After so much time half of the excess of the CPU reservation has decayed.
    pub half_life_cpu: Span,
    /// The same for RAM. It is longer: a task that lacks CPU is throttled, but one that lacks RAM
    /// is killed.
    pub half_life_ram: Span,
    /// A smaller change of a reservation does not matter: a share of the limit. At 5 %, a decay
    /// from the limit to a fifth of it takes at most 16 records.
    pub change_min: Permille,
}

impl Setting {
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

    /// Its parameters; none if reservations are the limits.
    #[must_use]
    pub fn parameters(self) -> Option<Parameters> {
        let (of_usage, of_limit) = match self {
            Self::Off => return None,
            Self::Baseline => (300, 100),
            Self::Medium => (200, 60),
            Self::Aggressive => (100, 20),
        };
        Some(Parameters {
            margin_of_usage: Permille::at_most_whole(of_usage),
            margin_of_limit: Permille::at_most_whole(of_limit),
            half_life_cpu: Span::from_secs(15 * 60),
            half_life_ram: Span::from_secs(2 * 60 * 60),
            change_min: Permille::at_most_whole(50),
        })
    }
}

/// The text is not a setting of the estimator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "'{}' is not a setting of the estimator of reservations: use off, baseline, medium or aggressive",
    .0.escape_debug()
)]
pub struct SettingError(pub String);

impl FromStr for Setting {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let named = Self::ALL.into_iter().find(|setting| setting.name() == text);
        named.ok_or_else(|| SettingError(text.to_owned()))
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_are_shown() {
        for setting in Setting::ALL {
            assert_eq!(setting.to_string().parse(), Ok(setting));
        }
        for bad in ["", "Medium", " medium", "conservative", "\u{1b}[31m"] {
            assert!(bad.parse::<Setting>().is_err(), "{bad}");
        }
        assert_eq!(
            "fast\n".parse::<Setting>().expect_err("not one").to_string(),
            "'fast\\n' is not a setting of the estimator of reservations: use off, baseline, \
             medium or aggressive"
        );
    }

    #[test]
    fn medium_is_mid_way_between_baseline_and_aggressive() {
        let [baseline, medium, aggressive] =
            [Setting::Baseline, Setting::Medium, Setting::Aggressive]
                .map(|setting| setting.parameters().expect("it estimates"));
        for part in [
            |one: &Parameters| one.margin_of_usage.thousandths(),
            |one: &Parameters| one.margin_of_limit.thousandths(),
        ] {
            assert!(part(&aggressive) < part(&baseline));
            assert_eq!(2 * part(&medium), part(&baseline) + part(&aggressive));
        }
        assert_eq!(Setting::Off.parameters(), None);
    }
}
