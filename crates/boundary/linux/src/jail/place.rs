//! Places in a root that is being built, where the jail mounts and writes.
//!
//! The files of an image are somebody else's work: `/etc` may be a link to `/`, to `../../tmp`, or to
//! nothing. The kernel resolves every path with the root that is built as the root (`openat2(2)`), so
//! no link leads out of it, and what is opened stays open: nobody resolves the path a second time.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchownat, symlinkat, unlinkat};

use super::{JailError, relative};
use crate::FileError;
use crate::error::At;
use crate::sys;

/// How many directories are created, and dangling links followed, for one path.
const STEPS_MAX: u32 = 64;

/// The owner of files: user and group.
pub(super) type Owner = (u32, u32);

/// A root that is being built.
pub(super) struct Base {
    root: OwnedFd,
    /// The owner of new directories and files; `None`: this process.
    owner: Option<Owner>,
}

/// A directory or file in it, as the jail will show it.
pub(super) struct JailPlace {
    file: OwnedFd,
    /// Leads to it, without resolving its name again.
    path: PathBuf,
    name: PathBuf,
}

/// What is to be at a place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaceKind {
    Directory,
    File,
}

impl Base {
    /// The root that is mounted at `at`.
    pub(super) fn open(at: &Path, owner: Option<Owner>) -> Result<Self, FileError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = nix::fcntl::open(at, flags, Mode::empty()).at("open", at)?;
        Ok(Self { root, owner })
    }

    /// The open root.
    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// The owner of new directories and files, if it is not this process.
    pub(super) fn owner(&self) -> Option<Owner> {
        self.owner
    }

    /// The directory `name`, which is created if missing, and which may be the root itself.
    pub(super) fn directory(&self, name: impl AsRef<Path>) -> Result<JailPlace, JailError> {
        self.directory_of(name, self.owner)
    }

    /// The same; what is created belongs to `owner`.
    pub(super) fn directory_of(
        &self,
        name: impl AsRef<Path>,
        owner: Option<Owner>,
    ) -> Result<JailPlace, JailError> {
        let name = Path::new("/").join(name);
        let made = self.make(relative(&name), owner, &mut { STEPS_MAX });
        Ok(JailPlace::of(made.map_err(|source| refused(&name, source))?, name))
    }

    /// Makes `name` a directory of the root itself, in place of a link or file: nobody expects it to be
    /// one, and what is mounted there must not be below another mount.
    pub(super) fn make_own(&self, name: &str) -> Result<(), JailError> {
        let flags = AtFlags::AT_SYMLINK_NOFOLLOW;
        let found = fstatat(&self.root, name, flags);
        if found.is_ok_and(|found| found.st_mode & libc::S_IFMT != libc::S_IFDIR) {
            unlinkat(&self.root, name, UnlinkatFlags::NoRemoveDir)
                .at("replace", Path::new("/").join(name))?;
        }
        self.directory(name).map(drop)
    }

    /// The directory or file `name`, which is created if missing, to mount on it.
    pub(super) fn mount_point(
        &self,
        name: impl AsRef<Path>,
        kind: PlaceKind,
    ) -> Result<JailPlace, JailError> {
        let place = match kind {
            PlaceKind::Directory => self.directory(name)?,
            PlaceKind::File => self.file(name.as_ref())?,
        };
        let of = |file: BorrowedFd<'_>| fstat(file).at("look at", &place.name);
        if is_same(&of(place.file.as_fd())?, &of(self.root.as_fd())?) {
            let source = io::Error::other("it leads to the root itself");
            return Err(refused(&place.name, source));
        }
        Ok(place)
    }

    /// The file `name`, which is created if missing.
    fn file(&self, name: &Path) -> Result<JailPlace, JailError> {
        let name = Path::new("/").join(name);
        let parent = self.directory(name.parent().unwrap_or(&name))?;
        let last = name.file_name().unwrap_or_default();
        let made = match self.resolve(relative(&name), OFlag::O_PATH) {
            Err(Errno::ENOENT) => parent.create(last, self.owner).map(OwnedFd::from),
            Ok(file) if is_directory(&file) => Err(Errno::EISDIR.into()),
            found => found.map_err(Into::into),
        };
        Ok(JailPlace::of(made.map_err(|source| refused(&name, source))?, name))
    }

    /// The content of the regular file `name`, of at most `bytes_max`; `None` if there is none.
    pub(super) fn read(&self, name: &str, bytes_max: u64) -> io::Result<Option<RegularFile>> {
        // A pipe must not block, and a terminal not become this process's.
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let file = match self.resolve(relative(Path::new(name)), flags) {
            Ok(file) => File::from(file),
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EACCES | Errno::ENXIO) => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let found = file.metadata()?;
        if !found.is_file() {
            return Ok(None);
        }
        let mut content = Vec::new();
        file.take(bytes_max + 1).read_to_end(&mut content)?;
        if content.len() as u64 > bytes_max {
            return Err(io::Error::other(format!("it has more than {bytes_max} bytes")));
        }
        Ok(Some(RegularFile { content, owner: (found.uid(), found.gid()) }))
    }

    /// Opens the directory at a relative path, and creates what is missing on the way: also where a
    /// link leads to nothing.
    fn make(&self, path: &Path, owner: Option<Owner>, steps: &mut u32) -> io::Result<OwnedFd> {
        let directory = OFlag::O_PATH | OFlag::O_DIRECTORY;
        let mut opened = self.resolve(Path::new("."), directory)?;
        let mut prefix = PathBuf::new();
        for part in path.components() {
            let parent = prefix.clone();
            prefix.push(part);
            opened = match self.resolve(&prefix, directory) {
                Err(Errno::ENOENT) => {
                    *steps = steps.checked_sub(1).ok_or(Errno::ELOOP)?;
                    match mkdirat(&opened, part.as_os_str(), Mode::from_bits_truncate(0o755)) {
                        Ok(()) => give(&self.resolve(&prefix, directory)?, owner)?,
                        Err(Errno::EEXIST) => {
                            let leads_to = PathBuf::from(readlinkat(&opened, part.as_os_str())?);
                            let leads_to = parent.join(leads_to);
                            self.make(relative(&leads_to), owner, steps)?;
                        }
                        Err(error) => return Err(error.into()),
                    }
                    self.resolve(&prefix, directory)?
                }
                found => found?,
            };
        }
        Ok(opened)
    }

    /// Opens a path with this root as the root.
    fn resolve(&self, path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
        resolve_in(self.root.as_fd(), path, flags)
    }
}

