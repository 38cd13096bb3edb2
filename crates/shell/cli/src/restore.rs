//! `bourg master restore`: a cell goes on from one replica, after the majority of them is lost.
//!
//! The replicas that are left cannot know what those that are lost had agreed upon. So this takes
//! everything that the one has in its log, as far as it goes, and makes it the cell's only replica,
//! with a higher *restore epoch*: orders of the cell from before are older than any from then on, and
//! a replica from before is not listened to.

use std::path::PathBuf;

use ::checkpoint::Origin;
use anyhow::Context;
use cell::{Cell, LEVEL, Op};
use clap::Args;
use masterd::itself::Itself;
use masterd::recover;
use model::{Level, Term};
use replica::LogEntry;
use store::DataDirectory;

use super::checkpoint::load::begin_anew;
use super::exit::{Done, Failure};

/// Which replica is left.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The data directory of the replica that is left, whose master must not run. Of several, take the
    /// one whose last record is of the highest term, and of those the one that goes furthest: what
    /// this says of a copy of each.
    #[arg(long)]
    dir: PathBuf,
    /// Give up a part of the log that is damaged or missing, and all that followed, by the name that the
    /// error of the master gives it. What was acknowledged there is lost; its bytes are kept beside the
    /// log, in files that end with .lost.
    #[arg(long, value_name = "NAME")]
    accept_loss: Option<String>,
}

pub(super) fn restore(args: &RestoreArgs) -> Done {
    let failed = |error: anyhow::Error| {
        Failure::failed(format!("error: {error:#}; nothing was changed"))
            .next("stop the master of that directory first")
    };
    let unusable =
        |error: anyhow::Error| Failure::failed(format!("error: {error:#}; nothing was changed"));
    let mut data = DataDirectory::open(&args.dir).map_err(|error| failed(error.into()))?;
    let itself = Itself::read(&args.dir).map_err(unusable)?;
    let (mut log, recovered) = match &args.accept_loss {
        None => recover::recover(&data).map_err(unusable)?,
        Some(named) => {
            let recovered = recover::recover_without(&data, named);
            let (log, recovered, lost) = recovered?;
            for path in lost {
                eprintln!("given up, and kept in {}", path.display());
            }
            (log, recovered)
        }
    };
    let epoch = recovered.restore_epoch.saturating_add(1);
    let (cell, term) = recovered.checkpoint.unwrap_or_default();
    let (cell, term) = replay(cell, term, &recovered.entries).map_err(failed)?;
    if cell.name().is_none() {
        let dir = args.dir.display();
        return Err(Failure::failed(format!("error: nothing is left of the cell in {dir}"))
            .next("go on from a saved checkpoint in another directory: bourg checkpoint load"));
    }
    let others = cell.replicas().filter(|replica| replica.id != itself.id());
    let others = others.map(|replica| (replica.id, replica.address.to_string()));
    let former: Vec<_> = others.filter(|(_, address)| !address.is_empty()).collect();
    let image = cell.restored().image().of_one_replica(itself.id(), None);
    let origin = Origin { term, restore_epoch: epoch };
    // First: a master that finds the cell restored has to see that they are gone.
    Itself::new(itself.id(), []).restored(epoch, former).write(&args.dir)?;
    begin_anew(&data, &mut log, &image, origin)?;
    data.renew_id().map_err(anyhow::Error::from)?;
    let name = cell.name().map_or_else(|| "?".to_owned(), ToString::to_string);
    eprintln!(
        "cell {name} goes on from replica {} alone, as of index {} in term {term}, restore epoch {epoch}",
        itself.id(),
        cell.index()
    );
    eprintln!(
        "next: start the master of {} as before; then add others anew, with empty directories: bourg \
         master add",
        args.dir.display()
    );
    Ok(())
}

/// The cell as the whole log gives it.
fn replay(mut cell: Cell, mut term: Term, entries: &[LogEntry]) -> anyhow::Result<(Cell, Term)> {
    for entry in entries {
        anyhow::ensure!(
            entry.level == Level(0) || cell::has_level(entry.level),
            "record {} needs level {} of the state machine, this program knows {LEVEL}: use a newer one",
            entry.index,
            entry.level
        );
        let (at, op) = match entry.data.is_empty() || entry.level == Level(0) {
            true => (cell.time(), Op::Nothing),
            false => proto::log::decode_record(&entry.data)
                .with_context(|| format!("record {} cannot be read", entry.index))?,
        };
        cell.apply(at, &op);
        term = entry.term;
    }
    Ok((cell, term))
}
