//! The fields that jobs and overrides share, and the overrides of individual tasks.

use std::collections::{BTreeMap, BTreeSet};

use model::{Bytes, MilliCores, PortName, Resources, Span, TaskIndex, TaskSelection};
use spec::limits::TASKS_MAX;
use spec::{Constraint, HealthCheck, Path, Probe, ProblemKind, TaskOverride, TaskSpec};

use crate::constraints::constraints;
use crate::error::ErrorKind;
use crate::fields::{Diagnostics, Fields, Shape, Spelling};
use crate::health::{self, health_check, port_name};
use crate::json::Json;
use crate::limits;
use crate::quantity::{self, CMD, word, wrong_type};

const OVERRIDE: Shape = Shape {
    of: "an override",
    expected: "the fields that differ in these tasks, such as { ram: '1 GiB' }",
    fields: &[
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
        "constraints",
    ],
    spellings: QUANTITY_SPELLINGS,
};
const OVERRIDES: &str = "overrides by task, such as { '3': { ram: '1 GiB' }, '5-9': { cpu: 2 } }";
const ENV: &str = "variables and their values, such as { LANG: 'C' }";
const LABELS: &str = "labels and their values, such as { team: 'search' }";
const PORTS: &str = "a list of port names, such as ['http']";
/// The canonical JSON spellings of the quantities.
const QUANTITY_SPELLINGS: &[&str] = &["cpuMilli", "ramBytes", "diskBytes", "diskRateBytes"];

/// The fields that a job and an override share.
pub(crate) struct JobFields {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) cmd: Option<Vec<String>>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) limit: Limit,
    pub(crate) processes: Option<u32>,
    pub(crate) ports: Option<BTreeSet<PortName>>,
    pub(crate) health_check: Option<HealthCheck>,
    pub(crate) notice: Option<Span>,
    pub(crate) constraints: Option<Vec<Constraint>>,
}

/// The limits that are set.
pub(crate) struct Limit {
    cpu: Option<MilliCores>,
    ram: Option<Bytes>,
    disk: Option<Bytes>,
    disk_rate: Option<Bytes>,
}

impl JobFields {
    /// Reads the fields, without `ports` unless these are a list of names.
    pub(crate) fn read(fields: &Fields<'_>, lists_ports: bool, found: &mut Diagnostics) -> Self {
        let mut bytes = |one, other| {
            fields.read_either(
                &Spelling { name: one, read: quantity::bytes },
                &Spelling { name: other, read: quantity::whole_bytes },
                found,
            )
        };
        let ram = bytes("ram", "ramBytes");
        let disk = bytes("disk", "diskBytes");
        let disk_rate = bytes("diskRate", "diskRateBytes");
        let cpu = fields.read_either(
            &Spelling { name: "cpu", read: quantity::cores },
            &Spelling { name: "cpuMilli", read: quantity::milli_cores },
            found,
        );
        let limit = Limit { cpu, ram, disk, disk_rate };
        let ports = lists_ports.then(|| fields.read_list("ports", PORTS, found, port_name));
        let health_check = fields
            .get("healthCheck")
            .and_then(|value| health_check(value, fields.path.field("healthCheck"), found));
        let constraints = fields
            .get("constraints")
            .map(|value| constraints(value, &fields.path.field("constraints"), found));
        Self {
            labels: fields.read_map("labels", LABELS, found, word).unwrap_or_default(),
            cmd: fields.read_list("cmd", CMD, found, word),
            env: fields.read_map("env", ENV, found, word).unwrap_or_default(),
            limit,
            processes: fields.read("processes", found, quantity::whole_small),
            ports: ports.flatten().map(|ports| ports.into_iter().collect()),
            health_check,
            notice: fields.read("notice", found, quantity::span),
            constraints,
        }
    }
}

impl JobFields {
    /// Converts to an override of tasks with the given default limits.
    fn over(self, usual: Resources) -> TaskOverride {
        TaskOverride {
            cmd: self.cmd,
            env: self.env,
            limit: self.limit.is_given().then(|| self.limit.over(usual)),
            processes: self.processes,
            ports: self.ports,
            health_check: self.health_check,
            notice: self.notice,
            constraints: self.constraints,
            labels: self.labels,
        }
    }
}

