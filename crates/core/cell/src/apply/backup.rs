//! Backups: that a checkpoint of the cell was saved.

use event::{EventKind, Subject};
use model::{Capability, LogIndex, Time, UserName};

use super::Events;
use crate::apply::mutation::Change;
use crate::{Cell, CellPermission, LastBackup, Permission, Rejection, Reply};

/// Record that a checkpoint of the cell was sent whole to the user who saves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordBackup {
    /// The index as of which the cell was saved. One that the cell did not have yet counts as its last one.
    pub index: LogIndex,
}

impl Change for RecordBackup {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_holders(by, Capability::SaveCheckpoints, || {
            Permission::OfCell(CellPermission::SaveCheckpoint)
        })
    }

    /// Adds the event. What is not newer than the last backup changes nothing.
    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let index = self.index.min(LogIndex(cell.index.0.saturating_sub(1)));
        if cell.last_backup.as_ref().is_none_or(|last| last.index < index) {
            cell.last_backup = Some(LastBackup { index, at: cell.time, by: by.clone() });
            events.add(Subject::Cell, EventKind::BackupSaved { index });
        }
        Ok(Reply::Done)
    }
}

impl Cell {
    /// Its last backup; `None` if none was ever saved, as far as the cell knows.
    #[must_use]
    pub fn last_backup(&self) -> Option<&LastBackup> {
        self.last_backup.as_ref()
    }

    /// When it was bootstrapped; `None` before that, and if it began before this was recorded.
    #[must_use]
    pub fn bootstrapped(&self) -> Option<Time> {
        self.bootstrapped
    }
}
