//! Number of tasks in each stage, by band and by user. It is maintained incrementally, because counting on
//! demand would take longer the more jobs there are.

use std::sync::Arc;

use imbl::OrdMap;
use model::{Band, UserName};

use super::Job;
use crate::lifecycle::Stage;

/// Number of tasks in each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Tasks that wait for other jobs, or in the batch queue.
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

    /// Number of tasks in all stages.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.waiting().saturating_add(self.running).saturating_add(self.dead)
    }

    /// Number of tasks that wait: for other jobs, in the batch queue, or for a machine.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.queued.saturating_add(self.pending)
    }

    fn plus(self, more: Self) -> Self {
        Self {
            queued: self.queued.saturating_add(more.queued),
            pending: self.pending.saturating_add(more.pending),
            running: self.running.saturating_add(more.running),
            dead: self.dead.saturating_add(more.dead),
        }
    }

    fn minus(self, less: Self) -> Self {
        Self {
            queued: self.queued.saturating_sub(less.queued),
            pending: self.pending.saturating_sub(less.pending),
            running: self.running.saturating_sub(less.running),
            dead: self.dead.saturating_sub(less.dead),
        }
    }
}

/// What one job takes, and its band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tallied {
    band: Band,
    taken: Taken,
}

/// What jobs take that users share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Their tasks.
    pub(crate) stages: Stages,
    /// The size of their descriptions, earlier versions included.
    pub(crate) description_bytes: u64,
}

impl Taken {
    fn plus(self, more: Self) -> Self {
        Self {
            stages: self.stages.plus(more.stages),
            description_bytes: self.description_bytes.saturating_add(more.description_bytes),
        }
    }

    fn minus(self, less: Self) -> Self {
        Self {
            stages: self.stages.minus(less.stages),
            description_bytes: self.description_bytes.saturating_sub(less.description_bytes),
        }
    }
}

impl Tallied {
    pub(crate) fn of(job: &Job) -> Self {
        let counts = job.counts();
        let stages = Stages {
            queued: counts.queued.into(),
            pending: counts.pending.into(),
            running: counts.running.into(),
            dead: job.rows().saturating_sub(counts.alive()).into(),
        };
        let taken = Taken { stages, description_bytes: job.description_bytes };
        Self { band: job.spec.priority.band(), taken }
    }
}

/// What all jobs take: their tasks by band, lowest first, and everything by user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) bands: [Stages; Band::ALL.len()],
    /// The size of all descriptions.
    pub(crate) description_bytes: u64,
    /// Users without jobs have no entry.
    pub(crate) users: OrdMap<UserName, Taken>,
}

impl Tally {
    /// Counts the tasks of some jobs one by one, without using the jobs' own counts.
    pub(crate) fn counted<'a>(jobs: impl Iterator<Item = &'a Arc<Job>>) -> Self {
        let mut tally = Self::default();
        for job in jobs {
            let mut stages = Stages::default();
            job.tasks().for_each(|(_, task)| stages.add(task.state.stage()));
            let taken = Taken { stages, description_bytes: job.measured() };
            tally.add(&job.owner, Tallied { band: job.spec.priority.band(), taken });
        }
        tally
    }

    /// What a user takes.
    pub(crate) fn of_user(&self, user: &UserName) -> Taken {
        self.users.get(user).copied().unwrap_or_default()
    }

    /// What all users take.
    pub(crate) fn all(&self) -> Taken {
        let stages = self.bands.into_iter().fold(Stages::default(), Stages::plus);
        Taken { stages, description_bytes: self.description_bytes }
    }

    /// Adds a job.
    pub(crate) fn add(&mut self, owner: &UserName, more: Tallied) {
        self.replace(owner, Tallied { taken: Taken::default(), ..more }, more);
    }

    /// Subtracts a job.
    pub(crate) fn remove(&mut self, owner: &UserName, less: Tallied) {
        self.replace(owner, less, Tallied { taken: Taken::default(), ..less });
    }

    /// Replaces what a job takes.
    pub(crate) fn replace(&mut self, owner: &UserName, before: Tallied, after: Tallied) {
        let kept = &mut self.bands[before.band as usize];
        *kept = kept.minus(before.taken.stages);
        let kept = &mut self.bands[after.band as usize];
        *kept = kept.plus(after.taken.stages);
        if before.taken == after.taken {
            return;
        }
        let bytes = self.description_bytes.saturating_sub(before.taken.description_bytes);
        self.description_bytes = bytes.saturating_add(after.taken.description_bytes);
        if let Some(kept) = self.users.get_mut(owner) {
            *kept = kept.minus(before.taken).plus(after.taken);
            if *kept == Taken::default() {
                self.users.remove(owner);
            }
        } else if after.taken != Taken::default() {
            self.users.insert(owner.clone(), after.taken);
        }
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
