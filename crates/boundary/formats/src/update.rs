//! Updates of jobs, in the log, in images and in requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{At, Fault, Malformed, read};
use cell::{
    Changing, ControlUpdate, PastVersion, ResizeJob, RestartJob, Update, UpdateJob, UpdateState,
    UpdateStep, VersionEnd,
};
use event::SkipReason;
use model::{Generation, TaskIndex, Time, UserName, Version};

use crate::v1;
use v1::job_image::{self, update::State};
use v1::op::{self, update_step::Step};

impl From<VersionEnd> for v1::VersionEnd {
    fn from(end: VersionEnd) -> Self {
        match end {
            VersionEnd::Submitted => Self::VersionSubmitted,
            VersionEnd::Succeeded => Self::VersionSucceeded,
            VersionEnd::Replaced => Self::VersionReplaced,
            VersionEnd::Failed => Self::VersionFailed,
            VersionEnd::Undone => Self::VersionUndone,
        }
    }
}

fn version_end(number: i32) -> Result<VersionEnd, Malformed> {
    let meaning = |end| {
        Some(match end {
            v1::VersionEnd::VersionSubmitted => VersionEnd::Submitted,
            v1::VersionEnd::VersionSucceeded => VersionEnd::Succeeded,
            v1::VersionEnd::VersionReplaced => VersionEnd::Replaced,
            v1::VersionEnd::VersionFailed => VersionEnd::Failed,
            v1::VersionEnd::VersionUndone => VersionEnd::Undone,
        })
    };
    read::value(number, meaning, "end")
}

impl From<&PastVersion> for job_image::PastVersion {
    fn from(past: &PastVersion) -> Self {
        Self {
            version: past.version.0,
            since: past.since.0,
            by: past.by.to_string(),
            end: v1::VersionEnd::from(past.end).into(),
        }
    }
}

impl TryFrom<job_image::PastVersion> for PastVersion {
    type Error = Malformed;

    fn try_from(past: job_image::PastVersion) -> Result<Self, Malformed> {
        Ok(Self {
            version: Version(past.version),
            since: Time(past.since),
            by: read::name(&past.by, "by")?,
            end: version_end(past.end)?,
        })
    }
}

impl From<&UpdateJob> for op::UpdateJob {
    fn from(update: &UpdateJob) -> Self {
        Self {
            owner: update.owner.to_string(),
            spec: Some(update.spec.as_ref().into()),
            tasks: Some((&update.tasks).into()),
            policy: update.policy.as_ref().map(Into::into),
            expected: update.expected.map(|version| version.0),
        }
    }
}

impl TryFrom<op::UpdateJob> for UpdateJob {
    type Error = Malformed;

    fn try_from(update: op::UpdateJob) -> Result<Self, Malformed> {
        Ok(Self {
            owner: read::name(&update.owner, "owner")?,
            spec: Arc::new(read::message(update.spec, "spec")?),
            tasks: read::message(update.tasks, "tasks")?,
            policy: read::optional(update.policy, "policy")?,
            expected: update.expected.map(Version),
        })
    }
}

impl From<&ResizeJob> for op::ResizeJob {
    fn from(resize: &ResizeJob) -> Self {
        Self {
            owner: resize.owner.to_string(),
            job: resize.job.to_string(),
            tasks: resize.tasks,
            expected: resize.expected.map(|version| version.0),
        }
    }
}

impl TryFrom<op::ResizeJob> for ResizeJob {
    type Error = Malformed;

    fn try_from(resize: op::ResizeJob) -> Result<Self, Malformed> {
        Ok(Self {
            owner: read::name(&resize.owner, "owner")?,
            job: read::name(&resize.job, "job")?,
            tasks: resize.tasks,
            expected: resize.expected.map(Version),
        })
    }
}

impl From<&RestartJob> for op::RestartJob {
    fn from(restart: &RestartJob) -> Self {
        Self {
            owner: restart.owner.to_string(),
            job: restart.job.to_string(),
            tasks: Some((&restart.tasks).into()),
            failed: restart.failed,
            batch: restart.batch,
        }
    }
}

impl TryFrom<op::RestartJob> for RestartJob {
    type Error = Malformed;

    fn try_from(restart: op::RestartJob) -> Result<Self, Malformed> {
        Ok(Self {
            owner: read::name(&restart.owner, "owner")?,
            job: read::name(&restart.job, "job")?,
            tasks: read::message(restart.tasks, "tasks")?,
            failed: restart.failed,
            batch: restart.batch,
        })
    }
}

impl From<&ControlUpdate> for op::ControlUpdate {
    fn from(control: &ControlUpdate) -> Self {
        Self {
            owner: control.owner.to_string(),
            job: control.job.to_string(),
            action: v1::UpdateAction::from(control.action).into(),
            expected: control.expected.map(|version| version.0),
            to: control.to.map(|version| version.0),
        }
    }
}

impl TryFrom<op::ControlUpdate> for ControlUpdate {
    type Error = Malformed;

    fn try_from(control: op::ControlUpdate) -> Result<Self, Malformed> {
        Ok(Self {
            owner: read::name(&control.owner, "owner")?,
            job: read::name(&control.job, "job")?,
            action: api::update_action(control.action)?,
            to: control.to.map(Version),
            expected: control.expected.map(Version),
        })
    }
}

