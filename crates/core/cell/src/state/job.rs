//! Jobs and their tasks: queued, pending, running, dead (paper, figure 2).

use std::sync::Arc;

use model::{
    CollectionId, End, FinalUsage, Generation, InstanceId, MachineId, PortName, Resources, TaskId,
    TaskIndex, Time, UserName,
};
use spec::JobSpec;

use super::crashes::Crash;
use crate::cow::Row;
use crate::lifecycle::{NotAStep, Stage, Transition};

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: CollectionId,
    /// Whose it is.
    pub owner: UserName,
    /// What is asked for now.
    pub spec: Arc<JobSpec>,
    /// When it was admitted.
    pub submitted: Time,
    /// Where it is in its life.
    pub state: JobState,
    /// The jobs that its description says it runs after, in the description's order.
    pub after: Arc<[CollectionId]>,
    /// Those of them that have not finished yet.
    pub waits_for: Vec<CollectionId>,
    /// The job with which it ends.
    pub parent: Option<CollectionId>,
    /// The alloc set in which its tasks run, where they do. It ends with that, too.
    pub alloc_set: Option<CollectionId>,
    pub(crate) tasks: Row<Task>,

    // Derived from the tasks and the description.
    pub(crate) counts: Counts,
    pub(crate) ports: Arc<[PortName]>,
}

/// Where a job is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It waits for other jobs.
    Queued,
    /// No task of it has been placed yet.
    Pending,
    /// A task of it has been placed, and one is not dead.
    Running,
    /// Every task of it is dead.
    Dead {
        /// Since when.
        at: Time,
        /// How, as its worst task: killed, else failed, else finished.
        death: Death,
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
    pub last_incarnation: Option<Arc<LastIncarnation>>,
    /// The machines on which it crashed lately, oldest first.
    pub crashes: Option<Arc<Vec<Crash>>>,
    /// What its present life is estimated to need, where that is not its limit; see
    /// [`Job::reservation`].
    pub reserved: Option<Arc<Resources>>,
    /// Where it is in its life.
    pub state: TaskState,
}

/// What a placed task counts for on its machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// What it may use at most.
    pub limit: Resources,
    /// What it is estimated to need.
    pub reservation: Resources,
    /// Whether it is production or monitoring.
    pub prod: bool,
}

/// A task's last life on a machine: how it ended, and where its logs are kept for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastIncarnation {
    /// Which life.
    pub generation: Generation,
    /// On which machine.
    pub machine: MachineId,
    /// In which alloc of its alloc set, where it ran in one. When that moves, the task goes with it.
    pub alloc: Option<TaskIndex>,
    /// How it ended.
    pub end: End,
    /// What it used until then.
    pub usage: FinalUsage,
}

/// Where a task is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Its job waits for other jobs.
    Queued {
        /// Since when.
        since: Time,
    },
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
    /// It was gone, and nobody saw how.
    Lost,
    /// It had to leave its machine.
    Evicted(EvictionCause),
}

/// Why a task had to leave its machine (trace v3, EVICT).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvictionCause {
    /// A task of higher priority needed its room.
    Preempted {
        /// Which one.
        by: InstanceId,
    },
    /// The machine ran out of a resource that was promised more than once.
    OutOfResources,
    /// Its machine went silent.
    MachineFailure,
    /// Its machine is being drained.
    MachineShutdown,
    /// Anything else.
    Other,
}

/// How a task ended for good (trace v3: FINISH, FAIL, KILL).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Death {
    /// Its program exited with 0.
    Finished,
    /// It failed more often than its job allows.
    Failed,
    /// Somebody's wish, or another job's end.
    Killed(KillReason),
}

/// Why a task was killed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KillReason {
    /// A user asked for it.
    User(UserName),
    /// The parent of its job ended.
    ParentEnded(CollectionId),
    /// The alloc set that its job ran in ended.
    AllocSetEnded(CollectionId),
    /// A job that its job was to run after ended otherwise than by finishing.
    PredecessorEnded(CollectionId),
}

/// Why a placed task is being stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It is to die.
    Kill(KillReason),
    /// It is to leave its machine, and is pending again then.
    Evict(EvictionCause),
}

/// A task on its machine. It holds its resources and ports there until the machine says that it
/// has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The machine.
    pub machine: MachineId,
    /// The alloc in which it runs, on the same machine, where its job runs in an alloc set. Few do,
    /// and the others need not have room for it.
    pub alloc: Option<Arc<InstanceId>>,
    /// Its ports, in the order of [`Job::ports`].
    pub ports: Arc<[u16]>,
    /// Since when.
    pub since: Time,
    /// How far it has got.
    pub phase: Phase,
    /// Why it is being stopped, where it is: the machine is told to end it.
    pub stop: Option<Arc<StopReason>>,
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

