//! The resource usage of instances, as a Borglet sends it with a response: `borglet.proto`.

use model::{Bytes, MilliCores, Permille, Time};
use poll::{
    CpuDistribution, Measured, SAMPLES_MAX, Usage, UsageSample, UsageSubject, UsageWindow,
    WINDOWS_MAX,
};

use crate::duration::duration;
use crate::error::{At, Fault, Malformed};
use crate::{read, v1};

impl From<&Usage> for v1::MeasuredUsage {
    fn from(usage: &Usage) -> Self {
        Self {
            samples: usage.samples.iter().map(Into::into).collect(),
            windows: usage.windows.iter().map(Into::into).collect(),
            cursor: usage.cursor,
        }
    }
}

impl TryFrom<v1::MeasuredUsage> for Usage {
    type Error = Malformed;

    fn try_from(usage: v1::MeasuredUsage) -> Result<Self, Malformed> {
        at_most(usage.samples.len(), SAMPLES_MAX).field("samples")?;
        at_most(usage.windows.len(), WINDOWS_MAX).field("windows")?;
        Ok(Self {
            samples: read::list(usage.samples, "samples")?,
            windows: read::list(usage.windows, "windows")?,
            cursor: usage.cursor,
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
        use v1::usage_sample::Subject;

        let UsageSample { subject, at, measured } = sample;
        let subject = match *subject {
            UsageSubject::Instance(instance) => Subject::Instance(instance.into()),
            UsageSubject::Machine => Subject::Machine(v1::Nothing {}),
            UsageSubject::System => Subject::System(v1::Nothing {}),
        };
        Self { subject: Some(subject), at: at.0, measured: Some(measured.into()) }
    }
}

impl TryFrom<v1::UsageSample> for UsageSample {
    type Error = Malformed;

    fn try_from(sample: v1::UsageSample) -> Result<Self, Malformed> {
        use v1::usage_sample::Subject;

        Ok(Self {
            subject: match read::required(sample.subject, "subject")? {
                Subject::Instance(instance) => UsageSubject::Instance(instance.into()),
                Subject::Machine(_) => UsageSubject::Machine,
                Subject::System(_) => UsageSubject::System,
            },
            at: Time(sample.at),
            measured: read::message(sample.measured, "measured")?,
        })
    }
}

impl From<&UsageWindow> for v1::UsageWindow {
    fn from(window: &UsageWindow) -> Self {
        use v1::usage_window::Subject;

        let numbers = |of: &[MilliCores]| of.iter().map(|cpu| read::signed(cpu.0)).collect();
        Self {
            subject: Some(match window.subject {
                UsageSubject::Instance(instance) => Subject::Instance(instance.into()),
                UsageSubject::Machine => Subject::Machine(v1::Nothing {}),
                UsageSubject::System => Subject::System(v1::Nothing {}),
            }),
            start: window.start.0,
            length: Some(duration(window.length)),
            samples: window.samples,
            average: Some((&window.average).into()),
            maximum: Some((&window.maximum).into()),
            random_cpu_milli: window.random_cpu.map(|cpu| read::signed(cpu.0)),
            cpu_milli_percentiles: window
                .cpu
                .map(|cpu| numbers(&cpu.percentiles))
                .unwrap_or_default(),
            cpu_milli_tail_percentiles: window
                .cpu
                .map(|cpu| numbers(&cpu.tail))
                .unwrap_or_default(),
            cycles_per_instruction_milli: window.cycles_per_instruction,
            memory_accesses_per_instruction_micro: window.memory_accesses_per_instruction,
        }
    }
}

impl TryFrom<v1::UsageWindow> for UsageWindow {
    type Error = Malformed;

    fn try_from(window: v1::UsageWindow) -> Result<Self, Malformed> {
        use v1::usage_window::Subject;

        let random_cpu = window.random_cpu_milli;
        let random_cpu = random_cpu.map(|cpu| read::quantity(cpu, "randomCpuMilli")).transpose()?;
        let (all, tail) = (window.cpu_milli_percentiles, window.cpu_milli_tail_percentiles);
        let cpu = match all.is_empty() && tail.is_empty() {
            true => None,
            false => Some(CpuDistribution {
                percentiles: percentiles(&all, "cpuMilliPercentiles")?,
                tail: percentiles(&tail, "cpuMilliTailPercentiles")?,
            }),
        };
        Ok(Self {
            subject: match read::required(window.subject, "subject")? {
                Subject::Instance(instance) => UsageSubject::Instance(instance.into()),
                Subject::Machine(_) => UsageSubject::Machine,
                Subject::System(_) => UsageSubject::System,
            },
            start: Time(window.start),
            length: read::span(window.length, "length")?,
            samples: window.samples,
            average: read::message(window.average, "average")?,
            maximum: read::message(window.maximum, "maximum")?,
            random_cpu: random_cpu.map(MilliCores),
            cpu,
            cycles_per_instruction: window.cycles_per_instruction_milli,
            memory_accesses_per_instruction: window.memory_accesses_per_instruction_micro,
        })
    }
}

/// Exactly so many percentiles.
fn percentiles<const COUNT: usize>(
    said: &[i64],
    field: &str,
) -> Result<[MilliCores; COUNT], Malformed> {
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let (is, due) = (number(said.len()), number(COUNT));
    let said: &[i64; COUNT] = said
        .try_into()
        .map_err(|_| Fault::OutOfRange { is, least: due, most: due })
        .field(field)?;
    let mut found = [MilliCores(0); COUNT];
    for (found, said) in found.iter_mut().zip(said) {
        *found = MilliCores(read::quantity(*said, field)?);
    }
    Ok(found)
}

impl From<&Measured> for v1::Measured {
    fn from(measured: &Measured) -> Self {
        let bytes = |amount: Option<Bytes>| amount.map(|amount| read::signed(amount.0));
        let share = |share: Option<Permille>| share.map(|share| u32::from(share.thousandths()));
        Self {
            cpu_milli: measured.cpu.map(|cpu| read::signed(cpu.0)),
            memory_bytes: bytes(measured.memory),
            memory_peak_bytes: bytes(measured.memory_peak),
            page_cache_bytes: bytes(measured.page_cache),
            memory_assigned_bytes: bytes(measured.memory_assigned),
            disk_bytes: bytes(measured.disk),
            disk_rate_bytes: bytes(measured.disk_rate),
            throttled_permille: share(measured.throttled),
            cpu_pressure_permille: share(measured.cpu_pressure),
            memory_pressure_permille: share(measured.memory_pressure),
            io_pressure_permille: share(measured.io_pressure),
        }
    }
}

impl TryFrom<v1::Measured> for Measured {
    type Error = Malformed;

    fn try_from(measured: v1::Measured) -> Result<Self, Malformed> {
        // What cannot be was not measured: one such field must not cost the other samples.
        let amount = |amount: Option<i64>| amount.and_then(|amount| u64::try_from(amount).ok());
        let share = |said: Option<u32>| said.map(|said| Permille::at_most_whole(u64::from(said)));
        Ok(Self {
            cpu: amount(measured.cpu_milli).map(MilliCores),
            memory: amount(measured.memory_bytes).map(Bytes),
            memory_peak: amount(measured.memory_peak_bytes).map(Bytes),
            page_cache: amount(measured.page_cache_bytes).map(Bytes),
            memory_assigned: amount(measured.memory_assigned_bytes).map(Bytes),
            disk: amount(measured.disk_bytes).map(Bytes),
            disk_rate: amount(measured.disk_rate_bytes).map(Bytes),
            throttled: share(measured.throttled_permille),
            cpu_pressure: share(measured.cpu_pressure_permille),
            memory_pressure: share(measured.memory_pressure_permille),
            io_pressure: share(measured.io_pressure_permille),
        })
    }
}

impl v1::MasterWork {
    /// The sum, as far as it can be counted.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            polls: self.polls.saturating_add(other.polls),
            polls_failed: self.polls_failed.saturating_add(other.polls_failed),
            proposals: self.proposals.saturating_add(other.proposals),
            accepted: self.accepted.saturating_add(other.accepted),
            rejected: self.rejected.saturating_add(other.rejected),
        }
    }

