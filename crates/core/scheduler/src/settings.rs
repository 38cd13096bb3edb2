//! How a scheduler goes about it: which packing policy, what each score term weighs, and the three
//! ways of doing less work (paper, section 3.4), each of which can be switched off to measure it.

use crate::score::{Policy, Weights};

/// How a scheduler goes about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How tasks are packed.
    pub policy: Policy,
    /// What each score term weighs.
    pub weights: Weights,
    /// Equivalence classes: tasks of a job that ask for the same are looked at as one.
    pub classes: bool,
    /// Score cache: the scores of machines that did not change, or only a little, are kept.
    pub score_cache: bool,
    /// Relaxed randomisation: machines are examined in a random order, and only until enough are
    /// found that a task fits on.
    pub relaxed: bool,
    /// How many are enough.
    pub enough: usize,
    /// What the random order is made from.
    pub seed: u64,
    /// How many assignments a plan has at most; the rest follows in the next pass. It bounds one
    /// operation of the log.
    pub assignments_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            weights: Weights::default(),
            classes: true,
            score_cache: true,
            relaxed: true,
            enough: 512,
            seed: 1,
            assignments_max: 5_000,
        }
    }
}

impl Settings {
    /// Without any of the three ways of doing less work: every task is compared with every machine
    /// on its own.
    #[must_use]
    pub fn exhaustive() -> Self {
        Self { classes: false, score_cache: false, relaxed: false, ..Self::default() }
    }
}
