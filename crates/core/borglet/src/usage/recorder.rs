//! Turns readings of counters into samples and windows.
//!
//! Time is given twice: the machine's wall clock says which window a sample belongs to, and the
//! monotonic clock how much time has passed. If the wall clock is set, the open windows close where
//! it was, and new ones start where it is.

use std::collections::BTreeMap;

use model::{Bytes, FinalUsage, InstanceId, Permille, Random, Span, Time};
use poll::{Measured, UsageSample, UsageSubject, UsageWindow, WINDOW};

use super::window::{OpenWindow, cores};

/// How far the two clocks may drift apart between two rounds before the wall clock was set.
const DRIFT_MAX: Span = Span::from_secs(2);
/// The first sample of a task is about so much time at least.
const FIRST_MIN: Span = Span::from_millis(250);

/// A reading of a subject's counters and gauges; none for what cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// CPU time used: a counter.
    pub cpu_time: Option<Span>,
    /// As in [`Measured`].
    pub memory: Option<Bytes>,
    /// As in [`Measured`].
    pub memory_peak: Option<Bytes>,
    /// As in [`Measured`].
    pub page_cache: Option<Bytes>,
    /// As in [`Measured`].
    pub memory_assigned: Option<Bytes>,
    /// As in [`Measured`].
    pub disk: Option<Bytes>,
    /// Bytes read and written: a counter.
    pub disk_bytes: Option<Bytes>,
    /// The time in which it was throttled: a counter.
    pub throttled: Option<Span>,
    /// The time in which a thread waited for CPU: a counter.
    pub cpu_stall: Option<Span>,
    /// The same for memory.
    pub memory_stall: Option<Span>,
    /// The same for disks.
    pub io_stall: Option<Span>,
    /// Hardware counters.
    pub counters: Option<Counters>,
}

impl Reading {
    /// The counters of a subject that has just begun. Hardware counters begin when they are opened.
    const ZERO: Self = Self {
        cpu_time: Some(Span::ZERO),
        memory: None,
        memory_peak: None,
        page_cache: None,
        memory_assigned: None,
        disk: None,
        disk_bytes: Some(Bytes(0)),
        throttled: Some(Span::ZERO),
        cpu_stall: Some(Span::ZERO),
        memory_stall: Some(Span::ZERO),
        io_stall: Some(Span::ZERO),
        counters: None,
    };
}

/// Hardware counters of a subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// CPU cycles.
    pub cycles: u64,
    /// Instructions executed.
    pub instructions: u64,
    /// Misses of the last cache: accesses to memory.
    pub memory_accesses: u64,
}

impl Counters {
    pub(super) fn plus(&self, more: &Self) -> Self {
        Self {
            cycles: self.cycles.saturating_add(more.cycles),
            instructions: self.instructions.saturating_add(more.instructions),
            memory_accesses: self.memory_accesses.saturating_add(more.memory_accesses),
        }
    }

    fn since(&self, before: &Self) -> Option<Self> {
        Some(Self {
            cycles: self.cycles.checked_sub(before.cycles)?,
            instructions: self.instructions.checked_sub(before.instructions)?,
            memory_accesses: self.memory_accesses.checked_sub(before.memory_accesses)?,
        })
    }

    /// In thousandths; none if nothing was executed.
    pub(super) fn cycles_per_instruction(&self) -> Option<u32> {
        per(self.cycles, self.instructions, 1_000)
    }

    /// In millionths; none if nothing was executed.
    pub(super) fn memory_accesses_per_instruction(&self) -> Option<u32> {
        per(self.memory_accesses, self.instructions, 1_000_000)
    }
}

fn per(count: u64, of: u64, unit: u128) -> Option<u32> {
    let ratio = (u128::from(count) * unit).checked_div(u128::from(of))?;
    Some(u32::try_from(ratio).unwrap_or(u32::MAX))
}

/// A sample with what it was computed from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sampled {
    pub(super) measured: Measured,
    pub(super) cpu_time: Option<Span>,
    pub(super) elapsed: Span,
    pub(super) counters: Option<Counters>,
}

impl Sampled {
    fn plus(&self, other: &Self) -> Self {
        let cpu_time = match (self.cpu_time, other.cpu_time) {
            (None, None) => None,
            (one, other) => Some(one.unwrap_or_default() + other.unwrap_or_default()),
        };
        Self {
            measured: self.measured.plus(&other.measured),
            cpu_time,
            elapsed: self.elapsed.max(other.elapsed),
            counters: None,
        }
    }

