//! Machines join, describe themselves, fall silent, return, are drained and leave.

use std::collections::BTreeMap;
use std::sync::Arc;

use event::{Death, EventKind, EvictionCause, StopReason, Subject};
use model::{End, GcuFactor, MachineId, MachineName, MachineReport, Span, UserName, attribute};

use super::capability::not_allowed;
use super::task::Again;
use super::{Events, ids_used_up, text_bounds};
use crate::apply::mutation::Change;
use crate::bounds::{ATTRIBUTES_MAX, MACHINES_MAX, PLATFORMS_MAX};
use crate::{
    Cell, CellPermission, Countable, Machine, MachinePermission, MachineState, Permission,
    Permitted, Rejection, Reply, VolumeHindrance,
};

/// Add a machine by its name and the address of its Borglet. An existing machine of that name gets
/// the new address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddMachine {
    /// Its name.
    pub name: MachineName,
    /// The address of its Borglet, as `host:port`.
    pub address: String,
}

impl Change for AddMachine {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_administrators(by, || Permission::OfMachine {
            machine: self.name.clone(),
            what: MachinePermission::Add,
        })
    }

    fn within_bounds(&self) -> Result<(), Rejection> {
        text_bounds::machine_address(&self.address)
    }

    fn address(&self) -> Option<&str> {
        Some(&self.address)
    }

    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Self { name, address } = self;
        cell.known_or_new_machine(name, address, events).map(Reply::MachineAdded)
    }
}

/// Remove a machine on which nothing is placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveMachine {
    /// The machine.
    pub machine: MachineName,
    /// Whether claims of its volumes end; else it is rejected if there are any.
    pub force: bool,
}

impl Change for RemoveMachine {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_administrators(by, || Permission::OfMachine {
            machine: self.machine.clone(),
            what: MachinePermission::Remove,
        })
    }

    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let name = &self.machine;
        let id = cell.machine_id(name)?;
        if let Some(machine) = cell.machines.get(id) {
            let tasks = machine.instances.len() as u64;
            if tasks > 0 {
                return Err(Rejection::MachineInUse { machine: name.clone(), tasks });
            }
        }
        if let (Some((volume, by, others)), false) = (cell.first_claim_on(id), self.force) {
            let (machine, why) = (name.clone(), VolumeHindrance::MachineLeaves { by, others });
            return Err(Rejection::Volume { machine, volume, why });
        }
        cell.credentials_leave(id)?;
        if let Some(machine) = cell.machines.get(id) {
            cell.machine_addresses.remove(&machine.address);
            if let Some(switch) = machine.attribute(attribute::SWITCH) {
                cell.switches.remove(&(switch.into(), id));
            }
        }
        cell.release_volumes(id, events);
        cell.saving_ends(id, events);
        let range = cell.machines.get(id).and_then(|machine| machine.report.task_network);
        cell.task_network_changes(id, (range, None), events);
        events.left.insert(id, name.clone());
        cell.machine_names.remove(name);
        cell.draining.remove(&id);
        cell.not_ready.remove(&id);
        cell.machines.remove(id);
        cell.set_machines_aside();
        events.reorder(id);
        let removed = EventKind::MachineRemoved { name: name.clone() };
        events.add(Subject::Machine(id), removed);
        Ok(Reply::Done)
    }
}

/// Set attributes of a machine that override what it reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAttributes {
    /// The machine.
    pub machine: MachineName,
    /// The attributes; `None` removes the override.
    pub changes: BTreeMap<String, Option<String>>,
}

impl Change for SetAttributes {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_administrators(by, || Permission::OfMachine {
            machine: self.machine.clone(),
            what: MachinePermission::SetAttributes,
        })
    }

    fn within_bounds(&self) -> Result<(), Rejection> {
        text_bounds::check_count(&self.machine, &self.changes)?;
        text_bounds::attributes(&self.changes)
    }

    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Self { machine: name, changes } = self;
        text_bounds::attributes(changes)?;
        let id = cell.machine_id(name)?;
        let Some(machine) = cell.machines.get(id) else { return Ok(Reply::Done) };
        let mut said = BTreeMap::clone(&machine.operator_attributes);
        for (name, value) in changes {
            match value {
                Some(value) => drop(said.insert(name.clone(), value.clone())),
                None => drop(said.remove(name)),
            }
        }
        if said.len() > ATTRIBUTES_MAX {
            let (what, has) = (Countable::AttributesOf(name.clone()), said.len() as u64);
            return Err(Rejection::Full { what, has, most: ATTRIBUTES_MAX as u64 });
        }
        if said != *machine.operator_attributes {
            let said = Arc::new(said);
            cell.change_machine(id, false, events, |machine| machine.operator_attributes = said);
        }
        Ok(Reply::Done)
    }
}

