//! Machines, jobs, tasks and sessions as an image holds them.

use std::sync::Arc;

use cell::{
    Death, Health, Job, JobState, LastLife, Machine, MachineState, PendingCause, Phase, Placement,
    Session, Task, TaskState,
};
use model::{CollectionId, Generation, LogIndex, MachineId, SessionId, Time};

use crate::error::{At, Fault, Malformed};
use crate::{read, v1};
use v1::task_image::{self, State};
use v1::{job_image, machine_image};

impl From<&Machine> for v1::MachineImage {
    fn from(machine: &Machine) -> Self {
        let state = match machine.state {
            MachineState::Joining => machine_image::State::Joining(v1::Nothing {}),
            MachineState::Up => machine_image::State::Up(v1::Nothing {}),
            MachineState::Down { since } => machine_image::State::Down(since.0),
        };
        Self {
            id: machine.id.0,
            name: machine.name.to_string(),
            address: machine.address.to_string(),
            state: Some(state),
            report: Some(v1::MachineReport::from(&*machine.report)),
            next_port: machine.next_port.into(),
        }
    }
}

impl TryFrom<v1::MachineImage> for Machine {
    type Error = Malformed;

    /// Without the tasks that are placed there.
    fn try_from(machine: v1::MachineImage) -> Result<Self, Malformed> {
        let state = match machine.state.ok_or(Fault::UnknownKind).field("state")? {
            machine_image::State::Joining(v1::Nothing {}) => MachineState::Joining,
            machine_image::State::Up(v1::Nothing {}) => MachineState::Up,
            machine_image::State::Down(since) => MachineState::Down { since: Time(since) },
        };
        Ok(Self::restore(
            MachineId(machine.id),
            read::name(&machine.name, "name")?,
            &machine.address,
            state,
            read::message(machine.report, "report")?,
            read::small(machine.next_port, u16::MAX, "nextPort")?,
        ))
    }
}

impl From<&Job> for v1::JobImage {
    fn from(job: &Job) -> Self {
        let state = match job.state {
            JobState::Pending => job_image::State::Pending(v1::Nothing {}),
            JobState::Running => job_image::State::Running(v1::Nothing {}),
            JobState::Dead { at } => job_image::State::Dead(at.0),
        };
        Self {
            id: job.id.0,
            owner: job.owner.to_string(),
            spec: Some(v1::JobSpec::from(&*job.spec)),
            submitted: job.submitted.0,
            state: Some(state),
            tasks: job.tasks().map(|(_, task)| task.into()).collect(),
        }
    }
}

impl TryFrom<v1::JobImage> for Job {
    type Error = Malformed;

    fn try_from(job: v1::JobImage) -> Result<Self, Malformed> {
        let state = match job.state.ok_or(Fault::UnknownKind).field("state")? {
            job_image::State::Pending(v1::Nothing {}) => JobState::Pending,
            job_image::State::Running(v1::Nothing {}) => JobState::Running,
            job_image::State::Dead(at) => JobState::Dead { at: Time(at) },
        };
        Ok(Self::restore(
            CollectionId(job.id),
            read::name(&job.owner, "owner")?,
            Arc::new(read::message(job.spec, "spec")?),
            Time(job.submitted),
            state,
            read::list(job.tasks, "tasks")?,
        ))
    }
}

impl From<&Task> for v1::TaskImage {
    fn from(task: &Task) -> Self {
        let state = match &task.state {
            TaskState::Pending { since, not_before, cause } => {
                State::Pending(task_image::Pending {
                    since: since.0,
                    not_before: not_before.0,
                    cause: cause_number(*cause),
                })
            }
            TaskState::Running(placement) => State::Placement(placement.into()),
            TaskState::Dead { at, death } => {
                State::Dead(task_image::Dead { at: at.0, death: death_number(*death) })
            }
        };
        Self {
            generation: task.generation.0,
            failures: task.failures,
            last_life: task.last_life.as_deref().map(Into::into),
            state: Some(state),
        }
    }
}

impl TryFrom<v1::TaskImage> for Task {
    type Error = Malformed;

    fn try_from(task: v1::TaskImage) -> Result<Self, Malformed> {
        let state = match task.state.ok_or(Fault::UnknownKind).field("state")? {
            State::Pending(pending) => TaskState::Pending {
                since: Time(pending.since),
                not_before: Time(pending.not_before),
                cause: cause(pending.cause).field("pending")?,
            },
            State::Placement(placement) => {
                TaskState::Running(placement.try_into().field("placement")?)
            }
            State::Dead(dead) => {
                TaskState::Dead { at: Time(dead.at), death: death(dead.death).field("dead")? }
            }
        };
        let last_life = read::optional(task.last_life, "lastLife")?.map(Arc::new);
        let generation = Generation(task.generation);
        Ok(Self { generation, failures: task.failures, last_life, state })
    }
}

