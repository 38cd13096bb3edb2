//! The Borglet's decisions (paper, section 3.3): orders and observations in, effects and a report
//! out.
//!
//! [`Borglet::step`] is deterministic and does nothing itself: it says what is to be done as
//! [`Effect`]s, and a thin shell does it to real processes, or the simulator to simulated ones.
//! The Borglet obeys orders and never asks for them: it does not know who sends them, does not
//! talk to anyone of its own accord, and keeps every task running when no order comes.
//!
//! What is deliberately absent: processes, cgroups and files (crate `linux`), sockets and clocks.

mod alloc;
mod health;
mod keep;
mod launch;
mod limit;
mod order;
mod room;
mod state;
mod usage;

pub use alloc::RecoveredAlloc;
pub use keep::{KeepAtMost, KeptLog, outdated};
pub use launch::{ALLOC_DIRECTORY, CLIENT_DIRECTORY, Launch, environment};
pub use order::{Desired, DesiredAlloc, Order, OrderRefused, Report, TaskReport, TaskStatus};
pub use state::{
    Borglet, DiskAmount, DiskReport, DiskUse, Effect, HeldPort, Holder, Input, Recovered,
    RecoveredStatus, Settings,
};
pub use usage::{Measured, SAMPLES_MAX, Usage, UsageSample, UsageWindow, WINDOWS_MAX};

#[cfg(test)]
mod tests;
