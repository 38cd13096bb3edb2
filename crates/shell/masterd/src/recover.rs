//! Recovery of a master from its disk at the start.

use std::path::PathBuf;

use cell::Cell;
use checkpoint::Origin;
use model::{Level, LogIndex, RestoreEpoch, Term};
use replica::{HardState, LogEntry, Recovered};
use store::DataDirectory;
use store::log::{Log, Options, RecordKind, RecordRef, Repair};

use crate::identity::Dismissed;

/// Reads the newest intact checkpoint, and the log after it.
///
/// # Errors
/// [`Dismissed`] if the log is damaged, or missing although there was one.
pub fn recover(directory: &DataDirectory) -> anyhow::Result<(Log, Recovered)> {
    recover_after(directory, None)
}

/// The name under which a missing log is given up.
pub(super) const WHOLE_LOG: &str = "log";

/// The same after giving up the damaged part, named as in the error, and everything after it: it is
/// first cut off and kept in files beside the log; returns those.
pub fn recover_without(
    directory: &DataDirectory,
    loss: &str,
) -> anyhow::Result<(Log, Recovered, Vec<PathBuf>)> {
    let covered = newest(directory)?.as_ref().map_or(0, |(cell, _)| cell.index().0);
    let kept = match loss {
        WHOLE_LOG if is_lost(directory, None) => Vec::new(),
        named => store::log::accept_loss(directory.log(), covered, named)?,
    };
    let (log, recovered) = recover_after(directory, Some(loss))?;
    Ok((log, recovered, kept))
}

/// Whether the log had records and has none, and that was not accepted.
fn is_lost(directory: &DataDirectory, accepted: Option<&str>) -> bool {
    let is_segment =
        |file: std::fs::DirEntry| file.path().extension().is_some_and(|it| it == "log");
    let mut files = std::fs::read_dir(directory.log()).into_iter().flatten().flatten();
    directory.log_begun() && accepted.is_none() && !files.any(is_segment)
}

fn recover_after(
    directory: &DataDirectory,
    accepted: Option<&str>,
) -> anyhow::Result<(Log, Recovered)> {
    let newest = newest(directory)?;
    // Records before the checkpoint serve only questions about the past.
    let covered = newest.as_ref().map_or(0, |(cell, _)| cell.index().0);
    if is_lost(directory, accepted) {
        let log = directory.log();
        let lost = store::Error::MissingLog { directory: log, loss: WHOLE_LOG };
        return Err(Dismissed(lost.to_string()).into());
    }
    let opened = Log::open_from(directory.log(), Options::default(), covered);
    let (mut log, found) = opened.map_err(|error| match error.loss() {
        Some(_) => anyhow::Error::from(Dismissed(error.to_string())),
        None => error.into(),
    })?;
    if let Repair::TornTail { segment, offset, bytes } = found.repair() {
        tracing::warn!(
            "the last write to {} did not reach the disk whole: {bytes} bytes from {offset} on \
             are cut off. They were not acknowledged, unless the disk lost what it had reported \
             as written",
            segment.display()
        );
    }
    let hard_state = match found.hard_state() {
        None => HardState::default(),
        Some(state) => HardState::from_bytes(&state.payload)
            .ok_or_else(|| anyhow::anyhow!("the promise kept in the log is not one"))?,
    };
    if let Some(first) = found.first_index() {
        anyhow::ensure!(
            first <= covered + 1,
            "the log in {} begins at record {first}, and no checkpoint covers what was before. Where \
             the cell has other replicas, remove this one and add a new one with an empty directory \
             (bourg master remove, bourg master add). If it is the only replica, a new directory can \
             continue from a saved checkpoint (bourg checkpoint load)",
            directory.log().display()
        );
    }
    // Each checkpoint repeats it, and without one the cell was never restored.
    let restore_epoch =
        newest.as_ref().map_or(RestoreEpoch::NEVER, |(_, origin)| origin.restore_epoch);
    let checkpoint = newest.map(|(cell, origin)| (cell, origin.term));
    let mut recovered = Recovered { checkpoint, hard_state, restore_epoch, ..Recovered::default() };
    // Including the record with which the checkpoint ends: it shows whether the log led there.
    found.for_each(covered, |record| {
        let (term, index) = (Term(record.term), LogIndex(record.index));
        recovered.entry(term, index, Level(record.level), record.payload);
        Ok::<(), store::Error>(())
    })?;
    restart(&mut log, &recovered)?;
    Ok((log, recovered))
}

/// A checkpoint from another replica may be ahead of the log, or not follow from it: the log then
/// starts anew after it, as it would have if the process had not ended just then.
fn restart(log: &mut Log, recovered: &Recovered) -> store::Result<()> {
    let Some((cell, term)) = &recovered.checkpoint else { return Ok(()) };
    let index = cell.index().0;
    if recovered.diverged || log.last_index().is_some_and(|last| last < index) {
        let (kind, term) = (RecordKind::Restart, term.0);
        log.append(&[RecordRef { kind, term, index, level: 0, payload: &[] }])?;
        log.sync()?;
    }
    Ok(())
}

fn newest(directory: &DataDirectory) -> anyhow::Result<Option<(Cell, Origin)>> {
    let mut broken = None;
    for checkpoint in store::checkpoint::list(directory.checkpoints())? {
        match checkpoint::read(&checkpoint.path) {
            Ok(read) => return Ok(Some(read)),
            Err(error) => {
                tracing::error!("{} cannot be used: {error:#}", checkpoint.path.display());
                broken = Some(error);
            }
        }
    }
    let what_to_do = "no checkpoint of this replica can be used. Where the cell has other replicas, \
                      remove this one and add a new one with an empty directory (bourg master remove, \
                      bourg master add)";
    broken.map_or(Ok(None), |error| Err(error.context(what_to_do)))
}

/// A record of the replicated log as stored on disk.
#[must_use]
pub fn record(entry: &LogEntry) -> RecordRef<'_> {
    RecordRef {
        kind: RecordKind::Entry,
        term: entry.term.0,
        index: entry.index.0,
        level: entry.level.0,
        payload: &entry.data,
    }
}
