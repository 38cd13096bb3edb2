//! Opening and controlling updates of jobs (paper, section 2.3). What an open update then does to the
//! tasks is in [`super::rolling`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use event::{EventKind, Subject};
use model::{Capability, CollectionId, JobName, TaskIndex, TaskSelection, Time, UserName, Version};
use spec::{FieldChange, JobSpec, UpdatePolicy};

use super::capability::not_allowed;
use super::limits::{differs_in_limits, without_own_limit};
use super::{Events, text_bounds};
use crate::apply::mutation::Change;
use crate::bounds::{DESCRIPTIONS_OF_A_JOB_BYTES_MAX, VERSIONS_KEPT_MAX};
use crate::feasibility::{
    NO_STATIC_PORTS, Offer, Request, Sums, VariantsOfPackage, fits_a_running_task, lacks,
};
use crate::lifecycle::Stage;
use crate::state::Tallied;
use crate::{
    Cell, Changing, Demand, EndsWith, Job, JobPermission, Mutation, NewerUpdate, NewerUpdateState,
    PastVersion, Permission, Permitted, Rejection, Reply, TaskState, Update, UpdateState,
    VersionEnd,
};

/// Update a live job to another description, or some of its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateJob {
    /// The owner of the job.
    pub owner: UserName,
    /// The new description, with the name of the job.
    pub spec: Arc<JobSpec>,
    /// The tasks to change; tasks that are added have the new description in any case.
    pub tasks: TaskSelection,
    /// How the update proceeds; `None`: as the description says.
    pub policy: Option<UpdatePolicy>,
    /// The last version of the job that the user has seen. If there is another one now, the update
    /// is rejected.
    pub expected: Option<Version>,
}

/// An update that was checked.
#[derive(Clone, Copy)]
pub(super) struct Opening<'a> {
    /// What others than the owner of the job need for it.
    pub(super) capability: Capability,
    pub(super) spec: &'a Arc<JobSpec>,
    pub(super) tasks: &'a TaskSelection,
    pub(super) policy: Option<&'a UpdatePolicy>,
    pub(super) kind: OpeningKind,
}

/// An update that was opened, or that has nothing to change.
pub(super) struct Opened {
    /// The version that it leads to.
    pub(super) version: Version,
    /// Whether there was nothing to change.
    pub(super) unchanged: bool,
    /// The fields that it changes.
    pub(super) changes: Arc<[FieldChange]>,
}

impl Opened {
    /// The answer to who opened it for a job.
    pub(super) fn reply(self, collection: CollectionId) -> Reply {
        let Self { version, unchanged, changes } = self;
        Reply::Updated { collection, version, unchanged, changes }
    }
}

/// What an update takes over of the open one that it replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpeningKind {
    /// Another description: an undo goes to the last version that succeeded.
    Description,
    /// Another number of tasks: an update that has not succeeded yet goes on with it, and so does its undo.
    Size,
    /// Other limits, set by an autoscaler: an undo goes where it would have gone.
    Limits,
    /// The same description: every selected task is restarted, also where nothing changes.
    Restart,
}

/// What others than the owner of a job need to change it as they want.
pub(super) const ADMINISTER: Capability = Capability::AdministerJobs;

impl<'a> Opening<'a> {
    /// An update of the whole job to another description, by its policy.
    pub(super) fn to(spec: &'a Arc<JobSpec>) -> Self {
        let (tasks, kind) = (&TaskSelection::All, OpeningKind::Description);
        Self { capability: ADMINISTER, spec, tasks, policy: None, kind }
    }
}

/// What an update does to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// Nothing.
    Unchanged,
    /// It takes over the description where it runs, or before it runs.
    InPlace,
    /// It is restarted, on the same machine if it fits there then.
    Restart,
    /// It no longer fits its machine, and moves.
    Move,
    /// It is new, or starts again.
    Add,
    /// It is removed.
    Remove,
}

impl ChangeKind {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::InPlace => "in place",
            Self::Restart => "restart",
            Self::Move => "move",
            Self::Add => "add",
            Self::Remove => "remove",
        }
    }
}

impl Change for UpdateJob {
    /// Requires access to the job, which is checked when it is applied.
    fn allowed(&self, _: &Cell, _: &UserName) -> Result<(), Rejection> {
        Ok(())
    }

