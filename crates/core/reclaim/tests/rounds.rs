//! Rounds over many tasks: bounded batches, their order, and what happens to changes that are lost.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use model::{
    Bytes, CollectionId, Generation, InstanceId, MilliCores, Reclamation, Resources, Span,
    TaskIndex, Time,
};
use reclaim::{Estimator, Pace, Rejection, ReservationChange, Sample, Task};

const LIMIT: u64 = 1_000;

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(1_000_000 + seconds)
}

fn amounts(number: u64) -> Resources {
    Resources { cpu: MilliCores(number), ram: Bytes(number), ..Resources::default() }
}

fn instance(index: u32) -> InstanceId {
    InstanceId {
        collection: CollectionId(u64::from(index / 7)),
        index: TaskIndex(index),
        generation: Generation(1),
    }
}

/// Tasks that started at 0 s.
struct Tasks {
    estimator: Estimator,
    tasks: Vec<Task>,
    seconds: u64,
}

impl Tasks {
    fn new(count: u32, changes_max: usize) -> Self {
        let changes_max = NonZeroUsize::new(changes_max).expect("not zero");
        let task = |index| Task {
            instance: instance(index),
            limit: amounts(LIMIT),
            started: Some(at(0)),
            reservation: amounts(LIMIT),
            newest_sample: None,
            sample: None,
        };
        Self {
            estimator: Estimator::new(Pace::default(), changes_max),
            tasks: (0..count).map(task).collect(),
            seconds: 0,
        }
    }

    /// A round some seconds later, and what of the changes is left.
    fn round(
        &mut self,
        seconds: u64,
        used: impl Fn(u32) -> u64,
    ) -> (Vec<ReservationChange>, usize) {
        self.seconds += seconds;
        for task in &mut self.tasks {
            let used = used(task.instance.index.0);
            let (cpu, ram) = (Some(MilliCores(used)), Some(Bytes(used)));
            task.sample = Some(Sample { at: at(self.seconds), cpu, ram });
        }
        let tasks = self.tasks.iter().copied();
        let round = self.estimator.round(Reclamation::Medium, at(self.seconds), tasks);
        (round.changes.to_vec(), round.left)
    }

    fn record(&mut self, changes: &[ReservationChange]) {
        let changes: BTreeMap<_, _> = changes.iter().map(|one| (one.instance, one)).collect();
        for task in &mut self.tasks {
            if let Some(change) = changes.get(&task.instance) {
                task.reservation = change.reservation;
                task.newest_sample = change.newest_sample;
            }
        }
    }

    /// Until nothing has changed for an hour.
    fn settle(&mut self, used: impl Fn(u32) -> u64) {
        let mut quiet = 0;
        while quiet < 360 {
            let (changes, _) = self.round(10, &used);
            quiet = if changes.is_empty() && self.seconds > 300 { quiet + 1 } else { 0 };
            self.record(&changes);
        }
    }
}

fn indices(changes: &[ReservationChange]) -> Vec<u32> {
    changes.iter().map(|change| change.instance.index.0).collect()
}

#[test]
fn a_batch_is_bounded_and_the_rest_follows() {
    let mut tasks = Tasks::new(100, 16);
    tasks.settle(|_| 100);
    let (changes, left) = tasks.round(1, |_| 500);
    assert_eq!((indices(&changes), left), ((0..16).collect(), 84));
    tasks.record(&changes);
    let mut seen = indices(&changes);
    for number in 2..8 {
        // At the same moment: nothing decays, and the samples are repetitions.
        let (changes, left) = tasks.round(0, |_| 500);
        assert_eq!(left, 100_usize.saturating_sub(16 * number));
        seen.extend(indices(&changes));
        tasks.record(&changes);
    }
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
    assert_eq!(tasks.round(0, |_| 500), (Vec::new(), 0));
}

