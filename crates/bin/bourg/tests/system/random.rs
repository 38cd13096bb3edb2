//! Random numbers that are the same for the same seed.

use std::time::Duration;

/// The random numbers of a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Random(u64);

impl Random {
    /// The test's own seed, or that of a run to be repeated.
    pub(crate) fn new(usual: u64) -> Self {
        let given = std::env::var("BOURG_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or(usual);
        println!("BOURG_TEST_SEED={seed}");
        Self(seed)
    }

    /// The numbers of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// Independent random numbers for another user.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.below(u64::MAX >> 33).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    pub(crate) fn below_usize(&mut self, most: usize) -> usize {
        usize::try_from(self.below(most as u64)).expect("it is less than another")
    }

    /// Sleeps for a random time: not to wait for anything, but to act at a random moment.
    pub(crate) fn moment(&mut self, most_ms: u64) {
        std::thread::sleep(Duration::from_millis(self.below(most_ms)));
    }
}
