//! What the tasks of a job have in common, and what is different in single ones.

use std::collections::BTreeMap;

use model::{Bytes, MilliCores, Resources, TaskIndex, TaskSelection};
use spec::limits::TASKS_MAX;
use spec::{Path, ProblemKind, TaskOverride};

use crate::error::ErrorKind;
use crate::fields::{Fields, Found, Shape};
use crate::json::Json;
use crate::limits;
use crate::quantity::{self, wrong_type};

const OVERRIDE: Shape = Shape {
    of: "an override",
    expected: "the fields that differ in these tasks, such as { ram: '1 GiB' }",
    fields: &["cmd", "env", "cpu", "ram", "disk", "diskRate", "processes"],
    spellings: QUANTITY_SPELLINGS,
};
const OVERRIDES: &str = "overrides by task, such as { '3': { ram: '1 GiB' }, '5-9': { cpu: 2 } }";
const ENV: &str = "variables and their values, such as { LANG: 'C' }";
const CMD: &str = "a list of texts, such as ['bourg', 'example-server']";
/// The quantities in the spelling of canonical JSON.
pub(crate) const QUANTITY_SPELLINGS: &[&str] =
    &["cpuMilli", "ramBytes", "diskBytes", "diskRateBytes"];

/// An argument or the value of a variable: numbers and booleans are written as text, for flags
/// often are numbers.
pub(crate) fn word(value: &Json) -> Result<String, ErrorKind> {
    match value {
        Json::Text(text) => Ok(text.clone()),
        Json::Number(number) => Ok(quantity::number_text(*number)),
        Json::Bool(value) => Ok(value.to_string()),
        other => Err(wrong_type("a text, a number or a boolean", other)),
    }
}

/// A command.
pub(crate) fn read_cmd(fields: &Fields<'_>, found: &mut Found) -> Option<Vec<String>> {
    fields.read_list("cmd", CMD, found, word)
}

/// What a job and an override have in common.
pub(crate) struct Change {
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) limit: Limit,
    pub(crate) processes: Option<u32>,
}

/// The limits that are given.
pub(crate) struct Limit {
    cpu: Option<MilliCores>,
    ram: Option<Bytes>,
    disk: Option<Bytes>,
    disk_rate: Option<Bytes>,
}

impl Change {
    pub(crate) fn read(fields: &Fields<'_>, found: &mut Found) -> Self {
        let mut bytes = |one, other| {
            fields.read_either((one, quantity::bytes), (other, quantity::whole_bytes), found)
        };
        let ram = bytes("ram", "ramBytes");
        let disk = bytes("disk", "diskBytes");
        let disk_rate = bytes("diskRate", "diskRateBytes");
        let cpu = fields.read_either(
            ("cpu", quantity::cores),
            ("cpuMilli", quantity::milli_cores),
            found,
        );
        Self {
            env: fields.read_map("env", ENV, found, word).unwrap_or_default(),
            limit: Limit { cpu, ram, disk, disk_rate },
            processes: fields.read("processes", found, quantity::whole_small),
        }
    }
}

impl Limit {
    /// These limits, and the usual ones where none is given.
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

/// The overrides of a job with so many tasks and such usual limits.
pub(crate) fn overrides(
    value: &Json,
    path: &Path,
    tasks: u32,
    usual: Resources,
    found: &mut Found,
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
        let cmd = read_cmd(&fields, found);
        let change = Change::read(&fields, found);
        let limit = change.limit.is_given().then(|| change.limit.over(usual));
        let change = TaskOverride { cmd, env: change.env, limit, processes: change.processes };
        let bytes = size(&change);
        for (from, to) in ranges {
            // A number of tasks that is itself wrong is told elsewhere.
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

/// Bytes of an override that are kept for each of its tasks.
fn size(change: &TaskOverride) -> usize {
    let cmd = change.cmd.iter().flatten().map(String::len);
    let env = change.env.iter().map(|(name, value)| name.len() + value.len());
    cmd.chain(env).sum()
}