    fn within_bounds(&self) -> Result<(), Rejection> {
        text_bounds::description(&self.spec)?;
        text_bounds::policy(&self.spec, self.policy.as_ref())
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        self.within_bounds()?;
        without_own_limit(&self.spec)?;
        let Self { owner, spec, tasks, policy, expected } = self;
        let who = (owner, &spec.name);
        let what = || JobPermission::Update.of(owner, &spec.name);
        let id = cell.changeable(by, who, what, ADMINISTER, *expected)?;
        let spec = cell.as_applied(owner, spec, tasks);
        let opening = Opening { tasks, policy: policy.as_ref(), ..Opening::to(&spec) };
        Ok(cell.open_update(by, id, &opening, events)?.reply(id))
    }
}

impl Job {
    /// Whether a task has the current description, or an open update is about to give it to the task.
    pub(super) fn has_or_gets_current(&self, index: TaskIndex) -> bool {
        let changing = |update: &Arc<Update>| update.changing.contains_key(&index);
        self.task(index).is_some() && *self.described(index) == self.spec
            || self.open_update().is_some_and(changing)
            || self.is_to_change(index)
    }

    /// The update that opens; and the tasks of the open one that still have to pass, if they need no
    /// other change.
    fn next_update(
        &self,
        now: Time,
        by: &UserName,
        to: Version,
        opening: &Opening<'_>,
    ) -> (Update, BTreeMap<TaskIndex, Changing>) {
        let Opening { spec, tasks, policy, kind, .. } = *opening;
        let open = self.open_update();
        let from = match open {
            None => self.version,
            // A restart changes nothing that could be undone together with an update before it.
            Some(open)
                if kind == OpeningKind::Restart && !open.restart && open.has_ended_well() =>
            {
                self.version
            }
            // What succeeded on some of the tasks is not known to be good for the others.
            Some(open)
                if kind != OpeningKind::Limits && open.has_succeeded_for(self.spec.tasks) =>
            {
                open.to
            }
            Some(open) => open.from,
        };
        let mut update = Update {
            from,
            to,
            tasks: tasks.clone(),
            policy: policy.copied().unwrap_or(spec.update),
            restart: kind == OpeningKind::Restart,
            opened: now,
            by: by.clone(),
            state: UpdateState::Rolling,
            changing: BTreeMap::new(),
            relapsed: BTreeSet::new(),
            disruptions: 0,
            skipped: BTreeMap::new(),
            last_passed: None,
            failure: None,
        };
        let Some(open) = open.filter(|_| kind != OpeningKind::Restart) else {
            return (update, BTreeMap::new());
        };
        let same = |index: &TaskIndex| {
            index.0 < spec.tasks
                && tasks.contains(*index)
                && self.described(*index).task(*index) == spec.task(*index)
        };
        let mut changing = open.changing.clone();
        changing.retain(|index, _| same(index));
        let goes_on = matches!(open.state, UpdateState::Rolling | UpdateState::Paused { .. });
        if goes_on {
            update.relapsed = open.relapsed.iter().copied().filter(same).collect();
        }
        if goes_on && kind == OpeningKind::Size {
            update.state = open.state.clone();
            (update.policy, update.restart) = (open.policy, open.restart);
            update.disruptions = open.disruptions;
            update.skipped = open.skipped.clone();
            update.skipped.retain(|index, _| index.0 < spec.tasks);
            (update.last_passed, update.failure) = (open.last_passed, open.failure.clone());
        } else {
            changing.values_mut().for_each(|changing| changing.since = now);
        }
        (update, changing)
    }

    /// Keeps the version that another one is about to replace. The limits that an autoscaler sets make
    /// no version to which anybody would go back.
    fn keep_version(&mut self) {
        let past = match &self.update {
            None => PastVersion {
                version: self.version,
                since: self.submitted,
                by: self.owner.clone(),
                end: VersionEnd::Submitted,
            },
            Some(update) => PastVersion {
                version: update.to,
                since: update.opened,
                by: update.by.clone(),
                end: VersionEnd::of(update),
            },
        };
        let spec = self.description(past.version);
        let last = self.history.last().and_then(|last| self.description(last.version));
        let scaled = last.zip(spec).is_some_and(|(last, spec)| {
            (last.own_limit.is_some() || spec.own_limit.is_some()) && differs_in_limits(last, spec)
        });
        if scaled || spec.is_none() {
            return;
        }
        let history = Arc::make_mut(&mut self.history);
        history.push(past);
        let too_many = history.len().saturating_sub(VERSIONS_KEPT_MAX);
        history.drain(..too_many);
    }

