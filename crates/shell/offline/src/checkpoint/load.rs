//! `bourg checkpoint load`: creates a data directory from which a master continues at a checkpoint.
//!
//! The machines may have obeyed orders of a newer state of this cell: from before this load, or
//! from an earlier restoration. The new cell therefore gets a higher *restore epoch*, the first
//! component of every order stamp, and its terms and indexes continue after the checkpoint's. The
//! epoch is stored in this checkpoint and in every one that the master writes afterwards.

use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use ::checkpoint::{self, Origin};
use anyhow::{Context, ensure};
use cell::{Cell, Image};
use command::{Done, Failure};
use masterd::identity::{FIRST, ReplicaIdentity};
use masterd::restorations;
use model::{LogIndex, ReplicaId, RestoreEpoch};
use rpc::Authority;
use store::DataDirectory;
use store::events::{Events, Reader};
use store::log::{Log, Options};

use super::{LoadArgs, sound, unusable};
use process::moment;

const AUTHORITY: &str = "ca.pem";

pub(super) fn load(args: &LoadArgs) -> Done {
    let (cell, origin) = checkpoint::read(&args.file).map_err(|error| unusable(&error))?;
    sound(&cell, &args.file, args.force)?;
    let directory = std::path::absolute(&args.dir).map_err(|error| unusable(&error.into()))?;
    is_free(&directory)?;
    replaces(&cell, args)?;
    let former = args.tls.as_deref().map(|tls| authority_of(tls, &cell)).transpose()?;
    let events = former.as_deref().and_then(|tls| events_of(tls, origin));
    let epoch = epoch(args, &cell, origin, former.as_deref())?;
    let origin = Origin { restore_epoch: epoch, ..origin };
    let alone = cell.restored().image().of_one_replica(FIRST, None);
    let itself = ReplicaIdentity::new(FIRST, []).restored(epoch, members(&cell));
    let takes = Takes { tls: former.as_deref(), events };
    make(&directory, &alone, &itself, origin, takes)?;

    let (shown, name) = (args.dir.display(), name(&cell));
    let (index, time) = (cell.index(), moment::shown(cell.time()));
    eprintln!("{shown}: cell {name} as of index {index}, {time}, restore epoch {epoch}");
    if former.is_none() {
        eprintln!(
            "the certificate authority is new: certificates of the former cell are not valid \
             (--tls keeps the former authority)"
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

/// The replicas of the cell whose addresses are known, with their ids.
fn members(cell: &Cell) -> Vec<(ReplicaId, String)> {
    let members = cell.replicas().filter(|replica| !replica.address.is_empty());
    members.map(|replica| (replica.id, replica.address.to_string())).collect()
}

/// Rejects a checkpoint of a cell with several replicas unless `--replace-cell` is given.
fn replaces(cell: &Cell, args: &LoadArgs) -> Done {
    if args.replace_cell || cell.replicas().count() < 2 {
        return Ok(());
    }
    let shown = |(id, address): (ReplicaId, String)| format!("{id} at {address}");
    let members: Vec<_> = members(cell).into_iter().map(shown).collect();
    let (name, index, members) = (name(cell), cell.index(), members.join(", "));
    Err(Failure::usage(format!(
        "error: the checkpoint is of cell {name} with replicas {members}. A master started from it \
         replaces that whole cell and loses every change after index {index}; nothing was changed"
    ))
    .next(
        "to replace one replica of a running cell: bourg master remove, then bourg master add; if all \
         replicas are permanently lost, pass --replace-cell",
    ))
}

/// Accepts only a missing or empty directory.
fn is_free(directory: &Path) -> Done {
    let taken = match fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => {
            let directory = directory.display();
            return Err(Failure::usage(format!("error: cannot read {directory}: {error}")));
        }
    };
    if taken {
        let text = format!("error: {} is not empty; nothing was changed", directory.display());
        return Err(Failure::usage(text).next("name a missing or empty directory"));
    }
    Ok(())
}

/// The directory of a former master's certificate authority, which must belong to the cell.
fn authority_of(former: &Path, cell: &Cell) -> Result<PathBuf, Failure> {
    // Candidates: in a data directory, in a directory of `bourg dev`, or the path itself.
    let places = ["tls", "master/tls", ""].map(|below| former.join(below));
    let tls = places.into_iter().find(|place| place.join(AUTHORITY).exists()).ok_or_else(|| {
        let former = former.display();
        Failure::usage(format!(
            "error: {former} contains no certificate authority: neither {former}/{AUTHORITY} \
             nor {former}/tls/{AUTHORITY} exists"
        ))
        .next("name the data directory of the former master")
    })?;
    let authority = Authority::open(&tls).map_err(|error| unusable(&error.into()))?;
    match cell.name() {
        Some(name) if authority.cell() != name.as_str() => Err(Failure::usage(format!(
            "error: {} contains the authority of cell {}, but the checkpoint is of cell {name}",
            tls.display(),
            authority.cell()
        ))),
        _ => Ok(tls),
    }
}

/// The new cell's restore epoch: above every epoch that its machines can have seen. With the former
/// authority they and the former replicas are asked, as far as they can be reached.
fn epoch(
    args: &LoadArgs,
    cell: &Cell,
    origin: Origin,
    tls: Option<&Path>,
) -> Result<RestoreEpoch, Failure> {
    let former = tls.and_then(Path::parent).map_or(0, |former| newest_epoch(former).counter);
    let mut highest = origin.restore_epoch.counter.max(former);
    if let Some(tls) = tls {
        let authority = Authority::open(tls).map_err(|error| unusable(&error.into()))?;
        let known = restorations::ask(&authority, cell, ReplicaId::default());
        let known = known.map_err(|error| unusable(&error))?;
        say_known(&known);
        highest = highest.max(known.counter);
    }
    let epoch = args.restore_epoch.unwrap_or(highest.saturating_add(1));
    if epoch <= highest {
        let text = format!(
            "error: --restore-epoch {epoch} must be above that of the former cell, {highest}"
        );
        return Err(Failure::usage(text).next("pass a higher one, or omit it"));
    }
    Ok(RestoreEpoch { counter: epoch, random: drawn() })
}

/// The restore epoch of the newest readable checkpoint in a data directory. Without one the cell was
/// never restored.
fn newest_epoch(directory: &Path) -> RestoreEpoch {
    let listed = store::checkpoint::list(directory.join("checkpoints")).unwrap_or_default();
    let mut read = listed.iter().filter_map(|found| checkpoint::read_image(&found.path).ok());
    read.next().map_or(RestoreEpoch::NEVER, |(_, origin)| origin.restore_epoch)
}

/// The events of the former master with this authority, if its directory has any: of the history
/// that the checkpoint is a moment of.
fn events_of(tls: &Path, origin: Origin) -> Option<Reader> {
    let former = tls.parent()?;
    let events = Reader::of_data_directory(former).ok()?;
    let (theirs, ours) = (newest_epoch(former), origin.restore_epoch);
    if theirs != ours {
        let former = former.display();
        eprintln!(
            "the events in {former} are not taken over: they are of restore epoch {theirs}, and the \
             checkpoint is of {ours}"
        );
        return None;
    }
    Some(events)
}

/// Says who was asked for the highest restore epoch.
pub(crate) fn say_known(known: &restorations::EpochSurvey) {
    let ((machines, heard), (replicas, also_heard)) = (known.machines, known.replicas);
    eprintln!(
        "asked for earlier restorations: {heard} of {machines} machines and {also_heard} of \
         {replicas} other replicas answered; the highest restore epoch among them has counter {}",
        known.counter
    );
    if heard < machines {
        eprintln!(
            "a machine that did not answer and obeys another restoration will reject the orders of \
             this one"
        );
    }
}

/// The random part of a restore epoch.
pub(crate) fn drawn() -> u64 {
    // The hasher's keys come from the operating system's randomness.
    RandomState::new().build_hasher().finish()
}

/// What the new directory takes over from that of the former master.
struct Takes<'a> {
    tls: Option<&'a Path>,
    events: Option<Reader>,
}

/// Creates the directory under a temporary name and renames it once complete.
fn make(
    directory: &Path,
    image: &Image,
    itself: &ReplicaIdentity,
    origin: Origin,
    takes: Takes<'_>,
) -> anyhow::Result<()> {
    let parent = directory.parent().context("not the path of a directory")?;
    let name = directory.file_name().context("not the path of a directory")?;
    let name = format!(".{}.loading-{}", name.to_string_lossy(), std::process::id());
    let unfinished = parent.join(name);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(parent);
    made.with_context(|| format!("cannot create {}", parent.display()))?;
    ensure!(
        !unfinished.exists(),
        "{} exists, left from an interrupted run: remove it",
        unfinished.display()
    );
    let filled = fill(&unfinished, image, origin, takes);
    let done = filled.and_then(|()| itself.write(&unfinished)).and_then(|()| {
        fs::rename(&unfinished, directory)
            .and_then(|()| File::open(parent)?.sync_all())
            .with_context(|| format!("cannot rename to {}", directory.display()))
    });
    if done.is_err() {
        let _absent = fs::remove_dir_all(&unfinished);
    }
    done
}

fn fill(path: &Path, image: &Image, origin: Origin, takes: Takes<'_>) -> anyhow::Result<()> {
    let data = DataDirectory::create(path)?;
    match (takes.tls, &image.name) {
        (Some(former), _) => drop(Authority::copy(former, data.tls())?),
        (None, Some(name)) => drop(Authority::create(data.tls(), name.as_str())?),
        (None, None) => {}
    }
    if let Some(events) = takes.events {
        take_over(&data, events, image.index)?;
    }
    let (mut log, _) = Log::open(data.log(), Options::default())?;
    checkpoint::begin_anew(&data, &mut log, image, origin)
}

/// Takes over the former master's events up to an operation. Those after it are of changes that the
/// new cell does not have.
fn take_over(data: &DataDirectory, mut former: Reader, index: LogIndex) -> anyhow::Result<()> {
    let (mut events, _) = Events::open(data.events(), store::events::Options::default())?;
    let next = index.0.saturating_add(1);
    let lost = events.resume_from(next, &mut [&mut former], &|| false)?;
    events.sync(index.0)?;
    if let Some(last) = events.last() {
        let some = if lost == Some(true) { " some before that are missing;" } else { "" };
        eprintln!(
            "the former master's events are taken over, up to {last};{some} those after index {index} stay there"
        );
    }
    Ok(())
}
