//! From a directory to a package.
//!
//! The same files are the same package on every machine and for every user: names, kinds, permission bits,
//! content, symbolic and hard links are kept; owners, times and extended attributes are not. Which
//! parts of a file are holes depends on its content only: pieces of at least 16 KiB that are zeros.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use model::Digest;
use nix::errno::Errno;
use nix::fcntl::{OFlag, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, major, minor};
use thiserror::Error;

use crate::beneath;
use crate::chunk::{ChunkSink, digest_of};
use crate::contents::{ContentError, Contents, OnceSink};
use crate::layer::{LayerWriteError, LayerWriter};
use crate::manifest::{Manifest, ManifestError, Variant};
use crate::tree::{EntryAttributes, EntryKind, MAX_ENTRIES, MODE_BITS, TreeEntry, TreeError};

/// How much is packed at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackLimits {
    /// The bytes of all files together, with holes.
    pub bytes: u64,
    /// How many entries there are.
    pub entries: u64,
}

impl Default for PackLimits {
    /// 64 GiB, and as many entries as a tree can have.
    fn default() -> Self {
        Self { bytes: 64 << 30, entries: MAX_ENTRIES }
    }
}

/// A package that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Of a directory: one variant for any architecture, with one layer, without a configuration.
    pub manifest: Manifest,
    /// The encoded manifest.
    pub bytes: Vec<u8>,
    /// The digest of the encoded manifest: the name of the package.
    pub digest: Digest,
}

/// A directory cannot be packed. Paths are relative to it.
#[derive(Debug, Error)]
pub enum PackError {
    /// A file or directory cannot be read.
    #[error("cannot {action} '{}': {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// Of what.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// It is a socket, or something else that a tree cannot have.
    #[error("'{}' is {kind}, which a package cannot have", path.display())]
    Unsupported {
        /// Where.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// It was changed or replaced while it was read.
    #[error("'{}' was changed while it was read", path.display())]
    Changed {
        /// Where.
        path: PathBuf,
    },
    /// With this file, the files have more bytes than allowed.
    #[error("the files up to '{}' have more than {limit} bytes", path.display())]
    TooManyBytes {
        /// The file with which it was too much.
        path: PathBuf,
        /// [`PackLimits::bytes`].
        limit: u64,
    },
    /// There are more files than allowed.
    #[error("there are more than {limit} files and directories, up to those in '{}'", path.display())]
    TooManyEntries {
        /// The directory with which it was too much.
        path: PathBuf,
        /// [`PackLimits::entries`].
        limit: u64,
    },
    /// A chunk cannot be kept.
    #[error("the chunks of '{}' cannot be kept: {source}", path.display())]
    Sink {
        /// What the chunk is of.
        path: PathBuf,
        /// What the sink says.
        source: io::Error,
    },
    /// A tree cannot have the entry.
    #[error("'{}' cannot be packed: {source}", path.display())]
    Tree {
        /// Where.
        path: PathBuf,
        /// Why.
        source: TreeError,
    },
    /// A manifest cannot have the tree: it is too large.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// Packs what is in a directory. All chunks go to the sink: of the files, of the tree, and last the
/// manifest as one chunk.
///
/// # Errors
///
/// See [`PackError`]. Chunks that were given to the sink until then are of no use.
pub fn pack(
    dir: &Path,
    sink: &mut dyn ChunkSink,
    limits: &PackLimits,
) -> Result<Packed, PackError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = nix::fcntl::open(dir, flags, Mode::empty()).map_err(|errno| PackError::Io {
        action: "open the directory",
        path: dir.into(),
        source: errno.into(),
    })?;
    let packer = Packer {
        root,
        limits: *limits,
        sink: OnceSink::new(sink),
        bytes: 0,
        links: HashMap::new(),
        contents: Contents::new(),
        layer: LayerWriter::new(),
    };
    packer.pack()
}

struct Packer<'a> {
    root: OwnedFd,
    limits: PackLimits,
    sink: OnceSink<'a>,
    /// Of all files so far, with holes.
    bytes: u64,
    /// The first path of each file that has more than one, by device and inode.
    links: HashMap<(u64, u64), Vec<u8>>,
    contents: Contents,
    layer: LayerWriter,
}

