//! Measures the disk that tasks write to: free space, and the usage of each task. It runs on a
//! thread of its own, since a task can have millions of files. Crate `borglet` decides what
//! follows.
//!
//! With enough free space, only that is checked. When it runs short, the usage of all tasks is
//! counted in turn, and reported after a bounded time with what is known by then.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use borglet::{DiskAmount, DiskReport, DiskUse, Input};
use linux::disk::Disk;
use linux::tree::{Measure, Used};
use model::{Bytes, InstanceId, MachineReport};
use tokio::sync::mpsc;

use super::message::Message;
use super::tasks::Files;

/// The interval between checks of the free space.
const LOOK: Duration = Duration::from_millis(200);
/// How long usage is counted before it is reported, complete or not.
const COUNT_MAX: Duration = Duration::from_secs(2);
/// The same before the Borglet starts, to determine the machine's capacity.
const FIRST_COUNT_MAX: Duration = Duration::from_millis(500);
/// The pause between two counts: a minimum, and a multiple of the duration of the last count.
const REST: Duration = Duration::from_millis(200);
const REST_PARTS: u32 = 4;
/// How many directories are counted concurrently, and how many entries of one are counted before
/// the next one continues. Each holds as many descriptors as it is deep.
const AT_ONCE: usize = 4;
const TURN: usize = 2_000;
/// The reserve of the disk that stays free of tasks: this fraction of it, up to a maximum.
const BYTES_PART: u64 = 100;
const BYTES_MAX: u64 = 256 << 20;
const FILES_PART: u64 = 50;
const FILES_MAX: u64 = 10_000;
/// No task is started when less than this fraction of the reserve is free.
const START_PART: u64 = 4;

/// The reserve of a disk.
fn reserve(disk: &Disk) -> DiskAmount {
    DiskAmount {
        bytes: Bytes((disk.bytes / BYTES_PART).min(BYTES_MAX)),
        files: disk.files.map_or(0, |files| (files / FILES_PART).min(FILES_MAX)),
    }
}

fn free(disk: &Disk) -> DiskAmount {
    DiskAmount { bytes: Bytes(disk.free_bytes), files: disk.free_files }
}

fn is_short(disk: &Disk) -> bool {
    let (free, reserve) = (free(disk), reserve(disk));
    free.bytes < reserve.bytes || free.files < reserve.files
}

/// How many bytes of the reserve are missing on a Borglet's disk.
pub(super) fn missing(files: &Files) -> Bytes {
    let Ok(disk) = Disk::of(&files.directory) else { return Bytes(0) };
    Bytes(reserve(&disk).bytes.0.saturating_sub(disk.free_bytes))
}

/// Why no task can be started on a Borglet's disk now, in words.
pub(super) fn no_room(files: &Files) -> Option<String> {
    let disk = Disk::of(&files.directory).ok()?;
    let (free, reserve) = (free(&disk), reserve(&disk));
    let short =
        free.bytes.0 < reserve.bytes.0 / START_PART || free.files < reserve.files / START_PART;
    short.then(|| {
        format!(
            "no space on the disk of its machine: {} and {} files are free",
            free.bytes, free.files
        )
    })
}

/// The disk capacity of a machine for tasks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    /// What tasks use already and what is free beyond the reserve, up to the maximum.
    pub(super) bytes: Bytes,
    /// The maximum.
    max: Bytes,
    /// Whether all usage is counted.
    certain: bool,
}

/// Measures the disk capacity of a machine for tasks.
pub(super) fn capacity(files: &Files, max: Bytes) -> anyhow::Result<Capacity> {
    let mut count = Count::of_all(files)?;
    let certain = count.advance(Instant::now() + FIRST_COUNT_MAX);
    Ok(Capacity { bytes: count.capacity(files)?.min(max), max, certain })
}

/// The disk space for tasks that is free now: beyond the reserve.
pub(super) fn free_for_tasks(directory: &Path) -> anyhow::Result<Bytes> {
    let disk = Disk::of(directory)?;
    Ok(Bytes(disk.free_bytes.saturating_sub(reserve(&disk).bytes.0)))
}

/// Watches the disk until the receiver is gone. Reports the machine again if its capacity was
/// uncertain.
pub(super) fn watch(
    files: Files,
    machine: Arc<MachineReport>,
    capacity: Capacity,
    to_driver: mpsc::Sender<Message>,
) -> anyhow::Result<()> {
    let (was_short, count, rest_until) = (false, None, Instant::now());
    let mut watched = DiskWatch { files, to_driver, was_short, count, rest_until };
    let run = move || {
        if !capacity.certain
            && let Err(error) = watched.describe(machine, capacity.max)
        {
            tracing::error!("cannot count the disk usage of tasks: {error:#}");
        }
        while !watched.to_driver.is_closed() {
            if let Err(error) = watched.look() {
                tracing::error!("cannot watch the disk: {error:#}");
                std::thread::sleep(REST);
            }
            std::thread::sleep(LOOK);
        }
    };
    let thread = std::thread::Builder::new().name("disk".to_owned());
    thread.spawn(run).context("cannot start the thread that watches the disk").map(drop)
}

struct DiskWatch {
    files: Files,
    to_driver: mpsc::Sender<Message>,
    was_short: bool,
    /// A count in progress.
    count: Option<Count>,
    rest_until: Instant,
}

