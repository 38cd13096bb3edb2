//! How long the output of tasks is kept, and how much of it: what a job says, and what a cell does.

use std::fmt;

use model::{Bytes, Span};

use super::{Problems, limits};
use crate::path::Location;
use crate::{LogPolicy, LogSettings};

impl Problems {
    /// How long logs are kept, and how much of them.
    pub(super) fn logs(&mut self, at: &Location<'_>, logs: LogPolicy) {
        let longest = Span::from_secs(limits::LOG_KEEP_SECONDS_MAX);
        if let Some(keep) = logs.keep {
            self.span(&at.field("keep"), keep, Span::ZERO, longest);
        }
        if let Some(max) = logs.max {
            let (least, most) = (Bytes(limits::LOG_BYTES_MIN), Bytes(limits::LOG_BYTES_MAX));
            self.range(&at.field("max"), max, least, most);
        }
    }
}

/// A value of a cell's settings that is out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSettingsProblem {
    /// How long logs are kept.
    Keep(Span),
    /// The logs of each task.
    Task(Bytes),
    /// The logs on each machine.
    Machine(Bytes),
}

impl fmt::Display for LogSettingsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = Bytes(limits::LOG_BYTES_MIN);
        match self {
            Self::Keep(keep) => {
                let most = Span::from_secs(limits::LOG_KEEP_SECONDS_MAX);
                write!(f, "{keep} is longer than logs can be kept: {most}")
            }
            Self::Task(bytes) => {
                let most = Bytes(limits::LOG_BYTES_MAX);
                write!(f, "{bytes} of each task is not from {least} to {most}")
            }
            Self::Machine(bytes) => {
                let most = Bytes(limits::BYTES_MAX);
                write!(f, "{bytes} on each machine is not from {least} to {most}")
            }
        }
    }
}

impl LogSettings {
    /// The first value that is out of bounds; `None` if there is none.
    #[must_use]
    pub fn problem(&self) -> Option<LogSettingsProblem> {
        let least = limits::LOG_BYTES_MIN;
        if self.keep > Span::from_secs(limits::LOG_KEEP_SECONDS_MAX) {
            return Some(LogSettingsProblem::Keep(self.keep));
        }
        if self.max.0 < least || self.max.0 > limits::LOG_BYTES_MAX {
            return Some(LogSettingsProblem::Task(self.max));
        }
        let machine = self.machine.filter(|bytes| bytes.0 < least || bytes.0 > limits::BYTES_MAX);
        machine.map(LogSettingsProblem::Machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_bounds_are_named() {
        let usual = LogSettings::default();
        let year = Span::from_secs(366 * 86_400);
        for (settings, says) in [
            (usual, None),
            (LogSettings { keep: Span::ZERO, machine: Some(Bytes(1 << 40)), ..usual }, None),
            (
                LogSettings { keep: year, ..usual },
                Some("366 d is longer than logs can be kept: 365 d"),
            ),
            (
                LogSettings { max: Bytes(1 << 10), ..usual },
                Some("1 KiB of each task is not from 64 KiB to 64 GiB"),
            ),
            (
                LogSettings { machine: Some(Bytes(0)), ..usual },
                Some("0 B on each machine is not from 64 KiB to 1024 PiB"),
            ),
        ] {
            assert_eq!(settings.problem().map(|problem| problem.to_string()).as_deref(), says);
        }
    }
}
