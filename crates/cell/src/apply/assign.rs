//! Accepting or refusing a scheduler's proposals.

use super::Events;
use crate::feasibility::{Ask, Offer, fits};
use crate::{Assignment, AssignmentRefused, Cell, Phase, Placement, TaskState};

impl Cell {
    pub(super) fn assign(
        &mut self,
        assignment: &Assignment,
        events: &mut Events,
    ) -> Result<(), AssignmentRefused> {
        let placement = self.consider(assignment)?;
        self.place(assignment.instance, placement, events);
        Ok(())
    }

    fn consider(&self, assignment: &Assignment) -> Result<Placement, AssignmentRefused> {
        let id = assignment.instance.task();
        let no_such_task = || AssignmentRefused::NoSuchTask(id);
        let job = self.jobs.get(id.collection).ok_or_else(no_such_task)?;
        let task = job.task(id.index).ok_or_else(no_such_task)?;
        let TaskState::Pending { not_before, .. } = task.state else {
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
        let ask = Ask::of(job, id.index);
        fits(&ask, &Offer::of(machine))
            .map_err(|misfit| AssignmentRefused::DoesNotFit(machine.id, misfit))?;
        let ports = &assignment.ports;
        let can_be_given = |(position, port): (usize, &u16)| {
            machine.report.ports.contains(*port)
                && machine.ports_taken().binary_search(port).is_err()
                && !ports[..position].contains(port)
        };
        if ports.len() != ask.ports || !ports.iter().enumerate().all(can_be_given) {
            return Err(AssignmentRefused::Ports(ports.clone()));
        }
        Ok(Placement {
            machine: machine.id,
            ports: ports.as_slice().into(),
            since: self.time,
            phase: Phase::Starting,
            killed_by: None,
        })
    }
}
