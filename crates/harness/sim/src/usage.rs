//! What simulated tasks use: a curve for each task, from the seed of its machine, through the
//! production recorder. Nothing is drawn from the random numbers of a run.

use std::collections::BTreeMap;

use borglet::{
    Reading, Recorder, Round, TaskReading, Usage, UsageSample, UsageSubject, UsageWindow,
};
use model::{Bytes, InstanceId, MilliCores, Random, Resources, Span, Time};

/// The shortest time between two samples, as that of a real Borglet.
const INTERVAL: Span = Span::from_secs(1);

/// The meter of one task in eight fails so long after its start: it is not measured any more.
const METER_FAILS_AFTER: Span = Span::from_secs(30);

/// Whether the meter of a task fails.
fn fails(instance: InstanceId) -> bool {
    let task = instance.collection.0 << 20 ^ u64::from(instance.index.0);
    Random::mixed(task).is_multiple_of(8)
}

/// The usage of a task over time: between two shares of its limit, up and down in straight lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Curve {
    low: MilliCores,
    high: MilliCores,
    memory: (Bytes, Bytes),
    /// The time from one peak to the next, and where in it the task starts.
    period: Span,
    offset: Span,
}

impl Curve {
    /// The curve of a task with a limit.
    pub(crate) fn of(seed: u64, instance: InstanceId, limit: Resources) -> Self {
        let task = instance.collection.0 << 20 ^ u64::from(instance.index.0);
        let mut random = Random::new(seed ^ Random::mixed(task));
        // Few tasks come close to their limits (paper, section 5.5).
        let low = random.below(40);
        let high = low + random.below(60);
        let part = |of: u64, percent: u64| of / 100 * percent + of % 100 * percent / 100;
        let period = Span::from_secs(60 + random.below(1_200));
        Self {
            low: MilliCores(part(limit.cpu.0, low)),
            high: MilliCores(part(limit.cpu.0, high)),
            memory: (Bytes(part(limit.ram.0, low)), Bytes(part(limit.ram.0, high))),
            period,
            offset: Span(random.below(period.0)),
        }
    }

    /// How far it is from the lowest to the highest point, in thousandths.
    fn height(&self, at: Time) -> u64 {
        let place = (at.0.wrapping_add(self.offset.0) % self.period.0) * 2_000 / self.period.0;
        if place <= 1_000 { place } else { 2_000 - place }
    }

    fn between(low: u64, high: u64, height: u64) -> u64 {
        low + (high - low) / 1_000 * height + (high - low) % 1_000 * height / 1_000
    }

    /// The CPU usage at a time.
    pub(crate) fn cpu(&self, at: Time) -> MilliCores {
        MilliCores(Self::between(self.low.0, self.high.0, self.height(at)))
    }

    /// The memory at a time.
    pub(crate) fn memory(&self, at: Time) -> Bytes {
        Bytes(Self::between(self.memory.0.0, self.memory.1.0, self.height(at)))
    }

    /// Whether a task with this curve can have used so much CPU.
    fn has(&self, cpu: MilliCores) -> bool {
        // Rounded twice.
        (self.low.0.saturating_sub(1)..=self.high.0 + 1).contains(&cpu.0)
    }
}

/// The meters of a machine: its tasks' counters, and the recorder of its Borglet.
#[derive(Debug)]
pub(crate) struct Meters {
    seed: u64,
    recorder: Recorder,
    last: Time,
    /// When each task was started, its curve, by its limit then, and its counter. After a restore an
    /// incarnation may begin again: a different one.
    tasks: BTreeMap<InstanceId, (Time, Curve, Span)>,
}

/// A running task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metered {
    pub(crate) instance: InstanceId,
    pub(crate) alloc: Option<InstanceId>,
    pub(crate) started: Time,
    pub(crate) limit: Resources,
}

impl Meters {
    pub(crate) fn new(seed: u64) -> Self {
        let recorder = Recorder::new(seed);
        Self { seed, recorder, last: Time::ZERO, tasks: BTreeMap::new() }
    }

    /// The memory of a task with this limit.
    pub(crate) fn memory(&self, now: Time, instance: InstanceId, limit: Resources) -> Bytes {
        Curve::of(self.seed, instance, limit).memory(now)
    }

    /// A new Borglet has recorded nothing; the counters of its tasks go on.
    pub(crate) fn start_again(&mut self) {
        self.recorder = Recorder::new(self.seed);
    }

