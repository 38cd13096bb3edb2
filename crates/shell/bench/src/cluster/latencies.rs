//! Latencies and their percentiles.

use std::time::Duration;

/// Latencies in the order of their arrival.
#[derive(Clone, Debug, Default)]
pub(super) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(super) fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub(super) fn join(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// The percentiles, by nearest rank, in milliseconds.
    pub(super) fn at<const N: usize>(mut self, percents: [usize; N]) -> [f64; N] {
        self.0.sort_unstable();
        percents.map(|percent| super::milliseconds(crate::nearest_rank(&self.0, percent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_by_the_nearest_rank() {
        let mut times = Latencies::default();
        for ms in [5, 1, 4, 2, 3] {
            times.add(Duration::from_millis(ms));
        }
        assert_eq!(times.at([0, 20, 50, 99, 100]), [1.0, 1.0, 3.0, 5.0, 5.0]);
        assert_eq!(Latencies::default().at([50]), [0.0]);
    }
}
