//! Watches the memory that is available for tasks, on a thread of its own, and limits what all tasks use
//! together. Crate `borglet` decides whom a shortage concerns.
//!
//! With enough available memory, only that is read. When it is low, it is read often; when it is short,
//! the usage of each task is, too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use borglet::{Input, MemoryReport, memory_reserve};
use linux::Isolation;
use linux::cgroup::{CgroupError, DetailReader, Hierarchy, PressureTrigger, TaskCgroup};
use linux::machine::available_memory_bytes;
use model::{Band, Bytes, InstanceId, Priority};
use tokio::sync::mpsc;

use super::message::Message;
use super::tasks::Files;

/// The attribute of machines that tells whether tasks are kept to their memory limits.
pub(crate) const ATTRIBUTE: &str = "memory-isolation";

/// The interval of readings, and the one while memory is low.
const INTERVAL: Duration = Duration::from_millis(250);
const INTERVAL_LOW: Duration = Duration::from_millis(100);
/// Tasks wait for memory if they do so for this part of the time.
const PRESSED_PERMILLE: u128 = 100;
/// The shortest time over which that is measured.
const PRESSED_OVER: Duration = Duration::from_millis(500);

/// What a machine enforces of memory limits: without root there are no cgroups.
pub(crate) fn isolation_name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::Jail => "enforced",
        Isolation::Rootless => "none",
    }
}

/// Whom the kernel kills first if the machine runs out of memory faster than the Borglet acts: the lowest
/// band first, and in it those that may use slack memory.
pub(super) fn oom_score_adj(priority: Priority, slack: bool) -> u16 {
    let of_band = match priority.band() {
        Band::Free => 900,
        Band::BestEffortBatch => 700,
        Band::Mid => 500,
        Band::Production => 200,
        Band::Monitoring => 100,
    };
    of_band + if slack { 50 } else { 0 }
}

/// Why a task ended that the kernel killed although its own limit was not reached.
pub(super) fn killed_by_kernel(limit_bytes: u64, peak_bytes: u64) -> String {
    let peak = Bytes(peak_bytes);
    let limit = match limit_bytes >= 1 << 62 {
        true => "it has no limit of its own".to_owned(),
        false => format!("its limit is {}", Bytes(limit_bytes)),
    };
    format!(
        "it used {peak} at most, {limit}; the machine had no memory left, and the kernel chose it"
    )
}

/// How often memory ran short.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shortages(Arc<AtomicU64>);

impl Shortages {
    /// The number since the Borglet started.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Limits the memory of all tasks, and watches it until the receiver is gone. `capacity` is what the
/// cell may give to tasks. Without cgroups there is nothing that could be told apart, and this does
/// nothing.
pub(super) fn watch(
    files: &Files,
    capacity: Bytes,
    to_driver: mpsc::Sender<Message>,
) -> anyhow::Result<Shortages> {
    let shortages = Shortages::default();
    if files.isolation == Isolation::Rootless {
        return Ok(shortages);
    }
    let all = TaskCgroup::open(&Hierarchy::detect()?, &files.cgroup)?;
    let reserve = memory_reserve(capacity);
    let most = Bytes(capacity.0.saturating_add(reserve.0));
    let shortages_of_thread = shortages.clone();
    let run = move || {
        let shortages = shortages_of_thread;
        let mut watched = Watched {
            all,
            most,
            reserve,
            to_driver,
            shortages,
            stalls: None,
            trigger: None,
            stalled: None,
            is_limited: false,
            was_short: false,
            was_low: false,
        };
        watched.run();
    };
    let thread = std::thread::Builder::new().name("memory".to_owned());
    thread.spawn(run).context("cannot start the thread that watches the memory")?;
    Ok(shortages)
}

struct Watched {
    /// The cgroup of all tasks.
    all: TaskCgroup,
    /// The most memory that they may use together: the capacity, and the reserve, so that the Borglet
    /// acts before the kernel.
    most: Bytes,
    reserve: Bytes,
    to_driver: mpsc::Sender<Message>,
    shortages: Shortages,
    /// The pressure on all tasks, and its trigger.
    stalls: Option<DetailReader>,
    trigger: Option<PressureTrigger>,
    /// When the time that tasks waited for memory was read last, that time in microseconds, and whether
    /// it rose much before.
    stalled: Option<(Instant, u64, bool)>,
    is_limited: bool,
    was_short: bool,
    was_low: bool,
}

impl Watched {
    fn run(&mut self) {
        while !self.to_driver.is_closed() {
            self.limit();
            match self.look() {
                Ok(()) => {}
                // A task has ended meanwhile, or all tasks have.
                Err(error) if error.is_gone() => self.is_limited = false,
                Err(error) => tracing::error!("cannot watch the memory: {error:#}"),
            }
            self.wait();
        }
    }

