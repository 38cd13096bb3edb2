//! Job descriptions: `job.proto`.

use std::collections::{BTreeMap, BTreeSet};

use model::{Appclass, Bytes, Priority, SchedulingClass, TaskIndex, UserName};
use spec::{
    BatchPolicy, DisruptionBudget, JobSpec, Kind, LogPolicy, Maximum, OnFailure, Sizing,
    TaskOverride, TaskSpec, UpdatePolicy,
};

use crate::duration::duration;
use crate::error::{At, Fault, Malformed};
use crate::task::{
    all_shown, cores, cores_number, network, network_fields, on_change, on_change_number, outputs,
    read_static_ports, shown, static_ports, texts,
};
use crate::{autoscale, file, read, v1};

pub(crate) fn appclass_number(appclass: Appclass) -> i32 {
    let appclass = match appclass {
        Appclass::Batch => v1::Appclass::Batch,
        Appclass::LatencySensitive => v1::Appclass::LatencySensitive,
    };
    appclass.into()
}

pub(crate) fn appclass(number: i32) -> Result<Appclass, Malformed> {
    let meaning = |appclass| match appclass {
        v1::Appclass::Unspecified => None,
        v1::Appclass::Batch => Some(Appclass::Batch),
        v1::Appclass::LatencySensitive => Some(Appclass::LatencySensitive),
    };
    read::value(number, meaning, "appclass")
}

/// A priority, by its number.
///
/// # Errors
/// If it is out of range.
pub fn priority(number: u32) -> Result<Priority, Malformed> {
    Priority::new(number.into()).map_err(Fault::from).field("priority")
}

fn scheduling_class(number: Option<u32>, appclass: Appclass) -> Result<SchedulingClass, Malformed> {
    match number {
        None => Ok(SchedulingClass::usual(appclass)),
        Some(number) => {
            SchedulingClass::new(number.into()).map_err(Fault::from).field("schedulingClass")
        }
    }
}

fn kind(allocs: Option<v1::job_spec::Allocs>, alloc_set: &str) -> Result<Kind, Malformed> {
    let alloc_set = read::optional_name(alloc_set, "allocSet")?;
    let Some(allocs) = allocs else { return Ok(Kind::Job { alloc_set }) };
    if alloc_set.is_some() {
        return Err(Fault::Contradiction("is given for an alloc set")).field("allocSet");
    }
    let mut users = BTreeSet::new();
    for (position, user) in allocs.users.iter().enumerate() {
        let user: UserName = UserName::new(user)
            .map_err(Fault::from)
            .element(position)
            .field("users")
            .field("allocs")?;
        if !users.insert(user) {
            return Err(Fault::Twice).element(position).field("users").field("allocs");
        }
    }
    Ok(Kind::AllocSet { users })
}

impl From<Maximum> for v1::job_spec::Maximum {
    fn from(Maximum { tasks, hard }: Maximum) -> Self {
        Self { tasks, hard }
    }
}

impl From<v1::job_spec::Maximum> for Maximum {
    fn from(maximum: v1::job_spec::Maximum) -> Self {
        Self { tasks: maximum.tasks, hard: maximum.hard }
    }
}

impl v1::JobSpec {
    /// Removes the values of all variables, of the job and of single tasks, and the contents of its files; their
    /// names are then in `hidden_env` and `hidden_files`.
    pub fn hide_env(&mut self) {
        let names = |env: &mut BTreeMap<String, String>| std::mem::take(env).into_keys().collect();
        self.hidden_env = names(&mut self.env);
        self.hidden_files = std::mem::take(&mut self.files).into_keys().collect();
        for change in self.overrides.values_mut() {
            change.hidden_env = names(&mut change.env);
        }
    }
}

