//! The settings of placement: the packing policy, the weights of the score terms, and the three
//! optimisations (paper, section 3.4), each of which can be switched off to measure it.

use cell::Cell;
use model::PackingPolicy;

use crate::score::Weights;

/// The settings of placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The packing policy; `None`: the one that the cell is set to.
    pub policy: Option<PackingPolicy>,
    /// The weights of the score terms.
    pub weights: Weights,
    /// Equivalence classes: tasks of a job with the same requests are treated as one.
    pub classes: bool,
    /// Score cache: the scores of machines that changed little or not at all are reused.
    pub score_cache: bool,
    /// Relaxed randomisation: machines are examined in a random order, and only until enough are
    /// found on which a task fits.
    pub relaxed: bool,
    /// How many machines are enough.
    pub enough: usize,
    /// The seed of the random order.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: None,
            weights: Weights::default(),
            classes: true,
            score_cache: true,
            relaxed: true,
            enough: 512,
            seed: 1,
        }
    }
}

impl Settings {
    /// The packing policy for a cell.
    pub(crate) fn policy_for(&self, cell: &Cell) -> PackingPolicy {
        self.policy.unwrap_or(cell.packing())
    }

    /// Without any of the three optimisations: every task is compared with every machine
    /// individually.
    #[must_use]
    pub fn exhaustive() -> Self {
        Self { classes: false, score_cache: false, relaxed: false, ..Self::default() }
    }
}