    fn minus(&self, part: &Self) -> Self {
        let used = part.cpu_time.unwrap_or_default();
        let rest = |time: Span| Span(time.0.saturating_sub(used.0));
        Self {
            measured: self.measured.minus(&part.measured),
            cpu_time: self.cpu_time.map(rest),
            elapsed: self.elapsed,
            counters: None,
        }
    }
}

/// What was read of a task. Its counters began at zero when it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskReading {
    /// The alloc in which it runs.
    pub alloc: Option<InstanceId>,
    /// When it started, by the monotonic clock.
    pub started: Time,
    /// Its counters and gauges.
    pub reading: Reading,
}

/// One round: what was read of all subjects at about the same moment.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// The wall clock.
    pub wall: Time,
    /// The monotonic clock.
    pub now: Time,
    /// The running tasks.
    pub tasks: BTreeMap<InstanceId, TaskReading>,
    /// The whole machine. Its counters count since any moment: only differences matter.
    pub machine: Reading,
}

/// The samples and the open windows of a machine.
#[derive(Clone, Debug)]
pub struct Recorder {
    random: Random,
    /// The monotonic clock at the first round. What tasks used before is not known by time.
    first: Option<Time>,
    /// The clocks at the last round.
    clocks: Option<(Time, Time)>,
    subjects: BTreeMap<UsageSubject, Subject>,
    samples: Vec<UsageSample>,
}

#[derive(Clone, Debug)]
struct Subject {
    /// The last reading, and when, by the monotonic clock.
    last: Option<(Time, Reading)>,
    window: OpenWindow,
}

impl Recorder {
    /// A recorder that has measured nothing; the seed chooses the random samples.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let (subjects, samples) = Default::default();
        Self { random: Random::new(seed), first: None, clocks: None, subjects, samples }
    }

    /// The samples of the last round.
    #[must_use]
    pub fn samples(&self) -> &[UsageSample] {
        &self.samples
    }

    /// When the last round was, by the wall clock.
    #[must_use]
    pub fn sampled_at(&self) -> Option<Time> {
        self.clocks.map(|(wall, _)| wall)
    }

    /// Takes in a round and returns the windows that have closed, in the order of their subjects.
    /// Subjects that are not in it any more have ended.
    pub fn record(&mut self, round: &Round) -> Vec<UsageWindow> {
        let Round { wall, now, .. } = *round;
        let mut closed = Vec::new();
        if self.clocks.is_some_and(|clocks| was_set(clocks, (wall, now))) {
            self.close_all(wall, &mut closed);
        }
        self.clocks = Some((wall, now));
        let first = *self.first.get_or_insert(now);
        let mut sampled: BTreeMap<UsageSubject, Sampled> = BTreeMap::new();
        let mut all_tasks = Sampled::default();
        for (instance, TaskReading { alloc, started, reading }) in &round.tasks {
            let subject = UsageSubject::Instance(*instance);
            let since = Some(*started).filter(|started| *started >= first);
            let Some(found) = self.read(subject, (wall, now), since, reading) else { continue };
            all_tasks = all_tasks.plus(&found);
            sampled.insert(subject, found);
            if let Some(alloc) = alloc {
                let of_it = sampled.entry(UsageSubject::Instance(*alloc)).or_default();
                *of_it = of_it.plus(&found);
            }
        }
        if let Some(machine) = self.read(UsageSubject::Machine, (wall, now), None, &round.machine) {
            sampled.insert(UsageSubject::System, machine.minus(&all_tasks));
            sampled.insert(UsageSubject::Machine, machine);
        }
        let allocs = round.tasks.values().filter_map(|task| task.alloc);
        let mut present: std::collections::BTreeSet<UsageSubject> =
            round.tasks.keys().copied().chain(allocs).map(UsageSubject::Instance).collect();
        present.extend([UsageSubject::Machine, UsageSubject::System]);
        let gone: Vec<_> =
            self.subjects.keys().copied().filter(|subject| !present.contains(subject)).collect();
        for subject in gone {
            closed.extend(self.end(subject));
        }
        self.samples.clear();
        for (subject, found) in sampled {
            let kept = self.subjects.entry(subject);
            let kept = kept.or_insert_with(|| Subject::starting(wall));
            if kept.window.end() <= wall {
                let end = kept.window.end();
                let next = OpenWindow::starting(end.max(Time(wall.0 - wall.0 % WINDOW.0)));
                let full = std::mem::replace(&mut kept.window, next);
                closed.extend(full.close(subject, end, &mut self.random));
            }
            kept.window.add(wall, &found);
            self.samples.push(UsageSample { subject, at: wall, measured: found.measured });
        }
        closed
    }

    /// A task has ended, by both clocks, `lived` after its start, with what it used in all, if that is
    /// known: what is new since its last reading is added to its window, which closes.
    pub fn ended(
        &mut self,
        instance: InstanceId,
        (wall, now): (Time, Time),
        lived: Span,
        usage: &FinalUsage,
    ) -> Option<UsageWindow> {
        let subject = UsageSubject::Instance(instance);
        let kept = self.subjects.entry(subject);
        let kept = kept.or_insert_with(|| Subject::starting(wall - lived));
        let (before, since) = match &kept.last {
            Some((at, reading)) => (reading.cpu_time.unwrap_or_default(), now.since(*at)),
            None => (Span::ZERO, lived),
        };
        let rest = usage.cpu_time.and_then(|all| all.0.checked_sub(before.0)).map(Span);
        kept.window.add_cpu_time(rest, since);
        kept.window.add_peak(usage.memory_peak);
        let gone = self.subjects.remove(&subject)?;
        let end = wall.max(gone.window.last());
        self.samples.retain(|sample| sample.subject != subject);
        gone.window.close(subject, end, &mut self.random)
    }

    /// The sample of a subject since its last reading. The first is since its counters began at zero,
    /// or none if that is not known.
    fn read(
        &mut self,
        subject: UsageSubject,
        (wall, now): (Time, Time),
        began: Option<Time>,
        reading: &Reading,
    ) -> Option<Sampled> {
        let start = began.map_or(wall, |began| wall - now.since(began));
        // Its counters have what its start cost, too, which would be a peak in a short time.
        let is_too_new = began.is_some_and(|began| now.since(began) < FIRST_MIN);
        let kept = self.subjects.entry(subject).or_insert_with(|| Subject::starting(start));
        if kept.last.is_none() && is_too_new {
            return None;
        }
        let before = kept.last.replace((now, *reading));
        let (at, before) = before.or_else(|| Some((began?, Reading::ZERO)))?;
        let elapsed = now.since(at);
        (elapsed > Span::ZERO).then(|| sample(&before, reading, elapsed))
    }

    fn end(&mut self, subject: UsageSubject) -> Option<UsageWindow> {
        let gone = self.subjects.remove(&subject)?;
        let end = gone.window.last();
        gone.window.close(subject, end, &mut self.random)
    }

    /// The wall clock was set: every window ends where it was.
    fn close_all(&mut self, wall: Time, closed: &mut Vec<UsageWindow>) {
        for (subject, kept) in &mut self.subjects {
            let full = std::mem::replace(&mut kept.window, OpenWindow::starting(wall));
            let end = full.last();
            closed.extend(full.close(*subject, end, &mut self.random));
        }
    }
}

