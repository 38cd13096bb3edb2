//! Something that is proposed, until it is applied.
//!
//! A proposal may be lost: on its way to the leader, or with a leader that is none any more. Whoever
//! proposed it hears nothing of that, so it is proposed again after a while. Where it is not lost but
//! the log is slow, more of the same would make it slower: each wait is twice as long as the one
//! before, up to a bound.

use model::{Span, Time};

use crate::Settings;

/// How many times the first wait the longest is.
const WAIT_TIMES_MAX: u64 = 8;

/// A proposal of one kind about one thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Proposal {
    /// None is under way.
    #[default]
    None,
    /// It is proposed, and not applied as far as is known.
    Made {
        /// From when on it is taken to be lost.
        again: Time,
        /// How long that was after it was proposed.
        wait: Span,
    },
}

impl Proposal {
    /// Whether it has to be waited for.
    pub(crate) fn is_awaited(self, now: Time) -> bool {
        matches!(self, Self::Made { again, .. } if now < again)
    }

    /// Whether it is taken to be lost.
    pub(crate) fn is_overdue(self, now: Time) -> bool {
        matches!(self, Self::Made { again, .. } if again <= now)
    }

    /// From when on it is taken to be lost.
    pub(crate) fn again(self) -> Option<Time> {
        match self {
            Self::None => None,
            Self::Made { again, .. } => Some(again),
        }
    }

    /// It is proposed now.
    pub(crate) fn make(&mut self, now: Time, settings: &Settings) {
        let before = match self {
            Self::None => Span::ZERO,
            Self::Made { wait, .. } => *wait,
        };
        let first = settings.propose_again;
        let wait = before.saturating_mul(2).clamp(first, first.saturating_mul(WAIT_TIMES_MAX));
        *self = Self::Made { again: now + wait, wait };
    }

    /// It is known that it never will be applied, if it was not yet.
    pub(crate) fn lose(&mut self, now: Time) {
        if let Self::Made { again, wait } = self {
            (*again, *wait) = (now, Span::ZERO);
        }
    }

    /// It is applied, or no longer wanted.
    pub(crate) fn end(&mut self) {
        *self = Self::None;
    }
}
