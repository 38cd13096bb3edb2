//! The data of ended instances that savers are to save: `cell.proto`, `borglet.proto`.

use borglet::KeptData;
use model::{Bytes, InstanceId, SaverOutcome, Saving, Time, UserName};

use crate::duration::duration;
use crate::error::{Fault, Malformed};
use crate::{read, v1};

impl From<&Saving> for v1::Saving {
    fn from(saving: &Saving) -> Self {
        Self {
            instance: Some(saving.instance.into()),
            bytes: read::signed(saving.bytes.0),
            attempts: saving.attempts,
            until: saving.until.0,
            outcome: saving.outcome.as_ref().map(Into::into),
        }
    }
}

impl TryFrom<v1::Saving> for Saving {
    type Error = Malformed;

    fn try_from(saving: v1::Saving) -> Result<Self, Malformed> {
        Ok(Self {
            instance: read::message(saving.instance, "instance")?,
            bytes: Bytes(read::quantity(saving.bytes, "bytes")?),
            attempts: saving.attempts,
            until: Time(saving.until),
            outcome: read::optional(saving.outcome, "outcome")?,
        })
    }
}

impl From<&SaverOutcome> for v1::SaverOutcome {
    fn from(outcome: &SaverOutcome) -> Self {
        use v1::saver_outcome::How;

        let how = match outcome {
            SaverOutcome::Saved => How::Saved(v1::Nothing {}),
            SaverOutcome::GivenUp { reason } => How::GivenUp(reason.clone()),
        };
        Self { how: Some(how) }
    }
}

impl TryFrom<v1::SaverOutcome> for SaverOutcome {
    type Error = Malformed;

    fn try_from(outcome: v1::SaverOutcome) -> Result<Self, Malformed> {
        use v1::saver_outcome::How;

        Ok(match outcome.how.ok_or(Fault::UnknownKind)? {
            How::Saved(v1::Nothing {}) => Self::Saved,
            How::GivenUp(reason) => Self::GivenUp { reason },
        })
    }
}

impl From<&KeptData> for v1::KeptData {
    fn from(kept: &KeptData) -> Self {
        let variable = |(name, value): &(String, String)| v1::kept_data::Variable {
            name: name.clone(),
            value: value.clone(),
        };
        Self {
            instance: Some(kept.instance.into()),
            name: kept.name.clone(),
            argv: kept.argv.clone(),
            env: kept.env.iter().map(variable).collect(),
            uid: kept.uid,
            since: kept.since.0,
            until: kept.until.0,
            interval: Some(duration(kept.interval)),
            attempts: kept.attempts,
            outcome: kept.outcome.as_ref().map(Into::into),
            user: kept.user.to_string(),
        }
    }
}

impl TryFrom<v1::KeptData> for KeptData {
    type Error = Malformed;

    fn try_from(kept: v1::KeptData) -> Result<Self, Malformed> {
        Ok(Self {
            instance: read::message(kept.instance, "instance")?,
            user: read::name(&kept.user, "user")?,
            name: kept.name,
            argv: kept.argv,
            env: kept.env.into_iter().map(|variable| (variable.name, variable.value)).collect(),
            uid: kept.uid,
            since: Time(kept.since),
            until: Time(kept.until),
            interval: read::span(kept.interval, "interval")?,
            attempts: kept.attempts,
            outcome: read::optional(kept.outcome, "outcome")?,
        })
    }
}

/// The message for a saver that is to end, and who has asked for that.
pub(crate) fn end((instance, by): (&InstanceId, &UserName)) -> v1::SaverEnd {
    v1::SaverEnd { instance: Some((*instance).into()), by: by.to_string() }
}

/// The opposite.
pub(crate) fn read_end(
    v1::SaverEnd { instance, by }: v1::SaverEnd,
) -> Result<(InstanceId, UserName), Malformed> {
    Ok((read::required(instance, "instance")?.into(), read::name(&by, "by")?))
}
