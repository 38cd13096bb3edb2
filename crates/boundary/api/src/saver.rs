//! The data of ended instances that savers are to save: `cell.proto`, `borglet.proto`.

use model::{Bytes, InstanceId, SaverOutcome, Saving, Time, UserName};

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

/// The message for a saver that is to end, and who has asked for that.
pub fn end((instance, by): (&InstanceId, &UserName)) -> v1::SaverEnd {
    v1::SaverEnd { instance: Some((*instance).into()), by: by.to_string() }
}

/// The opposite.
pub fn read_end(
    v1::SaverEnd { instance, by }: v1::SaverEnd,
) -> Result<(InstanceId, UserName), Malformed> {
    Ok((read::required(instance, "instance")?.into(), read::name(&by, "by")?))
}
