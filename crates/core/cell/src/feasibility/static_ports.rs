//! A port with a static number is one port of the machine's address: at most one task has it, and
//! neither the machine's range nor a program that is not a task may have it.

use super::{Offer, PortUse, Request, UnschedulableReason};
use crate::Machine;

/// Whether every static port of a task is free.
///
/// # Errors
/// The first that is not, and who has it.
pub fn check(ask: &Request<'_>, offer: &Offer<'_>) -> Result<(), UnschedulableReason> {
    for (port, number) in ask.static_ports {
        if let Some(by) = used(*number, offer) {
            let (port, number) = (Box::new(port.clone()), *number);
            return Err(UnschedulableReason::StaticPort { port, number, by });
        }
    }
    Ok(())
}

/// Who has a port of the machine that is offered; `None` if it is free.
fn used(port: u16, offer: &Offer<'_>) -> Option<PortUse> {
    let machine = offer.machine;
    let range = machine.report.ports;
    if range.contains(port) {
        return Some(PortUse::Range(range));
    }
    if borglet_port(machine) == Some(port) {
        return Some(PortUse::Borglet);
    }
    if let Some(holder) = machine.report.holder_of(port) {
        return Some(PortUse::Program(holder.into()));
    }
    let is_taken = machine.ports_taken().binary_search(&port).is_ok();
    let is_taken = is_taken && !offer.leaving_ports.contains(&port);
    (is_taken || offer.planned_ports.contains(&port)).then_some(PortUse::Task)
}

/// The port at which a machine's Borglet serves.
fn borglet_port(machine: &Machine) -> Option<u16> {
    machine.address.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use model::{HeldPorts, MachineReport, PortName, PortRange};

    use super::*;
    use crate::Demand;
    use crate::feasibility::testing::asking;

    #[test]
    fn a_static_port_has_one_user_on_a_machine() {
        let name = PortName::new("https").expect("a name");
        let mut machine = Machine::testing();
        machine.address = "127.0.0.1:7000".into();
        let held = HeldPorts { ports: PortRange { first: 22, last: 22 }, by: "sshd".to_owned() };
        machine.report = Arc::new(MachineReport {
            ports: PortRange { first: 20_000, last: 20_999 },
            held_ports: vec![held],
            ..MachineReport::default()
        });
        machine.ports_taken = vec![443, 20_001];
        for (number, leaving, planned, expected) in [
            (80, &[][..], &[][..], None),
            (443, &[], &[], Some("has port 443 (https) taken by another task")),
            (443, &[443], &[], None),
            (443, &[443], &[443], Some("has port 443 (https) taken by another task")),
            (80, &[], &[80], Some("has port 80 (https) taken by another task")),
            (22, &[], &[], Some("has port 22 (https) taken by sshd")),
            (7_000, &[], &[], Some("has port 7000 (https) taken by its Borglet")),
            (
                20_500,
                &[],
                &[],
                Some("gives port 20500 (https) to tasks itself: it is in its range 20000-20999"),
            ),
        ] {
            let static_ports = BTreeMap::from([(name.clone(), number)]);
            let ask = Request { static_ports: &static_ports, ..asking(Demand::default()) };
            let offer =
                Offer { leaving_ports: leaving, planned_ports: planned, ..Offer::of(&machine) };
            let found = check(&ask, &offer).err().map(|reason| reason.to_string());
            assert_eq!(found.as_deref(), expected, "port {number}");
        }
    }
}
