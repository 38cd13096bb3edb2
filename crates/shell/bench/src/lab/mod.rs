//! `bourg lab`: the paper's experiments.

mod compaction;
mod estimator;
mod figures;
mod report;

use clap::Subcommand;
use command::Done;

/// The experiments.
#[derive(Debug, Subcommand)]
#[expect(private_interfaces, reason = "callers only run experiments")]
pub enum Experiment {
    /// Replay usage through the estimator of reservations: figures 10, 11 and 12 of the paper.
    ///
    /// Usage is drawn (calibrated synthetic by default) or read from a file (--usage). Machines are
    /// packed by the scheduler's rule: production by limits, the rest by reservations, from a queue
    /// that never ends. The output has what was reclaimed, would-be out-of-memory events, and the
    /// paper's numbers beside them.
    ///
    /// Nothing of a cell is needed or changed. docs/estimator-lab.md describes the model and the
    /// file.
    Estimator(estimator::Options),
}

impl Experiment {
    /// Runs the experiment and prints the results.
    ///
    /// # Errors
    /// If its input is invalid, or a file cannot be read or written.
    pub fn run(&self) -> Done {
        match self {
            Self::Estimator(options) => estimator::run(options),
        }
    }
}
