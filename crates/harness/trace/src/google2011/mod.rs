//! The 2011 trace (`clusterdata-2011-2`): 29 days of a Borg cell of 12,583 machines, as rows of
//! task events. The data is Google's, under CC-BY 4.0; docs/traces.md says where to find it.
//!
//! [`TaskEvents`], [`machines()`] and [`removals`] read the tables as they are. [`HistoryBuilder`]
//! converts them to the types of this crate: the cell at time 0, as a [`crate::CellSnapshot`], and
//! its [`Churn`].
//!
//! What the trace does not contain is chosen here and documented where it is chosen: the size of a
//! machine ([`Scale`]), the number of a priority ([`priority`]), how long a machine stays away
//! ([`Churn::outages`]). Constraints, racks and the usage of individual tasks are not included.

mod churn;
mod csv;
mod history;
mod row;
mod scale;
mod share;
pub mod slice;

pub use churn::{Arrival, Churn, ChurnCounts, ChurnStep, JobIn, Outage, Run, RunOutcome, StepKind};
pub use csv::{ReadError, RowProblem, Table};
pub use history::{HistoryBuilder, Trace};
pub use row::{
    EventKind, MachineRow, Removal, ResourceRequest, TaskEvent, TaskEvents, machines, removals,
};
pub use scale::{Scale, Users, priority};
pub use share::{Share, ShareError};

use model::{Span, Time};

/// When the trace starts. Rows at time 0 describe what existed before.
pub const START: Time = Time(600_000_000);

/// Rows of one job that follow each other within this time belong together: tasks submitted so are
/// one job, tasks killed so are one kill, and a task that ended and is submitted again so soon was
/// restarted.
pub const TOGETHER: Span = Span::from_secs(1);

/// The limits of the input.
pub mod limits {
    /// Bytes per line.
    pub const LINE_BYTES_MAX: usize = 1_024;
    /// Bytes of a hash or a name.
    pub const TEXT_BYTES_MAX: usize = 128;
    /// Machines.
    pub const MACHINES_MAX: usize = 1_000_000;
    /// Removals of machines.
    pub const REMOVALS_MAX: usize = 10_000_000;
    /// Tasks with all their runs: the 29 days have about 26 million.
    pub const TASKS_MAX: usize = 50_000_000;
    /// The maximum index of a task.
    pub const INDEX_MAX: u64 = u32::MAX as u64;
    /// The maximum priority.
    pub const PRIORITY_MAX: u64 = 11;
    /// The maximum time, which stands for "after the trace".
    pub const TIME_MAX: u64 = i64::MAX as u64;
}
