//! The ports of a job's tasks. A job may have as many overrides as tasks, and long texts in its
//! command and environment. Therefore nothing here copies the texts, and code that needs the ports
//! of every task scans the job's own texts once.

use std::collections::{BTreeMap, BTreeSet};

use model::{PortName, TaskIndex};

use crate::template::{self, Reference};
use crate::{HealthCheck, JobSpec, TaskOverride, TaskSpec};

impl TaskSpec {
    /// All ports of the task, ordered by name: those it lists or numbers, those it refers to, and
    /// those its checks use.
    #[must_use]
    pub fn all_ports(&self) -> BTreeSet<PortName> {
        let texts = self.cmd.iter().chain(self.env.values()).map(String::as_str);
        let referred = texts.chain(self.file_texts()).flat_map(referred);
        let checked = self.health_check.iter().chain(&self.readiness).flat_map(checked);
        let numbered = self.numbers().map(|(name, _)| name.clone());
        self.ports.iter().cloned().chain(numbered).chain(referred).chain(checked).collect()
    }
}

impl TaskSpec {
    /// The ports with numbers that the description gives: all of them in a network of its own, and
    /// those with static numbers in the host's.
    pub fn numbers(&self) -> impl Iterator<Item = (&PortName, &u16)> {
        self.network.numbers().iter().chain(&self.static_ports)
    }

    /// The texts of its files.
    fn file_texts(&self) -> impl Iterator<Item = &str> {
        self.files.values().filter_map(|file| file.content.text())
    }
}

impl TaskOverride {
    /// Whether the override may change the task's ports.
    #[must_use]
    pub fn touches_ports(&self) -> bool {
        self.changes_ports_of_texts() || self.health_check.is_some()
    }

    /// The same without the health check's ports, which validation does not count.
    pub(crate) fn changes_ports_of_texts(&self) -> bool {
        self.cmd.is_some() || self.ports.is_some() || !self.env.is_empty()
    }
}

impl JobSpec {
    /// Every port of the task at an index: [`TaskSpec::all_ports`] of [`JobSpec::task`].
    #[must_use]
    pub fn ports(&self, index: TaskIndex) -> BTreeSet<PortName> {
        let Some(change) = self.overrides.get(&index) else { return self.task.all_ports() };
        let listed = change.ports.as_ref().unwrap_or(&self.task.ports);
        let cmd = change.cmd.as_ref().unwrap_or(&self.task.cmd);
        let kept = self.task.env.iter().filter(|(name, _)| !change.env.contains_key(*name));
        let env = kept.map(|(_, value)| value).chain(change.env.values());
        let texts = cmd.iter().chain(env).map(String::as_str).chain(self.task.file_texts());
        let referred = texts.flat_map(referred);
        let checks = self.health_check(index).into_iter().chain(&self.task.readiness);
        let checked = checks.flat_map(checked);
        let numbered = self.task.numbers().map(|(name, _)| name.clone());
        listed.iter().cloned().chain(numbered).chain(referred).chain(checked).collect()
    }
}

/// The ports that a health check uses.
fn checked(check: &HealthCheck) -> impl Iterator<Item = PortName> {
    let referred = check.cmd().iter().flat_map(|text| referred(text));
    check.port().cloned().into_iter().chain(referred)
}

/// The ports that a text refers to.
fn referred(text: &str) -> impl Iterator<Item = PortName> {
    template::references(text).filter_map(|(_, found)| match found {
        Ok(Reference::Port(name)) => Some(name),
        _ => None,
    })
}

/// The ports of a task without override, each with its sources.
pub(crate) struct UsualPorts<'a> {
    ports: BTreeMap<PortName, Sources>,
    /// The ports to which each variable refers; variables without references are omitted.
    variables: BTreeMap<&'a str, BTreeSet<PortName>>,
}

/// The sources of a port.
#[derive(Default)]
struct Sources {
    listed: bool,
    /// No override takes it away.
    fixed: bool,
    cmd: bool,
    checked: bool,
    /// The number of variables that refer to it.
    variables: usize,
}

impl<'a> UsualPorts<'a> {
    pub(crate) fn of(task: &'a TaskSpec) -> Self {
        let mut ports: BTreeMap<PortName, Sources> = BTreeMap::new();
        let mut variables: BTreeMap<&str, BTreeSet<PortName>> = BTreeMap::new();
        for name in &task.ports {
            ports.entry(name.clone()).or_default().listed = true;
        }
        for (name, _) in task.numbers() {
            ports.entry(name.clone()).or_default().fixed = true;
        }
        for name in task.cmd.iter().flat_map(|text| referred(text)) {
            ports.entry(name).or_default().cmd = true;
        }
        for name in task.file_texts().flat_map(referred) {
            ports.entry(name).or_default().fixed = true;
        }
        if let Some(check) = &task.health_check {
            for name in checked(check) {
                ports.entry(name).or_default().checked = true;
            }
        }
        for name in task.readiness.iter().flat_map(checked) {
            ports.entry(name).or_default().fixed = true;
        }
        for (variable, text) in &task.env {
            let names: BTreeSet<PortName> = referred(text).collect();
            for name in &names {
                ports.entry(name.clone()).or_default().variables += 1;
            }
            if !names.is_empty() {
                variables.insert(variable, names);
            }
        }
        Self { ports, variables }
    }

    /// The number of ports.
    pub(crate) fn count(&self) -> usize {
        self.ports.len()
    }

    /// Whether the task has a port.
    pub(crate) fn has(&self, name: &PortName) -> bool {
        self.ports.contains_key(name)
    }

