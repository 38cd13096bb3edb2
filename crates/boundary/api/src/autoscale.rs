//! Vertical autoscaling in a description: `job.proto`.

use spec::{Autoscale, CpuRam, JobSpec};

use crate::error::Malformed;
use crate::{read, v1};
use v1::autoscale::Mode;

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

/// The message; none for a job that is not autoscaled.
pub fn message(job: &JobSpec) -> Option<v1::Autoscale> {
    with_own(job.autoscale, job.own_limit)
}

/// The message of what a description lets an autoscaler do.
pub fn bounds(autoscale: Autoscale) -> Option<v1::Autoscale> {
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
pub fn read(message: Option<v1::Autoscale>) -> Result<(Autoscale, Option<CpuRam>), Malformed> {
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
