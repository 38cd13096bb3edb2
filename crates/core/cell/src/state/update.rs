//! Updates of jobs: from one version of the description to the next, task by task (paper, section
//! 2.3).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use event::{Death, KillReason, SkipReason, UpdateFailure};
use model::{
    Appclass, End, Generation, InstanceId, Priority, Resources, Span, TaskIndex, TaskSelection,
    Time, UserName, Version,
};
use spec::{JobSpec, RestartWhen, UpdatePolicy};

use super::{Health, Job, Phase, Placement, Task, TaskState};
use crate::lifecycle::Stage;

/// An update of a job. A job has at most one; when it has ended it is kept until the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The version to which an undo goes back: the last one that succeeded.
    pub from: Version,
    /// The new version.
    pub to: Version,
    /// The tasks that are changed; added tasks have the new version in any case.
    pub tasks: TaskSelection,
    /// How it proceeds.
    pub policy: UpdatePolicy,
    /// Whether every selected task is restarted, also where nothing changes.
    pub restart: bool,
    /// When it was opened.
    pub opened: Time,
    /// Who opened it.
    pub by: UserName,
    /// Its state.
    pub state: UpdateState,
    /// The tasks that were changed and have not been healthy for long enough yet.
    pub changing: BTreeMap<TaskIndex, Changing>,
    /// The tasks that failed once after they had been healthy for long enough. The next failure of
    /// one is the update's.
    pub relapsed: BTreeSet<TaskIndex>,
    /// How many running tasks it has restarted or moved.
    pub disruptions: u32,
    /// The tasks that it leaves as they are, and why.
    pub skipped: BTreeMap<TaskIndex, SkipReason>,
    /// When the last of its changed tasks was healthy for long enough; `None` before the first.
    pub last_passed: Option<Time>,
    /// The failure that stopped it, if one did.
    pub failure: Option<UpdateFailure>,
}

/// A task that an update has changed and that has not been healthy for long enough yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changing {
    /// Since when.
    pub since: Time,
    /// Its first incarnation whose failure is the update's.
    pub generation: Generation,
}

/// The state of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateState {
    /// It changes tasks.
    Rolling,
    /// It changes no further task until it is resumed or undone.
    Paused {
        /// Since when.
        at: Time,
        /// Who paused it; `None` if it failed.
        by: Option<UserName>,
    },
    /// Every task is updated or skipped. It can be undone until it is closed.
    Succeeded {
        /// Since when.
        at: Time,
    },
    /// It changes tasks back.
    Undoing {
        /// Since when.
        since: Time,
        /// Who undid it; `None` if it failed.
        by: Option<UserName>,
    },
    /// Every task is back on the last version that succeeded.
    Undone {
        /// Since when.
        at: Time,
        /// Who undid it; `None` if it failed.
        by: Option<UserName>,
    },
    /// It succeeded and can no longer be undone, or its job ended.
    Closed {
        /// Since when.
        at: Time,
    },
}

/// A version of a job's description that another one has replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastVersion {
    /// The version; its description is kept.
    pub version: Version,
    /// Since when it was the job's, or an update led to it.
    pub since: Time,
    /// Who submitted it.
    pub by: UserName,
    /// How it ended.
    pub end: VersionEnd,
}

/// How a version of a description ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VersionEnd {
    /// The job was submitted with it.
    Submitted,
    /// Its update succeeded.
    Succeeded,
    /// Another one replaced it before its update had succeeded.
    Replaced,
    /// Its update failed and was undone.
    Failed,
    /// A user undid its update.
    Undone,
}

impl VersionEnd {
    /// Every end.
    pub const ALL: [Self; 5] =
        [Self::Submitted, Self::Succeeded, Self::Replaced, Self::Failed, Self::Undone];

    /// How the version of an update ends that another one replaces.
    #[must_use]
    pub fn of(update: &Update) -> Self {
        match &update.state {
            UpdateState::Rolling | UpdateState::Paused { .. } => Self::Replaced,
            UpdateState::Succeeded { .. } | UpdateState::Closed { .. } => Self::Succeeded,
            UpdateState::Undoing { by: None, .. } | UpdateState::Undone { by: None, .. } => {
                Self::Failed
            }
            UpdateState::Undoing { .. } | UpdateState::Undone { .. } => Self::Undone,
        }
    }
}

impl UpdateState {
    /// Whether the update is open: another one would continue from it, and it can be undone.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self, Self::Undone { .. } | Self::Closed { .. })
    }
}

