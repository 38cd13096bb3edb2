//! Jobs and their tasks: queued, pending, running, dead (paper, figure 2).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use event::{Death, KillReason, PendingCause, StopReason};
use model::{
    ClaimedVolumes, CollectionId, End, FinalUsage, Generation, InstanceId, MachineId, PortName,
    Resources, StartLatency, TaskId, TaskIndex, Time, UserName, Version,
};
use spec::{Cores, JobSpec, Network};

use super::crashes::Crash;
use super::inputs::Inputs;
use super::relations::RunsAfter;
use super::reservation::Reserved;
use super::{MachineTasks, PastVersion, Update};
use crate::cow::Row;
use crate::lifecycle::{NotAStep, Stage, Transition};

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: CollectionId,
    /// Its owner.
    pub owner: UserName,
    /// Its current description, which its tasks have unless an update has not reached them: see
    /// [`Job::described`].
    pub spec: Arc<JobSpec>,
    /// The version of that description.
    pub version: Version,
    /// The last version that an update was given.
    pub last_version: Version,
    /// Its update: the open one, or the last.
    pub update: Option<Arc<Update>>,
    /// Its earlier versions that are kept, oldest first.
    pub history: Arc<Vec<PastVersion>>,
    /// When its tasks were disrupted in the last hour, oldest first; only if its budget has a
    /// maximum per hour, and at most that many.
    pub disrupted: Arc<Vec<Time>>,
    /// When it was admitted.
    pub submitted: Time,
    /// Its state.
    pub state: JobState,
    /// The jobs it runs after, in the order of its description.
    pub after: Arc<[RunsAfter]>,
    /// Those of them for whose end it waits.
    pub waits_for: Vec<CollectionId>,
    /// Those of them that are alive and for whose tasks its tasks wait, one by one.
    pub follows: Vec<CollectionId>,
    /// Its parent: the job ends when that one ends.
    pub parent: Option<CollectionId>,
    /// The alloc set in which its tasks run, if any. The job ends when that one ends.
    pub alloc_set: Option<CollectionId>,
    /// The versions of its description besides the current one that are still needed.
    pub(crate) others: Vec<(Version, Arc<JobSpec>)>,
    pub(crate) tasks: Row<Task>,
    /// See [`Job::machine_tasks`]. A pointer, because most jobs have none.
    pub(crate) machine_tasks: Option<Box<MachineTasks>>,

    // Derived from the volumes of machines.
    /// Where the volumes of its tasks are that have some; also of tasks that it has no more.
    pub(crate) claims: Arc<BTreeMap<TaskIndex, Arc<ClaimedVolumes>>>,

    // Derived from the tasks and the description.
    pub(crate) counts: Counts,
    pub(crate) first_queued: TaskIndex,
    pub(crate) ports: Arc<[PortName]>,
    pub(crate) description_bytes: u64,
}

/// The state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It waits for other jobs, and no task of it could have been placed yet, or in the batch queue.
    Queued,
    /// No task of it has been placed yet.
    Pending,
    /// A task has been placed at least once, and some task is not dead.
    Running,
    /// All its tasks are dead.
    Dead {
        /// Since when.
        at: Time,
        /// How it ended, like its worst task: killed, else failed, else finished.
        death: Death,
    },
}

/// A task, over all its incarnations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its current incarnation.
    pub generation: Generation,
    /// The version of the job's description that this incarnation has.
    pub version: Version,
    /// Number of failures so far.
    pub failures: u32,
    /// How often it was restarted after its program had exited with 0.
    pub finishes: u32,
    /// How often its program ended by itself, or could not be started, since its last good run, which
    /// decides how long it waits for the next.
    pub ends_in_row: u32,
    /// Its previous incarnation on a machine, if there was one.
    pub last_incarnation: Option<Arc<LastIncarnation>>,
    /// The machines on which it crashed recently, oldest first.
    pub crashes: Option<Arc<Vec<Crash>>>,
    /// The reservation of its current incarnation, if it differs from the limit; see
    /// [`Job::reservation`].
    pub reserved: Option<Arc<Reserved>>,
    /// Its state.
    pub state: TaskState,
}

