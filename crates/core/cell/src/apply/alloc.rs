//! Allocs: reserved resources on a machine in which tasks of several jobs run (paper, section 2.4).
//!
//! An alloc has the life cycle of a task. In addition, its tasks are on its machine, take resources
//! only from the alloc, and leave with it.

use event::{Death, EvictionCause, KillReason, StopReason};
use model::{Capability, CollectionId, End, InstanceId, Span, UserName};
use spec::{JobReference, JobSpec, Kind};

use super::Events;
use super::capability::not_allowed;
use super::task::Again;
use crate::feasibility::{Colocated, Offer};
use crate::{
    Assignment, AssignmentRefused, Cell, Job, JobPermission, Machine, NoAlloc, NoVictim, Permitted,
    ReferenceField, Rejection,
};

/// The alloc set in which a job will run.
#[derive(Clone, Copy)]
pub(super) struct Entered {
    pub(super) set: CollectionId,
    /// Whether the submitter may do that only by a capability.
    pub(super) by_capability: bool,
}

impl Cell {
    /// Finds the alloc set in which a job will run, if the submitter may use it.
    pub(super) fn alloc_set_for(
        &self,
        by: &UserName,
        spec: &JobSpec,
        reference: &JobReference,
    ) -> Result<Entered, Rejection> {
        let field = ReferenceField::AllocSet;
        let set = self.find_referenced(field, by, spec, reference)?;
        let (user, name) = (set.owner.clone(), set.spec.name.clone());
        if !set.is_alive() {
            return Err(Rejection::NoSuchReference { field, user, name, dead: true });
        }
        set.not_being_killed()?;
        let Kind::AllocSet { users } = &set.spec.kind else {
            return Err(Rejection::NotAnAllocSet { user, name });
        };
        let most = set.priority_for_inside();
        if spec.priority > most {
            return Err(Rejection::PriorityAboveAllocSet {
                job: spec.name.clone(),
                priority: spec.priority,
                set_owner: user,
                set: name,
                most,
            });
        }
        let admitted = *by == set.owner || users.contains(by);
        if !admitted && !self.may(by, Capability::AdministerJobs) {
            let (what, owner) = (JobPermission::SubmitInto.of(&user, &name), user);
            let capability = Capability::AdministerJobs;
            return Err(not_allowed(by, what, Permitted::UsersOfAllocSet { owner, capability }));
        }
        Ok(Entered { set: set.id, by_capability: !admitted })
    }

    /// Rejects a description of an alloc set with a lower priority than a job has that runs in it.
    pub(super) fn jobs_inside_fit(&self, set: &Job, spec: &JobSpec) -> Result<(), Rejection> {
        if !set.spec.kind.is_alloc_set() {
            return Ok(());
        }
        let inside = self.children(set.id).filter_map(|id| self.jobs.get(id));
        let inside = inside.filter(|job| job.alloc_set == Some(set.id));
        let highest = inside.max_by_key(|job| job.highest_priority());
        let Some(job) = highest.filter(|job| job.highest_priority() > spec.priority) else {
            return Ok(());
        };
        Err(Rejection::PriorityBelowJob {
            set_owner: set.owner.clone(),
            set: set.spec.name.clone(),
            priority: spec.priority,
            owner: job.owner.clone(),
            job: job.spec.name.clone(),
            has: job.highest_priority(),
        })
    }

    /// The tasks that run in an alloc.
    pub(super) fn tasks_in(&self, alloc: InstanceId) -> Vec<InstanceId> {
        let machine = self.placement(alloc).and_then(|there| self.machines.get(there.machine));
        let inside = |id: &InstanceId| {
            self.placement(*id).is_some_and(|placement| placement.alloc() == Some(alloc))
        };
        match machine {
            Some(machine) if machine.used(alloc).is_some() => {
                machine.instances().iter().copied().filter(inside).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The instances on a machine, tasks before the allocs that they run in.
    pub(super) fn innermost_first(&self, mut instances: Vec<InstanceId>) -> Vec<InstanceId> {
        let inside = |id: &InstanceId| self.placement(*id).is_some_and(|p| p.alloc.is_some());
        instances.sort_by_key(|id| !inside(id));
        instances
    }

    /// Stops the tasks of an alloc that is being stopped. They can run in another alloc, or follow
    /// this one to its next machine.
    pub(super) fn stop_inside(&mut self, alloc: InstanceId, why: &StopReason, events: &mut Events) {
        let cause = match why {
            StopReason::Evict(cause) => *cause,
            StopReason::Kill(_) => EvictionCause::Other,
        };
        for task in self.tasks_in(alloc) {
            self.stop(task, &StopReason::Evict(cause), events);
        }
    }

    /// Ends what still runs in an alloc that has ended.
    pub(super) fn end_inside(&mut self, alloc: InstanceId, events: &mut Events) {
        for task in self.tasks_in(alloc) {
            let stop = self.placement(task).and_then(|placed| placed.stop.clone());
            match stop.as_deref() {
                Some(StopReason::Kill(why)) => {
                    self.ended_for_good(task, &End::Stopped, Death::Killed(why.clone()), events);
                }
                Some(StopReason::Evict(cause)) => {
                    let how = Again::Evicted(*cause);
                    self.begin_again(task, how, Span::ZERO, &End::Stopped, events);
                }
                None => {
                    let end = End::Lost { reason: "its alloc ended".to_owned() };
                    self.begin_again(task, Again::Lost, Span::ZERO, &end, events);
                }
            }
        }
    }

    /// Kills the jobs that run in an alloc set.
    pub(super) fn kill_jobs_in(&mut self, set: CollectionId, events: &mut Events) {
        let inside =
            |id: &CollectionId| self.job(*id).is_some_and(|job| job.alloc_set == Some(set));
        let jobs: Vec<_> = self.children(set).filter(inside).collect();
        for job in jobs {
            self.kill_job(job, &KillReason::AllocSetEnded(set), events);
        }
    }

    /// What an assignment offers its task: the named alloc if the job runs in an alloc set, else
    /// the machine.
    pub(super) fn offered<'a>(
        &'a self,
        job: &Job,
        machine: &'a Machine,
        assignment: &Assignment,
    ) -> Result<Offer<'a>, AssignmentRefused> {
        let alloc = match (job.alloc_set, assignment.alloc) {
            (None, None) => return Ok(Offer::to(self, job, machine)),
            (None, Some(_)) => return Err(AssignmentRefused::Alloc(NoAlloc::RunsInNone)),
            (Some(_), None) => return Err(AssignmentRefused::Alloc(NoAlloc::NotNamed)),
            (Some(set), Some(alloc)) if alloc.collection != set => {
                return Err(AssignmentRefused::Alloc(NoAlloc::OfAnotherSet));
            }
            (Some(_), Some(alloc)) => alloc,
        };
        let there = self.placement(alloc).filter(|placed| placed.machine == machine.id);
        if there.is_none_or(|placed| placed.stop.is_some()) {
            return Err(AssignmentRefused::Alloc(NoAlloc::NotThere));
        }
        if let Some(victim) = assignment.victims.first() {
            let (victim, why) = (*victim, NoVictim::InAlloc);
            return Err(AssignmentRefused::Victim { victim, why });
        }
        let offer = Offer::within(self, machine, alloc);
        Ok(Offer { colocated: Colocated::of(self, job, machine), ..offer })
    }
}
