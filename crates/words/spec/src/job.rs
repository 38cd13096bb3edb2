//! Descriptions of jobs and of their tasks.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use model::{
    Appclass, Band, Bytes, Capability, JobName, KernelFeature, PackageId, PackageReference,
    PortName, Priority, Resources, SchedulerName, SchedulingClass, SecretName, Span, TaskIndex,
    UserName,
};

use crate::{
    Autoscale, BatchPolicy, Constraint, Cores, CpuRam, DisruptionBudget, HealthCheck, JobReference,
    Kind, LogPolicy, MetricsPage, Network, OnChange, OutputPolicy, Predecessor, RestartPolicy,
    Saver, TaskFile, UpdatePolicy, VolumeRequest,
};

/// A job description: a number of tasks that run the same program, or of allocs in which tasks of
/// jobs run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSpec {
    /// Whether this describes a job or an alloc set.
    pub kind: Kind,
    /// The name, unique among its owner's jobs that are not dead.
    pub name: JobName,
    /// The priority, which decides whom it may preempt and who may preempt it.
    pub priority: Priority,
    /// How the tasks are treated on their machines.
    pub appclass: Appclass,
    /// How latency-sensitive it is.
    pub scheduling_class: SchedulingClass,
    /// Labels by which users find the job.
    pub labels: BTreeMap<String, String>,
    /// The number of tasks: at least 1, unless there is one for each machine. Then the cell keeps it in
    /// step with its machines.
    pub tasks: u32,
    /// Who decides on the number of tasks.
    pub sizing: Sizing,
    /// The description of each task, unless overridden.
    pub task: TaskSpec,
    /// Differences of individual tasks.
    pub overrides: BTreeMap<TaskIndex, TaskOverride>,
    /// The maximum number of its tasks on one machine.
    pub max_per_machine: Option<Maximum>,
    /// The maximum number of its tasks on the machines of one network switch.
    pub max_per_switch: Option<Maximum>,
    /// What follows when a task's program ends by itself.
    pub restart: RestartPolicy,
    /// The maximum notice of the tasks that it preempts; without one they have their own.
    pub preemption_notice_max: Option<Span>,
    /// Whether its tasks' reservations are estimated from usage. Otherwise they stay at the limits,
    /// which requires the capability no-estimation.
    pub estimation: bool,
    /// Whether an autoscaler may change CPU and RAM of the tasks' limit.
    pub autoscale: Autoscale,
    /// CPU and RAM of the limit as the user has described it, if an autoscaler has changed it: then
    /// [`TaskSpec::limit`] has the autoscaler's. Only the cell sets this.
    pub own_limit: Option<CpuRam>,
    /// How many tasks may be down for updates and drains.
    pub disruptions: DisruptionBudget,
    /// How updates of the job proceed.
    pub update: UpdatePolicy,
    /// Jobs that must end before this one starts, each as it says (trace v3, "run after"). If one of them ends in
    /// any other way, this job is killed.
    pub after: BTreeSet<Predecessor>,
    /// The parent job, if any: when it ends, this job ends (trace v3, "parent").
    pub parent: Option<JobReference>,
    /// How its tasks wait and run together.
    pub batch: BatchPolicy,
    /// The scheduler that places its tasks; `None`: the one for jobs of its appclass and band.
    pub scheduler: Option<SchedulerName>,
    /// Where each task serves its own metrics, if it does.
    pub metrics: Option<MetricsPage>,
}

/// Who decides how many tasks a job has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sizing {
    /// Its description.
    #[default]
    Number,
    /// The machines of its cell: one task on each that matches the hard constraints and has a variant of
    /// each package.
    EveryMachine,
}

impl Sizing {
    /// The word in place of a number of tasks.
    pub const EVERY_MACHINE: &'static str = "every-machine";
}

/// The maximum number of a job's tasks in one failure domain (trace v3, `max_per_machine`,
/// `max_per_switch`; its predecessor's `different_machines` is a hard 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Maximum {
    /// The number of tasks, at least 1.
    pub tasks: u32,
    /// Hard: a domain that has reached the maximum is infeasible. Otherwise the maximum is a
    /// preference.
    pub hard: bool,
}

