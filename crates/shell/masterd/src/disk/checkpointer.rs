//! Checkpoints while serving: a view of the cell is written by a thread of its own; then what is kept
//! of the past is thinned and cut by size and age, and the cell is checked. The core never waits for
//! it.

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

/// After so many records a new checkpoint is written.
const EVERY: u64 = 100_000;
/// The same after so many bytes of records: consensus has them in memory back to the older of the
/// newest two checkpoints.
const EVERY_BYTES: u64 = 256 << 20;

/// When to write checkpoints, and where.
pub(crate) struct Checkpoints {
    directory: PathBuf,
    log: PathBuf,
    retention: Retention,
    to_core: mpsc::Sender<Message>,
    metrics: Arc<Metrics>,
    last: LogIndex,
    /// How many bytes the records since then have.
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

    /// The cell has been read from a checkpoint at this index.
    pub(crate) fn began_at(&mut self, index: LogIndex) {
        self.last = index;
    }

    /// A record has been committed.
    pub(crate) fn committed(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// Begins to write one, where it is time.
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
                    tracing::error!("what is kept of the past could not be thinned: {error:#}");
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

    /// One has been written; up to the index the log is not needed in memory any more.
    pub(crate) fn written(&mut self, needed_from: LogIndex) -> Input {
        self.writing = false;
        self.metrics.checkpoints.written.inc();
        self.metrics.checkpoints.newest.set(wall_clock().0);
        Input::Checkpointed(needed_from)
    }

    pub(crate) fn failed(&mut self, error: &anyhow::Error) {
        self.writing = false;
        self.metrics.checkpoints.failed.inc();
        tracing::error!("no checkpoint was written: {error:#}; it is tried again later");
    }
}

/// Writes a checkpoint once the events up to it are durable, as a start from it would not make them
/// again.
fn write(
    directory: &Path,
    cell: &Cell,
    origin: Origin,
    events: &Receiver<()>,
) -> anyhow::Result<()> {
    events.recv().context("the thread that keeps events has ended")?;
    checkpoint::write_in(directory, &cell.image(), origin)
}

/// Removes what is not kept of the past.
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

/// Checks a cell by a thread of its own: one that a checkpoint gave may have been edited by hand.
pub(crate) fn check_in_background(
    cell: Cell,
    to_core: mpsc::Sender<Message>,
) -> anyhow::Result<()> {
    let check = move || check(&cell, &to_core);
    let thread = std::thread::Builder::new().name("check".to_owned()).spawn(check);
    thread.map(|_| ()).context("cannot start the thread that checks the cell")
}

/// Says everything in which a cell contradicts itself.
fn check(cell: &Cell, to_core: &mpsc::Sender<Message>) {
    let violations = cell.check();
    for violation in &violations {
        tracing::error!(
            "the cell contradicts itself as of index {}: {violation}; look at it with `bourg \
             checkpoint save` and `bourg checkpoint show`",
            cell.index()
        );
    }
    let _gone = to_core.blocking_send(Message::Checked(violations.len() as u64));
}
