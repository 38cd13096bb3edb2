//! The estimates of many tasks, advanced together in rounds.

use std::num::NonZeroUsize;

use model::{InstanceId, Permille, Reclamation, Resources, Time};

use crate::batch::{self, Batch, ReservationChange};
use crate::estimate::{Estimate, Tuning};
use crate::sample::{Rejected, Sample};
use crate::setting::{Margin, Pace};

/// A task in a round: what the cell's state says of it, and its newest sample. Tasks that are not
/// estimated are left out: those of jobs with `estimation: false`, allocs, and tasks in allocs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The task.
    pub instance: InstanceId,
    /// Its limit.
    pub limit: Resources,
    /// When it started; none if it has not yet.
    pub started: Option<Time>,
    /// Its reservation in force; the limit if none was recorded.
    pub reservation: Resources,
    /// The time of the newest sample that was recorded with that reservation.
    pub newest_sample: Option<Time>,
    /// The newest sample of its machine; none if there is none. It may be the one of the round before.
    pub sample: Option<Sample>,
}

/// The estimator: estimates of tasks, and what is waiting to be recorded.
///
/// It has no truth of its own. The reservations in force come with the tasks of each round, so
/// a change that was lost is given again, and one that was recorded is not. A round should
/// therefore begin when the batch of the previous one is applied.
#[derive(Debug)]
pub struct Estimator {
    pace: Pace,
    /// In the order of the instances.
    estimates: Vec<EstimateEntry>,
    /// Those of the round in progress. Both keep their memory.
    advanced: Vec<EstimateEntry>,
    batch: Batch,
    rejected: Rejected,
}

#[derive(Clone, Copy, Debug)]
struct EstimateEntry {
    instance: InstanceId,
    estimate: Estimate,
}

/// The result of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round<'a> {
    /// The changes that matter, rises first, at most as many as a batch may have.
    pub changes: &'a [ReservationChange],
    /// How many more there are. Those that still matter are in one of the next rounds.
    pub left: usize,
    /// How many tasks are silent: started, and without a sample for too long.
    pub silent: usize,
}

impl Estimator {
    /// An estimator without tasks, whose batches have at most so many changes.
    #[must_use]
    pub fn new(pace: Pace, changes_max: NonZeroUsize) -> Self {
        Self {
            pace,
            estimates: Vec::new(),
            advanced: Vec::new(),
            batch: Batch::new(changes_max),
            rejected: Rejected::default(),
        }
    }

    /// Advances all tasks to `now`. A task that was not in the round before begins, or continues,
    /// with its reservation in force; one that is missing is forgotten. Each task is given once, in any
    /// order; that of the instances is the fastest.
    pub fn round(
        &mut self,
        setting: Reclamation,
        now: Time,
        tasks: impl IntoIterator<Item = Task>,
    ) -> Round<'_> {
        self.batch.clear();
        self.advanced.clear();
        let change_min =
            Margin::of(setting).map_or(Permille::default(), |margin| margin.change_min);
        let tuning = Tuning { setting, pace: self.pace };
        let (mut near, mut silent, mut ordered) = (0, 0, true);
        for task in tasks {
            let instance = task.instance;
            let (place, known) = self.place(instance, near);
            near = place;
            let mut estimate = match known {
                Some(estimate) => estimate,
                None => Estimate::new(&task.reservation, task.newest_sample, now),
            };
            let (limit, sample) = (&task.limit, task.sample.as_ref());
            if let Err(reason) = estimate.step(tuning, limit, task.started, sample, now) {
                self.rejected.add(reason);
            }
            silent += usize::from(task.started.is_some() && estimate.is_silent(now, self.pace));
            ordered &= self.advanced.last().is_none_or(|last| last.instance < instance);
            self.advanced.push(EstimateEntry { instance, estimate });
            let direction = batch::direction(&estimate, &task.reservation, limit, change_min);
            if let Some(direction) = direction {
                let reservation = estimate.reservation(limit);
                let newest_sample = estimate.newest_sample();
                self.batch
                    .offer(direction, ReservationChange { instance, reservation, newest_sample });
            }
        }
        if !ordered {
            self.advanced.sort_unstable_by_key(|entry| entry.instance);
        }
        std::mem::swap(&mut self.estimates, &mut self.advanced);
        let (changes, left) = self.batch.choose();
        Round { changes, left, silent }
    }

    /// The estimate of a task, looked for at `near` first, and where the one after it is.
    fn place(&self, instance: InstanceId, near: usize) -> (usize, Option<Estimate>) {
        let at = |index: usize| self.estimates.get(index);
        if let Some(entry) = at(near).filter(|entry| entry.instance == instance) {
            return (near + 1, Some(entry.estimate));
        }
        match self.estimates.binary_search_by_key(&instance, |entry| entry.instance) {
            Ok(index) => (index + 1, at(index).map(|entry| entry.estimate)),
            Err(index) => (index, None),
        }
    }

    /// The estimate of a task that was in the last round.
    #[must_use]
    pub fn estimate(&self, instance: InstanceId) -> Option<Estimate> {
        self.place(instance, 0).1
    }

    /// The number of tasks in the last round.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.estimates.len()
    }

    /// The samples rejected so far. A sample that stays the newest of its machine is counted in each round.
    #[must_use]
    pub fn rejected(&self) -> &Rejected {
        &self.rejected
    }
}
