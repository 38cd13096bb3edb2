//! Event storage: a thread of its own appends the events of operations to the files of
//! `store::events`, and syncs them before a checkpoint counts. The core never waits for it: events
//! wait in a bounded queue, and those that do not fit are recorded as lost.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use cell::{Applied, Cell};
use model::{LogIndex, RestoreEpoch, Time};
use prost::encoding::{decode_varint, encode_varint};
use store::Retention;
use store::events::{Event, Events, Options, Source};
use tokio::sync::{mpsc as async_mpsc, watch};

use crate::message::Message;
use crate::metrics::Metrics;
use crate::peers;
use crate::peers::events::OfPeer;
use crate::threads::Component;

/// The maximum number of steps whose events wait for the thread.
pub(crate) const QUEUE: usize = 256;
/// The maximum bytes of waiting events; exceeded by at most one step's.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// The time before a retry on a full disk.
const FULL_DISK_WAIT: Duration = Duration::from_secs(1);

/// The events of an operation, each preceded by its length, as they are queued and stored.
pub(crate) fn encode(cell: &Cell, applied: &Applied) -> Vec<u8> {
    let mut all = Vec::new();
    if applied.events.is_empty() {
        return all;
    }
    let mut one = Vec::with_capacity(256);
    formats::event::encode_all(cell, applied, &mut one, |_, event| {
        encode_varint(event.len() as u64, &mut all);
        all.extend_from_slice(event);
    });
    all
}

/// The number of encoded events of an operation.
fn count(mut encoded: &[u8]) -> u64 {
    let mut events = 0;
    while let Ok(length) = decode_varint(&mut encoded)
        && let Some((_, others)) =
            usize::try_from(length).ok().and_then(|length| encoded.split_at_checked(length))
    {
        (events, encoded) = (events + 1, others);
    }
    events
}

/// Work for the thread.
enum Work {
    Append {
        index: LogIndex,
        at: Time,
        events: Vec<u8>,
    },
    /// All events from this operation on follow. Missing events before it are taken over from other
    /// replicas of this restoration; what none of them has is lost.
    Resume(LogIndex, RestoreEpoch),
    /// Make all events up to this operation durable, then answer.
    Sync(LogIndex, mpsc::Sender<()>),
}

/// The core's side.
pub(crate) struct Recorder {
    /// Events up to this operation were stored before the start: replay generates them again,
    /// faster than they could be compared.
    there: LogIndex,
    /// The restoration that the history continues from.
    epoch: RestoreEpoch,
    to_thread: SyncSender<Vec<Work>>,
    waiting: Vec<Work>,
    bytes: usize,
    /// The bytes that the thread has not processed yet.
    handed_over: Arc<AtomicUsize>,
    metrics: Arc<Metrics>,
}

impl Recorder {
    /// Queues the events of an operation. [`Recorder::flush`] sends them to the thread.
    pub(crate) fn record(&mut self, index: LogIndex, at: Time, events: Vec<u8>) {
        if events.is_empty() || index <= self.there {
            return;
        }
        if self.bytes + self.handed_over.load(Ordering::Relaxed) > WAITING_BYTES_MAX {
            tracing::error!("events before operation {index} were lost: the disk is too slow");
            for work in &self.waiting {
                if let Work::Append { events, .. } = work {
                    self.metrics.events.lost.inc_by(count(events));
                    self.metrics.events.waiting_bytes.dec_by(events.len() as u64);
                }
            }
            self.waiting.retain(|work| matches!(work, Work::Sync(..)));
            // At the front: a later sync then covers the statement that they are lost.
            self.waiting.insert(0, Work::Resume(index, self.epoch));
            self.bytes = 0;
        }
        self.bytes += events.len();
        self.metrics.events.recorded.set(at.0);
        self.metrics.events.waiting_bytes.inc_by(events.len() as u64);
        self.waiting.push(Work::Append { index, at, events });
    }