impl From<&JobSpec> for v1::JobSpec {
    fn from(job: &JobSpec) -> Self {
        let limit = v1::Resources::from(&job.task.limit);
        let (network, port_numbers) = network_fields(&job.task.network);
        let change = |(index, change): (&TaskIndex, &TaskOverride)| (index.0, change.into());
        let allocs = match &job.kind {
            Kind::Job { .. } => None,
            Kind::AllocSet { users } => Some(v1::job_spec::Allocs { users: texts(users) }),
        };
        Self {
            name: job.name.to_string(),
            tasks: job.tasks,
            every_machine: job.is_on_every_machine(),
            gang: job.batch.gang,
            at_once: job.batch.at_once.unwrap_or_default(),
            max_runtime: job.batch.max_runtime.map(duration),
            expected_runtime: job.batch.expected_runtime.map(duration),
            requeue: job.batch.requeue,
            scheduler: shown(job.scheduler.as_ref()),
            priority: Some(job.priority.number().into()),
            appclass: appclass_number(job.appclass),
            scheduling_class: Some(job.scheduling_class.number().into()),
            labels: job.labels.clone(),
            cmd: job.task.cmd.clone(),
            image: job.task.image.as_ref().map(ToString::to_string).unwrap_or_default(),
            packages: texts(&job.task.packages),
            env: job.task.env.clone(),
            files: file::files(&job.task.files),
            hidden_files: Vec::new(),
            secrets: file::secrets(&job.task.secrets),
            secret_env: file::secrets(&job.task.secret_env),
            on_change: on_change_number(job.task.on_change),
            hidden_env: Vec::new(),
            cpu_milli: limit.cpu_milli,
            ram_bytes: limit.ram_bytes,
            disk_bytes: limit.disk_bytes,
            disk_rate_bytes: limit.disk_rate_bytes,
            processes: job.task.processes,
            cores: cores_number(job.task.cores),
            cpu_slack: (!job.task.cpu_slack).then_some(false),
            ports: texts(&job.task.ports),
            static_ports: static_ports(&job.task.static_ports),
            network,
            port_numbers,
            health_check: job.task.health_check.as_ref().map(Into::into),
            readiness: job.task.readiness.as_ref().map(Into::into),
            notice: Some(duration(job.task.notice)),
            constraints: job.task.constraints.iter().map(Into::into).collect(),
            overrides: job.overrides.iter().map(change).collect(),
            restart: Some((&job.restart).into()),
            after: texts(&job.after),
            parent: job.parent.as_ref().map(ToString::to_string).unwrap_or_default(),
            max_per_machine: job.max_per_machine.map(Into::into),
            max_per_switch: job.max_per_switch.map(Into::into),
            allocs,
            estimation: (!job.estimation).then_some(false),
            autoscale: autoscale::message(job),
            kernel_features: texts(&job.task.kernel_features),
            api: job.task.api,
            memory_slack: job.task.memory_slack,
            disruptions: (job.disruptions != DisruptionBudget::default())
                .then(|| (&job.disruptions).into()),
            update: (job.update != UpdatePolicy::default()).then(|| (&job.update).into()),
            preemption: job
                .preemption_notice_max
                .map(|most| v1::job_spec::Preemption { notice_max: Some(duration(most)) }),
            saver: job.task.saver.as_ref().map(Into::into),
            metrics: job.metrics.as_ref().map(Into::into),
            logs: (job.task.logs != LogPolicy::default()).then(|| job.task.logs.into()),
            volumes: job.task.volumes.iter().map(Into::into).collect(),
            outputs: texts(&job.task.outputs.paths),
            keep_outputs: job.task.outputs.keep.map(duration),
            outputs_package: shown(job.task.outputs.package.as_ref()),
            scratch_bytes: job.task.scratch.map_or(0, |size| size.0),
            alloc_set: job.kind.alloc_set().map(ToString::to_string).unwrap_or_default(),
        }
    }
}

impl TryFrom<v1::JobSpec> for JobSpec {
    type Error = Malformed;

