//! What the settings of resource reclamation mean for the estimator, and how fast it goes.

use model::{Permille, Reclamation, Span};

use crate::sample::SILENT_AFTER;

/// The usual time in which the reservation of a silent task rises by its whole limit. The rate is
/// bounded because a silent rack has thousands of tasks, and each change is a record.
pub const SILENCE_RISE: Span = Span::from_secs(600);

/// How fast an estimate follows the usage. It is the same for all settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// For so long after its start a task's reservation is its limit, to allow for startup
    /// transients: 300 s in the paper (section 5.5).
    pub warm_up: Span,
    /// After so much time half of the excess of the CPU reservation has decayed.
    pub half_life_cpu: Span,
    /// The same for RAM. It is longer: a task that lacks CPU is throttled, but one that lacks RAM
    /// is killed.
    pub half_life_ram: Span,
    /// A task without an accepted sample for so long is silent.
    pub silent_after: Span,
    /// The reservation of a silent task rises by its whole limit in so much time.
    pub silence_rise: Span,
}

impl Pace {
    /// A pace with this half-life of CPU; that of RAM is eight times as long.
    #[must_use]
    pub fn new(warm_up: Span, half_life_cpu: Span) -> Self {
        Self {
            warm_up,
            half_life_cpu,
            half_life_ram: half_life_cpu.saturating_mul(8),
            silent_after: SILENT_AFTER,
            silence_rise: SILENCE_RISE,
        }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self::new(Span::from_secs(300), Span::from_secs(15 * 60))
    }
}

/// What a setting means. The settings differ in the margin alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Margin {
    /// The first part of the safety margin: a share of the usage. The larger a task, the larger its
    /// variations.
    pub of_usage: Permille,
    /// The second part: a share of the limit. It covers an idle task that begins to work.
    pub of_limit: Permille,
    /// A smaller change of a reservation does not matter: a share of the limit. At 5 %, a decay
    /// from the limit to a fifth of it takes at most 16 records.
    pub change_min: Permille,
}

impl Margin {
    /// That of a setting; none if reservations are the limits.
    #[must_use]
    pub fn of(setting: Reclamation) -> Option<Self> {
        let (of_usage, of_limit) = match setting {
            Reclamation::Off => return None,
            Reclamation::Baseline => (300, 100),
            Reclamation::Medium => (200, 60),
            Reclamation::Aggressive => (100, 20),
        };
        Some(Self {
            of_usage: Permille::at_most_whole(of_usage),
            of_limit: Permille::at_most_whole(of_limit),
            change_min: Permille::at_most_whole(50),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medium_is_mid_way_between_baseline_and_aggressive() {
        let [baseline, medium, aggressive] =
            [Reclamation::Baseline, Reclamation::Medium, Reclamation::Aggressive]
                .map(|setting| Margin::of(setting).expect("it estimates"));
        for part in
            [|one: &Margin| one.of_usage.thousandths(), |one: &Margin| one.of_limit.thousandths()]
        {
            assert!(part(&aggressive) < part(&baseline));
            assert_eq!(2 * part(&medium), part(&baseline) + part(&aggressive));
        }
        assert_eq!(Margin::of(Reclamation::Off), None);
    }
}
