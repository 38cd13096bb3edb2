//! Limits that an autoscaler sets: `log.proto`.

use api::locks::{optional_sequencer, sequencer_text};
use api::{Malformed, read};
use cell::SetLimits;
use model::Version;

use crate::v1::op;

impl From<&SetLimits> for op::SetLimits {
    fn from(set: &SetLimits) -> Self {
        let SetLimits { owner, job, limit, reason, expected, sequencer } = set;
        Self {
            owner: owner.to_string(),
            job: job.to_string(),
            limit: Some((*limit).into()),
            reason: reason.clone(),
            expected: expected.map(|expected| expected.0),
            sequencer: sequencer_text(sequencer.as_ref()),
        }
    }
}

impl TryFrom<op::SetLimits> for SetLimits {
    type Error = Malformed;

    fn try_from(set: op::SetLimits) -> Result<Self, Malformed> {
        Ok(Self {
            owner: read::name(&set.owner, "owner")?,
            job: read::name(&set.job, "job")?,
            limit: read::message(set.limit, "limit")?,
            reason: set.reason,
            expected: set.expected.map(Version),
            sequencer: optional_sequencer(&set.sequencer)?,
        })
    }
}
