//! Submitting and killing jobs.

use std::sync::Arc;

use event::{Death, Event, EventKind, KillReason, PendingCause, StopReason, Subject};
use model::{
    Capability, CollectionId, FinalUsage, JobName, TaskIndex, TaskSelection, UserName, Version,
};
use spec::{EndCondition, JobReference, JobSpec, Predecessor};

use super::alloc::Entered;
use super::capability::not_the_owner;
use super::limits::without_own_limit;
use super::quota::charges;
use super::update::{Opened, Opening};
use super::{Events, ids_used_up, text_bounds};
use crate::apply::mutation::Change;
use crate::lifecycle::Transition;
use crate::state::Tallied;
use crate::{
    Cell, Countable, Job, JobParts, JobPermission, JobState, ReferenceField, Rejection, Reply,
    RunsAfter, Submission, Task, TaskState,
};

/// The jobs that a description refers to, resolved.
struct Related {
    after: Vec<RunsAfter>,
    waits_for: Vec<CollectionId>,
    follows: Vec<CollectionId>,
    parent: Option<CollectionId>,
    alloc_set: Option<Entered>,
}

/// Submits a job. A live job of the same name and description is left unchanged; one whose
/// description differs only in what can be changed in place is updated.
impl Change for Arc<JobSpec> {
    /// The user becomes the owner; capabilities are checked when it is applied.
    fn allowed(&self, _: &Cell, _: &UserName) -> Result<(), Rejection> {
        Ok(())
    }

    fn within_bounds(&self) -> Result<(), Rejection> {
        text_bounds::description(self)
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        cell.submit(by, self, events)
    }
}

/// Kill the newest job of a name, or some of its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The owner of the job.
    pub owner: UserName,
    /// Its name.
    pub job: JobName,
    /// The tasks to kill.
    pub tasks: TaskSelection,
    /// Whether they get no notice, also if they are being stopped already.
    pub now: bool,
}

impl Kill {
    /// Kills tasks of the job with this job's name.
    #[must_use]
    pub fn of(job: &Job, tasks: TaskSelection) -> Self {
        Self { owner: job.owner.clone(), job: job.spec.name.clone(), tasks, now: false }
    }
}

impl Change for Kill {
    /// Requires access to the job, which is checked when it is applied.
    fn allowed(&self, _: &Cell, _: &UserName) -> Result<(), Rejection> {
        Ok(())
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Self { owner, job, tasks, now } = self;
        let job = cell
            .job_named(owner, job)
            .ok_or_else(|| Rejection::NoSuchJob { user: owner.clone(), name: job.clone() })?;
        let id = job.id;
        // The owner of an alloc set may kill the jobs that run in it.
        let set = job.alloc_set.and_then(|set| cell.jobs.get(set));
        let foreign = *by != job.owner && set.is_none_or(|set| set.owner != *by);
        if foreign && !cell.may(by, Capability::AdministerJobs) {
            let (name, capability) = ((owner, &job.spec.name), Capability::AdministerJobs);
            return Err(not_the_owner(by, name, JobPermission::Kill, capability));
        }
        let last = job.size().saturating_sub(1);
        if !tasks.is_within(last.saturating_add(1)) {
            return Err(Rejection::NoSuchTask { last });
        }
        // The others of a gang cannot go on without one.
        let tasks = if job.is_gang() { &TaskSelection::All } else { tasks };
        let (mut killed, place) = (0, events.events.len());
        if *tasks == TaskSelection::All && job.spec.kind.is_alloc_set() {
            cell.kill_jobs_in(id, events);
        }
        let why = match now {
            true => KillReason::Now(by.clone()),
            false => KillReason::User(by.clone()),
        };
        for index in tasks.of(last.saturating_add(1)) {
            killed += u32::from(cell.kill_task(id, index, &why, events));
        }
        if *tasks == TaskSelection::All {
            cell.end_without_tasks(id, &why, events);
        }
        if foreign && events.events.len() > place {
            let capability = Capability::AdministerJobs;
            let kind = EventKind::CapabilityUsed { capability };
            // Emitted before the effects: a job that ends here has no event after its end.
            let usage = FinalUsage::UNMEASURED;
            events.events.insert(place, Event { subject: Subject::Job(id), kind, usage });
        }
        Ok(Reply::Killed { collection: id, tasks: killed })
    }
}