#[test]
fn rises_come_before_falls() {
    let mut tasks = Tasks::new(20, 6);
    tasks.settle(|_| 500);
    let idle_or_busy = |index: u32| if index < 15 { 0 } else { 900 };
    let (mut changes, mut left) = tasks.round(1, |_| 0);
    while changes.is_empty() {
        (changes, left) = tasks.round(10, |_| 0);
    }
    assert_eq!((changes.len(), left), (6, 14), "all fall");
    let (changes, left) = tasks.round(10, idle_or_busy);
    let (rises, falls) = changes.split_at(5);
    assert_eq!((indices(rises), left), ((15..20).collect(), 14));
    assert!(rises.iter().all(|change| change.reservation == amounts(LIMIT)), "{rises:?}");
    assert!(falls.iter().all(|change| change.reservation.cpu < MilliCores(660)), "{falls:?}");
}

#[test]
fn changes_that_are_lost_are_given_again_and_none_waits_forever() {
    let mut tasks = Tasks::new(100, 10);
    tasks.settle(|_| 100);
    let mut times = BTreeMap::new();
    for number in 0..30 {
        let (changes, left) = tasks.round(u64::from(number == 0), |_| 500);
        assert_eq!((changes.len(), left), (10, 90));
        for index in indices(&changes) {
            *times.entry(index).or_insert(0) += 1;
        }
    }
    assert_eq!(times, (0..100).map(|index| (index, 3)).collect());
}

#[test]
fn the_order_of_tasks_changes_no_estimate() {
    let used = |index: u32| u64::from(index) * 9;
    let (mut ordered, mut mixed) = (Tasks::new(100, 1_000), Tasks::new(100, 1_000));
    for round in 0..200 {
        let by = 1 + round % 99;
        mixed.tasks.rotate_left(by);
        mixed.tasks.swap(by, 3);
        let [changes, others] = [&mut ordered, &mut mixed].map(|tasks| {
            let (mut changes, _) = tasks.round(10, used);
            changes.sort_by_key(|change| change.instance);
            changes
        });
        assert_eq!(changes, others);
        ordered.record(&changes);
        mixed.record(&changes);
        assert_eq!(mixed.estimator.tasks(), 100);
    }
    for index in 0..100 {
        let of = |tasks: &Tasks| tasks.estimator.estimate(instance(index));
        assert!(of(&ordered).is_some());
        assert_eq!(of(&ordered), of(&mixed));
    }
}

#[test]
fn a_gone_task_is_forgotten_and_its_successor_begins_at_the_limit() {
    let mut tasks = Tasks::new(3, 10);
    tasks.settle(|_| 100);
    let ended = tasks.tasks.remove(1);
    assert_eq!(tasks.round(5, |_| 100).0, []);
    assert_eq!(tasks.estimator.estimate(ended.instance), None);
    assert_eq!(tasks.estimator.tasks(), 2);
    let next = Task {
        instance: ended.instance.task().generation(Generation(2)),
        started: Some(at(tasks.seconds)),
        reservation: ended.limit,
        newest_sample: None,
        ..ended
    };
    tasks.tasks.insert(1, next);
    for _ in 0..59 {
        assert_eq!(tasks.round(5, |_| 100).0, []);
    }
    let estimate = tasks.estimator.estimate(next.instance).expect("it is in the round");
    assert_eq!(estimate.reservation(&next.limit), next.limit, "five minutes are not over");
}

#[test]
fn a_task_that_has_not_started_has_its_limit() {
    let mut tasks = Tasks::new(1, 10);
    tasks.tasks[0].started = None;
    for _ in 0..100 {
        assert_eq!(tasks.round(10, |_| 0), (Vec::new(), 0));
    }
    assert_eq!(tasks.estimator.rejected().total(), 0);
}

