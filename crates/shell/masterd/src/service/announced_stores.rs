//! The stores of packages that have announced themselves: those that are named to clients and machines, and
//! those that are not heard of any more, so that errors tell a silent store from none.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a store that is not heard of any more is still named.
const NAMED: Duration = Duration::from_secs(60);
/// How long it is known to be silent, before it is forgotten.
const KNOWN: Duration = Duration::from_secs(86_400);

/// Stores by address, and when each was heard of.
#[derive(Debug, Default)]
pub(super) struct AnnouncedStores(BTreeMap<String, Instant>);

/// What is known of stores, by their addresses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KnownStores {
    /// Those that were heard of lately.
    pub(super) named: Vec<String>,
    /// The others, the one that was heard of last first.
    pub(super) silent: Vec<String>,
}

impl AnnouncedStores {
    /// A store announces itself. Returns whether there was room for it among `most`: silent stores make room.
    pub(super) fn announce(&mut self, address: String, now: Instant, most: usize) -> bool {
        if !self.0.contains_key(&address) && self.0.len() >= most {
            self.0.retain(|_, heard| now.saturating_duration_since(*heard) < NAMED);
            if self.0.len() >= most {
                return false;
            }
        }
        self.0.insert(address, now);
        true
    }

    /// The stores that are known.
    pub(super) fn known(&mut self, now: Instant) -> KnownStores {
        let age = |heard: &Instant| now.saturating_duration_since(*heard);
        self.0.retain(|_, heard| age(heard) < KNOWN);
        let (named, mut silent): (Vec<_>, Vec<_>) =
            self.0.iter().partition(|(_, heard)| age(heard) < NAMED);
        silent.sort_by_key(|(_, heard)| age(heard));
        let addresses = |stores: Vec<(&String, &Instant)>| {
            stores.into_iter().map(|(address, _)| address.clone()).collect()
        };
        KnownStores { named: addresses(named), silent: addresses(silent) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_not_heard_of_for_a_minute_is_silent_for_a_day() {
        let begun = Instant::now();
        let at = |second| begun + Duration::from_secs(second);
        let mut stores = AnnouncedStores::default();
        for (address, second) in [("a:1", 0), ("b:1", 30), ("c:1", 55)] {
            assert!(stores.announce(address.to_owned(), at(second), 3), "{address}");
        }
        let all = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        for (second, named, silent) in [
            (59, &["a:1", "b:1", "c:1"][..], &[][..]),
            (70, &["b:1", "c:1"], &["a:1"]),
            (95, &["c:1"], &["b:1", "a:1"]),
            (500, &[], &["c:1", "b:1", "a:1"]),
            (86_450, &[], &["c:1"]),
            (90_000, &[], &[]),
        ] {
            let expected = KnownStores { named: all(named), silent: all(silent) };
            assert_eq!(stores.known(at(second)), expected, "after {second} s");
        }
    }

    #[test]
    fn silent_stores_make_room_and_others_do_not() {
        let begun = Instant::now();
        let at = |second| begun + Duration::from_secs(second);
        let mut stores = AnnouncedStores::default();
        for (address, second, is_there) in [
            ("a:1", 0, true),
            ("b:1", 50, true),
            ("c:1", 55, false),
            ("a:1", 55, true),
            ("c:1", 111, true),
            ("d:1", 112, false),
        ] {
            let announced = stores.announce(address.to_owned(), at(second), 2);
            assert_eq!(announced, is_there, "{address} after {second} s");
        }
    }
}
