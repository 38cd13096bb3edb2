//! Samples of usage, and which of them are rejected. A rejected sample changes no estimate. If no
//! other follows, the task counts as silent, and its reservation goes back to its limit.

use std::fmt;

use model::{Bytes, MilliCores, Span, Time};

/// A task without an accepted sample for so long is silent, usually. A sample that is older when it arrives
/// is late. A Borglet measures once a second and is polled every 2 s, so this is 30 polls.
pub const SILENT_AFTER: Span = Span::from_secs(60);

/// How far the clock of a machine may be ahead of the cell's.
pub const SKEW_MAX: Span = Span::from_secs(10);

/// More CPU than any machine has: a million cores.
pub const CPU_MAX: MilliCores = MilliCores(1_000_000_000);

/// More RAM than any machine has: 1 PiB.
pub const RAM_MAX: Bytes = Bytes(1 << 50);

/// The usage of a task, as its machine has measured it. It has no negative numbers: the
/// conversion from a message leaves them out, and the sample is incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When, by the machine's wall clock.
    pub at: Time,
    /// CPU in the cell's normalised cores; none if it could not be read.
    pub cpu: Option<MilliCores>,
    /// Memory; none if it could not be read.
    pub ram: Option<Bytes>,
}

/// Why a sample was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rejection {
    /// CPU or RAM is missing.
    Incomplete,
    /// More than [`CPU_MAX`] or [`RAM_MAX`].
    Absurd,
    /// More than [`SKEW_MAX`] in the future.
    Future,
    /// More than [`SILENT_AFTER`] in the past.
    Late,
    /// Older than the newest sample of the task.
    OutOfOrder,
    /// More than [`SKEW_MAX`] before the start of the task.
    BeforeStart,
}

impl Rejection {
    /// All reasons.
    pub const ALL: [Self; 6] = [
        Self::Incomplete,
        Self::Absurd,
        Self::Future,
        Self::Late,
        Self::OutOfOrder,
        Self::BeforeStart,
    ];

    /// The name used in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Incomplete => "incomplete",
            Self::Absurd => "absurd",
            Self::Future => "future",
            Self::Late => "late",
            Self::OutOfOrder => "out-of-order",
            Self::BeforeStart => "before-start",
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The number of rejected samples, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejected([u64; Rejection::ALL.len()]);

impl Rejected {
    /// The number with this reason.
    #[must_use]
    pub fn count(&self, reason: Rejection) -> u64 {
        self.0[reason as usize]
    }

    /// Those with any reason.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    pub(crate) fn add(&mut self, reason: Rejection) {
        let count = &mut self.0[reason as usize];
        *count = count.saturating_add(1);
    }
}

/// The amounts of a sample, CPU and RAM, if it can be used.
pub(crate) fn accepted(
    sample: &Sample,
    started: Time,
    newest: Option<Time>,
    now: Time,
) -> Result<(MilliCores, Bytes), Rejection> {
    let (Some(cpu), Some(ram)) = (sample.cpu, sample.ram) else {
        return Err(Rejection::Incomplete);
    };
    if cpu > CPU_MAX || ram > RAM_MAX {
        return Err(Rejection::Absurd);
    }
    if sample.at.since(now) > SKEW_MAX {
        return Err(Rejection::Future);
    }
    if now.since(sample.at) > SILENT_AFTER {
        return Err(Rejection::Late);
    }
    if newest.is_some_and(|newest| sample.at < newest) {
        return Err(Rejection::OutOfOrder);
    }
    if started.since(sample.at) > SKEW_MAX {
        return Err(Rejection::BeforeStart);
    }
    Ok((cpu, ram))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The task started at 1,000 s, its newest sample is of 1,990 s, and it is 2,000 s.
    #[test]
    fn each_reason_has_its_border() {
        let (secs, cpu, ram) = (Time(1_000_000), Some(MilliCores(0)), Some(Bytes(0)));
        let at = |seconds: u64| Time(secs.0 * seconds);
        let judged =
            |sample: Sample| accepted(&sample, at(1_000), Some(at(1_990)), at(2_000)).err();
        let cases = [
            (1_995, cpu, ram, None),
            (1_990, cpu, ram, None),
            (1_989, cpu, ram, Some(Rejection::OutOfOrder)),
            (1_940, cpu, ram, Some(Rejection::OutOfOrder)),
            (1_939, cpu, ram, Some(Rejection::Late)),
            (0, cpu, ram, Some(Rejection::Late)),
            (2_010, cpu, ram, None),
            (2_011, cpu, ram, Some(Rejection::Future)),
            (u64::MAX / secs.0, cpu, ram, Some(Rejection::Future)),
            (1_995, None, ram, Some(Rejection::Incomplete)),
            (1_995, cpu, None, Some(Rejection::Incomplete)),
            (1_995, Some(CPU_MAX), Some(RAM_MAX), None),
            (1_995, Some(MilliCores(CPU_MAX.0 + 1)), ram, Some(Rejection::Absurd)),
            (1_995, cpu, Some(Bytes(u64::MAX)), Some(Rejection::Absurd)),
        ];
        for (seconds, cpu, ram, expected) in cases {
            let sample = Sample { at: at(seconds), cpu, ram };
            assert_eq!(judged(sample), expected, "{seconds} s, {cpu:?}, {ram:?}");
        }
        let early = Sample { at: at(1_990), cpu, ram };
        assert_eq!(accepted(&early, at(2_000), None, at(2_000)), Ok((MilliCores(0), Bytes(0))));
        let earlier = accepted(&early, at(2_001), None, at(2_001));
        assert_eq!(earlier, Err(Rejection::BeforeStart));
    }

    #[test]
    fn rejections_are_counted_by_reason() {
        let mut rejected = Rejected::default();
        for (times, reason) in (1..).zip(Rejection::ALL) {
            for _ in 0..times {
                rejected.add(reason);
            }
        }
        let counts = Rejection::ALL.map(|reason| rejected.count(reason));
        assert_eq!((counts, rejected.total()), ([1, 2, 3, 4, 5, 6], 21));
    }
}
