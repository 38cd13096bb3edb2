//! Mixing priorities (paper, section 3.2): production and the rest on one machine, so that what is
//! important can expand in a load spike, at the expense of what is not. Production prefers machines
//! with little production, the rest prefers machines with much.

use super::WHOLE;

/// From the share of the machine's CPU that production has by its limits.
#[inline]
pub(crate) fn raw(prod: bool, share_of_prod: u32) -> u32 {
    if prod { share_of_prod } else { WHOLE - share_of_prod }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_prefers_the_others() {
        assert!(raw(true, 0) < raw(true, 1_000));
        assert!(raw(false, 1_000) < raw(false, 0));
    }
}
