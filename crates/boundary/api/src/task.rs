//! Tasks, their constraints on machines, and the differences of single tasks: `job.proto`.

use std::collections::{BTreeMap, BTreeSet};

use model::{Bytes, MilliCores, PortName, Resources};
use spec::{
    Constraint, Cores, LogPolicy, Network, OnChange, OutputPolicy, Relation, Saver, TaskOverride,
    TaskSpec,
};

use crate::duration::{Duration, duration};
use crate::error::{At, Fault, Malformed};
use crate::{file, read, v1};

/// The network of tasks, and the numbers of their ports in one of their own.
pub(crate) fn network_fields(network: &Network) -> (i32, BTreeMap<String, u32>) {
    let number = match network {
        Network::Host => v1::Network::Host,
        Network::Own { .. } => v1::Network::Own,
    };
    let named = |(name, port): (&PortName, &u16)| (name.to_string(), (*port).into());
    (number.into(), network.numbers().iter().map(named).collect())
}

/// Ports with static numbers.
pub(crate) fn static_ports(ports: &BTreeMap<PortName, u16>) -> BTreeMap<String, u32> {
    ports.iter().map(|(name, number)| (name.to_string(), (*number).into())).collect()
}

/// The same, from a message.
pub(crate) fn read_static_ports(
    ports: &BTreeMap<String, u32>,
) -> Result<BTreeMap<PortName, u16>, Malformed> {
    port_numbers(ports).field("staticPorts")
}

fn port_numbers(numbers: &BTreeMap<String, u32>) -> Result<BTreeMap<PortName, u16>, Malformed> {
    let number = |(text, port): (&String, &u32)| {
        let name: PortName = text.parse().map_err(Fault::from).key(text)?;
        let out = Fault::OutOfRange { is: (*port).into(), least: 0, most: u16::MAX.into() };
        Ok((name, u16::try_from(*port).map_err(|_| out).key(text)?))
    };
    numbers.iter().map(number).collect()
}

/// A network, from a message.
pub(crate) fn network(network: i32, numbers: &BTreeMap<String, u32>) -> Result<Network, Malformed> {
    let ports = port_numbers(numbers).field("portNumbers")?;
    let is_own = |network: v1::Network| Some(network == v1::Network::Own);
    match read::value(network, is_own, "network")? {
        true => Ok(Network::Own { ports }),
        false if ports.is_empty() => Ok(Network::Host),
        false => {
            let why = "are given for the network of the host, where the cell assigns them";
            Err(Fault::Contradiction(why)).field("portNumbers")
        }
    }
}

pub(crate) fn cores_number(cores: Cores) -> i32 {
    let number = match cores {
        Cores::Shared => v1::job_spec::Cores::Shared,
        Cores::Exclusive => v1::job_spec::Cores::Exclusive,
    };
    number.into()
}

pub(crate) fn cores(number: i32) -> Result<Cores, Malformed> {
    let meaning = |cores| {
        Some(match cores {
            v1::job_spec::Cores::Shared => Cores::Shared,
            v1::job_spec::Cores::Exclusive => Cores::Exclusive,
        })
    };
    read::value(number, meaning, "cores")
}

pub(crate) fn on_change_number(on_change: OnChange) -> i32 {
    let number = match on_change {
        OnChange::Nothing => v1::job_spec::OnChange::Nothing,
        OnChange::Signal => v1::job_spec::OnChange::Signal,
        OnChange::Restart => v1::job_spec::OnChange::Restart,
    };
    number.into()
}

pub(crate) fn on_change(number: i32) -> Result<OnChange, Malformed> {
    let meaning = |on_change| {
        Some(match on_change {
            v1::job_spec::OnChange::Nothing => OnChange::Nothing,
            v1::job_spec::OnChange::Signal => OnChange::Signal,
            v1::job_spec::OnChange::Restart => OnChange::Restart,
        })
    };
    read::value(number, meaning, "onChange")
}

/// A name that may be missing: empty then.
pub(crate) fn shown<T: ToString>(name: Option<&T>) -> String {
    name.map(ToString::to_string).unwrap_or_default()
}

