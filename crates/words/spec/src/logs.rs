//! How long the output of tasks is kept, and how much of it.

use std::fmt;

use model::{Bytes, Span};

/// What a job says of the logs of its tasks. What it leaves out is the cell's:
/// [`LogSettings`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPolicy {
    /// How long the logs of a task are kept after its end.
    pub keep: Option<Span>,
    /// How much output is kept of one task, half of it for each stream: the newest.
    pub max: Option<Bytes>,
}

/// `keep 7 d, max 1 GiB`; empty if it says nothing.
impl fmt::Display for LogPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.keep, self.max) {
            (Some(keep), Some(max)) => write!(f, "keep {keep}, max {max}"),
            (Some(keep), None) => write!(f, "keep {keep}"),
            (None, Some(max)) => write!(f, "max {max}"),
            (None, None) => Ok(()),
        }
    }
}

/// The cell's settings for the logs of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// How long logs are kept after the end of a task whose job does not say.
    pub keep: Span,
    /// How much output is kept of each task whose job does not say, half of it for each stream.
    pub max: Bytes,
    /// How much the logs of all ended tasks on a machine may take together; `None`: 1 GiB, or a 20th
    /// of a smaller disk.
    pub machine: Option<Bytes>,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { keep: Span::from_secs(24 * 3_600), max: Bytes(64 << 20), machine: None }
    }
}

impl LogSettings {
    /// What applies to a task whose job has this policy.
    #[must_use]
    pub fn of(&self, policy: LogPolicy) -> (Span, Bytes) {
        (policy.keep.unwrap_or(self.keep), policy.max.unwrap_or(self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unset_log_settings_are_those_of_the_cell() {
        let cell = LogSettings::default();
        let (day, week) = (Span::from_secs(86_400), Span::from_secs(7 * 86_400));
        for (keep, max, says, applies) in [
            (None, None, "", (day, Bytes(64 << 20))),
            (Some(week), None, "keep 7 d", (week, Bytes(64 << 20))),
            (None, Some(Bytes(1 << 30)), "max 1 GiB", (day, Bytes(1 << 30))),
            (Some(week), Some(Bytes(1 << 20)), "keep 7 d, max 1 MiB", (week, Bytes(1 << 20))),
        ] {
            let policy = LogPolicy { keep, max };
            assert_eq!((policy.to_string().as_str(), cell.of(policy)), (says, applies));
        }
    }
}
