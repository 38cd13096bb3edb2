//! Jobs and their tasks in an image.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use api::{At, Fault, Malformed, read};
use cell::crashes::Crash;
use cell::{
    Health, Inputs, Job, JobParts, JobState, LastIncarnation, LeftOut, MachineTasks, Phase,
    Placement, Reserved, RunsAfter, Task, TaskState,
};
use model::{CollectionId, Generation, MachineId, TaskIndex, Time, Version};
use spec::{EndCondition, JobSpec};

use crate::v1;
use v1::job_image;
use v1::task_image::{self, State};

impl From<&Job> for v1::JobImage {
    fn from(job: &Job) -> Self {
        let state = match &job.state {
            JobState::Queued => job_image::State::Queued(v1::Nothing {}),
            JobState::Pending => job_image::State::Pending(v1::Nothing {}),
            JobState::Running => job_image::State::Running(v1::Nothing {}),
            JobState::Dead { at, death } => {
                job_image::State::Dead(v1::Dead { at: at.0, death: Some(death.into()) })
            }
        };
        Self {
            id: job.id.0,
            owner: job.owner.to_string(),
            spec: Some(v1::JobSpec::from(&*job.spec)),
            submitted: job.submitted.0,
            after: job.after.iter().map(runs_after).collect(),
            follows: job.follows.iter().map(|id| id.0).collect(),
            waits_for: job.waits_for.iter().map(|id| id.0).collect(),
            parent: job.parent.map(|id| id.0),
            alloc_set: job.alloc_set.map(|id| id.0),
            state: Some(state),
            version: job.version.0,
            last_version: job.last_version.0,
            others: job
                .other_descriptions()
                .map(|(version, spec)| job_image::Description {
                    version: version.0,
                    spec: Some(v1::JobSpec::from(&**spec)),
                })
                .collect(),
            update: job.update.as_deref().map(Into::into),
            history: job.history.iter().map(Into::into).collect(),
            disrupted: job.disrupted.iter().map(|at| at.0).collect(),
            tasks: tasks(job),
            machines: machines(job),
            left_out: left_out(job),
        }
    }
}

impl TryFrom<v1::JobImage> for Job {
    type Error = Malformed;

    fn try_from(job: v1::JobImage) -> Result<Self, Malformed> {
        let state = match job.state.ok_or(Fault::UnknownKind).field("state")? {
            job_image::State::Queued(v1::Nothing {}) => JobState::Queued,
            job_image::State::Pending(v1::Nothing {}) => JobState::Pending,
            job_image::State::Running(v1::Nothing {}) => JobState::Running,
            job_image::State::Dead(dead) => {
                let death = read::message(dead.death, "death").field("dead")?;
                JobState::Dead { at: Time(dead.at), death }
            }
        };
        let spec: Arc<JobSpec> = Arc::new(read::message(job.spec, "spec")?);
        let machine_tasks = match spec.is_on_every_machine() {
            true => Some(machine_tasks(job.machines, job.left_out)?),
            false => None,
        };
        Ok(Self::from_parts(JobParts {
            id: CollectionId(job.id),
            owner: read::name(&job.owner, "owner")?,
            spec,
            version: Version(job.version),
            last_version: Version(job.last_version),
            others: descriptions(job.others).field("others")?,
            update: read::optional(job.update, "update")?.map(Arc::new),
            history: read::list(job.history, "history")?,
            disrupted: job.disrupted.into_iter().map(Time).collect(),
            submitted: Time(job.submitted),
            state,
            after: predecessors(&job.after).field("after")?,
            follows: job.follows.into_iter().map(CollectionId).collect(),
            waits_for: job.waits_for.into_iter().map(CollectionId).collect(),
            parent: job.parent.map(CollectionId),
            alloc_set: job.alloc_set.map(CollectionId),
            tasks: repeated(job.tasks).field("tasks")?,
            machine_tasks,
        }))
    }
}