    /// Drops the oldest versions that are kept only to be looked at, until the rest is small enough.
    fn keep_few_bytes(&mut self) {
        self.forget_descriptions();
        while self.description_bytes > DESCRIPTIONS_OF_A_JOB_BYTES_MAX && !self.history.is_empty() {
            Arc::make_mut(&mut self.history).remove(0);
            self.forget_descriptions();
        }
    }

    /// Rejects a further version of a job whose tasks have many already, unless it replaces them all.
    fn room_for_version(&self, opening: &Opening<'_>) -> Result<(), Rejection> {
        let moves = self.open_update().is_some_and(|update| {
            let paused = matches!(update.state, UpdateState::Paused { .. });
            paused || update.is_moving()
        });
        let replaces_all = *opening.tasks == TaskSelection::All && !moves;
        let bytes = self.bytes_in_use().saturating_add(opening.spec.bytes());
        if replaces_all || bytes <= DESCRIPTIONS_OF_A_JOB_BYTES_MAX {
            return Ok(());
        }
        let (owner, name) = (self.owner.clone(), self.spec.name.clone());
        Err(Rejection::VersionsTooLarge { owner, name, bytes })
    }

    /// Gives the description to which an undo goes the number of tasks that somebody asked for by itself,
    /// or that came into force with what succeeded: that number is no part of what is undone.
    fn resize_to_undo(&mut self, from: Version, opening: &Opening<'_>) {
        let Some(open) = self.open_update() else { return };
        let size = match (opening.kind, &open.state) {
            _ if from == open.to => return,
            (OpeningKind::Limits, _) => return,
            (_, UpdateState::Succeeded { .. }) => self.spec.tasks,
            (OpeningKind::Size, _) => opening.spec.tasks,
            (OpeningKind::Description | OpeningKind::Restart, _) => return,
        };
        let found = self.others.iter_mut().find(|(version, _)| *version == from);
        if let Some((_, spec)) = found.filter(|(_, spec)| spec.tasks != size) {
            let spec = Arc::make_mut(spec);
            spec.tasks = size;
            spec.overrides.retain(|index, _| index.0 < size);
        }
    }
}

impl Cell {
    /// A description as an update of these tasks applies it to the live job of its name: as
    /// [`Self::as_autoscaled`], and with the job's number of tasks if it is for some of them only.
    #[must_use]
    pub fn as_applied(
        &self,
        owner: &UserName,
        spec: &Arc<JobSpec>,
        tasks: &TaskSelection,
    ) -> Arc<JobSpec> {
        let mut spec = self.as_autoscaled(owner, spec);
        let job = self.job_named(owner, &spec.name).filter(|job| job.is_alive());
        let size = job.map_or(spec.tasks, |job| job.spec.tasks);
        if *tasks != TaskSelection::All && spec.tasks != size {
            let sized = Arc::make_mut(&mut spec);
            sized.tasks = size;
            sized.overrides.retain(|index, _| index.0 < size);
        }
        spec
    }

    /// The cell as it would be if a user's change were made now, and every running task that an
    /// update has to restart or move had been stopped at once. It shares everything else with this
    /// one.
    ///
    /// # Errors
    /// If the change would be rejected.
    pub fn preview(
        &self,
        now: Time,
        by: &UserName,
        mutation: &Mutation,
    ) -> Result<Self, Rejection> {
        let (mut cell, mut events) = (self.clone(), Events::default());
        cell.time = cell.time.max(now);
        let reply = cell.mutate(by, mutation.change(), &mut events)?;
        cell.keep_every_machine(&mut events);
        if let Reply::Updated { collection, unchanged: false, .. } = reply {
            cell.stop_all_to_change(collection, &mut events);
        }
        Ok(cell)
    }

