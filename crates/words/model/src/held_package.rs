//! What a machine has of a package, in the form in which it reports it.

use std::fmt;

use crate::{Bytes, Digest};

/// How many packages a machine reports at most: those that were used least recently are left out.
pub const HELD_PACKAGES_MAX: usize = 4_096;

/// The first eight bytes of the digest of a manifest: enough to prefer a machine, and too few to trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DigestPrefix(pub u64);

impl Digest {
    /// Its first eight bytes.
    #[must_use]
    pub fn prefix(&self) -> DigestPrefix {
        let bytes = self.as_bytes().iter().take(8);
        DigestPrefix(bytes.fold(0, |prefix, byte| prefix << 8 | u64::from(*byte)))
    }
}

/// Displayed in hexadecimal, as the beginning of the digest.
impl fmt::Display for DigestPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What a machine does with what it has of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeldUse {
    /// No task uses it.
    Unused,
    /// A task uses it.
    InUse,
    /// A part of it is being fetched.
    Fetching,
}

impl HeldUse {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Unused, Self::InUse, Self::Fetching];

    /// Its name in outputs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unused => "unused",
            Self::InUse => "in use",
            Self::Fetching => "fetching",
        }
    }
}

/// A package of which a machine has something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeldPackage {
    /// Which.
    pub package: DigestPrefix,
    /// What its layers take that are there or being fetched.
    pub bytes: Bytes,
    /// What all its layers take that a task on this machine needs.
    pub needs: Bytes,
    /// What is done with it.
    pub held_use: HeldUse,
}

impl HeldPackage {
    /// What the machine has of a package of this size, in proportion.
    #[must_use]
    pub fn of(&self, size: Bytes) -> Bytes {
        if self.bytes >= self.needs {
            return size;
        }
        let part = u128::from(size.0) * u128::from(self.bytes.0) / u128::from(self.needs.0.max(1));
        Bytes(u64::try_from(part).unwrap_or(size.0))
    }
}

/// A number that tells one list of held packages from another; never 0, which stands for no list.
#[must_use]
pub fn held_version(held: &[HeldPackage]) -> u64 {
    // FNV-1a, over whole words.
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    let words = held
        .iter()
        .flat_map(|held| [held.package.0, held.bytes.0, held.needs.0, held.held_use as u64]);
    words.fold(0xcbf2_9ce4_8422_2325, mix).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(package: u64, bytes: u64, needs: u64) -> HeldPackage {
        let (bytes, needs) = (Bytes(bytes), Bytes(needs));
        HeldPackage { package: DigestPrefix(package), bytes, needs, held_use: HeldUse::Unused }
    }

    #[test]
    fn a_prefix_is_the_beginning_of_the_displayed_digest() {
        let mut bytes = [0; 32];
        (bytes[0], bytes[7], bytes[8]) = (0xab, 0x01, 0xff);
        let digest = Digest::from_bytes(bytes);
        assert_eq!(digest.prefix().to_string(), "ab00000000000001");
        assert!(digest.to_string().starts_with(&digest.prefix().to_string()));
    }

    #[test]
    fn what_is_held_is_in_proportion() {
        for (bytes, needs, size, expected) in
            [(5, 10, 100, 50), (10, 10, 100, 100), (11, 10, 100, 100), (0, 0, 7, 7), (0, 9, 7, 0)]
        {
            assert_eq!(
                held(1, bytes, needs).of(Bytes(size)),
                Bytes(expected),
                "{bytes} of {needs}"
            );
        }
        assert_eq!(held(1, u64::MAX - 1, u64::MAX).of(Bytes(u64::MAX)), Bytes(u64::MAX - 1));
    }

    #[test]
    fn every_change_of_a_list_changes_its_version() {
        let lists = [
            vec![],
            vec![held(1, 2, 3)],
            vec![held(1, 3, 3)],
            vec![held(2, 2, 3)],
            vec![HeldPackage { held_use: HeldUse::InUse, ..held(1, 2, 3) }],
            vec![held(1, 2, 3), held(2, 2, 3)],
            vec![held(2, 2, 3), held(1, 2, 3)],
        ];
        let versions: std::collections::BTreeSet<u64> =
            lists.iter().map(|list| held_version(list)).collect();
        assert_eq!(versions.len(), lists.len());
        assert!(!versions.contains(&0));
    }
}
