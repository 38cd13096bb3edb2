//! A machine has a range of ports. Each is assigned to one task at a time, and none that something
//! else holds.

use super::{NotGiven, Offer, Request, UnschedulableReason};
use crate::Machine;

pub(super) fn check(ask: &Request<'_>, offer: &Offer<'_>) -> Result<(), UnschedulableReason> {
    if ask.ports <= offer.free_ports {
        return Ok(());
    }
    let held = not_given(offer.machine).map(Box::new);
    Err(UnschedulableReason::LacksPorts { asked: ask.ports, free: offer.free_ports, held })
}

/// The machine's ports that are held by something they were not assigned to, if any.
fn not_given(machine: &Machine) -> Option<NotGiven> {
    let count = machine.held_port_count();
    let first = machine.report.held_ports.first().filter(|_| count > 0)?.clone();
    Some(NotGiven { count, first })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feasibility::testing::checked;

    #[test]
    fn enough_free_ports_must_be_left() {
        let lacks = |asked, free| Some(UnschedulableReason::LacksPorts { asked, free, held: None });
        for (asked, taken, expected) in [(0, 2, None), (2, 0, None), (2, 1, lacks(2, 1))] {
            assert_eq!(checked(check, (0, 0, asked), (0, 0, taken)), expected);
        }
    }
}
