//! A machine that is short of a resource gets no further tasks that are not production; one that
//! lately was keeps an eighth of its resources free of them. So what was evicted does not come back at
//! once. Production is judged by limits, and does not depend on predictions (paper, section 5.5).

use model::{Resources, ShortageState};

use super::{Offer, Request, UnschedulableReason};

/// This part of the capacity of a machine that lately was short stays free.
const KEPT_FREE: u64 = 8;

pub(super) fn check(ask: &Request<'_>, offer: &Offer<'_>) -> Result<(), UnschedulableReason> {
    let shortage = offer.machine.report.shortage;
    let Some(shortage) = shortage.filter(|_| !ask.demand.prod && offer.alloc.is_none()) else {
        return Ok(());
    };
    let of = shortage.dimension;
    match shortage.state {
        ShortageState::Persists => Err(UnschedulableReason::Short { of }),
        ShortageState::Eased => {
            let left =
                |free: &Resources| free.get(of).saturating_sub(offer.capacity.get(of) / KEPT_FREE);
            let (asked, free) = (ask.demand.reservation.get(of), left(&offer.free));
            match asked <= free {
                true => Ok(()),
                false => Err(UnschedulableReason::LatelyShort { of, asked, free }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::Dimension::{Cpu, Ram};
    use model::{MachineReport, Shortage};

    use super::*;
    use crate::feasibility::testing::{asking, resources};
    use crate::{Demand, Machine};

    #[test]
    fn a_short_machine_takes_only_production_and_later_keeps_an_eighth() {
        let persists = ShortageState::Persists;
        let eased = ShortageState::Eased;
        let lately = |of, asked, free| Some(UnschedulableReason::LatelyShort { of, asked, free });
        // Of 800 milli-cores and 800 bytes half is free.
        let cases = [
            (None, false, (400, 400), None),
            (Some((Ram, persists)), false, (1, 1), Some(UnschedulableReason::Short { of: Ram })),
            (Some((Ram, persists)), true, (400, 400), None),
            (Some((Ram, eased)), false, (400, 300), None),
            (Some((Ram, eased)), false, (400, 301), lately(Ram, 301, 300)),
            (Some((Cpu, eased)), false, (301, 400), lately(Cpu, 301, 300)),
            (Some((Cpu, eased)), true, (400, 400), None),
        ];
        for (shortage, prod, (cpu, ram), expected) in cases {
            let mut machine = Machine::testing();
            let shortage = shortage.map(|(dimension, state)| Shortage { dimension, state });
            let capacity = resources(800, 800);
            machine.report =
                Arc::new(MachineReport { capacity, shortage, ..MachineReport::default() });
            let limit = resources(cpu, ram);
            let ask = asking(Demand { limit, reservation: limit, prod, exclusive: false });
            let offer = Offer { free: resources(400, 400), ..Offer::of(&machine) };
            assert_eq!(check(&ask, &offer).err(), expected, "{shortage:?}, prod {prod}");
        }
    }
}