pub(crate) fn texts<T: ToString>(names: &BTreeSet<T>) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// What is kept of the files of a task after its end.
pub(crate) fn outputs(
    paths: &[String],
    keep: Option<Duration>,
    package: &str,
) -> Result<OutputPolicy, Malformed> {
    let keep = read::optional_span(keep, "keepOutputs")?;
    let package = read::optional_name(package, "outputsPackage")?;
    Ok(OutputPolicy { paths: read::set(paths, "outputs")?, keep, package })
}

/// Rejects a description whose values were hidden: the job would run without them.
pub(crate) fn all_shown(hidden_env: &[String]) -> Result<(), Malformed> {
    match hidden_env {
        [] => Ok(()),
        _ => Err(Fault::Hidden).field("hiddenEnv"),
    }
}

impl From<&TaskSpec> for v1::TaskSpec {
    fn from(task: &TaskSpec) -> Self {
        let (network, port_numbers) = network_fields(&task.network);
        Self {
            network,
            port_numbers,
            cmd: task.cmd.clone(),
            image: task.image.as_ref().map(ToString::to_string).unwrap_or_default(),
            packages: texts(&task.packages),
            env: task.env.clone(),
            files: file::files(&task.files),
            secrets: file::secrets(&task.secrets),
            secret_env: file::secrets(&task.secret_env),
            on_change: on_change_number(task.on_change),
            limit: Some((&task.limit).into()),
            processes: task.processes,
            cores: cores_number(task.cores),
            cpu_slack: (!task.cpu_slack).then_some(false),
            ports: texts(&task.ports),
            static_ports: static_ports(&task.static_ports),
            health_check: task.health_check.as_ref().map(Into::into),
            readiness: task.readiness.as_ref().map(Into::into),
            notice: Some(duration(task.notice)),
            kernel_features: texts(&task.kernel_features),
            api: task.api,
            memory_slack: task.memory_slack,
            saver: task.saver.as_ref().map(Into::into),
            logs: (task.logs != LogPolicy::default()).then(|| task.logs.into()),
            volumes: task.volumes.iter().map(Into::into).collect(),
            outputs: texts(&task.outputs.paths),
            keep_outputs: task.outputs.keep.map(duration),
            outputs_package: shown(task.outputs.package.as_ref()),
            scratch_bytes: task.scratch.map_or(0, |size| size.0),
        }
    }
}

/// Without constraints, which are not sent to machines.
impl TryFrom<v1::TaskSpec> for TaskSpec {
    type Error = Malformed;

    fn try_from(task: v1::TaskSpec) -> Result<Self, Malformed> {
        Ok(Self {
            cmd: task.cmd,
            image: read::optional_name(&task.image, "image")?,
            packages: read::set(&task.packages, "packages")?,
            env: task.env,
            files: file::read_files(task.files)?,
            secrets: file::read_secrets(task.secrets, "secrets")?,
            secret_env: file::read_secrets(task.secret_env, "secretEnv")?,
            on_change: on_change(task.on_change)?,
            limit: read::message(task.limit, "limit")?,
            processes: task.processes,
            cores: cores(task.cores)?,
            cpu_slack: task.cpu_slack.unwrap_or(true),
            ports: read::set(&task.ports, "ports")?,
            network: network(task.network, &task.port_numbers)?,
            static_ports: read_static_ports(&task.static_ports)?,
            health_check: read::optional(task.health_check, "healthCheck")?,
            readiness: read::optional(task.readiness, "readiness")?,
            notice: read::span(task.notice, "notice")?,
            constraints: Vec::new(),
            kernel_features: read::set(&task.kernel_features, "kernelFeatures")?,
            api: task.api,
            memory_slack: task.memory_slack,
            saver: read::optional(task.saver, "saver")?,
            logs: read::optional(task.logs, "logs")?.unwrap_or_default(),
            volumes: read::list(task.volumes, "volumes")?,
            outputs: outputs(&task.outputs, task.keep_outputs, &task.outputs_package)?,
            scratch: (task.scratch_bytes > 0).then_some(Bytes(task.scratch_bytes)),
        })
    }
}

impl From<&Saver> for v1::Saver {
    fn from(saver: &Saver) -> Self {
        Self {
            cmd: saver.cmd.clone(),
            time_limit: Some(duration(saver.time_limit)),
            interval: Some(duration(saver.interval)),
        }
    }
}

