//! Unpacks layers into a directory.
//!
//! Two modes: [`UnpackMode::Overlay`] makes a layer of an overlay mount, in an empty directory.
//! [`UnpackMode::Plain`] applies a layer to what is there, so several layers one after the other make a
//! whole root.
//!
//! Nothing is written outside of the directory, whatever entries of this or an earlier layer are:
//! each directory is opened with `openat2` and `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`, and
//! nothing that exists is opened for writing. Each chunk is compared with its digest.
//!
//! Deliberately absent: syncing (a caller who needs it calls `syncfs` once), progress (a source
//! can count), and cleaning up after an error: remove the directory then.

mod attributes;
mod remove;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{BorrowedFd, OwnedFd};

use model::Bytes;
use rustix::fs::{
    AtFlags, FileType, Mode as Permissions, OFlags, SeekFrom, ftruncate, linkat, makedev, mkdirat,
    mknodat, openat, seek, symlinkat,
};

use crate::chunk::{ChunkSource, Segment, fetch};
use crate::manifest::Layer;
use crate::sys::{Attempt as _, Failed, Parent, name, open_directory, stat, type_of};
use crate::tree::{
    Attributes, Device, EntryKind, EntryPath, ReadError, Tree, TreeEntry, TreeReader,
};

/// How a layer is unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnpackMode {
    /// As a layer of an overlay mount, into an empty directory. A whiteout becomes a character
    /// device 0/0.
    Overlay(Opaque),
    /// Onto what is there. Whiteouts remove it, and other entries replace it.
    Plain,
}

/// How an overlay mount sees that a directory is opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opaque {
    /// By the extended attribute `trusted.overlay.opaque`, which only root of the first user
    /// namespace sets.
    Trusted,
    /// By `user.overlay.opaque`, for mounts with the option `userxattr`.
    User,
}

impl Opaque {
    fn xattr(self) -> &'static [u8] {
        match self {
            Self::Trusted => b"trusted.overlay.opaque",
            Self::User => b"user.overlay.opaque",
        }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// The contents of files, without holes.
    pub bytes: Bytes,
    /// The number of entries.
    pub entries: u64,
}

/// A layer cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// A file operation failed.
    #[error("cannot {action} '{path}' of the package: {source}")]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The path in the package.
        path: EntryPath,
        /// The kernel's error.
        source: io::Error,
    },
    /// A chunk of a file is missing or damaged.
    #[error("cannot get the contents of '{path}': {source}")]
    Contents {
        /// The path in the package.
        path: EntryPath,
        /// The error of the source.
        source: io::Error,
    },
    /// The directory was not empty.
    #[error(
        "'{path}' exists already: a layer of an overlay mount is unpacked into an empty \
             directory"
    )]
    Exists {
        /// The path in the package.
        path: EntryPath,
    },
    /// A hard link has no file to link to.
    #[error(
        "'{path}' is a hard link to '{target}', which is not a file there: unpack the lower \
             layers first, or import the image again"
    )]
    Link {
        /// The path of the link.
        path: EntryPath,
        /// The path of the file.
        target: EntryPath,
    },
    /// The tree cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Unpacks a layer of a manifest into a directory.
///
/// # Errors
/// The first entry that cannot be read or written. What was written before it stays.
pub fn layer<S: ChunkSource + ?Sized>(
    layer: &Layer,
    source: &mut S,
    directory: BorrowedFd<'_>,
    mode: UnpackMode,
) -> Result<Unpacked, UnpackError> {
    let mut unpacker = Unpacker::new(directory, mode);
    let mut reader = TreeReader::new(layer);
    while let Some(entry) = reader.next(source)? {
        unpacker.entry(&entry, source)?;
    }
    unpacker.finish()
}

/// Unpacks a tree into a directory.
///
/// # Errors
/// The first entry that cannot be written. What was written before it stays.
pub fn tree<S: ChunkSource + ?Sized>(
    tree: &Tree,
    source: &mut S,
    directory: BorrowedFd<'_>,
    mode: UnpackMode,
) -> Result<Unpacked, UnpackError> {
    let mut unpacker = Unpacker::new(directory, mode);
    for entry in &tree.entries {
        unpacker.entry(entry, source)?;
    }
    unpacker.finish()
}

