//! In every dimension, no more is requested than is left: by the limits of production for
//! production, and by the reservations of all tasks for everything (paper, section 5.5). A machine
//! that would be too small even when empty is reported as such: waiting does not help there.

use model::Resources;

use super::{Offer, Request, UnschedulableReason};

pub(super) fn check(ask: &Request<'_>, offer: &Offer<'_>) -> Result<(), UnschedulableReason> {
    let demand = &ask.demand;
    let judged = if demand.prod { &demand.limit } else { &demand.reservation };
    let capacity = &offer.capacity;
    if let Some(dimension) = judged.first_above(capacity) {
        let (asked, has) = (judged.get(dimension), capacity.get(dimension));
        return Err(UnschedulableReason::TooSmall { dimension, asked, has });
    }
    lacks(&demand.reservation, &offer.free)?;
    if demand.prod { lacks(&demand.limit, &offer.free_for_prod) } else { Ok(()) }
}

pub(crate) fn lacks(asked: &Resources, free: &Resources) -> Result<(), UnschedulableReason> {
    match asked.first_above(free) {
        None => Ok(()),
        Some(dimension) => {
            let (asked, free) = (asked.get(dimension), free.get(dimension));
            Err(UnschedulableReason::Lacks { dimension, asked, free })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feasibility::testing::{asking, checked, resources};
    use crate::{Demand, Machine};
    use model::Dimension::{Cpu, Ram};

    #[test]
    fn free_resources_decide_and_too_small_differs_from_too_full() {
        let cases = [
            ((1_000, 1_000, 0), (0, 0, 0), None),
            ((500, 500, 0), (500, 500, 0), None),
            (
                (501, 500, 0),
                (500, 500, 0),
                Some(UnschedulableReason::Lacks { dimension: Cpu, asked: 501, free: 500 }),
            ),
            (
                (500, 501, 0),
                (500, 500, 0),
                Some(UnschedulableReason::Lacks { dimension: Ram, asked: 501, free: 500 }),
            ),
            (
                (1, 1_001, 0),
                (500, 500, 0),
                Some(UnschedulableReason::TooSmall { dimension: Ram, asked: 1_001, has: 1_000 }),
            ),
        ];
        for (ask, taken, expected) in cases {
            assert_eq!(checked(check, ask, taken), expected, "{ask:?} with {taken:?} taken");
        }
    }

    /// On a machine of 1,000 milli-cores: limit and reservation of the task, what is left by
    /// reservations and by the limits of prod, and the shortage.
    #[test]
    fn limits_decide_for_prod_and_reservations_for_the_rest() {
        let mut machine = Machine::testing();
        machine.report = std::sync::Arc::new(model::MachineReport {
            capacity: resources(1_000, 0),
            ..model::MachineReport::default()
        });
        let lacks = |asked, free| Some(UnschedulableReason::Lacks { dimension: Cpu, asked, free });
        let cases = [
            (false, (900, 300), (300, 0), None),
            (false, (900, 300), (299, 1_000), lacks(300, 299)),
            (false, (5_000, 300), (300, 0), None),
            (true, (900, 300), (300, 900), None),
            (true, (900, 300), (1_000, 899), lacks(900, 899)),
            (true, (900, 300), (299, 1_000), lacks(300, 299)),
            (
                true,
                (5_000, 300),
                (1_000, 1_000),
                Some(UnschedulableReason::TooSmall { dimension: Cpu, asked: 5_000, has: 1_000 }),
            ),
        ];
        for (prod, (limit, reservation), (free, free_for_prod), expected) in cases {
            let cpu = |cpu| resources(cpu, 0);
            let (limit, reservation) = (cpu(limit), cpu(reservation));
            let demand = Demand { limit, reservation, prod, exclusive: false };
            let offer =
                Offer { free: cpu(free), free_for_prod: cpu(free_for_prod), ..Offer::of(&machine) };
            assert_eq!(check(&asking(demand), &offer).err(), expected);
        }
    }
}
