//! How long the output of tasks is kept, and how much of it: `job.proto`.

use model::Bytes;
use spec::{LogPolicy, LogSettings};

use crate::duration::duration;
use crate::error::Malformed;
use crate::read::{self, signed};
use crate::v1;

impl From<LogPolicy> for v1::LogPolicy {
    fn from(policy: LogPolicy) -> Self {
        let max_bytes = policy.max.map(|max| signed(max.0));
        Self { keep: policy.keep.map(duration), max_bytes }
    }
}

impl TryFrom<v1::LogPolicy> for LogPolicy {
    type Error = Malformed;

    fn try_from(policy: v1::LogPolicy) -> Result<Self, Malformed> {
        let keep = policy.keep.map(|keep| read::span(Some(keep), "keep")).transpose()?;
        Ok(Self { keep, max: policy.max_bytes.map(|max| bytes(max, "maxBytes")).transpose()? })
    }
}

impl From<&LogSettings> for v1::LogSettings {
    fn from(settings: &LogSettings) -> Self {
        Self {
            keep: Some(duration(settings.keep)),
            max_bytes: signed(settings.max.0),
            machine_bytes: settings.machine.map(|machine| signed(machine.0)),
        }
    }
}

impl TryFrom<v1::LogSettings> for LogSettings {
    type Error = Malformed;

    fn try_from(settings: v1::LogSettings) -> Result<Self, Malformed> {
        let machine = settings.machine_bytes;
        Ok(Self {
            keep: read::span(settings.keep, "keep")?,
            max: bytes(settings.max_bytes, "maxBytes")?,
            machine: machine.map(|machine| bytes(machine, "machineBytes")).transpose()?,
        })
    }
}

fn bytes(number: i64, field: &str) -> Result<Bytes, Malformed> {
    read::quantity(number, field).map(Bytes)
}
