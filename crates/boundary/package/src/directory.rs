//! Packs a directory.
//!
//! The package depends on names, contents and permission bits alone, so the same files make the
//! same package on every machine: all entries belong to root, were modified in 1970, and have no
//! extended attributes. Hard links within the directory are kept. Symbolic links are kept as they
//! are and never followed.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    Dir, FileType, Mode, OFlags, SeekFrom, Stat, fstat, major, minor, readlinkat, seek,
};

use crate::chunk::{ChunkSink, Contents};
use crate::limits::{Budget, LimitError, PackageLimits};
use crate::manifest::{Manifest, ManifestError, Packed, Variant};
use crate::sys::{self, Attempt as _, Failed, open_directory, stat, type_of};
use crate::tree::{
    self, Attributes, Builder, Device, EncodeError, EntryKind, EntryPath, InodeId, MODE_MAX, Node,
    PathError,
};

/// A directory cannot be packed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// A file operation failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A socket belongs to a process, and a package has none.
    #[error("{} is a socket, which cannot be in a package: remove it, or pack another directory",
            path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
    },
    /// The character device 0/0 hides files in overlay mounts.
    #[error("{} is the character device 0/0, which overlay mounts take for a deleted file: pack \
             the mount instead of one of its layers", path.display())]
    Whiteout {
        /// The device.
        path: PathBuf,
    },
    /// A file was modified or replaced while it was read.
    #[error("{} changed while it was packed: stop what writes to it, and pack again",
            path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A path is too long.
    #[error(transparent)]
    Path(#[from] PathError),
    /// There is too much.
    #[error("{} is too large for a package: {source}", path.display())]
    Limit {
        /// The directory that was packed.
        path: PathBuf,
        /// The limit.
        source: LimitError,
    },
    /// The tree cannot be encoded or kept.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The manifest would not be valid.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// Packs the files below a directory as a package of one variant for all architectures, with one
/// layer. The directory itself is not an entry.
///
/// # Errors
/// The first file that cannot be packed. Some chunks may have been kept.
pub fn pack(
    directory: &Path,
    sink: &mut dyn ChunkSink,
    limits: &PackageLimits,
) -> Result<Packed, PackError> {
    let root = rustix::fs::open(
        directory,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    let root = root.map_err(|error| PackError::Io {
        action: "open the directory",
        path: directory.to_owned(),
        source: error.into(),
    })?;
    let mut packing = Packing {
        path: directory,
        root,
        contents: Contents::new(&mut *sink),
        budget: Budget::new(limits),
        builder: Builder::default(),
        links: HashMap::new(),
        waiting: VecDeque::from([None]),
    };
    while let Some(next) = packing.waiting.pop_front() {
        packing.directory(next.as_ref())?;
    }
    let tree = packing.builder.finish();
    let layer = tree::encode(&tree, sink)?;
    let variant = Variant { layers: vec![layer], ..Variant::default() };
    Ok(Manifest { variants: vec![variant] }.encode()?)
}

struct Packing<'a> {
    path: &'a Path,
    root: OwnedFd,
    contents: Contents<'a>,
    budget: Budget,
    builder: Builder,
    /// Files with several names, by device and inode.
    links: HashMap<(u64, u64), InodeId>,
    /// Directories that are still to be read; `None` is the root.
    waiting: VecDeque<Option<EntryPath>>,
}

impl Packing<'_> {
    fn failed(&self, path: &[u8]) -> impl Fn(Failed) -> PackError + use<'_> {
        let path = self.path.join(sys::name(path));
        move |(action, source)| PackError::Io { action, path: path.clone(), source }
    }

    fn directory(&mut self, path: Option<&EntryPath>) -> Result<(), PackError> {
        let path = path.map_or(&b""[..], EntryPath::as_bytes);
        let directory = open_directory(self.root.as_fd(), path, OFlags::RDONLY)
            .action("open the directory")
            .map_err(self.failed(path))?;
        for entry in
            Dir::read_from(&directory).action("read the directory").map_err(self.failed(path))?
        {
            let entry = entry.action("read the directory").map_err(self.failed(path))?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let path = match path {
                b"" => EntryPath::new(name)?,
                _ => EntryPath::new(&[path, b"/", name].concat())?,
            };
            self.entry(directory.as_fd(), path)?;
        }
        Ok(())
    }

    fn entry(&mut self, above: BorrowedFd<'_>, path: EntryPath) -> Result<(), PackError> {
        let limit = |source| PackError::Limit { path: self.path.to_owned(), source };
        self.budget.entry().map_err(limit)?;
        let stat = stat(above, path.name()).action("inspect");
        let stat = stat.map_err(self.failed(path.as_bytes()))?;
        let absolute = || self.path.join(path.as_path());
        let attributes = Attributes { mode: stat.st_mode & MODE_MAX, ..Attributes::default() };
        let several = stat.st_nlink > 1 && type_of(&stat) != FileType::Directory;
        if let Some(id) = self.links.get(&(stat.st_dev, stat.st_ino)).filter(|_| several) {
            self.builder.nodes.insert(path, Node::Inode(*id));
            return Ok(());
        }
        let kind = match type_of(&stat) {
            FileType::Directory => {
                let node = Node::Directory { opaque: false, attributes };
                self.builder.nodes.insert(path.clone(), node);
                self.waiting.push_back(Some(path));
                return Ok(());
            }
            FileType::RegularFile => self.file(above, &path, &stat)?,
            FileType::Symlink => {
                let target = readlinkat(above, sys::name(path.name()), Vec::new());
                let target = target.action("read the symbolic link");
                let target = target.map_err(self.failed(path.as_bytes()))?.into_bytes();
                EntryKind::Symlink { target }
            }
            FileType::CharacterDevice if stat.st_rdev == 0 => {
                return Err(PackError::Whiteout { path: absolute() });
            }
            FileType::CharacterDevice => EntryKind::CharDevice(device(&stat)),
            FileType::BlockDevice => EntryKind::BlockDevice(device(&stat)),
            FileType::Fifo => EntryKind::Fifo,
            FileType::Socket => return Err(PackError::Socket { path: absolute() }),
            FileType::Unknown => {
                let source = io::Error::other("its type is unknown");
                return Err(PackError::Io { action: "pack", path: absolute(), source });
            }
        };
        let id = self.builder.inode(kind, attributes);
        if several {
            self.links.insert((stat.st_dev, stat.st_ino), id);
        }
        self.builder.nodes.insert(path, Node::Inode(id));
        Ok(())
    }

    fn file(
        &mut self,
        above: BorrowedFd<'_>,
        path: &EntryPath,
        seen: &Stat,
    ) -> Result<EntryKind, PackError> {
        let changed = || PackError::Changed { path: self.path.join(path.as_path()) };
        // Not blocking: it may have become a pipe.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match sys::open_below(above, path.name(), flags) {
            Ok(file) => File::from(file),
            // What was a file is a symbolic link now.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                return Err(changed());
            }
            Err(error) => return Err(self.failed(path.as_bytes())(("open", error))),
        };
        let opened = fstat(&file).action("inspect").map_err(self.failed(path.as_bytes()))?;
        if version(&opened) != version(seen) {
            return Err(changed());
        }
        let bytes = u64::try_from(opened.st_size).unwrap_or_default();
        let limit = |source| PackError::Limit { path: self.path.to_owned(), source };
        self.budget.file(path.as_bytes(), bytes).map_err(limit)?;
        let segments =
            read(&mut self.contents, &file, &opened).and_then(|()| self.contents.finish());
        let segments = match segments {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(changed()),
            segments => segments.action("pack").map_err(self.failed(path.as_bytes()))?,
        };
        let after = fstat(&file).action("inspect").map_err(self.failed(path.as_bytes()))?;
        if version(&after) != version(&opened) {
            return Err(changed());
        }
        Ok(EntryKind::File { segments })
    }
}

