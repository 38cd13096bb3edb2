//! The cell's packing policy (paper, section 3.2).

use event::{EventKind, Subject};
use model::{PackingPolicy, UserName};

use super::Events;
use crate::apply::mutation::Change;
use crate::{Cell, CellPermission, Permission, Rejection, Reply};

/// Set how tasks are packed onto machines. Tasks that have a machine stay there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetPacking(pub PackingPolicy);

impl Change for SetPacking {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_administrators(by, || Permission::OfCell(CellPermission::SetPacking))
    }

    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        if cell.packing != self.0 {
            cell.packing = self.0;
            events.add(Subject::Cell, EventKind::Packing(self.0));
        }
        Ok(Reply::Done)
    }
}
