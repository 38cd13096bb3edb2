//! Measures what tasks and the machine use, once a second, on a thread of its own: reading counters
//! blocks. Crate `borglet` makes samples and windows of the readings. The newest samples go with the
//! next poll; closed windows are kept on disk ([`spool`]).

mod disk_scan;
mod readings;
mod spool;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use api::v1;
use borglet::{
    CpuReading, CpuRound, Input, Recorder, Round, TaskReading, Usage, UsageSample, UsageSubject,
    UsageWindow,
};
use linux::Isolation;
use linux::cgroup::Hierarchy;
use linux::usage::{MachineReader, TaskReader};
use model::{FinalUsage, InstanceId, Time};
use nix::sys::resource::{Resource, getrlimit};
use process::clock::{Clock, wall_clock};
use tokio::sync::mpsc;

use super::message::Message;
use super::tasks::Files;
use disk_scan::DiskScan;
use spool::Spool;

/// The time between two rounds.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often what has been appended to the spool is synced.
const SYNC: Duration = Duration::from_secs(5);
/// The counters of a task are so many open files at most, and all together take only this part of
/// those that the process may have. Beyond it they are opened for each round.
const FILES_OF_ONE: u64 = 10;
const FILES_PART: u64 = 4;
/// How many starts and ends may wait for the thread.
const QUEUE: usize = 65_536;

/// A handle on the thread; it ends when the last one is dropped.
#[derive(Clone, Debug)]
pub(crate) struct UsageSampler {
    shared: Arc<UsageState>,
    to_thread: SyncSender<TaskEvent>,
}

#[derive(Debug)]
struct UsageState {
    samples: Mutex<Samples>,
    spool: Mutex<Spool>,
}

/// The samples of the last round.
#[derive(Debug, Default)]
struct Samples {
    at: Time,
    all: Vec<UsageSample>,
}

/// What happened to a task, and when by the monotonic clock.
#[derive(Clone, Copy, Debug)]
enum TaskEvent {
    Started(InstanceId, Time),
    Ended(InstanceId, Time, FinalUsage),
}

impl UsageSampler {
    /// Starts the thread. `running` are the tasks that an earlier process started.
    pub(crate) fn start(
        files: Files,
        clock: Clock,
        running: Vec<(InstanceId, Time)>,
        to_driver: mpsc::Sender<Message>,
    ) -> anyhow::Result<Self> {
        let spool = Spool::open(&files.directory, wall_clock())?;
        let shared = Arc::new(UsageState { samples: Mutex::default(), spool: Mutex::new(spool) });
        let (to_thread, events) = sync_channel(QUEUE);
        let mut thread = SamplerThread::new(files, clock, Arc::clone(&shared), to_driver);
        for (instance, since) in running {
            thread.take_in(TaskEvent::Started(instance, since));
        }
        std::thread::Builder::new()
            .name("usage".to_owned())
            .spawn(move || thread.run(&events))
            .context("cannot start the thread that measures usage")?;
        Ok(Self { shared, to_thread })
    }

    /// A task runs. If the queue is full, the task is not measured.
    pub(crate) fn started(&self, instance: InstanceId, now: Time) {
        let _full = self.to_thread.try_send(TaskEvent::Started(instance, now));
    }

    /// A task has ended.
    pub(crate) fn ended(&self, instance: InstanceId, now: Time, usage: FinalUsage) {
        let _full = self.to_thread.try_send(TaskEvent::Ended(instance, now, usage));
    }

    /// What a master does not have yet.
    pub(crate) async fn news(&self, samples_after: Time, windows_after: u64) -> Usage {
        let samples = {
            let samples = lock(&self.shared.samples);
            match samples.at == samples_after {
                true => Vec::new(),
                false => samples.all.clone(),
            }
        };
        let mut usage = Usage { samples, windows: Vec::new(), cursor: windows_after };
        if lock(&self.shared.spool).newest() > windows_after {
            let shared = Arc::clone(&self.shared);
            let read = tokio::task::spawn_blocking(move || {
                lock(&shared.spool).recent(windows_after, wall_clock())
            });
            match read.await.map_err(anyhow::Error::from).and_then(|read| read) {
                Ok((windows, cursor)) => (usage.windows, usage.cursor) = (windows, cursor),
                Err(error) => tracing::warn!("cannot read the kept usage: {error:#}"),
            }
        }
        usage
    }

    /// Closed windows for a reader that stores them.
    pub(crate) async fn read(
        &self,
        asked: v1::ReadUsageRequest,
    ) -> anyhow::Result<v1::ReadUsageResponse> {
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || {
            let mut spool = lock(&shared.spool);
            spool.acknowledge(asked.acknowledged)?;
            spool.read(asked.after, asked.at_most)
        })
        .await?
    }
}

/// What is behind the locks is valid whenever it is unlocked, even by a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A task that is measured.
struct Tracked {
    started: Time,
    alloc: Option<InstanceId>,
    reader: Option<TaskReader>,
}

struct SamplerThread {
    files: Files,
    clock: Clock,
    shared: Arc<UsageState>,
    to_driver: mpsc::Sender<Message>,
    hierarchy: Option<Hierarchy>,
    recorder: Recorder,
    tasks: BTreeMap<InstanceId, Tracked>,
    machine: MachineReader,
    disk: DiskScan,
    synced: Instant,
    /// The counters of at most so many tasks stay open.
    open_max: usize,
    /// Whether the machine has hardware counters.
    has_hardware: bool,
}