/// Set the factor of a platform's cores; 1 removes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPlatform {
    /// The platform, as its machines report it.
    pub platform: String,
    /// The factor.
    pub factor: GcuFactor,
}

impl Change for SetPlatform {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_administrators(by, || Permission::OfCell(CellPermission::SetPlatform))
    }

    fn within_bounds(&self) -> Result<(), Rejection> {
        text_bounds::platform(&self.platform)
    }

    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let (platform, factor) = (self.platform.as_str(), self.factor);
        text_bounds::platform(platform)?;
        let known = cell.platforms.get(platform).copied().unwrap_or_default();
        if known == factor {
            return Ok(Reply::Done);
        }
        let has = cell.platforms.len();
        match factor == GcuFactor::ONE {
            true => drop(cell.platforms.remove(platform)),
            false if has >= PLATFORMS_MAX && !cell.platforms.contains_key(platform) => {
                let (what, most) = (Countable::Platforms, PLATFORMS_MAX as u64);
                return Err(Rejection::Full { what, has: has as u64, most });
            }
            false => drop(cell.platforms.insert(platform.to_owned(), factor)),
        }
        let kind = EventKind::Platform { platform: platform.to_owned(), factor };
        events.add(Subject::Cell, kind);
        let of_it =
            |machine: &&Arc<Machine>| machine.attribute(attribute::PLATFORM) == Some(platform);
        let machines: Vec<_> =
            cell.machines.iter().filter(of_it).map(|machine| machine.id).collect();
        for id in machines {
            cell.change_machine(id, false, events, |_| {});
            // The limits of its tasks now correspond to another number of physical cores.
            events.reorder(id);
        }
        Ok(Reply::Done)
    }
}

impl Cell {
    pub(crate) fn only_administrators(
        &self,
        by: &UserName,
        what: impl FnOnce() -> Permission,
    ) -> Result<(), Rejection> {
        if self.is_administrator(by) {
            return Ok(());
        }
        Err(not_allowed(by, what(), Permitted::Administrators))
    }

    pub(super) fn machine_id(&self, name: &MachineName) -> Result<MachineId, Rejection> {
        let id = self.machine_names.get(name).copied();
        id.ok_or_else(|| Rejection::NoSuchMachine(name.clone()))
    }

    /// The machine of that name, at that address.
    pub(super) fn known_or_new_machine(
        &mut self,
        name: &MachineName,
        address: &str,
        events: &mut Events,
    ) -> Result<MachineId, Rejection> {
        text_bounds::machine_address(address)?;
        let known = self.machine_names.get(name).copied();
        if let Some(other) = self.machine_addresses.get(address)
            && Some(*other) != known
            && let Some(other) = self.machines.get(*other)
        {
            return Err(Rejection::AddressTaken(other.name.clone()));
        }
        if let Some(id) = known {
            if let Some(machine) = self.machines.get_mut(id)
                && *machine.address != *address
            {
                self.machine_addresses.remove(&machine.address);
                machine.address = address.into();
                self.machine_addresses.insert(Arc::clone(&machine.address), id);
                events.add(Subject::Machine(id), EventKind::MachineAdded);
            }
            return Ok(id);
        }
        let has = self.machines.len() as u64;
        if has >= MACHINES_MAX {
            return Err(Rejection::Full { what: Countable::Machines, has, most: MACHINES_MAX });
        }
        let last = self.last_machine.0;
        let id =
            MachineId(last.checked_add(1).ok_or_else(|| ids_used_up(Countable::MachineIds, last))?);
        self.last_machine = id;
        let mut machine = Machine::new(id, name.clone(), address.into());
        machine.credentials = self.revoked_machines.remove(name);
        self.machine_addresses.insert(Arc::clone(&machine.address), id);
        self.machine_names.insert(name.clone(), id);
        self.machines.insert(id, Arc::new(machine));
        self.set_machines_aside();
        events.add(Subject::Machine(id), EventKind::MachineAdded);
        Ok(id)
    }

    pub(super) fn describe_machine(
        &mut self,
        id: MachineId,
        report: &Arc<MachineReport>,
        events: &mut Events,
    ) {
        let report = self.kept_report(id, report);
        let Some(machine) = self.machines.get(id) else { return };
        let joins = machine.state == MachineState::Joining;
        let before = Arc::clone(&machine.report);
        if before != report || joins {
            let after = Arc::clone(&report);
            self.change_machine(id, joins, events, |machine| machine.report = report);
            self.saving_changes(id, &before, &after, events);
            self.task_network_changes(id, (before.task_network, after.task_network), events);
        }
        if let Some(machine) = self.machines.get_mut(id)
            && joins
        {
            machine.state = MachineState::Up;
        }
    }

