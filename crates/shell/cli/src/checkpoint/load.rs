//! `bourg checkpoint load`: a data directory in which a master goes on from a checkpoint.
//!
//! The machines may have obeyed another cell of that state: one that went on after the checkpoint,
//! or an earlier restoration. So the new one has a higher *restore epoch*, the first part of every
//! stamp, and its terms and indexes go on after the checkpoint's. The epoch is kept in the
//! checkpoint, and in each that the master writes from then on.

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use ::checkpoint::{self, Origin};
use anyhow::{Context, ensure};
use cell::{Cell, Image};
use masterd::itself::{FIRST, Itself};
use model::ReplicaId;
use rpc::Authority;
use store::DataDirectory;
use store::log::{Kind, Log, Options, RecordRef};

use super::{LoadArgs, sound, unusable};
use crate::exit::{Done, Failure};
use crate::moment;

const AUTHORITY: &str = "ca.pem";

pub(super) fn load(args: &LoadArgs) -> Done {
    let (cell, origin) = checkpoint::read(&args.file).map_err(|error| unusable(&error))?;
    sound(&cell, &args.file, args.force)?;
    let directory = std::path::absolute(&args.dir).map_err(|error| unusable(&error.into()))?;
    is_free(&directory)?;
    replaces(&cell, args)?;
    let former = args.tls.as_deref().map(|tls| authority_of(tls, &cell)).transpose()?;
    let epoch = epoch(args, origin, former.as_deref())?;
    let origin = Origin { restore_epoch: epoch, ..origin };
    let alone = cell.restored().image().of_one_replica(FIRST, None);
    let itself = Itself::new(FIRST, []).restored(epoch, members(&cell));
    make(&directory, &alone, &itself, origin, former.as_deref())?;

    let (shown, name) = (args.dir.display(), name(&cell));
    let (index, time) = (cell.index(), moment::shown(cell.time()));
    eprintln!("{shown}: cell {name} as of index {index}, {time}, restore epoch {epoch}");
    if former.is_none() {
        eprintln!(
            "its certificate authority is new: no certificate of the former cell is valid there \
             (--tls takes the former authority over)"
        );
    }
    let administrator = cell.administrators().next().map(ToString::to_string);
    let administrator = administrator.unwrap_or_else(|| "USER".to_owned());
    eprintln!("next: bourg master --dir {shown} --name {name} --administrator {administrator}");
    Ok(())
}

fn name(cell: &Cell) -> String {
    cell.name().map_or_else(|| "NAME".to_owned(), ToString::to_string)
}

/// The replicas of the cell that it is known where they answered, with their ids.
fn members(cell: &Cell) -> Vec<(ReplicaId, String)> {
    let members = cell.replicas().filter(|replica| !replica.address.is_empty());
    members.map(|replica| (replica.id, replica.address.to_string())).collect()
}

/// Says which cell would be replaced, where it has several replicas and that was not meant.
fn replaces(cell: &Cell, args: &LoadArgs) -> Done {
    if args.replace_cell || cell.replicas().count() < 2 {
        return Ok(());
    }
    let shown = |(id, address): (ReplicaId, String)| format!("{id} at {address}");
    let members: Vec<_> = members(cell).into_iter().map(shown).collect();
    let (name, index, members) = (name(cell), cell.index(), members.join(", "));
    Err(Failure::usage(format!(
        "error: the checkpoint is of cell {name} with replicas {members}. A master that goes on from it \
         replaces that cell, and all that came after index {index} is lost; nothing was changed"
    ))
    .next(
        "to replace one replica of a cell that lives, bourg master remove and bourg master add; if all \
         of them are lost for good, give --replace-cell",
    ))
}

/// Only a directory that is missing or empty is used.
fn is_free(directory: &Path) -> Done {
    let taken = match fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => {
            let directory = directory.display();
            return Err(Failure::usage(format!("error: cannot look at {directory}: {error}")));
        }
    };
    if taken {
        let text = format!("error: {} is not empty; nothing was changed", directory.display());
        return Err(Failure::usage(text).next("give a directory that is missing or empty"));
    }
    Ok(())
}

