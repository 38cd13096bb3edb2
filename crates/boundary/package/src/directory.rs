//! A directory becomes a package.
//!
//! The same files give the same digest on every machine: owners, times and extended attributes do not count, since they
//! differ between checkouts; names, contents, links and permissions do. No symbolic link is followed.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use model::Digest;
use nix::dir::Dir;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat, major, minor};
use thiserror::Error;

use crate::chunk::{ChunkRef, ChunkSink, Chunker};
use crate::manifest::{Layer, Manifest, Variant};
use crate::tree::{
    Attributes, ENTRIES_MAX, Entry, EntryKind, MODE_MASK, Segment, TreeError, TreeWriter,
};

/// The maximum depth of directories: each holds a descriptor while it is read.
pub const DEPTH_MAX: usize = 256;

/// What a package may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum size of all files together, in bytes.
    pub bytes: u64,
    /// The maximum number of files, directories and links.
    pub entries: u64,
}

impl Default for Limits {
    /// 64 GiB and two million entries.
    fn default() -> Self {
        Self { bytes: 64 << 30, entries: ENTRIES_MAX }
    }
}

/// A package that was made. The sink has every chunk of it, and its manifest as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Its manifest.
    pub manifest: Manifest,
    /// The bytes of the manifest.
    pub bytes: Vec<u8>,
    /// The digest of these, which is that of the package.
    pub digest: Digest,
}

/// Why a directory cannot become a package.
#[derive(Debug, Error)]
pub enum PackError {
    /// Something in it cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It has a socket.
    #[error("{} is a socket, and a package has files: remove it, or build the package from another directory", .path.display())]
    Socket {
        /// The path.
        path: PathBuf,
    },
    /// A file changed while it was read.
    #[error("{} changed while it was read: build the package when nothing writes there", .path.display())]
    Changed {
        /// The path.
        path: PathBuf,
    },
    /// Directories are too deep.
    #[error("{} is more than {DEPTH_MAX} directories deep", .path.display())]
    TooDeep {
        /// The path.
        path: PathBuf,
    },
    /// It has too many bytes.
    #[error("the files have more than {most} bytes, the maximum of a package")]
    TooManyBytes {
        /// The maximum.
        most: u64,
    },
    /// It has too many entries.
    #[error("there are more than {most} files, directories and links, the maximum of a package")]
    TooManyEntries {
        /// The maximum.
        most: u64,
    },
    /// An entry cannot be in a package.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A chunk cannot be stored.
    #[error("cannot store a chunk: {0}")]
    Sink(io::Error),
}

/// Makes a package of a directory.
///
/// # Errors
/// When something cannot be read, cannot be in a package, or is beyond the limits.
pub fn pack(
    directory: &Path,
    sink: &mut dyn ChunkSink,
    limits: &Limits,
) -> Result<Packed, PackError> {
    let read = |source| PackError::Read { path: directory.to_owned(), source };
    let root = File::open(directory).map_err(read)?;
    if !root.metadata().map_err(read)?.is_dir() {
        return Err(read(io::Error::from(io::ErrorKind::NotADirectory)));
    }
    let mut packing = Packing {
        root: directory,
        sink,
        limits,
        chunker: Chunker::default(),
        tree: TreeWriter::new(Vec::new()),
        links: HashMap::new(),
        known: HashSet::new(),
        stored: 0,
        bytes: 0,
    };
    packing.directory(root.into(), &mut Vec::new(), 0)?;
    packing.finish()
}

struct Packing<'a> {
    root: &'a Path,
    sink: &'a mut dyn ChunkSink,
    limits: &'a Limits,
    chunker: Chunker,
    tree: TreeWriter<Vec<u8>>,
    /// The first path of each file with several.
    links: HashMap<(u64, u64), Vec<u8>>,
    known: HashSet<Digest>,
    stored: u64,
    bytes: u64,
}

