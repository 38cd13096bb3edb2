//! Free disk space, space reserved in advance, and files without a name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, FallocateFlags, RenameFlags, fallocate, renameat2};
use nix::sys::statfs::{OVERLAYFS_SUPER_MAGIC, statfs};
use nix::sys::statvfs::statvfs;

use crate::FileError;
use crate::cgroup::{CgroupError, TaskCgroup};
use crate::error::At;
pub use crate::error::is_no_room;
use crate::tree::Used;

/// A replaced file is padded to a multiple of this length: whole blocks on every file system.
const REPLACED_BYTES: u16 = 4096;
/// The maximum number of open files of one task that are examined.
const OPEN_FILES_MAX: usize = 100_000;

/// The size of a file system, and the space available to unprivileged users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The size in bytes.
    pub bytes: u64,
    /// The free bytes.
    pub free_bytes: u64,
    /// The bytes in use. Free bytes that are reserved for root are neither in use nor in `free_bytes`.
    pub used_bytes: u64,
    /// The maximum number of files; `None` if only space limits it.
    pub files: Option<u64>,
    /// The number of files that can still be created.
    pub free_files: u64,
}

impl Disk {
    /// Measures the file system of a directory.
    ///
    /// # Errors
    /// When the kernel returns an error.
    pub fn of(directory: &Path) -> Result<Self, FileError> {
        let found = statvfs(directory).at("measure the disk of", directory)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.fragment_size());
        let files = Some(found.files()).filter(|files| *files > 0);
        Ok(Self {
            bytes: bytes(found.blocks()),
            free_bytes: bytes(found.blocks_available()),
            used_bytes: bytes(found.blocks().saturating_sub(found.blocks_free())),
            files,
            free_files: files.map_or(u64::MAX, |_| found.files_available()),
        })
    }
}

/// The disk of a directory, by its major and minor number: of the whole disk if it is on a partition.
///
/// # Errors
/// When the file system is on no single block device, such as tmpfs, overlayfs and btrfs, or the kernel does
/// not know the device.
pub fn device(directory: &Path) -> Result<(u32, u32), FileError> {
    let device = fs::metadata(directory).at("find the disk of", directory)?.dev();
    let (major, minor) = (libc::major(device), libc::minor(device));
    let known = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    fs::metadata(&known).at("find the block device", &known)?;
    if !known.join("partition").exists() {
        return Ok((major, minor));
    }
    // The entry is a link to the partition's directory, which is in that of its disk.
    let whole = fs::canonicalize(&known).at("find the disk of partition", &known)?;
    let whole = whole.parent().unwrap_or(&whole).join("dev");
    let text = fs::read_to_string(&whole).at("read", &whole)?;
    let numbers = text.trim().split_once(':');
    let numbers =
        numbers.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let unknown = || io::Error::new(io::ErrorKind::InvalidData, "not the numbers of a device");
    numbers.ok_or_else(unknown).at("understand", &whole)
}

/// Creates or opens a file and allocates this many bytes, so that they can be written even when the
/// disk is full. Only its owner can read it.
///
/// On copy-on-write file systems there is no such guarantee.
///
/// # Errors
/// When there is no space for it.
pub fn reserve(path: &Path, bytes: u16) -> Result<File, FileError> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(path).at("create", path)?;
    let reserved = match fallocate(&file, FallocateFlags::empty(), 0, bytes.into()) {
        // Some file systems cannot; writing allocates the space, too.
        Err(Errno::EOPNOTSUPP) => file.write_all(&vec![0; bytes.into()]),
        reserved => reserved.map_err(io::Error::from),
    };
    reserved.at("reserve room for", path)?;
    Ok(file)
}

/// Replaces the content of a text file atomically and durably: a reader sees either the old or the
/// new text. The file is padded with newlines to a multiple of 4 KiB.
///
/// After the first call this needs no disk space: the replaced file keeps its blocks and is
/// overwritten by the next call. It has the file's name with a leading dot and the suffix `.new`.
///
/// # Errors
/// When the disk is full at the first call, or fails.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), FileError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let next = path.with_file_name(format!(".{name}.new"));
    let mut file = reserve(&next, REPLACED_BYTES)?;
    let mut text = content.to_vec();
    text.resize(content.len().next_multiple_of(REPLACED_BYTES.into()), b'\n');
    file.write_all(&text).at("write", &next)?;
    file.set_len(text.len() as u64).at("write", &next)?;
    file.sync_all().at("sync", &next)?;
    let exchanged = renameat2(AT_FDCWD, &next, AT_FDCWD, path, RenameFlags::RENAME_EXCHANGE);
    match exchanged {
        Ok(()) => {}
        // The first call; or the file system does not support the exchange.
        Err(Errno::ENOENT | Errno::EINVAL | Errno::ENOSYS) => {
            fs::rename(&next, path).at("rename to", path)?;
            // If there is no space for that, the next call may fail.
            let _no_room = reserve(&next, REPLACED_BYTES);
        }
        Err(error) => return Err(FileError::new("rename to", path, error.into())),
    }
    let directory = path.parent().unwrap_or(Path::new("."));
    File::open(directory).and_then(|directory| directory.sync_all()).at("sync", directory)
}

/// The disk usage of files on the file system of a directory that the processes of a task have open
/// and that have no name any more: they are freed when those processes end.
///
/// A file below the root of an image is on an overlay, which has a number of its own and keeps the file in the
/// task's directory; a file of the layers below has a name there, and does not count.
///
/// # Errors
/// When its processes cannot be listed.
pub fn unnamed(cgroup: &TaskCgroup, directory: &Path) -> Result<Used, CgroupError> {
    let Ok(device) = fs::metadata(directory).map(|found| found.dev()) else {
        return Ok(Used::default());
    };
    let mut used = Used::default();
    let mut devices = BTreeMap::from([(device, true)]);
    let mut seen = BTreeSet::new();
    let mut left = OPEN_FILES_MAX;
    for pid in cgroup.processes()? {
        // Both contain links that lead to the open file itself, whatever its name.
        for place in ["fd", "map_files"] {
            let Ok(entries) = fs::read_dir(format!("/proc/{pid}/{place}")) else { continue };
            for entry in entries.flatten() {
                if left == 0 {
                    return Ok(Used { more: true, ..used });
                }
                left -= 1;
                let Ok(found) = fs::metadata(entry.path()) else { continue };
                if found.nlink() > 0 {
                    continue;
                }
                let on_disk = *devices.entry(found.dev()).or_insert_with(|| {
                    let system = statfs(&entry.path()).map(|system| system.filesystem_type());
                    system.is_ok_and(|kind| kind == OVERLAYFS_SUPER_MAGIC)
                });
                if on_disk && seen.insert((found.dev(), found.ino())) {
                    let bytes = found.blocks().saturating_mul(512);
                    used = used.plus(Used { bytes, files: 1, more: false });
                }
            }
        }
    }
    Ok(used)
}