    fn try_from(job: v1::JobSpec) -> Result<Self, Malformed> {
        all_shown(&job.hidden_env)?;
        if !job.hidden_files.is_empty() {
            return Err(Fault::Hidden).field("hiddenFiles");
        }
        let limit = v1::Resources {
            cpu_milli: job.cpu_milli,
            ram_bytes: job.ram_bytes,
            disk_bytes: job.disk_bytes,
            disk_rate_bytes: job.disk_rate_bytes,
        };
        let task = TaskSpec {
            cmd: job.cmd,
            image: read::optional_name(&job.image, "image")?,
            packages: read::set(&job.packages, "packages")?,
            env: job.env,
            files: file::read_files(job.files)?,
            secrets: file::read_secrets(job.secrets, "secrets")?,
            secret_env: file::read_secrets(job.secret_env, "secretEnv")?,
            on_change: on_change(job.on_change)?,
            limit: limit.try_into()?,
            processes: job.processes,
            cores: cores(job.cores)?,
            cpu_slack: job.cpu_slack.unwrap_or(true),
            ports: read::set(&job.ports, "ports")?,
            static_ports: read_static_ports(&job.static_ports)?,
            network: network(job.network, &job.port_numbers)?,
            health_check: read::optional(job.health_check, "healthCheck")?,
            readiness: read::optional(job.readiness, "readiness")?,
            notice: read::span(job.notice, "notice")?,
            constraints: read::list(job.constraints, "constraints")?,
            kernel_features: read::set(&job.kernel_features, "kernelFeatures")?,
            api: job.api,
            memory_slack: job.memory_slack,
            saver: read::optional(job.saver, "saver")?,
            logs: read::optional(job.logs, "logs")?.unwrap_or_default(),
            volumes: read::list(job.volumes, "volumes")?,
            outputs: outputs(&job.outputs, job.keep_outputs, &job.outputs_package)?,
            scratch: (job.scratch_bytes > 0).then_some(Bytes(job.scratch_bytes)),
        };
        let preemption_notice_max = match job.preemption {
            None => None,
            Some(preemption) => {
                Some(read::span(preemption.notice_max, "noticeMax").field("preemption")?)
            }
        };
        let change = |(index, change)| -> Result<(TaskIndex, TaskOverride), Malformed> {
            Ok((TaskIndex(index), TaskOverride::try_from(change).key(index)?))
        };
        let overrides: Result<BTreeMap<_, _>, _> = job.overrides.into_iter().map(change).collect();
        let appclass = appclass(job.appclass)?;
        let batch = BatchPolicy {
            gang: job.gang,
            at_once: (job.at_once > 0).then_some(job.at_once),
            max_runtime: read::optional_span(job.max_runtime, "maxRuntime")?,
            expected_runtime: read::optional_span(job.expected_runtime, "expectedRuntime")?,
            requeue: job.requeue,
        };
        let (autoscale, own_limit) = autoscale::read(job.autoscale).field("autoscale")?;
        Ok(Self {
            kind: kind(job.allocs, &job.alloc_set)?,
            name: read::name(&job.name, "name")?,
            priority: priority(job.priority.ok_or(Fault::Missing).field("priority")?)?,
            appclass,
            scheduling_class: scheduling_class(job.scheduling_class, appclass)?,
            labels: job.labels,
            tasks: job.tasks,
            sizing: if job.every_machine { Sizing::EveryMachine } else { Sizing::Number },
            task,
            overrides: overrides.field("overrides")?,
            max_per_machine: job.max_per_machine.map(Into::into),
            max_per_switch: job.max_per_switch.map(Into::into),
            restart: read::message(job.restart, "restart")?,
            preemption_notice_max,
            estimation: job.estimation.unwrap_or(true),
            autoscale,
            own_limit,
            disruptions: job.disruptions.map(Into::into).unwrap_or_default(),
            update: read::optional(job.update, "update")?.unwrap_or_default(),
            after: read::set(&job.after, "after")?,
            parent: read::optional_name(&job.parent, "parent")?,
            metrics: read::optional(job.metrics, "metrics")?,
            batch,
            scheduler: read::optional_name(&job.scheduler, "scheduler")?,
        })
    }
}

impl From<&DisruptionBudget> for v1::DisruptionBudget {
    fn from(budget: &DisruptionBudget) -> Self {
        Self { at_once: budget.at_once, per_hour: budget.per_hour }
    }
}

impl From<v1::DisruptionBudget> for DisruptionBudget {
    fn from(budget: v1::DisruptionBudget) -> Self {
        Self { at_once: budget.at_once, per_hour: budget.per_hour }
    }
}

impl From<&UpdatePolicy> for v1::UpdatePolicy {
    fn from(policy: &UpdatePolicy) -> Self {
        let on_failure = match policy.on_failure {
            OnFailure::Undo => v1::update_policy::OnFailure::Undo,
            OnFailure::Pause => v1::update_policy::OnFailure::Pause,
        };
        Self {
            batch: policy.batch,
            healthy_for: Some(duration(policy.healthy_for)),
            healthy_within: Some(duration(policy.healthy_within)),
            wait: Some(duration(policy.wait)),
            disruptions: policy.disruptions,
            on_failure: on_failure.into(),
            close_after: Some(duration(policy.close_after)),
        }
    }
}

impl TryFrom<v1::UpdatePolicy> for UpdatePolicy {
    type Error = Malformed;

    fn try_from(policy: v1::UpdatePolicy) -> Result<Self, Malformed> {
        let usual = Self::default();
        let span = |given: Option<_>, usual, name| match given {
            Some(given) => read::span(Some(given), name),
            None => Ok(usual),
        };
        let meaning = |way| {
            Some(match way {
                v1::update_policy::OnFailure::Undo => OnFailure::Undo,
                v1::update_policy::OnFailure::Pause => OnFailure::Pause,
            })
        };
        Ok(Self {
            batch: policy.batch,
            healthy_for: span(policy.healthy_for, usual.healthy_for, "healthyFor")?,
            healthy_within: span(policy.healthy_within, usual.healthy_within, "healthyWithin")?,
            wait: span(policy.wait, usual.wait, "wait")?,
            disruptions: policy.disruptions,
            on_failure: read::value(policy.on_failure, meaning, "onFailure")?,
            close_after: span(policy.close_after, usual.close_after, "closeAfter")?,
        })
    }
}