fn runs_after(after: &RunsAfter) -> job_image::RunsAfter {
    let when = match after.when {
        EndCondition::Finished => job_image::runs_after::When::Finished,
        EndCondition::Ended => job_image::runs_after::When::Ended,
        EndCondition::Failed => job_image::runs_after::When::Failed,
    };
    job_image::RunsAfter { job: after.job.0, when: when.into(), each_task: after.each_task }
}

fn predecessors(all: &[job_image::RunsAfter]) -> Result<Vec<RunsAfter>, Malformed> {
    let meaning = |when| match when {
        job_image::runs_after::When::Unspecified => None,
        job_image::runs_after::When::Finished => Some(EndCondition::Finished),
        job_image::runs_after::When::Ended => Some(EndCondition::Ended),
        job_image::runs_after::When::Failed => Some(EndCondition::Failed),
    };
    let one = |(position, after): (usize, &job_image::RunsAfter)| {
        let when = read::value(after.when, meaning, "when").element(position)?;
        Ok(RunsAfter { job: CollectionId(after.job), when, each_task: after.each_task })
    };
    all.iter().enumerate().map(one).collect()
}

/// The machines of the rows of a job with one task on every machine.
fn machines(job: &Job) -> BTreeMap<u32, u64> {
    let all = job.machine_tasks().into_iter().flat_map(MachineTasks::machines);
    all.map(|(index, machine)| (index.0, machine.0)).collect()
}

fn left_out(job: &Job) -> Vec<job_image::LeftOut> {
    use job_image::left_out::Why;

    let all = job.machine_tasks().into_iter().flat_map(MachineTasks::left_out);
    let image = |(machine, why): (MachineId, LeftOut)| job_image::LeftOut {
        machine: machine.0,
        why: Some(match why {
            LeftOut::Quota => Why::Quota(v1::Nothing {}),
            LeftOut::Tasks => Why::Tasks(v1::Nothing {}),
        }),
    };
    all.map(image).collect()
}

fn machine_tasks(
    machines: BTreeMap<u32, u64>,
    left_out: Vec<job_image::LeftOut>,
) -> Result<MachineTasks, Malformed> {
    use job_image::left_out::Why;

    let left_out: Result<Vec<_>, Malformed> = left_out
        .into_iter()
        .map(|one| {
            let why = match one.why.ok_or(Fault::UnknownKind).field("leftOut")? {
                Why::Quota(v1::Nothing {}) => LeftOut::Quota,
                Why::Tasks(v1::Nothing {}) => LeftOut::Tasks,
            };
            Ok((MachineId(one.machine), why))
        })
        .collect();
    let machines = machines.into_iter().map(|(index, id)| (TaskIndex(index), MachineId(id)));
    MachineTasks::from_parts(machines, left_out?).ok_or(Fault::Twice).field("machines")
}

/// Its tasks; those that are the same as the one before are only counted.
fn tasks(job: &Job) -> Vec<v1::TaskImage> {
    let (mut images, mut last) = (Vec::<v1::TaskImage>::new(), None);
    let mut add = |task, times: usize| {
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        match images.last_mut().filter(|_| last == Some(task)) {
            Some(image) => image.repeated = image.repeated.saturating_add(times),
            None => {
                let repeated = times.saturating_sub(1);
                images.push(v1::TaskImage { repeated, ..v1::TaskImage::from(task) });
            }
        }
        last = Some(task);
    };
    for (tasks, times) in job.task_runs() {
        match tasks.split_first() {
            Some((first, others)) if others.iter().all(|other| other == first) => {
                add(first, tasks.len().saturating_mul(times));
            }
            _ => (0..times).flat_map(|_| tasks).for_each(|task| add(task, 1)),
        }
    }
    images
}

