//! Writes a file or a directory as a tar archive, for [`super::unpack`].
//!
//! The archive has one entry at the top, under the name of the source; each directory comes before
//! what is in it. What is no file, directory or safe link is left out, and said.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use nix::fcntl::OFlag;
use nix::sys::statfs::{
    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, PROC_SUPER_MAGIC, SYSFS_MAGIC, fstatfs,
};
use tar::{Builder, EntryType, Header};

use super::{Copied, stays_inside};

/// The bytes of a file that does not say its size.
const MADE_BYTES_MAX: u64 = 16 << 20;

/// Writes the archive of `source`, and calls `skipped` with each path that is left out and why.
///
/// # Errors
/// If something cannot be read, a file becomes shorter meanwhile, or the archive cannot be written. The
/// archive is then incomplete, and never a whole one with other content.
pub fn pack(
    source: &Path,
    archive: impl Write,
    skipped: &mut dyn FnMut(&Path, &str),
) -> anyhow::Result<Copied> {
    let about = || format!("cannot read {}", source.display());
    // A link that is named itself is followed, as cp does; its name stays.
    let named = source.file_name();
    let source = fs::canonicalize(source).with_context(about)?;
    let name = named.or(source.file_name()).map_or_else(|| PathBuf::from("root"), PathBuf::from);
    pack_as(source, name, archive, skipped)
}

/// The same of a source that is no link, under a name: no link on the way to it is followed either.
///
/// # Errors
/// As of [`pack`].
pub fn pack_as(
    source: PathBuf,
    name: PathBuf,
    archive: impl Write,
    skipped: &mut dyn FnMut(&Path, &str),
) -> anyhow::Result<Copied> {
    let mut archive = Builder::new(archive);
    let mut copied = Copied::default();
    let mut waiting = vec![(source, name)];
    while let Some((path, name)) = waiting.pop() {
        let about = || format!("cannot read {}", path.display());
        let found = fs::symlink_metadata(&path).with_context(about)?;
        let mut header = header(&found);
        if found.is_dir() {
            header.set_entry_type(EntryType::Directory);
            archive.append_data(&mut header, &name, io::empty()).with_context(about)?;
            let mut inside = fs::read_dir(&path)
                .and_then(Iterator::collect::<io::Result<Vec<_>>>)
                .with_context(about)?;
            // The last one is next.
            inside.sort_by_key(|entry| std::cmp::Reverse(entry.file_name()));
            waiting.extend(inside.iter().map(|entry| (entry.path(), name.join(entry.file_name()))));
        } else if found.is_file() {
            copied.add(file(&mut archive, &path, &name)?);
        } else if found.is_symlink() {
            let target = fs::read_link(&path).with_context(about)?;
            if stays_inside(&name, &target) {
                header.set_entry_type(EntryType::Symlink);
                archive.append_link(&mut header, &name, &target).with_context(about)?;
            } else {
                skipped(&path, "a link to what is not copied with it");
            }
        } else {
            skipped(&path, "neither a file nor a directory");
        }
    }
    archive
        .into_inner()
        .and_then(|mut archive| archive.flush())
        .context("cannot write the archive")?;
    Ok(copied)
}

/// Appends a file as it is when it is opened; returns its size.
fn file<W: Write>(archive: &mut Builder<W>, path: &Path, name: &Path) -> anyhow::Result<u64> {
    let about = || format!("cannot read {}", path.display());
    // Whatever has replaced it meanwhile: no other file, and no pipe that is waited for.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path);
    let mut file: File = opened.with_context(about)?;
    let found = file.metadata().with_context(about)?;
    ensure!(found.is_file(), "{} is not a file any more", path.display());
    let mut header = header(&found);
    header.set_entry_type(EntryType::Regular);
    if is_made_when_read(&file, &found) {
        return made(archive, header, file, path, name);
    }
    header.set_size(found.len());
    let mut content = (&mut file).take(found.len());
    archive.append_data(&mut header, name, &mut content).with_context(about)?;
    if content.limit() > 0 {
        bail!("{} became shorter while it was copied", path.display());
    }
    Ok(found.len())
}

/// Whether the kernel makes the content of a file when it is read, as in `/proc`: its size says nothing.
fn is_made_when_read(file: &File, found: &Metadata) -> bool {
    let made = [PROC_SUPER_MAGIC, SYSFS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC];
    found.len() == 0 || fstatfs(file).is_ok_and(|system| made.contains(&system.filesystem_type()))
}

/// Appends a file by its content, which is read first; returns its size.
fn made<W: Write>(
    archive: &mut Builder<W>,
    mut header: Header,
    file: File,
    path: &Path,
    name: &Path,
) -> anyhow::Result<u64> {
    let about = || format!("cannot read {}", path.display());
    let mut content = Vec::new();
    file.take(MADE_BYTES_MAX + 1).read_to_end(&mut content).with_context(about)?;
    let size = u64::try_from(content.len())?;
    ensure!(
        size <= MADE_BYTES_MAX,
        "{} does not say its size, and has more than {} MiB",
        path.display(),
        MADE_BYTES_MAX >> 20
    );
    header.set_size(size);
    archive.append_data(&mut header, name, content.as_slice()).with_context(about)?;
    Ok(size)
}

fn header(found: &Metadata) -> Header {
    let mut header = Header::new_gnu();
    header.set_size(0);
    header.set_mode(found.mode() & 0o777);
    header.set_mtime(u64::try_from(found.mtime()).unwrap_or_default());
    header
}
