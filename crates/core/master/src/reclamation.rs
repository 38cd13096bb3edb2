//! The rounds of estimates (paper, section 5.5): from the cell's state and the newest usage of the
//! machines that a replica polls, the reservations to record.
//!
//! Each replica estimates the tasks of its own machines, because it has their usage. What it
//! remembers is not part of the cell's state; the reservations in force are, each with the time of
//! its newest sample, so a replica that takes a machine over continues.

use std::num::NonZeroUsize;

use borglet::{UsageSample, UsageSubject};
use cell::{Cell, Job, Phase, Placement, Reservation, Task, TaskState};
use model::{GcuFactor, InstanceId, TaskIndex, Time};
use reclaim::{Estimator, Pace, Rejected, ReservationChange, Sample};

use crate::Partition;

/// The maximum number of reservations that a round proposes: one record of up to 200 KiB. Those of a
/// cell of 150,000 tasks are back at their limits after 37 rounds.
pub const RESERVATIONS_MAX: NonZeroUsize = NonZeroUsize::new(4_096).unwrap();

/// The newest samples of tasks, collected for a round.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<(InstanceId, Sample)>);

impl Samples {
    /// Forgets all, and keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds what a machine has measured. Its cores have this factor to the cell's normalised ones;
    /// samples of the machine itself are left out.
    pub fn add(&mut self, gcu: GcuFactor, UsageSample { subject, at, measured }: &UsageSample) {
        let UsageSubject::Instance(instance) = *subject else { return };
        let cpu = measured.cpu.map(|cpu| gcu.normalised(cpu));
        self.0.push((instance, Sample { at: *at, cpu, ram: measured.memory }));
    }

    /// The number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the order of the instances; of two samples of one, the newer one counts.
    fn sort(&mut self) {
        self.0.sort_unstable_by_key(|(instance, sample)| (*instance, std::cmp::Reverse(sample.at)));
        self.0.dedup_by_key(|(instance, _)| *instance);
    }
}

/// The estimates of a replica.
#[derive(Debug)]
pub struct Reclamation {
    estimator: Estimator,
}

/// The result of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Estimated {
    /// The reservations to record, at most [`RESERVATIONS_MAX`]: rises come first.
    pub reservations: Vec<Reservation>,
    /// How many more changes there are, for the next rounds.
    pub left: usize,
    /// How many tasks were estimated.
    pub tasks: usize,
    /// How many of them are silent: started, and without a sample for too long.
    pub silent: usize,
}

impl Reclamation {
    /// Estimates of no tasks yet.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self { estimator: Estimator::new(pace, RESERVATIONS_MAX) }
    }

    /// Makes a round at `now`: all tasks on the machines that the partition estimates. A machine that
    /// does not answer is among them, and its tasks are silent. Left out are jobs that keep their
    /// limits, allocs, and tasks in allocs.
    pub fn round(
        &mut self,
        now: Time,
        cell: &Cell,
        partition: &Partition,
        samples: &mut Samples,
    ) -> Estimated {
        samples.sort();
        let mut join = Join { samples: &samples.0 };
        let jobs = cell.jobs().filter(|job| job.running() > 0 && job.is_estimated());
        let tasks = jobs.flat_map(|job| job.tasks().map(move |(index, task)| (job, index, task)));
        let tasks = tasks.filter_map(|(job, index, task)| {
            let TaskState::Running(placed) = &task.state else { return None };
            let mine = partition.estimates(placed.machine) && job.described(index).estimation;
            mine.then(|| of(job, index, task, placed, &mut join))
        });
        let round = self.estimator.round(cell.reclamation(), now, tasks);
        let reservation = |change: &ReservationChange| Reservation {
            instance: change.instance,
            amount: change.reservation,
            newest_sample: change.newest_sample,
        };
        let reservations = round.changes.iter().map(reservation).collect();
        let (left, silent) = (round.left, round.silent);
        Estimated { reservations, left, tasks: self.estimator.tasks(), silent }
    }

    /// The samples that were rejected so far, by reason.
    #[must_use]
    pub fn rejected(&self) -> &Rejected {
        self.estimator.rejected()
    }
}

/// A task in a round.
fn of(
    job: &Job,
    index: TaskIndex,
    task: &Task,
    placed: &Placement,
    join: &mut Join<'_>,
) -> reclaim::Task {
    let (collection, generation) = (job.id, task.generation);
    let instance = InstanceId { collection, index, generation };
    let started = match placed.phase {
        Phase::Starting => None,
        Phase::Started { at, .. } => Some(at),
    };
    reclaim::Task {
        instance,
        limit: job.limit(index),
        started,
        reservation: job.reservation(index),
        newest_sample: task.reserved.as_deref().and_then(|reserved| reserved.newest_sample),
        sample: join.next(instance),
    }
}

/// Samples in the order of their instances, beside tasks in the same order.
struct Join<'a> {
    samples: &'a [(InstanceId, Sample)],
}

impl Join<'_> {
    fn next(&mut self, of: InstanceId) -> Option<Sample> {
        while let Some(((instance, sample), rest)) = self.samples.split_first()
            && *instance <= of
        {
            self.samples = rest;
            if *instance == of {
                return Some(*sample);
            }
        }
        None
    }
}
