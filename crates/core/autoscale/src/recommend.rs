//! The recommenders: from a history to a need, each with the numbers that it comes from.

use std::fmt;

use model::{Bytes, Dimension, MilliCores, Permille, Span, Time};
use spec::CpuRam;

use crate::history::{History, Window};
use crate::settings::Settings;

/// The weight of a window that is new.
const WEIGHT: u64 = 1 << 20;

/// A way to derive a need from a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Recommender {
    /// The maximum over the windows, where the usage of a window halves in each half-life.
    PeakAndDecay,
    /// CPU: a high percentile of the windows, where the weight of a window halves in each half-life.
    /// RAM: the maximum over the windows, for less memory than once used may end a task.
    Percentile,
    /// RAM: twice the limit at which a task ran out of memory, which halves in each half-life.
    OutOfMemory,
}

/// CPU or RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScaledResource {
    /// CPU.
    Cpu,
    /// RAM.
    Ram,
}

/// What a recommender says of one part of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recommendation {
    /// What it is about; in milli-cores or bytes.
    pub part: ScaledResource,
    /// Who says it.
    pub by: Recommender,
    /// The usage that it is derived from, as it was measured.
    pub used: u64,
    /// How old that usage is; zero for a percentile.
    pub age: Span,
    /// The need: with what decay and margin make of the usage, before bounds.
    pub needed: u64,
    /// The number of windows that were read.
    pub windows: usize,
}

impl Recommender {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PeakAndDecay => "peak-and-decay",
            Self::Percentile => "percentile",
            Self::OutOfMemory => "out-of-memory",
        }
    }
}

impl ScaledResource {
    /// Formats a quantity for people.
    #[must_use]
    pub fn show(self, amount: u64) -> String {
        match self {
            Self::Cpu => Dimension::Cpu.show(amount),
            Self::Ram => Dimension::Ram.show(amount),
        }
    }

    /// This part.
    #[must_use]
    pub fn of(self, amount: CpuRam) -> u64 {
        match self {
            Self::Cpu => amount.cpu.0,
            Self::Ram => amount.ram.0,
        }
    }

    /// Replaces this part.
    pub(crate) fn set(self, amount: &mut CpuRam, value: u64) {
        match self {
            Self::Cpu => amount.cpu = MilliCores(value),
            Self::Ram => amount.ram = Bytes(value),
        }
    }

    /// The unit to which a limit is rounded up: 10 milli-cores, or 1 MiB.
    pub(crate) fn unit(self) -> u64 {
        match self {
            Self::Cpu => 10,
            Self::Ram => 1 << 20,
        }
    }

    fn margin(self, settings: &Settings) -> Permille {
        match self {
            Self::Cpu => settings.cpu_margin,
            Self::Ram => settings.ram_margin,
        }
    }
}

/// `peak-and-decay of 24 windows: 80 MiB used 2 h ago`.
impl fmt::Display for Recommendation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, by, used, age, windows, .. } = self;
        let used = part.show(*used);
        match by {
            Recommender::OutOfMemory => {
                write!(f, "a task ran out of memory at its limit of {used} {age} ago")
            }
            _ => {
                write!(f, "{} of {windows} window", by.name())?;
                if *windows != 1 {
                    f.write_str("s")?;
                }
                write!(f, ": {used} used")?;
                if *age > Span::ZERO { write!(f, " {age} ago") } else { Ok(()) }
            }
        }
    }
}

/// With the margin.
fn with_margin(used: u64, margin: Permille) -> u64 {
    let margin = u128::from(used) * u128::from(margin.thousandths()) / 1_000;
    used.saturating_add(u64::try_from(margin).unwrap_or(u64::MAX))
}

fn age(now: Time, window: &Window) -> Span {
    now.since(window.start)
}

/// The recommendation of [`Recommender::PeakAndDecay`]; `None` without a window.
pub(crate) fn peak_and_decay(
    part: ScaledResource,
    history: &History,
    now: Time,
    settings: &Settings,
) -> Option<Recommendation> {
    let decays = |window: &Window| {
        let (used, age) = (part.of(window.used), age(now, window));
        (settings.half_life.halved(used, age), used, age)
    };
    // Of equal ones the newest.
    let (value, used, age) = history.windows().map(decays).max_by_key(|(value, ..)| *value)?;
    let needed = with_margin(value, part.margin(settings));
    let (by, windows) = (Recommender::PeakAndDecay, history.windows().len());
    Some(Recommendation { part, by, used, age, needed, windows })
}

/// The recommendation of [`Recommender::Percentile`]; `None` without a window.
pub(crate) fn percentile(
    part: ScaledResource,
    history: &History,
    now: Time,
    settings: &Settings,
) -> Option<Recommendation> {
    let (used, age) = match part {
        ScaledResource::Ram => {
            let peak = |window: &Window| (part.of(window.used), age(now, window));
            history.windows().map(peak).max_by_key(|(used, _)| *used)?
        }
        ScaledResource::Cpu => {
            let weighted = |window: &Window| {
                let weight = settings.half_life.halved(WEIGHT, age(now, window)).max(1);
                (part.of(window.used), weight)
            };
            let mut windows: Vec<(u64, u64)> = history.windows().map(weighted).collect();
            windows.sort_unstable();
            let all: u64 = windows.iter().map(|(_, weight)| weight).sum();
            let share = u64::from(settings.cpu_percentile.thousandths());
            // At most 288 weights of 2^20 by a thousand.
            let wanted = (all * share).div_ceil(1_000);
            let mut sum = 0;
            let reaches = windows.iter().find(|(_, weight)| {
                sum += weight;
                sum >= wanted
            });
            (reaches.or(windows.last())?.0, Span::ZERO)
        }
    };
    let needed = with_margin(used, part.margin(settings));
    let (by, windows) = (Recommender::Percentile, history.windows().len());
    Some(Recommendation { part, by, used, age, needed, windows })
}

/// The recommendation of [`Recommender::OutOfMemory`]; `None` if no task ran out of memory.
pub(crate) fn out_of_memory(
    history: &History,
    now: Time,
    settings: &Settings,
) -> Option<Recommendation> {
    let last = history.out_of_memory()?;
    let (age, used) = (now.since(last.at), last.limit.0);
    let needed = settings.half_life.halved(used.saturating_mul(2), age);
    let (part, by, windows) =
        (ScaledResource::Ram, Recommender::OutOfMemory, history.windows().len());
    Some(Recommendation { part, by, used, age, needed, windows })
}
