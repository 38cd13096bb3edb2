//! The hybrid that minimises stranded resources (paper, section 3.2): ones that cannot be used
//! because another resource of the machine is fully allocated.
//!
//! With u and v, the shares of the machine's CPU and memory that would be left, |u − v| is how much
//! more would be left of one than of the other: stranded, if the next tasks request CPU and memory
//! in the machine's proportion. It weighs sixteen times as much as u + v, which is best fit, and
//! which decides between machines that strand equally: the fuller one is chosen, so that empty ones
//! stay empty for large tasks. `docs/scheduling.md` has the measurements.

use super::Left;

#[inline]
pub(super) fn raw(left: Left) -> u32 {
    16 * left.cpu.abs_diff(left.ram) + (left.cpu + left.ram) / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_stranding_scores_better_than_a_fuller_machine() {
        let of = |cpu, ram| raw(Left { cpu_before: 0, ram_before: 0, cpu, ram });
        // Best first.
        let order = [(0, 0), (100, 100), (4_096, 4_096), (0, 400), (400, 0), (0, 4_096)];
        let scores = order.map(|(cpu, ram)| of(cpu, ram));
        assert!(scores.is_sorted(), "{scores:?}");
        assert_eq!(of(0, 400), of(400, 0), "neither resource costs more than the other");
    }
}
