//! The fields of a job, and how they become a [`JobSpec`].
//!
//! Quantities have two spellings: the one people write (`ram: '64 MiB'`), and the one of the
//! description's canonical JSON (`ramBytes: "67108864"`), so that what is printed can be read.

use std::collections::{BTreeMap, BTreeSet};

use model::{Appclass, Band, JobName, PortName, Priority, PriorityError};
use spec::{HealthCheck, JobSpec, Path, RestartPolicy, TaskSpec};

use crate::error::ErrorKind;
use crate::fields::{Fields, Found, Shape};
use crate::json::Json;
use crate::overrides::{Change, QUANTITY_SPELLINGS, overrides, read_cmd, word};
use crate::problems::problems;
use crate::quantity::{self, wrong_type};
use crate::words;

const JOB: Shape = Shape {
    of: "a job",
    expected: "a job, such as { name: 'hello', cmd: ['bourg', 'example-server'] }",
    fields: &[
        "name",
        "tasks",
        "priority",
        "appclass",
        "labels",
        "cmd",
        "env",
        "cpu",
        "ram",
        "disk",
        "diskRate",
        "processes",
        "ports",
        "healthCheck",
        "notice",
        "overrides",
        "restart",
    ],
    spellings: QUANTITY_SPELLINGS,
};
const HEALTH_CHECK: Shape = Shape {
    of: "a health check",
    expected: "a health check, such as { port: 'http', path: '/healthz' }, or null",
    fields: &["port", "path", "interval", "timeout", "startGrace", "failures"],
    spellings: &[],
};
const RESTART: Shape = Shape {
    of: "a restart policy",
    expected: "a restart policy, such as { failures: 10, delay: '1s', delayMax: '5m' }",
    fields: &["failures", "unlimited", "delay", "delayMax"],
    spellings: &[],
};

const LABELS: &str = "labels and their values, such as { team: 'search' }";
const PORTS: &str = "a list of port names, such as ['http']";

/// The job that a value is; nothing where something is wrong with it, which is then noted.
pub(crate) fn job(value: &Json, top: &Path, found: &mut Found) -> Option<JobSpec> {
    let before = found.count();
    let fields = Fields::open(value, top.clone(), &JOB, found)?;
    fields.require("name", "name: 'hello'", found);
    fields.require("cmd", "cmd: ['bourg', 'example-server']", found);
    let name = fields.read("name", found, job_name);
    let cmd = read_cmd(&fields, found);
    let tasks = fields.read("tasks", found, quantity::whole_small).unwrap_or(1);
    let priority = fields.read("priority", found, priority);
    let appclass = fields.read("appclass", found, appclass).unwrap_or_default();
    let labels = fields.read_map("labels", LABELS, found, word).unwrap_or_default();
    let mut task = TaskSpec::of(cmd.unwrap_or_default());
    let ports = fields.read_list("ports", PORTS, found, port_name);
    task.ports = ports.unwrap_or_default().into_iter().collect::<BTreeSet<_>>();
    task.health_check = fields
        .get("healthCheck")
        .and_then(|value| health_check(value, top.field("healthCheck"), found));
    task.notice = fields.read("notice", found, quantity::span).unwrap_or(task.notice);
    let usual = Change::read(&fields, found);
    task.env = usual.env;
    task.limit = usual.limit.over(task.limit);
    task.processes = usual.processes.unwrap_or(task.processes);
    let overrides = match fields.get("overrides") {
        Some(value) => overrides(value, &top.field("overrides"), tasks, task.limit, found),
        None => BTreeMap::new(),
    };
    let restart = match fields.get("restart") {
        Some(value) => restart(value, top.field("restart"), found),
        None => RestartPolicy::default(),
    };
    if found.count() > before {
        return None;
    }
    let priority = priority.unwrap_or_else(|| Band::BestEffortBatch.usual());
    let job = JobSpec { name: name?, priority, appclass, labels, tasks, task, overrides, restart };
    problems(&job, value, top, found);
    (found.count() == before).then_some(job)
}

fn text<'j>(expected: &'static str, value: &'j Json) -> Result<&'j str, ErrorKind> {
    match value {
        Json::Text(text) => Ok(text),
        other => Err(wrong_type(expected, other)),
    }
}

