//! Checkpoints while serving: a thread of its own writes a view of the cell, then thins and
//! truncates the kept history by size and age, and checks the cell's invariants. The core never
//! waits for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use anyhow::Context;
use cell::Cell;
use checkpoint::Origin;
use model::LogIndex;
use process::clock::wall_clock;
use replica::Input;
use store::Retention;
use store::history::History;
use tokio::sync::mpsc;

use crate::disk::events::Recorder;
use crate::message::{Message, Written};
use crate::metrics::Metrics;

/// The number of records after which a new checkpoint is written.
const EVERY: u64 = 100_000;
/// The same in bytes of records: consensus keeps them in memory back to the older of the newest two
/// checkpoints, at most twice as many.
const EVERY_BYTES: u64 = 64 << 20;

/// When and where to write checkpoints.
pub(crate) struct Checkpoints {
    directory: PathBuf,
    log: PathBuf,
    retention: Retention,
    to_core: mpsc::Sender<Message>,
    metrics: Arc<Metrics>,
    last: LogIndex,
    /// The bytes of the records since then.
    bytes: u64,
    writing: bool,
}

impl Checkpoints {
    pub(crate) fn new(
        directory: PathBuf,
        log: PathBuf,
        retention: Retention,
        to_core: mpsc::Sender<Message>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (last, bytes, writing) = (LogIndex(0), 0, false);
        let newest = store::checkpoint::list(&directory).unwrap_or_default();
        metrics.checkpoints.newest.set(newest.first().map_or(0, |newest| newest.time_us));
        Self { directory, log, retention, to_core, metrics, last, bytes, writing }
    }

    /// The cell was read from a checkpoint at this index.
    pub(crate) fn began_at(&mut self, index: LogIndex) {
        self.last = index;
    }

    /// A record was committed.
    pub(crate) fn committed(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// Starts writing a checkpoint if one is due.
    pub(crate) fn consider(&mut self, cell: &Cell, origin: Origin, recorder: &mut Recorder) {
        let due = cell.index().0 >= self.last.0 + EVERY || self.bytes >= EVERY_BYTES;
        if self.writing || !due {
            return;
        }
        self.writing = true;
        let before = std::mem::replace(&mut self.last, cell.index());
        self.bytes = 0;
        let (cell, to_core, retention) = (cell.clone(), self.to_core.clone(), self.retention);
        let (directory, log) = (self.directory.clone(), self.log.clone());
        let events = recorder.sync(cell.index());
        let write = move || {
            let written = write(&directory, &cell, origin, &events).map(|()| {
                thin(&directory, &log, &retention).unwrap_or_else(|error| {
                    tracing::error!("cannot thin the kept history: {error:#}");
                    Written { needed_from: before, log_from: LogIndex(0) }
                })
            });
            let _gone = to_core.blocking_send(Message::Checkpointed(written));
            check(&cell, &to_core);
        };
        if let Err(error) = std::thread::Builder::new().name("checkpoint".to_owned()).spawn(write) {
            self.failed(&error.into());
        }
    }

    /// A checkpoint was written; returns the index up to which the log is no longer needed in
    /// memory.
    pub(crate) fn written(&mut self, needed_from: LogIndex) -> Input {
        self.writing = false;
        self.metrics.checkpoints.written.inc();
        self.metrics.checkpoints.newest.set(wall_clock().0);
        Input::Checkpointed(needed_from)
    }

    pub(crate) fn failed(&mut self, error: &anyhow::Error) {
        self.writing = false;
        self.metrics.checkpoints.failed.inc();
        tracing::error!("cannot write a checkpoint: {error:#}; will retry later");
    }
}

/// Writes a checkpoint once the events up to it are durable: a start from it would not generate
/// them again.
fn write(
    directory: &Path,
    cell: &Cell,
    origin: Origin,
    events: &Receiver<()>,
) -> anyhow::Result<()> {
    events.recv().context("the thread that keeps events has ended")?;
    checkpoint::write_in(directory, &cell.image(), origin)
}

/// Removes history that is no longer kept.
fn thin(directory: &Path, log: &Path, retention: &Retention) -> anyhow::Result<Written> {
    let history = History::open(log, directory)?;
    let (checkpoints, segments) = (history.checkpoints(), history.segments());
    let needed_from = checkpoints.iter().take(2).next_back().map_or(0, |older| older.index);
    let plan = store::retention::plan(
        retention,
        checkpoints,
        segments,
        needed_from.saturating_add(1),
        wall_clock().0,
    );
    plan.delete_checkpoints()?;
    Ok(Written { needed_from: LogIndex(needed_from), log_from: LogIndex(plan.log_from) })
}

/// Checks a cell on a thread of its own: one from a checkpoint may have been edited by hand.
pub(crate) fn check_in_background(
    cell: Cell,
    to_core: mpsc::Sender<Message>,
) -> anyhow::Result<()> {
    let check = move || check(&cell, &to_core);
    let thread = std::thread::Builder::new().name("check".to_owned()).spawn(check);
    thread.map(|_| ()).context("cannot start the thread that checks the cell")
}

/// Logs every violated invariant of a cell.
fn check(cell: &Cell, to_core: &mpsc::Sender<Message>) {
    let violations = cell.check();
    for violation in &violations {
        tracing::error!(
            "the cell violates an invariant as of index {}: {violation}; inspect it with `bourg \
             checkpoint save` and `bourg checkpoint show`",
            cell.index()
        );
    }
    let _gone = to_core.blocking_send(Message::Checked(violations.len() as u64));
}
