//! The circuit breaker: while a large part of the cell is silent, no machine is marked down until
//! enough of them answer again, or an administrator overrides it.

use event::{EventKind, Subject};
use model::UserName;

use super::Events;
use crate::apply::mutation::Change;
use crate::{Cell, CellPermission, Permission, Rejection, Reply, Rescheduling};

/// Resume marking machines down although many are silent, after the breaker stopped it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumeRescheduling;

impl Change for ResumeRescheduling {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_administrators(by, || Permission::OfCell(CellPermission::ResumeRescheduling))
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Rescheduling::Stopped { .. } = cell.rescheduling else {
            return Err(Rejection::NotStopped);
        };
        cell.rescheduling = Rescheduling::Resumed { since: cell.time, by: by.clone() };
        events.add(Subject::Cell, EventKind::ReschedulingResumed);
        Ok(Reply::Done)
    }
}

impl Cell {
    pub(super) fn stop_rescheduling(&mut self, silent: u32, of: u32, events: &mut Events) {
        let allowed = self.rescheduling == Rescheduling::Allowed;
        if !allowed || silent > of {
            return;
        }
        self.rescheduling = Rescheduling::Stopped { since: self.time, silent, of };
        events.add(Subject::Cell, EventKind::ReschedulingStopped { silent, of });
    }

    pub(super) fn allow_rescheduling(&mut self, events: &mut Events) {
        if self.rescheduling != Rescheduling::Allowed {
            self.rescheduling = Rescheduling::Allowed;
            events.add(Subject::Cell, EventKind::ReschedulingAllowed);
        }
    }
}
