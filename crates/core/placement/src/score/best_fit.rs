//! Best fit: as little as possible is left, of CPU and memory together, each as a share of the
//! machine (paper, section 3.2).

use super::Left;

#[inline]
pub(super) fn raw(left: Left) -> u32 {
    8 * (left.cpu + left.ram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuller_machine_is_better_whatever_it_strands() {
        let of = |cpu, ram| raw(Left { cpu_before: 0, ram_before: 0, cpu, ram });
        assert!(of(0, 400) < of(201, 200));
        assert_eq!(of(0, 400), of(200, 200));
        assert_eq!(of(0, 0), 0);
    }
}