    /// All events from an operation on follow; missing events before it are not available here.
    pub(crate) fn resume(&mut self, index: LogIndex, epoch: RestoreEpoch) {
        self.epoch = epoch;
        self.waiting.push(Work::Resume(index, epoch));
    }

    /// Asks that all events up to an operation become durable; the receiver tells when they are.
    pub(crate) fn sync(&mut self, through: LogIndex) -> Receiver<()> {
        let (answer, answered) = mpsc::channel();
        self.waiting.push(Work::Sync(through, answer));
        answered
    }

    /// Sends the waiting work, as far as the thread's queue has room.
    pub(crate) fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        self.handed_over.fetch_add(self.bytes, Ordering::Relaxed);
        self.metrics.events.queue.inc();
        match self.to_thread.try_send(std::mem::take(&mut self.waiting)) {
            // A thread that has ended has logged why.
            Ok(()) | Err(TrySendError::Disconnected(_)) => self.bytes = 0,
            Err(TrySendError::Full(waiting)) => {
                self.handed_over.fetch_sub(self.bytes, Ordering::Relaxed);
                self.metrics.events.queue.dec();
                self.waiting = waiting;
            }
        }
    }
}

/// The thread, and a way to learn what it has stored.
pub(crate) struct Keeper {
    thread: JoinHandle<()>,
    stopping: Arc<AtomicBool>,
    kept: watch::Receiver<u64>,
}

impl Keeper {
    /// A counter that increases whenever there is more to read.
    pub(crate) fn kept(&self) -> watch::Receiver<u64> {
        self.kept.clone()
    }

    /// Waits until everything sent is stored, after the core has ended.
    pub(crate) fn join(self) -> anyhow::Result<()> {
        self.stopping.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the thread that keeps events panicked"))
    }
}

/// Where a history goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HistoryStart {
    /// The next operation.
    pub(crate) next: LogIndex,
    /// The restoration that the history continues from.
    pub(crate) epoch: RestoreEpoch,
}

/// Opens the files of a directory and starts the thread.
pub(crate) fn start(
    directory: &Path,
    begin: HistoryStart,
    peers: peers::Handle,
    retention: Retention,
    to_core: async_mpsc::Sender<Message>,
    metrics: Arc<Metrics>,
) -> anyhow::Result<(Recorder, Keeper)> {
    let HistoryStart { next, epoch } = begin;
    let options = Options::of_at_most(retention.bytes);
    let (events, opened) = Events::open(directory, options)?;
    for damage in &opened.damage {
        tracing::error!("events are lost: {damage}");
    }
    let there = LogIndex(events.complete_up_to().max(next.0.saturating_sub(1)));
    let (to_thread, from_core) = sync_channel(QUEUE);
    let first = vec![Work::Resume(next, epoch)];
    metrics.events.queue.inc();
    to_thread.try_send(first).context("the queue of events is new")?;
    let (tell, kept) = watch::channel(0);
    let stopping = Arc::new(AtomicBool::new(false));
    let handed_over = Arc::new(AtomicUsize::new(0));
    let thread = Thread {
        events,
        peers,
        retention,
        tell,
        stopping: Arc::clone(&stopping),
        handed_over: Arc::clone(&handed_over),
        newest: Time(0),
        metrics: Arc::clone(&metrics),
    };
    let alive = metrics.threads.alive(Component::Events);
    let run = move || {
        let _alive = alive;
        if let Err(error) = thread.run(&from_core) {
            let _gone = to_core.blocking_send(Message::Fail(error));
        }
    };
    let thread = std::thread::Builder::new().name("events".to_owned()).spawn(run)?;
    let waiting = Vec::new();
    let recorder = Recorder { there, epoch, to_thread, waiting, bytes: 0, handed_over, metrics };
    Ok((recorder, Keeper { thread, stopping, kept }))
}

struct Thread {
    events: Events,
    peers: peers::Handle,
    retention: Retention,
    tell: watch::Sender<u64>,
    stopping: Arc<AtomicBool>,
    handed_over: Arc<AtomicUsize>,
    newest: Time,
    metrics: Arc<Metrics>,
}

