//! A task with a network of its own takes an address of its machine. In an alloc it shares the
//! alloc's, if the alloc has one, and the ports of that network with the alloc's other tasks.

use super::{Offer, Request, UnschedulableReason};

pub(super) fn check(ask: &Request<'_>, offer: &Offer<'_>) -> Result<(), UnschedulableReason> {
    let own = ask.network.is_own();
    let Some(alloc) = offer.alloc else {
        let range = offer.machine.report.task_network;
        return match own && offer.free_addresses == 0 {
            true => Err(UnschedulableReason::LacksAddresses { range }),
            false => Ok(()),
        };
    };
    if alloc.own_network != own {
        return Err(UnschedulableReason::AllocNetwork { own });
    }
    let taken = |(_, number): &(_, &u16)| alloc.ports_taken.contains(*number);
    match ask.network.numbers().iter().find(taken) {
        Some((port, number)) => {
            let (port, number) = (port.clone(), *number);
            Err(UnschedulableReason::AllocPort { port: Box::new(port), number })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{MachineReport, PortName};
    use spec::Network;

    use super::*;
    use crate::feasibility::OfferedAlloc;
    use crate::feasibility::testing::asking;
    use crate::{Demand, Machine};

    #[test]
    fn an_own_network_needs_a_free_address() {
        let own = Network::Own { ports: [].into() };
        let range = "10.64.5.0/30".parse().ok();
        let mut machine = Machine::testing();
        for (network, offered, free, expected) in [
            (&Network::Host, None, 0, None),
            (
                &own,
                None,
                0,
                Some("has no network for tasks: its Borglet runs without --task-network"),
            ),
            (&own, range, 1, None),
            (&own, range, 0, Some("lacks addresses: the 1 of 10.64.5.0/30 are all taken")),
        ] {
            let report = MachineReport { task_network: offered, ..MachineReport::default() };
            machine.report = Arc::new(report);
            let ask = Request { network, ..asking(Demand::default()) };
            let offer = Offer { free_addresses: free, ..Offer::of(&machine) };
            let found = check(&ask, &offer).err().map(|reason| reason.to_string());
            assert_eq!(found.as_deref(), expected);
        }
    }

    #[test]
    fn tasks_in_an_alloc_have_its_network_and_different_ports() {
        let http = PortName::new("http").expect("a name");
        let own = Network::Own { ports: [(http, 80)].into() };
        let machine = Machine::testing();
        for (network, own_network, ports_taken, expected) in [
            (&Network::Host, false, &[][..], None),
            (&own, true, &[443], None),
            (&own, true, &[80, 443], Some("has port 80 (http) taken by another task in the alloc")),
            (
                &own,
                false,
                &[],
                Some("has the alloc in the network of the host, and the task wants one of its own"),
            ),
            (
                &Network::Host,
                true,
                &[],
                Some("has the alloc in a network of its own, and the task wants that of the host"),
            ),
        ] {
            let ask = Request { network, ..asking(Demand::default()) };
            let alloc = Some(OfferedAlloc { own_network, ports_taken });
            let offer = Offer { alloc, ..Offer::of(&machine) };
            let found = check(&ask, &offer).err().map(|reason| reason.to_string());
            assert_eq!(found.as_deref(), expected);
        }
    }
}
