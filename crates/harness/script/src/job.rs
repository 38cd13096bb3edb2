//! Job descriptions.

use std::collections::{BTreeMap, BTreeSet};

use model::{Appclass, Band, JobName, MilliCores, PortName, Priority, Resources, TaskIndex};
use spec::{
    Autoscale, Constraint, CpuRam, HealthCheck, JobSpec, Kind, Maximum, MetricsPage, Network,
    Predecessor, Relation, RestartWhen, Saver, Sizing, TaskOverride, TaskSpec,
};

use crate::ScriptError;
use crate::policy::policy;
use crate::words::{
    cpu, mebibytes, no_such_option, not, option, package, pair, seconds, small_number, user,
    yes_or_no,
};

const OPTIONS: &[&str] = &[
    "cpu",
    "cores",
    "cpu-slack",
    "ram",
    "big",
    "ports",
    "static-ports",
    "network",
    "cmd",
    "image",
    "packages",
    "secrets",
    "check",
    "readiness",
    "priority",
    "label",
    "parent",
    "after",
    "failures",
    "delay",
    "restart",
    "metrics",
    "keep-logs",
    "max-logs",
    "on",
    "per-machine",
    "per-switch",
    "in",
    "allocs",
    "estimation",
    "autoscale",
    "api",
    "memory-slack",
    "kernel",
    "at-once",
    "per-hour",
    "appclass",
    "batch",
    "healthy",
    "within",
    "wait",
    "most",
    "fail",
    "close",
    "notice",
    "victim-notice",
    "saver",
    "volumes",
    "on-change",
    "file",
    "everywhere",
    "gang",
    "running-at-once",
    "max-runtime",
    "expected-runtime",
    "requeue",
    "scheduler",
];

/// How many ports a job may ask for by their number.
const PORTS_MAX: u32 = 1_000;

