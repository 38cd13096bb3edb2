//! A machine on which the task crashed recently is the last choice, and one on which tasks of many
//! jobs crashed the last but one (paper, section 4). The cell determines both (`cell::crashes`) as
//! 0 or 1; this file only tests their weights.

#[cfg(test)]
mod tests {
    use crate::score::{Terms, Weights};

    #[test]
    fn a_heavier_term_outweighs_all_lighter_terms() {
        let weights = Weights::default();
        let total = |terms: [u32; 10]| Terms(terms).total(&weights);
        let whole = 4_096;
        // Best first: the worst of all lighter terms is better than one heavier term.
        let order = [
            total([0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            total([0, 0, 0, 0, whole, whole, whole, whole, 17 * whole, whole]),
            total([0, 0, 0, 1, 0, 0, 0, 0, 0, 0]),
            total([0, 0, 0, 2, whole, whole, whole, whole, 17 * whole, whole]),
            total([0, 0, 1, 0, 0, 0, 0, 0, 0, 0]),
            total([0, 0, 64, 2, whole, whole, whole, whole, 17 * whole, whole]),
            total([0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
            total([0, 1, 64, 2, whole, whole, whole, whole, 17 * whole, whole]),
            total([1, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ];
        assert!(order.is_sorted_by(|one, other| one < other), "{order:?}");
    }
}
