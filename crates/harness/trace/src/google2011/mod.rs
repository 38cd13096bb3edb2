//! The trace of 2011 (`clusterdata-2011-2`): 29 days of a Borg cell of 12,583 machines, in rows of
//! what happened to its tasks. The data is Google's, under CC-BY 4.0; docs/traces.md says where all
//! of it is.
//!
//! [`TaskEvents`], [`machines()`] and [`removals`] read the tables as they are. [`History`] makes of
//! them what the rest of the house understands: the cell at time 0, as a [`crate::CellSnapshot`],
//! and its [`Churn`].
//!
//! What the trace does not say is chosen here, and said where it is chosen: how large a machine is
//! ([`Scale`]), the number of a priority ([`priority`]), how long a machine stays away
//! ([`Churn::away`]). Constraints, racks and the usage of every task are not in it.

mod churn;
mod csv;
mod history;
mod row;
mod scale;
mod share;
pub mod slice;

pub use churn::{Arrival, Away, Churn, Counts, Happening, JobIn, Life, Outcome, Step};
pub use csv::{ReadError, RowProblem, Table};
pub use history::{History, Whole};
pub use row::{EventKind, MachineRow, Removal, Request, TaskEvent, TaskEvents, machines, removals};
pub use scale::{Scale, Users, priority};
pub use share::{Share, ShareError};

use model::{Span, Time};

/// The moment at which the trace begins. What is at time 0 was there before.
pub const START: Time = Time(600_000_000);

/// Rows of one job that come within such a time of each other belong together: tasks submitted so
/// are one job, tasks killed so one kill, and a task that ended and is submitted again so soon was
/// started again, not asked for anew.
pub const TOGETHER: Span = Span::from_secs(1);

/// The bounds of what is taken in.
pub mod limits {
    /// Bytes of a line.
    pub const LINE_BYTES_MAX: usize = 1_024;
    /// Bytes of a hash or a name.
    pub const TEXT_BYTES_MAX: usize = 128;
    /// Machines.
    pub const MACHINES_MAX: usize = 1_000_000;
    /// Removals of machines.
    pub const REMOVALS_MAX: usize = 10_000_000;
    /// Tasks with all their lives: the 29 days have about 26 million.
    pub const TASKS_MAX: usize = 50_000_000;
    /// The largest index of a task.
    pub const INDEX_MAX: u64 = u32::MAX as u64;
    /// The largest priority.
    pub const PRIORITY_MAX: u64 = 11;
    /// The last moment, which stands for "after the trace".
    pub const TIME_MAX: u64 = i64::MAX as u64;
}
