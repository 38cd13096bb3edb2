//! The last backup of the cell.

use model::{LogIndex, Time, UserName};

/// The last checkpoint of the whole cell that was sent completely to the user who saves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastBackup {
    /// The index as of which the cell was saved.
    pub index: LogIndex,
    /// When it had been sent.
    pub at: Time,
    /// Who saved it.
    pub by: UserName,
}
