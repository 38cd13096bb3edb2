//! What recommenders and decisions depend on.

use model::{Permille, Span};

/// What the recommenders and the decision depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// After how long usage counts half.
    pub half_life: Span,
    /// What is added to the CPU that is used, as a share of it.
    pub cpu_margin: Permille,
    /// What is added to the memory that is used, as a share of it. Larger, because a task that lacks CPU
    /// is throttled, and one that lacks memory is killed.
    pub ram_margin: Permille,
    /// The percentile of CPU usage.
    pub cpu_percentile: Permille,
    /// A limit rises if more than this share of it is missing.
    pub raise_from: Permille,
    /// A limit falls if more than this share of it is not needed.
    pub lower_from: Permille,
    /// How long the usage must be known before a limit falls.
    pub warm_up: Span,
    /// How long after a change of a job's limit, up or down, it may fall again.
    pub lower_every: Span,
}

impl Default for Settings {
    /// Half-life 12 h, margins 15 % and 25 %, 95th percentile, changes from 10 % up and 20 % down, after an
    /// hour, and down at most once an hour.
    fn default() -> Self {
        let hour = Span::from_secs(3_600);
        Self {
            half_life: Span::from_secs(12 * 3_600),
            cpu_margin: Permille::at_most_whole(150),
            ram_margin: Permille::at_most_whole(250),
            cpu_percentile: Permille::at_most_whole(950),
            raise_from: Permille::at_most_whole(100),
            lower_from: Permille::at_most_whole(200),
            warm_up: hour,
            lower_every: hour,
        }
    }
}