impl Packing<'_> {
    fn path(&self, path: &[u8]) -> PathBuf {
        self.root.join(std::ffi::OsStr::from_bytes(path))
    }

    fn read_error(&self, path: &[u8], source: impl Into<io::Error>) -> PackError {
        PackError::Read { path: self.path(path), source: source.into() }
    }

    /// Adds what is in a directory, in the order of names.
    fn directory(
        &mut self,
        directory: OwnedFd,
        path: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), PackError> {
        if depth > DEPTH_MAX {
            return Err(PackError::TooDeep { path: self.path(path) });
        }
        let mut listed = Dir::from_fd(directory).map_err(|error| self.read_error(path, error))?;
        let mut names: Vec<CString> = Vec::new();
        for entry in listed.iter() {
            let entry = entry.map_err(|error| self.read_error(path, error))?;
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                names.push(name.to_owned());
            }
            if names.len() as u64 + self.tree.entries() > self.limits.entries {
                return Err(PackError::TooManyEntries { most: self.limits.entries });
            }
        }
        names.sort();
        let length = path.len();
        for name in names {
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name.to_bytes());
            self.entry(listed.as_fd(), &name, path, depth)?;
            path.truncate(length);
        }
        Ok(())
    }

    fn entry(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &CStr,
        path: &mut Vec<u8>,
        depth: usize,
    ) -> Result<(), PackError> {
        let found = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)
            .map_err(|error| self.read_error(path, error))?;
        let kind = match SFlag::from_bits_truncate(found.st_mode & SFlag::S_IFMT.bits()) {
            SFlag::S_IFDIR => {
                self.add(path, EntryKind::Directory { opaque: false }, &found)?;
                let directory = self.open(parent, name, path, OFlag::O_DIRECTORY)?;
                return self.directory(directory, path, depth + 1);
            }
            SFlag::S_IFREG => match self.links.get(&(found.st_dev, found.st_ino)) {
                Some(first) => EntryKind::HardLink { target: first.clone() },
                None => {
                    if found.st_nlink > 1 {
                        self.links.insert((found.st_dev, found.st_ino), path.clone());
                    }
                    EntryKind::File { segments: self.file(parent, name, path)? }
                }
            },
            SFlag::S_IFLNK => {
                let target = readlinkat(parent, name);
                let target = target.map_err(|error| self.read_error(path, error))?;
                EntryKind::Symlink { target: target.as_bytes().to_vec() }
            }
            SFlag::S_IFCHR => {
                let (major, minor) = device(&found);
                EntryKind::CharDevice { major, minor }
            }
            SFlag::S_IFBLK => {
                let (major, minor) = device(&found);
                EntryKind::BlockDevice { major, minor }
            }
            SFlag::S_IFIFO => EntryKind::Fifo,
            _ => return Err(PackError::Socket { path: self.path(path) }),
        };
        self.add(path, kind, &found)
    }

    fn add(&mut self, path: &[u8], kind: EntryKind, found: &FileStat) -> Result<(), PackError> {
        // The permissions of a symbolic link mean nothing, and those of a hard link are its file's.
        let mode = match kind {
            EntryKind::Symlink { .. } | EntryKind::HardLink { .. } => 0,
            _ => found.st_mode & MODE_MASK,
        };
        let attributes = Attributes { mode, ..Attributes::default() };
        self.tree.add(&Entry { path: path.to_owned(), kind, attributes })?;
        Ok(())
    }

    fn open(
        &self,
        parent: BorrowedFd<'_>,
        name: &CStr,
        path: &[u8],
        flags: OFlag,
    ) -> Result<OwnedFd, PackError> {
        // A name that became a pipe meanwhile must not block.
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        openat(parent, name, flags, Mode::empty()).map_err(|error| self.read_error(path, error))
    }

    fn file(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &CStr,
        path: &[u8],
    ) -> Result<Vec<Segment>, PackError> {
        let mut file = File::from(self.open(parent, name, path, OFlag::O_RDONLY)?);
        let before = file.metadata().map_err(|error| self.read_error(path, error))?;
        let most = self.limits.bytes;
        if before.len() > most.saturating_sub(self.bytes) {
            return Err(PackError::TooManyBytes { most });
        }
        let mut segments = Vec::new();
        let cut = {
            let Self { chunker, sink, known, stored, .. } = self;
            let mut failed = None;
            let mut sink = Noting { sink: *sink, failed: &mut failed };
            let cut = chunker.cut(&mut file, &mut sink, &mut |chunk| {
                *stored += note(known, &chunk);
                segments.push(Segment::Chunk(chunk));
            });
            match failed {
                Some(error) => return Err(PackError::Sink(error)),
                None => cut.map_err(|error| self.read_error(path, error))?,
            }
        };
        let after = file.metadata().map_err(|error| self.read_error(path, error))?;
        let state = |of: &std::fs::Metadata| (of.len(), of.mtime(), of.mtime_nsec());
        if state(&before) != state(&after) || cut != before.len() {
            return Err(PackError::Changed { path: self.path(path) });
        }
        self.bytes += cut;
        Ok(segments)
    }

    fn finish(mut self) -> Result<Packed, PackError> {
        let entries = self.tree.entries();
        let encoded = self.tree.finish();
        let mut tree: Vec<ChunkRef> = Vec::new();
        self.chunker
            .cut(&mut &*encoded, self.sink, &mut |chunk| tree.push(chunk))
            .map_err(PackError::Sink)?;
        let layer = Layer {
            tree,
            digest: crate::chunk::digest_of(&encoded),
            stored: self.stored,
            unpacked: self.bytes,
            entries,
        };
        let variant = Variant { layers: vec![layer], ..Variant::default() };
        let manifest = Manifest { variants: vec![variant] };
        let bytes = manifest.encode();
        let digest = crate::chunk::digest_of(&bytes);
        self.sink.put(digest, &bytes).map_err(PackError::Sink)?;
        Ok(Packed { manifest, bytes, digest })
    }
}

/// The bytes that a chunk adds to those that are known.
fn note(known: &mut HashSet<Digest>, chunk: &ChunkRef) -> u64 {
    if known.insert(chunk.digest) { chunk.length.into() } else { 0 }
}

fn device(found: &FileStat) -> (u32, u32) {
    let number = |part: u64| u32::try_from(part).unwrap_or(u32::MAX);
    (number(major(found.st_rdev)), number(minor(found.st_rdev)))
}

/// Tells the errors of a sink from those of a file.
struct Noting<'a> {
    sink: &'a mut dyn ChunkSink,
    failed: &'a mut Option<io::Error>,
}

impl ChunkSink for Noting<'_> {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        self.sink.put(digest, bytes).map_err(|error| {
            let kind = error.kind();
            *self.failed = Some(error);
            kind.into()
        })
    }
}