impl Job {
    /// Whether a new job may run after it.
    ///
    /// # Errors
    /// If it has ended in another way than the new job needs, or will, or each task of the new job is to wait
    /// for a task of it, and it has another number of them.
    fn may_be_waited_for(&self, by: &JobSpec, runs_after: RunsAfter) -> Result<(), Rejection> {
        let (user, name) = (self.owner.clone(), self.spec.name.clone());
        if runs_after.when == EndCondition::Finished {
            self.not_being_killed()?;
        }
        let (theirs, own) = (self.spec.tasks, by.tasks);
        if runs_after.each_task && theirs != own {
            return Err(Rejection::CounterpartsMissing { user, name, theirs, own });
        }
        let JobState::Dead { death, .. } = &self.state else { return Ok(()) };
        let is_met = match runs_after.each_task {
            true => self
                .tasks()
                .any(|(_, task)| task.state.death().is_some_and(|death| runs_after.is_met(death))),
            false => runs_after.is_met(death),
        };
        match runs_after.when {
            _ if is_met => Ok(()),
            EndCondition::Failed => Err(Rejection::PredecessorFinished { user, name }),
            EndCondition::Finished | EndCondition::Ended => {
                Err(Rejection::PredecessorEnded { user, name })
            }
        }
    }

    /// The rejection of what would change it or depend on it while it is being killed.
    ///
    /// # Errors
    /// If it is.
    pub(super) fn not_being_killed(&self) -> Result<(), Rejection> {
        let (owner, name) = (self.owner.clone(), self.spec.name.clone());
        if self.is_being_killed() { Err(Rejection::BeingKilled { owner, name }) } else { Ok(()) }
    }
}

impl Cell {
    pub(super) fn submit(
        &mut self,
        by: &UserName,
        spec: &Arc<JobSpec>,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        text_bounds::description(spec)?;
        without_own_limit(spec)?;
        let spec = &self.as_autoscaled(by, spec);
        if spec.is_on_every_machine() {
            text_bounds::description(spec)?;
        }
        if let Some(job) = self.job_named(by, &spec.name)
            && job.is_alive()
        {
            job.not_being_killed()?;
            let collection = job.id;
            let Opened { version, unchanged, changes } =
                self.open_update(by, collection, &Opening::to(spec), events)?;
            let submission = if unchanged { Submission::Unchanged } else { Submission::Updated };
            let expiring_quota = self.expiring_quota(collection);
            return Ok(Reply::Submitted {
                collection,
                submission,
                version,
                changes,
                expiring_quota,
            });
        }
        if self.service(by, &spec.name).is_some() {
            return Err(Rejection::NameOfService { user: by.clone(), name: spec.name.clone() });
        }
        self.room_for_tasks(by, by, spec.tasks, spec.tasks)?;
        self.room_for_every_machine(by, spec)?;
        self.room_for_description(by, by, spec)?;
        self.may_submit(by, spec)?;
        self.check_packages(by, spec, None)?;
        self.check_secrets(by, spec)?;
        self.gang_could_fit(by, spec)?;
        let Related { after, waits_for, follows, parent, alloc_set } = self.related(by, spec)?;
        self.within_quota(by, spec).map_err(Rejection::Quota)?;
        let (entered, alloc_set) = (alloc_set, alloc_set.map(|entered| entered.set));
        let last = self.last_collection.0;
        let id =
            CollectionId(last.checked_add(1).ok_or_else(|| ids_used_up(Countable::JobIds, last))?);
        self.last_collection = id;
        self.tasks = self.tasks.saturating_add(spec.tasks.into());
        let waits = !waits_for.is_empty() || !follows.is_empty();
        for other in waits_for.iter().chain(&follows) {
            self.waiting.insert((*other, id));
        }
        for with in parent.into_iter().chain(alloc_set) {
            self.children.insert((with, id));
        }
        let mut job = Job::from_parts(JobParts {
            id,
            owner: by.clone(),
            spec: Arc::clone(spec),
            version: Version(1),
            last_version: Version(1),
            others: Vec::new(),
            update: None,
            history: Vec::new(),
            disrupted: Vec::new(),
            submitted: self.time,
            state: JobState::Pending,
            after,
            waits_for,
            follows,
            parent,
            alloc_set,
            tasks: vec![Task::new(self.time, Version(1)); spec.tasks as usize],
            machine_tasks: self.machine_tasks(by, spec),
        });
        if let Some(Entered { set, by_capability: true }) = entered {
            let capability = Capability::AdministerJobs;
            events.add(Subject::Job(set), EventKind::CapabilityUsed { capability });
        }
        let submitted = EventKind::Submit { cause: PendingCause::Submitted };
        events.add(Subject::Job(id), submitted.clone());
        let waits = waits || (spec.tasks > 0 && self.defers(&job));
        if waits && job.advance(Transition::Queue, JobState::Queued).is_ok() {
            events.add(Subject::Job(id), EventKind::Queue);
        }
        for index in (0..spec.tasks).map(TaskIndex) {
            let Some(instance) = job.instance(index) else { continue };
            events.add(Subject::Task(instance), submitted.clone());
            if waits && job.queue_task(index, self.time) {
                events.add(Subject::Task(instance), EventKind::Queue);
            }
        }
        if spec.is_on_every_machine() {
            self.every_machine.insert(id);
        }
        if !waits && spec.tasks > 0 {
            self.pending.insert(id);
        }
        job.claims = self.claims_of_jobs(by, &spec.name);
        self.recharge(by, &[], &charges(&job));
        self.tally.add(by, Tallied::of(&job));
        self.jobs.insert(id, Arc::new(job));
        self.used_for(by, id, spec, events);
        self.job_names.insert((by.clone(), spec.name.clone(), id));
        self.catch_up(id, events);
        Ok(Reply::Submitted {
            collection: id,
            submission: Submission::New,
            version: Version(1),
            changes: Arc::default(),
            expiring_quota: self.expiring_quota(id),
        })
    }

