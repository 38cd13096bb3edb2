//! Number of tasks in each stage, by band. It is maintained incrementally, because counting on
//! demand would take longer the more jobs there are.

use std::sync::Arc;

use model::Band;

use super::Job;
use crate::lifecycle::Stage;

/// Number of tasks in each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Tasks that wait for other jobs.
    pub queued: u64,
    /// Tasks that wait to be placed.
    pub pending: u64,
    /// Tasks that have a machine.
    pub running: u64,
    /// Dead tasks that are still kept.
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

/// The band and the task counts of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tallied(Band, Stages);

impl Tallied {
    pub(crate) fn of(job: &Job) -> Self {
        let counts = job.counts();
        let stages = Stages {
            queued: counts.queued.into(),
            pending: counts.pending.into(),
            running: counts.running.into(),
            dead: job.rows().saturating_sub(counts.alive()).into(),
        };
        Self(job.spec.priority.band(), stages)
    }
}

/// Task counts of a cell by band, lowest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally(pub(crate) [Stages; Band::ALL.len()]);

impl Tally {
    /// Counts the tasks of some jobs one by one, without using the jobs' own counts.
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

    /// Adds the tasks of a job.
    pub(crate) fn add(&mut self, Tallied(band, more): Tallied) {
        let kept = self.of(band);
        kept.queued = kept.queued.saturating_add(more.queued);
        kept.pending = kept.pending.saturating_add(more.pending);
        kept.running = kept.running.saturating_add(more.running);
        kept.dead = kept.dead.saturating_add(more.dead);
    }

    /// Subtracts the tasks of a job.
    pub(crate) fn remove(&mut self, Tallied(band, less): Tallied) {
        let kept = self.of(band);
        kept.queued = kept.queued.saturating_sub(less.queued);
        kept.pending = kept.pending.saturating_sub(less.pending);
        kept.running = kept.running.saturating_sub(less.running);
        kept.dead = kept.dead.saturating_sub(less.dead);
    }

    /// Replaces a job's counts.
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