fn job_name(value: &Json) -> Result<JobName, ErrorKind> {
    Ok(JobName::new(text("a name, such as 'hello'", value)?)?)
}

fn port_name(value: &Json) -> Result<PortName, ErrorKind> {
    Ok(PortName::new(text("a port's name, such as 'http'", value)?)?)
}

fn priority(value: &Json) -> Result<Priority, ErrorKind> {
    let bad = |error: PriorityError| {
        let nearest = match &error {
            PriorityError::NotOne(text) => words::nearest(text, &Band::ALL.map(Band::name)),
            PriorityError::OutOfRange(_) => None,
        };
        ErrorKind::Priority { error, nearest }
    };
    match value {
        Json::Text(text) => text.parse().map_err(bad),
        // Beyond ±2^53 every number is out of range alike.
        #[expect(clippy::cast_possible_truncation)]
        Json::Number(number) if number.fract() == 0.0 => Priority::new(*number as i64).map_err(bad),
        other => Err(wrong_type("a number from 0 to 450 or a band, such as 'production'", other)),
    }
}

fn appclass(value: &Json) -> Result<Appclass, ErrorKind> {
    let words = &["latency-sensitive", "batch"];
    let text = text("'latency-sensitive' or 'batch'", value)?;
    let is = |appclass: &Appclass| {
        // Canonical JSON writes the enumeration's own names.
        appclass.name() == text || appclass.name().replace('-', "_").to_uppercase() == text
    };
    Appclass::ALL.into_iter().find(is).ok_or_else(|| ErrorKind::UnknownWord {
        text: text.to_owned(),
        what: "an appclass",
        words,
        nearest: words::nearest(text, words),
    })
}

/// A health check without a port is none: so a template can offer one that `healthCheck+:` turns
/// on. But a field that is simply forgotten is an error.
fn health_check(value: &Json, path: Path, found: &mut Found) -> Option<HealthCheck> {
    let fields = Fields::open(value, path, &HEALTH_CHECK, found)?;
    let is_off = value.object().is_some_and(|object| object.get("port") == Some(&Json::Null));
    if !is_off {
        fields.require("port", "port: 'http'", found);
    }
    let port = fields.read("port", found, port_name);
    let path = fields
        .read("path", found, |value| text("a path, such as '/healthz'", value).map(str::to_owned));
    let interval = fields.read("interval", found, quantity::span);
    let timeout = fields.read("timeout", found, quantity::span);
    let start_grace = fields.read("startGrace", found, quantity::span);
    let failures_max = fields.read("failures", found, quantity::whole_small);
    let usual = HealthCheck::on(port?);
    Some(HealthCheck {
        path: path.unwrap_or(usual.path),
        interval: interval.unwrap_or(usual.interval),
        timeout: timeout.unwrap_or(usual.timeout),
        start_grace: start_grace.unwrap_or(usual.start_grace),
        failures_max: failures_max.unwrap_or(usual.failures_max),
        port: usual.port,
    })
}

/// A policy that names no number of failures is unlimited, as in canonical JSON.
fn restart(value: &Json, path: Path, found: &mut Found) -> RestartPolicy {
    let usual = RestartPolicy::default();
    let Some(fields) = Fields::open(value, path, &RESTART, found) else { return usual };
    let unlimited = fields.read("unlimited", found, |value| match value {
        Json::Bool(value) => Ok(*value),
        other => Err(wrong_type("true or false", other)),
    });
    let failures = fields.read("failures", found, |value| match value {
        Json::Text(text) if text == "unlimited" => Ok(None),
        Json::Text(text) if !text.starts_with(|c: char| c.is_ascii_digit()) => {
            Err(wrong_type("a number of failures, or 'unlimited'", value))
        }
        value => quantity::whole_small(value).map(Some),
    });
    let failures_max = match (unlimited, failures) {
        (Some(true), Some(Some(_))) => {
            let (one, other) = ("failures", "unlimited");
            found.add(fields.path.field(other), ErrorKind::Both { one, other });
            None
        }
        (Some(false), None) => usual.failures_max,
        (_, failures) => failures.flatten(),
    };
    RestartPolicy {
        failures_max,
        delay: fields.read("delay", found, quantity::span).unwrap_or(usual.delay),
        delay_max: fields.read("delayMax", found, quantity::span).unwrap_or(usual.delay_max),
    }
}