    /// What was done since an earlier count; `None` if something has been counted anew meanwhile.
    #[must_use]
    pub fn since(&self, before: &Self) -> Option<Self> {
        Some(Self {
            polls: self.polls.checked_sub(before.polls)?,
            polls_failed: self.polls_failed.checked_sub(before.polls_failed)?,
            proposals: self.proposals.checked_sub(before.proposals)?,
            accepted: self.accepted.checked_sub(before.accepted)?,
            rejected: self.rejected.checked_sub(before.rejected)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_what_all_replicas_have_done_between_two_counts() {
        let of = |polls, accepted| v1::MasterWork {
            polls,
            accepted,
            polls_failed: 1,
            proposals: 2,
            rejected: 3,
        };
        let all = of(5, 7).plus(&of(10, u64::MAX));
        let expected =
            v1::MasterWork { polls_failed: 2, proposals: 4, rejected: 6, ..of(15, u64::MAX) };
        assert_eq!(all, expected);
        let none = v1::MasterWork::default();
        assert_eq!(all.since(&all), Some(none));
        assert_eq!(all.since(&of(5, 7)).map(|done| (done.polls, done.proposals)), Some((10, 2)));
        assert_eq!(of(4, 7).since(&of(5, 7)), None, "a replica has restarted");
    }

    #[test]
    fn a_negative_amount_was_not_measured() {
        for (said, is) in [(-1, None), (i64::MIN, None), (0, Some(0)), (i64::MAX, Some(1 << 63))] {
            let said = v1::Measured { cpu_milli: Some(said), ..v1::Measured::default() };
            let read = Measured::try_from(said).map(|read| read.cpu.map(|cpu| cpu.0));
            assert_eq!(read, Ok(is.map(|is: u64| is.min(i64::MAX.unsigned_abs()))));
        }
    }

    #[test]
    fn an_answer_has_a_bounded_number_of_samples() {
        let sample = v1::UsageSample {
            subject: Some(v1::usage_sample::Subject::Machine(v1::Nothing {})),
            measured: Some(v1::Measured::default()),
            ..v1::UsageSample::default()
        };
        let usage = |count| v1::MeasuredUsage {
            samples: vec![sample; count],
            ..v1::MeasuredUsage::default()
        };
        assert_eq!(
            Usage::try_from(usage(SAMPLES_MAX)).map(|usage| usage.samples.len()),
            Ok(10_002)
        );
        let refused = Usage::try_from(usage(SAMPLES_MAX + 1)).map_err(|error| error.to_string());
        assert_eq!(refused, Err("samples: must be 0 to 10002, is 10003".to_owned()));
    }
}