impl Update {
    /// The version that tasks are being changed to.
    #[must_use]
    pub fn target(&self) -> Version {
        match self.state {
            UpdateState::Undoing { .. } | UpdateState::Undone { .. } => self.from,
            _ => self.to,
        }
    }

    /// Whether every task that it changes is done.
    #[must_use]
    pub(crate) fn has_ended_well(&self) -> bool {
        matches!(self.state, UpdateState::Succeeded { .. })
    }

    /// Whether it has succeeded on every task of a job of so many.
    #[must_use]
    pub(crate) fn has_succeeded_for(&self, tasks: u32) -> bool {
        self.has_ended_well() && (0..tasks).all(|index| self.tasks.contains(TaskIndex(index)))
    }

    /// Whether the tasks that it changes are restarted in any case; an undo restarts only what it has
    /// to.
    #[must_use]
    pub fn restarts_all(&self) -> bool {
        self.restart && self.target() == self.to
    }

    /// Whether it changes tasks now.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        matches!(self.state, UpdateState::Rolling | UpdateState::Undoing { .. })
    }

    /// The end of the wait between two batches, while none is being changed; an undo does not wait.
    #[must_use]
    pub fn next_batch(&self) -> Option<Time> {
        let waits = self.state == UpdateState::Rolling && self.changing.is_empty();
        let passed = self.last_passed.filter(|_| waits && self.policy.wait > Span::ZERO);
        passed.map(|passed| passed + self.policy.wait)
    }

    fn is_to_change(&self, index: TaskIndex, task: &Task) -> bool {
        if self.changing.contains_key(&index) || matches!(task.state, TaskState::Dead { .. }) {
            return false;
        }
        match self.state {
            UpdateState::Rolling | UpdateState::Paused { .. } => {
                task.version != self.to
                    && self.tasks.contains(index)
                    && !self.skipped.contains_key(&index)
            }
            UpdateState::Undoing { .. } => task.version > self.from,
            _ => false,
        }
    }
}

impl Job {
    /// Whether its open update has still to change a task.
    #[must_use]
    pub fn is_to_change(&self, index: TaskIndex) -> bool {
        let (Some(update), Some(task)) = (self.open_update(), self.task(index)) else {
            return false;
        };
        index.0 < self.spec.tasks && update.is_to_change(index, task)
    }

    /// The failure of a task that an update has changed: the incarnation that ended, and how.
    #[must_use]
    pub fn failed_change(&self, index: TaskIndex) -> Option<(InstanceId, &End)> {
        let update = self.update.as_ref()?;
        let (changing, task) = (update.changing.get(&index)?, self.task(index)?);
        let last = task.last_incarnation.as_deref()?;
        let counts = last.generation >= changing.generation && last.version == update.target();
        let failed = match last.end {
            // The end of a program that is to run for ever is no success.
            End::Exited { code: 0 } => self.spec.restart.when == RestartWhen::Always,
            End::Lost { .. } | End::Stopped => false,
            _ => true,
        };
        let id = model::TaskId { collection: self.id, index };
        (counts && failed).then(|| (id.generation(last.generation), &last.end))
    }
}

impl Task {
    /// Takes over another version while it does not run. What made it fail before may be changed: its
    /// failures no longer count, and it is retried at once.
    pub(crate) fn take_version(&mut self, version: Version, now: Time) {
        (self.version, self.failures, self.finishes, self.ends_in_row) = (version, 0, 0, 0);
        if let TaskState::Pending { not_before, .. } = &mut self.state {
            *not_before = now.min(*not_before);
        }
    }

    /// Whether it was removed because its job needed it no more: it can start again.
    #[must_use]
    pub(crate) fn is_removed(&self) -> bool {
        matches!(self.state, TaskState::Dead { death: Death::Killed(KillReason::Removed), .. })
    }

    /// Whether it is on its way from its machine, killed.
    pub(crate) fn is_being_killed(&self) -> bool {
        matches!(&self.state, TaskState::Running(placement) if placement.killed().is_some())
    }

    /// How often its program ended by itself so far: the number of its restarts, with the one that it
    /// waits for.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        self.failures.saturating_add(self.finishes)
    }

    /// Since when it is up: its program runs, is healthy, and is not being stopped.
    #[must_use]
    pub fn up_since(&self) -> Option<Time> {
        match &self.state {
            TaskState::Running(placement) => placement.up_since(),
            _ => None,
        }
    }
}

impl Placement {
    /// See [`Task::up_since`].
    #[must_use]
    pub fn up_since(&self) -> Option<Time> {
        match self.phase {
            Phase::Started { health: Health::Healthy, since, .. } if self.stop.is_none() => {
                Some(since)
            }
            _ => None,
        }
    }
}

