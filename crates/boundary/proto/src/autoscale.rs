//! Vertical autoscaling in a description: `job.proto`.

use cell::SetLimits;
use model::Version;
use spec::{Autoscale, CpuRam, JobSpec};

use crate::error::Malformed;
use crate::locks::{optional_sequencer, sequencer_text};
use crate::{read, v1};
use v1::autoscale::Mode;
use v1::op;

impl From<CpuRam> for v1::CpuRam {
    fn from(CpuRam { cpu, ram }: CpuRam) -> Self {
        Self { cpu_milli: read::signed(cpu.0), ram_bytes: read::signed(ram.0) }
    }
}

impl TryFrom<v1::CpuRam> for CpuRam {
    type Error = Malformed;

    fn try_from(message: v1::CpuRam) -> Result<Self, Malformed> {
        let v1::CpuRam { cpu_milli, ram_bytes } = message;
        let limit = v1::Resources { cpu_milli, ram_bytes, ..v1::Resources::default() };
        Ok(Self::of(limit.try_into()?))
    }
}

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

/// The message; none for a job that is not autoscaled.
pub(crate) fn message(job: &JobSpec) -> Option<v1::Autoscale> {
    with_own(job.autoscale, job.own_limit)
}

/// The message of what a description lets an autoscaler do.
pub(crate) fn bounds(autoscale: Autoscale) -> Option<v1::Autoscale> {
    with_own(autoscale, None)
}

fn with_own(autoscale: Autoscale, own: Option<CpuRam>) -> Option<v1::Autoscale> {
    let own = own.map(Into::into);
    let (mode, min, max) = match autoscale {
        Autoscale::Off if own.is_none() => return None,
        Autoscale::Off => (Mode::Unspecified, None, None),
        Autoscale::Constrained { min, max } => {
            (Mode::Constrained, Some(min.into()), Some(max.into()))
        }
        Autoscale::Full => (Mode::Full, None, None),
    };
    Some(v1::Autoscale { mode: mode.into(), min, max, own })
}

/// Reads the message.
pub(crate) fn read(
    message: Option<v1::Autoscale>,
) -> Result<(Autoscale, Option<CpuRam>), Malformed> {
    let Some(v1::Autoscale { mode, min, max, own }) = message else {
        return Ok((Autoscale::Off, None));
    };
    let autoscale = match read::value(mode, Some::<Mode>, "mode")? {
        Mode::Unspecified => Autoscale::Off,
        Mode::Constrained => Autoscale::Constrained {
            min: read::message(min, "min")?,
            max: read::message(max, "max")?,
        },
        Mode::Full => Autoscale::Full,
    };
    Ok((autoscale, read::optional(own, "own")?))
}
