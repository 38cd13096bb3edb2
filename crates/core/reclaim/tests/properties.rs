//! What holds for a task whatever its samples, its limit, the setting and the clock do.

use std::num::NonZeroUsize;

use model::{
    Bytes, CollectionId, Generation, InstanceId, MilliCores, Reclamation, Resources, Span,
    TaskIndex, Time,
};
use proptest::prelude::*;
use proptest::sample::select;
use reclaim::{
    CPU_MAX, Estimator, Margin, Pace, RAM_MAX, SILENCE_RISE, SILENT_AFTER, SKEW_MAX, Sample, Task,
};

/// When the task starts.
const START: Time = Time(1_000_000_000_000);

/// One round of a random history.
#[derive(Clone, Copy, Debug)]
struct Moment {
    /// The clock's advance; negative if it goes back.
    seconds: i64,
    setting: Reclamation,
    /// A new limit.
    limit: Option<Resources>,
    /// A new sample: its age, CPU and RAM.
    sample: Option<(i64, Option<u64>, Option<u64>)>,
    /// Whether the leader changes before the round.
    new_leader: bool,
    /// Whether the batch is lost instead of recorded.
    lost: bool,
}

fn amount(max: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 0..2_000_u64,
        2 => Just(0),
        1 => Just(max),
        1 => Just(max + 1),
        1 => Just(u64::MAX),
        1 => any::<u64>(),
    ]
}

fn limit() -> impl Strategy<Value = Resources> {
    (amount(CPU_MAX.0), amount(RAM_MAX.0), 0..3_u64).prop_map(|(cpu, ram, disk)| Resources {
        cpu: MilliCores(cpu),
        ram: Bytes(ram),
        disk: Bytes(disk),
        disk_rate: Bytes(disk),
    })
}

fn seconds() -> impl Strategy<Value = i64> {
    prop_oneof![
        16 => 0..20_i64,
        2 => 50..400_i64,
        1 => Just(1_000_000),
        1 => -400..0_i64,
    ]
}

fn moment() -> impl Strategy<Value = Moment> {
    let number = |max| prop_oneof![9 => amount(max).prop_map(Some), 1 => Just(None)];
    let age =
        prop_oneof![12 => Just(0_i64), 4 => -15..70_i64, 1 => Just(i64::MAX), 1 => Just(-1 << 40)];
    let sample = (age, number(CPU_MAX.0), number(RAM_MAX.0));
    let sample = prop_oneof![8 => sample.prop_map(Some), 2 => Just(None)];
    let limit = prop_oneof![1 => limit().prop_map(Some), 15 => Just(None)];
    let setting = prop_oneof![1 => Just(Reclamation::Off), 15 => select(&Reclamation::ALL[1..])];
    let chance = || prop_oneof![1 => Just(true), 9 => Just(false)];
    (seconds(), setting, limit, sample, chance(), chance()).prop_map(
        |(seconds, setting, limit, sample, new_leader, lost)| Moment {
            seconds,
            setting,
            limit,
            sample,
            new_leader,
            lost,
        },
    )
}

fn moved(time: Time, seconds: i64) -> Time {
    let span = Span::from_secs(seconds.unsigned_abs());
    if seconds < 0 { time - span } else { time + span }
}

fn estimator() -> Estimator {
    Estimator::new(Pace::default(), NonZeroUsize::MIN)
}

/// A task that has just started.
fn task(limit: Resources) -> Task {
    let (collection, index) = (CollectionId(1), TaskIndex(0));
    Task {
        instance: InstanceId { collection, index, generation: Generation(1) },
        limit,
        started: Some(START),
        reservation: limit,
        newest_sample: None,
        sample: None,
    }
}

/// A round whose batch is recorded. The number of changes.
fn round(estimator: &mut Estimator, task: &mut Task, setting: Reclamation, now: Time) -> usize {
    let round = estimator.round(setting, now, [*task]);
    for change in round.changes {
        task.reservation = change.reservation;
        task.newest_sample = change.newest_sample;
    }
    round.changes.len()
}

