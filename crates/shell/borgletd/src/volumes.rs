//! The volumes of this machine that tasks have: their marks, and how full they are.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use borglet::{Desired, DirectoryMark, FoundDirectory, Input, WrongDirectory, judge_directory};
use linux::Isolation;
use linux::disk::Disk;
use linux::mark::{self as marks, MarkText};
use linux::record::Bind;
use model::{Bytes, VolumeFault, VolumeFill, VolumeMount, VolumeName, VolumePath};
use rpc::Identity;
use tokio::sync::mpsc;

use crate::message::Message;
use crate::tasks::Files;

/// How often it is measured how full the volumes are.
const MEASURE: Duration = Duration::from_secs(20);

/// Measures how full the volumes are until the receiver is gone, and reports what has changed.
pub(crate) fn watch(files: Files, to_driver: mpsc::Sender<Message>) -> anyhow::Result<()> {
    let run = move || {
        let (mut told, mut orders): (Vec<VolumeFill>, u64) = (Vec::new(), 0);
        while !to_driver.is_closed() {
            let found = measured(&files.volumes.all());
            let differs = |new: &VolumeFill| {
                let before = told.iter().find(|before| before.volume == new.volume);
                before.is_none_or(|before| new.differs(before))
            };
            if found.len() != told.len() || found.iter().any(differs) {
                told.clone_from(&found);
                let _gone = to_driver.blocking_send(Message::Input(Input::Volumes(found)));
            }
            orders = files.volumes.wait(orders, MEASURE);
        }
    };
    let thread = std::thread::Builder::new().name("volumes".to_owned());
    thread.spawn(run).context("cannot start the thread that measures volumes").map(drop)
}

/// How full the file systems of directories are, and whether tasks can have these.
fn measured(volumes: &BTreeMap<VolumeName, VolumePath>) -> Vec<VolumeFill> {
    let of = |(name, path): (&VolumeName, &VolumePath)| {
        let path = Path::new(path.as_str());
        let fault = fault(path);
        let disk = Disk::of(path).ok().filter(|_| is_readable(fault));
        let (used, size) = match disk {
            Some(disk) => (disk.bytes.saturating_sub(disk.free_bytes), disk.bytes),
            None => (0, 0),
        };
        let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
        let is_part = size > 0 && device(path) == path.parent().and_then(device);
        let (volume, used, size) = (name.clone(), Bytes(used), Bytes(size));
        VolumeFill { volume, used, size, is_part, fault }
    };
    volumes.iter().map(of).collect()
}

/// Why tasks cannot have a directory.
fn fault(path: &Path) -> Option<VolumeFault> {
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => Some(VolumeFault::NotADirectory),
        Ok(_) => match marks::is_read_only(path) {
            Ok(false) => None,
            Ok(true) => Some(VolumeFault::ReadOnly),
            Err(_) => Some(VolumeFault::Inaccessible),
        },
        Err(error) => Some(match error.kind() {
            ErrorKind::NotFound => VolumeFault::Missing,
            ErrorKind::NotADirectory => VolumeFault::NotADirectory,
            _ => VolumeFault::Inaccessible,
        }),
    }
}

/// Whether there is a file system to measure.
fn is_readable(fault: Option<VolumeFault>) -> bool {
    matches!(fault, None | Some(VolumeFault::ReadOnly))
}

impl Files {
    /// The same on the machine that these credentials name.
    pub(crate) fn of_machine(mut self, identity: &Identity) -> Self {
        if let Identity::Borglet(name) = identity {
            self.machine = Some(name.as_str().into());
        }
        self
    }

    /// Finds out whether a task may have the directories of its volumes, and marks them as its own.
    pub(crate) fn mark_volumes(&self, desired: &Desired) -> anyhow::Result<()> {
        self.volumes.note(desired);
        for (volume, shown) in desired.volumes.iter().zip(self.volumes_of(desired)?) {
            let machine = self.machine.as_deref();
            mark(desired, volume, &shown.source, self.isolation, machine).with_context(|| {
                format!("the volume {} ({}) cannot be used", volume.name, volume.source)
            })?;
        }
        Ok(())
    }