/// The description of a job with these options. Unless they say otherwise, it is in the production band,
/// and its tasks run `server` with 0.1 cores and 64 MiB and may fail once.
///
/// # Errors
/// With the name or the first option that is wrong. Whether the description is valid is not checked:
/// the cell does that.
pub fn job_spec(name: &str, tasks: u32, options: &[&str]) -> Result<JobSpec, ScriptError> {
    let task = TaskSpec::of(vec!["server".to_owned()]);
    let mut job = JobSpec::of(JobName::new(name)?, Band::Production.usual(), tasks, task);
    job.restart.failures_max = Some(1);
    let (mut allocs_for, mut large) = (None, BTreeMap::new());
    for word in options {
        let (key, value) = option(word)?;
        match key {
            "cpu" => job.task.limit.cpu = cpu(value)?,
            "cores" => {
                job.task.cores = value.parse().map_err(|_| not(value, "shared or exclusive"))?;
            }
            "cpu-slack" => job.task.cpu_slack = yes_or_no(value)?,
            "ram" => job.task.limit.ram = mebibytes(value)?,
            "big" => {
                let (index, milli) = pair(value, ':', "INDEX:MILLI")?;
                large.insert(TaskIndex(small_number(index)?), cpu(milli)?);
            }
            "ports" => job.task.ports = ports(value)?,
            "static-ports" => {
                let port = |text: &str| -> Result<_, ScriptError> {
                    let (name, number) = pair(text, ':', "NAME:NUMBER")?;
                    let wrong = |_| not(number, "the number of a port");
                    Ok((PortName::new(name)?, number.parse().map_err(wrong)?))
                };
                job.task.static_ports = value.split(',').map(port).collect::<Result<_, _>>()?;
            }
            "network" => {
                job.task.network = value.parse().map_err(|_| not(value, "host or own"))?;
            }
            "cmd" => job.task.cmd = value.split_whitespace().map(str::to_owned).collect(),
            "image" => job.task.image = Some(package(value)?),
            "packages" => {
                job.task.packages = value.split(',').map(package).collect::<Result<_, _>>()?;
            }
            "outputs" => {
                let (path, package) = pair(value, ':', "PATH:PACKAGE")?;
                let path = path.parse().map_err(|_| not(path, "a path"))?;
                let package = package.parse().map_err(|_| not(package, "the name of a package"))?;
                job.task.outputs.paths = [path].into();
                job.task.outputs.package = Some(package);
            }
            "secrets" => {
                let secret = |name: &str| -> Result<_, ScriptError> {
                    Ok((format!("/etc/{name}"), model::SecretName::new(name)?))
                };
                job.task.secrets = value.split(',').map(secret).collect::<Result<_, _>>()?;
            }
            "on-change" => {
                let words = "nothing, signal or restart";
                job.task.on_change = value.parse().map_err(|_| not(value, words))?;
            }
            "file" => {
                let content = spec::FileContent::Text(value.into());
                let file = spec::TaskFile { content, mode: spec::FileMode::default() };
                job.task.files = [("/etc/file".to_owned(), file)].into();
            }
            "check" => job.task.health_check = Some(HealthCheck::on(PortName::new(value)?)),
            "readiness" => job.task.readiness = Some(HealthCheck::on(PortName::new(value)?)),
            "priority" => job.priority = value.parse::<Priority>()?,
            "label" => {
                let (name, value) = pair(value, ':', "NAME:VALUE")?;
                job.labels.insert(name.to_owned(), value.to_owned());
            }
            "parent" => job.parent = Some(value.parse()?),
            "after" => {
                let jobs = value.split(',').map(str::parse::<Predecessor>);
                job.after = jobs.collect::<Result<_, _>>()?;
            }
            "failures" if value == "unlimited" => job.restart.failures_max = None,
            "failures" => job.restart.failures_max = Some(small_number(value)?),
            "delay" => {
                job.restart.delay = seconds(value)?;
                job.restart.delay_max = job.restart.delay_max.max(job.restart.delay);
            }
            "restart" => job.restart.when = restart(value)?,
            "metrics" => job.metrics = Some(MetricsPage::on(PortName::new(value)?)),
            "keep-logs" => job.task.logs.keep = Some(seconds(value)?),
            "max-logs" => job.task.logs.max = Some(mebibytes(value)?),
            "everywhere" if yes_or_no(value)? => {
                (job.tasks, job.sizing) = (0, Sizing::EveryMachine);
            }
            "everywhere" => {}
            "gang" => job.batch.gang = yes_or_no(value)?,
            "running-at-once" => job.batch.at_once = Some(small_number(value)?),
            "max-runtime" => job.batch.max_runtime = Some(seconds(value)?),
            "expected-runtime" => job.batch.expected_runtime = Some(seconds(value)?),
            "requeue" => job.batch.requeue = yes_or_no(value)?,
            "scheduler" => job.scheduler = Some(value.parse()?),
            "volumes" => job.task.volumes = crate::volumes::requests(value)?,
            "on" => job.task.constraints = value.split(',').map(constraint).collect(),
            "per-machine" => job.max_per_machine = Some(maximum(value)?),
            "per-switch" => job.max_per_switch = Some(maximum(value)?),
            "in" => job.kind = Kind::Job { alloc_set: Some(value.parse()?) },
            "allocs" => {
                let users = value.split(',').filter(|name| *name != "none").map(user);
                allocs_for = Some(users.collect::<Result<BTreeSet<_>, _>>()?);
            }
            "autoscale" => job.autoscale = autoscale(value)?,
            "estimation" => job.estimation = yes_or_no(value)?,
            "api" => job.task.api = yes_or_no(value)?,
            "memory-slack" => job.task.memory_slack = yes_or_no(value)?,
            "kernel" => {
                let features = value.split(',').map(str::parse);
                job.task.kernel_features = features.collect::<Result<_, _>>()?;
            }
            "at-once" => job.disruptions.at_once = Some(small_number(value)?),
            "per-hour" => job.disruptions.per_hour = Some(small_number(value)?),
            "appclass" => job.appclass = appclass(value)?,
            "notice" => job.task.notice = seconds(value)?,
            "victim-notice" => job.preemption_notice_max = Some(seconds(value)?),
            "saver" => {
                let cmd = value.split_whitespace().map(str::to_owned).collect();
                job.task.saver = Some(Saver::of(cmd));
            }
            _ if policy(&mut job.update, key, value)? => {}
            _ => return Err(no_such_option(key, OPTIONS)),
        }
    }
    if let Some(users) = allocs_for {
        (job.kind, job.task.cmd) = (Kind::AllocSet { users }, Vec::new());
    }
    if let Network::Own { ports } = &mut job.task.network {
        ports.extend(std::mem::take(&mut job.task.ports).into_iter().zip(80..));
    }
    let limit = job.task.limit;
    job.overrides = large.into_iter().map(|(index, cpu)| (index, limited(limit, cpu))).collect();
    Ok(job)
}

