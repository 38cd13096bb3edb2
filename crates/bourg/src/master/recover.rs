//! What a master finds on its disk when it starts.

use cell::Cell;
use model::{Level, LogIndex, Term};
use replica::{HardState, Recovered};
use store::DataDirectory;
use store::checkpoint::{self, CheckpointReader};
use store::log::{Log, Options, Repair};

/// The kind of a checkpoint's sections that hold pieces of the cell's image.
pub(crate) const IMAGE_SECTION: u32 = 1;

/// Reads the newest checkpoint that is whole, and the log after it.
pub(crate) fn recover(directory: &DataDirectory) -> anyhow::Result<(Log, Recovered)> {
    let checkpoint = newest(directory)?;
    let (log, found) = Log::open(directory.log(), Options::default())?;
    if let Repair::TornTail { segment, offset, bytes } = found.repair() {
        tracing::warn!(
            "the last write to {} was torn: {bytes} bytes from {offset} on, which had never been \
             acknowledged, are cut off",
            segment.display()
        );
    }
    let hard_state = match found.hard_state() {
        None => HardState::default(),
        Some(state) => HardState::from_bytes(&state.payload)
            .ok_or_else(|| anyhow::anyhow!("the promise kept in the log is not one"))?,
    };
    let from = checkpoint.as_ref().map_or(0, |(cell, _)| cell.index().0 + 1);
    if let Some(first) = found.first_index() {
        anyhow::ensure!(
            first <= from.max(1),
            "the log in {} begins at record {first}, and no checkpoint covers what was before: \
             restore this replica from a checkpoint, or from another replica",
            directory.log().display()
        );
    }
    let mut recovered = Recovered { checkpoint, entries: Vec::new(), hard_state };
    found.for_each(from, |record| {
        let (term, index) = (Term(record.term), LogIndex(record.index));
        recovered.entry(term, index, Level(record.level), record.payload);
        Ok::<(), store::Error>(())
    })?;
    Ok((log, recovered))
}

fn newest(directory: &DataDirectory) -> anyhow::Result<Option<(Cell, Term)>> {
    let mut broken = None;
    for checkpoint in checkpoint::list(directory.checkpoints())? {
        match read(&checkpoint) {
            Ok(read) => return Ok(Some(read)),
            Err(error) => {
                tracing::error!("{} cannot be used: {error:#}", checkpoint.path.display());
                broken = Some(error);
            }
        }
    }
    broken.map_or(Ok(None), Err)
}

fn read(checkpoint: &checkpoint::Checkpoint) -> anyhow::Result<(Cell, Term)> {
    let mut reader = CheckpointReader::open(&checkpoint.path)?;
    let mut image = Vec::new();
    reader.for_each(|kind, section| {
        if kind == IMAGE_SECTION {
            image.extend_from_slice(section);
        }
        Ok::<(), store::Error>(())
    })?;
    let cell = Cell::from_image(proto::image::read_image(&image)?)?;
    Ok((cell, Term(reader.term())))
}