impl From<&UpdateStep> for op::UpdateStep {
    fn from(step: &UpdateStep) -> Self {
        let step = match step {
            UpdateStep::Change(index) => Step::Change(index.0),
            UpdateStep::Passed(index) => Step::Passed(index.0),
            UpdateStep::Skip(index, why) => {
                Step::Skip(op::Skip { index: index.0, why: v1::SkipReason::from(*why).into() })
            }
            UpdateStep::Fail(failure) => Step::Fail(failure.into()),
            UpdateStep::Finish => Step::Finish(v1::Nothing {}),
            UpdateStep::Close => Step::Close(v1::Nothing {}),
        };
        Self { step: Some(step) }
    }
}

impl TryFrom<op::UpdateStep> for UpdateStep {
    type Error = Malformed;

    fn try_from(step: op::UpdateStep) -> Result<Self, Malformed> {
        Ok(match step.step.ok_or(Fault::UnknownKind)? {
            Step::Change(index) => Self::Change(TaskIndex(index)),
            Step::Passed(index) => Self::Passed(TaskIndex(index)),
            Step::Skip(skip) => {
                Self::Skip(TaskIndex(skip.index), api::update::skip_reason(skip.why)?)
            }
            Step::Fail(failure) => Self::Fail(failure.try_into().field("fail")?),
            Step::Finish(v1::Nothing {}) => Self::Finish,
            Step::Close(v1::Nothing {}) => Self::Close,
        })
    }
}

fn since(at: Time, by: Option<&UserName>) -> job_image::Since {
    job_image::Since { at: at.0, by: by.map(ToString::to_string).unwrap_or_default() }
}

fn read_since(since: &job_image::Since) -> Result<(Time, Option<UserName>), Malformed> {
    Ok((Time(since.at), read::optional_name(&since.by, "by")?))
}

impl From<&Update> for job_image::Update {
    fn from(update: &Update) -> Self {
        let state = match &update.state {
            UpdateState::Rolling => State::Rolling(v1::Nothing {}),
            UpdateState::Paused { at, by } => State::Paused(since(*at, by.as_ref())),
            UpdateState::Succeeded { at } => State::Succeeded(at.0),
            UpdateState::Undoing { since: at, by } => State::Undoing(since(*at, by.as_ref())),
            UpdateState::Undone { at, by } => State::Undone(since(*at, by.as_ref())),
            UpdateState::Closed { at } => State::Closed(at.0),
        };
        let changing = |(index, changing): (&TaskIndex, &Changing)| job_image::Changing {
            index: index.0,
            since: changing.since.0,
            generation: changing.generation.0,
        };
        let skipped = |(index, why): (&TaskIndex, &SkipReason)| job_image::Skipped {
            index: index.0,
            why: v1::SkipReason::from(*why).into(),
        };
        Self {
            from: update.from.0,
            to: update.to.0,
            tasks: Some((&update.tasks).into()),
            policy: Some((&update.policy).into()),
            restart: update.restart,
            opened: update.opened.0,
            by: update.by.to_string(),
            state: Some(state),
            changing: update.changing.iter().map(changing).collect(),
            relapsed: update.relapsed.iter().map(|index| index.0).collect(),
            disruptions: update.disruptions,
            skipped: update.skipped.iter().map(skipped).collect(),
            last_passed: update.last_passed.map(|at| at.0),
            failure: update.failure.as_ref().map(Into::into),
        }
    }
}

impl TryFrom<job_image::Update> for Update {
    type Error = Malformed;

    fn try_from(update: job_image::Update) -> Result<Self, Malformed> {
        let state = match update.state.ok_or(Fault::UnknownKind).field("state")? {
            State::Rolling(v1::Nothing {}) => UpdateState::Rolling,
            State::Paused(paused) => {
                let (at, by) = read_since(&paused).field("paused")?;
                UpdateState::Paused { at, by }
            }
            State::Succeeded(at) => UpdateState::Succeeded { at: Time(at) },
            State::Undoing(undoing) => {
                let (since, by) = read_since(&undoing).field("undoing")?;
                UpdateState::Undoing { since, by }
            }
            State::Undone(undone) => {
                let (at, by) = read_since(&undone).field("undone")?;
                UpdateState::Undone { at, by }
            }
            State::Closed(at) => UpdateState::Closed { at: Time(at) },
        };
        let mut changing = BTreeMap::new();
        for (position, task) in update.changing.iter().enumerate() {
            let (since, generation) = (Time(task.since), Generation(task.generation));
            if changing.insert(TaskIndex(task.index), Changing { since, generation }).is_some() {
                return Err(Fault::Twice).element(position).field("changing");
            }
        }
        let mut skipped = BTreeMap::new();
        for (position, task) in update.skipped.iter().enumerate() {
            let why = api::update::skip_reason(task.why).element(position).field("skipped")?;
            if skipped.insert(TaskIndex(task.index), why).is_some() {
                return Err(Fault::Twice).element(position).field("skipped");
            }
        }
        Ok(Self {
            from: Version(update.from),
            to: Version(update.to),
            tasks: read::message(update.tasks, "tasks")?,
            policy: read::message(update.policy, "policy")?,
            restart: update.restart,
            opened: Time(update.opened),
            by: read::name(&update.by, "by")?,
            state,
            changing,
            relapsed: update.relapsed.iter().copied().map(TaskIndex).collect(),
            disruptions: update.disruptions,
            skipped,
            last_passed: update.last_passed.map(Time),
            failure: read::optional(update.failure, "failure")?,
        })
    }
}