/// A task description: a program with its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// The program and its arguments; may contain references such as `${port.http}`. If it is empty, the image
    /// says what runs.
    pub cmd: Vec<String>,
    /// The image that is the root of its files: a package; without one it sees files of its machine.
    pub image: Option<PackageReference>,
    /// The packages that it finds below `/packages`, each by its name. No two have the same name.
    pub packages: BTreeSet<PackageReference>,
    /// The environment, in addition to the Borglet's variables; values may contain references.
    pub env: BTreeMap<String, String>,
    /// Files that it finds at paths of its own; texts may contain references.
    pub files: BTreeMap<String, TaskFile>,
    /// Secrets of the job's owner that it finds in files, by their paths.
    pub secrets: BTreeMap<String, SecretName>,
    /// Secrets of the job's owner that it finds in variables, by their names.
    pub secret_env: BTreeMap<String, SecretName>,
    /// What follows when one of its secrets, or the address of a job that it refers to, changes.
    pub on_change: OnChange,
    /// The maximum usage of each resource: the limit, in the paper's term.
    pub limit: Resources,
    /// Whether it shares the cores of its machine.
    pub cores: Cores,
    /// Whether it may use more CPU than its limit while nobody else wants it (paper, section 6.2,
    /// "slack").
    pub cpu_slack: bool,
    /// The maximum number of processes and threads.
    pub processes: u32,
    /// The named TCP ports it requests. References to a port request it too: see
    /// [`TaskSpec::all_ports`]. Empty with a network of its own, whose ports have numbers.
    pub ports: BTreeSet<PortName>,
    /// Its TCP ports with numbers that it chooses itself, on the address of its machine. Requires the
    /// capability static-ports. Empty with a network of its own.
    pub static_ports: BTreeMap<PortName, u16>,
    /// The network in which it runs.
    pub network: Network,
    /// The health check; a task without one is healthy while it runs.
    pub health_check: Option<HealthCheck>,
    /// Whether clients should come to it: while this check fails, the task keeps running, and is in no
    /// names. A task without one is ready while it is healthy.
    pub readiness: Option<HealthCheck>,
    /// The time between SIGTERM and SIGKILL.
    pub notice: Span,
    /// Constraints on the machine.
    pub constraints: Vec<Constraint>,
    /// Linux capabilities that the program keeps. Requires the capability kernel-features.
    pub kernel_features: BTreeSet<KernelFeature>,
    /// Whether the task may call the cell's API: it is then given a certificate of its own.
    pub api: bool,
    /// Whether it may use more memory than its limit while the machine has free memory. It is then
    /// among the first to be evicted when the machine is short (paper, section 6.2).
    pub memory_slack: bool,
    /// What runs after its end, in its directory.
    pub saver: Option<Saver>,
    /// How long its output is kept, and how much of it.
    pub logs: LogPolicy,
    /// The volumes of its machine that it asks for.
    pub volumes: Vec<VolumeRequest>,
    /// What its machine keeps of its files after its end.
    pub outputs: OutputPolicy,
    /// The size of its directory in memory; `None`: it has none. What is in it counts as its memory.
    pub scratch: Option<Bytes>,
}

/// Differences of one task: each field that is set replaces the job's; environments and labels are
/// merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskOverride {
    /// Replaces the program and its arguments.
    pub cmd: Option<Vec<String>>,
    /// Variables to add or replace.
    pub env: BTreeMap<String, String>,
    /// Replaces the limit.
    pub limit: Option<Resources>,
    /// Replaces the maximum number of processes.
    pub processes: Option<u32>,
    /// Replaces the ports.
    pub ports: Option<BTreeSet<PortName>>,
    /// Replaces the health check.
    pub health_check: Option<HealthCheck>,
    /// Replaces the notice.
    pub notice: Option<Span>,
    /// Replaces the constraints.
    pub constraints: Option<Vec<Constraint>>,
    /// Labels to add or replace.
    pub labels: BTreeMap<String, String>,
}

