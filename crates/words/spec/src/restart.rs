//! What follows when a task's program ends by itself.

use std::fmt;

use model::{Appclass, Span};

/// The usual maximum delay, and how long a run usually has to be for the first delay.
const DELAY_MAX: Span = Span::from_secs(300);
const RESET_AFTER: Span = Span::from_secs(600);

/// The restart policy of a job. It concerns ends of the program itself: tasks that are evicted, or
/// lost with their machine, run again under every policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Which ends are followed by a restart.
    pub when: RestartWhen,
    /// How many times a task may fail before it is dead; without a number it is always restarted.
    /// Meaningless with [`RestartWhen::Never`].
    pub failures_max: Option<u32>,
    /// The delay before the first restart; it doubles with each further one. A cell delays by at
    /// least a second, so 0 means a second.
    pub delay: Span,
    /// The maximum delay.
    pub delay_max: Span,
    /// After a run this long the next delay is the first one again.
    pub reset_after: Span,
}

/// Which ends of a program are followed by a restart. [`RestartWhen::usual`] has what a description that
/// does not say means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RestartWhen {
    /// None: a task that fails is dead.
    Never,
    /// Failures; a task that exits with 0 has finished.
    #[default]
    OnFailure,
    /// All: a task that exits with 0 is started again, too.
    Always,
}

impl RestartWhen {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Never, Self::OnFailure, Self::Always];

    /// What a description means that does not say: a service is started again however it ends, and
    /// other programs when they fail.
    #[must_use]
    pub fn usual(appclass: Appclass) -> Self {
        match appclass {
            Appclass::LatencySensitive => Self::Always,
            Appclass::Batch => Self::OnFailure,
        }
    }

    /// Its name in descriptions.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::OnFailure => "on-failure",
            Self::Always => "always",
        }
    }
}

impl fmt::Display for RestartWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl RestartPolicy {
    /// The default policy for these ends; with [`RestartWhen::Always`] the number of failures is
    /// unlimited.
    #[must_use]
    pub fn on(when: RestartWhen) -> Self {
        let usual = Self::default();
        let failures_max = usual.failures_max.filter(|_| when != RestartWhen::Always);
        Self { when, failures_max, ..usual }
    }

    /// The default of [`reset_after`](Self::reset_after): 10 minutes, or the maximum delay if that is
    /// shorter than usual.
    #[must_use]
    pub fn usual_reset_after(delay_max: Span) -> Span {
        if delay_max < DELAY_MAX { delay_max } else { RESET_AFTER }
    }

    /// How often a task has ended in a row without a good run between, now that it has ended after a run
    /// of this length.
    #[must_use]
    pub fn ends_in_row(&self, before: u32, ran: Span) -> u32 {
        if ran >= self.reset_after { 1 } else { before.saturating_add(1) }
    }

    /// The delay before a restart, after the given number of ends in a row.
    #[must_use]
    pub fn delay_after(&self, ends: u32) -> Span {
        let doublings = ends.saturating_sub(1).min(40);
        self.delay.saturating_mul(1 << doublings).min(self.delay_max)
    }

    /// The same policy with delays of at least `floor`.
    #[must_use]
    pub fn at_least(self, floor: Span) -> Self {
        let (delay, delay_max) = (self.delay.max(floor), self.delay_max.max(floor));
        Self { delay, delay_max, ..self }
    }

    /// Whether a task that has failed this often is restarted.
    #[must_use]
    pub fn allows(&self, failures: u32) -> bool {
        self.when != RestartWhen::Never && self.failures_max.is_none_or(|most| failures <= most)
    }
}

impl Default for RestartPolicy {
    /// Ten failures; delays from one second, doubling up to five minutes, and again from one second
    /// after a run of ten minutes.
    fn default() -> Self {
        Self {
            when: RestartWhen::default(),
            failures_max: Some(10),
            delay: Span::from_secs(1),
            delay_max: DELAY_MAX,
            reset_after: RESET_AFTER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_and_a_good_run_resets_them() {
        let policy = RestartPolicy {
            delay: Span::from_secs(2),
            delay_max: Span::from_secs(9),
            reset_after: Span::from_secs(60),
            ..RestartPolicy::default()
        };
        let mut ends = 0;
        let delays = [0, 59, 3, 0, 60, 0, 1_000_000, 1].map(|ran| {
            ends = policy.ends_in_row(ends, Span::from_secs(ran));
            policy.delay_after(ends).as_millis() / 1_000
        });
        assert_eq!(delays, [2, 4, 8, 9, 2, 4, 2, 4]);
        for (delay_max, reset_after) in [(300, 600), (3_600, 600), (299, 299), (4, 4), (0, 0)] {
            let usual = RestartPolicy::usual_reset_after(Span::from_secs(delay_max));
            assert_eq!(usual, Span::from_secs(reset_after), "{delay_max}");
        }
    }

    #[test]
    fn never_allows_no_failure_and_always_allows_any_number() {
        let allows = |when, failures| RestartPolicy::on(when).allows(failures);
        assert!(!allows(RestartWhen::Never, 1));
        assert!(allows(RestartWhen::OnFailure, 10) && !allows(RestartWhen::OnFailure, 11));
        assert!(allows(RestartWhen::Always, u32::MAX));
    }
}
