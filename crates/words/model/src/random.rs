//! Seeded random numbers from a fixed algorithm: the same seed gives the same numbers in every
//! build and version. Not cryptographically secure.

use std::ops::Range;

use crate::Span;

/// The generator: `SplitMix64` (Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with the given seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent generator. Forking advances this generator once; drawing from the fork does
    /// not affect it further.
    pub fn fork(&mut self) -> Self {
        Self(self.number())
    }

    /// A uniformly distributed number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        Self::mixed(self.0)
    }

    /// A hash of a number: the mixing function of the generator.
    #[must_use]
    pub fn mixed(number: u64) -> u64 {
        let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product: its bias is below one in 2^32 for every bound used here.
        let product = u128::from(self.number()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// A number in a range; its start if the range is empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end.saturating_sub(range.start))
    }

    /// An index into a slice of the given length.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// A random element; `None` if the slice is empty.
    pub fn one_of<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.index(of.len()))
    }

    /// Shuffles a slice.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            all.swap(last, self.index(last + 1));
        }
    }

    /// True with a probability of `permille` in a thousand.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1_000) < permille
    }

    /// A span in a range.
    pub fn span(&mut self, range: Range<Span>) -> Span {
        Span(self.within(range.start.0..range.end.0))
    }

    /// The time to the next of independent events that arrive with the given mean interval:
    /// exponentially distributed, as exactly as integers with sixteen binary places allow.
    pub fn wait(&mut self, mean: Span) -> Span {
        // -ln(u) = ln(2) · -log2(u), with u in (0, 1].
        let drawn = self.number() | 1;
        let whole = u64::from(drawn.leading_zeros());
        // The mantissa in [1, 2), less 1, in sixteen places; log2(1 + m) ≈ m + 0.34·m·(1 - m).
        let mantissa = (drawn << whole << 1) >> 48;
        let bend = mantissa * ((1 << 16) - mantissa) / (1 << 16) * 22_282 / (1 << 16);
        let minus_log2 = (whole + 1) * (1 << 16) - (mantissa + bend).min(1 << 16);
        let minus_ln = u128::from(minus_log2) * 45_426 / (1 << 16);
        let wait = u128::from(mean.0) * minus_ln / (1 << 16);
        Span(u64::try_from(wait).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_seed_are_these() {
        // The reference implementation's first outputs for the seed 1234567.
        let mut random = Random::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.number()).collect();
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn drawn_numbers_are_in_their_range() {
        let mut random = Random::new(7);
        for _ in 0..10_000 {
            assert!((5..8).contains(&random.within(5..8)));
            assert!(random.index(3) < 3);
        }
        assert_eq!((random.below(0), random.index(0)), (0, 0));
        assert_eq!(random.one_of::<u8>(&[]), None);
        assert!(!random.chance(0) && random.chance(1_000));
    }

    #[test]
    fn waits_have_their_mean_and_the_shape_of_independent_arrivals() {
        let (mut random, mean) = (Random::new(3), Span::from_secs(10));
        let mut waits: Vec<u64> = (0..100_000).map(|_| random.wait(mean).0).collect();
        waits.sort_unstable();
        let sum: u64 = waits.iter().sum();
        let near = |is: u64, of_mean: u64| {
            let should = mean.0 * of_mean / 1_000;
            assert!(is.abs_diff(should) < should / 50, "{is} for {should}");
        };
        near(sum / 100_000, 1_000);
        // The median is ln 2, the ninth decile ln 10.
        near(waits[50_000], 693);
        near(waits[90_000], 2_303);
    }
}
