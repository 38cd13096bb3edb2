//! What instances use, as it is sent to the master beside the report.
//!
//! A sample is no news: it is no part of [`crate::Report`], so that it changes no version, ends no hold
//! and leads to no operation. What is deliberately absent: how it is measured, and who keeps it.

use model::{Bytes, InstanceId, MilliCores, Span, Time};

/// How many samples one answer has at most: as many as instances can be on a machine.
pub const SAMPLES_MAX: usize = 10_000;
/// How many windows one answer has at most.
pub const WINDOWS_MAX: usize = 1_000;

/// What is sent with one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The newest sample of instances that run: [`SAMPLES_MAX`] at most.
    pub samples: Vec<UsageSample>,
    /// Windows that have closed, the oldest first: [`WINDOWS_MAX`] at most.
    pub windows: Vec<UsageWindow>,
}

impl Usage {
    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.windows.is_empty()
    }
}

/// One measurement; none for what was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// In the machine's own cores, over the time since the sample before.
    pub cpu: Option<MilliCores>,
    /// All memory that is charged to it, the page cache included.
    pub memory: Option<Bytes>,
    /// The most of that since its start.
    pub memory_peak: Option<Bytes>,
    /// The page cache that is charged to it.
    pub page_cache: Option<Bytes>,
    /// What its files take.
    pub disk: Option<Bytes>,
    /// Bytes read and written each second.
    pub disk_rate: Option<Bytes>,
}

/// What an instance used at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageSample {
    /// Which.
    pub instance: InstanceId,
    /// By the machine's clock.
    pub at: Time,
    /// What it used.
    pub measured: Measured,
}

/// What an instance used in a span of time. The instance and the start are its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageWindow {
    /// Which.
    pub instance: InstanceId,
    /// When it began, by the machine's clock.
    pub start: Time,
    /// How long it was.
    pub length: Span,
    /// Of how many samples it is made.
    pub samples: u32,
    /// Their average.
    pub average: Measured,
    /// The highest of each.
    pub maximum: Measured,
}