impl SamplerThread {
    fn new(
        files: Files,
        clock: Clock,
        shared: Arc<UsageState>,
        to_driver: mpsc::Sender<Message>,
    ) -> Self {
        let hierarchy = (files.isolation == Isolation::Jail).then(|| Hierarchy::detect().ok());
        let hierarchy = hierarchy.flatten();
        Self {
            has_hardware: hierarchy.as_ref().is_some_and(linux::usage::has_hardware_counters),
            hierarchy,
            machine: MachineReader::open(&files.directory),
            recorder: Recorder::new(wall_clock().0),
            tasks: BTreeMap::new(),
            disk: DiskScan::default(),
            synced: Instant::now(),
            open_max: open_max(FILES_OF_ONE),
            files,
            clock,
            shared,
            to_driver,
        }
    }

    /// Rounds at their interval, until the last handle is dropped. After a delay the next round is
    /// late, and none is made up for.
    fn run(mut self, events: &Receiver<TaskEvent>) {
        let mut next = Instant::now();
        loop {
            let patience = next.saturating_duration_since(Instant::now());
            match events.recv_timeout(patience) {
                Ok(event) => self.take_in(event),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    self.round();
                    next = (next + INTERVAL).max(Instant::now() + INTERVAL / 2);
                }
            }
        }
    }

    fn take_in(&mut self, event: TaskEvent) {
        match event {
            TaskEvent::Started(instance, started) => {
                let tracked = Tracked { started, alloc: None, reader: None };
                self.tasks.entry(instance).or_insert(tracked);
            }
            TaskEvent::Ended(instance, now, usage) => {
                let Some(tracked) = self.tasks.remove(&instance) else { return };
                self.disk.forget(instance);
                let times = (wall_clock(), now);
                let lived = now.since(tracked.started);
                let closed = self.recorder.ended(instance, times, lived, &usage);
                self.keep(&closed.into_iter().collect::<Vec<_>>());
            }
        }
    }

    fn round(&mut self) {
        let keeps_open = self.tasks.len() <= self.open_max;
        let hardware_max = open_max(FILES_OF_ONE + linux::usage::files_of_counters());
        let opens_hardware = self.has_hardware && self.tasks.len() <= hardware_max;
        let mut tasks = BTreeMap::new();
        for (instance, tracked) in &mut self.tasks {
            if tracked.reader.is_none() {
                open(&self.files, *instance, tracked, self.hierarchy.as_ref());
                if let Some(reader) = tracked.reader.as_mut().filter(|_| opens_hardware) {
                    reader.open_hardware();
                }
            }
            let read = tracked.reader.as_mut().map(TaskReader::read);
            if !keeps_open || read.as_ref().is_some_and(Result::is_err) {
                // If it has ended, its end is about to be told. If not, it is opened again.
                tracked.reader = None;
            }
            let Some(Ok(usage)) = read else { continue };
            let reading = readings::of_task(&usage, self.disk.of(*instance));
            let Tracked { alloc, started, .. } = *tracked;
            tasks.insert(*instance, TaskReading { alloc, started, reading });
        }
        let machine = readings::of_machine(&self.machine.read());
        let (wall, now) = (wall_clock(), self.clock.now());
        let closed = self.recorder.record(&Round { wall, now, tasks, machine });
        *lock(&self.shared.samples) = Samples { at: wall, all: self.recorder.samples().to_vec() };
        self.tell_cpu();
        self.keep(&closed);
        let tasks = self.tasks.iter().map(|(instance, tracked)| (*instance, tracked.alloc));
        for (instance, bytes) in self.disk.advance(&self.files, tasks) {
            let counted = Message::Input(Input::DiskCounted(instance, bytes));
            let _gone = self.to_driver.blocking_send(counted);
        }
        if self.synced.elapsed() >= SYNC {
            self.synced = Instant::now();
            if let Err(error) = lock(&self.shared.spool).settle(wall) {
                tracing::warn!("cannot keep the usage of tasks: {error:#}");
            }
        }
    }

    /// Tells the Borglet what was used of the CPUs. Without cgroups it can do nothing about it.
    fn tell_cpu(&self) {
        if self.hierarchy.is_none() {
            return;
        }
        let mut round = CpuRound::default();
        for UsageSample { subject, measured, .. } in self.recorder.samples() {
            match (subject, measured.cpu) {
                (UsageSubject::Instance(instance), Some(used)) => {
                    let (instance, waited) = (*instance, measured.cpu_pressure);
                    round.tasks.push(CpuReading { instance, used, waited });
                }
                (UsageSubject::Machine, used) => round.machine = used,
                _ => {}
            }
        }
        // If it is busy, the next round will do.
        let _full = self.to_driver.try_send(Message::Input(Input::Cpu(round)));
    }

    fn keep(&self, closed: &[UsageWindow]) {
        if closed.is_empty() {
            return;
        }
        if let Err(error) = lock(&self.shared.spool).append(closed, wall_clock()) {
            tracing::warn!("{} windows of usage are lost: {error:#}", closed.len());
        }
    }
}

/// Of how many tasks the counters can stay open, if those of one are so many files.
fn open_max(files_of_one: u64) -> usize {
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(1_024, |(soft, _)| soft);
    usize::try_from(files / FILES_PART / files_of_one).unwrap_or(usize::MAX)
}

/// Opens the counters of a task, unless it is gone.
fn open(files: &Files, instance: InstanceId, tracked: &mut Tracked, hierarchy: Option<&Hierarchy>) {
    let open = || {
        let task = files.task(instance)?;
        let alloc = files.alloc_of(&task)?;
        anyhow::Ok((alloc, TaskReader::open(&task, hierarchy)?))
    };
    match open() {
        Ok((alloc, reader)) => (tracked.alloc, tracked.reader) = (alloc, reader),
        Err(error) => tracing::debug!("cannot measure {instance}: {error:#}"),
    }
}
