//! What a change of each field means for tasks that run (paper, section 2.3). Plans and the cell
//! read this table, and a test compares it with the one in `docs/updates.md`.

mod fields;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use model::{Dimension, PackageName, PackageReference, SecretName, TaskIndex};

pub use fields::FIELDS;

use crate::difference::around;
use crate::{Cores, HealthCheck, JobSpec, MetricsPage, Probe, TaskFile};

/// The maximum number of changes that are listed for an update; more are counted.
pub const CHANGES_MAX: usize = 64;
/// The maximum length of a listed value, in characters.
const VALUE_CHARACTERS_MAX: usize = 120;
/// Arguments of a command that are shown one by one; of more, the whole command is.
const ARGUMENTS_SHOWN: usize = 8;

/// What a change of a field means for a task that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldClass {
    /// The task goes on.
    InPlace,
    /// The task goes on where it still fits its machine, and else moves to another.
    MayMove,
    /// The task is restarted, on the same machine if it fits there.
    Restart,
    /// Tasks are added or removed; the others go on.
    Size,
    /// It cannot change while the job is alive.
    Fixed,
}

impl FieldClass {
    /// What it means, for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InPlace => "in place, no restart",
            Self::MayMove => "in place where the task fits its machine, else it moves",
            Self::Restart => "restart on the same machine",
            Self::Size => "adds or removes tasks",
            Self::Fixed => "not while the job is alive",
        }
    }
}

impl fmt::Display for FieldClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A field of a description whose change has a class.
#[derive(Debug)]
pub struct Field {
    /// Its name in descriptions; for a group of them, what they have in common.
    pub name: &'static str,
    /// What a change means.
    pub class: FieldClass,
    differs: fn(&JobSpec, &JobSpec) -> bool,
}

/// The name of a field of a description: one of [`FIELDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldName(&'static str);

impl FieldName {
    /// The field of that name, if there is one.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        FIELDS.iter().find(|field| field.name == name).map(|field| Self(field.name))
    }

    /// The name, as descriptions have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

/// A change of a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldChange {
    /// The field, such as `ram`, `cmd[3]` or `env.MODE`.
    pub field: String,
    /// The old value, possibly cut; empty if there was none or it is not shown.
    pub old: String,
    /// The new value, possibly cut; empty if there is none or it is not shown.
    pub new: String,
}

/// `ram 64 MiB → 96 MiB`, `cmd[3] + --quiet`, `env.MODE`.
impl fmt::Display for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, old, new } = self;
        match (old.is_empty(), new.is_empty()) {
            (true, true) => f.write_str(field),
            (true, false) => write!(f, "{field} + {new}"),
            (false, true) => write!(f, "{field} - {old}"),
            (false, false) => write!(f, "{field} {old} → {new}"),
        }
    }
}

impl JobSpec {
    /// The fields that differ.
    pub fn differing<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'static Field> + 'a {
        FIELDS.iter().filter(|field| (field.differs)(self, other))
    }

    /// The fields that differ and cannot change while the job is alive.
    #[must_use]
    pub fn fixed_fields_changed(&self, other: &Self) -> Vec<FieldName> {
        let fixed = self.differing(other).filter(|field| field.class == FieldClass::Fixed);
        fixed.map(|field| FieldName(field.name)).collect()
    }

    /// Whether a task must be restarted to take over another description. Limits and constraints are
    /// compared where the task runs: see [`FieldClass::MayMove`].
    #[must_use]
    pub fn must_restart(&self, other: &Self, index: TaskIndex) -> bool {
        if self.appclass != other.appclass {
            return true;
        }
        let plain = |spec: &Self| !spec.overrides.contains_key(&index);
        if plain(self) && plain(other) {
            return self.task.must_restart(&other.task);
        }
        self.task(index).must_restart(&other.task(index))
    }

