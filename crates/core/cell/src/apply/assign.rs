//! Accepting or rejecting a scheduler's proposals.

use std::sync::Arc;

use event::{EvictionCause, PendingCause, StopReason};
use model::{Band, InstanceId, Priority, Time};

use super::{Events, start};
use crate::feasibility::{Offer, Request, Sums, fits};
use crate::{Assignment, AssignmentRefused, Cell, Machine, NoVictim, Phase, Placement, TaskState};

impl Cell {
    pub(super) fn assign(
        &mut self,
        assignment: &Assignment,
        began: Option<Time>,
        events: &mut Events,
    ) -> Result<(), AssignmentRefused> {
        let placement = self.consider(assignment, began)?;
        for victim in &assignment.victims {
            let cause = EvictionCause::Preempted { by: assignment.instance };
            self.stop(*victim, &StopReason::Evict(cause), events);
        }
        self.place(assignment.instance, placement, events);
        Ok(())
    }

    fn consider(
        &self,
        assignment: &Assignment,
        began: Option<Time>,
    ) -> Result<Placement, AssignmentRefused> {
        let id = assignment.instance.task();
        let no_such_task = || AssignmentRefused::NoSuchTask(id);
        let job = self.jobs.get(id.collection).ok_or_else(no_such_task)?;
        let task = job.task(id.index).ok_or_else(no_such_task)?;
        let TaskState::Pending { since, not_before, cause } = task.state else {
            return Err(AssignmentRefused::NotPending(id));
        };
        if task.generation != assignment.instance.generation {
            return Err(AssignmentRefused::NotPending(id));
        }
        if not_before > self.time {
            return Err(AssignmentRefused::NotYet(id));
        }
        let machine = self
            .machines
            .get(assignment.machine)
            .ok_or(AssignmentRefused::NoSuchMachine(assignment.machine))?;
        let ask = Request::of(self, job, id.index);
        let mut offer = self.offered(job, machine, assignment)?;
        let leaving_ports;
        if !assignment.victims.is_empty() {
            let staying =
                self.staying(machine, job.described(id.index).priority, &assignment.victims)?;
            leaving_ports = self.leaving_ports(machine, &assignment.victims);
            let Offer { colocated, .. } = offer;
            let leaving_ports = &leaving_ports;
            offer = Offer { colocated, leaving_ports, ..staying.offered_by(machine) };
        }
        fits(&ask, &offer).map_err(|unschedulable_reason| {
            AssignmentRefused::DoesNotFit(machine.id, unschedulable_reason)
        })?;
        let ports = &assignment.ports;
        let can_be_given = |(position, port): (usize, &u16)| {
            machine.is_free_port(*port) && !ports[..position].contains(port)
        };
        if ports.len() != ask.ports || !ports.iter().enumerate().all(can_be_given) {
            return Err(AssignmentRefused::Ports(ports.clone()));
        }
        let takes_address = ask.network.is_own() && assignment.alloc.is_none();
        if assignment.address.is_some() != takes_address
            || assignment.address.is_some_and(|address| !machine.is_free_address(address))
        {
            return Err(AssignmentRefused::Address(assignment.address));
        }
        let address = match assignment.alloc.filter(|_| ask.network.is_own()) {
            Some(alloc) => self.placement(alloc).and_then(|alloc| alloc.address),
            None => assignment.address,
        };
        let own: Vec<u16> = ask.network.numbers().values().copied().collect();
        let fixed = job.with_static_ports(id.index, ports);
        let ports = if ask.network.is_own() { &own } else { &fixed };
        Ok(Placement {
            machine: machine.id,
            alloc: assignment.alloc.map(Arc::new),
            address,
            // Most tasks have no ports, and share one empty slice.
            ports: if ports.is_empty() { Arc::default() } else { ports.as_slice().into() },
            since: self.time,
            phase: Phase::Starting,
            check: None,
            stop: None,
            latency: start::placed(since.max(not_before), began, self.time),
            lost_starts: match cause {
                PendingCause::StartLost { tries } => tries,
                _ => 0,
            },
            inputs: None,
        })
    }

    /// The ports that are free once the victims, and all others that are already leaving, have left.
    fn leaving_ports(&self, machine: &Machine, victims: &[InstanceId]) -> Vec<u16> {
        let leaving = |id: &InstanceId| {
            let placed = self.placement(*id)?;
            (placed.stop.is_some() || victims.contains(id)).then_some(placed.machine_ports())
        };
        let ports = machine.instances().iter().filter_map(leaving).flatten().copied();
        let stays = |port: u16| {
            let holders = machine.instances().iter().filter(|id| leaving(id).is_none());
            let mut kept = holders.filter_map(|id| self.placement(*id));
            kept.any(|placed| placed.machine_ports().contains(&port))
        };
        // A port that a task waits for, while another leaves it, is not free.
        ports.filter(|port| !stays(*port)).collect()
    }

    /// Whether an instance is told to stop because its gang starts again.
    fn leaves_with_gang(&self, instance: InstanceId) -> bool {
        let stop = self.placement(instance).and_then(|placed| placed.stop.as_deref());
        matches!(stop, Some(StopReason::Evict(EvictionCause::GangRestarts { .. })))
    }

    /// What is taken of a machine once the victims of a task of that priority, and all others that
    /// are already leaving, have left; an error if one of the victims may not be evicted (design,
    /// section 5).
    fn staying(
        &self,
        machine: &Machine,
        priority: Priority,
        victims: &[InstanceId],
    ) -> Result<Sums, AssignmentRefused> {
        let stays = |id: &InstanceId| self.placement(*id).is_some_and(|p| p.stop.is_none());
        for (position, victim) in victims.iter().enumerate() {
            let refused = |why| AssignmentRefused::Victim { victim: *victim, why };
            // An assignment before this one may have taken its gang down.
            let leaves = stays(victim) || self.leaves_with_gang(*victim);
            let there = machine.instances().binary_search(victim).is_ok() && leaves;
            let job = self.jobs.get(victim.collection);
            let (Some(job), true, false) = (job, there, victims[..position].contains(victim))
            else {
                return Err(refused(NoVictim::NotThere));
            };
            if job.alloc_set.is_some() {
                return Err(refused(NoVictim::InAlloc));
            }
            let theirs = job.described(victim.index).priority;
            if theirs >= priority {
                return Err(refused(NoVictim::NotLower));
            }
            if theirs.band() == priority.band() && theirs.band() >= Band::Production {
                return Err(refused(NoVictim::SameBand));
            }
        }
        let kept = machine.instances().iter().filter(|id| stays(id) && !victims.contains(id));
        let mut sums = Sums::default();
        for id in kept {
            if let Some(job) = self.jobs.get(id.collection) {
                sums.add(&job.demand(id.index));
            }
        }
        Ok(sums)
    }
}