    /// The names of the ports, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &PortName> {
        self.ports.keys()
    }

    /// The names of the ports to which an override refers.
    pub(crate) fn names_of(&self, change: &TaskOverride) -> BTreeSet<PortName> {
        self.with(change).0
    }

    /// The number of ports with an override applied.
    pub(crate) fn count_with(&self, change: &TaskOverride) -> usize {
        let (own, kept) = self.with(change);
        own.len() + kept.len()
    }

    /// Whether the task has a port with an override applied.
    pub(crate) fn has_with(&self, change: &TaskOverride, name: &PortName) -> bool {
        let (own, kept) = self.with(change);
        own.contains(name) || kept.contains(&name)
    }

    /// The ports of an override, and those that the task keeps with it.
    fn with(&self, change: &TaskOverride) -> (BTreeSet<PortName>, Vec<&PortName>) {
        let texts = change.cmd.iter().flatten().chain(change.env.values());
        let mut own: BTreeSet<PortName> = texts.flat_map(|text| referred(text)).collect();
        own.extend(change.ports.iter().flatten().cloned());
        own.extend(change.health_check.iter().flat_map(checked));

        let mut replaced: BTreeMap<&PortName, usize> = BTreeMap::new();
        let variables = change.env.keys().filter_map(|name| self.variables.get(name.as_str()));
        for name in variables.flatten() {
            *replaced.entry(name).or_default() += 1;
        }
        let kept = self.ports.iter().filter(|(name, from)| {
            let stays = from.fixed
                || (from.listed && change.ports.is_none())
                || (from.cmd && change.cmd.is_none())
                || (from.checked && change.health_check.is_none())
                || from.variables > replaced.get(name).copied().unwrap_or_default();
            stays && !own.contains(*name)
        });
        let kept = kept.map(|(name, _)| name).collect();
        (own, kept)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::testing::job;
    use crate::{HealthCheck, Probe, limits};

    fn name(text: &str) -> PortName {
        PortName::new(text).expect("a name")
    }

    /// Each of these changes alone, every pair, and all together, over base jobs with ports from
    /// one source or several.
    #[test]
    fn the_ports_with_an_override_are_those_of_the_task_with_it() {
        type Change<T> = fn(&mut T);
        let bases: [Change<TaskSpec>; 8] = [
            |task| task.cmd = vec!["${port.a} ${port.b}".to_owned(), "${port.a}".to_owned()],
            |task| drop(task.env.insert("X".to_owned(), "${port.a}${port.c}".to_owned())),
            |task| drop(task.env.insert("Y".to_owned(), "${port.a} ${port.d}".to_owned())),
            |task| drop(task.env.insert("Z".to_owned(), "none".to_owned())),
            |task| task.ports.extend(["a", "e"].map(name)),
            |task| task.health_check = Some(HealthCheck::on(name("a"))),
            |task| task.readiness = Some(HealthCheck::on(name("a"))),
            |task| task.static_ports = [(name("e"), 443)].into(),
        ];
        let changes: [Change<TaskOverride>; 9] = [
            |change| change.cmd = Some(vec!["${port.b} ${port.f}".to_owned()]),
            |change| drop(change.env.insert("X".to_owned(), "${port.g}".to_owned())),
            |change| drop(change.env.insert("Y".to_owned(), String::new())),
            |change| drop(change.env.insert("Z".to_owned(), "${port.c}".to_owned())),
            |change| drop(change.env.insert("NEW".to_owned(), "${port.a} ${port.h}".to_owned())),
            |change| change.ports = Some(BTreeSet::new()),
            |change| change.ports = Some(["e", "i"].map(name).into()),
            |change| change.health_check = Some(HealthCheck::on(name("j"))),
            |change| {
                let cmd = vec!["${port.a} ${port.k}".to_owned()];
                change.health_check = Some(HealthCheck::of(Probe::Exec { cmd }));
            },
        ];
        for base in 0..1_u32 << bases.len() {
            let mut job = job();
            let chosen = bases.iter().enumerate().filter(|(bit, _)| base >> bit & 1 == 1);
            chosen.for_each(|(_, set)| set(&mut job.task));
            for bits in 0..1_u32 << changes.len() {
                let mut change = TaskOverride::default();
                let chosen = changes.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
                chosen.for_each(|(_, set)| set(&mut change));
                job.overrides = [(TaskIndex(1), change)].into();
                let slow = job.task(TaskIndex(1)).all_ports();
                assert_eq!(job.ports(TaskIndex(1)), slow, "{base:b} {bits:b}");
                let change = &job.overrides[&TaskIndex(1)];
                let usual = UsualPorts::of(&job.task);
                assert_eq!(usual.count_with(change), slow.len(), "{base:b} {bits:b}");
                for port in ["a", "e", "k"].map(name) {
                    let has = slow.contains(&port);
                    assert_eq!(usual.has_with(change, &port), has, "{port} {base:b} {bits:b}");
                }
                let all = job.task.all_ports();
                assert_eq!(usual.count(), all.len());
                assert!(change.touches_ports() || slow == all);
            }
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "it is measured that this is soon done")]
    fn many_overrides_over_long_texts_are_validated_in_a_moment() {
        let mut job = job();
        job.tasks = limits::TASKS_MAX;
        job.task.cmd.push("x".repeat(100 << 10));
        job.task.env.insert("LONG".to_owned(), "${port.http}".repeat(8 << 10));
        for index in (0..20_000).map(TaskIndex) {
            let env = [("SHARD".to_owned(), index.to_string())].into();
            job.overrides.insert(index, TaskOverride { env, ..TaskOverride::default() });
        }
        let begun = Instant::now();
        assert_eq!(job.problems(), []);
        let taken = begun.elapsed();
        assert!(taken < Duration::from_secs(2), "it took {taken:?}");
    }
}
