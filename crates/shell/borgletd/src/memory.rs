//! Watches the memory that is available for tasks, on a thread of its own, and limits what all tasks use
//! together. Crate `borglet` decides which tasks are evicted.
//!
//! With enough available memory, only that is read. When it is low, it is read often; when it is short,
//! the usage of each task is, too.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use borglet::{Input, MemoryReport, memory_reserve};
use linux::Isolation;
use linux::cgroup::{CgroupError, DetailReader, Hierarchy, PressureTrigger, TaskCgroup, Tier};
use linux::machine::available_memory_bytes;
use model::{Bytes, InstanceId};
use prometheus_client::metrics::counter::Counter;
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

/// Limits the memory of all tasks, and watches it until the receiver is gone. `capacity` is what the
/// cell may give to tasks; returns the number of shortages. Without cgroups there is nothing that could be told apart, and this does
/// nothing.
pub(super) fn watch(
    files: &Files,
    capacity: Bytes,
    to_driver: mpsc::Sender<Message>,
) -> anyhow::Result<Counter> {
    let shortages = Counter::default();
    if files.isolation == Isolation::Rootless {
        return Ok(shortages);
    }
    let all = TaskCgroup::open(&Hierarchy::detect()?, &files.cgroup)?;
    let reserve = memory_reserve(capacity);
    let most = Bytes(capacity.0.saturating_add(reserve.0));
    let shortages_of_thread = shortages.clone();
    let run = move || {
        let shortages = shortages_of_thread;
        let mut watched = MemoryWatch {
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

struct MemoryWatch {
    /// The cgroup of all tasks.
    all: TaskCgroup,
    /// The most memory that they may use together: the capacity, and the reserve, so that the Borglet
    /// acts before the kernel.
    most: Bytes,
    reserve: Bytes,
    to_driver: mpsc::Sender<Message>,
    shortages: Counter,
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

impl MemoryWatch {
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
            self.shortages.inc();
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
    // Those of earlier releases are not in a tier.
    let mut waiting = vec![all.clone()];
    waiting.extend(Tier::ALL.into_iter().filter_map(|tier| all.child(tier.group()).ok()));
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