/// What a placed task counts for on its machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Its limit.
    pub limit: Resources,
    /// Its reservation.
    pub reservation: Resources,
    /// Whether it is production or monitoring.
    pub prod: bool,
    /// Whether its CPU are whole physical cores of its own.
    pub exclusive: bool,
}

/// A task's last incarnation on a machine: how it ended, and where its logs are kept for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastIncarnation {
    /// Its generation.
    pub generation: Generation,
    /// The version of the job's description that it had.
    pub version: Version,
    /// The machine.
    pub machine: MachineId,
    /// The alloc of its alloc set in which it ran, if any. If that alloc moves, the task follows it.
    pub alloc: Option<TaskIndex>,
    /// How it ended.
    pub end: End,
    /// What it used until then.
    pub usage: FinalUsage,
}

/// The state of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It waits in the batch queue, or its job waits for other jobs, or it waits for a task of one.
    Queued {
        /// Since when.
        since: Time,
    },
    /// It waits to be placed.
    Pending {
        /// Since when.
        since: Time,
        /// It is not placed before this time.
        not_before: Time,
        /// Why it is pending.
        cause: PendingCause,
    },
    /// It has a machine.
    Running(Placement),
    /// It has ended for good.
    Dead {
        /// Since when.
        at: Time,
        /// How it ended.
        death: Death,
    },
}

/// A task on its machine. It holds its resources and ports there until the machine reports its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The machine.
    pub machine: MachineId,
    /// The alloc on that machine in which it runs, if its job runs in an alloc set. A pointer, because
    /// most tasks have none.
    pub alloc: Option<Arc<InstanceId>>,
    /// Its address, if it has a network of its own; in an alloc, the alloc's.
    pub address: Option<Ipv4Addr>,
    /// Its ports, in the order of [`Job::ports`]: the machine's, or those of its own network.
    pub ports: Arc<[u16]>,
    /// Since when.
    pub since: Time,
    /// Its phase.
    pub phase: Phase,
    /// What the health check said that gave it its health; while that is unknown, why it is, if that
    /// lasts.
    pub check: Option<Arc<str>>,
    /// Why it is being stopped, if it is: the machine is told to end it.
    pub stop: Option<Arc<StopReason>>,
    /// Where the time of its start went, as far as it is known.
    pub latency: StartLatency,
    /// How many starts of the task were lost in a row before this one, while none ran.
    pub lost_starts: u32,
    /// What it has read of secrets and of names of other jobs, if it needs any. A pointer, because most tasks need none.
    pub inputs: Option<Arc<Inputs>>,
}

/// The phase of a placed task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The machine has not reported it as running yet.
    Starting,
    /// Its program runs.
    Started {
        /// Since when.
        at: Time,
        /// Its health.
        health: Health,
        /// Since when it has that health in its current version.
        since: Time,
    },
}

/// The health of a running task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Its health check has not succeeded yet; without one, it serves and has just started.
    Unknown,
    /// Its last health check succeeded. Without one, a task that serves has run for a second, and
    /// another one runs.
    Healthy,
    /// Its health check fails.
    Unhealthy,
    /// Its health check does not fail, and its readiness check does: it goes on, and clients should not
    /// come to it.
    Unready,
}

/// Number of a job's tasks in each stage; the rest are dead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tasks that wait for other jobs, or in the batch queue.
    pub queued: u32,
    /// Tasks that wait to be placed.
    pub pending: u32,
    /// Tasks that have a machine.
    pub running: u32,
    /// Those of them that are up: see [`Task::up_since`].
    pub up: u32,
}