    /// The changes from this description to another, with their values: at most [`CHANGES_MAX`].
    /// Values of variables are never shown, since they may be secret.
    #[must_use]
    pub fn changes(&self, other: &Self) -> Vec<(FieldChange, FieldClass)> {
        let mut found = Vec::new();
        for field in self.differing(other) {
            let mut add = |name: &str, old: String, new: String| {
                let (old, new) = around(&old, &new, VALUE_CHARACTERS_MAX);
                let change = FieldChange { field: name.to_owned(), old: cut(&old), new: cut(&new) };
                found.push((change, field.class));
            };
            let (one, two) = (&self.task, &other.task);
            match field.name {
                "tasks" => add("tasks", self.tasks.to_string(), other.tasks.to_string()),
                "priority" => {
                    add("priority", self.priority.to_string(), other.priority.to_string());
                }
                "schedulingClass" => {
                    let (old, new) = (self.scheduling_class, other.scheduling_class);
                    add("schedulingClass", old.number().to_string(), new.number().to_string());
                }
                "appclass" => {
                    let (old, new) = (self.appclass.name(), other.appclass.name());
                    add("appclass", old.to_owned(), new.to_owned());
                }
                "estimation" => {
                    add("estimation", self.estimation.to_string(), other.estimation.to_string());
                }
                "autoscale" => {
                    add("autoscale", self.autoscale.to_string(), other.autoscale.to_string());
                }
                "cpu" | "ram" | "disk" | "diskRate" => {
                    let of = |spec: &Self| {
                        let dimension = match field.name {
                            "cpu" => Dimension::Cpu,
                            "ram" => Dimension::Ram,
                            "disk" => Dimension::Disk,
                            _ => Dimension::DiskRate,
                        };
                        dimension.show(spec.task.limit.get(dimension))
                    };
                    add(field.name, of(self), of(other));
                }
                "gang" => add("gang", self.batch.gang.to_string(), other.batch.gang.to_string()),
                "requeue" => {
                    add(
                        field.name,
                        self.batch.requeue.to_string(),
                        other.batch.requeue.to_string(),
                    );
                }
                "atOnce" => {
                    add(field.name, shown(self.batch.at_once), shown(other.batch.at_once));
                }
                "maxRuntime" => {
                    add(field.name, shown(self.batch.max_runtime), shown(other.batch.max_runtime));
                }
                "expectedRuntime" => {
                    let (old, new) = (self.batch.expected_runtime, other.batch.expected_runtime);
                    add(field.name, shown(old), shown(new));
                }
                "scheduler" => {
                    let (old, new) = (self.scheduler.as_ref(), other.scheduler.as_ref());
                    add(field.name, shown(old), shown(new));
                }
                "labels" => {
                    map(&self.labels, &other.labels, |key, old, new| {
                        let text = |value: Option<&String>| value.cloned().unwrap_or_default();
                        add(&format!("labels.{key}"), text(old), text(new));
                    });
                }
                "env" => map(&one.env, &two.env, |key, _, _| {
                    add(&format!("env.{key}"), String::new(), String::new());
                }),
                "files" => map(&one.files, &two.files, |key, old, new| {
                    let (was, mut is) = (file(old), file(new));
                    if was == is {
                        is += ", other content";
                    }
                    add(&format!("files[{key}]"), was, is);
                }),
                "secrets" => map(&one.secrets, &two.secrets, |key, old, new| {
                    add(&format!("secrets[{key}]"), secret(old), secret(new));
                }),
                "secretEnv" => map(&one.secret_env, &two.secret_env, |key, old, new| {
                    add(&format!("secretEnv.{key}"), secret(old), secret(new));
                }),
                "cmd" => elements(&one.cmd, &two.cmd, |name, old, new| add(name, old, new)),
                "image" => {
                    let text = |image: &Option<PackageReference>| {
                        image.as_ref().map(ToString::to_string).unwrap_or_default()
                    };
                    add("image", text(&one.image), text(&two.image));
                }
                "packages" => packages(one, two, add),
                "ports" => add("ports", ports(one), ports(two)),
                "network" => {
                    let (old, new) = (one.network.name(), two.network.name());
                    add("network", old.to_owned(), new.to_owned());
                }
                "processes" => {
                    add("processes", one.processes.to_string(), two.processes.to_string());
                }
                "notice" => add("notice", one.notice.to_string(), two.notice.to_string()),
                "cores" => {
                    let (old, new) = (one.cores.name(), two.cores.name());
                    add("cores", old.to_owned(), new.to_owned());
                }
                "cpuSlack" => {
                    add("cpuSlack", one.cpu_slack.to_string(), two.cpu_slack.to_string());
                }
                "api" => add("api", one.api.to_string(), two.api.to_string()),
                "memorySlack" => {
                    add(field.name, one.memory_slack.to_string(), two.memory_slack.to_string());
                }
                "healthCheck" | "readiness" => {
                    let of = |task: &crate::TaskSpec| match field.name {
                        "readiness" => task.readiness.clone(),
                        _ => task.health_check.clone(),
                    };
                    match (of(one).as_ref(), of(two).as_ref()) {
                        (Some(old), Some(new)) => {
                            values(field.name, check_values(old), check_values(new), add);
                        }
                        (old, new) => add(field.name, check(old), check(new)),
                    }
                }
                "constraints" => {
                    let text = |spec: &crate::TaskSpec| {
                        let all = spec.constraints.iter().map(ToString::to_string);
                        all.collect::<Vec<_>>().join(", ")
                    };
                    add("constraints", text(one), text(two));
                }
                "disruptions" => {
                    let (old, new) = (self.disruptions.values(), other.disruptions.values());
                    values(field.name, old, new, add);
                }
                "update" => {
                    values(field.name, self.update.values(), other.update.values(), add);
                }
                "onChange" => {
                    add(
                        field.name,
                        one.on_change.name().to_owned(),
                        two.on_change.name().to_owned(),
                    );
                }
                "saver" => add(field.name, saver(one), saver(two)),
                "metrics" => {
                    let (old, new) = (self.metrics.as_ref(), other.metrics.as_ref());
                    add(field.name, page(old), page(new));
                }
                "volumes" => add(field.name, volumes(one), volumes(two)),
                "outputs" => add(field.name, one.outputs.to_string(), two.outputs.to_string()),
                "keepOutputs" => {
                    let (old, new) = (one.outputs.kept_for(), two.outputs.kept_for());
                    add(field.name, old.to_string(), new.to_string());
                }
                "scratch" => {
                    let text = |of: &crate::TaskSpec| {
                        of.scratch.map(|size| size.to_string()).unwrap_or_default()
                    };
                    add(field.name, text(one), text(two));
                }
                "logs" => add(field.name, one.logs.to_string(), two.logs.to_string()),
                "restart" if self.restart.when != other.restart.when => {
                    let (old, new) = (self.restart.when, other.restart.when);
                    add("restart.policy", old.to_string(), new.to_string());
                }
                name => add(name, String::new(), String::new()),
            }
        }
        found.truncate(CHANGES_MAX);
        found
    }
}

