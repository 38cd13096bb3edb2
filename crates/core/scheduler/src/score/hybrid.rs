//! The hybrid that minimises stranded resources (paper, section 3.2): ones that cannot be used
//! because another resource of the machine is fully allocated.
//!
//! With u and v, what would be left of the machine's CPU and memory as shares of it, |u − v| is
//! what would be left of the one beyond what is left of the other: stranded, if what comes asks for
//! as much of both as this machine has. It weighs sixteen times as much as u + v, which is best
//! fit, and decides between machines that strand as much: the fuller one is taken, so that empty
//! ones stay empty for large tasks. `docs/scheduling.md` has the measurements.

use super::Left;

#[inline]
pub(super) fn raw(left: Left) -> u32 {
    16 * left.cpu.abs_diff(left.ram) + (left.cpu + left.ram) / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strands_less_comes_before_what_is_fuller() {
        let of = |cpu, ram| raw(Left { cpu_before: 0, ram_before: 0, cpu, ram });
        // Best first.
        let order = [(0, 0), (100, 100), (4_096, 4_096), (0, 400), (400, 0), (0, 4_096)];
        let scores = order.map(|(cpu, ram)| of(cpu, ram));
        assert!(scores.is_sorted(), "{scores:?}");
        assert_eq!(of(0, 400), of(400, 0), "neither resource is dearer than the other");
    }
}