/// The recorded part of a job; the rest is derived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobParts {
    /// See [`Job::id`].
    pub id: CollectionId,
    /// See [`Job::owner`].
    pub owner: UserName,
    /// See [`Job::spec`].
    pub spec: Arc<JobSpec>,
    /// See [`Job::version`].
    pub version: Version,
    /// See [`Job::last_version`].
    pub last_version: Version,
    /// See [`Job::other_descriptions`].
    pub others: Vec<(Version, Arc<JobSpec>)>,
    /// See [`Job::update`].
    pub update: Option<Arc<Update>>,
    /// See [`Job::history`].
    pub history: Vec<PastVersion>,
    /// See [`Job::disrupted`].
    pub disrupted: Vec<Time>,
    /// See [`Job::submitted`].
    pub submitted: Time,
    /// See [`Job::state`].
    pub state: JobState,
    /// See [`Job::after`].
    pub after: Vec<RunsAfter>,
    /// See [`Job::waits_for`].
    pub waits_for: Vec<CollectionId>,
    /// See [`Job::follows`].
    pub follows: Vec<CollectionId>,
    /// See [`Job::parent`].
    pub parent: Option<CollectionId>,
    /// See [`Job::alloc_set`].
    pub alloc_set: Option<CollectionId>,
    /// Its tasks, in order.
    pub tasks: Vec<Task>,
    /// See [`Job::machine_tasks`].
    pub machine_tasks: Option<MachineTasks>,
}

impl JobState {
    /// Its stage in the life-cycle diagram.
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
    /// How it ended, if it is dead.
    pub(crate) fn death(&self) -> Option<&Death> {
        match self {
            Self::Dead { death, .. } => Some(death),
            _ => None,
        }
    }

    /// Its stage in the life-cycle diagram.
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

impl Counts {
    fn of(&mut self, stage: Stage) -> Option<&mut u32> {
        match stage {
            Stage::Queued => Some(&mut self.queued),
            Stage::Pending => Some(&mut self.pending),
            Stage::Running => Some(&mut self.running),
            Stage::New | Stage::Dead => None,
        }
    }

    /// Counts a task.
    pub(crate) fn count(&mut self, task: &Task) {
        if let Some(count) = self.of(task.state.stage()) {
            *count = count.saturating_add(1);
        }
        self.up = self.up.saturating_add(u32::from(task.up_since().is_some()));
    }

    fn discount(&mut self, task: &Task) {
        if let Some(count) = self.of(task.state.stage()) {
            *count = count.saturating_sub(1);
        }
        self.up = self.up.saturating_sub(u32::from(task.up_since().is_some()));
    }

    /// Number of tasks that are not dead.
    #[must_use]
    pub fn alive(self) -> u32 {
        self.queued.saturating_add(self.pending).saturating_add(self.running)
    }
}

#[cfg(test)]
impl Placement {
    /// A task on machine 1 with these ports.
    pub(crate) fn testing(ports: &[u16], address: Option<Ipv4Addr>) -> Self {
        Self {
            machine: MachineId(1),
            alloc: None,
            address,
            ports: ports.into(),
            since: Time::ZERO,
            phase: Phase::Starting,
            check: None,
            stop: None,
            latency: StartLatency::UNKNOWN,
            lost_starts: 0,
            inputs: None,
        }
    }
}

impl Placement {
    /// The alloc in which it runs, if any.
    #[must_use]
    pub fn alloc(&self) -> Option<InstanceId> {
        self.alloc.as_deref().copied()
    }

    /// Those of its ports that are the machine's: none in a network of its own.
    #[must_use]
    pub fn machine_ports(&self) -> &[u16] {
        if self.address.is_none() { &self.ports } else { &[] }
    }

    /// Its ports in the alloc's own network, if it runs in one.
    #[must_use]
    pub fn alloc_ports(&self) -> &[u16] {
        if self.address.is_some() && self.alloc.is_some() { &self.ports } else { &[] }
    }

    /// The address of the machine's range that it takes: tasks in an alloc share the alloc's.
    #[must_use]
    pub fn machine_address(&self) -> Option<Ipv4Addr> {
        self.address.filter(|_| self.alloc.is_none())
    }

