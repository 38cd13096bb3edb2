//! What an incarnation of a task was told when it started, and what may change while it runs: the versions of its
//! secrets, and where tasks of other jobs are.

use std::sync::Arc;

use model::{PortName, TaskIndex, Time, UserName};
use spec::{JobSpec, NameField, NameReference, OnChange, limits};

use super::{Cell, Health, Job, Machine, MachineState, Phase, Placement, TaskState};
use crate::bounds::RESTART_SPACING;

/// What an incarnation has read. Its order is that of its description, which does not change while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// The versions of the secrets that its description names, in that order.
    pub secrets: Vec<u32>,
    /// A digest of the value of each name to which its description refers, in order; 0 if it had none.
    pub names: Vec<u64>,
    /// How often its machine was told to read again while it runs.
    pub told: u32,
    /// How much of that it has done.
    pub done: u32,
}

/// Why a reference to a name stands for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAddress {
    /// There is no live job of that name that has tasks.
    NoJob,
    /// The job has no such task.
    NoTask,
    /// The task has no machine.
    NotPlaced,
    /// No task of the job serves.
    NoneServes,
    /// The task has no port of that name.
    NoPort(PortName),
    /// The task has no port, or several, and none is named.
    WhichPort,
}

impl Machine {
    /// Its host without the port of its Borglet: an IP address, or a name of the network's own.
    #[must_use]
    pub fn host(&self) -> &str {
        let host = self.address.rsplit_once(':').map_or(&*self.address, |(host, _)| host);
        // An IPv6 address with a port is in brackets.
        host.trim_start_matches('[').trim_end_matches(']')
    }
}

/// The changes that a running task should learn of, each in words.
pub(crate) enum InputChanges {
    /// These tasks are told to read again.
    Signal(Vec<(TaskIndex, String)>),
    /// These tasks are restarted, because of what the first of them has.
    Restart(Vec<TaskIndex>, String),
}

/// What a task would read now.
struct PresentInputs {
    secrets: Vec<u32>,
    /// `None` where a name stands for nothing: that is no change.
    names: Vec<Option<u64>>,
}

impl Cell {
    /// What a name stands for in a description of a user.
    ///
    /// # Errors
    /// If it stands for nothing now.
    pub fn resolve(&self, user: &UserName, name: &NameReference) -> Result<String, NoAddress> {
        let job = self.job_named(name.owner(user), &name.job.job);
        let job = job.filter(|job| job.is_alive() && !job.spec.kind.is_alloc_set());
        let job = job.ok_or(NoAddress::NoJob)?;
        if let Some(index) = name.task {
            let task = job.task(index).ok_or(NoAddress::NoTask)?;
            let TaskState::Running(placement) = &task.state else {
                return Err(NoAddress::NotPlaced);
            };
            let placed = (placement.stop.is_none()).then_some(placement);
            return self.told_of(job, index, placed.ok_or(NoAddress::NotPlaced)?, &name.field);
        }
        // The tasks of a gang find each other before any of them runs.
        let gang = |placement: &Placement| job.is_gang() && placement.stop.is_none();
        let serving = job.tasks().filter_map(|(index, task)| match &task.state {
            TaskState::Running(placement) if self.serves(placement) || gang(placement) => {
                Some((index, placement))
            }
            _ => None,
        });
        let mut told = serving.map(|(index, at)| self.told_of(job, index, at, &name.field));
        if !matches!(name.field, NameField::Addresses(_)) {
            return told.next().unwrap_or(Err(NoAddress::NoneServes));
        }
        let (mut all, mut why) = (String::new(), NoAddress::NoneServes);
        for told in told {
            match told {
                Ok(told) if all.is_empty() => all = told,
                Ok(told) if all.len() + 1 + told.len() <= limits::ADDRESSES_BYTES_MAX => {
                    all.push(',');
                    all.push_str(&told);
                }
                Ok(_) => break,
                Err(error) => why = error,
            }
        }
        if all.is_empty() { Err(why) } else { Ok(all) }
    }

    /// Whether a task should get new connections.
    fn serves(&self, placement: &Placement) -> bool {
        let up = matches!(placement.phase, Phase::Started { health: Health::Healthy, .. });
        let machine = self.machine(placement.machine);
        up && placement.stop.is_none()
            && machine.is_some_and(|machine| matches!(machine.state, MachineState::Up))
    }

    fn told_of(
        &self,
        job: &Job,
        index: TaskIndex,
        placement: &Placement,
        field: &NameField,
    ) -> Result<String, NoAddress> {
        let machine = self.machine(placement.machine).ok_or(NoAddress::NotPlaced)?;
        let host = match placement.address {
            Some(address) => address.to_string(),
            None => machine.host().to_owned(),
        };
        let number = |wanted: &Option<PortName>| {
            let names = job.ports(index);
            let mut ports = names.iter().zip(placement.ports.iter());
            match wanted {
                Some(wanted) => {
                    let found = ports.find(|(name, _)| *name == wanted).map(|(_, port)| *port);
                    found.ok_or_else(|| NoAddress::NoPort(wanted.clone()))
                }
                None => match (ports.next(), ports.next()) {
                    (Some((_, port)), None) => Ok(*port),
                    _ => Err(NoAddress::WhichPort),
                },
            }
        };
        Ok(match field {
            NameField::Host => host,
            NameField::Port(port) => number(port)?.to_string(),
            NameField::Address(port) | NameField::Addresses(port) => {
                let port = number(port)?;
                if host.contains(':') {
                    format!("[{host}]:{port}")
                } else {
                    format!("{host}:{port}")
                }
            }
        })
    }

