//! A cell at a moment: its machines, and who wants to run or runs on them. Benchmarks and the
//! simulator take it, whichever trace or generator it comes from.

use std::collections::BTreeMap;

use model::{
    Appclass, Bytes, CollectionId, JobName, MachineId, MachineName, MilliCores, Priority,
    Resources, SchedulingClass, TaskIndex, UserName,
};
use spec::{Constraint, JobSpec, RestartPolicy, TaskOverride, TaskSpec, limits};

/// A cell at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellSnapshot {
    /// Its machines, in the order of their ids.
    pub machines: Vec<Machine>,
    /// The jobs that are alive, in the order in which the trace has them.
    pub jobs: Vec<Job>,
    /// What the source has and this has not.
    pub dropped: Dropped,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its id in the trace.
    pub id: MachineId,
    /// A name made of it.
    pub name: MachineName,
    /// What tasks can have of it.
    pub capacity: Resources,
    /// What is known of it: `platform`, and where the source has them `rack`, `switch`, `power`.
    pub attributes: BTreeMap<String, String>,
}

/// A job, with those of its tasks that are alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its id in the trace.
    pub id: CollectionId,
    /// Who owns it.
    pub owner: UserName,
    /// A name made of its id.
    pub name: JobName,
    /// What it may take from others, and who from it.
    pub priority: Priority,
    /// How latency-sensitive it is.
    pub class: SchedulingClass,
    /// Whether no two of its tasks may be on one machine.
    pub different_machines: bool,
    /// What its tasks want of their machines.
    pub constraints: Vec<Constraint>,
    /// Its tasks, in the order of their indexes. The trace has jobs whose lower tasks have ended, so
    /// that a task's place here is not its index there; [`Job::spec`] numbers them by their place.
    pub tasks: Vec<Task>,
}

/// A task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its index in the trace.
    pub index: TaskIndex,
    /// What it asks for: its limit.
    pub request: Resources,
    /// Where it runs, as a place in [`CellSnapshot::machines`]; nowhere while it is pending.
    pub machine: Option<usize>,
}

/// What a source has and its [`CellSnapshot`] has not, or has otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Running tasks that were left out, because nothing is known of their machines.
    pub tasks_on_unknown_machines: u64,
    /// The machines of which nothing is known.
    pub unknown_machines: u64,
    /// Tasks without a request: they are here, and ask for nothing.
    pub tasks_without_request: u64,
    /// Jobs that were left out with all of their tasks.
    pub jobs: u64,
}

/// Thousandths of something: 600 is 60 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PerMille(pub u32);

impl PerMille {
    /// All of it.
    pub const ALL: Self = Self(1_000);

    /// So much of resources, rounded down.
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
    /// How many tasks run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.tasks().filter(|task| task.machine.is_some()).count()
    }

    /// How many tasks wait for a machine.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.tasks().filter(|task| task.machine.is_none()).count()
    }

    /// All tasks of all jobs.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.jobs.iter().flat_map(|job| &job.tasks)
    }

    /// What all machines have together.
    #[must_use]
    pub fn capacity(&self) -> Resources {
        let capacities = self.machines.iter().map(|machine| machine.capacity);
        capacities.fold(Resources::default(), Resources::plus)
    }

    /// The description of each job, in the order of [`CellSnapshot::jobs`], with limits of so much
    /// of what was asked for.
    pub fn specs(&self, share_of_request: PerMille) -> impl Iterator<Item = JobSpec> {
        self.jobs.iter().map(move |job| job.spec(share_of_request))
    }
}

impl Job {
    /// Its description, with limits of so much of what was asked for, and never less than a
    /// description may ask for.
    ///
    /// The request that most tasks have is the job's, and the others are overrides. Task *n* is the
    /// *n*th of [`Job::tasks`], whatever its index in the trace. A task that fails is started again,
    /// however often it has failed: in the trace nearly every one is. [`Job::different_machines`] is
    /// not in the description: whoever schedules takes it from here.
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

    /// A task with the request that most have; of several, the one that comes first.
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

/// The limit that comes nearest to a request, in a valid description.
fn limit(request: Resources) -> Resources {
    Resources {
        cpu: request.cpu.max(MilliCores(1)),
        ram: request.ram.max(Bytes(limits::RAM_BYTES_MIN)),
        ..request
    }
}
