//! Orders to a Borglet, and its reports.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use model::{
    Appclass, CellName, End, FinalUsage, InstanceId, JobName, MachineReport, NoticeReason,
    PortName, Priority, Resources, Span, Stamp, StartLatency, UserName, VolumeMount, VolumeName,
    VolumePath,
};
use spec::{LogSettings, Saver, TaskSpec};
use thiserror::Error;

/// The complete set of instances that a machine is to run. Instances not in it are to be stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The version of the order; an order with a lower stamp than the newest one obeyed, or with
    /// that of another restoration, is rejected.
    pub stamp: Stamp,
    /// The stamp of an order of another history that this one replaces, by an administrator's word.
    pub overrules: Option<Stamp>,
    /// The desired allocs, by instance. A task in an alloc that is not listed here is treated as
    /// absent.
    pub allocs: Vec<DesiredAlloc>,
    /// The desired tasks, by instance.
    pub tasks: Vec<Desired>,
    /// Why instances that are still on the machine are to be stopped. An instance in neither list is
    /// stopped too, for an unknown reason.
    pub stops: Vec<Stop>,
    /// The ended instances of which the cell knows what became of their data.
    pub settled: Vec<InstanceId>,
    /// The savers of ended instances that are to end, with their data, and who has asked for that.
    pub saver_ends: Arc<BTreeMap<InstanceId, UserName>>,
    /// The volumes of the machine, in order of their names.
    pub volumes: Vec<VolumeDirectory>,
    /// The settings for the output of all tasks; `None`: those that were in force before.
    pub logs: Option<LogSettings>,
}

/// A volume of the machine, and its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeDirectory {
    /// Its name.
    pub volume: VolumeName,
    /// The directory.
    pub path: VolumePath,
}

/// Why an instance is to be stopped, and what bounds its notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The instance.
    pub instance: InstanceId,
    /// The reason.
    pub reason: NoticeReason,
    /// Who or what caused it, in words.
    pub cause: String,
    /// The maximum of its notice, from the job that preempts it; none if only its own applies.
    pub notice_max: Option<Span>,
}

/// What a task is told before it is killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Why it is stopped.
    pub reason: NoticeReason,
    /// Who or what caused it, in words; may be empty.
    pub cause: String,
    /// The time between SIGTERM and SIGKILL.
    pub length: Span,
}

/// A desired alloc: reserved resources and a directory shared by its tasks (paper, section 2.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredAlloc {
    /// The alloc's instance.
    pub instance: InstanceId,
    /// The cell it belongs to.
    pub cell: CellName,
    /// The owner.
    pub user: UserName,
    /// The alloc set's name.
    pub name: JobName,
    /// Its priority, which decides whom it may preempt on this machine.
    pub priority: Priority,
    /// The appclass of its set: how its tasks together compete with others for CPU.
    pub appclass: Appclass,
    /// The maximum that its tasks may use together, with CPU in this machine's own cores.
    pub limit: Resources,
    /// What runs after its end, in the directory that its tasks share.
    pub saver: Option<Saver>,
    /// The address of the network that its tasks share; `None` if that is the host's.
    pub address: Option<Ipv4Addr>,
}

/// A desired instance, with everything needed to start it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// The instance.
    pub instance: InstanceId,
    /// The alloc in which it runs, if any.
    pub alloc: Option<InstanceId>,
    /// The cell it belongs to.
    pub cell: CellName,
    /// The owner.
    pub user: UserName,
    /// The job's name.
    pub job: JobName,
    /// Its priority, which decides whom it may preempt on this machine.
    pub priority: Priority,
    /// Its appclass.
    pub appclass: Appclass,
    /// The number of tasks of its job.
    pub tasks: u32,
    /// The task's description, with overrides applied, and with CPU in this machine's own cores.
    pub spec: Arc<TaskSpec>,
    /// The ports assigned to it: the machine's, or those of its own network.
    pub ports: Vec<(PortName, u16)>,
    /// Its address, if it has a network of its own; in an alloc, the alloc's.
    pub address: Option<Ipv4Addr>,
    /// The volumes of the machine that it has.
    pub volumes: Vec<VolumeMount>,
    /// How long its program may run; `None`: as long as it likes.
    pub max_runtime: Option<Span>,
    /// Increases when it has to read its secrets and names again while it runs, and then gets SIGHUP;
    /// 0: it has read the newest.
    pub reads_again: u32,
}

impl Desired {
    /// Those of its ports that are the machine's: none in a network of its own.
    #[must_use]
    pub fn machine_ports(&self) -> &[(PortName, u16)] {
        if self.address.is_none() { &self.ports } else { &[] }
    }

    /// The address at which the machine itself reaches its ports.
    #[must_use]
    pub fn host(&self) -> Ipv4Addr {
        self.address.unwrap_or(Ipv4Addr::LOCALHOST)
    }
}

/// The order was rejected; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the order is stamped {given:?}, and this machine has obeyed {obeyed:?}")]
pub struct OrderRefused {
    /// The order's stamp.
    pub given: Stamp,
    /// The newest stamp obeyed.
    pub obeyed: Stamp,
}

/// A Borglet's full state, sent in full every time (paper, section 3.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The newest order obeyed; the default stamp if an order must first decide which allocs from
    /// before a reboot to recreate.
    pub stamp: Stamp,
    /// The machine's description.
    pub machine: Arc<MachineReport>,
    /// Every instance on the machine, including allocs, by id; an ended one stays until an order no
    /// longer lists it.
    pub tasks: Vec<TaskReport>,
}

/// The state of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskReport {
    /// The instance.
    pub instance: InstanceId,
    /// The status.
    pub status: TaskStatus,
    /// What the check said that gave a running instance its health or took its readiness, or why it is
    /// not healthy yet; may be empty. It does not change with every check, because a report that differs ends
    /// the hold of a poll.
    pub check: String,
    /// How long the machine took to fetch what the instance needs, and to start it, by its own clock; known
    /// from when its program runs, unless the Borglet was restarted meanwhile.
    pub latency: StartLatency,
}

/// The status of an instance. An alloc is running and healthy once tasks can be started in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    /// The instance is being started.
    Starting,
    /// The program runs.
    Running {
        /// The result of the last health check; `None` before the first success.
        healthy: Option<bool>,
    },
    /// The program runs and its health check succeeds, and its readiness check fails: clients should not
    /// come to it.
    Unready,
    /// The instance is being stopped.
    Stopping,
    /// The instance ended, with its usage.
    Ended(End, FinalUsage),
}
