//! In every dimension, no more is asked than is left. A machine that would be too small even when
//! empty says so: waiting does not help there.

use super::{Ask, Misfit, Offer};

pub(super) fn check(ask: &Ask<'_>, offer: &Offer<'_>) -> Result<(), Misfit> {
    let capacity = offer.machine.capacity();
    if let Some(dimension) = ask.limit.first_above(&capacity) {
        let (asked, has) = (ask.limit.get(dimension), capacity.get(dimension));
        return Err(Misfit::TooSmall { dimension, asked, has });
    }
    match ask.limit.first_above(&offer.free) {
        None => Ok(()),
        Some(dimension) => {
            let (asked, free) = (ask.limit.get(dimension), offer.free.get(dimension));
            Err(Misfit::Lacks { dimension, asked, free })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feasibility::testing::checked;
    use model::Dimension::{Cpu, Ram};

    #[test]
    fn what_is_left_decides_and_too_small_is_told_from_too_full() {
        let cases = [
            ((1_000, 1_000, 0), (0, 0, 0), None),
            ((500, 500, 0), (500, 500, 0), None),
            (
                (501, 500, 0),
                (500, 500, 0),
                Some(Misfit::Lacks { dimension: Cpu, asked: 501, free: 500 }),
            ),
            (
                (500, 501, 0),
                (500, 500, 0),
                Some(Misfit::Lacks { dimension: Ram, asked: 501, free: 500 }),
            ),
            (
                (1, 1_001, 0),
                (500, 500, 0),
                Some(Misfit::TooSmall { dimension: Ram, asked: 1_001, has: 1_000 }),
            ),
        ];
        for (ask, taken, expected) in cases {
            assert_eq!(checked(check, ask, taken), expected, "{ask:?} with {taken:?} taken");
        }
    }
}
