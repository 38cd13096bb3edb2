//! Disruption budgets, and how an update of a job proceeds (paper, sections 2.3 and 4).

use std::fmt;

use model::Span;

/// How many tasks of a job may be down for voluntary reasons: updates and drains. Evictions by
/// priority, failures of machines and crashes count against it, and are never stopped by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisruptionBudget {
    /// The maximum number of tasks that are down at once. Without a number: a tenth of the tasks
    /// and one more for a service and for an alloc set, and any number for a batch job.
    pub at_once: Option<u32>,
    /// The maximum number of disruptions within an hour; without a number there is no maximum.
    pub per_hour: Option<u32>,
}

impl DisruptionBudget {
    /// Its values by name, for people.
    pub(crate) fn values(&self) -> [(&'static str, String); 2] {
        [("atOnce", or_default(self.at_once)), ("perHour", or_default(self.per_hour))]
    }
}

fn or_default(value: Option<u32>) -> String {
    value.map_or("default".to_owned(), |value| value.to_string())
}

/// How an update of a job proceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdatePolicy {
    /// The maximum number of tasks that are being changed at once; without a number it is what the
    /// disruption budget allows at once.
    pub batch: Option<u32>,
    /// How long a changed task must be healthy without interruption before it counts as updated.
    pub healthy_for: Span,
    /// How long a changed task may take until then. After it the update has failed.
    pub healthy_within: Span,
    /// The time between a batch that is updated and the next.
    pub wait: Span,
    /// The maximum number of running tasks that the update may restart or move in all. Further tasks
    /// are skipped.
    pub disruptions: Option<u32>,
    /// What follows when a task does not become healthy.
    pub on_failure: OnFailure,
    /// How long after its success the update can be undone.
    pub close_after: Span,
}

impl UpdatePolicy {
    /// Its values by name, for people.
    pub(crate) fn values(&self) -> [(&'static str, String); 7] {
        [
            ("batch", or_default(self.batch)),
            ("healthyFor", self.healthy_for.to_string()),
            ("healthyWithin", self.healthy_within.to_string()),
            ("wait", self.wait.to_string()),
            ("disruptions", or_default(self.disruptions)),
            ("onFailure", self.on_failure.name().to_owned()),
            ("closeAfter", self.close_after.to_string()),
        ]
    }
}

/// What follows when an update fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum OnFailure {
    /// It undoes itself.
    #[default]
    Undo,
    /// It pauses, and waits for a person.
    Pause,
}

impl OnFailure {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Undo, Self::Pause];

    /// Its name in descriptions.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Undo => "undo",
            Self::Pause => "pause",
        }
    }
}

impl fmt::Display for OnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Default for UpdatePolicy {
    /// As many tasks at once as the budget allows; a task must be healthy for 5 s within 10 min. A
    /// failed update undoes itself, and a successful one can be undone for an hour.
    fn default() -> Self {
        Self {
            batch: None,
            healthy_for: Span::from_secs(5),
            healthy_within: Span::from_secs(600),
            wait: Span::ZERO,
            disruptions: None,
            on_failure: OnFailure::Undo,
            close_after: Span::from_secs(3_600),
        }
    }
}
