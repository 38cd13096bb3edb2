//! Jobs and their tasks: pending, running, dead (paper, figure 2).

use std::sync::Arc;

use model::{
    CollectionId, End, Generation, InstanceId, MachineId, PortName, Resources, TaskId, TaskIndex,
    Time, UserName,
};
use spec::JobSpec;

use crate::cow::Row;

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: CollectionId,
    /// Whose it is.
    pub owner: UserName,
    /// What was asked for.
    pub spec: Arc<JobSpec>,
    /// When it was admitted.
    pub submitted: Time,
    /// Where it is in its life.
    pub state: JobState,
    pub(crate) tasks: Row<Task>,

    // Derived from the tasks and the description.
    pub(crate) pending: u32,
    pub(crate) running: u32,
    pub(crate) ports: Arc<[PortName]>,
}

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// No task of it has been placed yet.
    Pending,
    /// A task of it has been placed, and one is not dead.
    Running,
    /// Every task of it is dead.
    Dead {
        /// Since when.
        at: Time,
    },
}

/// A task, over all its lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its present life.
    pub generation: Generation,
    /// How often it has failed.
    pub failures: u32,
    /// Its last life on a machine, where it has had one before.
    pub last_life: Option<Arc<LastLife>>,
    /// Where it is in its life.
    pub state: TaskState,
}

/// A task's last life on a machine: how it ended, and where its logs are kept for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastLife {
    /// Which life.
    pub generation: Generation,
    /// On which machine.
    pub machine: MachineId,
    /// How it ended.
    pub end: End,
}

/// Where a task is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It waits to be placed.
    Pending {
        /// Since when.
        since: Time,
        /// It is not placed before this moment.
        not_before: Time,
        /// Why it waits.
        cause: PendingCause,
    },
    /// It has a machine.
    Running(Placement),
    /// It has ended for good.
    Dead {
        /// Since when.
        at: Time,
        /// How.
        death: Death,
    },
}

/// Why a task waits to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingCause {
    /// It is new.
    Submitted,
    /// It failed and is tried again.
    Failed,
    /// Its machine went silent, or it vanished there.
    Lost,
}

/// How a task ended for good (trace v3: FINISH, FAIL, KILL, LOST).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Death {
    /// Its program exited with 0.
    Finished,
    /// It failed more often than its job allows.
    Failed,
    /// A user killed it.
    Killed,
}

/// A task on its machine. It holds its resources and ports there until the machine says that it
/// has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The machine.
    pub machine: MachineId,
    /// Its ports, in the order of [`Job::ports`].
    pub ports: Arc<[u16]>,
    /// Since when.
    pub since: Time,
    /// How far it has got.
    pub phase: Phase,
    /// Who wants its end, where somebody does: the machine is told to stop it.
    pub killed_by: Option<UserName>,
}

/// How far a placed task has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The machine has not reported it as running.
    Starting,
    /// Its program runs.
    Started {
        /// Since when.
        at: Time,
        /// Whether it does its work.
        health: Health,
    },
}

/// Whether a task that runs does its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Its health check has not succeeded yet.
    Unknown,
    /// It has no health check, or the last one succeeded.
    Healthy,
    /// Its health check fails.
    Unhealthy,
}

impl Job {
    /// A new job, all its tasks pending.
    pub(crate) fn new(id: CollectionId, owner: UserName, spec: Arc<JobSpec>, at: Time) -> Self {
        let task = Task {
            generation: Generation(1),
            failures: 0,
            last_life: None,
            state: TaskState::Pending { since: at, not_before: at, cause: PendingCause::Submitted },
        };
        let tasks = std::iter::repeat_n(task, spec.tasks as usize).collect();
        Self::from_parts(id, owner, spec, at, JobState::Pending, tasks)
    }

    /// A job from what is recorded of it; what is derived is computed.
    pub(crate) fn from_parts(
        id: CollectionId,
        owner: UserName,
        spec: Arc<JobSpec>,
        submitted: Time,
        state: JobState,
        tasks: Row<Task>,
    ) -> Self {
        let count = |wanted: fn(&TaskState) -> bool| {
            let count = tasks.iter().filter(|task| wanted(&task.state)).count();
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        let pending = count(|state| matches!(state, TaskState::Pending { .. }));
        let running = count(|state| matches!(state, TaskState::Running(_)));
        let ports = spec.task.all_ports().into_iter().collect();
        Self { id, owner, spec, submitted, state, tasks, pending, running, ports }
    }

    /// A task of it.
    #[must_use]
    pub fn task(&self, index: TaskIndex) -> Option<&Task> {
        self.tasks.get(usize::try_from(index.0).ok()?)
    }

    /// Its tasks in order.
    pub fn tasks(&self) -> impl Iterator<Item = (TaskIndex, &Task)> {
        (0..).map(TaskIndex).zip(self.tasks.iter())
    }

    /// The present life of a task of it.
    #[must_use]
    pub fn instance(&self, index: TaskIndex) -> Option<InstanceId> {
        let id = TaskId { collection: self.id, index };
        self.task(index).map(|task| id.generation(task.generation))
    }

    /// How many of its tasks wait to be placed.
    #[must_use]
    pub fn pending(&self) -> u32 {
        self.pending
    }

    /// How many of its tasks have a machine.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.running
    }

    /// The names of the ports of a task of it, in the order in which their numbers are kept.
    #[must_use]
    pub fn ports(&self, index: TaskIndex) -> Arc<[PortName]> {
        match self.spec.overrides.contains_key(&index) {
            true => self.spec.task(index).all_ports().into_iter().collect(),
            false => Arc::clone(&self.ports),
        }
    }

    /// What a task of it may use at most.
    #[must_use]
    pub fn limit(&self, index: TaskIndex) -> Resources {
        self.spec.limit(index)
    }

    /// Whether it is not dead.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, JobState::Dead { .. })
    }
}

impl Job {
    /// How it died, as its worst task did: killed, else failed, else finished.
    #[must_use]
    pub fn death(&self) -> Death {
        let deaths = self.tasks().filter_map(|(_, task)| match task.state {
            TaskState::Dead { death, .. } => Some(death),
            _ => None,
        });
        deaths.max().unwrap_or(Death::Finished)
    }
}