impl From<&LastLife> for task_image::LastLife {
    fn from(life: &LastLife) -> Self {
        let (generation, machine) = (life.generation.0, life.machine.0);
        Self { generation, machine, end: Some((&life.end).into()) }
    }
}

impl TryFrom<task_image::LastLife> for LastLife {
    type Error = Malformed;

    fn try_from(life: task_image::LastLife) -> Result<Self, Malformed> {
        Ok(Self {
            generation: Generation(life.generation),
            machine: MachineId(life.machine),
            end: read::message(life.end, "end")?,
        })
    }
}

impl From<&Placement> for task_image::Placement {
    fn from(placement: &Placement) -> Self {
        let (started, health) = match placement.phase {
            Phase::Starting => (None, v1::Health::Unknown),
            Phase::Started { at, health: Health::Unknown } => (Some(at.0), v1::Health::Unknown),
            Phase::Started { at, health: Health::Healthy } => (Some(at.0), v1::Health::Healthy),
            Phase::Started { at, health: Health::Unhealthy } => (Some(at.0), v1::Health::Unhealthy),
        };
        Self {
            machine: placement.machine.0,
            ports: placement.ports.iter().copied().map(u32::from).collect(),
            since: placement.since.0,
            started,
            health: health.into(),
            killed_by: placement.killed_by.as_ref().map(ToString::to_string).unwrap_or_default(),
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
            })
        };
        let phase = match (placement.started, read::value(placement.health, meaning, "health")?) {
            (None, Health::Unknown) => Phase::Starting,
            (None, _) => {
                return Err(Fault::Contradiction("is known of a task that has not started"))
                    .field("health");
            }
            (Some(at), health) => Phase::Started { at: Time(at), health },
        };
        Ok(Self {
            machine: MachineId(placement.machine),
            ports: read::ports(&placement.ports, "ports")?,
            since: Time(placement.since),
            phase,
            killed_by: read::optional_name(&placement.killed_by, "killedBy")?,
        })
    }
}

fn cause_number(cause: PendingCause) -> i32 {
    let cause = match cause {
        PendingCause::Submitted => v1::PendingCause::Submitted,
        PendingCause::Failed => v1::PendingCause::TaskFailed,
        PendingCause::Lost => v1::PendingCause::TaskLost,
    };
    cause.into()
}

fn cause(number: i32) -> Result<PendingCause, Malformed> {
    let meaning = |cause| match cause {
        v1::PendingCause::Unspecified => None,
        v1::PendingCause::Submitted => Some(PendingCause::Submitted),
        v1::PendingCause::TaskFailed => Some(PendingCause::Failed),
        v1::PendingCause::TaskLost => Some(PendingCause::Lost),
    };
    read::value(number, meaning, "cause")
}

fn death_number(death: Death) -> i32 {
    let death = match death {
        Death::Finished => v1::Death::Finished,
        Death::Failed => v1::Death::Failed,
        Death::Killed => v1::Death::Killed,
    };
    death.into()
}

fn death(number: i32) -> Result<Death, Malformed> {
    let meaning = |death| match death {
        v1::Death::Unspecified => None,
        v1::Death::Finished => Some(Death::Finished),
        v1::Death::Failed => Some(Death::Failed),
        v1::Death::Killed => Some(Death::Killed),
    };
    read::value(number, meaning, "death")
}

impl From<(SessionId, &Session)> for v1::SessionImage {
    fn from((id, session): (SessionId, &Session)) -> Self {
        let answers = session.answers.iter();
        Self {
            id: id.0,
            user: session.user.to_string(),
            used: session.used.0,
            forgotten: session.forgotten,
            answers: answers.map(|(sequence, answer)| (*sequence, answer.into())).collect(),
        }
    }
}

impl TryFrom<v1::SessionImage> for Session {
    type Error = Malformed;

    /// Its id stands beside it.
    fn try_from(session: v1::SessionImage) -> Result<Self, Malformed> {
        let answers = session.answers.into_iter();
        let answers = answers
            .map(|(sequence, answer)| Ok((sequence, answer.try_into().key(sequence)?)))
            .collect::<Result<_, Malformed>>();
        Ok(Self {
            user: read::name(&session.user, "user")?,
            used: LogIndex(session.used),
            answers: answers.field("answers")?,
            forgotten: session.forgotten,
        })
    }
}