    /// Resolves the jobs that a description refers to. All of them existed before it, so none can
    /// wait for it: a job that names itself is the only possible cycle.
    fn related(&self, by: &UserName, spec: &JobSpec) -> Result<Related, Rejection> {
        let (mut after, mut waits_for, mut follows) = (Vec::new(), Vec::new(), Vec::new());
        for Predecessor { job: reference, when, each_task } in &spec.after {
            let predecessor = self.find_referenced(ReferenceField::After, by, spec, reference)?;
            let id = predecessor.id;
            let runs_after = RunsAfter { job: id, when: *when, each_task: *each_task };
            predecessor.may_be_waited_for(spec, runs_after)?;
            if after.contains(&runs_after) {
                continue;
            }
            after.push(runs_after);
            if *each_task && !follows.contains(&id) {
                // Also one that has ended: some of its tasks may have ended in another way than it.
                follows.push(id);
            } else if !each_task && predecessor.is_alive() && !waits_for.contains(&id) {
                waits_for.push(id);
            }
        }
        let parent = spec.parent.as_ref().map(|reference| {
            let field = ReferenceField::Parent;
            let parent = self.find_referenced(field, by, spec, reference)?;
            parent.not_being_killed()?;
            if parent.is_alive() {
                return Ok(parent.id);
            }
            let (user, name) = (parent.owner.clone(), parent.spec.name.clone());
            Err(Rejection::NoSuchReference { field, user, name, dead: true })
        });
        let alloc_set = spec.kind.alloc_set().map(|set| self.alloc_set_for(by, spec, set));
        let (parent, alloc_set) = (parent.transpose()?, alloc_set.transpose()?);
        Ok(Related { after, waits_for, follows, parent, alloc_set })
    }

    pub(super) fn find_referenced(
        &self,
        field: ReferenceField,
        by: &UserName,
        spec: &JobSpec,
        reference: &JobReference,
    ) -> Result<&Arc<Job>, Rejection> {
        let user = reference.user.as_ref().unwrap_or(by);
        let name: &JobName = &reference.job;
        if user == by && *name == spec.name {
            return Err(Rejection::NamesItself(field));
        }
        self.job_named(user, name).ok_or_else(|| Rejection::NoSuchReference {
            field,
            user: user.clone(),
            name: name.clone(),
            dead: false,
        })
    }

    /// Kills every task of a job.
    pub(super) fn kill_job(&mut self, id: CollectionId, why: &KillReason, events: &mut Events) {
        let Some(job) = self.jobs.get(id) else { return };
        for index in (0..job.rows()).map(TaskIndex) {
            self.kill_task(id, index, why, events);
        }
        self.end_without_tasks(id, why, events);
    }

    /// Whether the task was alive and not already being killed.
    pub(super) fn kill_task(
        &mut self,
        id: CollectionId,
        index: TaskIndex,
        why: &KillReason,
        events: &mut Events,
    ) -> bool {
        let Some(job) = self.jobs.get(id) else { return false };
        let (Some(task), Some(instance)) = (job.task(index), job.instance(index)) else {
            return false;
        };
        match task.state {
            TaskState::Dead { .. } => false,
            TaskState::Running(_) => self.stop(instance, &StopReason::Kill(why.clone()), events),
            TaskState::Queued { .. } | TaskState::Pending { .. } => {
                self.die(instance, Death::Killed(why.clone()), None, events);
                true
            }
        }
    }
}
