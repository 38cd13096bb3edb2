//! Records, read from a cell.

use std::borrow::Cow;
use std::sync::Arc;

use cell::{Cell, Health, Job, MachineState, Phase, Placement, Service, TaskState};
use model::{Generation, JobName, MachineName, PortName, TaskIndex, UserName, Version};

/// The record of a task that has a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRecord<'a> {
    /// Its index in the job.
    pub index: TaskIndex,
    /// Its incarnation.
    pub generation: Generation,
    /// The version of the job's description that it has.
    pub version: Version,
    /// The name of its machine.
    pub machine: &'a MachineName,
    /// Where it listens: its own address if it has one, else the host of its machine, which is an
    /// IP address or a name of the network's own.
    pub host: Cow<'a, str>,
    /// The names of its ports, and the ports.
    pub ports: (Arc<[PortName]>, Arc<[u16]>),
    /// How far it is.
    pub stage: Stage,
    /// Its health.
    pub health: Health,
    /// Whether its machine answers the master.
    pub reachable: bool,
}

/// How far a task is that has a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its machine has not started it yet.
    Starting,
    /// It runs.
    Running,
    /// It runs, and is about to end: it should get no new connections.
    Stopping,
}

impl TaskRecord<'_> {
    /// Whether it should get new connections: it runs, is healthy, is not about to end, and its
    /// machine answers.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.stage == Stage::Running && self.health == Health::Healthy && self.reachable
    }

    /// Its ports by their names.
    pub fn ports(&self) -> impl Iterator<Item = (&PortName, u16)> {
        self.ports.0.iter().zip(self.ports.1.iter().copied())
    }
}

/// Whether a job has a record: it is alive, and has tasks rather than allocs.
#[must_use]
pub fn is_named(job: &Job) -> bool {
    job.is_alive() && !job.spec.kind.is_alloc_set()
}

/// Whether a job is behind a service: it has a record, its labels match, and its owner is the service's
/// or a user that the service admits.
#[must_use]
pub fn is_behind(service: &Service, job: &Job) -> bool {
    is_named(job) && service.admits(&job.owner) && service.matches(&job.spec.labels)
}

/// The job of a name, if it has a record.
#[must_use]
pub fn named<'a>(cell: &'a Cell, user: &UserName, job: &JobName) -> Option<&'a Arc<Job>> {
    cell.job_named(user, job).filter(|job| is_named(job))
}

/// The record of a task; `None` while it has no machine.
#[must_use]
pub fn task<'a>(cell: &'a Cell, job: &Job, index: TaskIndex) -> Option<TaskRecord<'a>> {
    let task = job.task(index)?;
    match &task.state {
        TaskState::Running(placement) => {
            of(cell, job, index, task.generation, task.version, placement)
        }
        _ => None,
    }
}

/// The records of all tasks of a job that have a machine, in the order of their indexes. Replacements
/// during a drain come after the job's own tasks.
pub fn tasks<'a>(cell: &'a Cell, job: &'a Job) -> impl Iterator<Item = TaskRecord<'a>> {
    job.tasks().filter_map(move |(index, task)| match &task.state {
        TaskState::Running(placement) => {
            of(cell, job, index, task.generation, task.version, placement)
        }
        _ => None,
    })
}

fn of<'a>(
    cell: &'a Cell,
    job: &Job,
    index: TaskIndex,
    generation: Generation,
    version: Version,
    placement: &Placement,
) -> Option<TaskRecord<'a>> {
    let machine = cell.machine(placement.machine)?;
    let (stage, health) = match placement.phase {
        Phase::Starting => (Stage::Starting, Health::Unknown),
        Phase::Started { health, .. } if placement.stop.is_some() => (Stage::Stopping, health),
        Phase::Started { health, .. } => (Stage::Running, health),
    };
    Some(TaskRecord {
        index,
        generation,
        version,
        machine: &machine.name,
        host: match placement.address {
            Some(address) => Cow::Owned(address.to_string()),
            None => Cow::Borrowed(machine.host()),
        },
        ports: (job.ports(index), Arc::clone(&placement.ports)),
        stage,
        health,
        reachable: matches!(machine.state, MachineState::Up),
    })
}