impl Job {
    /// The description that a task's current incarnation has.
    #[must_use]
    pub fn described(&self, index: TaskIndex) -> &Arc<JobSpec> {
        match self.task(index) {
            Some(task) if task.version != self.version => {
                self.description(task.version).unwrap_or(&self.spec)
            }
            _ => &self.spec,
        }
    }

    /// A version of its description, if it is still stored: the current one, those of its tasks, and
    /// that to which an open update can be undone.
    #[must_use]
    pub fn description(&self, version: Version) -> Option<&Arc<JobSpec>> {
        if version == self.version {
            return Some(&self.spec);
        }
        self.others.iter().find(|(other, _)| *other == version).map(|(_, spec)| spec)
    }

    /// Its tasks in order, in pieces with the number of times that each is repeated: many tasks that are
    /// the same are looked at once.
    pub fn task_runs(&self) -> impl Iterator<Item = (&[Task], usize)> {
        self.tasks.runs()
    }

    /// The size of its descriptions, earlier versions included.
    pub(crate) fn measured(&self) -> u64 {
        let others = self.others.iter().map(|(_, spec)| spec.bytes());
        others.fold(self.spec.bytes(), u64::saturating_add)
    }

    /// The size of the descriptions, the current one included, that its live tasks have or an undo goes
    /// to.
    pub(crate) fn bytes_in_use(&self) -> u64 {
        self.descriptions_in_use().fold(0, |sum, spec| sum.saturating_add(spec.bytes()))
    }

    /// The descriptions that its live tasks have or get without a further update: the current one, that
    /// to which an undo goes, and those of tasks that were not changed.
    pub(crate) fn descriptions_in_use(&self) -> impl Iterator<Item = &Arc<JobSpec>> {
        let mut used: BTreeSet<Version> = [self.version].into();
        used.extend(self.open_update().map(|update| update.from));
        if !self.others.is_empty() {
            let alive = self.tasks().filter(|(_, task)| task.state.stage() != Stage::Dead);
            used.extend(alive.map(|(_, task)| task.version));
        }
        used.into_iter().filter_map(|version| self.description(version))
    }

    /// The highest priority that its tasks have or get without a further update.
    pub(crate) fn highest_priority(&self) -> Priority {
        let used = self.descriptions_in_use().map(|spec| spec.priority);
        used.max().unwrap_or(self.spec.priority)
    }

    /// The highest priority that tasks in its allocs may have: the lowest that an alloc has or gets
    /// without a further update.
    pub(crate) fn priority_for_inside(&self) -> Priority {
        let used = self.descriptions_in_use().map(|spec| spec.priority);
        used.min().unwrap_or(self.spec.priority)
    }

    /// The stored versions of its description besides the current one, oldest first.
    pub fn other_descriptions(&self) -> impl Iterator<Item = (Version, &Arc<JobSpec>)> {
        self.others.iter().map(|(version, spec)| (*version, spec))
    }

    /// Its open update.
    #[must_use]
    pub fn open_update(&self) -> Option<&Arc<Update>> {
        self.update.as_ref().filter(|update| update.state.is_open())
    }

    /// The description to which its open update can be undone.
    #[must_use]
    pub(crate) fn undo_description(&self) -> Option<&Arc<JobSpec>> {
        let update = self.open_update()?;
        let undoing = matches!(update.state, UpdateState::Undoing { .. });
        self.description(if undoing { update.to } else { update.from })
    }

    /// Whether it ends as soon as its tasks have ended where they run: each that is alive is being killed.
    #[must_use]
    pub fn is_being_killed(&self) -> bool {
        let ends = |task: &Task| match &task.state {
            TaskState::Queued { .. } | TaskState::Pending { .. } => false,
            TaskState::Running(placement) => placement.killed().is_some_and(|why| {
                !matches!(why, KillReason::Removed | KillReason::MachineLeft(_))
            }),
            TaskState::Dead { .. } => true,
        };
        // A job with a task on every machine goes on without any.
        let any = self.machine_tasks.is_none() || self.counts().running > 0;
        any && self.counts.alive() > 0 && self.tasks().all(|(_, task)| ends(task))
    }

    /// Whether a task is healthy only when its machine says so: it has a health check, or it serves and
    /// has to run for a moment. Another one is healthy as soon as it runs.
    #[must_use]
    pub fn has_reported_health(&self, index: TaskIndex) -> bool {
        let spec = self.described(index);
        let serves = spec.appclass == Appclass::LatencySensitive && !spec.kind.is_alloc_set();
        serves || spec.health_check(index).is_some() || spec.task.readiness.is_some()
    }

