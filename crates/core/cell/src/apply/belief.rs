//! What the cell believes of a machine's report. A machine describes itself, and may be faulty or
//! hostile: what it says must not concern other machines or what administrators decide.
//!
//! What is not believed is left out, and [`attribute::REJECTED_REPORT`] says what and why: as an
//! attribute it is shown wherever those are, and is an event.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    Dimension, HeldPorts, MachineId, MachineName, MachineReport, Subnet, VolumeFill, VolumeName,
    attribute,
};

use super::{Events, saving};
use crate::Cell;
use crate::bounds::{
    ATTRIBUTE_CHARACTERS_MAX, ATTRIBUTES_MAX, HELD_PORTS_MAX, MACHINE_CAPACITY_MAX,
};

impl Cell {
    /// A machine's report as the cell stores it: what it believes, truncated to the bounds.
    #[must_use]
    pub fn kept_report(&self, id: MachineId, report: &Arc<MachineReport>) -> Arc<MachineReport> {
        let report = bounded(&self.believed(id, report));
        let volumes = self.volumes_of_report(id, &report);
        let all_volumes = volumes == report.volumes;
        if report.held_ports.is_empty() && report.saving.is_empty() && all_volumes {
            return report;
        }
        let held_ports = bounded_ports(&report.held_ports);
        let saving = saving::bounded(&report.saving);
        Arc::new(MachineReport { held_ports, saving, volumes, ..MachineReport::clone(&report) })
    }

    /// How full the volumes are that the machine has: one statement for each, in order.
    fn volumes_of_report(&self, id: MachineId, report: &MachineReport) -> Vec<VolumeFill> {
        let Some(machine) = self.machines.get(id) else { return Vec::new() };
        let said =
            |name: &VolumeName| report.volumes.iter().find(|fill| fill.volume == *name).cloned();
        machine.volumes.keys().filter_map(said).collect()
    }

    fn believed(&self, id: MachineId, report: &Arc<MachineReport>) -> Arc<MachineReport> {
        let mut rejected = Vec::new();
        let mut task_network = report.task_network;
        if let Some((range, holder)) = task_network.and_then(|range| self.holder(id, range)) {
            rejected.push(format!("task network {range}: machine {holder} has it"));
            task_network = None;
        }
        let most = MACHINE_CAPACITY_MAX;
        let capacity = report.capacity.least(most);
        for dimension in Dimension::ALL {
            let [said, most] = [report.capacity.get(dimension), most.get(dimension)];
            if said > most {
                let [said, most] = [said, most].map(|amount| dimension.show(amount));
                rejected.push(format!("{} {said}: the maximum is {most}", dimension.word()));
            }
        }
        let reserved: Vec<&String> = reserved(&report.attributes).collect();
        for name in &reserved {
            rejected.push(format!("attribute {name}: only administrators set it"));
        }
        if rejected.is_empty() {
            return Arc::clone(report);
        }
        let mut attributes = report.attributes.clone();
        attributes.retain(|name, _| !name.starts_with(attribute::ADMIN_PREFIX));
        while attributes.len() >= ATTRIBUTES_MAX {
            attributes.pop_last();
        }
        attributes.insert(attribute::REJECTED_REPORT.to_owned(), rejected.join("; "));
        Arc::new(MachineReport {
            capacity,
            task_network,
            attributes,
            ..MachineReport::clone(report)
        })
    }

    /// Another machine that has some of these addresses for its tasks.
    fn holder(&self, id: MachineId, range: Subnet) -> Option<(Subnet, MachineName)> {
        // The ranges that are believed do not overlap: of the others only the last one that begins
        // before the end of this one can overlap with it.
        let before = self.task_networks.range(..=range.broadcast().to_bits()).rev();
        let (_, other) = before.take(2).find(|(_, other)| **other != id)?;
        let other = self.machines.get(*other)?;
        let has = other.report.task_network?;
        (has.broadcast() >= range.network()).then(|| (range, other.name.clone()))
    }

    /// A machine's task network has changed: others whose report was rejected may have it now.
    pub(super) fn task_network_changes(
        &mut self,
        id: MachineId,
        (before, after): (Option<Subnet>, Option<Subnet>),
        events: &mut Events,
    ) {
        if before == after {
            return;
        }
        if let Some(before) = before {
            let first = before.network().to_bits();
            if self.task_networks.get(&first) == Some(&id) {
                self.task_networks.remove(&first);
            }
            for machine in self.machines.iter().filter(|machine| machine.id != id) {
                if machine.report.attributes.contains_key(attribute::REJECTED_REPORT) {
                    // With its next order it is asked, and its report compared, again.
                    events.reorder(machine.id);
                }
            }
        }
        if let Some(after) = after {
            self.task_networks.insert(after.network().to_bits(), id);
        }
    }
}

/// The reported attributes that only administrators may set.
fn reserved(attributes: &BTreeMap<String, String>) -> impl Iterator<Item = &String> {
    let from = attributes.range(attribute::ADMIN_PREFIX.to_owned()..);
    from.map(|(name, _)| name).take_while(|name| name.starts_with(attribute::ADMIN_PREFIX))
}

/// A bounded number of ports, sorted and without duplicates.
fn bounded_ports(said: &[HeldPorts]) -> Vec<HeldPorts> {
    let mut said: Vec<_> = said.iter().filter(|held| !held.ports.is_empty()).collect();
    said.sort_unstable();
    let mut kept: Vec<HeldPorts> = Vec::new();
    for held in said {
        let is_new = kept.last().is_none_or(|last| held.ports.first > last.ports.last);
        if is_new && kept.len() < HELD_PORTS_MAX {
            let by = held.by.chars().take(ATTRIBUTE_CHARACTERS_MAX).collect();
            kept.push(HeldPorts { by, ..*held });
        }
    }
    kept
}

/// A report with a bounded number and length of attributes, and a bounded reason.
fn bounded(report: &Arc<MachineReport>) -> Arc<MachineReport> {
    let long = |text: &String| text.chars().nth(ATTRIBUTE_CHARACTERS_MAX).is_some();
    let attributes = &report.attributes;
    let within = attributes.len() <= ATTRIBUTES_MAX
        && !report.not_ready.as_ref().is_some_and(long)
        && !attributes.iter().any(|(name, value)| long(name) || long(value));
    if within {
        return Arc::clone(report);
    }
    let cut = |text: &String| text.chars().take(ATTRIBUTE_CHARACTERS_MAX).collect();
    let kept = attributes.iter().take(ATTRIBUTES_MAX);
    let attributes = kept.map(|(name, value)| (cut(name), cut(value))).collect();
    let not_ready = report.not_ready.as_ref().map(cut);
    Arc::new(MachineReport { attributes, not_ready, ..MachineReport::clone(report) })
}
