//! The resource usage of instances, as a Borglet sends it with a response: `borglet.proto`.

use borglet::{Measured, SAMPLES_MAX, Usage, UsageSample, UsageWindow, WINDOWS_MAX};
use model::{Bytes, MilliCores, Time};

use crate::duration::duration;
use crate::error::{At, Fault, Malformed};
use crate::{read, v1};

impl From<&Usage> for v1::Usage {
    fn from(usage: &Usage) -> Self {
        Self {
            samples: usage.samples.iter().map(Into::into).collect(),
            windows: usage.windows.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::Usage> for Usage {
    type Error = Malformed;

    fn try_from(usage: v1::Usage) -> Result<Self, Malformed> {
        at_most(usage.samples.len(), SAMPLES_MAX).field("samples")?;
        at_most(usage.windows.len(), WINDOWS_MAX).field("windows")?;
        Ok(Self {
            samples: read::list(usage.samples, "samples")?,
            windows: read::list(usage.windows, "windows")?,
        })
    }
}

fn at_most(is: usize, most: usize) -> Result<(), Fault> {
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let out = Fault::OutOfRange { is: number(is), least: 0, most: number(most) };
    if is <= most { Ok(()) } else { Err(out) }
}

impl From<&UsageSample> for v1::UsageSample {
    fn from(sample: &UsageSample) -> Self {
        let UsageSample { instance, at, measured } = sample;
        Self { instance: Some((*instance).into()), at: at.0, measured: Some(measured.into()) }
    }
}

impl TryFrom<v1::UsageSample> for UsageSample {
    type Error = Malformed;

    fn try_from(sample: v1::UsageSample) -> Result<Self, Malformed> {
        Ok(Self {
            instance: read::message(sample.instance, "instance")?,
            at: Time(sample.at),
            measured: read::message(sample.measured, "measured")?,
        })
    }
}

impl From<&UsageWindow> for v1::UsageWindow {
    fn from(window: &UsageWindow) -> Self {
        Self {
            instance: Some(window.instance.into()),
            start: window.start.0,
            length: Some(duration(window.length)),
            samples: window.samples,
            average: Some((&window.average).into()),
            maximum: Some((&window.maximum).into()),
        }
    }
}

impl TryFrom<v1::UsageWindow> for UsageWindow {
    type Error = Malformed;

    fn try_from(window: v1::UsageWindow) -> Result<Self, Malformed> {
        Ok(Self {
            instance: read::message(window.instance, "instance")?,
            start: Time(window.start),
            length: read::span(window.length, "length")?,
            samples: window.samples,
            average: read::message(window.average, "average")?,
            maximum: read::message(window.maximum, "maximum")?,
        })
    }
}

impl From<&Measured> for v1::Measured {
    fn from(measured: &Measured) -> Self {
        let bytes = |amount: Option<Bytes>| amount.map(|amount| read::signed(amount.0));
        Self {
            cpu_milli: measured.cpu.map(|cpu| read::signed(cpu.0)),
            memory_bytes: bytes(measured.memory),
            memory_peak_bytes: bytes(measured.memory_peak),
            page_cache_bytes: bytes(measured.page_cache),
            disk_bytes: bytes(measured.disk),
            disk_rate_bytes: bytes(measured.disk_rate),
        }
    }
}

impl TryFrom<v1::Measured> for Measured {
    type Error = Malformed;

    fn try_from(measured: v1::Measured) -> Result<Self, Malformed> {
        let amount = |amount: Option<i64>, field| {
            amount.map(|amount| read::quantity(amount, field)).transpose()
        };
        Ok(Self {
            cpu: amount(measured.cpu_milli, "cpuMilli")?.map(MilliCores),
            memory: amount(measured.memory_bytes, "memoryBytes")?.map(Bytes),
            memory_peak: amount(measured.memory_peak_bytes, "memoryPeakBytes")?.map(Bytes),
            page_cache: amount(measured.page_cache_bytes, "pageCacheBytes")?.map(Bytes),
            disk: amount(measured.disk_bytes, "diskBytes")?.map(Bytes),
            disk_rate: amount(measured.disk_rate_bytes, "diskRateBytes")?.map(Bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_bounded_number_of_samples() {
        let sample = v1::UsageSample {
            instance: Some(v1::InstanceId::default()),
            measured: Some(v1::Measured::default()),
            ..v1::UsageSample::default()
        };
        let usage = |count| v1::Usage { samples: vec![sample; count], windows: Vec::new() };
        assert_eq!(
            Usage::try_from(usage(SAMPLES_MAX)).map(|usage| usage.samples.len()),
            Ok(10_000)
        );
        let refused = Usage::try_from(usage(SAMPLES_MAX + 1)).map_err(|error| error.to_string());
        assert_eq!(refused, Err("samples: must be 0 to 10000, is 10001".to_owned()));
    }
}