/// Where the authority of a former master is, which must be that of the cell.
fn authority_of(former: &Path, cell: &Cell) -> Result<PathBuf, Failure> {
    // Of a data directory, of that of `bourg dev`, or itself.
    let places = ["tls", "master/tls", ""].map(|below| former.join(below));
    let tls = places.into_iter().find(|place| place.join(AUTHORITY).exists()).ok_or_else(|| {
        let former = former.display();
        Failure::usage(format!(
            "error: {former} holds no certificate authority: there is neither {former}/{AUTHORITY} \
             nor {former}/tls/{AUTHORITY}"
        ))
        .next("give the data directory of the former master")
    })?;
    let authority = Authority::open(&tls).map_err(|error| unusable(&error.into()))?;
    match cell.name() {
        Some(name) if authority.cell() != name.as_str() => Err(Failure::usage(format!(
            "error: {} holds the authority of cell {}, and the checkpoint is of cell {name}",
            tls.display(),
            authority.cell()
        ))),
        _ => Ok(tls),
    }
}

/// The new cell's restore epoch: above each that its machines can have seen.
fn epoch(args: &LoadArgs, origin: Origin, former: Option<&Path>) -> Result<u64, Failure> {
    let former = former.and_then(Path::parent).map_or(0, newest_epoch);
    let highest = origin.restore_epoch.max(former);
    let epoch = args.restore_epoch.unwrap_or(highest.saturating_add(1));
    if epoch <= highest {
        let text = format!(
            "error: --restore-epoch {epoch} is not above that of the former cell, which is {highest}"
        );
        return Err(Failure::usage(text).next("give a higher one, or none"));
    }
    Ok(epoch)
}

/// The restore epoch of a data directory: that of its newest checkpoint that can be read. One
/// without a checkpoint was never restored.
fn newest_epoch(directory: &Path) -> u64 {
    let listed = store::checkpoint::list(directory.join("checkpoints")).unwrap_or_default();
    let mut read = listed.iter().filter_map(|found| checkpoint::read_image(&found.path).ok());
    read.next().map_or(0, |(_, origin)| origin.restore_epoch)
}

/// Makes the directory under another name, and gives it its own when it is whole.
fn make(
    directory: &Path,
    image: &Image,
    itself: &Itself,
    origin: Origin,
    former: Option<&Path>,
) -> anyhow::Result<()> {
    let parent = directory.parent().context("that is no path of a directory")?;
    let name = directory.file_name().context("that is no path of a directory")?;
    let name = format!(".{}.loading-{}", name.to_string_lossy(), std::process::id());
    let unfinished = parent.join(name);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(parent);
    made.with_context(|| format!("cannot make {}", parent.display()))?;
    ensure!(!unfinished.exists(), "{} is in the way: remove it", unfinished.display());
    let filled = fill(&unfinished, image, origin, former);
    let done = filled.and_then(|()| itself.write(&unfinished)).and_then(|()| {
        fs::rename(&unfinished, directory)
            .and_then(|()| File::open(parent)?.sync_all())
            .with_context(|| format!("cannot give {} its name", directory.display()))
    });
    if done.is_err() {
        let _absent = fs::remove_dir_all(&unfinished);
    }
    done
}

fn fill(path: &Path, image: &Image, origin: Origin, former: Option<&Path>) -> anyhow::Result<()> {
    let data = DataDirectory::create(path)?;
    match (former, &image.name) {
        (Some(former), _) => drop(Authority::copy(former, data.tls())?),
        (None, Some(name)) => drop(Authority::create(data.tls(), name.as_str())?),
        (None, None) => {}
    }
    let (mut log, _) = Log::open(data.log(), Options::default())?;
    begin_anew(&data, &mut log, image, origin)
}

/// Has a master go on from an image: as a checkpoint, and a log that says that it goes on after it,
/// so that nobody takes what is there for the whole.
pub fn begin_anew(
    data: &DataDirectory,
    log: &mut Log,
    image: &Image,
    origin: Origin,
) -> anyhow::Result<()> {
    checkpoint::write_in(&data.checkpoints(), image, origin)?;
    let (kind, term, index) = (Kind::Restart, origin.term.0, image.index.0);
    log.append(&[RecordRef { kind, term, index, level: 0, payload: &[] }])?;
    Ok(log.sync()?)
}
