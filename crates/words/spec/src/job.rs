//! The description of a job and of its tasks.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use model::{
    Appclass, Band, Capability, JobName, KernelFeature, PortName, Priority, Resources,
    SchedulingClass, Span, TaskIndex,
};

use crate::{Constraint, JobReference, Kind};

/// What a user asks for: a number of tasks that run the same program, or of allocs in which tasks of
/// jobs run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSpec {
    /// Whether it is a job or an alloc set.
    pub kind: Kind,
    /// The job's name, unique among its owner's living jobs.
    pub name: JobName,
    /// What it may take from others, and who from it.
    pub priority: Priority,
    /// How its tasks are treated on their machines.
    pub appclass: Appclass,
    /// How latency-sensitive it is.
    pub scheduling_class: SchedulingClass,
    /// Free words to find it by.
    pub labels: BTreeMap<String, String>,
    /// How many tasks: at least 1.
    pub tasks: u32,
    /// What each task is, where no override says otherwise.
    pub task: TaskSpec,
    /// What is different in single tasks.
    pub overrides: BTreeMap<TaskIndex, TaskOverride>,
    /// How many of its tasks are to be on one machine at most.
    pub max_per_machine: Option<Maximum>,
    /// How many of its tasks are to be on the machines of one network switch at most.
    pub max_per_switch: Option<Maximum>,
    /// What happens when a task fails.
    pub restart: RestartPolicy,
    /// Whether its tasks count for what they are estimated to need. Where not, they count for their
    /// limits, which takes the capability no-estimation.
    pub estimation: bool,
    /// The jobs that have to finish before this one starts (trace v3, "run after"). Where one ends
    /// otherwise, this one is killed.
    pub after: BTreeSet<JobReference>,
    /// The job with which this one ends, where it has one (trace v3, "parent").
    pub parent: Option<JobReference>,
}

/// How many tasks of a job are to be at one place at most (trace v3, `max_per_machine`,
/// `max_per_switch`; the `different_machines` of its predecessor is a hard 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Maximum {
    /// How many: at least 1.
    pub tasks: u32,
    /// Hard: where there are as many, no further one fits. Otherwise a preference.
    pub hard: bool,
}

/// What a task is: a program with its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// The program and its arguments; may hold references such as `${port.http}`.
    pub cmd: Vec<String>,
    /// Its environment, beside what the Borglet adds; values may hold references.
    pub env: BTreeMap<String, String>,
    /// The most it may use of each resource: its limit, in the paper's word.
    pub limit: Resources,
    /// How many processes and threads it may have at once.
    pub processes: u32,
    /// The TCP ports it wants, by name. References to a port ask for it too: see
    /// [`TaskSpec::all_ports`].
    pub ports: BTreeSet<PortName>,
    /// How to tell whether it is healthy; without one it is, as long as it runs.
    pub health_check: Option<HealthCheck>,
    /// How long it has between SIGTERM and SIGKILL.
    pub notice: Span,
    /// What it wants of its machine.
    pub constraints: Vec<Constraint>,
    /// What it keeps of the rights that the kernel can give to a program. That takes the capability
    /// kernel-features.
    pub kernel_features: BTreeSet<KernelFeature>,
    /// Whether it can ask the cell's master: it finds a certificate of its own then. From level 3 on.
    pub api: bool,
}

/// An HTTP health check (paper, section 2.6): a task that does not answer promptly, or answers
/// with an error, is restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The port to ask.
    pub port: PortName,
    /// The path to ask for; begins with `/`.
    pub path: String,
    /// The time from one check to the next.
    pub interval: Span,
    /// How long an answer may take.
    pub timeout: Span,
    /// For how long after its start a task may be unhealthy without being restarted. It counts as
    /// healthy from its first good answer on.
    pub start_grace: Span,
    /// How many checks in a row must fail before the task is restarted.
    pub failures_max: u32,
}

/// What happens when a task fails. A task that ends with exit code 0 has finished, whatever this
/// says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartPolicy {
    /// How often a task may fail before it is dead for good; without a number, for ever.
    pub failures_max: Option<u32>,
    /// The wait before the first restart; it doubles with each further failure. A cell waits for a
    /// second at least, so that 0 means that.
    pub delay: Span,
    /// The longest wait.
    pub delay_max: Span,
}

/// What is different in one task: each field given replaces the job's; environments and labels are
/// joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskOverride {
    /// Another program or arguments.
    pub cmd: Option<Vec<String>>,
    /// Variables that are added or replaced.
    pub env: BTreeMap<String, String>,
    /// Another limit.
    pub limit: Option<Resources>,
    /// Another number of processes.
    pub processes: Option<u32>,
    /// Other ports.
    pub ports: Option<BTreeSet<PortName>>,
    /// Another health check.
    pub health_check: Option<HealthCheck>,
    /// Another notice.
    pub notice: Option<Span>,
    /// Other constraints.
    pub constraints: Option<Vec<Constraint>>,
    /// Labels that are added or replaced.
    pub labels: BTreeMap<String, String>,
}

impl JobSpec {
    /// A job of so many tasks with nothing else said: batch, no labels, no overrides, the usual
    /// restarts.
    #[must_use]
    pub fn of(name: JobName, priority: Priority, tasks: u32, task: TaskSpec) -> Self {
        Self {
            kind: Kind::default(),
            name,
            priority,
            appclass: Appclass::Batch,
            scheduling_class: SchedulingClass::usual(Appclass::Batch),
            labels: BTreeMap::new(),
            tasks,
            task,
            overrides: BTreeMap::new(),
            max_per_machine: None,
            max_per_switch: None,
            restart: RestartPolicy::default(),
            estimation: true,
            after: BTreeSet::new(),
            parent: None,
        }
    }

