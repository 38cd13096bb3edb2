//! The range of user ids that a Borglet gives to its tasks.

use std::fmt;
use std::str::FromStr;

use borglet::Settings;

/// The first id that tasks can have: those below are of the system and its users.
const FIRST_MIN: u32 = 1_000;
/// The last one: the kernel reads the next as "no change".
const LAST_MAX: u32 = u32::MAX - 1;

/// A range of user ids, both ends included; each task has one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uids {
    /// The first id.
    pub first: u32,
    /// The last id.
    pub last: u32,
}

impl Uids {
    /// The settings of a Borglet with these ids.
    pub(crate) fn settings(self) -> Settings {
        let uids = self.last.saturating_sub(self.first).saturating_add(1);
        Settings { first_uid: self.first, uids, ..Settings::default() }
    }
}

/// The ids of a Borglet that is alone on its host.
impl Default for Uids {
    fn default() -> Self {
        let Settings { first_uid: first, uids, .. } = Settings::default();
        Self { first, last: first.saturating_add(uids.saturating_sub(1)) }
    }
}

/// `200000-209999`.
impl fmt::Display for Uids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for Uids {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = text.split_once('-').and_then(|(first, last)| {
            Some(Self { first: first.parse().ok()?, last: last.parse().ok()? })
        });
        match range {
            Some(Self { first, .. }) if first < FIRST_MIN => {
                Err(format!("user ids below {FIRST_MIN} are not for tasks"))
            }
            Some(range) if range.first <= range.last && range.last <= LAST_MAX => Ok(range),
            _ => Err(format!(
                "'{}' is not a range of user ids such as 200000-209999",
                text.escape_debug()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_they_are_shown() {
        assert_eq!(Uids::default().to_string(), "200000-209999");
        for good in ["200000-209999", "1000-1000", "1000-4294967294"] {
            let uids: Uids = good.parse().expect(good);
            assert_eq!(uids.to_string(), good);
        }
        for bad in ["", "7", "0-5000", "999-2000", "2000-1999", "1000-4294967295", "a-b"] {
            assert!(bad.parse::<Uids>().is_err(), "{bad}");
        }
        let settings = Uids { first: 3_000, last: 3_009 }.settings();
        assert_eq!((settings.first_uid, settings.uids), (3_000, 10));
    }
}