impl JobSpec {
    /// A job with defaults everywhere else: batch, no labels, no overrides, the default restart
    /// policy.
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
            preemption_notice_max: None,
            estimation: true,
            autoscale: Autoscale::Off,
            own_limit: None,
            disruptions: DisruptionBudget::default(),
            update: UpdatePolicy::default(),
            after: BTreeSet::new(),
            parent: None,
            metrics: None,
            sizing: Sizing::Number,
            batch: BatchPolicy::default(),
            scheduler: None,
        }
    }

    /// The description of the task at an index, with its override applied.
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

    /// The constraints of the task at an index.
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

    /// The labels of the task at an index: the job's, and those of its override.
    #[must_use]
    pub fn labels_of(&self, index: TaskIndex) -> BTreeMap<String, String> {
        let mut labels = self.labels.clone();
        let own = self.overrides.get(&index).map(|change| change.labels.clone());
        labels.extend(own.unwrap_or_default());
        labels
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

    /// Whether it has one task on every machine.
    #[must_use]
    pub fn is_on_every_machine(&self) -> bool {
        self.sizing == Sizing::EveryMachine
    }

    /// Whether its tasks wait in a cell's batch queue, if that is on: those of best-effort batch jobs, except in an alloc
    /// set, whose resources are taken already, except one on every machine, and except tasks that wait one by one for those
    /// of another job.
    #[must_use]
    pub fn waits_in_queue(&self) -> bool {
        self.appclass == Appclass::Batch
            && self.priority.band() == Band::BestEffortBatch
            && !self.kind.is_alloc_set()
            && self.kind.alloc_set().is_none()
            && !self.is_on_every_machine()
            && !self.follows_task_by_task()
    }

    /// Whether its tasks start one by one, each after a task of another job.
    #[must_use]
    pub fn follows_task_by_task(&self) -> bool {
        self.after.iter().any(|after| after.each_task)
    }

    /// How many of its tasks are enabled at once at most, also if the job does not wait in the queue.
    #[must_use]
    pub fn enabled_at_once(&self) -> Option<u32> {
        let each = !self.kind.is_alloc_set()
            && !self.is_on_every_machine()
            && !self.follows_task_by_task();
        self.batch.at_once.filter(|_| each)
    }

    /// Whether the job limits its number of tasks per failure domain.
    #[must_use]
    pub fn has_maxima(&self) -> bool {
        self.max_per_machine.is_some() || self.max_per_switch.is_some()
    }

    /// The capabilities required to submit the job, each with the field that requires it.
    pub fn capabilities(&self) -> impl Iterator<Item = (Capability, &'static str)> {
        let needed = [
            (Capability::NoEstimation, !self.estimation),
            (Capability::KernelFeatures, !self.task.kernel_features.is_empty()),
            (Capability::StaticPorts, !self.task.static_ports.is_empty()),
        ];
        let needed = needed.into_iter().filter(|(_, needed)| *needed);
        needed.filter_map(|(capability, _)| Some((capability, Self::field_for(capability)?)))
    }

    /// The field that may be submitted only with a capability; `None` if there is none.
    #[must_use]
    pub fn field_for(capability: Capability) -> Option<&'static str> {
        match capability {
            Capability::NoEstimation => Some("estimation: false"),
            Capability::KernelFeatures => Some("kernelFeatures"),
            Capability::StaticPorts => Some("static ports"),
            _ => None,
        }
    }

    /// The versions of packages that its tasks use, its image included, if this user is its owner.
    pub fn packages<'a>(&'a self, owner: &'a UserName) -> impl Iterator<Item = PackageId> + 'a {
        self.task.image.iter().chain(&self.task.packages).map(|package| package.of(owner))
    }

    /// The secrets of its owner that its tasks use.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretName> {
        self.task.secrets.values().chain(self.task.secret_env.values())
    }

    /// The band whose quota the job is charged to. Neither jobs in the free band nor jobs that run
    /// in an alloc set are charged; the alloc set is charged as a whole.
    #[must_use]
    #[inline]
    pub fn charged_band(&self) -> Option<Band> {
        let band = self.priority.band();
        (band.is_charged() && self.kind.alloc_set().is_none()).then_some(band)
    }

    /// The sum of the limits of all tasks.
    #[must_use]
    pub fn total(&self) -> Resources {
        let overridden = self.overrides.keys().filter(|index| index.0 < self.tasks);
        let usual = u64::from(self.tasks).saturating_sub(overridden.clone().count() as u64);
        overridden.fold(self.task.limit.times(usual), |sum, index| sum.plus(self.limit(*index)))
    }

    /// The maximum number of tasks that may be down at once for voluntary reasons.
    #[must_use]
    pub fn down_max(&self) -> u32 {
        let serves = self.appclass == Appclass::LatencySensitive;
        match self.disruptions.at_once {
            Some(at_once) => at_once,
            None if serves || self.kind.is_alloc_set() => 1 + self.tasks / 10,
            None => u32::MAX,
        }
    }
}

impl TaskSpec {
    /// Whether it runs a program. An alloc does not.
    #[must_use]
    pub fn runs_program(&self) -> bool {
        !self.cmd.is_empty() || self.image.is_some()
    }

    /// A program with default limits: 0.1 cores, 64 MiB, 1,024 processes, 10 s of notice.
    #[must_use]
    pub fn of(cmd: Vec<String>) -> Self {
        Self {
            cmd,
            image: None,
            packages: BTreeSet::new(),
            env: BTreeMap::new(),
            files: BTreeMap::new(),
            secrets: BTreeMap::new(),
            secret_env: BTreeMap::new(),
            on_change: OnChange::default(),
            limit: Resources {
                cpu: model::MilliCores(100),
                ram: Bytes(64 << 20),
                ..Resources::default()
            },
            cores: Cores::Shared,
            cpu_slack: true,
            processes: 1_024,
            ports: BTreeSet::new(),
            static_ports: BTreeMap::new(),
            network: Network::Host,
            health_check: None,
            readiness: None,
            notice: Span::from_secs(10),
            constraints: Vec::new(),
            kernel_features: BTreeSet::new(),
            api: false,
            memory_slack: false,
            saver: None,
            logs: LogPolicy::default(),
            volumes: Vec::new(),
            outputs: OutputPolicy::default(),
            scratch: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::job;
    use model::Appclass;

    #[test]
    fn the_default_budget_is_a_tenth_for_services_and_unlimited_for_batch() {
        let down = |tasks, appclass, at_once| {
            let disruptions = DisruptionBudget { at_once, per_hour: None };
            JobSpec { tasks, appclass, disruptions, ..job() }.down_max()
        };
        assert_eq!(down(1, Appclass::LatencySensitive, None), 1);
        assert_eq!(down(9, Appclass::LatencySensitive, None), 1);
        assert_eq!(down(100, Appclass::LatencySensitive, None), 11);
        assert_eq!(down(100, Appclass::LatencySensitive, Some(0)), 0);
        assert_eq!(down(100, Appclass::Batch, None), u32::MAX);
        assert_eq!(down(100, Appclass::Batch, Some(2)), 2);
    }
}