fn appclass(word: &str) -> Result<Appclass, ScriptError> {
    let found = Appclass::ALL.into_iter().find(|appclass| appclass.name() == word);
    found.ok_or_else(|| not(word, "batch or latency-sensitive"))
}

fn restart(word: &str) -> Result<RestartWhen, ScriptError> {
    let found = RestartWhen::ALL.into_iter().find(|when| when.name() == word);
    found.ok_or_else(|| not(word, "never, on-failure or always"))
}

/// `off`, `full`, or `MILLI:MIB-MILLI:MIB`.
fn autoscale(word: &str) -> Result<Autoscale, ScriptError> {
    let expected = "off, full or MILLI:MIB-MILLI:MIB";
    let amount = |text: &str| -> Result<CpuRam, ScriptError> {
        let (milli, mib) = text.split_once(':').ok_or_else(|| not(word, expected))?;
        Ok(CpuRam { cpu: cpu(milli)?, ram: mebibytes(mib)? })
    };
    match (word, word.split_once('-')) {
        ("off", _) => Ok(Autoscale::Off),
        ("full", _) => Ok(Autoscale::Full),
        (_, Some((min, max))) => {
            Ok(Autoscale::Constrained { min: amount(min)?, max: amount(max)? })
        }
        _ => Err(not(word, expected)),
    }
}

/// The override of a task that has more or less CPU than the others.
fn limited(limit: Resources, cpu: MilliCores) -> TaskOverride {
    TaskOverride { limit: Some(Resources { cpu, ..limit }), ..TaskOverride::default() }
}

/// `http,admin`, or `2` for p0 and p1.
fn ports(text: &str) -> Result<BTreeSet<PortName>, ScriptError> {
    let names = match text.parse::<u32>() {
        Ok(count) if count > PORTS_MAX => {
            return Err(ScriptError::TooMany { count: count.into(), max: PORTS_MAX.into() });
        }
        Ok(count) => (0..count).map(|number| format!("p{number}")).collect(),
        Err(_) => text.split(',').map(str::to_owned).collect::<Vec<_>>(),
    };
    Ok(names.iter().map(|name| PortName::new(name)).collect::<Result<_, _>>()?)
}

/// `3`, or `3?` for a preference.
fn maximum(text: &str) -> Result<Maximum, ScriptError> {
    let (text, hard) = hard(text);
    Ok(Maximum { tasks: small_number(text)?, hard })
}

/// A condition, and whether it is hard: a `?` after it makes it a preference.
fn hard(text: &str) -> (&str, bool) {
    text.strip_suffix('?').map_or((text, true), |text| (text, false))
}

/// `gpu=H200`, `cores>=8`, `ssd`, `!ssd`.
fn constraint(text: &str) -> Constraint {
    let (text, hard) = hard(text);
    let relations = [
        ("!=", Relation::NotEqual),
        ("<=", Relation::LessThanEqual),
        (">=", Relation::GreaterThanEqual),
        ("<", Relation::LessThan),
        (">", Relation::GreaterThan),
        ("=", Relation::Equal),
    ];
    let compared = relations.iter().find_map(|(sign, relation)| {
        text.split_once(sign).map(|(attribute, value)| (attribute, *relation, value))
    });
    let (attribute, relation, value) = compared.unwrap_or_else(|| match text.strip_prefix('!') {
        Some(attribute) => (attribute, Relation::NotPresent, ""),
        None => (text, Relation::Present, ""),
    });
    Constraint { attribute: attribute.to_owned(), relation, value: value.to_owned(), hard }
}