/// The usage is 100 and known to the estimate; then come samples that say 900 and cannot be.
#[test]
fn samples_that_cannot_be_change_nothing_and_are_counted() {
    let mut tasks = Tasks::new(1, 10);
    tasks.settle(|_| 100);
    let now = tasks.seconds + 5;
    let good = Sample { at: at(now), cpu: Some(MilliCores(900)), ram: Some(Bytes(900)) };
    let cases = [
        (Rejection::Incomplete, Sample { cpu: None, ..good }),
        (Rejection::Incomplete, Sample { ram: None, ..good }),
        (Rejection::Absurd, Sample { cpu: Some(MilliCores(u64::MAX)), ..good }),
        (Rejection::Absurd, Sample { ram: Some(Bytes(1 << 63)), ..good }),
        (Rejection::Future, Sample { at: at(now + 11), ..good }),
        (Rejection::Late, Sample { at: at(now - 61), ..good }),
        (Rejection::OutOfOrder, Sample { at: at(now - 6), ..good }),
    ];
    let before = tasks.estimator.estimate(instance(0));
    for (reason, sample) in cases {
        let counted = *tasks.estimator.rejected();
        let task = Task { sample: Some(sample), ..tasks.tasks[0] };
        let round = tasks.estimator.round(Reclamation::Medium, at(now), [task]);
        assert_eq!((round.changes, round.silent), (&[][..], 0), "{reason}");
        assert_eq!(tasks.estimator.estimate(instance(0)), before, "{reason}");
        let rejected = tasks.estimator.rejected();
        assert_eq!(rejected.count(reason), counted.count(reason) + 1, "{reason}");
        assert_eq!(rejected.total(), counted.total() + 1, "{reason}");
    }
    // A machine that only sends such samples is silent.
    let late = Sample { at: at(now - 1), cpu: None, ..good };
    let task = Task { sample: Some(late), ..tasks.tasks[0] };
    let mut round = |seconds| {
        let round = tasks.estimator.round(Reclamation::Medium, at(now + seconds), [task]);
        (round.silent, indices(round.changes))
    };
    assert_eq!(round(55), (0, vec![]));
    assert_eq!(round(56).0, 1);
    assert_eq!(round(86), (1, vec![0]));
}

#[test]
fn a_new_leader_knows_the_newest_sample() {
    let mut tasks = Tasks::new(1, 10);
    tasks.settle(|_| 100);
    let recorded = tasks.tasks[0];
    let newest = recorded.newest_sample.expect("something was recorded");
    tasks.estimator = Estimator::new(Pace::default(), NonZeroUsize::MIN);
    let now = newest + Span::from_secs(2);
    let used = |at| Some(Sample { at, cpu: Some(MilliCores(900)), ram: Some(Bytes(900)) });
    let mut round = |sample| {
        let round = tasks.estimator.round(Reclamation::Medium, now, [Task { sample, ..recorded }]);
        round.changes.first().map(|change| change.reservation)
    };
    assert_eq!(round(None), None, "the reservation in force continues");
    assert_eq!(round(used(newest - Span::from_secs(1))), None, "an older sample");
    assert_eq!(round(used(newest)), None, "the one that was recorded");
    assert_eq!(round(used(newest + Span::from_secs(1))), Some(amounts(LIMIT)));
    assert_eq!(tasks.estimator.rejected().count(Rejection::OutOfOrder), 1);
}

#[test]
fn a_clock_that_goes_back_stops_nothing() {
    let mut tasks = Tasks::new(1, 10);
    tasks.settle(|_| 100);
    tasks.seconds -= 3_600;
    let (cpu, ram) = (Some(MilliCores(900)), Some(Bytes(900)));
    let mut round = |seconds, sampled: Option<u64>| {
        let sample = sampled.map(|seconds| Sample { at: at(seconds), cpu, ram });
        let task = Task { sample, ..tasks.tasks[0] };
        let round = tasks.estimator.round(Reclamation::Medium, at(seconds), [task]);
        (round.changes.len(), round.silent)
    };
    let now = tasks.seconds;
    assert_eq!(round(now, None), (0, 0));
    assert_eq!(round(now + 60, None), (0, 0));
    assert_eq!(round(now + 61, None).1, 1, "silence is counted from the new time");
    assert_eq!(round(now + 72, Some(now + 72)), (1, 0), "and a sample is accepted again");
    assert_eq!(tasks.estimator.rejected().total(), 0);
}
