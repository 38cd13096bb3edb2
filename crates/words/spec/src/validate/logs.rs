//! How long the output of tasks is kept, and how much of it: what a job says, and what a cell does.

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

impl LogSettings {
    /// The first value that is out of bounds, in words; `None` if there is none.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let keep_max = Span::from_secs(limits::LOG_KEEP_SECONDS_MAX);
        let (least, most) = (limits::LOG_BYTES_MIN, limits::LOG_BYTES_MAX);
        if self.keep > keep_max {
            return Some(format!("{} is longer than logs can be kept: {keep_max}", self.keep));
        }
        if self.max.0 < least || self.max.0 > most {
            let (least, most) = (Bytes(least), Bytes(most));
            return Some(format!("{} of each task is not from {least} to {most}", self.max));
        }
        let machine = self.machine.filter(|bytes| bytes.0 < least || bytes.0 > limits::BYTES_MAX);
        machine.map(|bytes| {
            let (least, most) = (Bytes(least), Bytes(limits::BYTES_MAX));
            format!("{bytes} on each machine is not from {least} to {most}")
        })
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
            assert_eq!(settings.problem().as_deref(), says);
        }
    }
}