    /// Number of rows: its tasks, and after them those that were removed or are replacements.
    #[must_use]
    pub fn rows(&self) -> u32 {
        u32::try_from(self.tasks.len()).unwrap_or(u32::MAX)
    }

    /// Number of tasks to show: those of its description, and further ones that are alive.
    #[must_use]
    pub fn size(&self) -> u32 {
        let rows = self.rows();
        let alive = |index: &u32| {
            self.task(TaskIndex(*index))
                .is_some_and(|task| !matches!(task.state, TaskState::Dead { .. }))
        };
        (self.spec.tasks..rows).rev().find(alive).map_or(self.spec.tasks, |last| last + 1)
    }

    /// The tasks beyond its description that are alive: being removed, or replacements.
    pub fn extra_tasks(&self) -> impl Iterator<Item = (TaskIndex, &Task)> {
        let extra = (self.spec.tasks..self.rows()).map(TaskIndex);
        let tasks = extra.filter_map(|index| Some((index, self.task(index)?)));
        tasks.filter(|(_, task)| !matches!(task.state, TaskState::Dead { .. }))
    }

    /// Whether a task beyond its description has ended by itself, as a replacement does whose program is
    /// not a service: another one would, too.
    pub(crate) fn has_ended_extra(&self) -> bool {
        let mut extra =
            (self.spec.tasks..self.rows()).filter_map(|index| self.task(TaskIndex(index)));
        extra.any(|task| matches!(task.state, TaskState::Dead { .. }) && !task.is_removed())
    }

    /// Whether it has an extra task that is not being removed.
    #[must_use]
    pub(crate) fn is_replaced(&self) -> bool {
        self.extra_tasks().any(|(_, task)| !task.is_being_killed())
    }

    /// Number of its live tasks without the extra ones.
    #[must_use]
    pub fn wanted(&self) -> u32 {
        let extra = u32::try_from(self.extra_tasks().count()).unwrap_or(u32::MAX);
        // What waits for tasks of other jobs is not down.
        let behind = if self.state == super::JobState::Queued { 0 } else { self.counts.queued };
        self.counts.alive().saturating_sub(extra).saturating_sub(behind)
    }

    /// Number of its tasks that are down: alive but not up. Extra tasks make up for others.
    #[must_use]
    pub fn down(&self) -> u32 {
        self.wanted().saturating_sub(self.counts.up)
    }

    /// Whether the undo of its open update does not wait for a task that is down: one that fails in the
    /// version to which tasks go back, or has been down for as long as a changed task may be.
    #[must_use]
    pub fn is_given_up(&self, index: TaskIndex, now: Time) -> bool {
        let Some(update) = self.open_update() else { return false };
        let Some(task) = self.task(index) else { return false };
        let undoing = matches!(update.state, UpdateState::Undoing { .. });
        let waits = update.changing.contains_key(&index) || task.version != update.target();
        let since = match &task.state {
            TaskState::Pending { since, .. } => *since,
            TaskState::Running(placement) => placement.since,
            TaskState::Queued { .. } | TaskState::Dead { .. } => return false,
        };
        let long = now.since(since) >= update.policy.healthy_within;
        undoing && !waits && task.up_since().is_none() && (task.failures > 0 || long)
    }

    /// Number of its tasks without which the undo of its open update goes on.
    #[must_use]
    pub fn given_up(&self, now: Time) -> u32 {
        let all = (0..self.rows()).map(TaskIndex).filter(|index| self.is_given_up(*index, now));
        u32::try_from(all.count()).unwrap_or(u32::MAX)
    }

    /// The charged amount of a task: while an update is open, enough for both descriptions, so that
    /// an undo never lacks quota.
    pub(crate) fn charged_limit(&self, index: TaskIndex) -> Resources {
        let none = Resources::default();
        let Some(task) = self.task(index) else { return none };
        let limit = |spec: &Arc<JobSpec>| match index.0 < spec.tasks {
            true => spec.limit(index),
            false => none,
        };
        let back = self.undo_description().map_or(none, limit);
        match &task.state {
            TaskState::Dead { death: Death::Killed(KillReason::Removed), .. } => back,
            TaskState::Dead { .. } => none,
            _ => back.most(limit(&self.spec)).most(match index.0 < self.spec.tasks {
                true => self.limit(index),
                false => none,
            }),
        }
    }
}