    /// The volumes of a task, as its jail shows them. The Borglet's own files are none.
    pub(crate) fn volumes_of(&self, desired: &Desired) -> anyhow::Result<Vec<Bind>> {
        let own = fs::canonicalize(&self.directory).context("cannot find the own directory")?;
        let volumes = desired.volumes.iter().map(|volume| {
            let (source, target) = (volume.source.as_str(), volume.target.as_str());
            let unusable = || format!("the volume {} ({source}) cannot be used", volume.name);
            let source = fs::canonicalize(source).with_context(unusable)?;
            ensure!(
                !source.starts_with(&own) && !own.starts_with(&source),
                "{}: it has the files of the Borglet, {}",
                unusable(),
                own.display()
            );
            Ok(Bind { source, target: PathBuf::from(target), writable: !volume.read_only })
        });
        volumes.collect()
    }
}

/// Finds out whether the directory is what the order expects, and marks it.
fn mark(
    desired: &Desired,
    volume: &VolumeMount,
    source: &Path,
    isolation: Isolation,
    machine: Option<&str>,
) -> anyhow::Result<()> {
    ensure!(source.is_dir(), "it is not a directory");
    let said = match marks::read(source, isolation)? {
        MarkText::Is(text) => Some(text.parse::<DirectoryMark>()),
        MarkText::None => None,
        // Without root a mark is only a help.
        MarkText::NoSuchAttributes if isolation == Isolation::Rootless => return Ok(()),
        MarkText::NoSuchAttributes => bail!(
            "its file system has no extended attributes, in which the Borglet marks the volume: use one \
             such as ext4, xfs, btrfs or tmpfs"
        ),
    };
    let found = FoundDirectory {
        mark: said,
        is_empty: is_empty(source)?,
        is_read_only: marks::is_read_only(source)?,
    };
    let Desired { cell, .. } = desired;
    let judged = judge_directory(cell, &volume.name, &volume.mark, volume.read_only, &found);
    let new = judged.map_err(|wrong| {
        let help = match wrong {
            WrongDirectory::DataOfOthers(_) => "empty it",
            WrongDirectory::Unmarked | WrongDirectory::Another(_) => {
                "mount its disk, or restore its data"
            }
        };
        let machine = machine.unwrap_or("MACHINE");
        anyhow!(
            "{wrong}: {help}, or accept the directory as it is: bourg machine volume accept {machine} {}",
            volume.name
        )
    })?;
    if let Some(new) = new {
        marks::write(source, isolation, &new.to_string()).context("cannot mark it")?;
    }
    Ok(())
}

/// Whether nothing is in a directory but what a new file system has.
fn is_empty(directory: &Path) -> std::io::Result<bool> {
    for entry in fs::read_dir(directory)? {
        if entry?.file_name() != "lost+found" {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_task_can_have_is_reported_with_the_reason() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| place.path().join(name);
        fs::create_dir(at("data")).expect("it is new");
        fs::write(at("file"), "x").expect("there is room");
        let path = |name: &str| -> VolumePath {
            at(name).to_str().expect("a text").parse().expect("the path of a volume")
        };
        let names = ["data", "file", "file/below", "none"];
        let named = names.map(|name| {
            let volume = name.replace('/', "-").parse::<VolumeName>().expect("a name");
            (volume, path(name))
        });
        let found = measured(&BTreeMap::from(named));
        let faults: Vec<_> = found.iter().map(|fill| (fill.volume.as_str(), fill.fault)).collect();
        assert_eq!(
            faults,
            [
                ("data", None),
                ("file", Some(VolumeFault::NotADirectory)),
                ("file-below", Some(VolumeFault::NotADirectory)),
                ("none", Some(VolumeFault::Missing)),
            ]
        );
        assert!(found.iter().all(|fill| (fill.size > Bytes(0)) == fill.fault.is_none()));
    }

    #[test]
    fn a_volume_is_looked_at_as_soon_as_the_cell_says_it() {
        let known = crate::known_volumes::KnownVolumes::default();
        let waits = known.clone();
        let waiting = std::thread::spawn(move || waits.wait(0, Duration::from_secs(60)));
        let path = "/srv/data".parse().expect("a path");
        let volume: VolumeName = "data".parse().expect("a name");
        known.set(vec![borglet::VolumeDirectory { volume: volume.clone(), path }]);
        assert_eq!(waiting.join().expect("it ends"), 1);
        assert!(known.all().contains_key(&volume));
        assert_eq!(known.wait(1, Duration::ZERO), 1);
    }
}
