//! How a scheduler goes about it: which packing policy, what each score term weighs, and the three
//! ways of doing less work (paper, section 3.4), each of which can be switched off to measure it.

use crate::score::Weights;

/// How tasks are packed (paper, section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// As little as possible is left of one resource that cannot be used for want of another.
    #[default]
    Hybrid,
    /// As little as possible is left of the machine.
    BestFit,
    /// The machine whose cost rises least: tasks are spread, with headroom everywhere.
    EPvm,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Hybrid, Self::BestFit, Self::EPvm];

    /// Its name in flags and output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hybrid => "hybrid",
            Self::BestFit => "best-fit",
            Self::EPvm => "e-pvm",
        }
    }
}

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