impl Thread {
    fn run(mut self, from_core: &Receiver<Vec<Work>>) -> anyhow::Result<()> {
        while let Ok(works) = from_core.recv() {
            self.metrics.events.queue.dec();
            for work in works {
                match work {
                    Work::Append { index, at, events } => {
                        if self.append(index, at, &events)?.is_none() {
                            return Ok(());
                        }
                        self.handed_over.fetch_sub(events.len(), Ordering::Relaxed);
                        self.metrics.events.kept.set(at.0);
                        self.metrics.events.waiting_bytes.dec_by(events.len() as u64);
                    }
                    Work::Resume(index, epoch) => {
                        if !self.resume(index, epoch)? {
                            return Ok(());
                        }
                    }
                    // If the sync fails, dropping the channel tells the receiver.
                    Work::Sync(through, answer) => {
                        if self.patiently(|events| events.sync(through.0))?.is_none() {
                            return Ok(());
                        }
                        let _gone = answer.send(());
                        if let Err(error) = self.events.retain(&self.retention, self.newest.0) {
                            tracing::error!("old events could not be deleted: {error}");
                        }
                    }
                }
            }
            self.tell.send_modify(|kept| *kept += 1);
        }
        Ok(())
    }

    /// Takes the events before an operation that are missing here over from other replicas. Returns
    /// whether that ended before the process does.
    fn resume(&mut self, index: LogIndex, epoch: RestoreEpoch) -> anyhow::Result<bool> {
        let (peers, stopping) = (self.peers.clone(), Arc::clone(&self.stopping));
        let before = self.events.last();
        let resumed = self.patiently(|events| {
            let others = peers.others().into_iter();
            let mut others: Vec<_> = others
                .map(|replica| OfPeer { peers: &peers, replica, epoch, stopping: &stopping })
                .collect();
            let mut sources: Vec<&mut dyn Source> =
                others.iter_mut().map(|other| -> &mut dyn Source { other }).collect();
            events.resume_from(index.0, &mut sources, &|| stopping.load(Ordering::Relaxed))
        })?;
        let Some(lost) = resumed.flatten() else { return Ok(false) };
        if lost {
            tracing::warn!("some events before operation {index} are missing");
        }
        if self.events.last() > before {
            tracing::info!("took missing events before operation {index} over from other replicas");
        }
        Ok(true)
    }

    fn append(
        &mut self,
        index: LogIndex,
        at: Time,
        encoded: &[u8],
    ) -> anyhow::Result<Option<usize>> {
        let mut rest = encoded;
        let mut batch = Vec::new();
        for sub in 0.. {
            if rest.is_empty() {
                break;
            }
            let length = usize::try_from(decode_varint(&mut rest)?)?;
            let (payload, others) =
                rest.split_at_checked(length).context("an event is shorter than it says")?;
            batch.push(Event { index: index.0, sub, time_us: at.0, payload });
            rest = others;
        }
        self.newest = at;
        let appended = self.patiently(|events| events.append(&batch))?;
        self.metrics.events.written.inc_by(appended.unwrap_or(0) as u64);
        Ok(appended)
    }

