//! A task with `cores: 'exclusive'` finds as many whole physical cores as its limit takes, beside those
//! of others and the one that is always shared.

use super::{Offer, Request, UnschedulableReason};

/// Whether the machine has as many for tasks when none has them: waiting does not help otherwise.
pub(super) fn check_all(ask: &Request<'_>, offer: &Offer<'_>) -> Result<(), UnschedulableReason> {
    let all = offer.machine.whole_core_count();
    match ask.demand.exclusive && offer.machine.whole_cores(ask.demand.limit.cpu) > all {
        true => check(ask, offer),
        false => Ok(()),
    }
}

pub(super) fn check(ask: &Request<'_>, offer: &Offer<'_>) -> Result<(), UnschedulableReason> {
    if !ask.demand.exclusive {
        return Ok(());
    }
    let asked = offer.machine.whole_cores(ask.demand.limit.cpu);
    if asked <= offer.free_cores {
        return Ok(());
    }
    let (free, all) = (offer.free_cores, offer.machine.whole_core_count());
    Err(UnschedulableReason::LacksCores { asked, free, all })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{GcuFactor, MachineReport, MilliCores};

    use super::*;
    use crate::feasibility::testing::{asking, resources};
    use crate::{Demand, Machine};

    #[test]
    fn whole_cores_count_by_the_speed_and_threads_of_the_machine() {
        // Exclusive or not, the limit in cores, the cores that the machine offers, their threads, their
        // speed in thousandths, the limits of others; and what is missing.
        let none = Some(
            "offers no whole cores: its Borglet has no cpuset controller or only a part of \
                         the machine, or there is only one core",
        );
        type Row<'a> = (bool, u64, &'a str, &'a str, u32, &'a [u64], Option<&'a str>);
        let table: [Row<'_>; 10] = [
            (false, 2, "", "", 1_000, &[], None),
            (true, 1, "", "", 1_000, &[], none),
            (true, 1, "0", "1", 1_000, &[], none),
            (true, 1, "many", "1", 1_000, &[], none),
            (true, 3, "3", "1", 1_000, &[], None),
            (true, 2, "3", "1", 1_000, &[2], Some("lacks whole cores: 2 asked, 1 free of 3")),
            // Two threads of a core go together, so a task with one takes both.
            (true, 2, "3", "2", 1_000, &[1, 2], None),
            (true, 3, "3", "2", 1_000, &[1, 2], Some("lacks whole cores: 2 asked, 1 free of 3")),
            // A slow core is less than a core of the limit, and a fast one more.
            (true, 2, "3", "1", 800, &[1], Some("lacks whole cores: 3 asked, 1 free of 3")),
            (true, 4, "3", "1", 2_000, &[1], None),
        ];
        for (exclusive, cores, offered, threads, speed, others, expected) in table {
            let mut machine = Machine::testing();
            let mut report = MachineReport::default();
            for (name, value) in [("exclusive-cores", offered), ("threads-per-core", threads)] {
                if !value.is_empty() {
                    report.attributes.insert(name.to_owned(), value.to_owned());
                }
            }
            machine.report = Arc::new(report);
            machine.gcu = GcuFactor::from_milli(speed).expect("a factor");
            machine.exclusive = others.iter().map(|cores| MilliCores(cores * 1_000)).collect();
            let demand =
                Demand { limit: resources(cores * 1_000, 0), exclusive, ..Demand::default() };
            let found = check(&asking(demand), &Offer::of(&machine)).err();
            assert_eq!(found.map(|reason| reason.to_string()).as_deref(), expected);
        }
    }
}
