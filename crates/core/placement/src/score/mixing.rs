//! Mixing priorities (paper, section 3.2): production and other tasks on one machine, so that
//! important tasks can expand in a load spike at the expense of the others. Production prefers
//! machines with little production, the rest prefers machines with much.

use super::WHOLE;

/// The term, from the share of the machine's CPU taken by the limits of production.
#[inline]
pub(crate) fn raw(prod: bool, share_of_prod: u32) -> u32 {
    if prod { share_of_prod } else { WHOLE - share_of_prod }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn production_and_batch_prefer_machines_of_the_other_kind() {
        assert!(raw(true, 0) < raw(true, 1_000));
        assert!(raw(false, 1_000) < raw(false, 0));
    }
}
