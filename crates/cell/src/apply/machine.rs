//! Machines join, describe themselves, fall silent and return.

use std::sync::Arc;

use model::{End, MachineId, MachineName, MachineReport, Span, UserName};

use super::{Events, ids_used_up};
use crate::state::bounds::MACHINES_MAX;
use crate::{
    Cell, Death, EventKind, Machine, MachineState, PendingCause, Rejection, Reply, Subject,
};

impl Cell {
    pub(super) fn add_machine(
        &mut self,
        by: &UserName,
        name: &MachineName,
        address: &str,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        if !self.is_administrator(by) {
            return Err(Rejection::NotAllowed {
                by: by.clone(),
                what: format!("add machine {name}"),
                who: "an administrator".to_owned(),
            });
        }
        let other = |machine: &&Arc<Machine>| machine.name != *name && *machine.address == *address;
        if let Some(other) = self.machines.iter().find(other) {
            return Err(Rejection::AddressTaken(other.name.clone()));
        }
        if let Some(id) = self.machine_names.get(name).copied() {
            if let Some(machine) = self.machines.get_mut(id)
                && *machine.address != *address
            {
                machine.address = address.into();
                events.add(Subject::Machine(id), EventKind::MachineAdded);
            }
            return Ok(Reply::MachineAdded(id));
        }
        let has = self.machines.len() as u64;
        if has >= MACHINES_MAX {
            return Err(Rejection::Full { what: "machines", has, most: MACHINES_MAX });
        }
        let last = self.last_machine.0;
        let id = MachineId(last.checked_add(1).ok_or(ids_used_up("machine ids", last))?);
        self.last_machine = id;
        self.machines.insert(id, Arc::new(Machine::new(id, name.clone(), address.into())));
        self.machine_names.insert(name.clone(), id);
        events.add(Subject::Machine(id), EventKind::MachineAdded);
        Ok(Reply::MachineAdded(id))
    }

    pub(super) fn describe_machine(
        &mut self,
        id: MachineId,
        report: &Arc<MachineReport>,
        events: &mut Events,
    ) {
        let Some(machine) = self.machines.get_mut(id) else { return };
        if machine.report != *report || machine.state == MachineState::Joining {
            machine.report = Arc::clone(report);
            events.add(Subject::Machine(id), EventKind::MachineDescribed);
        }
        if machine.state == MachineState::Joining {
            machine.state = MachineState::Up;
        }
    }

    pub(super) fn machine_silent(&mut self, id: MachineId, events: &mut Events) {
        let now = self.time;
        let Some(machine) = self.machines.get_mut(id) else { return };
        if let MachineState::Down { .. } = machine.state {
            return;
        }
        machine.state = MachineState::Down { since: now };
        let end = End::Lost { reason: format!("machine {} went silent", machine.name) };
        let instances = machine.instances.clone();
        events.add(Subject::Machine(id), EventKind::MachineDown);
        for instance in instances {
            if self.placement(instance).is_some_and(|placed| placed.killed_by.is_some()) {
                self.ended_for_good(instance, &end, Death::Killed, events);
            } else {
                let cause = PendingCause::Lost;
                self.begin_again(instance, cause, Span::ZERO, &end, events);
            }
        }
    }

    pub(super) fn machine_back(&mut self, id: MachineId, events: &mut Events) {
        let Some(machine) = self.machines.get_mut(id) else { return };
        if let MachineState::Down { .. } = machine.state {
            // One that went silent before it said what it is has that to say still.
            machine.state = match *machine.report == MachineReport::default() {
                true => MachineState::Joining,
                false => MachineState::Up,
            };
            events.add(Subject::Machine(id), EventKind::MachineBack);
        }
    }
}