/// Unpacks entries one by one, in the order of a tree.
struct Unpacker<'a> {
    root: BorrowedFd<'a>,
    mode: UnpackMode,
    parent: Option<Parent>,
    /// Directories whose attributes are set at the end: what is written in them changes their
    /// time, and their mode may forbid writing.
    directories: Vec<Unfinished>,
    chunk: Vec<u8>,
    usage: Unpacked,
}

struct Unfinished {
    path: EntryPath,
    attributes: Attributes,
    opaque: bool,
    /// Whether it was there before.
    kept: bool,
}

impl<'a> Unpacker<'a> {
    fn new(root: BorrowedFd<'a>, mode: UnpackMode) -> Self {
        Self {
            root,
            mode,
            parent: None,
            directories: Vec::new(),
            chunk: Vec::new(),
            usage: Unpacked::default(),
        }
    }

    fn entry<S>(&mut self, entry: &TreeEntry, source: &mut S) -> Result<(), UnpackError>
    where
        S: ChunkSource + ?Sized,
    {
        let path = &entry.path;
        let failed = |failed: Failed| at(path, failed);
        self.usage.entries += 1;
        match &entry.kind {
            EntryKind::Directory { opaque } => self.directory(entry, *opaque)?,
            EntryKind::File { segments } => {
                // Usually the final mode; set-uid bits follow the owner.
                let mode = Permissions::from_raw_mode(entry.attributes.mode & 0o777);
                let file = self.create(path, |parent, name| {
                    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
                    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    openat(parent, name, flags, mode)
                })?;
                let file = File::from(file);
                self.contents(path, &file, segments, source)?;
                attributes::of_open(&file, &entry.attributes).map_err(failed)?;
            }
            EntryKind::HardLink { target } => self.link(path, target)?,
            EntryKind::Symlink { target } => {
                self.create(path, |parent, at| symlinkat(name(target), parent, at))?;
                let parent = Parent::of(&mut self.parent, self.root, path).map_err(failed)?;
                attributes::of_named(parent, path, None, &entry.attributes).map_err(failed)?;
            }
            EntryKind::CharDevice(device) => {
                self.node(entry, FileType::CharacterDevice, *device)?;
            }
            EntryKind::BlockDevice(device) => self.node(entry, FileType::BlockDevice, *device)?,
            EntryKind::Fifo => self.node(entry, FileType::Fifo, Device { major: 0, minor: 0 })?,
            EntryKind::Whiteout => self.whiteout(path)?,
        }
        Ok(())
    }

    /// Sets the attributes of the directories, the lowest first.
    fn finish(self) -> Result<Unpacked, UnpackError> {
        for directory in self.directories.iter().rev() {
            let path = &directory.path;
            let opaque = match self.mode {
                UnpackMode::Overlay(opaque) if directory.opaque => Some(opaque.xattr()),
                UnpackMode::Overlay(_) | UnpackMode::Plain => None,
            };
            let opened = open_directory(self.root, path.as_bytes(), OFlags::RDONLY)
                .action("open the directory");
            opened
                .and_then(|opened| {
                    if directory.kept {
                        attributes::remove_others(&opened, &directory.attributes)?;
                    }
                    opaque.map_or(Ok(()), |name| attributes::set_xattr(&opened, name, b"y"))?;
                    attributes::of_open(&opened, &directory.attributes)
                })
                .map_err(|failed| at(path, failed))?;
        }
        Ok(self.usage)
    }

    fn directory(&mut self, entry: &TreeEntry, opaque: bool) -> Result<(), UnpackError> {
        let path = &entry.path;
        let failed = |failed: Failed| at(path, failed);
        let kept = self.mode == UnpackMode::Plain && {
            let parent = Parent::of(&mut self.parent, self.root, path).map_err(failed)?;
            stat(parent, path.name()).is_ok_and(|stat| type_of(&stat) == FileType::Directory)
        };
        if kept && opaque {
            remove::below(self.root, path.as_bytes()).map_err(failed)?;
        }
        if !kept {
            self.create(path, |parent, name| {
                mkdirat(parent, name, Permissions::from_raw_mode(0o700))
            })?;
        }
        self.directories.push(Unfinished {
            path: path.clone(),
            attributes: entry.attributes.clone(),
            opaque,
            kept,
        });
        Ok(())
    }