fn repeated(images: Vec<v1::TaskImage>) -> Result<Vec<Task>, Malformed> {
    let most = spec::limits::TASKS_MAX as usize;
    let mut tasks = Vec::with_capacity(images.len());
    for (position, image) in images.into_iter().enumerate() {
        let is = i64::from(image.repeated);
        if image.repeated as usize > most.saturating_sub(tasks.len()) {
            let most = i64::from(spec::limits::TASKS_MAX);
            let fault = Fault::OutOfRange { is, least: 0, most };
            return Err(fault).field("repeated").element(position);
        }
        let times = image.repeated as usize;
        let task = Task::try_from(image).element(position)?;
        tasks.extend(std::iter::repeat_n(task.clone(), times));
        tasks.push(task);
    }
    Ok(tasks)
}

fn descriptions(
    others: Vec<job_image::Description>,
) -> Result<Vec<(Version, Arc<JobSpec>)>, Malformed> {
    let description = |(position, other): (usize, job_image::Description)| {
        let spec = read::message(other.spec, "spec").element(position)?;
        Ok((Version(other.version), Arc::new(spec)))
    };
    others.into_iter().enumerate().map(description).collect()
}

impl From<&Task> for v1::TaskImage {
    fn from(task: &Task) -> Self {
        let state = match &task.state {
            TaskState::Queued { since } => State::Queued(since.0),
            TaskState::Pending { since, not_before, cause } => {
                State::Pending(task_image::Pending {
                    since: since.0,
                    not_before: not_before.0,
                    cause: Some(cause.into()),
                })
            }
            TaskState::Running(placement) => State::Placement(placement.into()),
            TaskState::Dead { at, death } => {
                State::Dead(v1::Dead { at: at.0, death: Some(death.into()) })
            }
        };
        let newest_sample = task.reserved.as_deref().and_then(|reserved| reserved.newest_sample);
        let crash = |crash: &Crash| task_image::Crash {
            machine: crash.machine.0,
            times: crash.times,
            last: crash.last.0,
        };
        Self {
            generation: task.generation.0,
            failures: task.failures,
            finishes: task.finishes,
            ends_in_row: task.ends_in_row,
            last_incarnation: task.last_incarnation.as_deref().map(Into::into),
            crashes: task.crashes.iter().flat_map(|all| all.iter().map(crash)).collect(),
            reserved: task.reserved.as_deref().map(|reserved| (&reserved.amount).into()),
            newest_sample: newest_sample.map(|at| at.0),
            version: task.version.0,
            repeated: 0,
            state: Some(state),
        }
    }
}

impl TryFrom<v1::TaskImage> for Task {
    type Error = Malformed;

    fn try_from(task: v1::TaskImage) -> Result<Self, Malformed> {
        let state = match task.state.ok_or(Fault::UnknownKind).field("state")? {
            State::Queued(since) => TaskState::Queued { since: Time(since) },
            State::Pending(pending) => TaskState::Pending {
                since: Time(pending.since),
                not_before: Time(pending.not_before),
                cause: read::message(pending.cause, "cause").field("pending")?,
            },
            State::Placement(placement) => {
                TaskState::Running(placement.try_into().field("placement")?)
            }
            State::Dead(dead) => {
                let death = read::message(dead.death, "death").field("dead")?;
                TaskState::Dead { at: Time(dead.at), death }
            }
        };
        let crash = |crash: task_image::Crash| {
            let (machine, last) = (MachineId(crash.machine), Time(crash.last));
            Crash { machine, times: crash.times, last }
        };
        let crashes: Vec<_> = task.crashes.into_iter().map(crash).collect();
        let newest_sample = task.newest_sample.map(Time);
        let reserved = read::optional(task.reserved, "reserved")?;
        let reserved = reserved.map(|amount| Reserved { amount, newest_sample });
        Ok(Self {
            generation: Generation(task.generation),
            version: Version(task.version),
            failures: task.failures,
            finishes: task.finishes,
            ends_in_row: task.ends_in_row,
            last_incarnation: read::optional(task.last_incarnation, "lastIncarnation")?
                .map(Arc::new),
            crashes: (!crashes.is_empty()).then(|| Arc::new(crashes)),
            reserved: reserved.map(Arc::new),
            state,
        })
    }
}