impl Limit {
    /// These limits, with defaults for those not set.
    pub(crate) fn over(&self, usual: Resources) -> Resources {
        Resources {
            cpu: self.cpu.unwrap_or(usual.cpu),
            ram: self.ram.unwrap_or(usual.ram),
            disk: self.disk.unwrap_or(usual.disk),
            disk_rate: self.disk_rate.unwrap_or(usual.disk_rate),
        }
    }

    fn is_given(&self) -> bool {
        self.cpu.is_some() || self.ram.is_some() || self.disk.is_some() || self.disk_rate.is_some()
    }
}

/// The overrides of a job with `tasks` tasks; `usual` is the description without overrides.
pub(crate) fn overrides(
    value: &Json,
    path: &Path,
    tasks: u32,
    usual: &TaskSpec,
    found: &mut Diagnostics,
) -> BTreeMap<TaskIndex, TaskOverride> {
    let mut overrides = BTreeMap::new();
    let Some(object) = value.object() else {
        found.add(path.clone(), wrong_type(OVERRIDES, value));
        return overrides;
    };
    let mut keys: BTreeMap<TaskIndex, &str> = BTreeMap::new();
    let mut bytes_left = limits::OVERRIDE_BYTES_MAX;
    for (key, value) in object.iter().filter(|(_, value)| **value != Json::Null) {
        let at = path.key(key);
        let ranges = match key.parse() {
            Ok(TaskSelection::Some(ranges)) => ranges,
            Ok(TaskSelection::All) => Vec::new(),
            Err(error) => {
                found.add(at, ErrorKind::Tasks(error));
                continue;
            }
        };
        let Some(fields) = Fields::open(value, at.clone(), &OVERRIDE, found) else { continue };
        // A null counts as absent everywhere, but one that was meant to disable the check must not
        // be ignored silently.
        let check = value.object().and_then(|fields| fields.get("healthCheck"));
        if usual.health_check.is_some() && check.is_some_and(health::is_off) {
            found.add(at.field("healthCheck"), ErrorKind::HealthCheckStays);
        }
        let change = JobFields::read(&fields, true, found).over(usual.limit);
        let bytes = size(&change);
        for (from, to) in ranges {
            // An invalid number of tasks is reported elsewhere.
            let (index, last) = (to.0, tasks.clamp(1, TASKS_MAX) - 1);
            if index > last {
                let kind = ProblemKind::NoSuchTask { index, last };
                found.add(at.clone(), ErrorKind::Problem(kind));
                break;
            }
            for index in from.0..=to.0 {
                if let Some(other) = keys.insert(TaskIndex(index), key) {
                    let other = other.to_owned();
                    found.add(at, ErrorKind::OverriddenTwice { index, other });
                    return overrides;
                }
                let Some(left) = bytes_left.checked_sub(bytes) else {
                    found.add(path.clone(), ErrorKind::OverridesTooLarge);
                    return overrides;
                };
                bytes_left = left;
                overrides.insert(TaskIndex(index), change.clone());
            }
        }
    }
    overrides
}

fn check_texts(check: &HealthCheck) -> &[String] {
    match &check.probe {
        Probe::Http { path, .. } => std::slice::from_ref(path),
        Probe::Tcp { .. } => &[],
        Probe::Exec { cmd } => cmd,
    }
}

/// Bytes of text in an override, which is stored for each of its tasks. Empty entries count too.
fn size(change: &TaskOverride) -> usize {
    let cmd = change.cmd.iter().flatten();
    let maps = change.env.iter().chain(&change.labels).flat_map(|(name, value)| [name, value]);
    let constraints = change.constraints.iter().flatten();
    let constraints = constraints.flat_map(|each| [&each.attribute, &each.value]);
    let check = change.health_check.iter().flat_map(check_texts);
    let texts: usize =
        cmd.chain(maps).chain(constraints).chain(check).map(|text| text.len() + 1).sum();
    let checked = change.health_check.iter().filter_map(HealthCheck::port);
    let ports = change.ports.iter().flatten().chain(checked);
    texts + ports.map(|port| port.as_str().len() + 1).sum::<usize>()
}