    fn node(
        &mut self,
        entry: &TreeEntry,
        kind: FileType,
        device: Device,
    ) -> Result<(), UnpackError> {
        let path = &entry.path;
        let number = makedev(device.major, device.minor);
        self.create(path, |parent, name| {
            mknodat(parent, name, kind, Permissions::from_raw_mode(0o600), number)
        })?;
        let failed = |failed: Failed| at(path, failed);
        let parent = Parent::of(&mut self.parent, self.root, path).map_err(failed)?;
        let mode = Some(entry.attributes.mode);
        attributes::of_named(parent, path, mode, &entry.attributes).map_err(failed)
    }

    fn whiteout(&mut self, path: &EntryPath) -> Result<(), UnpackError> {
        if let UnpackMode::Overlay(_) = self.mode {
            return self.create(path, |parent, name| {
                let mode = Permissions::from_raw_mode(0o600);
                mknodat(parent, name, FileType::CharacterDevice, mode, makedev(0, 0))
            });
        }
        remove::all(self.root, path).map_err(|failed| at(path, failed))
    }

    fn link(&mut self, path: &EntryPath, target: &EntryPath) -> Result<(), UnpackError> {
        let failed = |failed: Failed| at(path, failed);
        let missing = || UnpackError::Link { path: path.clone(), target: target.clone() };
        let mut above = None;
        let above = Parent::of(&mut above, self.root, target).map_err(|_| missing())?;
        match stat(above, target.name()) {
            Ok(stat) if type_of(&stat) == FileType::RegularFile => {}
            Ok(_) => return Err(missing()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
            Err(error) => return Err(failed(("inspect the target of", error))),
        }
        self.create(path, |parent, at| {
            linkat(above, name(target.name()), parent, at, AtFlags::empty())
        })
    }

    /// Creates an entry. In plain mode it replaces what is there.
    fn create<T>(
        &mut self,
        path: &EntryPath,
        make: impl Fn(BorrowedFd<'_>, &std::ffi::OsStr) -> rustix::io::Result<T>,
    ) -> Result<T, UnpackError> {
        let failed = |failed: Failed| at(path, failed);
        let parent = Parent::of(&mut self.parent, self.root, path).map_err(failed)?;
        match (make(parent, name(path.name())), self.mode) {
            (Err(rustix::io::Errno::EXIST), UnpackMode::Overlay(_)) => {
                Err(UnpackError::Exists { path: path.clone() })
            }
            (Err(rustix::io::Errno::EXIST), UnpackMode::Plain) => {
                remove::all(self.root, path).map_err(failed)?;
                make(parent, name(path.name())).action("create").map_err(failed)
            }
            (made, _) => made.action("create").map_err(failed),
        }
    }

    fn contents<S: ChunkSource + ?Sized>(
        &mut self,
        path: &EntryPath,
        mut file: &File,
        segments: &[Segment],
        source: &mut S,
    ) -> Result<(), UnpackError> {
        let failed = |failed: Failed| at(path, failed);
        let mut length = 0;
        for segment in segments {
            length += segment.bytes();
            match segment {
                Segment::Chunk(chunk) => {
                    fetch(source, chunk, &mut self.chunk)
                        .map_err(|source| UnpackError::Contents { path: path.clone(), source })?;
                    file.write_all(&self.chunk).action("write").map_err(failed)?;
                    self.usage.bytes.0 += u64::from(chunk.bytes);
                }
                Segment::Hole(_) => {
                    seek(file, SeekFrom::Start(length)).action("write").map_err(failed)?;
                }
            }
        }
        if let Some(Segment::Hole(_)) = segments.last() {
            ftruncate(file, length).action("write").map_err(failed)?;
        }
        Ok(())
    }
}

fn at(path: &EntryPath, failed: Failed) -> UnpackError {
    let (action, source) = failed;
    UnpackError::Io { action, path: path.clone(), source }
}

/// Opens a directory to unpack into.
///
/// # Errors
/// The kernel's, if it cannot be opened or is no directory.
pub fn open(directory: &std::path::Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(directory, flags, Permissions::empty())?)
}