    /// The live job of a name, if a user may change it and it is as they expect it.
    /// Others than its owner need the capability.
    pub(super) fn changeable(
        &self,
        by: &UserName,
        (owner, name): (&UserName, &JobName),
        what: impl FnOnce() -> Permission,
        capability: Capability,
        expected: Option<Version>,
    ) -> Result<CollectionId, Rejection> {
        let no_job = || Rejection::NoSuchJob { user: owner.clone(), name: name.clone() };
        let job = self.job_named(owner, name).ok_or_else(no_job)?;
        if by != owner && !self.may(by, capability) {
            let who = Permitted::OwnerOrHolders { owner: owner.clone(), capability };
            return Err(not_allowed(by, what(), who));
        }
        if !job.is_alive() {
            let (owner, name) = (owner.clone(), name.clone());
            return Err(Rejection::JobEnded { owner, name });
        }
        self.lives_with(job)?;
        job.not_being_killed()?;
        if let Some(expected) = expected.filter(|expected| *expected != job.last_version) {
            return Err(changed_meanwhile(job, expected));
        }
        Ok(job.id)
    }

    /// Whether the jobs with which a job ends are alive: else its last tasks are ending, and none may
    /// start.
    pub(crate) fn lives_with(&self, job: &Job) -> Result<(), Rejection> {
        let ended = |other: &CollectionId| self.jobs.get(*other).is_none_or(|job| !job.is_alive());
        let Some(other) = job.parent.into_iter().chain(job.alloc_set).find(ended) else {
            return Ok(());
        };
        let is_parent = job.parent == Some(other);
        let with = if is_parent { EndsWith::Parent } else { EndsWith::AllocSet };
        let (owner, name) = (job.owner.clone(), job.spec.name.clone());
        Err(Rejection::EndsWith { owner, name, with, other })
    }

    /// Opens an update, or replaces an open one.
    pub(super) fn open_update(
        &mut self,
        by: &UserName,
        id: CollectionId,
        opening: &Opening<'_>,
        events: &mut Events,
    ) -> Result<Opened, Rejection> {
        let Opening { spec, tasks, .. } = *opening;
        let job = self.jobs.get(id).ok_or(Rejection::NoSuchCollection(id))?;
        let (owner, name) = (job.owner.clone(), job.spec.name.clone());
        let last = job.spec.tasks.max(spec.tasks);
        if !tasks.is_within(last) {
            return Err(Rejection::NoSuchTask { last: last.saturating_sub(1) });
        }
        if self.is_as_described(job, spec, tasks) {
            let version = job.version;
            return Ok(Opened { version, unchanged: true, changes: Arc::default() });
        }
        let fields = job.spec.fixed_fields_changed(spec);
        if !fields.is_empty() {
            return Err(Rejection::Fixed { owner, name, fields });
        }
        self.may_submit(by, spec)?;
        self.check_packages(&owner, spec, Some(job))?;
        self.check_secrets(&owner, spec)?;
        self.larger_gang_could_fit(job, spec)?;
        if let Some(set) = spec.kind.alloc_set() {
            self.alloc_set_for(&owner, spec, set)?;
        }
        self.allocs_would_still_hold(job, spec, tasks)?;
        self.jobs_inside_fit(job, spec)?;
        let added = spec.tasks.saturating_sub(job.rows());
        let wait = spec.tasks.saturating_sub(job.counts().alive());
        self.room_for_tasks(&owner, by, added, wait)?;
        job.room_for_version(opening)?;
        self.room_for_description(&owner, by, spec)?;
        self.within_quota(&owner, spec).map_err(Rejection::Quota)?;
        let changes = self.open_unchecked(by, id, opening, events);
        let version = self.jobs.get(id).map_or(Version(0), |job| job.last_version);
        Ok(Opened { version, unchanged: false, changes })
    }

