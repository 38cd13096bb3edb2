//! Effects of a job's end on other jobs: its children end with it, and jobs that run after it
//! become eligible or die (trace v3, "parent" and "run after").
//!
//! One end can cause others, and chains may be as long as the cell has jobs: they are processed
//! iteratively, never by recursion.

use event::{Death, EventKind, KillReason, PendingCause, Subject};
use model::{CollectionId, TaskId, TaskIndex};

use super::Events;
use crate::lifecycle::Transition;
use crate::state::Tallied;
use crate::{Cell, JobState, TaskState};

impl Cell {
    pub(super) fn settle(&mut self, events: &mut Events) {
        loop {
            // Before the job of a task that ended, which others stop to follow then.
            if let Some(task) = events.ended_tasks.pop() {
                self.counterpart_ended(task, events);
                continue;
            }
            let Some(ended) = events.ended.pop() else { break };
            let Some(job) = self.jobs.get(ended) else { continue };
            let JobState::Dead { death, .. } = &job.state else { continue };
            let death = death.clone();
            for with in job.parent.into_iter().chain(job.alloc_set) {
                self.children.remove(&(with, ended));
            }
            self.kill_jobs_in(ended, events);
            let children: Vec<_> = self.children(ended).collect();
            for child in children {
                self.kill_job(child, &KillReason::ParentEnded(ended), events);
            }
            let waiting: Vec<_> = self.waiting_for(ended).collect();
            for job in waiting {
                self.predecessor_ended(job, ended, &death, events);
            }
        }
    }

    /// One of the jobs that a job runs after has ended.
    fn predecessor_ended(
        &mut self,
        id: CollectionId,
        ended: CollectionId,
        death: &Death,
        events: &mut Events,
    ) {
        let Some(job) = self.jobs.get(id) else { return };
        let mut all = job.after.iter().filter(|after| after.job == ended && !after.each_task);
        if let Some(unmet) = all.find(|after| !after.is_met(death)) {
            let why = unmet.of_job();
            self.kill_job(id, &why, events);
            return;
        }
        self.waits_no_more(id, ended);
        self.release_queued(id, None, events);
    }

    /// A job no longer waits for another one, nor do its tasks.
    fn waits_no_more(&mut self, id: CollectionId, other: CollectionId) {
        self.waiting.remove(&(other, id));
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.waits_for.retain(|one| *one != other);
        job.follows.retain(|one| *one != other);
    }

    /// A task for which tasks of other jobs may wait has ended for good, unless it is to start again already.
    fn counterpart_ended(&mut self, ended: TaskId, events: &mut Events) {
        let index = ended.index;
        let waiting: Vec<_> = self.waiting_for(ended.collection).collect();
        for id in waiting {
            let Some(job) = self.jobs.get(id).filter(|job| job.follows.contains(&ended.collection))
            else {
                continue;
            };
            if !job.task(index).is_some_and(|task| matches!(task.state, TaskState::Queued { .. })) {
                continue;
            }
            match self.unmet(job, index) {
                Some(why) => {
                    self.kill_task(id, index, &why, events);
                }
                None => self.release_queued(id, Some(index), events),
            }
        }
    }

    /// What had ended before a new job began to wait for it.
    pub(super) fn catch_up(&mut self, id: CollectionId, events: &mut Events) {
        let Some(job) = self.jobs.get(id).filter(|job| !job.follows.is_empty()) else { return };
        let unmet = |(index, _)| Some((index, self.unmet(job, index)?));
        let ends: Vec<(TaskIndex, KillReason)> = job.tasks().filter_map(unmet).collect();
        let is_over =
            |other: &CollectionId| self.jobs.get(*other).is_none_or(|other| !other.is_alive());
        let over: Vec<_> = job.follows.iter().copied().filter(is_over).collect();
        for (index, why) in ends {
            self.kill_task(id, index, &why, events);
        }
        for other in over {
            self.waits_no_more(id, other);
        }
        self.release_queued(id, None, events);
    }

    /// The queued tasks of a job, or one of them, can be placed, as far as nothing holds them back any more. Those that
    /// wait in the batch queue go on waiting there.
    pub(super) fn release_queued(
        &mut self,
        id: CollectionId,
        only: Option<TaskIndex>,
        events: &mut Events,
    ) {
        let now = self.time;
        let Some(job) = self.jobs.get(id) else { return };
        if !job.waits_for.is_empty() || self.defers(job) {
            return;
        }
        let is_free = |index: TaskIndex| {
            let task = job.task(index);
            task.is_some_and(|task| matches!(task.state, TaskState::Queued { .. }))
                && !self.is_held_back(job, index)
        };
        let free: Vec<TaskIndex> = match only {
            Some(index) => vec![index].into_iter().filter(|index| is_free(*index)).collect(),
            None => (0..job.rows()).map(TaskIndex).filter(|index| is_free(*index)).collect(),
        };
        let Some(job) = self.jobs.get_mut(id) else { return };
        if free.is_empty() && !job.follows.is_empty() {
            return;
        }
        if job.advance(Transition::Enable, JobState::Pending).is_ok() {
            events.add(Subject::Job(id), EventKind::Enable);
        }
        let before = Tallied::of(job);
        for index in free {
            let cause = PendingCause::Submitted;
            let state = TaskState::Pending { since: now, not_before: now, cause };
            if job.step(index, Transition::Enable, state).is_ok()
                && let Some(instance) = job.instance(index)
            {
                events.add(Subject::Task(instance), EventKind::Enable);
            }
        }
        self.tally.replace(&job.owner, before, Tallied::of(job));
        if job.pending() > 0 {
            self.pending.insert(id);
        }
    }
}
