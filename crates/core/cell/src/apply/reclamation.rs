//! The cell's setting of resource reclamation (paper, section 5.5).

use event::{EventKind, Subject};
use model::{Reclamation, UserName};

use super::Events;
use crate::apply::mutation::Change;
use crate::{Cell, CellPermission, Permission, Rejection, Reply};

/// Set how near to the usage reservations may come. Those in force stay: the replicas' next rounds of
/// estimates change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetReclamation(pub Reclamation);

impl Change for SetReclamation {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_administrators(by, || Permission::OfCell(CellPermission::SetReclamation))
    }

    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        if cell.reclamation != self.0 {
            cell.reclamation = self.0;
            events.add(Subject::Cell, EventKind::Reclamation(self.0));
        }
        Ok(Reply::Done)
    }
}