impl From<&LastIncarnation> for task_image::LastIncarnation {
    fn from(incarnation: &LastIncarnation) -> Self {
        let (generation, machine) = (incarnation.generation.0, incarnation.machine.0);
        let alloc = incarnation.alloc.map(|index| index.0);
        let usage = api::cell::usage(&incarnation.usage);
        let (version, end) = (incarnation.version.0, Some((&incarnation.end).into()));
        Self { generation, version, machine, alloc, end, usage }
    }
}

impl TryFrom<task_image::LastIncarnation> for LastIncarnation {
    type Error = Malformed;

    fn try_from(incarnation: task_image::LastIncarnation) -> Result<Self, Malformed> {
        Ok(Self {
            generation: Generation(incarnation.generation),
            version: Version(incarnation.version),
            machine: MachineId(incarnation.machine),
            alloc: incarnation.alloc.map(TaskIndex),
            end: read::message(incarnation.end, "end")?,
            usage: read::optional(incarnation.usage, "usage")?.unwrap_or_default(),
        })
    }
}

impl From<&Placement> for task_image::Placement {
    fn from(placement: &Placement) -> Self {
        let (started, health, health_since) = match placement.phase {
            Phase::Starting => (None, v1::Health::Unknown, 0),
            Phase::Started { at, health, since } => {
                let health = match health {
                    Health::Unknown => v1::Health::Unknown,
                    Health::Healthy => v1::Health::Healthy,
                    Health::Unhealthy => v1::Health::Unhealthy,
                    Health::Unready => v1::Health::Unready,
                };
                (Some(at.0), health, since.0)
            }
        };
        Self {
            machine: placement.machine.0,
            alloc: placement.alloc().map(Into::into),
            ports: placement.ports.iter().copied().map(u32::from).collect(),
            since: placement.since.0,
            started,
            health: health.into(),
            health_since,
            stop: placement.stop.as_deref().map(Into::into),
            check: placement.check.as_deref().unwrap_or_default().to_owned(),
            network_address: placement.address.map(Ipv4Addr::to_bits),
            latency: api::start_latency::message(placement.latency),
            lost_starts: placement.lost_starts,
            inputs: placement.inputs.as_deref().map(|inputs| task_image::Inputs {
                secrets: inputs.secrets.clone(),
                names: inputs.names.clone(),
                told: inputs.told,
                done: inputs.done,
            }),
        }
    }
}

impl TryFrom<task_image::Placement> for Placement {
    type Error = Malformed;

    fn try_from(placement: task_image::Placement) -> Result<Self, Malformed> {
        let meaning = |health| {
            Some(match health {
                v1::Health::Unknown => Health::Unknown,
                v1::Health::Healthy => Health::Healthy,
                v1::Health::Unhealthy => Health::Unhealthy,
                v1::Health::Unready => Health::Unready,
            })
        };
        let phase = match (placement.started, read::value(placement.health, meaning, "health")?) {
            (None, Health::Unknown) => Phase::Starting,
            (None, _) => {
                return Err(Fault::Contradiction("is set for a task that has not started"))
                    .field("health");
            }
            (Some(at), health) => {
                Phase::Started { at: Time(at), health, since: Time(placement.health_since) }
            }
        };
        Ok(Self {
            machine: MachineId(placement.machine),
            alloc: placement.alloc.map(|alloc| Arc::new(alloc.into())),
            address: placement.network_address.map(Ipv4Addr::from_bits),
            ports: read::ports(&placement.ports, "ports")?,
            since: Time(placement.since),
            phase,
            check: read::check_text(&placement.check),
            stop: read::optional(placement.stop, "stop")?.map(Arc::new),
            latency: api::start_latency::read(placement.latency.as_ref())?,
            lost_starts: placement.lost_starts,
            inputs: placement.inputs.map(|inputs| {
                let task_image::Inputs { secrets, names, told, done } = inputs;
                Arc::new(Inputs { secrets, names, told, done })
            }),
        })
    }
}
