//! The cell's settings for the output of tasks.

use event::{EventKind, Subject};
use model::{MachineId, UserName};
use spec::{LogSettings, LogSettingsProblem};

use super::Events;
use crate::apply::mutation::Change;
use crate::{Cell, CellPermission, OutOfBounds, Permission, Rejection, Reply};

/// Set how long the output of tasks is kept, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetLogs(pub LogSettings);

impl Change for SetLogs {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_administrators(by, || Permission::OfCell(CellPermission::SetLogs))
    }

    fn within_bounds(&self) -> Result<(), Rejection> {
        let out = match self.0.problem() {
            None => return Ok(()),
            Some(LogSettingsProblem::Keep(keep)) => OutOfBounds::LogKeep(keep),
            Some(LogSettingsProblem::Task(bytes)) => OutOfBounds::LogBytes(bytes),
            Some(LogSettingsProblem::Machine(bytes)) => OutOfBounds::LogBytesOnMachine(bytes),
        };
        Err(Rejection::OutOfBounds(out))
    }

    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        self.within_bounds()?;
        if cell.logs == self.0 {
            return Ok(Reply::Done);
        }
        cell.logs = self.0;
        events.add(Subject::Cell, EventKind::LogSettings(self.0));
        let machines: Vec<MachineId> = cell.machines().map(|machine| machine.id).collect();
        for machine in machines {
            events.reorder(machine);
        }
        Ok(Reply::Done)
    }
}