    /// Measures the running tasks, at most once a second. Returns what goes with an answer, and what
    /// is wrong with it.
    pub(crate) fn measure(
        &mut self,
        now: Time,
        tasks: impl FnOnce() -> Vec<Metered>,
    ) -> (Usage, Option<String>) {
        let passed = now.since(self.last);
        if passed < INTERVAL {
            return (Usage::default(), None);
        }
        let tasks = tasks();
        let last = std::mem::replace(&mut self.last, now);
        self.tasks.retain(|known, (since, ..)| {
            tasks.iter().any(|task| (task.instance, task.started) == (*known, *since))
        });
        let mut read = BTreeMap::new();
        for Metered { instance, alloc, started, limit } in tasks {
            let new = || (started, Curve::of(self.seed, instance, limit), Span::ZERO);
            let (_, curve, used) = self.tasks.entry(instance).or_insert_with(new);
            let passed = now.since(last.max(started));
            // The middle of a straight line is its average; at a turn it is close to it.
            let middle = now - Span(passed.0 / 2);
            let more = u128::from(curve.cpu(middle).0) * u128::from(passed.0) / 1_000;
            *used = *used + Span(u64::try_from(more).unwrap_or(0));
            if fails(instance) && now.since(started) > METER_FAILS_AFTER {
                continue;
            }
            let memory = Some(curve.memory(now));
            let reading = Reading { cpu_time: Some(*used), memory, ..Reading::default() };
            read.insert(instance, TaskReading { alloc, started, reading });
        }
        let round = Round { wall: now, now, tasks: read, machine: Reading::default() };
        let windows = self.recorder.record(&round);
        let samples = self.recorder.samples().to_vec();
        let strange = |sample: &UsageSample| {
            let UsageSubject::Instance(id) = sample.subject else { return None };
            let ((_, curve, _), cpu) = (self.tasks.get(&id)?, sample.measured.cpu?);
            (!curve.has(cpu)).then(|| format!("{id} used {cpu}, outside of {curve:?}"))
        };
        let wrong = samples.iter().find_map(strange).or_else(|| self.wrong(&windows));
        (Usage { samples, windows, cursor: now.0 }, wrong)
    }

    /// For how long a running task has not been measured because its meter has failed.
    pub(crate) fn silent_for(&self, instance: InstanceId, now: Time) -> Option<Span> {
        let (started, ..) = self.tasks.get(&instance).filter(|_| fails(instance))?;
        let since = *started + METER_FAILS_AFTER;
        (now > since).then(|| now.since(since))
    }

    /// The least that a running task has used in the last while.
    pub(crate) fn least_used(
        &self,
        instance: InstanceId,
        now: Time,
        last: Span,
    ) -> Option<(MilliCores, Bytes)> {
        let (started, curve, _) = self.tasks.get(&instance)?;
        let seconds = last.0 / 1_000_000;
        let moments = || (0..=seconds).map(|ago| now - Span::from_secs(ago));
        let cpu = moments().map(|at| curve.cpu(at)).min()?;
        (now.since(*started) > last).then_some((cpu, moments().map(|at| curve.memory(at)).min()?))
    }

    /// What is wrong with closed windows of tasks that still run.
    fn wrong(&self, windows: &[UsageWindow]) -> Option<String> {
        windows.iter().find_map(|window| {
            let UsageSubject::Instance(id) = window.subject else { return None };
            let ((_, curve, _), cpu) = (self.tasks.get(&id)?, window.average.cpu?);
            let is_long = window.length > borglet::WINDOW;
            (is_long || !curve.has(cpu))
                .then(|| format!("{id} has {window:?}, outside of {curve:?}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use model::{CollectionId, Generation, TaskIndex};

    use super::*;

    const LIMIT: Resources = Resources {
        cpu: MilliCores(1_000),
        ram: Bytes(1 << 30),
        disk: Bytes(0),
        disk_rate: Bytes(0),
    };

    fn instance(index: u32) -> InstanceId {
        let (collection, index) = (CollectionId(1), TaskIndex(index));
        InstanceId { collection, index, generation: Generation(1) }
    }

    #[test]
    fn a_curve_depends_on_seed_and_task_and_stays_within_the_limit() {
        let of = |seed, index| Curve::of(seed, instance(index), LIMIT);
        assert_eq!(of(1, 1), of(1, 1));
        assert!(of(1, 1) != of(1, 2) && of(1, 1) != of(2, 1));
        for seed in 0..200 {
            let curve = of(seed, 0);
            for second in (0..3_000).step_by(7) {
                let at = Time::ZERO + Span::from_secs(second);
                assert!(curve.cpu(at) < LIMIT.cpu && curve.memory(at) < LIMIT.ram);
                assert!(curve.has(curve.cpu(at)));
            }
        }
    }

    #[test]
    fn measured_usage_follows_the_curve() {
        let mut meters = Meters::new(7);
        let mut windows = Vec::new();
        let start = Time(borglet::WINDOW.0 * 3);
        meters.last = start;
        for second in 0..1_300 {
            let task = |index| Metered {
                instance: instance(index),
                alloc: None,
                started: start,
                limit: LIMIT,
            };
            let tasks = || (0..3).map(task).collect();
            let at = start + Span::from_secs(second + 1);
            let (usage, wrong) = meters.measure(at, tasks);
            assert_eq!(wrong, None);
            let again = meters.measure(at + Span::from_millis(900), || panic!("too early"));
            assert_eq!(again, (Usage::default(), None));
            windows.extend(usage.windows);
        }
        // Of each task, of the machine, and of its system.
        assert_eq!(windows.len(), 5 * 4);
        let of_first =
            |window: &&UsageWindow| window.subject == UsageSubject::Instance(instance(0));
        let curve = Curve::of(7, instance(0), LIMIT);
        for window in windows.iter().filter(of_first) {
            let seconds = window.length.0 / 1_000_000;
            let each = (0..seconds)
                .map(|second| curve.cpu(window.start + Span::from_millis(second * 1_000 + 500)).0);
            let expected = each.sum::<u64>() / seconds;
            let found = window.average.cpu.expect("it is measured").0;
            assert!(found.abs_diff(expected) <= 2 + expected / 50, "{found} of {expected}");
        }
    }
}