/// What changes when a file is modified or replaced. The time of the last change is that of the
/// clock at a tick, 4 ms at most.
fn version(stat: &Stat) -> [u64; 8] {
    #[expect(clippy::cast_sign_loss, reason = "compared for equality alone")]
    [
        stat.st_dev,
        stat.st_ino,
        u64::from(stat.st_mode),
        stat.st_size as u64,
        stat.st_mtime as u64,
        stat.st_mtime_nsec,
        stat.st_ctime as u64,
        stat.st_ctime_nsec,
    ]
}

fn device(stat: &Stat) -> Device {
    Device { major: major(stat.st_rdev), minor: minor(stat.st_rdev) }
}

/// Reads a whole file, without what the file system says are holes.
fn read(contents: &mut Contents<'_>, file: &File, stat: &Stat) -> io::Result<()> {
    /// The unit of the blocks of a file, in bytes.
    const BLOCK_BYTES: i64 = 512;
    let bytes = u64::try_from(stat.st_size).unwrap_or_default();
    let sparse = stat.st_blocks.saturating_mul(BLOCK_BYTES) < stat.st_size;
    let mut position = 0;
    while sparse && position < bytes {
        let data = match seek(file, SeekFrom::Data(position)) {
            Ok(data) => data.min(bytes),
            Err(rustix::io::Errno::NXIO) => bytes,
            // The file system does not know its holes.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        };
        contents.hole(data - position)?;
        position = data;
        if data < bytes {
            let end = seek(file, SeekFrom::Hole(data))?.min(bytes);
            seek(file, SeekFrom::Start(data))?;
            contents.read(&mut &*file, end - data)?;
            position = end;
        }
    }
    if position < bytes {
        seek(file, SeekFrom::Start(position))?;
        contents.read(&mut &*file, bytes - position)?;
    }
    Ok(())
}