/// How many tasks of a job are where in their lives; the rest are dead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Their job waits for others.
    pub queued: u32,
    /// They wait to be placed.
    pub pending: u32,
    /// They have a machine.
    pub running: u32,
}

/// What is recorded of a job; the rest of it is derived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobParts {
    /// See [`Job::id`].
    pub id: CollectionId,
    /// See [`Job::owner`].
    pub owner: UserName,
    /// See [`Job::spec`].
    pub spec: Arc<JobSpec>,
    /// See [`Job::submitted`].
    pub submitted: Time,
    /// See [`Job::state`].
    pub state: JobState,
    /// See [`Job::after`].
    pub after: Vec<CollectionId>,
    /// See [`Job::waits_for`].
    pub waits_for: Vec<CollectionId>,
    /// See [`Job::parent`].
    pub parent: Option<CollectionId>,
    /// See [`Job::alloc_set`].
    pub alloc_set: Option<CollectionId>,
    /// Its tasks, in order.
    pub tasks: Vec<Task>,
}

impl JobState {
    /// Where it is in the diagram of lives.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self {
            Self::Queued => Stage::Queued,
            Self::Pending => Stage::Pending,
            Self::Running => Stage::Running,
            Self::Dead { .. } => Stage::Dead,
        }
    }
}

impl TaskState {
    /// Where it is in the diagram of lives.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self {
            Self::Queued { .. } => Stage::Queued,
            Self::Pending { .. } => Stage::Pending,
            Self::Running(_) => Stage::Running,
            Self::Dead { .. } => Stage::Dead,
        }
    }
}

impl Death {
    /// The step with which it came.
    #[must_use]
    pub fn transition(&self) -> Transition {
        match self {
            Self::Finished => Transition::Finish,
            Self::Failed => Transition::Fail,
            Self::Killed(_) => Transition::Kill,
        }
    }
}

impl Counts {
    fn of(&mut self, stage: Stage) -> Option<&mut u32> {
        match stage {
            Stage::Queued => Some(&mut self.queued),
            Stage::Pending => Some(&mut self.pending),
            Stage::Running => Some(&mut self.running),
            Stage::New | Stage::Dead => None,
        }
    }

    pub(crate) fn add(&mut self, stage: Stage) {
        if let Some(count) = self.of(stage) {
            *count = count.saturating_add(1);
        }
    }

    fn remove(&mut self, stage: Stage) {
        if let Some(count) = self.of(stage) {
            *count = count.saturating_sub(1);
        }
    }

    /// How many are not dead.
    #[must_use]
    pub fn alive(self) -> u32 {
        self.queued.saturating_add(self.pending).saturating_add(self.running)
    }
}

impl Placement {
    /// The alloc in which it runs, where it runs in one.
    #[must_use]
    pub fn alloc(&self) -> Option<InstanceId> {
        self.alloc.as_deref().copied()
    }

    /// Who or what wants its death, where somebody does.
    #[must_use]
    pub fn killed(&self) -> Option<&KillReason> {
        match self.stop.as_deref() {
            Some(StopReason::Kill(why)) => Some(why),
            _ => None,
        }
    }
}

impl Job {
    /// A job from what is recorded of it; what is derived is computed.
    #[must_use]
    pub fn from_parts(parts: JobParts) -> Self {
        let JobParts { id, owner, spec, submitted, state, .. } = parts;
        let JobParts { after, waits_for, parent, alloc_set, tasks, .. } = parts;
        let mut counts = Counts::default();
        tasks.iter().for_each(|task| counts.add(task.state.stage()));
        let ports = spec.task.all_ports().into_iter().collect();
        Self {
            id,
            owner,
            spec,
            submitted,
            state,
            after: after.into(),
            waits_for,
            parent,
            alloc_set,
            tasks: tasks.into_iter().collect(),
            counts,
            ports,
        }
    }

    /// The job as a whole goes a step, and is now like this.
    ///
    /// # Errors
    /// Where that is no step from where it is; nothing has changed then.
    pub(crate) fn advance(
        &mut self,
        transition: Transition,
        state: JobState,
    ) -> Result<(), NotAStep> {
        let to = self.state.stage().step(transition)?;
        debug_assert_eq!(to, state.stage(), "{transition} leads elsewhere");
        self.state = state;
        Ok(())
    }

