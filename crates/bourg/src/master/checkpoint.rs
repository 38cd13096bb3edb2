//! Checkpoints while serving: a view of the cell is written by a thread of its own, then the log
//! before the last but one checkpoint is deleted. The core never waits for it.

use std::path::{Path, PathBuf};

use cell::Cell;
use model::{LogIndex, Term};
use replica::Input;
use store::checkpoint::{self, CheckpointWriter};
use tokio::sync::mpsc;

use super::core::Message;
use super::recover::IMAGE_SECTION;

/// After so many records a new checkpoint is written.
const EVERY: u64 = 100_000;
/// How many checkpoints are kept.
const KEPT: usize = 2;

/// When to write checkpoints, and where.
pub(crate) struct Checkpoints {
    directory: PathBuf,
    to_core: mpsc::Sender<Message>,
    last: LogIndex,
    writing: bool,
}

impl Checkpoints {
    pub(crate) fn new(directory: PathBuf, to_core: mpsc::Sender<Message>) -> Self {
        Self { directory, to_core, last: LogIndex(0), writing: false }
    }

    /// The cell has been read from a checkpoint at this index.
    pub(crate) fn began_at(&mut self, index: LogIndex) {
        self.last = index;
    }

    /// Begins to write one, where it is time.
    pub(crate) fn consider(&mut self, cell: &Cell, term: Term) {
        if self.writing || cell.index().0 < self.last.0 + EVERY {
            return;
        }
        self.writing = true;
        self.last = cell.index();
        let (cell, directory, to_core) =
            (cell.clone(), self.directory.clone(), self.to_core.clone());
        let write = move || {
            let written = write(&directory, &cell, term);
            let _gone = to_core.blocking_send(Message::Checkpointed(written));
        };
        if let Err(error) = std::thread::Builder::new().name("checkpoint".to_owned()).spawn(write) {
            self.failed(&error.into());
        }
    }

    /// One has been written; up to the returned index the log is not needed any more.
    pub(crate) fn written(&mut self, oldest: LogIndex) -> Input {
        self.writing = false;
        Input::Checkpointed(oldest)
    }

    pub(crate) fn failed(&mut self, error: &anyhow::Error) {
        self.writing = false;
        tracing::error!("no checkpoint was written: {error:#}; it is tried again later");
    }
}

/// Writes a checkpoint, removes the oldest, and gives the index of the oldest that is left.
pub(crate) fn write(directory: &Path, cell: &Cell, term: Term) -> anyhow::Result<LogIndex> {
    let mut writer = CheckpointWriter::create(directory, cell.index().0, term.0)?;
    let mut failed = None;
    proto::image::write_image(&cell.image(), &mut |piece| {
        if failed.is_none() {
            failed = writer.section(IMAGE_SECTION, piece).err();
        }
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    writer.finish()?;
    let all = checkpoint::list(directory)?;
    for old in all.iter().skip(KEPT) {
        checkpoint::remove(old)?;
    }
    Ok(LogIndex(all.iter().take(KEPT).next_back().map_or(0, |oldest| oldest.index)))
}