    /// What the task at an index is, its overrides applied.
    #[must_use]
    pub fn task(&self, index: TaskIndex) -> Cow<'_, TaskSpec> {
        let Some(change) = self.overrides.get(&index) else { return Cow::Borrowed(&self.task) };
        let mut task = self.task.clone();
        if let Some(cmd) = &change.cmd {
            task.cmd.clone_from(cmd);
        }
        task.env.extend(change.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        task.limit = change.limit.unwrap_or(task.limit);
        task.processes = change.processes.unwrap_or(task.processes);
        if let Some(ports) = &change.ports {
            task.ports.clone_from(ports);
        }
        if let Some(check) = &change.health_check {
            task.health_check = Some(check.clone());
        }
        task.notice = change.notice.unwrap_or(task.notice);
        if let Some(constraints) = &change.constraints {
            task.constraints.clone_from(constraints);
        }
        Cow::Owned(task)
    }

    /// What the task at an index wants of its machine.
    #[must_use]
    pub fn constraints(&self, index: TaskIndex) -> &[Constraint] {
        let change = self.overrides.get(&index).and_then(|change| change.constraints.as_ref());
        change.unwrap_or(&self.task.constraints)
    }

    /// The health check of the task at an index.
    #[must_use]
    pub fn health_check(&self, index: TaskIndex) -> Option<&HealthCheck> {
        let change = self.overrides.get(&index).and_then(|change| change.health_check.as_ref());
        change.or(self.task.health_check.as_ref())
    }

    /// A label of the task at an index.
    #[must_use]
    pub fn label(&self, index: TaskIndex, key: &str) -> Option<&str> {
        let change = self.overrides.get(&index).and_then(|change| change.labels.get(key));
        change.or_else(|| self.labels.get(key)).map(String::as_str)
    }

    /// The limit of the task at an index.
    #[inline]
    #[must_use]
    pub fn limit(&self, index: TaskIndex) -> Resources {
        self.overrides.get(&index).and_then(|change| change.limit).unwrap_or(self.task.limit)
    }

    /// Whether it says how many of its tasks may be at one place.
    #[must_use]
    pub fn has_maxima(&self) -> bool {
        self.max_per_machine.is_some() || self.max_per_switch.is_some()
    }

    /// The capabilities that it takes to submit it, each with the field that wants it.
    pub fn capabilities(&self) -> impl Iterator<Item = (Capability, &'static str)> {
        let unestimated =
            (!self.estimation).then_some((Capability::NoEstimation, "estimation: false"));
        let kernel = !self.task.kernel_features.is_empty();
        let kernel = kernel.then_some((Capability::KernelFeatures, "kernelFeatures"));
        unestimated.into_iter().chain(kernel)
    }

    /// The band in which its owner's quota is charged for it. Nothing is charged in the free band, nor
    /// for a job that runs in an alloc set, which is charged as a whole.
    #[must_use]
    #[inline]
    pub fn charged_band(&self) -> Option<Band> {
        let band = self.priority.band();
        (band.is_charged() && self.kind.alloc_set().is_none()).then_some(band)
    }

    /// The limits of all its tasks together.
    #[must_use]
    pub fn total(&self) -> Resources {
        let overridden = self.overrides.keys().filter(|index| index.0 < self.tasks);
        let usual = u64::from(self.tasks).saturating_sub(overridden.clone().count() as u64);
        overridden.fold(self.task.limit.times(usual), |sum, index| sum.plus(self.limit(*index)))
    }
}

impl RestartPolicy {
    /// The wait before a restart, after so many failures.
    #[must_use]
    pub fn delay_after(&self, failures: u32) -> Span {
        let doublings = failures.saturating_sub(1).min(40);
        self.delay.saturating_mul(1 << doublings).min(self.delay_max)
    }

    /// The same with no wait shorter than `floor`.
    #[must_use]
    pub fn at_least(self, floor: Span) -> Self {
        let (delay, delay_max) = (self.delay.max(floor), self.delay_max.max(floor));
        Self { delay, delay_max, ..self }
    }

    /// Whether a task that has failed so often is tried again.
    #[must_use]
    pub fn allows(&self, failures: u32) -> bool {
        self.failures_max.is_none_or(|most| failures <= most)
    }
}

impl Default for RestartPolicy {
    /// Ten failures, a second's wait that doubles up to five minutes.
    fn default() -> Self {
        Self { failures_max: Some(10), delay: Span::from_secs(1), delay_max: Span::from_secs(300) }
    }
}

impl HealthCheck {
    /// `GET /` on a port every second; three failures in a row, or none good within 30 s of its
    /// start, restart the task.
    #[must_use]
    pub fn on(port: PortName) -> Self {
        Self {
            port,
            path: "/".to_owned(),
            interval: Span::from_secs(1),
            timeout: Span::from_secs(5),
            start_grace: Span::from_secs(30),
            failures_max: 3,
        }
    }
}

impl TaskSpec {
    /// A program with the usual limits: 0.1 cores, 64 MiB, 1,024 processes, 10 s of notice.
    #[must_use]
    pub fn of(cmd: Vec<String>) -> Self {
        Self {
            cmd,
            env: BTreeMap::new(),
            limit: Resources {
                cpu: model::MilliCores(100),
                ram: model::Bytes(64 << 20),
                ..Resources::default()
            },
            processes: 1_024,
            ports: BTreeSet::new(),
            health_check: None,
            notice: Span::from_secs(10),
            constraints: Vec::new(),
            kernel_features: BTreeSet::new(),
            api: false,
        }
    }
}
