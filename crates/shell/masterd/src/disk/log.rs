//! The log's thread. It takes everything that waits, appends it with one write and makes it durable
//! with one fsync: the slower the disk, the larger the batches.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use model::LogIndex;
use replica::{HardState, Input, Persist};
use store::LogBegins;
use store::log::{Log, RecordKind, RecordRef};
use tokio::sync::mpsc;

use crate::message::Message;
use crate::metrics::{LogMetrics, Metrics};
use crate::recover;
use crate::threads::Component;

/// A task for the log's thread.
pub(crate) enum LogTask {
    /// Make records durable.
    Persist(Persist),
    /// Append this when nothing else waits, without a sync: it confirms the records written before
    /// it, and how many of them are committed.
    Note(HardState),
    /// Delete segments whose records a checkpoint covers entirely.
    Truncate(LogIndex),
}

/// Sends records to the log's thread, and tells the state of the disk.
#[derive(Clone, Debug)]
pub(crate) struct ToLog {
    tasks: SyncSender<LogTask>,
    trouble: Arc<Trouble>,
    metrics: Arc<Metrics>,
}

/// The problem of the disk, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    there: AtomicBool,
    text: Mutex<String>,
}

/// The maximum number of tasks that wait for the thread.
pub(crate) const QUEUE: usize = 65_536;
/// The bytes that are made durable together; exceeded by at most one record.
const BYTES_AT_ONCE: usize = 64 << 20;
/// The time before a retry on a full disk.
const RETRY: Duration = Duration::from_millis(100);

impl ToLog {
    /// Sends a task. Does not block: the log's thread may wait for the sender.
    ///
    /// # Errors
    /// If so much waits already that the process should restart from what is durable.
    pub(crate) fn send(&self, task: LogTask) -> anyhow::Result<()> {
        match self.tasks.try_send(task) {
            Ok(()) => {
                self.metrics.log.queue.inc();
                Ok(())
            }
            Err(TrySendError::Full(_)) => {
                let why = self.trouble().unwrap_or_else(|| "the disk is too slow".to_owned());
                anyhow::bail!("{QUEUE} writes of the log wait: {why}")
            }
            // The thread outlives all senders.
            Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }

    /// Why nothing can be made durable now, if so.
    pub(crate) fn trouble(&self) -> Option<String> {
        let there = self.trouble.there.load(Ordering::Acquire);
        there.then(|| self.trouble.text.lock().map(|text| text.clone()).unwrap_or_default())
    }
}

#[cfg(test)]
impl ToLog {
    /// A sender without a log.
    pub(crate) fn idle() -> Self {
        Self { tasks: sync_channel(0).0, trouble: Arc::default(), metrics: Arc::default() }
    }
}

impl Trouble {
    fn set(&self, text: Option<String>) {
        let there = text.is_some();
        if let (Some(text), Ok(mut kept)) = (text, self.text.lock()) {
            *kept = text;
        }
        self.there.store(there, Ordering::Release);
    }
}

/// Starts the thread. `begins` is given if the log has no record yet; the first record is then
/// noted there.
pub(crate) fn start(
    mut log: Log,
    mut begins: Option<LogBegins>,
    to_core: mpsc::Sender<Message>,
    metrics: Arc<Metrics>,
) -> anyhow::Result<(ToLog, JoinHandle<()>)> {
    let (tasks, waiting) = sync_channel(QUEUE);
    let trouble = Arc::new(Trouble::default());
    let to_log = ToLog { tasks, trouble: Arc::clone(&trouble), metrics: Arc::clone(&metrics) };
    let alive = metrics.threads.alive(Component::Log);
    let write = move || {
        let _alive = alive;
        if log.last_index().is_some() {
            note_begun(&mut begins);
        }
        let metrics = &metrics.log;
        if let Err(error) = write(&mut log, begins, &waiting, &trouble, &to_core, metrics) {
            trouble.set(Some(error.to_string()));
            let _gone = to_core.blocking_send(Message::Fail(error));
        }
    };
    let thread = std::thread::Builder::new().name("log".to_owned()).spawn(write);
    Ok((to_log, thread.context("cannot start the thread that writes the log")?))
}

fn write(
    log: &mut Log,
    mut begins: Option<LogBegins>,
    waiting: &Receiver<LogTask>,
    trouble: &Trouble,
    to_core: &mpsc::Sender<Message>,
    metrics: &LogMetrics,
) -> anyhow::Result<()> {
    measure(log, metrics);
    let mut waiting = WaitingTasks { queue: waiting, taken: VecDeque::new() };
    while let Some(first) = waiting.next() {
        let (mut persists, mut bytes, mut task) = (Vec::new(), 0, Some(first));
        let mut noted = None;
        while let Some(this) = task {
            metrics.queue.dec();
            match this {
                LogTask::Persist(persist) => {
                    bytes += persist.entries.iter().map(|entry| entry.data.len()).sum::<usize>();
                    persists.push(persist);
                    // The task may have a newer promise.
                    noted = None;
                }
                LogTask::Note(state) => noted = Some(state),
                LogTask::Truncate(index) => truncate(log, index),
            }
            task = if bytes < BYTES_AT_ONCE { waiting.next_that_is_there() } else { None };
        }
        let Some(last) = persists.last().map(|persist| persist.number) else {
            note(log, noted)?;
            continue;
        };
        append(log, &persists, &mut waiting, trouble, to_core)?;
        let appended = Instant::now();
        log.sync()?;
        metrics.fsync.add(appended.elapsed());
        note_begun(&mut begins);
        metrics.records.inc_by(persists.iter().map(|persist| persist.entries.len() as u64).sum());
        metrics.written_bytes.inc_by(bytes as u64);
        measure(log, metrics);
        if to_core.blocking_send(Message::Input(Input::Persisted(last))).is_err() {
            break;
        }
        note(log, noted)?;
    }
    // After an orderly end, the last note is durable.
    Ok(log.sync()?)
}

/// Notes that the log has a record. If that fails, as on a full disk, the next start does it.
fn note_begun(begins: &mut Option<LogBegins>) {
    if let Some(Err(error)) = begins.take().map(LogBegins::note) {
        tracing::warn!("cannot note that the log has begun: {error}");
    }
}

/// Appends a note; on a full disk it is omitted.
fn note(log: &mut Log, noted: Option<HardState>) -> anyhow::Result<()> {
    let Some(state) = noted else { return Ok(()) };
    let (kind, term, payload) = (RecordKind::HardState, state.term.0, &state.to_bytes());
    match log.append(&[RecordRef { kind, term, index: 0, level: 0, payload }]) {
        Err(error) if !error.is_no_room() => Err(error.into()),
        _ => Ok(()),
    }
}

/// The tasks that wait for the thread.
struct WaitingTasks<'a> {
    queue: &'a Receiver<LogTask>,
    /// Tasks that were taken from the queue while there was no room for an earlier one.
    taken: VecDeque<LogTask>,
}

