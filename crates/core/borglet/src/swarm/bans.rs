//! The machines that nothing is fetched from for a while.

use std::collections::BTreeMap;

use model::{Span, Time};

/// How long a machine is not asked that was slow or has sent wrong bytes.
pub const BANNED_FOR: Span = Span::from_secs(600);
/// How many machines are remembered. If there are more, the one whose time ends first is forgotten.
const BANS_MAX: usize = 256;

/// Machines by name, and until when nothing is fetched from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bans(BTreeMap<String, Time>);

impl Bans {
    /// Nothing is fetched from a machine for [`BANNED_FOR`].
    pub fn ban(&mut self, machine: &str, now: Time) {
        self.0.retain(|_, until| *until > now);
        if self.0.len() >= BANS_MAX && !self.0.contains_key(machine) {
            let first = self.0.iter().min_by_key(|(_, until)| **until);
            let first = first.map(|(machine, _)| machine.clone());
            first.and_then(|first| self.0.remove(&first));
        }
        self.0.insert(machine.to_owned(), now + BANNED_FOR);
    }

    /// Whether nothing is fetched from a machine now.
    #[must_use]
    pub fn has(&self, machine: &str, now: Time) -> bool {
        self.0.get(machine).is_some_and(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ban_ends_and_bans_are_bounded() {
        let mut bans = Bans::default();
        bans.ban("m0", Time(5));
        let end = Time(5) + BANNED_FOR;
        assert!(bans.has("m0", Time(5)) && !bans.has("m1", Time(5)) && !bans.has("m0", end));
        for number in 1..=BANS_MAX as u64 {
            bans.ban(&format!("m{number}"), Time(5 + number));
        }
        assert!(!bans.has("m0", Time(6)) && bans.has("m1", Time(6)) && bans.0.len() == BANS_MAX);
    }
}
