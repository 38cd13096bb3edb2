//! What a Borglet is told, and what it answers.

use std::sync::Arc;

use model::{
    Appclass, CellName, End, FinalUsage, InstanceId, JobName, MachineReport, PortName, Priority,
    Resources, Stamp, UserName,
};
use spec::TaskSpec;
use thiserror::Error;

/// The whole set of instances that a machine is to run. One that is not in it is to be stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// How old it is; a lower one than the newest seen is refused.
    pub stamp: Stamp,
    /// The allocs that are to be there, by instance. A task that is to run in another one is as if
    /// it were not in the order.
    pub allocs: Vec<DesiredAlloc>,
    /// What is to run, by instance.
    pub tasks: Vec<Desired>,
}

/// An alloc that is to be there: room that it keeps, and a directory that its tasks share (paper,
/// section 2.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredAlloc {
    /// Which.
    pub instance: InstanceId,
    /// The cell it belongs to.
    pub cell: CellName,
    /// Whose it is.
    pub user: UserName,
    /// The alloc set's name.
    pub name: JobName,
    /// What it may take from others on this machine.
    pub priority: Priority,
    /// The most that its tasks may use together, with CPU in this machine's own cores.
    pub limit: Resources,
}

/// An instance that is to run, with everything needed to start it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// Which.
    pub instance: InstanceId,
    /// The alloc in which it is to run, where it is to run in one.
    pub alloc: Option<InstanceId>,
    /// The cell it belongs to.
    pub cell: CellName,
    /// Whose it is.
    pub user: UserName,
    /// The job's name.
    pub job: JobName,
    /// What it may take from others on this machine.
    pub priority: Priority,
    /// How it is treated.
    pub appclass: Appclass,
    /// What it is, its overrides applied.
    pub spec: Arc<TaskSpec>,
    /// Its ports.
    pub ports: Vec<(PortName, u16)>,
}

/// An order that was refused. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the order is stamped {given:?}, and this machine has obeyed {obeyed:?}")]
pub struct OrderRefused {
    /// The order's stamp.
    pub given: Stamp,
    /// The newest stamp obeyed.
    pub obeyed: Stamp,
}

/// A Borglet's full state: all of it, every time (paper, section 3.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The newest order obeyed; none where one has to say first what of before a reboot is to be
    /// there again.
    pub stamp: Stamp,
    /// What the machine is.
    pub machine: Arc<MachineReport>,
    /// Every instance here, allocs among them, by id; one that has ended stays until an order no
    /// longer names it.
    pub tasks: Vec<TaskReport>,
}

/// One instance on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskReport {
    /// Which.
    pub instance: InstanceId,
    /// How it is.
    pub status: TaskStatus,
}

/// How an instance on the machine is. An alloc runs as soon as its tasks can be started in it, and is
/// healthy then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    /// It is being started.
    Starting,
    /// Its program runs.
    Running {
        /// Its last health check; none before the first good one.
        healthy: Option<bool>,
    },
    /// It has been told to stop.
    Stopping,
    /// It has ended, and used that until then.
    Ended(End, FinalUsage),
}