impl WaitingTasks<'_> {
    /// The next task; blocks until there is one; `None` when all senders are gone.
    fn next(&mut self) -> Option<LogTask> {
        self.taken.pop_front().or_else(|| self.queue.recv().ok())
    }

    fn next_that_is_there(&mut self) -> Option<LogTask> {
        self.taken.pop_front().or_else(|| self.queue.try_recv().ok())
    }

    /// Deletes segments that a checkpoint covers by now, out of turn: this may free the room for
    /// the tasks before it.
    fn make_room(&mut self, log: &mut Log) {
        let most = QUEUE.saturating_sub(self.taken.len());
        self.taken.extend(self.queue.try_iter().take(most));
        for task in &self.taken {
            if let LogTask::Truncate(index) = task {
                truncate(log, *index);
            }
        }
    }
}

/// Deletes the segments before a record. If it fails, the next checkpoint deletes them.
fn truncate(log: &mut Log, index: LogIndex) {
    if let Err(error) = log.truncate_prefix(index.0) {
        tracing::error!("cannot delete old segments of the log: {error}");
    }
}

/// Measures the log's size.
fn measure(log: &Log, metrics: &LogMetrics) {
    metrics.bytes.set(log.segments().map(|segment| u64::from(segment.end)).sum());
    metrics.segments.set(log.segments().count() as u64);
}

/// Appends, and waits for room if the disk is full. Requests are rejected meanwhile, and the
/// replica asks to hand over its leadership.
fn append(
    log: &mut Log,
    persists: &[Persist],
    waiting: &mut WaitingTasks<'_>,
    trouble: &Trouble,
    to_core: &mpsc::Sender<Message>,
) -> anyhow::Result<()> {
    let states: Vec<_> = persists.iter().map(|persist| persist.hard_state).collect();
    let bytes: Vec<_> = states.iter().map(|state| state.map(HardState::to_bytes)).collect();
    let mut records = Vec::new();
    for ((persist, state), bytes) in persists.iter().zip(&states).zip(&bytes) {
        if let Some((index, term)) = persist.restart {
            let (kind, term, index) = (RecordKind::Restart, term.0, index.0);
            records.push(RecordRef { kind, term, index, level: 0, payload: &[] });
        }
        if let (Some(state), Some(bytes)) = (state, bytes) {
            let (kind, term) = (RecordKind::HardState, state.term.0);
            records.push(RecordRef { kind, term, index: 0, level: 0, payload: bytes });
        }
        records.extend(persist.entries.iter().map(recover::record));
    }
    let mut rest = records.as_slice();
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |record: &&RecordRef<'_>| {
            let before = bytes;
            bytes += record.payload.len();
            before < BYTES_AT_ONCE
        };
        let (now, later) = rest.split_at(rest.iter().take_while(fits).count());
        match log.append(now) {
            Ok(()) => {
                trouble.set(None);
                rest = later;
            }
            // Nobody waits for the result any more.
            Err(error) if error.is_no_room() && to_core.is_closed() => return Err(error.into()),
            Err(error) if error.is_no_room() => {
                let known = trouble.there.load(Ordering::Acquire);
                trouble.set(Some(error.to_string()));
                if known {
                    tracing::debug!("still no room: {error}");
                } else {
                    tracing::error!("{error}: nothing can be changed until there is room");
                    let _gone = to_core.blocking_send(Message::Input(Input::Transfer(None)));
                }
                std::thread::sleep(RETRY);
                waiting.make_room(log);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
