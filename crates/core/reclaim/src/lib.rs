//! Resource reclamation (paper, section 5.5): from the usage of each task an estimate of what it
//! needs, its reservation. What is between the reservations and the limits can be given to tasks
//! that tolerate resources of lower quality.
//!
//! A reservation begins at the limit. After [`Pace::warm_up`] it decays slowly towards the usage plus a
//! safety margin, and it rises at once if the usage exceeds it. [`Estimate`] is that of one task;
//! [`Estimator`] has those of many, and in each round gives the few changes that matter
//! ([`ReservationChange`]). The cell's state keeps them, so another replica continues where this one stopped.
//!
//! CPU and RAM are estimated. Disk space and disk bandwidth stay at the limit.
//!
//! Not here: how usage is measured (crate `borglet`), which tasks are estimated (jobs may opt out,
//! and an alloc keeps its limit: crate `cell`), and who is judged by reservations (`cell::feasibility`).

mod sample;
mod setting;

mod estimate;

mod batch;
mod estimator;

pub use batch::ReservationChange;
pub use estimate::{Estimate, STEP_MAX, Tuning};
pub use estimator::{Estimator, Round, Task};
pub use sample::{CPU_MAX, RAM_MAX, Rejected, Rejection, SILENT_AFTER, SKEW_MAX, Sample};
pub use setting::{Margin, Pace, SILENCE_RISE};
