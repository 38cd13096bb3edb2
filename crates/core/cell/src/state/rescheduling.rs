//! The cell's circuit breaker: whether the tasks of machines that do not answer are rescheduled.

use model::{Time, UserName};

/// Whether machines that do not answer are marked down, so that their tasks run elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Rescheduling {
    /// They are, at the master's limited rate.
    #[default]
    Allowed,
    /// They are not: too many were silent at once, so a partition of the network or of the master
    /// is more likely than the failure of all of them.
    Stopped {
        /// Since when.
        since: Time,
        /// Number of unreachable machines then.
        silent: u32,
        /// Out of how many that had been up.
        of: u32,
    },
    /// They are although many are silent, because an administrator said so. The breaker is armed
    /// again once fewer are silent.
    Resumed {
        /// Since when.
        since: Time,
        /// The administrator.
        by: UserName,
    },
}