impl Subject {
    fn starting(at: Time) -> Self {
        Self { last: None, window: OpenWindow::starting(at) }
    }
}

/// Whether the wall clock was set between two rounds.
fn was_set((wall, now): (Time, Time), (new_wall, new_now): (Time, Time)) -> bool {
    let passed = new_now.since(now);
    let shown = wall + passed;
    new_wall.since(shown).max(shown.since(new_wall)) > DRIFT_MAX
}

/// What happened between two readings. A counter that ran backwards, because it wrapped or began
/// again, gives nothing this time.
fn sample(before: &Reading, after: &Reading, elapsed: Span) -> Sampled {
    let span =
        |before: Option<Span>, after: Option<Span>| after?.0.checked_sub(before?.0).map(Span);
    let share = |before: Option<Span>, after: Option<Span>| {
        let part = u128::from(span(before, after)?.0) * 1_000 / u128::from(elapsed.0.max(1));
        Some(Permille::at_most_whole(u64::try_from(part).unwrap_or(u64::MAX)))
    };
    let cpu_time = span(before.cpu_time, after.cpu_time);
    let disk_rate = (|| {
        let bytes = after.disk_bytes?.0.checked_sub(before.disk_bytes?.0)?;
        let rate = u128::from(bytes) * 1_000_000 / u128::from(elapsed.0.max(1));
        Some(Bytes(u64::try_from(rate).unwrap_or(u64::MAX)))
    })();
    let counters = (|| after.counters?.since(&before.counters?))();
    let measured = Measured {
        cpu: cpu_time.and_then(|time| cores(time, elapsed)),
        memory: after.memory,
        memory_peak: after.memory_peak,
        page_cache: after.page_cache,
        memory_assigned: after.memory_assigned,
        disk: after.disk,
        disk_rate,
        throttled: share(before.throttled, after.throttled),
        cpu_pressure: share(before.cpu_stall, after.cpu_stall),
        memory_pressure: share(before.memory_stall, after.memory_stall),
        io_pressure: share(before.io_stall, after.io_stall),
    };
    Sampled { measured, cpu_time, elapsed, counters }
}
