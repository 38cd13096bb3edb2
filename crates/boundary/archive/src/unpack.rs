//! Reads an archive of [`super::pack`]. The archive is not trusted: a task may send anything. Nothing
//! outside of the destination is changed.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail, ensure};
use tar::{Archive, Entry, EntryType};

use super::{Copied, stays_inside};

/// The longest path or target of a link.
const PATH_BYTES_MAX: u64 = 4_096;

/// What the next entry is called, where its own header has no room for it.
#[derive(Default)]
struct LongNames {
    path: Option<PathBuf>,
    target: Option<PathBuf>,
}

/// What the entry at the top of an archive may be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Top {
    /// Anything: the sender may write here anyway.
    Any,
    /// This and nothing else: the last part of the path that was asked for.
    Named(OsString),
    /// Anything, and it is written under this name: the path that was asked for has no name of its own.
    WrittenAs(OsString),
}

/// A directory whose content follows.
struct OpenDirectory {
    name: PathBuf,
    place: PathBuf,
    /// The mode and time of a new one. They are set at the end, so that it can be written into.
    new: Option<(u32, SystemTime)>,
}

/// Writes what is in an archive to `destination`: into it, if it is a directory, else under its name.
///
/// Each file appears when it is complete, and replaces the one that was there.
///
/// # Errors
/// If the archive is damaged, incomplete, names anything outside or not what was asked for, or something
/// cannot be written. What came before it stays.
pub fn unpack(archive: impl Read, destination: &Path, expected: Top) -> anyhow::Result<Copied> {
    let is_there = destination.is_dir();
    let says_directory = destination.to_string_lossy().ends_with('/');
    ensure!(is_there || !says_directory, "there is no directory {}", destination.display());
    let mut archive = Archive::new(archive);
    let mut unpacking = Unpacking {
        destination: destination.to_owned(),
        is_there,
        expected,
        has_top: false,
        open: Vec::new(),
        copied: Copied::default(),
    };
    let mut long = LongNames::default();
    for entry in archive.entries().context(DAMAGED)?.raw(true) {
        let mut entry = entry.context(DAMAGED)?;
        match entry.header().entry_type() {
            EntryType::GNULongName => long.path = Some(name(&mut entry)?),
            EntryType::GNULongLink => long.target = Some(name(&mut entry)?),
            _ => unpacking.take(&mut entry, std::mem::take(&mut long))?,
        }
    }
    unpacking.close(None)?;
    ensure!(unpacking.has_top, "nothing was sent");
    Ok(unpacking.copied)
}

const DAMAGED: &str = "the archive is damaged or incomplete";

/// A long name that precedes its entry.
fn name(entry: &mut Entry<'_, impl Read>) -> anyhow::Result<PathBuf> {
    ensure!(entry.size() <= PATH_BYTES_MAX + 1, "a path in the archive is too long");
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).context(DAMAGED)?;
    bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
    Ok(OsString::from_vec(bytes).into())
}

struct Unpacking {
    destination: PathBuf,
    /// Whether the destination was a directory before.
    is_there: bool,
    expected: Top,
    /// Whether the entry at the top has come.
    has_top: bool,
    /// The directories from the top to where the archive is; real directories, none of them a link.
    open: Vec<OpenDirectory>,
    copied: Copied,
}