    /// What an incarnation of a task reads when it starts now.
    pub(crate) fn inputs(&self, owner: &UserName, spec: &JobSpec, index: TaskIndex) -> Inputs {
        let PresentInputs { secrets, names } = self.present(owner, spec, Some(index));
        let names = names.into_iter().map(Option::unwrap_or_default).collect();
        Inputs { secrets, names, told: 0, done: 0 }
    }

    /// What a task of a job would read; `None`: one without an override.
    fn present(&self, owner: &UserName, spec: &JobSpec, index: Option<TaskIndex>) -> PresentInputs {
        let secrets = self.newest_secrets(owner, spec).collect();
        let names = match index {
            Some(index) => spec.task(index).names(),
            None => spec.task.names(),
        };
        let names = names.iter().map(|name| self.resolve(owner, name).ok().map(|at| digest(&at)));
        PresentInputs { secrets, names: names.collect() }
    }

    /// The newest version of each secret that a description names, in its order; 0: there is none.
    fn newest_secrets<'a>(
        &'a self,
        owner: &'a UserName,
        spec: &'a JobSpec,
    ) -> impl Iterator<Item = u32> + 'a {
        let newest = |name| self.secret(owner, name).and_then(|secret| secret.newest());
        spec.secrets().map(move |name| newest(name).map_or(0, |newest| newest.number))
    }

    /// What the running tasks of a job should learn of at a time, and have not been told yet.
    pub(crate) fn input_changes(&self, job: &Arc<Job>, now: Time) -> Option<InputChanges> {
        let on_change = job.spec.task.on_change;
        if on_change == OnChange::Nothing || !job.is_alive() {
            return None;
        }
        let mut changed = Vec::new();
        let mut usual: Option<(&Arc<JobSpec>, PresentInputs)> = None;
        for (index, task) in job.tasks() {
            let TaskState::Running(placement) = &task.state else { continue };
            let Some(inputs) = placement.inputs.as_deref() else { continue };
            let Phase::Started { at, .. } = placement.phase else { continue };
            let waits = match on_change {
                OnChange::Restart => at + RESTART_SPACING > now,
                OnChange::Signal => inputs.told != inputs.done,
                OnChange::Nothing => true,
            };
            if placement.stop.is_some() || waits {
                continue;
            }
            let spec = job.described(index);
            let what = if spec.overrides.contains_key(&index) {
                let present = self.present(&job.owner, spec, Some(index));
                different(spec, Some(index), inputs, &present)
            } else {
                if usual.as_ref().is_none_or(|(of, _)| !Arc::ptr_eq(of, spec)) {
                    usual = Some((spec, self.present(&job.owner, spec, None)));
                }
                usual.as_ref().and_then(|(spec, now)| different(spec, None, inputs, now))
            };
            changed.extend(what.map(|what| (index, what)));
        }
        let (_, first) = changed.first()?;
        Some(match on_change {
            OnChange::Restart => {
                let first = first.clone();
                InputChanges::Restart(changed.into_iter().map(|(index, _)| index).collect(), first)
            }
            _ => InputChanges::Signal(changed),
        })
    }

    /// The secrets of which a running task has another version than the newest, each with both.
    #[must_use]
    pub fn older_secrets(&self, job: &Job, index: TaskIndex) -> Vec<(model::SecretName, u32, u32)> {
        let placement = job.instance(index).and_then(|instance| self.placement(instance));
        let Some(inputs) = placement.and_then(|placement| placement.inputs.as_deref()) else {
            return Vec::new();
        };
        let spec = job.described(index);
        let versions = inputs.secrets.iter().copied().zip(self.newest_secrets(&job.owner, spec));
        let all = spec.secrets().zip(versions);
        let mut older: Vec<_> = all
            .filter(|(_, (has, newest))| has != newest)
            .map(|(name, (has, newest))| (name.clone(), has, newest))
            .collect();
        older.sort();
        older.dedup();
        older
    }
}

/// The first difference in words.
fn different(
    spec: &JobSpec,
    index: Option<TaskIndex>,
    had: &Inputs,
    present: &PresentInputs,
) -> Option<String> {
    let versions = had.secrets.iter().zip(&present.secrets);
    let mut secrets = spec.secrets().zip(versions);
    if let Some((name, (_, newest))) = secrets.find(|(_, (had, newest))| had != newest) {
        return Some(format!("secret {name} version {newest}"));
    }
    let digests = had.names.iter().zip(&present.names);
    let place = digests.into_iter().position(|(had, now)| now.is_some_and(|now| now != *had))?;
    let names = match index {
        Some(index) => spec.task(index).names(),
        None => spec.task.names(),
    };
    Some(names.iter().nth(place)?.to_string())
}

/// FNV-1a, never 0. It is compared only with others of this cell.
fn digest(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step).max(1)
}
