//! Tracks a proposal until it is applied.
//!
//! A proposal may be lost on its way to the leader, or with a leader that is deposed. The proposer
//! does not learn of that, so it repeats the proposal after a while. If it is not lost but the log
//! is slow, repetitions would make it slower: each wait is twice as long as the previous one, up to
//! a bound.

use model::{Span, Time};

use crate::Settings;

/// The maximum wait, as a multiple of the first.
const WAIT_TIMES_MAX: u64 = 8;

/// The proposal of one kind about one subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Proposal {
    /// None is in flight.
    #[default]
    None,
    /// It was made, and is not known to be applied.
    Made {
        /// When it is considered lost.
        again: Time,
        /// The wait after which it is.
        wait: Span,
    },
}

impl Proposal {
    /// Whether it is still awaited.
    pub(crate) fn is_awaited(self, now: Time) -> bool {
        matches!(self, Self::Made { again, .. } if now < again)
    }

    /// Whether it is considered lost.
    pub(crate) fn is_overdue(self, now: Time) -> bool {
        matches!(self, Self::Made { again, .. } if again <= now)
    }

    /// When it is considered lost.
    pub(crate) fn again(self) -> Option<Time> {
        match self {
            Self::None => None,
            Self::Made { again, .. } => Some(again),
        }
    }

    /// Records that the proposal is made now.
    pub(crate) fn make(&mut self, now: Time, settings: &Settings) {
        let before = match self {
            Self::None => Span::ZERO,
            Self::Made { wait, .. } => *wait,
        };
        let first = settings.propose_again;
        let wait = before.saturating_mul(2).clamp(first, first.saturating_mul(WAIT_TIMES_MAX));
        *self = Self::Made { again: now + wait, wait };
    }

    /// Records that it will never be applied, if it was not yet.
    pub(crate) fn lose(&mut self, now: Time) {
        if let Self::Made { again, wait } = self {
            (*again, *wait) = (now, Span::ZERO);
        }
    }

    /// Records that it is applied, or no longer needed.
    pub(crate) fn end(&mut self) {
        *self = Self::None;
    }
}
