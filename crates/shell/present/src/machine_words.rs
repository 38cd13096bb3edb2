//! What machines offer tasks, in words for people: the same in every program that shows them.

use api::v1;
use model::{HeldPorts, PortRange, Subnet};

/// For example `20000-29999, 3 of them taken`.
#[must_use]
pub fn ports(machine: &v1::MachineStatus) -> String {
    let report = machine.report.clone().unwrap_or_default();
    let port = |port: u32| u16::try_from(port).unwrap_or_default();
    let range = PortRange { first: port(report.first_port), last: port(report.last_port) };
    match range.is_empty() {
        true => "none".to_owned(),
        false => format!("{range}, {} of them taken", machine.ports_taken),
    }
}

/// For example `10.64.5.0/24, 3 of 253 addresses taken`; `None` if it has none.
#[must_use]
pub fn task_network(machine: &v1::MachineStatus) -> Option<String> {
    let range: Subnet = machine.report.as_ref()?.task_network.parse().ok()?;
    let (taken, count) = (machine.addresses_taken, range.task_count());
    Some(format!("{range}, {taken} of {count} addresses taken"))
}

/// For example `31000-31002 by /system.slice/web.service (nginx), …`; `None` if no task lacks a
/// port because of it.
#[must_use]
pub fn held_ports(machine: &v1::MachineStatus) -> Option<String> {
    let held = machine.report.as_ref()?.held_ports.as_ref()?;
    let held = held.groups.iter().filter_map(|held| HeldPorts::try_from(held.clone()).ok());
    let held: Vec<_> = held.map(|held| held.to_string()).collect();
    (!held.is_empty()).then(|| held.join(", "))
}