    /// Why it is being killed, if it is.
    #[must_use]
    pub fn killed(&self) -> Option<&KillReason> {
        match self.stop.as_deref() {
            Some(StopReason::Kill(why)) => Some(why),
            _ => None,
        }
    }
}

impl Job {
    /// A job from its recorded part; the rest is computed.
    #[must_use]
    pub fn from_parts(parts: JobParts) -> Self {
        let JobParts { id, owner, spec, submitted, state, .. } = parts;
        let JobParts { after, waits_for, follows, parent, alloc_set, tasks, machine_tasks, .. } =
            parts;
        let JobParts { version, last_version, others, update, history, disrupted, .. } = parts;
        let mut counts = Counts::default();
        tasks.iter().for_each(|task| counts.count(task));
        let ports = spec.task.all_ports().into_iter().collect();
        let mut job = Self {
            id,
            owner,
            spec,
            version,
            last_version,
            update,
            history: Arc::new(history),
            disrupted: Arc::new(disrupted),
            others,
            submitted,
            state,
            after: after.into(),
            waits_for,
            follows,
            parent,
            alloc_set,
            tasks: tasks.into_iter().collect(),
            machine_tasks: machine_tasks.map(Box::new),
            claims: Arc::default(),
            counts,
            first_queued: TaskIndex(0),
            ports,
            description_bytes: 0,
        };
        job.find_first_queued(TaskIndex(0));
        job.description_bytes = job.measured();
        job
    }

    /// Applies a transition to the job as a whole, with its new state.
    ///
    /// # Errors
    /// If the diagram does not have that transition; nothing has changed then.
    pub(crate) fn advance(
        &mut self,
        transition: Transition,
        state: JobState,
    ) -> Result<(), NotAStep> {
        let to = self.state.stage().step(transition)?;
        debug_assert_eq!(to, state.stage(), "{transition} leads to another stage");
        self.state = state;
        Ok(())
    }

    /// Applies a transition to a task, with its new state; returns the task.
    ///
    /// # Errors
    /// If the diagram does not have that transition; nothing has changed then.
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
        debug_assert_eq!(to, state.stage(), "{transition} leads to another stage");
        self.counts.discount(task);
        task.state = state;
        if to == Stage::Dead {
            // The next incarnation begins with its limit as its reservation.
            task.reserved = None;
        }
        self.counts.count(task);
        if to == Stage::Queued {
            self.first_queued = self.first_queued.min(index);
        } else if from == Stage::Queued && self.first_queued == index {
            self.find_first_queued(index);
        }
        self.tasks.get_mut(place).ok_or(no_task)
    }

    /// Finds the first task that is queued, from an index on.
    fn find_first_queued(&mut self, from: TaskIndex) {
        let rows = self.rows();
        let queued = |index: &u32| {
            let task = self.task(TaskIndex(*index));
            task.is_some_and(|task| matches!(task.state, TaskState::Queued { .. }))
        };
        // Beyond them all if there is none: also if tasks are added.
        let found = (self.counts.queued > 0).then(|| (from.0..rows).find(queued)).flatten();
        self.first_queued = TaskIndex(found.unwrap_or(u32::MAX));
    }

    /// Changes the placement of a task that has one.
    pub(crate) fn change_placement(
        &mut self,
        index: TaskIndex,
        change: impl FnOnce(&mut Placement),
    ) {
        let place = usize::try_from(index.0).unwrap_or(usize::MAX);
        let Some(task) = self.tasks.get_mut(place) else { return };
        self.counts.discount(task);
        if let TaskState::Running(placement) = &mut task.state {
            change(placement);
        }
        self.counts.count(task);
    }

    /// Adds a pending task of the current version.
    pub(crate) fn add_task(&mut self, at: Time) {
        let task = Task::new(at, self.version);
        self.counts.count(&task);
        self.tasks.push(task);
    }

    /// One of its tasks.
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

    /// The current incarnation of one of its tasks.
    #[must_use]
    pub fn instance(&self, index: TaskIndex) -> Option<InstanceId> {
        let id = TaskId { collection: self.id, index };
        self.task(index).map(|task| id.generation(task.generation))
    }

    /// Number of its tasks in each stage.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Number of pending tasks.
    #[must_use]
    pub fn pending(&self) -> u32 {
        self.counts.pending
    }