impl DiskWatch {
    /// Reports the machine's capacity once it is known.
    fn describe(&mut self, machine: Arc<MachineReport>, max: Bytes) -> anyhow::Result<()> {
        let mut count = Count::of_all(&self.files)?;
        while !count.advance(Instant::now() + LOOK) {
            if self.to_driver.is_closed() {
                return Ok(());
            }
        }
        let mut machine = machine;
        Arc::make_mut(&mut machine).capacity.disk = count.capacity(&self.files)?.min(max);
        tracing::info!("this machine has {} for tasks", machine.capacity);
        self.tell(Input::Machine(machine));
        Ok(())
    }

    fn look(&mut self) -> anyhow::Result<()> {
        let disk = Disk::of(&self.files.directory)?;
        let is_short = is_short(&disk);
        if is_short != self.was_short {
            let (place, free) = (self.files.directory.display(), free(&disk));
            let now = if is_short { "is nearly full" } else { "has free space again" };
            tracing::warn!("the disk of {place} {now}: {} and {} files", free.bytes, free.files);
        }
        let was_short = std::mem::replace(&mut self.was_short, is_short);
        if !is_short && !was_short || is_short && Instant::now() < self.rest_until {
            return Ok(());
        }
        let begun = Instant::now();
        let mut report = DiskReport {
            size: DiskAmount { bytes: Bytes(disk.bytes), files: disk.files.unwrap_or(0) },
            free: free(&disk),
            reserve: reserve(&disk),
            deleting: false,
            used: BTreeMap::new(),
        };
        if is_short {
            // Continue a count that did not finish.
            let mut count = match self.count.take() {
                Some(count) => count,
                None => Count::of_instances(&self.files)?,
            };
            let all = count.advance(begun + COUNT_MAX);
            report.used = count.used(&self.files);
            self.count = Some(count).filter(|_| !all);
            report.deleting = !self.files.discarded()?.is_empty();
            // Some usage may have been freed meanwhile.
            report.free = free(&Disk::of(&self.files.directory)?);
            self.rest_until = Instant::now() + REST.max(begun.elapsed() * REST_PARTS);
        } else {
            self.count = None;
        }
        self.tell(Input::Disk(report));
        Ok(())
    }

    fn tell(&self, input: Input) {
        let _gone = self.to_driver.blocking_send(Message::Input(input));
    }
}

/// The owner of a counted directory.
type Owner = Option<InstanceId>;

/// The usage of tasks and allocs, as far as it is counted.
struct Count {
    waiting: Vec<(Owner, PathBuf)>,
    under_way: Vec<(Owner, Measure)>,
    counted: Vec<(Owner, Used)>,
}

impl Count {
    /// Starts to count the usage of instances.
    fn of_instances(files: &Files) -> anyhow::Result<Self> {
        let waiting = files.measured()?.into_iter().map(|(id, path)| (Some(id), path)).collect();
        Ok(Self { waiting, under_way: Vec::new(), counted: Vec::new() })
    }

    /// The same, including discarded directories that are to be deleted.
    fn of_all(files: &Files) -> anyhow::Result<Self> {
        let mut count = Self::of_instances(files)?;
        count.waiting.extend(files.discarded()?.into_iter().map(|path| (None, path)));
        Ok(count)
    }

    /// Continues to count until a deadline, a few directories in turn. Returns whether it is
    /// complete.
    fn advance(&mut self, until: Instant) -> bool {
        // Unreadable entries are skipped.
        let say =
            |error: &std::io::Error| tracing::debug!("some entries cannot be counted: {error}");
        while Instant::now() < until {
            while self.under_way.len() < AT_ONCE {
                let Some((part, path)) = self.waiting.pop() else { break };
                match Measure::of(&path) {
                    Ok(measure) => self.under_way.push((part, measure)),
                    Err(error) => say(&error),
                }
            }
            if self.under_way.is_empty() {
                return true;
            }
            for (part, mut measure) in std::mem::take(&mut self.under_way) {
                match measure.advance(TURN).inspect_err(say) {
                    Ok(false) => self.under_way.push((part, measure)),
                    Ok(true) | Err(_) => self.counted.push((part, measure.used())),
                }
            }
        }
        self.waiting.is_empty() && self.under_way.is_empty()
    }

    fn so_far(&self) -> impl Iterator<Item = (Owner, Used)> {
        let under_way = self.under_way.iter().map(|(part, measure)| (*part, measure.used()));
        self.counted.iter().copied().chain(under_way)
    }

    /// The usage of each instance, including open files without a name.
    fn used(&self, files: &Files) -> BTreeMap<InstanceId, DiskUse> {
        let mut used: BTreeMap<InstanceId, Used> = BTreeMap::new();
        for (part, more) in self.so_far() {
            if let Some(instance) = part {
                let used = used.entry(instance).or_default();
                *used = used.plus(more);
            }
        }
        let shown = |(instance, used): (InstanceId, Used)| {
            let used = used.plus(files.unnamed(instance));
            let amount = DiskAmount { bytes: Bytes(used.bytes), files: used.files };
            (instance, DiskUse { amount, more: used.more })
        };
        used.into_iter().map(shown).collect()
    }

    /// The disk capacity for tasks, as far as usage is counted.
    fn capacity(&self, files: &Files) -> anyhow::Result<Bytes> {
        let disk = Disk::of(&files.directory)?;
        let used = self.so_far().fold(0, |sum: u64, (_, used)| sum.saturating_add(used.bytes));
        let all = disk.free_bytes.saturating_add(used);
        Ok(Bytes(all.saturating_sub(reserve(&disk).bytes.0)))
    }
}