    /// Waits until the next reading is due, or tasks wait for memory.
    fn wait(&mut self) {
        let interval = if self.was_low { INTERVAL_LOW } else { INTERVAL };
        let until = Instant::now() + interval;
        // With a trigger that has just fired, still not more often than that.
        std::thread::sleep(INTERVAL_LOW.min(interval));
        let left = until.saturating_duration_since(Instant::now());
        match &self.trigger {
            _ if left.is_zero() => {}
            None => std::thread::sleep(left),
            Some(trigger) => {
                if trigger.wait(left).is_none() {
                    self.trigger = None;
                    std::thread::sleep(until.saturating_duration_since(Instant::now()));
                }
            }
        }
    }

    /// Limits what all tasks use together, unless that is done.
    fn limit(&mut self) {
        if self.is_limited {
            return;
        }
        match self.all.limit_memory(self.most.0) {
            Ok(()) => {
                self.is_limited = true;
                self.stalls = Some(self.all.detail_reader());
                self.trigger = self.all.pressure_trigger();
            }
            // The part of the machine is smaller than it was: tasks are evicted first.
            Err(error @ CgroupError::MemoryInUse { .. }) => tracing::debug!("{error}"),
            Err(error) => tracing::error!("cannot limit the memory of all tasks: {error:#}"),
        }
    }

    fn look(&mut self) -> Result<(), CgroupError> {
        let used = self.all.unreclaimable_bytes()?;
        let of_part = self.most.0.saturating_sub(used);
        // Every kernel with the system calls that tasks need says what is available.
        let of_machine = available_memory_bytes().unwrap_or(u64::MAX);
        let available = Bytes(of_machine.min(of_part));
        let (reserve, pressed) = (self.reserve, self.is_pressed());
        let mut report = MemoryReport { available, reserve, pressed, used: BTreeMap::new() };
        let is_short = report.is_short();
        if is_short && !self.was_short {
            self.shortages.0.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                "memory is short: {available} are available, and {reserve} must stay available{}",
                if pressed { "; tasks wait for memory" } else { "" }
            );
        } else if !is_short && self.was_short {
            tracing::warn!("memory is available again: {available}");
        }
        (self.was_short, self.was_low) = (is_short, report.is_low());
        if is_short {
            report.used = used_by_instances(&self.all);
            let _gone = self.to_driver.blocking_send(Message::Input(Input::Memory(report)));
        }
        Ok(())
    }

    /// Whether tasks waited for memory for a large part of the time since the last measurement.
    fn is_pressed(&mut self) -> bool {
        let now = Instant::now();
        let total = self.stalls.as_mut().and_then(|stalls| stalls.read().stalls.memory_us);
        let Some(total) = total else { return false };
        let Some((since, before, was)) = self.stalled else {
            self.stalled = Some((now, total, false));
            return false;
        };
        let passed = now.saturating_duration_since(since);
        if passed < PRESSED_OVER {
            return was;
        }
        let waited = u128::from(total.saturating_sub(before));
        let pressed = waited * 1_000 >= passed.as_micros() * PRESSED_PERMILLE;
        self.stalled = Some((now, total, pressed));
        pressed
    }
}

/// The memory of each task, and of each alloc with its tasks, that the kernel cannot reclaim.
fn used_by_instances(all: &TaskCgroup) -> BTreeMap<InstanceId, Bytes> {
    let mut used = BTreeMap::new();
    let mut waiting = vec![all.clone()];
    // Tasks are at most two levels deep: in allocs.
    while let Some(group) = waiting.pop() {
        for name in group.children() {
            let (Ok(instance), Ok(child)) = (name.parse::<InstanceId>(), group.child(&name)) else {
                continue;
            };
            // It may have ended meanwhile.
            if let Ok(bytes) = child.unreclaimable_bytes() {
                used.insert(instance, Bytes(bytes));
                waiting.push(child);
            }
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_kills_in_the_order_of_bands() {
        let order = |slack| Band::ALL.map(|band| oom_score_adj(band.usual(), slack));
        assert_eq!(order(false), [900, 700, 500, 200, 100]);
        assert_eq!(order(true), [950, 750, 550, 250, 150]);
    }

    #[test]
    fn who_was_killed_by_the_kernel_is_told_with_numbers() {
        let end = "; the machine had no memory left, and the kernel chose it";
        let table = [
            (64 << 20, "it used 10 MiB at most, its limit is 64 MiB"),
            (u64::MAX, "it used 10 MiB at most, it has no limit of its own"),
        ];
        for (limit, expected) in table {
            assert_eq!(killed_by_kernel(limit, 10 << 20), format!("{expected}{end}"));
        }
    }
}
