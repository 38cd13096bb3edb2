//! If a job sets a maximum, no more of its tasks are on one machine, or on the machines of one
//! switch (trace v3, `max_per_machine`, `max_per_switch`). A maximum that is only a preference is
//! not checked here.

use spec::Maximum;

use super::{CountedAt, Offer, Request, UnschedulableReason};

/// See [`super::CHECKS`].
///
/// # Errors
/// If the maximum number of the job's tasks are there already.
pub fn check(ask: &Request<'_>, offer: &Offer<'_>) -> Result<(), UnschedulableReason> {
    let counted = [
        (CountedAt::Machine, ask.max_per_machine, offer.colocated.machine),
        (CountedAt::Switch, ask.max_per_switch, offer.colocated.switch),
    ];
    for (place, maximum, has) in counted {
        if let Some(Maximum { tasks: most, hard: true }) = maximum
            && has >= most
        {
            return Err(UnschedulableReason::Maximum { place, has, most });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;
    use crate::feasibility::testing::asking;
    use crate::feasibility::{Colocated, Demand};

    #[test]
    fn a_hard_maximum_decides_and_a_preferred_one_does_not() {
        let machine = Machine::testing();
        let hard = |tasks| Some(Maximum { tasks, hard: true });
        let soft = |tasks| Some(Maximum { tasks, hard: false });
        let cases = [
            (None, None, (9, 9), Ok(())),
            (hard(1), None, (0, 9), Ok(())),
            (hard(1), None, (1, 1), Err("has 1 tasks of the job on it, and the maximum is 1")),
            (soft(1), soft(1), (1, 1), Ok(())),
            (hard(3), hard(4), (2, 3), Ok(())),
            (
                soft(1),
                hard(4),
                (2, 5),
                Err("has 5 tasks of the job at its switch, and the maximum is 4"),
            ),
        ];
        for (max_per_machine, max_per_switch, (machine_has, switch), expected) in cases {
            let ask = Request { max_per_machine, max_per_switch, ..asking(Demand::default()) };
            let colocated = Colocated { machine: machine_has, switch };
            let says = check(&ask, &Offer { colocated, ..Offer::of(&machine) });
            let says = says.map_err(|unschedulable_reason| unschedulable_reason.to_string());
            assert_eq!(says, expected.map_err(str::to_owned));
        }
    }
}
