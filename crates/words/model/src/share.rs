//! The one rule by which users share what is bounded: tasks of a cell, bytes of files, slots of a
//! machine.
//!
//! A bound that all users share and that has no part for each of them belongs to whoever takes it first.
//! Here a user may hold as much as is still free after it (a dynamic threshold; Choudhury and Hahne,
//! 1998): a single user gets half, two get a third each, `n` get equal parts of which one more is always
//! free for the next user. The same holds for administrators, for whom an eighth is reserved: what is
//! full for users can be repaired.
//!
//! This module decides; who holds how much is counted by those who have the things. See decision 075.

use std::fmt;

/// A bound that users share, in the unit of what it bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedBound {
    max: u64,
}

/// How much of it is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// By all together, `own` included.
    pub all: u64,
    /// By the user who asks for more.
    pub own: u64,
}

/// Who asks for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A user.
    User,
    /// An administrator, who has a share of what is reserved, too.
    Administrator,
}

/// Why an asker gets no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// It holds, or would hold, more than its share.
    Share {
        /// What it holds.
        own: u64,
        /// What it may hold at the moment.
        share: u64,
    },
    /// Nothing is free, and it holds nothing.
    Bound {
        /// What all hold.
        all: u64,
        /// The bound.
        max: u64,
    },
}

impl SharedBound {
    /// The part that is reserved for administrators: one in so many.
    const RESERVED: u64 = 8;

    /// A bound of this much for all together.
    #[must_use]
    pub const fn new(max: u64) -> Self {
        Self { max }
    }

    /// The bound of all together.
    #[must_use]
    pub const fn max(self) -> u64 {
        self.max
    }

    /// What users may hold together; the rest is reserved for administrators.
    #[must_use]
    pub const fn of_users(self) -> u64 {
        self.max - self.max / Self::RESERVED
    }

    /// What a user may hold, given what is held now: half of what it holds and what is free, together. It
    /// falls when others take more, and can be less than what the user holds: then the user gets no
    /// more, and keeps what it has.
    #[must_use]
    pub const fn share(self, held: Held) -> u64 {
        self.share_of(held, Asker::User)
    }

    /// The same for an asker.
    #[must_use]
    pub const fn share_of(self, held: Held, asker: Asker) -> u64 {
        let there = match asker {
            Asker::User => self.of_users(),
            Asker::Administrator => self.max,
        };
        there.saturating_sub(held.all.saturating_sub(held.own)).div_ceil(2)
    }

    /// Whether `more` may be taken.
    ///
    /// # Errors
    /// [`Beyond`].
    pub const fn take(self, held: Held, more: u64, asker: Asker) -> Result<(), Beyond> {
        let (own, share) = (held.own, self.share_of(held, asker));
        if more == 0 || own.saturating_add(more) <= share {
            Ok(())
        } else if own == 0 && share == 0 {
            Err(Beyond::Bound { all: held.all, max: self.max })
        } else {
            Err(Beyond::Share { own, share })
        }
    }
}

/// Two clauses: what the user has, and what may be had.
impl fmt::Display for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share { own, share } => {
                write!(f, "you have {own}, and the share of one user is {share} at the moment")
            }
            Self::Bound { all, max } => write!(f, "all have {all}, and the maximum is {max}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Random;

    const BOUND: SharedBound = SharedBound::new(64);

    /// Takes single units for a user until it gets no more.
    fn fill(held: &mut BTreeMap<u64, u64>, user: u64) -> u64 {
        loop {
            let own = held.get(&user).copied().unwrap_or_default();
            if BOUND.take(Held { all: held.values().sum(), own }, 1, Asker::User).is_err() {
                return own;
            }
            held.insert(user, own + 1);
        }
    }

    #[test]
    fn users_who_take_all_they_can_leave_a_part_for_the_next() {
        let mut held = BTreeMap::new();
        let taken: Vec<u64> = (0..6).map(|user| fill(&mut held, user)).collect();
        assert_eq!(taken, [28, 14, 7, 4, 2, 1]);
        let all = held.values().sum();
        let first = Held { all, own: 28 };
        assert_eq!(BOUND.take(first, 1, Asker::User), Err(Beyond::Share { own: 28, share: 14 }));
        let seventh = Held { all, own: 0 };
        assert_eq!(BOUND.take(seventh, 1, Asker::User), Err(Beyond::Bound { all, max: 64 }));
        assert_eq!(BOUND.take(seventh, 4, Asker::Administrator), Ok(()));
    }

    #[test]
    fn users_who_end_and_begin_things_converge_to_equal_parts() {
        let (mut random, mut held) = (Random::new(1), BTreeMap::new());
        for _ in 0..10_000 {
            let user = random.below(3);
            held.entry(user).and_modify(|own: &mut u64| *own = own.saturating_sub(1));
            fill(&mut held, random.below(3));
        }
        (0..3).for_each(|user| _ = fill(&mut held, user));
        let parts: Vec<u64> = held.into_values().collect();
        assert!(parts.iter().all(|part| (10..=22).contains(part)), "{parts:?}");
    }

    #[test]
    fn only_an_administrator_takes_what_is_reserved() {
        let cases = [
            (0, 0, 28, Asker::User, Ok(())),
            (0, 0, 29, Asker::User, Err(Beyond::Share { own: 0, share: 28 })),
            (55, 0, 1, Asker::User, Ok(())),
            (56, 0, 1, Asker::User, Err(Beyond::Bound { all: 56, max: 64 })),
            (56, 0, 4, Asker::Administrator, Ok(())),
            (56, 0, 5, Asker::Administrator, Err(Beyond::Share { own: 0, share: 4 })),
            (56, 40, 1, Asker::User, Err(Beyond::Share { own: 40, share: 20 })),
            (64, 0, 1, Asker::Administrator, Err(Beyond::Bound { all: 64, max: 64 })),
            (u64::MAX, 0, u64::MAX, Asker::User, Err(Beyond::Bound { all: u64::MAX, max: 64 })),
            (64, 64, 0, Asker::User, Ok(())),
        ];
        for (all, own, more, asker, expected) in cases {
            let taken = BOUND.take(Held { all, own }, more, asker);
            assert_eq!(taken, expected, "{all} {own} {more} {asker:?}");
        }
    }
}