/// Opens a path with the directory `root` as the root: no link leads out of it.
pub(super) fn resolve_in(root: BorrowedFd<'_>, path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    // A link of /proc would lead to what this process has open.
    let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(resolve);
    sys::open_resolved(root, path, how)
}

/// What was read of a regular file.
pub(super) struct RegularFile {
    pub(super) content: Vec<u8>,
    /// As this process sees it.
    pub(super) owner: Owner,
}

impl JailPlace {
    fn of(file: OwnedFd, name: PathBuf) -> Self {
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        Self { file, path, name }
    }

    /// A path that leads to it as long as it lives.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The open directory or file.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Whether both are the same directory or file.
    pub(super) fn is(&self, other: &Self) -> bool {
        let of = |place: &Self| fstat(&place.file);
        matches!((of(self), of(other)), (Ok(one), Ok(two)) if is_same(&one, &two))
    }

    /// Does something with [`Self::path`]; an error then has its name in the jail instead.
    pub(super) fn with<E: Into<JailError>>(
        &self,
        work: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<(), JailError> {
        work(&self.path).map_err(|error| match error.into() {
            JailError::File(error) => self.named(error).into(),
            other => other,
        })
    }

    fn named(&self, error: FileError) -> FileError {
        match error.path.strip_prefix(&self.path) {
            Ok(rest) => FileError { path: self.name.join(rest), ..error },
            Err(_elsewhere) => error,
        }
    }

    /// Writes a file in this directory, in place of what has its name.
    pub(super) fn write(
        &self,
        name: &str,
        content: &[u8],
        owner: Option<Owner>,
    ) -> Result<(), JailError> {
        let path = self.name.join(name);
        let created = self.create(name, owner);
        let mut file = created.map_err(|source| not_replaced(&path, source))?;
        Ok(file.write_all(content).at("write", &path)?)
    }

    /// Makes a symbolic link in this directory, in place of what has its name.
    pub(super) fn link(&self, name: impl AsRef<Path>, leads_to: &Path) -> Result<(), JailError> {
        let name = name.as_ref();
        let linked = self.remove(name).and_then(|()| symlinkat(leads_to, &self.file, name));
        linked.map_err(|error| not_replaced(&self.name.join(name), error.into()))
    }

    /// Creates an empty file in this directory, in place of what has its name.
    fn create(&self, name: impl AsRef<Path>, owner: Option<Owner>) -> io::Result<File> {
        self.remove(name.as_ref())?;
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let file = openat(&self.file, name.as_ref(), flags, Mode::from_bits_truncate(0o644))?;
        give(&file, owner)?;
        Ok(file.into())
    }

    fn remove(&self, name: &Path) -> nix::Result<()> {
        match unlinkat(&self.file, name, UnlinkatFlags::NoRemoveDir) {
            Err(Errno::ENOENT) => Ok(()),
            removed => removed,
        }
    }
}

fn give(file: &OwnedFd, owner: Option<Owner>) -> nix::Result<()> {
    let Some((uid, gid)) = owner else { return Ok(()) };
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    fchownat(file, "", Some(uid), Some(gid), AtFlags::AT_EMPTY_PATH)
}

fn is_directory(file: &OwnedFd) -> bool {
    fstat(file).is_ok_and(|found| found.st_mode & libc::S_IFMT == libc::S_IFDIR)
}

fn is_same(one: &FileStat, other: &FileStat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

fn refused(target: &Path, source: io::Error) -> JailError {
    JailError::MountPoint { target: target.to_owned(), source }
}

fn not_replaced(target: &Path, source: io::Error) -> JailError {
    JailError::NotReplaced { target: target.to_owned(), source }
}