    /// A task goes a step, and is now like this; the task.
    ///
    /// # Errors
    /// Where that is no step from where it is; nothing has changed then.
    pub(crate) fn step(
        &mut self,
        index: TaskIndex,
        transition: Transition,
        state: TaskState,
    ) -> Result<&mut Task, NotAStep> {
        let place = usize::try_from(index.0).unwrap_or(usize::MAX);
        let no_task = NotAStep { stage: Stage::New, transition };
        let task = self.tasks.get_mut(place).ok_or(no_task)?;
        let from = task.state.stage();
        let to = from.step(transition)?;
        debug_assert_eq!(to, state.stage(), "{transition} leads elsewhere");
        task.state = state;
        if to == Stage::Dead {
            // Its next life is another one, and begins with its limit.
            task.reserved = None;
        }
        self.counts.remove(from);
        self.counts.add(to);
        Ok(task)
    }

    /// A task of it.
    #[must_use]
    pub fn task(&self, index: TaskIndex) -> Option<&Task> {
        self.tasks.get(usize::try_from(index.0).ok()?)
    }

    pub(crate) fn task_mut(&mut self, index: TaskIndex) -> Option<&mut Task> {
        self.tasks.get_mut(usize::try_from(index.0).ok()?)
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

    /// How many of its tasks are where in their lives.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How many of its tasks wait to be placed.
    #[must_use]
    pub fn pending(&self) -> u32 {
        self.counts.pending
    }

    /// How many of its tasks have a machine.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.counts.running
    }

    /// The names of the ports of a task of it, in the order in which their numbers are kept.
    #[must_use]
    pub fn ports(&self, index: TaskIndex) -> Arc<[PortName]> {
        match self.spec.overrides.get(&index) {
            Some(change) if change.touches_ports() => self.spec.ports(index).into_iter().collect(),
            _ => Arc::clone(&self.ports),
        }
    }

    /// How many ports a task of it has.
    #[must_use]
    pub fn port_count(&self, index: TaskIndex) -> usize {
        match self.spec.overrides.get(&index) {
            Some(change) if change.touches_ports() => self.spec.ports(index).len(),
            _ => self.ports.len(),
        }
    }

    /// What a task of it may use at most.
    #[must_use]
    pub fn limit(&self, index: TaskIndex) -> Resources {
        self.spec.limit(index)
    }

    /// What the present life of a task of it is estimated to need: its limit, or less.
    #[must_use]
    pub fn reservation(&self, index: TaskIndex) -> Resources {
        self.reservation_below(index, self.limit(index))
    }

    fn reservation_below(&self, index: TaskIndex, limit: Resources) -> Resources {
        let reserved = self.task(index).and_then(|task| task.reserved.as_deref());
        let reserved = reserved.filter(|_| self.spec.estimation);
        reserved.map_or(limit, |reserved| reserved.least(limit))
    }

    /// What a task of it counts for on its machine: nothing where it runs in an alloc, which counts
    /// for it.
    #[must_use]
    pub fn demand(&self, index: TaskIndex) -> Demand {
        if self.alloc_set.is_some() {
            return Demand::default();
        }
        let (limit, prod) = (self.limit(index), self.spec.priority.is_prod());
        Demand { limit, reservation: self.reservation_below(index, limit), prod }
    }

    /// What a task of it asks for: of a machine what it counts for there; of an alloc its limit,
    /// whatever its priority.
    #[must_use]
    pub fn asks(&self, index: TaskIndex) -> Demand {
        match self.alloc_set {
            None => self.demand(index),
            Some(_) => {
                let limit = self.limit(index);
                Demand { limit, reservation: limit, prod: false }
            }
        }
    }

    /// Whether it is not dead.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, JobState::Dead { .. })
    }

    /// How it would be dead if all its tasks were: as the worst of those that are.
    #[must_use]
    pub fn worst_death(&self) -> Death {
        let deaths = self.tasks().filter_map(|(_, task)| match &task.state {
            TaskState::Dead { death, .. } => Some(death),
            _ => None,
        });
        deaths.max().cloned().unwrap_or(Death::Finished)
    }
}

impl Task {
    /// A task that is new.
    pub(crate) fn new(at: Time) -> Self {
        Self {
            generation: Generation(1),
            failures: 0,
            last_incarnation: None,
            crashes: None,
            reserved: None,
            state: TaskState::Pending { since: at, not_before: at, cause: PendingCause::Submitted },
        }
    }
}