    /// Opens an update that was checked. Returns the fields that it changes.
    pub(super) fn open_unchecked(
        &mut self,
        by: &UserName,
        id: CollectionId,
        opening: &Opening<'_>,
        events: &mut Events,
    ) -> Arc<[FieldChange]> {
        let Opening { capability, spec, .. } = *opening;
        let (now, before) = (self.time, self.charges_of(id));
        let Some(job) = self.jobs.get_mut(id) else { return Arc::default() };
        let changes: Arc<[_]> =
            job.spec.changes(spec).into_iter().map(|(change, _)| change).collect();
        let (owner, tallied) = (job.owner.clone(), Tallied::of(job));
        let to = Version(job.last_version.0.saturating_add(1));
        let (update, changing) = job.next_update(now, by, to, opening);
        let from = update.from;
        job.keep_version();
        job.others.push((job.version, Arc::clone(&job.spec)));
        job.resize_to_undo(from, opening);
        (job.spec, job.version, job.last_version) = (Arc::clone(spec), to, to);
        job.ports = spec.task.all_ports().into_iter().collect();
        job.update = Some(Arc::new(update));
        job.keep_few_bytes();
        let stage = job.state.stage();
        if spec.is_on_every_machine() {
            events.respread.insert(id);
        }
        self.tally.replace(&owner, tallied, Tallied::of(job));
        self.recharge(&owner, &before, &self.charges_of(id));
        self.updating.insert(id);
        let opened = EventKind::UpdateOpened { from, to, changes: Arc::clone(&changes) };
        events.add(Subject::Job(id), opened);
        events.add(
            Subject::Job(id),
            match stage {
                Stage::Running => EventKind::UpdateRunning,
                _ => EventKind::UpdatePending,
            },
        );
        if by != &owner {
            events.add(Subject::Job(id), EventKind::CapabilityUsed { capability });
        }
        self.used_for(by, id, spec, events);
        self.add_missing(id, true, events);
        self.change_at_once(id, events);
        self.keep_changing(id, changing);
        // Nothing is left to do where everything changed at once.
        self.succeed(id, events);
        changes
    }

    /// Whether an update would change nothing: the description is the current one, and each selected
    /// task is alive and has it, or an open update is about to give it to the task.
    fn is_as_described(&self, job: &Job, spec: &Arc<JobSpec>, tasks: &TaskSelection) -> bool {
        if *job.spec != **spec {
            return false;
        }
        let has_it = |index: TaskIndex| {
            let starts = job.task(index).is_some_and(|task| !wants_revival(task));
            job.is_free_row(index) || starts && job.has_or_gets_current(index)
        };
        tasks.of(spec.tasks).all(has_it)
    }

    /// What an update of a running task to a description would do to it.
    #[must_use]
    pub fn change_kind(&self, job: &Job, spec: &JobSpec, index: TaskIndex) -> ChangeKind {
        let Some(task) = job.task(index) else { return ChangeKind::Add };
        if index.0 >= spec.tasks {
            return ChangeKind::Remove;
        }
        match &task.state {
            TaskState::Dead { .. } if job.is_free_row(index) => ChangeKind::Unchanged,
            TaskState::Dead { .. } if wants_revival(task) => ChangeKind::Add,
            TaskState::Dead { .. } => ChangeKind::Unchanged,
            TaskState::Queued { .. } | TaskState::Pending { .. } => ChangeKind::InPlace,
            TaskState::Running(_) => {
                let fits = self.fits_in_place(job, spec, index);
                let old = job.described(index);
                match (old.must_restart(spec, index), fits) {
                    (true, true) => ChangeKind::Restart,
                    (_, false) => ChangeKind::Move,
                    (false, true) if old.task(index) == spec.task(index) => {
                        match old.priority == spec.priority {
                            true => ChangeKind::Unchanged,
                            false => ChangeKind::InPlace,
                        }
                    }
                    (false, true) => ChangeKind::InPlace,
                }
            }
        }
    }

