//! The distribution of a window's CPU samples (trace v3, `cpu_usage_distribution` and
//! `tail_cpu_usage_distribution`).

use model::MilliCores;

/// Percentiles of the CPU usage of a window's samples, interpolated between neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuDistribution {
    /// The percentiles 0 (the minimum), 10, 20 to 100 (the maximum).
    pub percentiles: [MilliCores; 11],
    /// The percentiles 91, 92 to 99.
    pub tail: [MilliCores; 9],
}

impl CpuDistribution {
    /// The distribution of samples, which are sorted by this; none without samples.
    #[must_use]
    pub fn of(samples: &mut [u32]) -> Option<Self> {
        if samples.is_empty() {
            return None;
        }
        samples.sort_unstable();
        let percentile = |percent: usize| MilliCores(percentile(samples, percent as u64));
        Some(Self {
            percentiles: std::array::from_fn(|index| percentile(10 * index)),
            tail: std::array::from_fn(|index| percentile(91 + index)),
        })
    }
}

/// The value below which `percent` of the sorted samples are: between two samples in proportion,
/// rounded to the nearest thousandth.
fn percentile(sorted: &[u32], percent: u64) -> u64 {
    let gaps = sorted.len().saturating_sub(1) as u64;
    let (whole, part) = (gaps * percent / 100, gaps * percent % 100);
    let at = |index: u64| {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        sorted.get(index).copied().map_or(0, u64::from)
    };
    let (low, high) = (at(whole), at((whole + 1).min(gaps)));
    low + ((high - low) * part + 50) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution(samples: impl IntoIterator<Item = u32>) -> (Vec<u64>, Vec<u64>) {
        let mut samples: Vec<u32> = samples.into_iter().collect();
        let found = CpuDistribution::of(&mut samples).expect("there are samples");
        let numbers = |of: &[MilliCores]| of.iter().map(|cpu| cpu.0).collect();
        (numbers(&found.percentiles), numbers(&found.tail))
    }

    #[test]
    fn percentiles_of_a_ramp_are_the_ramp() {
        let (percentiles, tail) = distribution((0..=100).rev().map(|percent| 7 * percent));
        assert_eq!(percentiles, [0, 70, 140, 210, 280, 350, 420, 490, 560, 630, 700]);
        assert_eq!(tail, [637, 644, 651, 658, 665, 672, 679, 686, 693]);
    }

    #[test]
    fn few_samples_are_interpolated() {
        assert_eq!(distribution([5]), (vec![5; 11], vec![5; 9]));
        let (percentiles, tail) = distribution([100, 0]);
        assert_eq!(percentiles, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
        assert_eq!(tail, [91, 92, 93, 94, 95, 96, 97, 98, 99]);
        assert_eq!(CpuDistribution::of(&mut []), None);
        assert_eq!(distribution([0, u32::MAX]).0[10], u64::from(u32::MAX));
    }

    /// Another way to the same: the inverse of the piecewise linear distribution function, in
    /// floating point.
    fn independent(samples: &[u32], percent: f64) -> f64 {
        let mut sorted: Vec<f64> = samples.iter().copied().map(f64::from).collect();
        sorted.sort_by(f64::total_cmp);
        let share = |index: usize| 100.0 * index as f64 / (sorted.len() - 1) as f64;
        let steps = 1..sorted.len();
        let step = steps.into_iter().find(|index| share(*index) >= percent - 1e-9);
        let Some(step) = step else { return sorted[sorted.len() - 1] };
        let part = (percent - share(step - 1)) / (share(step) - share(step - 1));
        sorted[step - 1] + part * (sorted[step] - sorted[step - 1])
    }

    #[test]
    fn percentiles_agree_with_an_independent_computation() {
        let mut random = model::Random::new(7);
        for count in (1..40).chain([299, 300, 301]) {
            let bound = [1, 10, 64_000][count % 3];
            let samples: Vec<u32> =
                (0..count).map(|_| u32::try_from(random.below(bound)).expect("small")).collect();
            let (percentiles, tail) = distribution(samples.iter().copied());
            let all = percentiles.iter().zip((0..=100).step_by(10)).chain(tail.iter().zip(91..=99));
            for (found, percent) in all {
                let expected = independent(&samples, f64::from(percent));
                let off = (*found as f64 - expected).abs();
                assert!(off <= 0.5 + 1e-6, "{count} samples, {percent} %: {found}, {expected}");
            }
        }
    }
}