/// A value in words; empty if there is none.
fn shown<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn volumes(task: &crate::TaskSpec) -> String {
    task.volumes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl crate::TaskSpec {
    fn must_restart(&self, other: &Self) -> bool {
        self.cmd != other.cmd
            || self.image != other.image
            || self.packages != other.packages
            || self.env != other.env
            || self.files != other.files
            || self.secrets != other.secrets
            || self.secret_env != other.secret_env
            || self.processes != other.processes
            || self.cores != other.cores
            || self.cpu_slack != other.cpu_slack
            // Its cores are chosen when it starts.
            || self.cores == Cores::Exclusive && self.limit.cpu != other.limit.cpu
            || self.ports != other.ports
            || self.network != other.network
            || self.static_ports != other.static_ports
            || self.health_check != other.health_check
            || self.readiness != other.readiness
            || self.notice != other.notice
            || self.volumes != other.volumes
            || self.outputs != other.outputs
            || self.scratch != other.scratch
            || self.kernel_features != other.kernel_features
            || self.api != other.api
            || self.memory_slack != other.memory_slack
            // An alloc runs no program that could be restarted.
            || self.runs_program() && self.saver != other.saver
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn map<T: PartialEq>(
    old: &BTreeMap<String, T>,
    new: &BTreeMap<String, T>,
    mut each: impl FnMut(&str, Option<&T>, Option<&T>),
) {
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for key in keys.into_iter().filter(|key| old.get(*key) != new.get(*key)).take(CHANGES_MAX) {
        each(key, old.get(key), new.get(key));
    }
}

/// A file in words, without its content, which may be secret.
fn file(file: Option<&TaskFile>) -> String {
    file.map(|file| format!("{} bytes, mode {}", file.content.len(), file.mode)).unwrap_or_default()
}

fn secret(name: Option<&SecretName>) -> String {
    name.map(ToString::to_string).unwrap_or_default()
}

/// The packages that differ, each by its name with both versions.
fn packages(
    old: &crate::TaskSpec,
    new: &crate::TaskSpec,
    mut each: impl FnMut(&str, String, String),
) {
    let names: BTreeSet<&PackageName> =
        old.packages.iter().chain(&new.packages).map(|package| &package.name).collect();
    let of = |task: &crate::TaskSpec, name: &PackageName| {
        let package = task.packages.iter().find(|package| package.name == *name);
        package.map(ToString::to_string).unwrap_or_default()
    };
    for name in names {
        let (old, new) = (of(old, name), of(new, name));
        if old != new {
            each("packages", old, new);
        }
    }
}

/// The elements of a command that differ, if little does; else the whole.
fn elements(old: &[String], new: &[String], mut each: impl FnMut(&str, String, String)) {
    let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let after = old[same..].iter().rev().zip(new[same..].iter().rev());
    let after = after.take_while(|(a, b)| a == b).count();
    let (gone, come) = (&old[same..old.len() - after], &new[same..new.len() - after]);
    let several = gone.len() > 1 || come.len() > 1;
    if several && gone.len() == come.len() {
        // Each argument that differs, unless nearly all do.
        let differs = |(_, (old, new)): &(usize, (&String, &String))| old != new;
        let differing: Vec<_> = gone.iter().zip(come).enumerate().filter(differs).collect();
        if differing.len() <= ARGUMENTS_SHOWN {
            for (place, (old, new)) in differing {
                each(&format!("cmd[{}]", same + place), old.clone(), new.clone());
            }
            return;
        }
    }
    if several {
        return each("cmd", old.join(" "), new.join(" "));
    }
    let one = |elements: &[String]| elements.first().cloned().unwrap_or_default();
    each(&format!("cmd[{same}]"), one(gone), one(come));
}

/// The values that differ of a field with several.
fn values<const N: usize>(
    field: &str,
    old: [(&str, String); N],
    new: [(&str, String); N],
    mut each: impl FnMut(&str, String, String),
) {
    for ((name, old), (_, new)) in old.into_iter().zip(new).filter(|(old, new)| old != new) {
        each(&format!("{field}.{name}"), old, new);
    }
}

fn saver(task: &crate::TaskSpec) -> String {
    task.saver.as_ref().map(|saver| saver.cmd.join(" ")).unwrap_or_default()
}

/// The names of a task's ports, with those numbers that the description gives.
fn ports(task: &crate::TaskSpec) -> String {
    let names = task.ports.iter().map(ToString::to_string);
    let numbers = task.numbers().map(|(name, number)| format!("{name}: {number}"));
    names.chain(numbers).collect::<Vec<_>>().join(", ")
}

/// The settings of a health check, by their names.
fn check_values(check: &HealthCheck) -> [(&'static str, String); 6] {
    let HealthCheck { probe, interval, timeout, start_grace, .. } = check;
    let probe = match probe {
        Probe::Http { port, path } => format!("{path} on {port}"),
        Probe::Tcp { port } => format!("a connection to {port}"),
        Probe::Exec { cmd } => cmd.join(" "),
    };
    [
        ("probe", probe),
        ("interval", interval.to_string()),
        ("timeout", timeout.to_string()),
        ("startGrace", start_grace.to_string()),
        ("failures", check.failures_max.to_string()),
        ("successes", check.successes_min.to_string()),
    ]
}

fn check(check: Option<&HealthCheck>) -> String {
    check.map_or_else(String::new, |check| {
        let [(_, probe), (_, interval), others @ ..] = check_values(check);
        let others = others.map(|(name, value)| format!("{name} {value}"));
        format!("{probe} every {interval}, {}", others.join(", "))
    })
}

fn page(page: Option<&MetricsPage>) -> String {
    page.map_or_else(String::new, |MetricsPage { port, path }| format!("{path} on {port}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TaskOverride;
    use crate::testing::job;
    use crate::{Constraint, Relation, RestartWhen};
    use model::{Band, Bytes, PortName, SchedulingClass};

    type Change = fn(&mut JobSpec);

    #[test]
    fn each_change_has_its_class_and_its_text() {
        let table: &[(Change, &str)] = &[
            (|_| {}, ""),
            (
                |job| job.priority = Band::Free.usual(),
                "priority production(200) → free(25): in place where the task fits its machine, else it moves",
            ),
            (
                |job| job.scheduling_class = SchedulingClass::default(),
                "schedulingClass 2 → 0: in place, no restart",
            ),
            (
                |job| drop(job.labels.insert("team".to_owned(), "search".to_owned())),
                "labels.team + search: in place, no restart",
            ),
            (
                |job| job.autoscale = crate::Autoscale::Full,
                "autoscale off → full: in place, no restart",
            ),
            (|job| job.restart.failures_max = None, "restart: in place, no restart"),
            (
                |job| {
                    let port = PortName::new("http").expect("a name");
                    job.task.network = crate::Network::Own { ports: [(port, 80)].into() };
                },
                "ports + http: 80: restart on the same machine; network host → own: restart on the same machine",
            ),
            (
                |job| job.restart.when = RestartWhen::Always,
                "restart.policy on-failure → always: in place, no restart",
            ),
            (
                |job| {
                    let port = PortName::new("http").expect("a name");
                    job.metrics = Some(MetricsPage::on(port));
                },
                "metrics + /metrics on http: in place, no restart",
            ),
            (
                |job| job.task.logs.keep = Some(model::Span::from_secs(7_200)),
                "logs + keep 2 h: in place, no restart",
            ),
            (
                |job| {
                    let cmd = vec!["check".to_owned(), "--all".to_owned()];
                    job.task.health_check = Some(HealthCheck::of(Probe::Exec { cmd }));
                },
                "healthCheck + check --all every 1 s, timeout 5 s, startGrace 30 s, failures 3, successes 1: restart on the same machine",
            ),
            (
                |job| job.task.on_change = crate::OnChange::Restart,
                "onChange nothing → restart: in place, no restart",
            ),
            (
                |job| job.disruptions.at_once = Some(2),
                "disruptions.atOnce default → 2: in place, no restart",
            ),
            (
                |job| job.task.limit.ram = Bytes(96 << 20),
                "ram 64 MiB → 96 MiB: in place where the task fits its machine, else it moves",
            ),
            (
                |job| {
                    job.task.constraints.push(Constraint {
                        attribute: "gpu".to_owned(),
                        relation: Relation::Present,
                        value: String::new(),
                        hard: true,
                    });
                },
                "constraints + gpu is present: in place where the task fits its machine, else it moves",
            ),
            (
                |job| job.task.cmd.push("--quiet".to_owned()),
                "cmd[2] + --quiet: restart on the same machine",
            ),
            (
                |job| job.task.cmd = vec!["other".to_owned()],
                "cmd server --port=${port.http} → other: restart on the same machine",
            ),
            (
                |job| drop(job.task.env.insert("TOKEN".to_owned(), "secret".to_owned())),
                "env.TOKEN: restart on the same machine",
            ),
            (|job| job.tasks += 1, "tasks 3 → 4: adds or removes tasks"),
            (|job| job.parent = "boss".parse().ok(), "parent: not while the job is alive"),
        ];
        for (change, text) in table {
            let mut other = job();
            change(&mut other);
            let changes = job().changes(&other);
            let said: Vec<_> =
                changes.iter().map(|(change, class)| format!("{change}: {class}")).collect();
            assert_eq!(said.join("; "), *text);
        }
    }

    #[test]
    fn every_field_of_the_table_has_another_name() {
        let names: BTreeSet<_> = FIELDS.iter().map(|field| field.name).collect();
        assert_eq!(names.len(), FIELDS.len());
    }

    #[test]
    fn only_the_tasks_with_an_override_restart_for_it() {
        let mut other = job();
        let change = TaskOverride { processes: Some(3), ..TaskOverride::default() };
        other.overrides.insert(TaskIndex(1), change);
        assert!(!job().must_restart(&other, TaskIndex(0)));
        assert!(job().must_restart(&other, TaskIndex(1)));
        let names: Vec<_> = job().differing(&other).map(|field| field.name).collect();
        assert_eq!(names, ["overrides.processes"]);
        other.overrides.clear();
        assert!(!job().must_restart(&other, TaskIndex(1)));
        other.tasks = 1;
        other.overrides.insert(TaskIndex(2), TaskOverride::default());
        assert_eq!(job().fixed_fields_changed(&other), []);
    }

    /// The page says of each field what a change of it means, as plans and the cell decide it.
    #[test]
    fn the_table_of_fields_is_the_one_that_updates_follow() {
        let page = include_str!("../../../../docs/updates.md");
        let (_, section) =
            page.split_once("\n## What a change of a field does").expect("the section");
        let rows = [
            (FieldClass::InPlace, "| in place, no restart |"),
            (FieldClass::MayMove, "| in place where the task fits its machine"),
            (FieldClass::Restart, "| restart on the same machine"),
            (FieldClass::Size, "| adds or removes tasks"),
            (FieldClass::Fixed, "| rejected while the job is alive"),
        ];
        for (class, begins) in rows {
            let rows = section.lines().filter(|line| line.starts_with(begins));
            let cells = rows.map(|row| row.split(" | ").nth(1).expect("a second column"));
            let mut listed: Vec<&str> =
                cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
            // An override has the class of what it overrides.
            let of_class = FIELDS.iter().filter(|field| field.class == class);
            let own =
                of_class.map(|field| field.name).filter(|name| !name.starts_with("overrides."));
            let mut own: Vec<&str> = own.collect();
            own.sort_unstable();
            listed.sort_unstable();
            assert_eq!(listed, own, "{begins}");
        }
    }
}
