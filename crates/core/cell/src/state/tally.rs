//! How many tasks are where in their lives, by band. It is kept, for it is asked of a cell that serves,
//! and counting it would take longer the more jobs there are.

use std::sync::Arc;

use model::Band;

use super::Job;
use crate::lifecycle::Stage;

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

/// The tasks of one job: the band that it is in, and how many are where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tallied(Band, Stages);

impl Tallied {
    pub(crate) fn of(job: &Job) -> Self {
        let counts = job.counts();
        let stages = Stages {
            queued: counts.queued.into(),
            pending: counts.pending.into(),
            running: counts.running.into(),
            dead: job.spec.tasks.saturating_sub(counts.alive()).into(),
        };
        Self(job.spec.priority.band(), stages)
    }
}

/// The tasks of a cell by the band of their job, lowest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally(pub(crate) [Stages; Band::ALL.len()]);

impl Tally {
    /// Those of some jobs, by looking at every task and not at what the jobs keep.
    pub(crate) fn counted<'a>(jobs: impl Iterator<Item = &'a Arc<Job>>) -> Self {
        let mut tally = Self::default();
        for job in jobs {
            let stages = tally.of(job.spec.priority.band());
            job.tasks().for_each(|(_, task)| stages.add(task.state.stage()));
        }
        tally
    }

    fn of(&mut self, band: Band) -> &mut Stages {
        &mut self.0[band as usize]
    }

    /// With the tasks of a job as well.
    pub(crate) fn add(&mut self, Tallied(band, more): Tallied) {
        let kept = self.of(band);
        kept.queued = kept.queued.saturating_add(more.queued);
        kept.pending = kept.pending.saturating_add(more.pending);
        kept.running = kept.running.saturating_add(more.running);
        kept.dead = kept.dead.saturating_add(more.dead);
    }

    /// Without the tasks of a job.
    pub(crate) fn remove(&mut self, Tallied(band, less): Tallied) {
        let kept = self.of(band);
        kept.queued = kept.queued.saturating_sub(less.queued);
        kept.pending = kept.pending.saturating_sub(less.pending);
        kept.running = kept.running.saturating_sub(less.running);
        kept.dead = kept.dead.saturating_sub(less.dead);
    }

    /// The tasks of a job are not as before any more, but as after.
    pub(crate) fn replace(&mut self, before: Tallied, after: Tallied) {
        self.remove(before);
        self.add(after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_band_has_its_place() {
        assert!(Band::ALL.iter().enumerate().all(|(place, band)| *band as usize == place));
    }
}