impl TryFrom<v1::Saver> for Saver {
    type Error = Malformed;

    fn try_from(saver: v1::Saver) -> Result<Self, Malformed> {
        Ok(Self {
            cmd: saver.cmd,
            time_limit: read::span(saver.time_limit, "timeLimit")?,
            interval: read::span(saver.interval, "interval")?,
        })
    }
}

impl From<&Constraint> for v1::Constraint {
    fn from(constraint: &Constraint) -> Self {
        let relation = match constraint.relation {
            Relation::Equal => v1::Relation::Equal,
            Relation::NotEqual => v1::Relation::NotEqual,
            Relation::LessThan => v1::Relation::LessThan,
            Relation::LessThanEqual => v1::Relation::LessThanEqual,
            Relation::GreaterThan => v1::Relation::GreaterThan,
            Relation::GreaterThanEqual => v1::Relation::GreaterThanEqual,
            Relation::Present => v1::Relation::Present,
            Relation::NotPresent => v1::Relation::NotPresent,
        };
        Self {
            attribute: constraint.attribute.clone(),
            relation: relation.into(),
            value: constraint.value.clone(),
            soft: !constraint.hard,
        }
    }
}

impl TryFrom<v1::Constraint> for Constraint {
    type Error = Malformed;

    fn try_from(constraint: v1::Constraint) -> Result<Self, Malformed> {
        let meaning = |relation| match relation {
            v1::Relation::Unspecified => None,
            v1::Relation::Equal => Some(Relation::Equal),
            v1::Relation::NotEqual => Some(Relation::NotEqual),
            v1::Relation::LessThan => Some(Relation::LessThan),
            v1::Relation::LessThanEqual => Some(Relation::LessThanEqual),
            v1::Relation::GreaterThan => Some(Relation::GreaterThan),
            v1::Relation::GreaterThanEqual => Some(Relation::GreaterThanEqual),
            v1::Relation::Present => Some(Relation::Present),
            v1::Relation::NotPresent => Some(Relation::NotPresent),
        };
        Ok(Self {
            attribute: constraint.attribute,
            relation: read::value(constraint.relation, meaning, "relation")?,
            value: constraint.value,
            hard: !constraint.soft,
        })
    }
}

/// An empty command, which no valid description has, is encoded as none at all.
impl From<&TaskOverride> for v1::TaskOverride {
    fn from(change: &TaskOverride) -> Self {
        use v1::task_override::{Constraints, Ports};

        let limit = change.limit.as_ref().map(v1::Resources::from);
        let constraints =
            |all: &Vec<Constraint>| Constraints { all: all.iter().map(Into::into).collect() };
        Self {
            cmd: change.cmd.clone().unwrap_or_default(),
            env: change.env.clone(),
            hidden_env: Vec::new(),
            cpu_milli: limit.map(|limit| limit.cpu_milli),
            ram_bytes: limit.map(|limit| limit.ram_bytes),
            disk_bytes: limit.map(|limit| limit.disk_bytes),
            disk_rate_bytes: limit.map(|limit| limit.disk_rate_bytes),
            processes: change.processes,
            ports: change.ports.as_ref().map(|ports| Ports { names: texts(ports) }),
            health_check: change.health_check.as_ref().map(Into::into),
            notice: change.notice.map(duration),
            constraints: change.constraints.as_ref().map(constraints),
            labels: change.labels.clone(),
        }
    }
}

impl TryFrom<v1::TaskOverride> for TaskOverride {
    type Error = Malformed;

    fn try_from(change: v1::TaskOverride) -> Result<Self, Malformed> {
        all_shown(&change.hidden_env)?;
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
        let notice = change.notice.map(|notice| read::span(Some(notice), "notice"));
        let constraints = change.constraints.map(|list| read::list(list.all, "constraints"));
        Ok(Self {
            cmd: (!change.cmd.is_empty()).then_some(change.cmd),
            env: change.env,
            limit,
            processes: change.processes,
            ports: change.ports.map(|list| read::set(&list.names, "ports")).transpose()?,
            health_check: read::optional(change.health_check, "healthCheck")?,
            notice: notice.transpose()?,
            constraints: constraints.transpose()?,
            labels: change.labels,
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
