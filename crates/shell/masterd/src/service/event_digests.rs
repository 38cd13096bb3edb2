//! Which jobs and machines have events in which part of the stored ones. Who looks for the newest events of
//! a job need not read the parts where it has none: there may be millions of events of others.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::event::StoredNames;

/// A part has the events of this many operations: a few thousand events, or a few megabytes.
const OPERATIONS: u64 = 4_096;
/// The bits of a digest: with as many names as a part has, few others are taken for one of them.
const BITS: usize = 1 << 17;
/// The most digests that are kept, of the newest parts: 64 MiB. Others are read.
const DIGESTS_MAX: usize = 4_096;

/// A job or a machine, as digests know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name(u64);

impl Name {
    pub(super) fn of_job(user: &[u8], job: &[u8]) -> Self {
        Self::of((0_u8, user, job))
    }

    pub(super) fn of_machine(machine: &[u8]) -> Self {
        Self::of((1_u8, machine))
    }

    fn of(parts: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        parts.hash(&mut hasher);
        Self(hasher.finish())
    }

    /// The two bits of a name.
    fn bits(self) -> [usize; 2] {
        let [a, b, c, d, e, f, g, h] = self.0.to_be_bytes();
        [[a, b, c, d], [e, f, g, h]].map(|half| u32::from_be_bytes(half) as usize % BITS)
    }
}

/// The names in a part of the events, and by chance some others.
#[derive(Debug)]
pub(super) struct Digest(Box<[u64]>);

impl Default for Digest {
    fn default() -> Self {
        Self(vec![0; BITS / 64].into_boxed_slice())
    }
}

impl Digest {
    /// Adds the names of an event.
    pub(super) fn add(&mut self, payload: &[u8]) {
        let Some(StoredNames { user, job, machine }) = StoredNames::find(payload) else {
            // It may have any.
            self.0.fill(u64::MAX);
            return;
        };
        if !job.is_empty() {
            self.insert(Name::of_job(user, job));
        }
        if !machine.is_empty() {
            self.insert(Name::of_machine(machine));
        }
    }

    fn insert(&mut self, name: Name) {
        for bit in name.bits() {
            self.0[bit / 64] |= 1 << (bit % 64);
        }
    }

    fn may_have(&self, name: Name) -> bool {
        name.bits().into_iter().all(|bit| self.0[bit / 64] >> (bit % 64) & 1 == 1)
    }
}

/// The part with the events of an operation.
pub(super) fn part_of(index: u64) -> u64 {
    index / OPERATIONS
}

/// The first operation of a part.
pub(super) fn first_of(part: u64) -> u64 {
    part.saturating_mul(OPERATIONS)
}

/// The digests of parts that were read as a whole.
#[derive(Clone, Debug, Default)]
pub(super) struct Digests(Arc<Mutex<BTreeMap<u64, Digest>>>);

impl Digests {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Digest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the digest of a part, of which all events are stored.
    pub(super) fn keep(&self, part: u64, digest: Digest) {
        let mut digests = self.lock();
        digests.insert(part, digest);
        while digests.len() > DIGESTS_MAX {
            digests.pop_first();
        }
    }

    /// The newest of some parts that may have events with all of these names.
    pub(super) fn newest(&self, parts: Range<u64>, names: &[Name]) -> Option<u64> {
        let digests = self.lock();
        let may_have = |part: &u64| {
            let digest = digests.get(part);
            digest.is_none_or(|digest| names.iter().all(|name| digest.may_have(*name)))
        };
        parts.rev().find(may_have)
    }
}

#[cfg(test)]
mod tests {
    use api::v1;
    use prost::Message as _;

    use super::*;

    fn event(user: &str, job: &str, machine: &str) -> Vec<u8> {
        let [user, job, machine] = [user, job, machine].map(str::to_owned);
        v1::EventRecord { user, job, machine, ..v1::EventRecord::default() }.encode_to_vec()
    }

    #[test]
    fn parts_without_a_name_are_passed_by() {
        let digests = Digests::default();
        let mut digest = Digest::default();
        digest.add(&event("ana", "web", "m1"));
        digest.add(&event("", "", "m2"));
        digests.keep(3, digest);
        digests.keep(4, Digest::default());
        let web = Name::of_job(b"ana", b"web");
        let (m1, m2, m3) =
            (Name::of_machine(b"m1"), Name::of_machine(b"m2"), Name::of_machine(b"m3"));
        for (parts, names, expected) in [
            (0..5, &[web][..], Some(3)),
            (0..5, &[web, m1], Some(3)),
            (0..5, &[m2], Some(3)),
            // Of these nothing is known.
            (0..5, &[m3], Some(2)),
            (0..6, &[m3], Some(5)),
            (3..5, &[m3], None),
            (3..5, &[web, m3], None),
            (3..5, &[Name::of_job(b"an", b"aweb")], None),
            (4..5, &[], Some(4)),
            (3..3, &[web], None),
        ] {
            assert_eq!(digests.newest(parts.clone(), names), expected, "{parts:?} {names:?}");
        }
    }

    #[test]
    fn an_event_that_cannot_be_read_may_have_any_name() {
        let mut digest = Digest::default();
        digest.add(&[0xff]);
        assert!(digest.may_have(Name::of_machine(b"m1")));
    }

    #[test]
    fn few_names_are_taken_for_others() {
        let mut digest = Digest::default();
        for number in 0..13_000 {
            digest.insert(Name::of_machine(format!("m{number}").as_bytes()));
        }
        let others = 13_000..26_000;
        let wrong = others
            .filter(|number| digest.may_have(Name::of_machine(format!("m{number}").as_bytes())));
        let wrong = wrong.count();
        assert!(wrong < 13_000 / 20, "{wrong}");
    }

    #[test]
    fn only_so_many_are_kept() {
        let digests = Digests::default();
        for part in 0..5 {
            digests.keep(part, Digest::default());
        }
        assert_eq!(digests.lock().len(), 5);
        assert_eq!((part_of(first_of(7)), part_of(first_of(7) - 1)), (7, 6));
    }
}
