//! Vertical autoscaling: what limit the tasks of a job need, from what tasks of jobs with this name
//! have used.
//!
//! [`History`] has the usage by windows of time, each with the largest usage of any task. Two
//! recommenders read it ([`Recommender`]), and [`decide`] compares what they recommend with the limit
//! in force: a limit rises at once, and falls only if it falls by much, and not often. The decision
//! has its reason with it ([`Change`]).
//!
//! All tasks of a job have the same limit, as in its description. Limits in overrides are the user's.
//!
//! Not here: how usage is read, where a history is kept, and who may change a limit (crates `cli` and
//! `cell`). A history is not a reservation: crate `reclaim` estimates what a task needs now.

mod decide;
mod history;
mod recommend;
mod settings;

pub use decide::{Change, Job, decide};
pub use history::{Damaged, History, OutOfMemory, WINDOWS_MAX, Window};
pub use recommend::{Recommendation, Recommender, ScaledResource};
pub use settings::Settings;
