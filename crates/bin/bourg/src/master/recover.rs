//! What a master finds on its disk when it starts.

use std::path::PathBuf;

use cell::Cell;
use model::{Level, LogIndex, Term};
use replica::{HardState, Recovered};
use store::DataDirectory;
use store::log::{Kind, Log, Options, RecordRef, Repair};

use super::itself::Dismissed;
use crate::checkpoint::{self, Origin};

/// Reads the newest checkpoint that is whole, and the log after it.
///
/// # Errors
/// [`Dismissed`] where the log is damaged, or not there although it was.
pub(crate) fn recover(directory: &DataDirectory) -> anyhow::Result<(Log, Recovered)> {
    recover_after(directory, None)
}

/// What is given up of a log that is not there any more.
pub(crate) const WHOLE_LOG: &str = "log";

/// The same after what is damaged was given up, with all that followed, by the name that the error gave
/// it: first it is cut, and kept in files beside the log; gives those.
pub(crate) fn recover_without(
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
    // What is kept from before the checkpoint is for questions about the past alone.
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
            "the last write to {} did not reach the disk whole: {bytes} bytes from {offset} on are \
             cut off. They were not acknowledged, unless the disk lost what it had reported as written",
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
             (bourg master remove, bourg master add). Of the only replica, a new directory can go on \
             from a saved checkpoint (bourg checkpoint load)",
            directory.log().display()
        );
    }
    // Each checkpoint says it again, and without one the cell was never restored.
    let restore_epoch = newest.as_ref().map_or(0, |(_, origin)| origin.restore_epoch);
    let checkpoint = newest.map(|(cell, origin)| (cell, origin.term));
    let mut recovered = Recovered { checkpoint, hard_state, restore_epoch, ..Recovered::default() };
    // The record that the checkpoint ends with, too: it shows whether the log led there.
    found.for_each(covered, |record| {
        let (term, index) = (Term(record.term), LogIndex(record.index));
        recovered.entry(term, index, Level(record.level), record.payload);
        Ok::<(), store::Error>(())
    })?;
    restart(&mut log, &recovered)?;
    Ok((log, recovered))
}

/// A checkpoint that another replica sent may be of after the log's end, or not what the log led to:
/// the log begins anew after it then, as it would have if the process had not ended just there.
fn restart(log: &mut Log, recovered: &Recovered) -> store::Result<()> {
    let Some((cell, term)) = &recovered.checkpoint else { return Ok(()) };
    let index = cell.index().0;
    if recovered.diverged || log.last_index().is_some_and(|last| last < index) {
        let (kind, term) = (Kind::Restart, term.0);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench;
    use crate::master::Records;
    use crate::master::log::record;
    use replica::{Input, Output, Replica, Settings};

    /// What a master does from its start until it leads, its records written; gives its cell.
    fn start(directory: &DataDirectory) -> Cell {
        let (mut log, recovered) = recover(directory).expect("it can be read");
        let now = model::Time(1);
        let replica = Replica::new(Settings::default(), Records, now, recovered, None);
        let mut replica = replica.expect("settings are good");
        let (mut inputs, mut leads) = (Vec::new(), false);
        while !leads {
            let mut outputs = Vec::new();
            replica.step(now, inputs.drain(..), &mut outputs).expect("it can go on");
            for output in outputs {
                match output {
                    Output::Leads(_) => leads = true,
                    Output::Persist(persist) => {
                        if let Some(state) = persist.hard_state {
                            let (kind, term, payload) =
                                (Kind::HardState, state.term.0, &state.to_bytes());
                            let record = RecordRef { kind, term, index: 0, level: 0, payload };
                            log.append(&[record]).expect("there is room");
                        }
                        for entry in &persist.entries {
                            log.append(&[record(entry)]).expect("there is room");
                        }
                        log.sync().expect("the disk works");
                        inputs.push(Input::Persisted(persist.number));
                    }
                    _ => {}
                }
            }
        }
        replica.cell().clone()
    }

    fn write(directory: &DataDirectory, cell: &Cell, term: u64) {
        let origin = Origin { term: Term(term), restore_epoch: 5 };
        let written = checkpoint::write_in(&directory.checkpoints(), &cell.image(), origin);
        written.expect("a checkpoint");
    }

    #[test]
    fn a_checkpoint_and_the_log_after_it_give_what_the_whole_log_gives() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let path = place.path().join("master");
        let directory = DataDirectory::create(&path).expect("a data directory");
        bench::write_history(&directory, 2_000, None).expect("a log");
        let early = start(&directory);
        write(&directory, &early, 2);

        let with_checkpoint = start(&directory);
        let (_, recovered) = recover(&directory).expect("it can be read");
        let (cell, _) = recovered.checkpoint.expect("it begins with the checkpoint");
        assert_eq!((cell.index(), recovered.restore_epoch), (early.index(), 5));
        assert!(recovered.entries.len() < 10, "and reads only what came after it");

        for checkpoint in store::checkpoint::list(directory.checkpoints()).expect("a list") {
            store::checkpoint::remove(&checkpoint).expect("it can be removed");
        }
        let whole = start(&directory);
        let (one, other) = (with_checkpoint.image(), whole.image());
        assert!(other.index > one.index, "each start adds the entry of its term");
        assert_eq!(
            (one.jobs, one.machines, one.sessions),
            (other.jobs, other.machines, other.sessions)
        );
    }

    #[test]
    fn a_damaged_checkpoint_gives_way_to_the_one_before_it() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let path = place.path().join("master");
        let directory = DataDirectory::create(&path).expect("a data directory");
        bench::write_history(&directory, 100, None).expect("a log");
        let first = start(&directory);
        write(&directory, &first, 2);
        let second = start(&directory);
        write(&directory, &second, 3);
        let newest = &store::checkpoint::list(directory.checkpoints()).expect("a list")[0];
        let mut bytes = std::fs::read(&newest.path).expect("a file");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&newest.path, bytes).expect("written");
        let (_, recovered) = recover(&directory).expect("it can be read");
        let (cell, _) = recovered.checkpoint.expect("the one before it");
        assert_eq!(cell.index(), first.index());
        assert_eq!(start(&directory).image().jobs, second.image().jobs);
    }
}
