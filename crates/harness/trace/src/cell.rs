//! A snapshot of a cell: its machines, jobs and tasks. Benchmarks and the simulator use it,
//! whichever trace or generator it comes from.

use std::collections::BTreeMap;

use model::{
    Appclass, Bytes, CollectionId, JobName, MachineId, MachineName, MilliCores, Priority,
    Resources, SchedulingClass, TaskIndex, UserName,
};
use spec::{Constraint, JobSpec, RestartPolicy, TaskOverride, TaskSpec, limits};

/// A cell at a point in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellSnapshot {
    /// The machines, ordered by id.
    pub machines: Vec<Machine>,
    /// The jobs that are not dead, in the order of the trace.
    pub jobs: Vec<Job>,
    /// What the source contains and the snapshot omits.
    pub dropped: Dropped,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The machine's id in the trace.
    pub id: MachineId,
    /// A name derived from the id.
    pub name: MachineName,
    /// The resources available to tasks.
    pub capacity: Resources,
    /// The attributes: `platform`, and if the source has them `rack`, `switch`, `power`.
    pub attributes: BTreeMap<String, String>,
}

/// A job, with its tasks that are not dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The job's id in the trace.
    pub id: CollectionId,
    /// The owner.
    pub owner: UserName,
    /// A name derived from the id.
    pub name: JobName,
    /// The priority.
    pub priority: Priority,
    /// How latency-sensitive the job is.
    pub class: SchedulingClass,
    /// Whether its tasks must all run on different machines.
    pub different_machines: bool,
    /// The constraints of its tasks.
    pub constraints: Vec<Constraint>,
    /// The tasks, ordered by index. Some jobs of the trace have tasks with lower indexes that have
    /// ended, so a task's position here is not its index there; [`Job::spec`] numbers tasks by
    /// position.
    pub tasks: Vec<Task>,
}

/// A task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The task's index in the trace.
    pub index: TaskIndex,
    /// The request, which is the limit.
    pub request: Resources,
    /// The machine it runs on, as a position in [`CellSnapshot::machines`]; `None` while pending.
    pub machine: Option<usize>,
}

/// What a source contains and its [`CellSnapshot`] omits or changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Running tasks that are omitted because their machines are unknown.
    pub tasks_on_unknown_machines: u64,
    /// The number of unknown machines.
    pub unknown_machines: u64,
    /// Tasks without a request: they are included, with a request of zero.
    pub tasks_without_request: u64,
    /// Jobs that are omitted with all of their tasks.
    pub jobs: u64,
}

/// A fraction in thousandths: 600 is 60 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PerMille(pub u32);

impl PerMille {
    /// The whole.
    pub const ALL: Self = Self(1_000);

    /// This fraction of resources, rounded down.
    #[must_use]
    pub fn of(self, whole: Resources) -> Resources {
        let part = |amount: u64| {
            let part = u128::from(amount) * u128::from(self.0) / u128::from(Self::ALL.0);
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        Resources {
            cpu: MilliCores(part(whole.cpu.0)),
            ram: Bytes(part(whole.ram.0)),
            disk: Bytes(part(whole.disk.0)),
            disk_rate: Bytes(part(whole.disk_rate.0)),
        }
    }
}

impl CellSnapshot {
    /// The number of running tasks.
    #[must_use]
    pub fn running(&self) -> usize {
        self.tasks().filter(|task| task.machine.is_some()).count()
    }

    /// The number of pending tasks.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.tasks().filter(|task| task.machine.is_none()).count()
    }

    /// All tasks of all jobs.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.jobs.iter().flat_map(|job| &job.tasks)
    }

    /// The total capacity of all machines.
    #[must_use]
    pub fn capacity(&self) -> Resources {
        let capacities = self.machines.iter().map(|machine| machine.capacity);
        capacities.fold(Resources::default(), Resources::plus)
    }

    /// The description of each job, in the order of [`CellSnapshot::jobs`], with limits scaled to
    /// this fraction of the request.
    pub fn specs(&self, share_of_request: PerMille) -> impl Iterator<Item = JobSpec> {
        self.jobs.iter().map(move |job| job.spec(share_of_request))
    }
}

impl Job {
    /// The job's description, with limits scaled to this fraction of the request, but at least the
    /// minimum that a description may have.
    ///
    /// The most frequent request becomes the job's, and other tasks have overrides. Task *n* is the
    /// *n*th of [`Job::tasks`], whatever its index in the trace. Failed tasks are always restarted,
    /// as nearly every one in the trace is. [`Job::different_machines`] is not part of the
    /// description: the scheduling side reads it from here.
    #[must_use]
    pub fn spec(&self, share_of_request: PerMille) -> JobSpec {
        let limit = |task: &Task| limit(share_of_request.of(task.request));
        let usual = self.usual_request().map(|task| limit(&task)).unwrap_or_default();
        let indexes = (0..limits::TASKS_MAX).map(TaskIndex);
        let overrides = indexes.zip(&self.tasks).filter_map(|(index, task)| {
            let limit = limit(task);
            let change = TaskOverride { limit: Some(limit), ..TaskOverride::default() };
            (limit != usual).then_some((index, change))
        });
        let tasks = u32::try_from(self.tasks.len()).unwrap_or(u32::MAX).min(limits::TASKS_MAX);
        let task = TaskSpec {
            limit: usual,
            constraints: self.constraints.clone(),
            ..TaskSpec::of(vec!["task-of-the-trace".to_owned()])
        };
        let latency_sensitive = self.class >= SchedulingClass::usual(Appclass::LatencySensitive);
        JobSpec {
            appclass: match latency_sensitive {
                true => Appclass::LatencySensitive,
                false => Appclass::Batch,
            },
            scheduling_class: self.class,
            overrides: overrides.collect(),
            restart: RestartPolicy { failures_max: None, ..RestartPolicy::default() },
            ..JobSpec::of(self.name.clone(), self.priority, tasks, task)
        }
    }

    /// The first task with the most frequent request.
    fn usual_request(&self) -> Option<Task> {
        let first = self.tasks.first()?;
        if self.tasks.iter().all(|task| task.request == first.request) {
            return Some(*first);
        }
        let key = |request: Resources| (request.cpu, request.ram, request.disk, request.disk_rate);
        let mut counts = BTreeMap::new();
        for (place, task) in self.tasks.iter().enumerate() {
            counts.entry(key(task.request)).or_insert((0_usize, place)).0 += 1;
        }
        let most = counts.values().max_by_key(|(count, place)| (*count, usize::MAX - place));
        most.and_then(|(_, place)| self.tasks.get(*place)).copied()
    }
}

/// The limit nearest to a request that is valid in a description.
fn limit(request: Resources) -> Resources {
    Resources {
        cpu: request.cpu.max(MilliCores(1)),
        ram: request.ram.max(Bytes(limits::RAM_BYTES_MIN)),
        ..request
    }
}