impl Unpacking {
    fn take(&mut self, entry: &mut Entry<'_, impl Read>, long: LongNames) -> anyhow::Result<()> {
        let header = entry.header();
        let kind = header.entry_type();
        let name = match long.path {
            Some(path) => path,
            None => header.path().context(DAMAGED)?.into_owned(),
        };
        let mode = header.mode().context(DAMAGED)? & 0o777;
        let since = Duration::from_secs(header.mtime().context(DAMAGED)?.min(u64::from(u32::MAX)));
        let modified = SystemTime::UNIX_EPOCH + since;
        let place = self.place(&name)?;
        match kind {
            EntryType::Directory => {
                let new = match DirBuilder::new().mode(0o700).create(&place) {
                    Ok(()) => Some((mode, modified)),
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        let found = fs::symlink_metadata(&place).with_context(|| about(&place))?;
                        ensure!(found.is_dir(), "{} is there and no directory", place.display());
                        None
                    }
                    Err(error) => return Err(error).with_context(|| about(&place)),
                };
                self.open.push(OpenDirectory { name, place, new });
            }
            EntryType::Regular => {
                let size = entry.size();
                self.file(entry, &place, Permissions::from_mode(mode), modified)?;
                self.copied.add(size);
            }
            EntryType::Symlink => {
                let target = match long.target {
                    Some(target) => target,
                    None => {
                        let target = header.link_name().context(DAMAGED)?;
                        target.context(DAMAGED)?.into_owned()
                    }
                };
                ensure!(
                    stays_inside(&name, &target),
                    "the link {} leads outside of what is copied",
                    name.display()
                );
                replaceable(&place)?;
                match fs::remove_file(&place) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => symlink(&target, &place),
                }
                .with_context(|| about(&place))?;
            }
            _ => bail!("{} is neither a file, a directory nor a link", name.display()),
        }
        Ok(())
    }

    /// The name under which the entry at the top is written.
    fn top(&self, sent: &Path) -> anyhow::Result<PathBuf> {
        match &self.expected {
            Top::WrittenAs(name) => Ok(name.into()),
            Top::Named(name) => {
                ensure!(
                    sent == Path::new(name),
                    "{} was asked for, and the task sent {:?}: nothing is written",
                    name.display(),
                    sent.as_os_str(),
                );
                Ok(sent.to_owned())
            }
            Top::Any => Ok(sent.to_owned()),
        }
    }

    /// Where an entry belongs; closes the directories that it is not in.
    fn place(&mut self, name: &Path) -> anyhow::Result<PathBuf> {
        let mut parts = name.components();
        let top = match parts.next() {
            Some(Component::Normal(top)) => Path::new(top),
            _ => bail!("the archive names {}, which is outside", name.display()),
        };
        let is_plain = parts.clone().all(|part| matches!(part, Component::Normal(_)));
        let bytes = name.as_os_str().len();
        ensure!(
            is_plain && bytes as u64 <= PATH_BYTES_MAX,
            "the archive names {}, which is outside",
            name.display()
        );
        let rest = parts.as_path().to_owned();
        if rest.as_os_str().is_empty() {
            ensure!(!self.has_top, "the archive has more than one entry at the top");
            let top = self.top(top)?;
            self.has_top = true;
            return Ok(match self.is_there {
                true => self.destination.join(top),
                false => self.destination.clone(),
            });
        }
        let parent = name.parent();
        self.close(parent)?;
        let parent = self.open.last().filter(|open| Some(open.name.as_path()) == parent);
        let parent =
            parent.with_context(|| format!("{} comes before its directory", name.display()))?;
        Ok(parent.place.join(name.file_name().context(DAMAGED)?))
    }

    /// Closes all directories but those that contain `inside`.
    fn close(&mut self, inside: Option<&Path>) -> anyhow::Result<()> {
        while let Some(open) = self.open.last() {
            if inside.is_some_and(|inside| inside.starts_with(&open.name)) {
                break;
            }
            if let Some((mode, modified)) = open.new {
                let set = |directory: File| {
                    directory.set_modified(modified)?;
                    directory.set_permissions(Permissions::from_mode(mode))
                };
                File::open(&open.place).and_then(set).with_context(|| about(&open.place))?;
            }
            self.open.pop();
        }
        Ok(())
    }

    /// Writes a file under another name first.
    fn file(
        &self,
        content: &mut Entry<'_, impl Read>,
        place: &Path,
        mode: Permissions,
        modified: SystemTime,
    ) -> anyhow::Result<()> {
        replaceable(place)?;
        let size = content.size();
        let parent = match place.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut new = tempfile::Builder::new()
            .prefix(".bourg-cp-")
            .tempfile_in(parent)
            .with_context(|| about(place))?;
        let written = io::copy(content, &mut new).with_context(|| about(place))?;
        ensure!(written == size, "{DAMAGED}: {} is not whole", place.display());
        new.as_file()
            .set_permissions(mode)
            .and_then(|()| new.as_file().set_modified(modified))
            .with_context(|| about(place))?;
        new.persist(place).map_err(|error| error.error).with_context(|| about(place))?;
        Ok(())
    }
}

/// Only files and links are replaced.
fn replaceable(place: &Path) -> anyhow::Result<()> {
    match fs::symlink_metadata(place) {
        Ok(found) => ensure!(
            found.is_file() || found.is_symlink(),
            "{} is there and no file",
            place.display()
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| about(place)),
    }
    Ok(())
}

fn about(place: &Path) -> String {
    format!("cannot write {}", place.display())
}
