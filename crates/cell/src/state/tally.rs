//! How many tasks are where in their lives, by band. It is kept, for it is asked of a cell that serves,
//! and counting it would take longer the more jobs there are.

use std::sync::Arc;

use model::Band;

use super::Job;
use super::lifecycle::Stage;

/// How many tasks are where in their lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// They wait for other jobs.
    pub queued: u64,
    /// They wait to be placed.
    pub pending: u64,
    /// They have a machine.
    pub running: u64,
    /// They are dead, and kept for a while.
    pub dead: u64,
}

impl Stages {
    fn add(&mut self, stage: Stage) {
        match stage {
            Stage::New => {}
            Stage::Queued => self.queued += 1,
            Stage::Pending => self.pending += 1,
            Stage::Running => self.running += 1,
            Stage::Dead => self.dead += 1,
        }
    }
}

/// The tasks of a cell by the band of their job, lowest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally(pub(crate) [Stages; Band::ALL.len()]);

impl Tally {
    /// Those of one job.
    pub(crate) fn of(job: &Job) -> Self {
        let counts = job.counts();
        let stages = Stages {
            queued: counts.queued.into(),
            pending: counts.pending.into(),
            running: counts.running.into(),
            dead: job.spec.tasks.saturating_sub(counts.alive()).into(),
        };
        let band = job.spec.priority.band();
        Self(Band::ALL.map(|of| if of == band { stages } else { Stages::default() }))
    }

    /// The same by looking at every task, without what the jobs keep.
    pub(crate) fn counted<'a>(jobs: impl Iterator<Item = &'a Arc<Job>>) -> Self {
        let mut tally = Self::default();
        for job in jobs {
            let of = tally.0.iter_mut().zip(Band::ALL);
            let stages = of.filter(|(_, band)| *band == job.spec.priority.band());
            for (stages, _) in stages {
                job.tasks().for_each(|(_, task)| stages.add(task.state.stage()));
            }
        }
        tally
    }

    /// With the tasks of a job as well.
    pub(crate) fn add(&mut self, job: &Job) {
        self.replace(&Self::default(), &Self::of(job));
    }

    /// Without the tasks of a job.
    pub(crate) fn remove(&mut self, job: &Job) {
        self.replace(&Self::of(job), &Self::default());
    }

    /// Where some were as before, they are as after.
    pub(crate) fn replace(&mut self, before: &Self, after: &Self) {
        for ((kept, less), more) in self.0.iter_mut().zip(&before.0).zip(&after.0) {
            let change =
                |kept: u64, less: u64, more: u64| kept.saturating_sub(less).saturating_add(more);
            *kept = Stages {
                queued: change(kept.queued, less.queued, more.queued),
                pending: change(kept.pending, less.pending, more.pending),
                running: change(kept.running, less.running, more.running),
                dead: change(kept.dead, less.dead, more.dead),
            };
        }
    }
}
