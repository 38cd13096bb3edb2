//! What a master and a Borglet say to each other in a poll (paper, section 3.3): orders, reports, and what
//! tasks use.
//!
//! The Borglet's decisions are in crate `borglet`; the master's orders are in crate `master`. These types only
//! say them.

mod distribution;
mod order;
mod usage;

pub use distribution::CpuDistribution;
pub use order::{
    Desired, DesiredAlloc, Notice, Order, OrderRefused, Report, Stop, TaskReport, TaskStatus,
};
pub use usage::{
    Measured, SAMPLES_MAX, Usage, UsageSample, UsageSubject, UsageWindow, WINDOW, WINDOWS_MAX,
};
