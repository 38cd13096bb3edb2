//! Numbers that look random and are the same on every machine and for ever.

/// `SplitMix64`, as published by Steele, Lea and Flood: the numbers that follow from a seed. It is
/// part of what a generated cell is, and never changes; it keeps no secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The numbers that follow from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number, any of 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.state)
    }

    /// The next number below a bound; 0 where the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The upper half of a product: as even as 64 bits are, and without a division.
        let product = u128::from(self.draw()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// Whether something happens that happens so often of a thousand times.
    pub fn per_mille(&mut self, often: u64) -> bool {
        self.below(1_000) < often
    }
}

/// The mix of `SplitMix64`: a number in which every bit of this one has its part.
pub(crate) fn mixed(number: u64) -> u64 {
    let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_that_were_published() {
        let mut random = Random::new(1_234_567);
        let numbers: Vec<u64> = (0..5).map(|_| random.draw()).collect();
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }

    #[test]
    fn a_bound_bounds() {
        let mut random = Random::new(1);
        let mut counts = [0_u32; 6];
        for _ in 0..60_000 {
            counts[usize::try_from(random.below(6)).expect("small")] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert_eq!(random.below(0), 0);
    }
}
