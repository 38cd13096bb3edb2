//! Job descriptions: `job.proto`.

use std::collections::{BTreeMap, BTreeSet};

use model::{Appclass, Bytes, MilliCores, PortName, Priority, Resources, Span, TaskIndex};
use pbjson_types::Duration;
use spec::{HealthCheck, JobSpec, RestartPolicy, TaskOverride, TaskSpec};

use crate::error::{At, Fault, Malformed};
use crate::{read, v1};

const MICROS_A_SECOND: u64 = 1_000_000;
const NANOS_A_MICRO: u32 = 1_000;

/// A span as the formats have it.
#[must_use]
pub fn duration(span: Span) -> Duration {
    let (seconds, micros) = (span.0 / MICROS_A_SECOND, span.0 % MICROS_A_SECOND);
    // Both fit: a span has fewer than 2^45 seconds, and what is left is less than one.
    Duration { seconds: read::signed(seconds), nanos: i32::try_from(micros * 1_000).unwrap_or(0) }
}

/// A span from outside.
///
/// # Errors
/// Where it is negative, finer than a microsecond, or longer than a span can be.
pub fn span(duration: &Duration) -> Result<Span, Malformed> {
    let whole = || {
        let seconds = u64::try_from(duration.seconds).ok()?;
        let nanos = u32::try_from(duration.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
        let micros = (nanos % NANOS_A_MICRO == 0).then_some(nanos / NANOS_A_MICRO)?;
        seconds.checked_mul(MICROS_A_SECOND)?.checked_add(micros.into())
    };
    let fault = Fault::NotASpan { seconds: duration.seconds, nanos: duration.nanos };
    whole().map(Span).ok_or_else(|| fault.into())
}

fn required_span(duration: Option<Duration>, field: &str) -> Result<Span, Malformed> {
    span(&read::required(duration, field)?).field(field)
}

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

pub(crate) fn priority(number: u32) -> Result<Priority, Malformed> {
    Priority::new(number.into()).map_err(Fault::from).field("priority")
}

fn port_names(names: &[String]) -> Result<BTreeSet<PortName>, Malformed> {
    let mut ports = BTreeSet::new();
    for (position, name) in names.iter().enumerate() {
        let name: PortName = name.parse().map_err(Fault::from).element(position).field("ports")?;
        if !ports.insert(name) {
            return Err(Fault::Twice).element(position).field("ports");
        }
    }
    Ok(ports)
}

fn texts(names: &BTreeSet<PortName>) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

impl From<&JobSpec> for v1::JobSpec {
    fn from(job: &JobSpec) -> Self {
        let limit = v1::Resources::from(&job.task.limit);
        let change = |(index, change): (&TaskIndex, &TaskOverride)| (index.0, change.into());
        Self {
            name: job.name.to_string(),
            tasks: job.tasks,
            priority: Some(job.priority.number().into()),
            appclass: appclass_number(job.appclass),
            labels: job.labels.clone(),
            cmd: job.task.cmd.clone(),
            env: job.task.env.clone(),
            cpu_milli: limit.cpu_milli,
            ram_bytes: limit.ram_bytes,
            disk_bytes: limit.disk_bytes,
            disk_rate_bytes: limit.disk_rate_bytes,
            processes: job.task.processes,
            ports: texts(&job.task.ports),
            health_check: job.task.health_check.as_ref().map(Into::into),
            notice: Some(duration(job.task.notice)),
            overrides: job.overrides.iter().map(change).collect(),
            restart: Some((&job.restart).into()),
        }
    }
}

impl TryFrom<v1::JobSpec> for JobSpec {
    type Error = Malformed;

    fn try_from(job: v1::JobSpec) -> Result<Self, Malformed> {
        let limit = v1::Resources {
            cpu_milli: job.cpu_milli,
            ram_bytes: job.ram_bytes,
            disk_bytes: job.disk_bytes,
            disk_rate_bytes: job.disk_rate_bytes,
        };
        let task = TaskSpec {
            cmd: job.cmd,
            env: job.env,
            limit: limit.try_into()?,
            processes: job.processes,
            ports: port_names(&job.ports)?,
            health_check: read::optional(job.health_check, "healthCheck")?,
            notice: required_span(job.notice, "notice")?,
        };
        let change = |(index, change)| -> Result<(TaskIndex, TaskOverride), Malformed> {
            Ok((TaskIndex(index), TaskOverride::try_from(change).key(index)?))
        };
        let overrides: Result<BTreeMap<_, _>, _> = job.overrides.into_iter().map(change).collect();
        Ok(Self {
            name: read::name(&job.name, "name")?,
            priority: priority(job.priority.ok_or(Fault::Missing).field("priority")?)?,
            appclass: appclass(job.appclass)?,
            labels: job.labels,
            tasks: job.tasks,
            task,
            overrides: overrides.field("overrides")?,
            restart: read::message(job.restart, "restart")?,
        })
    }
}

impl From<&TaskSpec> for v1::TaskSpec {
    fn from(task: &TaskSpec) -> Self {
        Self {
            cmd: task.cmd.clone(),
            env: task.env.clone(),
            limit: Some((&task.limit).into()),
            processes: task.processes,
            ports: texts(&task.ports),
            health_check: task.health_check.as_ref().map(Into::into),
            notice: Some(duration(task.notice)),
        }
    }
}

impl TryFrom<v1::TaskSpec> for TaskSpec {
    type Error = Malformed;

    fn try_from(task: v1::TaskSpec) -> Result<Self, Malformed> {
        Ok(Self {
            cmd: task.cmd,
            env: task.env,
            limit: read::message(task.limit, "limit")?,
            processes: task.processes,
            ports: port_names(&task.ports)?,
            health_check: read::optional(task.health_check, "healthCheck")?,
            notice: required_span(task.notice, "notice")?,
        })
    }
}

impl From<&HealthCheck> for v1::HealthCheck {
    fn from(check: &HealthCheck) -> Self {
        Self {
            port: check.port.to_string(),
            path: check.path.clone(),
            interval: Some(duration(check.interval)),
            timeout: Some(duration(check.timeout)),
            start_grace: Some(duration(check.start_grace)),
            failures: check.failures_max,
        }
    }
}

impl TryFrom<v1::HealthCheck> for HealthCheck {
    type Error = Malformed;

    fn try_from(check: v1::HealthCheck) -> Result<Self, Malformed> {
        Ok(Self {
            port: read::name(&check.port, "port")?,
            path: check.path,
            interval: required_span(check.interval, "interval")?,
            timeout: required_span(check.timeout, "timeout")?,
            start_grace: required_span(check.start_grace, "startGrace")?,
            failures_max: check.failures,
        })
    }
}

impl From<&RestartPolicy> for v1::RestartPolicy {
    fn from(policy: &RestartPolicy) -> Self {
        Self {
            failures: policy.failures_max,
            delay: Some(duration(policy.delay)),
            delay_max: Some(duration(policy.delay_max)),
        }
    }
}

impl TryFrom<v1::RestartPolicy> for RestartPolicy {
    type Error = Malformed;

    fn try_from(policy: v1::RestartPolicy) -> Result<Self, Malformed> {
        Ok(Self {
            failures_max: policy.failures,
            delay: required_span(policy.delay, "delay")?,
            delay_max: required_span(policy.delay_max, "delayMax")?,
        })
    }
}

/// A command without a program, which no valid description has, is written as none at all.
impl From<&TaskOverride> for v1::TaskOverride {
    fn from(change: &TaskOverride) -> Self {
        let limit = change.limit.as_ref().map(v1::Resources::from);
        Self {
            cmd: change.cmd.clone().unwrap_or_default(),
            env: change.env.clone(),
            cpu_milli: limit.map(|limit| limit.cpu_milli),
            ram_bytes: limit.map(|limit| limit.ram_bytes),
            disk_bytes: limit.map(|limit| limit.disk_bytes),
            disk_rate_bytes: limit.map(|limit| limit.disk_rate_bytes),
            processes: change.processes,
        }
    }
}

impl TryFrom<v1::TaskOverride> for TaskOverride {
    type Error = Malformed;

    fn try_from(change: v1::TaskOverride) -> Result<Self, Malformed> {
        let given = (change.cpu_milli, change.ram_bytes, change.disk_bytes, change.disk_rate_bytes);
        let limit = match given {
            (None, None, None, None) => None,
            (Some(cpu_milli), Some(ram_bytes), Some(disk_bytes), Some(disk_rate_bytes)) => {
                let limit = v1::Resources { cpu_milli, ram_bytes, disk_bytes, disk_rate_bytes };
                Some(limit.try_into()?)
            }
            _ => {
                return Err(Fault::Contradiction(
                    "of cpuMilli, ramBytes, diskBytes and diskRateBytes give all or none",
                )
                .into());
            }
        };
        Ok(Self {
            cmd: (!change.cmd.is_empty()).then_some(change.cmd),
            env: change.env,
            limit,
            processes: change.processes,
        })
    }
}

impl From<&Resources> for v1::Resources {
    fn from(resources: &Resources) -> Self {
        Self {
            cpu_milli: read::signed(resources.cpu.0),
            ram_bytes: read::signed(resources.ram.0),
            disk_bytes: read::signed(resources.disk.0),
            disk_rate_bytes: read::signed(resources.disk_rate.0),
        }
    }
}

impl TryFrom<v1::Resources> for Resources {
    type Error = Malformed;

    fn try_from(resources: v1::Resources) -> Result<Self, Malformed> {
        Ok(Self {
            cpu: MilliCores(read::quantity(resources.cpu_milli, "cpuMilli")?),
            ram: Bytes(read::quantity(resources.ram_bytes, "ramBytes")?),
            disk: Bytes(read::quantity(resources.disk_bytes, "diskBytes")?),
            disk_rate: Bytes(read::quantity(resources.disk_rate_bytes, "diskRateBytes")?),
        })
    }
}
