//! Preferred maxima: whether the maximum number of the job's tasks is already on the machine or at
//! its switch (trace v3). Hard maxima are checked in `cell::feasibility`.

use cell::feasibility::Colocated;
use spec::Maximum;

pub(crate) fn over(
    max_per_machine: Option<Maximum>,
    max_per_switch: Option<Maximum>,
    colocated: Colocated,
) -> u32 {
    let over = |maximum: Option<Maximum>, has: u32| {
        u32::from(maximum.is_some_and(|maximum| !maximum.hard && has >= maximum.tasks))
    };
    over(max_per_machine, colocated.machine) + over(max_per_switch, colocated.switch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preferred_maximum_counts_from_where_it_is_reached() {
        let at_most = |tasks, hard| Some(Maximum { tasks, hard });
        let cases = [
            (None, None, (9, 9), 0),
            (at_most(2, false), None, (1, 9), 0),
            (at_most(2, false), None, (2, 9), 1),
            (at_most(2, true), None, (2, 9), 0),
            (at_most(1, false), at_most(3, false), (1, 3), 2),
        ];
        for (per_machine, per_switch, (machine, switch), expected) in cases {
            assert_eq!(over(per_machine, per_switch, Colocated { machine, switch }), expected);
        }
    }
}
