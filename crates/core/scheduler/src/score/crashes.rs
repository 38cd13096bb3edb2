//! Where a task crashed lately it is placed only if nothing else fits, and on a machine on which
//! tasks of many jobs crashed only before that (paper, section 4). Both are told by the cell
//! (`cell::crashes`) and are 0 or 1; this file only holds how they are weighed.

#[cfg(test)]
mod tests {
    use crate::score::{Terms, Weights};

    #[test]
    fn each_decides_before_everything_lighter() {
        let weights = Weights::default();
        let total = |terms: [u32; 9]| Terms(terms).total(&weights);
        let whole = 4_096;
        // Best first: everything light at its worst is better than one heavier thing.
        let order = [
            total([0, 0, 0, 0, 0, 0, 0, 0, 0]),
            total([0, 0, 0, 0, whole, whole, whole, 17 * whole, whole]),
            total([0, 0, 0, 1, 0, 0, 0, 0, 0]),
            total([0, 0, 0, 2, whole, whole, whole, 17 * whole, whole]),
            total([0, 0, 1, 0, 0, 0, 0, 0, 0]),
            total([0, 0, 64, 2, whole, whole, whole, 17 * whole, whole]),
            total([0, 1, 0, 0, 0, 0, 0, 0, 0]),
            total([0, 1, 64, 2, whole, whole, whole, 17 * whole, whole]),
            total([1, 0, 0, 0, 0, 0, 0, 0, 0]),
        ];
        assert!(order.is_sorted_by(|one, other| one < other), "{order:?}");
    }
}
