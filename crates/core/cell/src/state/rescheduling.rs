//! Whether the tasks of machines that do not answer are rescheduled: the cell's circuit breaker.

use model::{Time, UserName};

/// Whether machines that do not answer are marked down, and their tasks run elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Rescheduling {
    /// They are, at the master's limited rate.
    #[default]
    Allowed,
    /// They are not: too many were silent at once, and it is more likely that the network or the
    /// master is cut off than that all of them are gone.
    Stopped {
        /// Since when.
        since: Time,
        /// How many machines were unreachable then.
        silent: u32,
        /// Of how many that had been up.
        of: u32,
    },
    /// They are though many are silent, because a person said so; until fewer are, when the breaker
    /// is armed again.
    Resumed {
        /// Since when.
        since: Time,
        /// Who said so.
        by: UserName,
    },
}