    /// Number of tasks that have a machine.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.counts.running
    }

    /// The names of a task's ports, in the order in which their numbers are stored.
    #[must_use]
    pub fn ports(&self, index: TaskIndex) -> Arc<[PortName]> {
        let spec = self.described(index);
        let own = spec.overrides.get(&index).is_some_and(spec::TaskOverride::touches_ports);
        match own || !Arc::ptr_eq(spec, &self.spec) {
            true => spec.ports(index).into_iter().collect(),
            false => Arc::clone(&self.ports),
        }
    }

    /// Number of ports that its machine gives a task: none in a network of its own, and none with a
    /// static number.
    #[must_use]
    pub fn port_count(&self, index: TaskIndex) -> usize {
        let spec = self.described(index);
        if spec.task.network.is_own() {
            return 0;
        }
        let fixed = spec.task.static_ports.len();
        let own = spec.overrides.get(&index).is_some_and(spec::TaskOverride::touches_ports);
        match own || !Arc::ptr_eq(spec, &self.spec) {
            true => spec.ports(index).len().saturating_sub(fixed),
            false => self.ports.len().saturating_sub(fixed),
        }
    }

    /// The ports with static numbers that a task takes of its machine's address.
    #[must_use]
    pub fn static_ports(&self, index: TaskIndex) -> &BTreeMap<PortName, u16> {
        &self.described(index).task.static_ports
    }

    /// All ports of a task in the host's network, in the order of [`Job::ports`]: those that its machine
    /// gives it, and its static ones among them. Without static ports, the former alone.
    #[must_use]
    pub fn with_static_ports(&self, index: TaskIndex, given: &[u16]) -> Vec<u16> {
        let fixed = self.static_ports(index);
        if fixed.is_empty() {
            return given.to_vec();
        }
        let mut given = given.iter().copied();
        let number = |name: &PortName| fixed.get(name).copied().or_else(|| given.next());
        self.ports(index).iter().filter_map(number).collect()
    }

    /// The network of a task.
    #[must_use]
    pub fn network(&self, index: TaskIndex) -> &Network {
        &self.described(index).task.network
    }

    /// The limit of a task.
    #[must_use]
    pub fn limit(&self, index: TaskIndex) -> Resources {
        self.described(index).limit(index)
    }

    /// What a task counts for on its machine: nothing if it runs in an alloc, which counts instead.
    #[must_use]
    pub fn demand(&self, index: TaskIndex) -> Demand {
        self.demand_as(self.described(index), index)
    }

    /// The same if the task had this description.
    #[must_use]
    pub(crate) fn demand_as(&self, spec: &JobSpec, index: TaskIndex) -> Demand {
        if self.alloc_set.is_some() {
            return Demand::default();
        }
        let (limit, prod) = (spec.limit(index), spec.priority.is_prod());
        let exclusive = spec.task.cores == Cores::Exclusive;
        Demand { limit, reservation: self.reservation_as(spec, index), prod, exclusive }
    }

    /// What a task requests: of a machine its demand; of an alloc its limit, whatever its priority.
    #[must_use]
    pub fn asks(&self, index: TaskIndex) -> Demand {
        match self.alloc_set {
            None => self.demand(index),
            Some(_) => {
                let limit = self.limit(index);
                Demand { limit, reservation: limit, prod: false, exclusive: false }
            }
        }
    }

    /// Whether it is alive.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, JobState::Dead { .. })
    }

    /// How it would have ended if all its tasks were dead: like the worst of the dead ones. Tasks that
    /// were removed do not count. Not for a job without tasks, which ends only by being killed.
    #[must_use]
    pub fn worst_death(&self) -> Death {
        let size = usize::try_from(self.spec.tasks).unwrap_or(usize::MAX);
        let deaths = self.tasks().take(size).filter_map(|(_, task)| match &task.state {
            // The machine ended that task, and not the job.
            TaskState::Dead { death: Death::Killed(KillReason::MachineLeft(_)), .. } => None,
            // The task that failed is one of the others.
            TaskState::Dead { death: Death::Killed(KillReason::GangFailed { .. }), .. } => None,
            TaskState::Dead { death, .. } => Some(death),
            _ => None,
        });
        deaths.max().cloned().unwrap_or(Death::Finished)
    }
}

impl Task {
    /// A new task.
    pub(crate) fn new(at: Time, version: Version) -> Self {
        Self {
            generation: Generation(1),
            version,
            failures: 0,
            finishes: 0,
            ends_in_row: 0,
            last_incarnation: None,
            crashes: None,
            reserved: None,
            state: TaskState::Pending { since: at, not_before: at, cause: PendingCause::Submitted },
        }
    }
}