    /// Changes a machine's reported state, and emits events for what changed.
    fn change_machine(
        &mut self,
        id: MachineId,
        joins: bool,
        events: &mut Events,
        change: impl FnOnce(&mut Machine),
    ) {
        let Some(machine) = self.machines.get_mut(id) else { return };
        let (capacity, before) = (machine.capacity(), Arc::clone(&machine.attributes));
        let (shortage, not_ready) = (machine.report.shortage, machine.report.not_ready.clone());
        let said = *machine.report != MachineReport::default();
        change(machine);
        let says = *machine.report != MachineReport::default();
        machine.derive(&self.platforms);
        let switch = |known: &BTreeMap<String, String>| known.get(attribute::SWITCH).cloned();
        let (was, is) = (switch(&before), switch(&machine.attributes));
        if was != is {
            was.map(|switch| self.switches.remove(&(switch.into(), id)));
            is.map(|switch| self.switches.insert((switch.into(), id)));
        }
        if joins || said != says || before != machine.attributes {
            events.described.insert(id);
        }
        let after = &machine.attributes;
        if machine.capacity() != capacity || joins {
            let capacity = machine.capacity();
            events.add(Subject::Machine(id), EventKind::MachineUpdated { capacity });
        }
        if machine.report.shortage != shortage {
            let shortage = machine.report.shortage;
            events.add(Subject::Machine(id), EventKind::MachineShortage { shortage });
        }
        let readiness = machine.report.not_ready.clone();
        let gone = before.keys().filter(|name| !after.contains_key(*name));
        let gone = gone.map(|name| (name, None));
        let new = after.iter().filter(|(name, value)| before.get(*name) != Some(value));
        for (name, value) in gone.chain(new.map(|(name, value)| (name, Some(value)))) {
            let (name, value) = (name.clone(), value.cloned());
            events.add(Subject::Machine(id), EventKind::Attribute { name, value });
        }
        if readiness != not_ready {
            self.readiness_changes(id, readiness, events);
        }
    }

    fn readiness_changes(&mut self, id: MachineId, reason: Option<String>, events: &mut Events) {
        match reason {
            Some(_) => drop(self.not_ready.insert(id)),
            None => {
                self.not_ready.remove(&id);
                if let Some(machine) = self.machines.get_mut(id) {
                    machine.set_aside = false;
                }
            }
        }
        self.set_machines_aside();
        events.add(Subject::Machine(id), EventKind::MachineReadiness { reason });
    }

    /// Decides which of the machines that can run no tasks get none: at most half of the cell's.
    pub(crate) fn set_machines_aside(&mut self) {
        let most = self.machines.len() / 2;
        let aside: Vec<_> =
            self.not_ready.iter().enumerate().map(|(place, id)| (*id, place < most)).collect();
        for (id, set_aside) in aside {
            if self.machines.get(id).is_some_and(|machine| machine.set_aside != set_aside)
                && let Some(machine) = self.machines.get_mut(id)
            {
                machine.set_aside = set_aside;
            }
        }
    }

    pub(super) fn machine_unreachable(&mut self, id: MachineId, events: &mut Events) {
        let now = self.time;
        // A joining machine has no tasks, and gets none before it answers.
        if let Some(machine) = self.machines.get_mut(id)
            && machine.state == MachineState::Up
        {
            machine.state = MachineState::Unreachable { since: now };
            events.add(Subject::Machine(id), EventKind::MachineUnreachable);
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
        for instance in self.innermost_first(instances) {
            let stop = self.placement(instance).and_then(|placed| placed.stop.clone());
            match stop.as_deref() {
                Some(StopReason::Kill(why)) => {
                    self.ended_for_good(instance, &end, Death::Killed(why.clone()), events);
                }
                Some(StopReason::Evict(_)) | None => {
                    let how = Again::Evicted(EvictionCause::MachineFailure);
                    self.begin_again(instance, how, Span::ZERO, &end, events);
                }
            }
        }
    }

    pub(super) fn machine_back(&mut self, id: MachineId, events: &mut Events) {
        let Some(machine) = self.machines.get_mut(id) else { return };
        machine.state = match machine.state {
            MachineState::Joining | MachineState::Up => return,
            MachineState::Unreachable { .. } => MachineState::Up,
            // If it went silent before it described itself, it still has to.
            MachineState::Down { .. } if *machine.report == MachineReport::default() => {
                MachineState::Joining
            }
            MachineState::Down { .. } => MachineState::Up,
        };
        events.add(Subject::Machine(id), EventKind::MachineBack);
    }
}