impl Packer<'_> {
    fn pack(mut self) -> Result<Packed, PackError> {
        let mut waiting = vec![Vec::new()];
        while let Some(path) = waiting.pop() {
            let is_directory = path.is_empty() || self.entry(&path)?;
            if !is_directory {
                continue;
            }
            let names = self.open("open", &path, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
            let names = beneath::names(names).map_err(io_error("list", &path))?;
            // The last one is taken next, so a directory is left before what is behind it.
            waiting.extend(names.iter().rev().map(|name| beneath::join(&path, name)));
            if self.layer.entries() + waiting.len() as u64 > self.limits.entries {
                let path = beneath::shown(&path);
                return Err(PackError::TooManyEntries { path, limit: self.limits.entries });
            }
        }
        self.finish()
    }

    /// Adds what is at a path to the tree. Returns whether it is a directory.
    fn entry(&mut self, path: &[u8]) -> Result<bool, PackError> {
        let found = self.open("open", path, OFlag::O_PATH | OFlag::O_NOFOLLOW)?;
        let stat = fstat(&found).map_err(io_error("examine", path))?;
        let device = || (number(major(stat.st_rdev)), number(minor(stat.st_rdev)));
        let unsupported = |kind| Err(PackError::Unsupported { path: beneath::shown(path), kind });
        let kind = match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
            SFlag::S_IFDIR => EntryKind::Directory { opaque: false },
            SFlag::S_IFREG => self.file(path, &stat)?,
            SFlag::S_IFLNK => {
                let target = readlinkat(&found, c"").map_err(io_error("read the link", path))?;
                EntryKind::Symlink { target: target.into_vec() }
            }
            SFlag::S_IFCHR => {
                let (major, minor) = device();
                EntryKind::CharDevice { major, minor }
            }
            SFlag::S_IFBLK => {
                let (major, minor) = device();
                EntryKind::BlockDevice { major, minor }
            }
            SFlag::S_IFIFO => EntryKind::Fifo,
            SFlag::S_IFSOCK => return unsupported("a socket"),
            _ => return unsupported("of an unknown kind"),
        };
        let is_directory = matches!(kind, EntryKind::Directory { .. });
        let attributes = match kind {
            EntryKind::HardLink { .. } => EntryAttributes::default(),
            _ => EntryAttributes { mode: stat.st_mode & MODE_BITS, ..EntryAttributes::default() },
        };
        let entry = TreeEntry { path: path.to_vec(), kind, attributes };
        self.layer.write(&entry, &mut self.sink).map_err(|error| {
            let path = beneath::shown(path);
            match error {
                LayerWriteError::Tree(source) => PackError::Tree { path, source },
                LayerWriteError::Sink(source) => PackError::Sink { path, source },
            }
        })?;
        Ok(is_directory)
    }

    fn file(&mut self, path: &[u8], stat: &FileStat) -> Result<EntryKind, PackError> {
        if stat.st_nlink > 1 {
            if let Some(target) = self.links.get(&(stat.st_dev, stat.st_ino)) {
                return Ok(EntryKind::HardLink { target: target.clone() });
            }
            self.links.insert((stat.st_dev, stat.st_ino), path.to_vec());
        }
        let shown = || beneath::shown(path);
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > self.limits.bytes {
            return Err(PackError::TooManyBytes { path: shown(), limit: self.limits.bytes });
        }
        // A pipe that takes the file's place must not block.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = File::from(self.open("open", path, flags)?);
        let state = |stat: FileStat| {
            let times = (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec);
            (stat.st_dev, stat.st_ino, stat.st_mode, stat.st_size, times)
        };
        let examine = || fstat(&file).map(state).map_err(io_error("examine", path));
        let before = state(*stat);
        if examine()? != before {
            return Err(PackError::Changed { path: shown() });
        }
        let read = self.contents.read(&mut &file, size, &mut self.sink);
        let segments = read.and_then(|()| self.contents.finish(&mut self.sink));
        let segments = segments.map_err(|error| match error {
            ContentError::Sink(source) => PackError::Sink { path: shown(), source },
            ContentError::Read(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                PackError::Changed { path: shown() }
            }
            ContentError::Read(source) => PackError::Io { action: "read", path: shown(), source },
        })?;
        if examine()? != before {
            return Err(PackError::Changed { path: shown() });
        }
        Ok(EntryKind::File { segments })
    }

    fn finish(mut self) -> Result<Packed, PackError> {
        let kept = |source| PackError::Sink { path: ".".into(), source };
        let layer = self.layer.finish(&mut self.sink).map_err(kept)?;
        let variant = Variant { layers: vec![layer], ..Variant::default() };
        let manifest = Manifest { variants: vec![variant] };
        let bytes = manifest.encode()?;
        let digest = digest_of(&bytes);
        self.sink.put(digest, &bytes).map_err(kept)?;
        Ok(Packed { manifest, bytes, digest })
    }

    fn open(&self, action: &'static str, path: &[u8], flags: OFlag) -> Result<OwnedFd, PackError> {
        match beneath::open(self.root.as_fd(), path, flags) {
            // It was there, and no symbolic link, when the directory above it was listed.
            Err(Errno::ENOENT | Errno::ELOOP | Errno::ENOTDIR) => {
                Err(PackError::Changed { path: beneath::shown(path) })
            }
            opened => opened.map_err(io_error(action, path)),
        }
    }
}

fn io_error(action: &'static str, path: &[u8]) -> impl Fn(Errno) -> PackError {
    move |errno| PackError::Io { action, path: beneath::shown(path), source: errno.into() }
}

/// The kernel's numbers of devices have at most 20 bits, and a tree rejects what has more.
fn number(of: u64) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}