    /// Retries until there is room on the disk. Gives up when the process ends, with everything
    /// queued after it: the next start generates the events again from the log.
    fn patiently<T>(
        &mut self,
        mut what: impl FnMut(&mut Events) -> store::Result<T>,
    ) -> anyhow::Result<Option<T>> {
        loop {
            match what(&mut self.events) {
                Ok(done) => return Ok(Some(done)),
                Err(store::Error::NoRoom { .. }) if self.stopping.load(Ordering::Relaxed) => {
                    return Ok(None);
                }
                Err(store::Error::NoRoom { .. }) => std::thread::sleep(FULL_DISK_WAIT),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::ReplicaId;
    use rpc::{Authority, Identity, Rotating, Validity};

    use super::*;

    /// An event of so many bytes, encoded for the queue.
    fn one_of(bytes: usize) -> Vec<u8> {
        let mut encoded = Vec::new();
        encode_varint(bytes as u64, &mut encoded);
        encoded.resize(encoded.len() + bytes, 0);
        encoded
    }

    /// A step of a replay that exceeds the limit.
    #[test]
    fn stored_events_from_before_a_start_are_available_and_not_lost() {
        let directory = tempfile::tempdir().expect("a directory");
        let retention = Retention::new(1 << 30, Duration::from_secs(1));
        let (to_core, _core) = async_mpsc::channel(1);
        let authority = Authority::create(directory.path(), "lab");
        let authority = authority.expect("an authority");
        let issued = authority.issue(&Identity::Master, Validity::lasting(FULL_DISK_WAIT * 60));
        let credentials = Rotating::new(issued.expect("a certificate")).expect("credentials");
        let alone = BTreeMap::new();
        let peers = peers::start(&credentials, ReplicaId(1), "", alone, to_core.clone());
        let peers = peers.expect("the threads start");
        let begin = |metrics: &Arc<Metrics>| {
            let (path, to_core) = (directory.path(), to_core.clone());
            let begin = HistoryStart { next: LogIndex(1), epoch: RestoreEpoch::NEVER };
            start(path, begin, peers.handle(), retention, to_core, Arc::clone(metrics))
                .expect("it opens")
        };
        let end = |recorder, keeper: Keeper| {
            drop(recorder);
            keeper.join().expect("it ends well");
        };
        let (bytes, first) = (store::events::MAX_EVENT_BYTES, Arc::<Metrics>::default());
        let (mut recorder, keeper) = begin(&first);
        let most = (WAITING_BYTES_MAX / bytes) as u64 + 1;
        for index in 1..=most {
            let synced = recorder.sync(LogIndex(index - 1));
            recorder.record(LogIndex(index), Time(index), one_of(bytes));
            recorder.flush();
            synced.recv().expect("it keeps up");
        }
        end(recorder, keeper);
        let written = |metrics: &Arc<Metrics>| metrics.events.written.get();
        assert_eq!((written(&first), first.events.lost.get()), (most, 0));

        let second = Arc::<Metrics>::default();
        let (mut recorder, keeper) = begin(&second);
        for index in 1..=most + 1 {
            recorder.record(LogIndex(index), Time(index), one_of(bytes));
        }
        assert_eq!(second.events.lost.get(), 0);
        recorder.flush();
        end(recorder, keeper);
        // The last stored operation's events may be incomplete.
        assert_eq!((written(&second), second.events.lost.get()), (1, 0));
    }

    /// Lost events are recorded before anything later counts as durable.
    #[test]
    fn events_that_do_not_fit_are_recorded_as_lost_before_the_sync() {
        // A thread that receives nothing.
        let (to_thread, _from_core) = sync_channel(0);
        let handed_over = Arc::new(AtomicUsize::new(0));
        let metrics = Arc::<Metrics>::default();
        let counted = Arc::clone(&metrics);
        let (there, waiting) = (LogIndex(0), Vec::new());
        let epoch = RestoreEpoch::NEVER;
        let mut recorder =
            Recorder { there, epoch, to_thread, waiting, bytes: 0, handed_over, metrics };
        // One event each.
        let large = one_of(WAITING_BYTES_MAX / 2);
        for index in 1..=2 {
            recorder.record(LogIndex(index), Time(index), large.clone());
            recorder.flush();
        }
        let _answer = recorder.sync(LogIndex(2));
        recorder.record(LogIndex(3), Time(3), vec![0]);
        let kept: Vec<String> = recorder
            .waiting
            .iter()
            .map(|work| match work {
                Work::Append { index, .. } => format!("append {index}"),
                Work::Resume(index, _) => format!("resume {index}"),
                Work::Sync(index, _) => format!("sync {index}"),
            })
            .collect();
        assert_eq!(kept, ["resume 3", "sync 2", "append 3"]);
        assert_eq!(recorder.bytes, 1);
        let (lost, waits) = (counted.events.lost.get(), counted.events.waiting_bytes.get());
        assert_eq!((lost, waits), (2, 1));
    }
}
