//! What instances and the machine use: how readings of the kernel's counters become samples and
//! windows (paper, section 5.5; trace v3, `InstanceUsage`), and their form beside the report.
//!
//! A sample is no news: it is no part of [`crate::Report`], so that it changes no version, ends no hold
//! and leads to no operation. Deliberately absent: reading the counters (crate `linux`), and who keeps
//! windows.

mod recorder;
mod window;

pub use recorder::{Counters, Reading, Recorder, Round, TaskReading};

#[cfg(test)]
mod tests;