/// A sample at this moment.
fn sample(at: Time, cpu: u64, ram: u64) -> Option<Sample> {
    Some(Sample { at, cpu: Some(MilliCores(cpu)), ram: Some(Bytes(ram)) })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reservations_keep_between_usage_and_limit(
        first in limit(),
        history in prop::collection::vec(moment(), 1..80),
    ) {
        let (mut estimator, mut task, mut now) = (estimator(), task(first), START);
        for moment in history {
            now = moved(now, moment.seconds);
            let resized = moment.limit.is_some();
            if let Some(limit) = moment.limit {
                task.limit = limit;
                task.reservation = task.reservation.least(limit);
            }
            if moment.new_leader {
                estimator = self::estimator();
            }
            let before = estimator.estimate(task.instance);
            let measured = moment.sample.map(|(age, cpu, ram)| Sample {
                at: moved(now, age.saturating_neg()),
                cpu: cpu.map(MilliCores),
                ram: ram.map(Bytes),
            });
            task.sample = measured.or(task.sample);
            let rejected = estimator.rejected().total();
            let recorded = task;
            round(&mut estimator, &mut task, moment.setting, now);
            let accepted = estimator.rejected().total() == rejected;

            let estimate = estimator.estimate(task.instance).expect("it was in the round");
            let estimated = estimate.reservation(&task.limit);
            prop_assert_eq!(estimated.first_above(&task.limit), None);
            prop_assert_eq!(task.reservation.first_above(&task.limit), None, "in force");
            prop_assert_eq!(estimated.disk, task.limit.disk);
            prop_assert_eq!(task.reservation.disk, task.limit.disk);
            prop_assert_eq!(task.reservation.disk_rate, task.limit.disk_rate);
            prop_assert!(!estimate.exceeds(&task.reservation, &task.limit));
            if now.since(START) < Pace::default().warm_up || moment.setting == Reclamation::Off {
                prop_assert_eq!(task.reservation, task.limit);
            }
            // An accepted sample is never above the reservation in force, not for one round. One with the
            // time of the newest is a repetition.
            let known = before.map_or(recorded.newest_sample, |before| before.newest_sample());
            let repeated = |one: &Sample| known.map(|known| known.min(now + SKEW_MAX)) == Some(one.at);
            let newest = |one: &Sample| estimate.newest_sample() == Some(one.at);
            let new = measured.filter(|one| accepted && newest(one) && !repeated(one));
            if let Some(Sample { cpu: Some(cpu), ram: Some(ram), .. }) = new {
                prop_assert!(task.reservation.cpu >= cpu.min(task.limit.cpu));
                prop_assert!(task.reservation.ram >= ram.min(task.limit.ram));
            }
            if let Some(before) = before.filter(|_| !resized) {
                let before = before.reservation(&task.limit);
                // 30 s of a half-life of 15 minutes and of two hours.
                prop_assert!(estimated.cpu.0 >= before.cpu.0 - before.cpu.0.div_ceil(40));
                prop_assert!(estimated.ram.0 >= before.ram.0 - before.ram.0.div_ceil(320));
                if !accepted || task.sample.is_none() {
                    prop_assert_eq!(before.first_above(&estimated), None, "nothing says that it fell");
                }
            }
            if moment.lost {
                (task.reservation, task.newest_sample) =
                    (recorded.reservation, recorded.newest_sample);
            }
        }
    }

    #[test]
    fn a_constant_usage_ends_at_usage_and_margin(
        cpu in 0..1_500_u64,
        ram in 0..1_500_u64,
        setting in select(&Reclamation::ALL[1..]),
        every in 1..20_u64,
    ) {
        let limit = Resources { cpu: MilliCores(1_000), ram: Bytes(1_000), ..Resources::default() };
        let (mut estimator, mut task, mut now) = (estimator(), task(limit), START);
        let mut last_change = START;
        while now.since(START) < Span::from_secs(16 * 3_600) {
            now = now + Span::from_secs(every);
            task.sample = sample(now, cpu, ram);
            if round(&mut estimator, &mut task, setting, now) > 0 {
                last_change = now;
            }
        }
        let margins = Margin::of(setting).expect("it estimates");
        let of = |amount: u64, share: model::Permille| amount * u64::from(share.thousandths()) / 1_000;
        let target = |used: u64| {
            let margin = of(used, margins.of_usage) + of(1_000, margins.of_limit);
            (used + margin).min(1_000)
        };
        for (reserved, target) in
            [(task.reservation.cpu.0, target(cpu)), (task.reservation.ram.0, target(ram))]
        {
            prop_assert!((target..=target + 50).contains(&reserved), "{reserved}, target {target}");
        }
        prop_assert!(now.since(last_change) > Span::from_secs(3_600), "it comes to rest");
    }

    #[test]
    fn a_silent_task_has_its_limit_again_in_time(
        used in 0..1_000_u64,
        every in 1..30_u64,
        setting in select(&Reclamation::ALL[1..]),
    ) {
        let limit = Resources { cpu: MilliCores(1_000), ram: Bytes(1_000 << 20), ..Resources::default() };
        let (mut estimator, mut task, mut now) = (estimator(), task(limit), START);
        for _ in 0..2_000 {
            now = now + Span::from_secs(10);
            task.sample = sample(now, used, used << 20);
            round(&mut estimator, &mut task, setting, now);
        }
        let heard = now;
        while now.since(heard) <= SILENT_AFTER + SILENCE_RISE + Span::from_secs(every) {
            let before = task.reservation;
            now = now + Span::from_secs(every);
            round(&mut estimator, &mut task, setting, now);
            prop_assert_eq!(before.first_above(&task.reservation), None, "it does not fall");
            // One step is at most 30 s of 600, and what was below the change that matters is added.
            prop_assert!(task.reservation.cpu.0 <= before.cpu.0 + 100, "it does not jump");
        }
        prop_assert_eq!(task.reservation, limit);
    }

    #[test]
    fn a_new_leader_continues(
        usage in prop::collection::vec(0..1_000_u64, 1..20),
        elections in prop::collection::vec(61..4_000_usize, 1..4),
        setting in select(&Reclamation::ALL[1..]),
    ) {
        let limit = Resources { cpu: MilliCores(10_000), ram: Bytes(10_000), ..Resources::default() };
        let (mut first, mut kept) = (estimator(), task(limit));
        let (mut second, mut moved) = (estimator(), task(limit));
        for number in 0..4_000 {
            let now = START + Span::from_secs(5 * (number as u64 + 1));
            if elections.contains(&number) {
                second = estimator();
            }
            let used = usage[number / 200 % usage.len()] * 10;
            for (estimator, task) in [(&mut first, &mut kept), (&mut second, &mut moved)] {
                task.sample = sample(now, used, used);
                round(estimator, task, setting, now);
            }
            // In each election, an estimate moves to what was recorded, which is less than a change that
            // matters away from it: 5 % of the limit.
            let near = 550 * elections.len() as u64;
            let of = |estimator: &Estimator| {
                estimator.estimate(kept.instance).expect("there").reservation(&limit)
            };
            let (one, other) = (of(&first), of(&second));
            prop_assert!(one.cpu.0.abs_diff(other.cpu.0) < near, "{one:?}, {other:?} in {number}");
            prop_assert!(one.ram.0.abs_diff(other.ram.0) < near, "{one:?}, {other:?} in {number}");
        }
    }
}
