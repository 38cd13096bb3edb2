//! How much memory descriptions take, roughly: what grows without end in them is texts and overrides.

use std::collections::BTreeMap;

use model::PackageReference;

use crate::{
    Constraint, HealthCheck, JobSpec, Kind, Probe, TaskOverride, TaskSpec, VolumeRequest,
    VolumeSelector,
};

/// What a description takes beside its texts.
const JOB_BYTES: u64 = 1_024;
/// The same of an override, and of an entry of a list.
const OVERRIDE_BYTES: u64 = 256;
const ENTRY_BYTES: u64 = 32;

impl JobSpec {
    /// Its size in bytes, roughly.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let references = self.after.len().saturating_add(usize::from(self.parent.is_some()));
        let users = match &self.kind {
            Kind::AllocSet { users } => entries(users.len()),
            Kind::Job { .. } => 0,
        };
        let overrides = self.overrides.values().map(of_override);
        sum([JOB_BYTES, entries(references), map(&self.labels), users, of_task(&self.task)])
            .saturating_add(overrides.fold(0, u64::saturating_add))
    }
}

fn sum(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}

fn entries(count: usize) -> u64 {
    (count as u64).saturating_mul(ENTRY_BYTES)
}

fn text(text: &str) -> u64 {
    (text.len() as u64).saturating_add(ENTRY_BYTES)
}

fn texts(all: &[String]) -> u64 {
    sum(all.iter().map(|one| text(one)))
}

fn map(all: &BTreeMap<String, String>) -> u64 {
    sum(all.iter().map(|(key, value)| text(key).saturating_add(text(value))))
}

fn package(package: &PackageReference) -> u64 {
    let owner = package.owner.as_ref().map_or(0, |owner| text(owner.as_str()));
    sum([owner, text(package.name.as_str()), text(package.version.as_str())])
}

fn constraints(all: &[Constraint]) -> u64 {
    sum(all.iter().map(|it| text(&it.attribute).saturating_add(text(&it.value))))
}

fn volume(request: &VolumeRequest) -> u64 {
    let of = match &request.of {
        VolumeSelector::Named(name) => text(name.as_str()),
        VolumeSelector::Labelled(labels) => map(labels),
    };
    of.saturating_add(text(request.path.as_str()))
}

fn health(check: Option<&HealthCheck>) -> u64 {
    match check {
        Some(HealthCheck { probe: Probe::Exec { cmd }, .. }) => texts(cmd),
        Some(_) => ENTRY_BYTES,
        None => 0,
    }
}

fn of_task(task: &TaskSpec) -> u64 {
    sum([
        texts(&task.cmd),
        map(&task.env),
        sum(task
            .files
            .iter()
            .map(|(path, file)| text(path).saturating_add(file.content.len() as u64))),
        sum(task
            .secrets
            .iter()
            .chain(&task.secret_env)
            .map(|(place, secret)| text(place).saturating_add(text(secret.as_str())))),
        entries(task.ports.len().saturating_add(task.static_ports.len())),
        sum(task.image.iter().chain(&task.packages).map(package)),
        constraints(&task.constraints),
        sum(task.volumes.iter().map(volume)),
        sum(task.outputs.paths.iter().map(|path| text(path.as_str()))),
        task.outputs.package.as_ref().map_or(0, |package| text(package.as_str())),
        health(task.health_check.as_ref()),
        health(task.readiness.as_ref()),
        task.saver.as_ref().map_or(0, |saver| texts(&saver.cmd)),
    ])
}

fn of_override(change: &TaskOverride) -> u64 {
    sum([
        OVERRIDE_BYTES,
        change.cmd.as_deref().map_or(0, texts),
        map(&change.env),
        map(&change.labels),
        change.ports.as_ref().map_or(0, |ports| entries(ports.len())),
        change.constraints.as_deref().map_or(0, constraints),
        health(change.health_check.as_ref()),
    ])
}
