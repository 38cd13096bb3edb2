//! The longest notice that any task of the cell has before it is killed. During its notice a task keeps its
//! resources, which another task waits for, so the operator bounds it.

use event::{EventKind, KillReason, StopReason, Subject};
use model::{InstanceId, MachineId, Span, UserName};

use super::Events;
use crate::apply::mutation::Change;
use crate::bounds::NOTICE_MAX;
use crate::{Cell, CellPermission, OutOfBounds, Permission, Rejection, Reply};

/// Set the longest notice of tasks, of those that are being stopped, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetNoticeMax(pub Span);

impl Change for SetNoticeMax {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_administrators(by, || Permission::OfCell(CellPermission::SetNoticeMax))
    }

    fn within_bounds(&self) -> Result<(), Rejection> {
        if self.0 > NOTICE_MAX {
            return Err(Rejection::OutOfBounds(OutOfBounds::Notice(self.0)));
        }
        Ok(())
    }

    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        self.within_bounds()?;
        if cell.notice_max == self.0 {
            return Ok(Reply::Done);
        }
        cell.notice_max = self.0;
        events.add(Subject::Cell, EventKind::NoticeMax(self.0));
        // Tasks that are being stopped may have less time now.
        let machines: Vec<MachineId> = cell.machines().map(|machine| machine.id).collect();
        for machine in machines {
            events.reorder(machine);
        }
        Ok(Reply::Done)
    }
}

impl Cell {
    /// The longest notice of a task.
    #[must_use]
    pub fn notice_max(&self) -> Span {
        self.notice_max
    }

    /// How long a task has between the demand to end and its end, if nobody is in a greater hurry.
    #[must_use]
    pub fn notice_of(&self, instance: InstanceId) -> Span {
        let job = self.job(instance.collection);
        let own = job.map(|job| job.described(instance.index).task(instance.index).notice);
        own.unwrap_or_default().min(self.notice_max)
    }

    /// Whether a task that is being stopped gets no time at all: somebody who may said so, or the
    /// deadline of its machine's forced drain has passed.
    #[must_use]
    pub fn stops_at_once(&self, instance: InstanceId) -> bool {
        let Some(placement) = self.placement(instance) else { return false };
        let is_now =
            |stop: Option<&StopReason>| matches!(stop, Some(StopReason::Kill(KillReason::Now(_))));
        let around = placement.alloc().and_then(|alloc| self.placement(alloc));
        is_now(placement.stop.as_deref())
            || around.is_some_and(|alloc| is_now(alloc.stop.as_deref()))
            || self.machine(placement.machine).is_some_and(|machine| {
                let drain = machine.drain.as_deref();
                drain.is_some_and(|drain| drain.is_over(self.time))
            })
    }
}
