//! Moving a running task to another machine: its incarnation here is stopped within the disruption budget, and its
//! next one is placed there if it still fits. Who proposes moves is a client; the cell holds it to what may be moved.

use event::{EventKind, EvictionCause, MoveReason, StopReason, Subject};
use model::{Capability, InstanceId, MachineName, Sequencer, UserName};

use super::Events;
use super::capability::not_the_owner;
use crate::apply::mutation::Change;
use crate::feasibility::{Offer, Request, fits};
use crate::{Cell, Job, JobPermission, Machine, MoveHindrance, Rejection, Reply};

/// Move a running task to another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveTask {
    /// The task, in the incarnation that leaves its machine.
    pub instance: InstanceId,
    /// The machine that it moves to.
    pub to: MachineName,
    /// What for.
    pub why: MoveReason,
    /// The lock that the client holds. If it is lost, the request is rejected.
    pub sequencer: Option<Sequencer>,
}

impl Change for MoveTask {
    /// Requires the job to be one's own, or a capability, which is checked when it is applied.
    fn allowed(&self, _: &Cell, _: &UserName) -> Result<(), Rejection> {
        Ok(())
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Self { instance, to, why, sequencer } = self;
        let id = instance.collection;
        let job = cell.jobs.get(id).ok_or(Rejection::NoSuchCollection(id))?;
        let (owner, name) = (job.owner.clone(), job.spec.name.clone());
        let capability = Capability::MoveTasks;
        if *by != owner && !cell.may(by, capability) {
            return Err(not_the_owner(by, (&owner, &name), JobPermission::MoveTasks, capability));
        }
        if let Some(sequencer) = sequencer {
            cell.holds_lock(by, sequencer)?;
        }
        let target = cell.machine_named(to).ok_or_else(|| Rejection::NoSuchMachine(to.clone()))?;
        let movable = cell.may_move(*instance);
        let movable = movable.and_then(|()| cell.may_move_to(*instance, target));
        let machine = target.id;
        let index = instance.index;
        movable.map_err(|why| Rejection::NotMovable { owner: owner.clone(), name, index, why })?;
        if *by != owner {
            events.add(Subject::Job(id), EventKind::CapabilityUsed { capability });
        }
        let cause = EvictionCause::Moved { to: machine, why: *why };
        cell.stop(*instance, &StopReason::Evict(cause), events);
        Ok(Reply::Done)
    }
}

impl Cell {
    /// Whether a task may be moved away from its machine now.
    ///
    /// # Errors
    /// Why not.
    pub fn may_move(&self, instance: InstanceId) -> Result<(), MoveHindrance> {
        let (job, machine) = self.is_movable(instance)?;
        if machine.drain.is_some() {
            return Err(MoveHindrance::Draining);
        }
        if job.open_update().is_some() {
            return Err(MoveHindrance::Updating);
        }
        self.may_disrupt(instance).map_err(|_| MoveHindrance::Budget)
    }

    /// Whether a task is of a kind that is moved, and up.
    fn is_movable(&self, instance: InstanceId) -> Result<(&Job, &Machine), MoveHindrance> {
        let job = self.jobs.get(instance.collection).ok_or(MoveHindrance::NotUp)?;
        let placed = self.placement(instance).filter(|placed| placed.up_since().is_some());
        let placed = placed.ok_or(MoveHindrance::NotUp)?;
        let machine = self.machines.get(placed.machine).ok_or(MoveHindrance::NotUp)?;
        let described = job.described(instance.index);
        if job.spec.kind.is_alloc_set() || job.alloc_set.is_some() {
            return Err(MoveHindrance::InAlloc);
        }
        if described.is_on_every_machine() || job.spec.is_on_every_machine() {
            return Err(MoveHindrance::EveryMachine);
        }
        if !described.task.volumes.is_empty() || !job.spec.task.volumes.is_empty() {
            return Err(MoveHindrance::Volumes);
        }
        if instance.index.0 >= job.spec.tasks {
            return Err(MoveHindrance::Replacement);
        }
        Ok((job, machine))
    }

    /// Whether a task that runs on another machine fits on this one now.
    ///
    /// # Errors
    /// Why not.
    pub fn may_move_to(
        &self,
        instance: InstanceId,
        machine: &Machine,
    ) -> Result<(), MoveHindrance> {
        let (job, from) = self.is_movable(instance)?;
        if from.id == machine.id {
            return Err(MoveHindrance::SameMachine);
        }
        let ask = Request::of(self, job, instance.index);
        fits(&ask, &Offer::to(self, job, machine)).map_err(|_| MoveHindrance::NoRoom)
    }
}
