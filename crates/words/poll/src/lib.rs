//! The orders, reports and usage that a master and a Borglet exchange in a poll (paper, section 3.3).
//!
//! The decisions of the Borglet are in crate `borglet`, those of the master in crate `master`.

mod distribution;
mod order;
mod usage;

pub use distribution::CpuDistribution;
pub use order::{
    Desired, DesiredAlloc, Notice, Order, OrderRefused, Report, Stop, TaskReport, TaskStatus,
    VolumeDirectory,
};
pub use usage::{
    Measured, SAMPLES_MAX, Usage, UsageSample, UsageSubject, UsageWindow, WINDOW, WINDOWS_MAX,
};