    /// Whether a running task fits where it runs with another description.
    pub(super) fn fits_in_place(&self, job: &Job, spec: &JobSpec, index: TaskIndex) -> bool {
        let Some(TaskState::Running(placement)) = job.task(index).map(|task| &task.state) else {
            return false;
        };
        let Some(machine) = self.machines.get(placement.machine) else { return false };
        let old = job.described(index);
        let (limit, was) = (spec.limit(index), old.limit(index));
        if let Some(alloc) = placement.alloc() {
            let free = Offer::within(self, machine, alloc).free.plus(was);
            return limit.first_above(&was).is_none() || lacks(&limit, &free).is_ok();
        }
        if let Some(instance) = job.instance(index).filter(|_| job.spec.kind.is_alloc_set()) {
            let used = machine.used(instance).unwrap_or_default();
            if used.first_above(&limit).is_some() {
                return false;
            }
        }
        let (before, demand) = (job.demand(index), job.demand_as(spec, index));
        let taken = Sums::of(machine).without(&before);
        let offer = taken.offered_by(machine);
        // Constraints that existed before are not checked again, even if the machine no longer
        // matches.
        let wanted = spec.constraints(index);
        let constraints = if wanted == old.constraints(index) { &[] } else { wanted };
        let (max_per_machine, max_per_switch) = (None, None);
        let network = &spec.task.network;
        // The same for packages.
        let same = old.task.image == spec.task.image && old.task.packages == spec.task.packages;
        let variants = match same {
            true => Vec::new(),
            false => VariantsOfPackage::of(self, &job.owner, spec),
        };
        let ask = Request {
            demand,
            ports: 0,
            static_ports: &NO_STATIC_PORTS,
            network,
            constraints,
            variants: variants.into(),
            volumes: None,
            machine: None,
            max_per_machine,
            max_per_switch,
        };
        // A task that does not grow stays, even on a machine that became too small. Becoming
        // production counts as growing there.
        let prod = |demand: &Demand| if demand.prod { demand.limit } else { Default::default() };
        let grows = demand.reservation.first_above(&before.reservation).is_some()
            || prod(&demand).first_above(&prod(&before)).is_some();
        fits_a_running_task(&ask, &offer, grows).is_ok()
    }

    /// Whether, with another description, every alloc that it changes still holds its tasks.
    fn allocs_would_still_hold(
        &self,
        job: &Job,
        spec: &JobSpec,
        tasks: &TaskSelection,
    ) -> Result<(), Rejection> {
        if !job.spec.kind.is_alloc_set() {
            return Ok(());
        }
        for (index, task) in job.tasks().filter(|(index, _)| tasks.contains(*index)) {
            let TaskState::Running(placement) = &task.state else { continue };
            let alloc = model::TaskId { collection: job.id, index };
            let used = self
                .machines
                .get(placement.machine)
                .and_then(|machine| machine.used(alloc.generation(task.generation)));
            let (limit, used) = (spec.limit(index), used.unwrap_or_default());
            if let Some(dimension) = used.first_above(&limit).filter(|_| index.0 < spec.tasks) {
                let (asked, used) = (limit.get(dimension), used.get(dimension));
                return Err(Rejection::AllocTooSmall { alloc, dimension, asked, used });
            }
        }
        Ok(())
    }
}

/// Whether an update starts a task again: one that failed or was killed or is being killed, but not one
/// that has finished.
pub(super) fn wants_revival(task: &crate::Task) -> bool {
    use crate::{Death, KillReason};
    match &task.state {
        TaskState::Running(placement) => {
            matches!(placement.killed(), Some(KillReason::User(_) | KillReason::Now(_)))
        }
        TaskState::Dead { death, .. } => match death {
            Death::Failed => true,
            Death::Killed(why) => {
                matches!(why, KillReason::User(_) | KillReason::Now(_) | KillReason::Removed)
            }
            Death::Finished => false,
        },
        _ => false,
    }
}

/// The rejection of a request that was made for an earlier version of the job.
fn changed_meanwhile(job: &Job, seen: Version) -> Rejection {
    let (owner, name) = (job.owner.clone(), job.spec.name.clone());
    let now = job.last_version;
    let update = job.update.as_ref().map(|update| {
        let state = match &update.state {
            UpdateState::Rolling => NewerUpdateState::Rolling,
            UpdateState::Paused { .. } => NewerUpdateState::Paused,
            UpdateState::Succeeded { .. } => NewerUpdateState::Succeeded,
            UpdateState::Undoing { .. } => NewerUpdateState::Undoing,
            UpdateState::Undone { .. } => NewerUpdateState::Undone,
            UpdateState::Closed { .. } => NewerUpdateState::Closed,
        };
        NewerUpdate { by: update.by.clone(), to: update.to, state }
    });
    Rejection::ChangedMeanwhile { owner, name, seen, now, update }
}
