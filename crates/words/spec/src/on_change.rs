//! What follows when a secret or the address of another job changes that a task has.

use std::str::FromStr;

use thiserror::Error;

/// What follows for a running task when a secret that it has gets a new version, or where it is told
/// that another job is, is not true any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OnChange {
    /// Nothing: its next start gets what is new.
    #[default]
    Nothing,
    /// Its files are written anew, and then it gets SIGHUP.
    Signal,
    /// It is restarted, within the disruption budget.
    Restart,
}

impl OnChange {
    /// The names of all.
    pub const NAMES: [&'static str; 3] = ["nothing", "signal", "restart"];

    /// Its name in descriptions.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Signal => "signal",
            Self::Restart => "restart",
        }
    }
}

/// None of the names.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{}' is nothing that can follow a change: use 'nothing', 'signal' or 'restart'", .0.escape_debug())]
pub struct NoSuchOnChange(String);

impl FromStr for OnChange {
    type Err = NoSuchOnChange;

    fn from_str(text: &str) -> Result<Self, NoSuchOnChange> {
        match text {
            "nothing" => Ok(Self::Nothing),
            "signal" => Ok(Self::Signal),
            "restart" => Ok(Self::Restart),
            _ => Err(NoSuchOnChange(text.chars().take(16).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_its_own() {
        for name in OnChange::NAMES {
            assert_eq!(name.parse::<OnChange>().map(OnChange::name), Ok(name));
        }
        assert!("Restart".parse::<OnChange>().is_err());
    }
}
