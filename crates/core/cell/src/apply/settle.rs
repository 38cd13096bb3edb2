//! Effects of a job's end on other jobs: its children end with it, and jobs that run after it
//! become eligible or die (trace v3, "parent" and "run after").
//!
//! One end can cause others, and chains may be as long as the cell has jobs: they are processed
//! iteratively, never by recursion.

use event::{Death, EventKind, KillReason, PendingCause, Subject};
use model::CollectionId;

use super::Events;
use crate::lifecycle::Transition;
use crate::state::Tallied;
use crate::{Cell, JobState, TaskState};

impl Cell {
    pub(super) fn settle(&mut self, events: &mut Events) {
        while let Some(ended) = events.ended.pop() {
            let Some(job) = self.jobs.get(ended) else { continue };
            let JobState::Dead { death, .. } = &job.state else { continue };
            let finished = *death == Death::Finished;
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
                if finished {
                    self.predecessor_finished(job, ended, events);
                } else {
                    self.kill_job(job, &KillReason::PredecessorEnded(ended), events);
                }
            }
        }
    }

    /// One of the jobs that a job runs after has finished.
    fn predecessor_finished(
        &mut self,
        id: CollectionId,
        finished: CollectionId,
        events: &mut Events,
    ) {
        self.waiting.remove(&(finished, id));
        let now = self.time;
        // It goes on waiting in the batch queue.
        let defers = self.jobs.get(id).is_some_and(|job| self.defers(job));
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.waits_for.retain(|other| *other != finished);
        let enabled = !defers
            && job.waits_for.is_empty()
            && job.advance(Transition::Enable, JobState::Pending).is_ok();
        if !enabled {
            return;
        }
        events.add(Subject::Job(id), EventKind::Enable);
        let before = Tallied::of(job);
        let indexes: Vec<_> = job.tasks().map(|(index, _)| index).collect();
        for index in indexes {
            let cause = PendingCause::Submitted;
            let state = TaskState::Pending { since: now, not_before: now, cause };
            // A task that was killed while queued is dead.
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
