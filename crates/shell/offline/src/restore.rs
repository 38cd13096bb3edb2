//! `bourg master restore`: continues a cell from one replica after the majority is lost.
//!
//! The remaining replicas cannot know what the lost ones had committed. So this command accepts
//! every record in the log of the chosen one and makes it the cell's only replica, with a higher
//! *restore epoch*: machines reject orders with the old epoch, and other replicas of the old cell
//! are rejected.
//!
//! The cell may have been restored from another replica before. So the machines and replicas that
//! can be reached are asked for the highest restore epoch, and this one is above it. If none that
//! knows can be reached, both restorations have one counter, and their random parts differ.

use std::path::PathBuf;

use ::checkpoint::Origin;
use anyhow::Context;
use cell::{Cell, LEVEL, Op};
use clap::Args;
use command::{Done, Failure};
use masterd::identity::ReplicaIdentity;
use masterd::{recover, restorations};
use model::{Level, ReplicaId, RestoreEpoch, Term};
use replica::LogEntry;
use rpc::Authority;
use store::DataDirectory;

use super::checkpoint::load::{drawn, say_known};

/// Which replica to restore from.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// The data directory of the remaining replica, whose master must be stopped. If several
    /// remain, choose the one whose last record has the highest term, and among those the highest
    /// index: compare by running this command on a copy of each.
    #[arg(long)]
    dir: PathBuf,
    /// Discard a damaged or missing part of the log and everything after it, named as in the
    /// master's error. Changes acknowledged there are lost; the bytes are kept beside the log in
    /// files that end with .lost.
    #[arg(long, value_name = "NAME")]
    accept_loss: Option<String>,
}

/// Executes `bourg master restore`.
///
/// # Errors
/// If the directory is not that of a stopped replica, or its log is damaged.
pub fn restore(args: &RestoreArgs) -> Done {
    let failed = |error: anyhow::Error| {
        Failure::failed(format!("error: {error:#}; nothing was changed"))
            .next("stop the master of that directory first")
    };
    let unusable =
        |error: anyhow::Error| Failure::failed(format!("error: {error:#}; nothing was changed"));
    let mut data = DataDirectory::open(&args.dir).map_err(|error| failed(error.into()))?;
    let itself = ReplicaIdentity::read(&args.dir).map_err(unusable)?;
    let (mut log, recovered) = match &args.accept_loss {
        None => recover::recover(&data).map_err(unusable)?,
        Some(named) => {
            let recovered = recover::recover_without(&data, named);
            let (log, recovered, lost) = recovered?;
            for path in lost {
                eprintln!("discarded, and kept in {}", path.display());
            }
            (log, recovered)
        }
    };
    let former_epoch = recovered.restore_epoch;
    let (cell, term) = recovered.checkpoint.unwrap_or_default();
    let (cell, term) = replay(cell, term, &recovered.entries).map_err(failed)?;
    if cell.name().is_none() {
        let dir = args.dir.display();
        return Err(Failure::failed(format!("error: no state of the cell is left in {dir}"))
            .next("load a saved checkpoint into another directory: bourg checkpoint load"));
    }
    let epoch = epoch_above(former_epoch, &data, &cell, itself.id())?;
    let others = cell.replicas().filter(|replica| replica.id != itself.id());
    let others = others.map(|replica| (replica.id, replica.address.to_string()));
    let former: Vec<_> = others.filter(|(_, address)| !address.is_empty()).collect();
    let image = cell.restored().image().of_one_replica(itself.id(), None);
    let origin = Origin { term, restore_epoch: epoch };
    // Write this first: a master that finds the cell restored relies on it.
    ReplicaIdentity::new(itself.id(), []).restored(epoch, former).write(&args.dir)?;
    ::checkpoint::begin_anew(&data, &mut log, &image, origin)?;
    data.renew_id().map_err(anyhow::Error::from)?;
    let name = cell.name().map_or_else(|| "?".to_owned(), ToString::to_string);
    eprintln!(
        "cell {name} continues from replica {} alone, as of index {} in term {term}, restore epoch {epoch}",
        itself.id(),
        cell.index()
    );
    eprintln!(
        "next: start the master of {} as before; then add new replicas with empty directories: bourg \
         master add",
        args.dir.display()
    );
    Ok(())
}

/// The epoch of this restoration: above all that the directory, the machines and the other replicas
/// know.
fn epoch_above(
    own: RestoreEpoch,
    data: &DataDirectory,
    cell: &Cell,
    me: ReplicaId,
) -> anyhow::Result<RestoreEpoch> {
    let known = match Authority::open(data.tls()) {
        Ok(authority) => restorations::ask(&authority, cell, me)?,
        // Without the authority nobody can be asked.
        Err(_) => restorations::EpochSurvey::default(),
    };
    say_known(&known);
    Ok(RestoreEpoch::after(own.counter.max(known.counter), drawn()))
}

/// Replays the whole log onto the cell.
fn replay(mut cell: Cell, mut term: Term, entries: &[LogEntry]) -> anyhow::Result<(Cell, Term)> {
    for entry in entries {
        anyhow::ensure!(
            entry.level == Level(0) || cell::has_level(entry.level),
            "record {} needs level {} of the state machine; this program supports up to {LEVEL}: use a newer one",
            entry.index,
            entry.level
        );
        let (at, op) = match entry.data.is_empty() || entry.level == Level(0) {
            true => (cell.time(), Op::Nothing),
            false => formats::log::decode_record(&entry.data)
                .with_context(|| format!("cannot decode record {}", entry.index))?,
        };
        cell.apply(at, &op);
        term = entry.term;
    }
    Ok((cell, term))
}
