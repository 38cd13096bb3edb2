//! E-PVM: each resource costs more the fuller it is, and the machine whose cost rises least is
//! chosen (Amir et al.; paper, section 3.2). Load is spread, with headroom for spikes everywhere.
//!
//! The cost of a resource of which the share x is used is 2 to the power of 8x, interpolated
//! linearly between powers, in integers.

use super::{Left, WHOLE};

/// The cost of a used share in parts of [`WHOLE`]: 0 to 4,096 − 16.
fn cost(used: u32) -> u32 {
    // Eight doublings over the whole range.
    let (doublings, rest) = (used / (WHOLE / 8), used % (WHOLE / 8));
    (1 << doublings) * (WHOLE / 8 + rest) / 32
}

#[inline]
pub(super) fn raw(left: Left) -> u32 {
    let used = |left: u32| WHOLE.saturating_sub(left);
    let rises = |before: u32, after: u32| cost(used(after)).saturating_sub(cost(used(before)));
    rises(left.cpu_before, left.cpu) + rises(left.ram_before, left.ram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_task_costs_more_on_the_fuller_machine() {
        let task = 400;
        let of = |before: u32| {
            raw(Left {
                cpu_before: before,
                ram_before: before,
                cpu: before - task,
                ram: before - task,
            })
        };
        let costs = [4_096, 3_000, 2_000, 1_000, 400].map(of);
        assert!(costs.is_sorted_by(|one, other| one < other), "{costs:?}");
    }

    #[test]
    fn one_full_resource_costs_more_than_two_half_full_ones() {
        assert_eq!([cost(0), cost(512), cost(1_024), cost(4_096)], [16, 32, 64, 4_096]);
        assert!(cost(4_096) > 2 * cost(2_048));
    }
}
