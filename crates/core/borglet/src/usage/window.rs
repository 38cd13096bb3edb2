//! A window that is open: what has been measured since its start.

use model::{Bytes, MilliCores, Permille, Random, Span, Time};
use poll::{CpuDistribution, Measured, UsageSubject, UsageWindow, WINDOW};

use super::recorder::{Counters, Sampled};

/// How many CPU samples a window takes: more than one each second come only from a wrong clock.
const CPU_SAMPLES_MAX: usize = 600;

/// An open window.
#[derive(Clone, Debug)]
pub(super) struct OpenWindow {
    start: Time,
    last: Time,
    samples: u32,
    /// The CPU of each sample.
    cpu: Vec<u32>,
    cpu_time: Option<Span>,
    /// The time that `cpu_time` is about.
    cpu_elapsed: Span,
    sums: Sums,
    maximum: Measured,
    counters: Option<Counters>,
}

/// The sums of the samples' values, each with its number of samples.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    memory: Sum,
    page_cache: Sum,
    memory_assigned: Sum,
    disk: Sum,
    disk_rate: Sum,
    throttled: Sum,
    cpu_pressure: Sum,
    memory_pressure: Sum,
    io_pressure: Sum,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    total: u128,
    count: u32,
}

impl Sum {
    fn add(&mut self, value: Option<u64>) {
        if let Some(value) = value {
            self.total += u128::from(value);
            self.count += 1;
        }
    }

    fn average(self) -> Option<u64> {
        let average = self.total.checked_div(u128::from(self.count))?;
        u64::try_from(average).ok()
    }
}

impl OpenWindow {
    pub(super) fn starting(at: Time) -> Self {
        Self {
            start: at,
            last: at,
            samples: 0,
            cpu: Vec::new(),
            cpu_time: None,
            cpu_elapsed: Span::ZERO,
            sums: Sums::default(),
            maximum: Measured::default(),
            counters: None,
        }
    }

    /// The end of the window: the next multiple of its length.
    pub(super) fn end(&self) -> Time {
        Time(self.start.0 - self.start.0 % WINDOW.0) + WINDOW
    }

    /// When it was last added to.
    pub(super) fn last(&self) -> Time {
        self.last
    }

    /// Adds a sample.
    pub(super) fn add(&mut self, at: Time, sampled: &Sampled) {
        let Sampled { measured, cpu_time, elapsed, counters } = sampled;
        self.last = self.last.max(at);
        self.samples = self.samples.saturating_add(1);
        if let Some(cpu) = measured.cpu
            && self.cpu.len() < CPU_SAMPLES_MAX
        {
            self.cpu.push(u32::try_from(cpu.0).unwrap_or(u32::MAX));
        }
        self.add_cpu_time(*cpu_time, *elapsed);
        let share = |share: Option<Permille>| share.map(|share| u64::from(share.thousandths()));
        let bytes = |amount: Option<Bytes>| amount.map(|amount| amount.0);
        self.sums.memory.add(bytes(measured.memory));
        self.sums.page_cache.add(bytes(measured.page_cache));
        self.sums.memory_assigned.add(bytes(measured.memory_assigned));
        self.sums.disk.add(bytes(measured.disk));
        self.sums.disk_rate.add(bytes(measured.disk_rate));
        self.sums.throttled.add(share(measured.throttled));
        self.sums.cpu_pressure.add(share(measured.cpu_pressure));
        self.sums.memory_pressure.add(share(measured.memory_pressure));
        self.sums.io_pressure.add(share(measured.io_pressure));
        self.maximum = most(&self.maximum, measured);
        if let Some(more) = counters {
            let before = self.counters.unwrap_or_default();
            self.counters = Some(before.plus(more));
        }
    }

    /// Adds CPU time that is in no sample.
    pub(super) fn add_cpu_time(&mut self, cpu_time: Option<Span>, elapsed: Span) {
        if let Some(more) = cpu_time {
            self.cpu_time = Some(self.cpu_time.unwrap_or_default() + more);
            self.cpu_elapsed = self.cpu_elapsed + elapsed;
        }
    }

    /// A peak that is in no sample.
    pub(super) fn add_peak(&mut self, peak: Option<Bytes>) {
        self.maximum.memory_peak = self.maximum.memory_peak.max(peak);
    }

    /// The closed window, unless nothing was measured in it.
    pub(super) fn close(
        mut self,
        subject: UsageSubject,
        end: Time,
        random: &mut Random,
    ) -> Option<UsageWindow> {
        let is_empty = self.samples == 0 && self.cpu_time.is_none();
        if is_empty || end <= self.start {
            return None;
        }
        let random_cpu = random.below(self.cpu.len() as u64);
        let random_cpu = usize::try_from(random_cpu).ok().and_then(|index| self.cpu.get(index));
        let random_cpu = random_cpu.map(|cpu| MilliCores(u64::from(*cpu)));
        let share = |sum: Sum| sum.average().map(Permille::at_most_whole);
        let sums = &self.sums;
        let average = Measured {
            cpu: self.cpu_time.and_then(|time| cores(time, self.cpu_elapsed)),
            memory: sums.memory.average().map(Bytes),
            memory_peak: self.maximum.memory_peak,
            page_cache: sums.page_cache.average().map(Bytes),
            memory_assigned: sums.memory_assigned.average().map(Bytes),
            disk: sums.disk.average().map(Bytes),
            disk_rate: sums.disk_rate.average().map(Bytes),
            throttled: share(sums.throttled),
            cpu_pressure: share(sums.cpu_pressure),
            memory_pressure: share(sums.memory_pressure),
            io_pressure: share(sums.io_pressure),
        };
        Some(UsageWindow {
            subject,
            start: self.start,
            length: end.since(self.start),
            samples: self.samples,
            average,
            maximum: self.maximum,
            random_cpu,
            cpu: CpuDistribution::of(&mut self.cpu),
            cycles_per_instruction: self.counters.and_then(|all| all.cycles_per_instruction()),
            memory_accesses_per_instruction: self
                .counters
                .and_then(|all| all.memory_accesses_per_instruction()),
        })
    }
}

/// CPU time by elapsed time, rounded to the nearest thousandth of a core; none without time.
pub(super) fn cores(cpu_time: Span, elapsed: Span) -> Option<MilliCores> {
    let (time, elapsed) = (u128::from(cpu_time.0), u128::from(elapsed.0));
    let milli = (time * 1_000 + elapsed / 2).checked_div(elapsed)?;
    Some(MilliCores(u64::try_from(milli).unwrap_or(u64::MAX)))
}

/// The higher of each; what only one has counts.
fn most(one: &Measured, other: &Measured) -> Measured {
    Measured {
        cpu: one.cpu.max(other.cpu),
        memory: one.memory.max(other.memory),
        memory_peak: one.memory_peak.max(other.memory_peak),
        page_cache: one.page_cache.max(other.page_cache),
        memory_assigned: one.memory_assigned.max(other.memory_assigned),
        disk: one.disk.max(other.disk),
        disk_rate: one.disk_rate.max(other.disk_rate),
        throttled: one.throttled.max(other.throttled),
        cpu_pressure: one.cpu_pressure.max(other.cpu_pressure),
        memory_pressure: one.memory_pressure.max(other.memory_pressure),
        io_pressure: one.io_pressure.max(other.io_pressure),
    }
}
