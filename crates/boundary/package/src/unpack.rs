//! A layer becomes files in an empty directory.
//!
//! Nothing gets out of the directory, whatever the tree says: parents are opened below it without following a link
//! (openat2(2)), names are created and never opened if they are there. What hides entries of lower layers is written as
//! overlayfs expects it: a character device 0/0 for a whiteout, an attribute for an opaque directory (kernel,
//! Documentation/filesystems/overlayfs.rst).

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{
    Mode, SFlag, UtimensatFlags, fchmod, futimens, makedev, mkdirat, mknodat, utimensat,
};
use nix::sys::time::TimeSpec;
use nix::unistd::{Gid, Uid, fchown, fchownat, geteuid, linkat, symlinkat};
use thiserror::Error;

use crate::chunk::{ChunkSource, checked};
use crate::manifest::Layer;
use crate::tree::{Attributes, Entry, EntryKind, Segment, TreeError, TreeReader};
use crate::verify::{VerifyError, read_tree};

/// The attribute by which overlayfs knows a directory that hides those below it.
const OPAQUE: (&[u8], &[u8]) = (b"trusted.overlay.opaque", b"y");

/// What was unpacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// The number of entries.
    pub entries: u64,
    /// The size of all files, in bytes.
    pub bytes: u64,
}

/// Why a layer cannot be unpacked.
#[derive(Debug, Error)]
pub enum UnpackError {
    /// The tree is not the layer's, or invalid.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// An entry of the tree is invalid.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// An entry cannot be made.
    #[error("cannot unpack '{}': {source}", .path.escape_ascii())]
    Entry {
        /// Its path.
        path: Vec<u8>,
        /// The reason.
        source: io::Error,
    },
}

/// Unpacks a layer into an empty directory. Only root gives files their owners; others own all that they unpack.
///
/// # Errors
/// When a chunk is missing or wrong, or an entry cannot be made. What was unpacked until then is there.
pub fn unpack(
    layer: &Layer,
    source: &mut dyn ChunkSource,
    into: BorrowedFd<'_>,
) -> Result<Unpacked, UnpackError> {
    let tree = read_tree(layer, source)?;
    let mut unpacking = Unpacking {
        root: into,
        source,
        is_root: geteuid().is_root(),
        parent: None,
        buffer: Vec::new(),
        directories: Vec::new(),
    };
    let mut unpacked = Unpacked::default();
    for entry in TreeReader::new(&*tree) {
        let entry = entry?;
        let made = unpacking.entry(&entry);
        made.map_err(|source| UnpackError::Entry { path: entry.path.clone(), source })?;
        unpacked.entries += 1;
        unpacked.bytes += entry.bytes();
    }
    unpacking.finish()?;
    Ok(unpacked)
}

struct Unpacking<'a> {
    root: BorrowedFd<'a>,
    source: &'a mut dyn ChunkSource,
    is_root: bool,
    /// The directory of the last entry: the next one is often in it, too.
    parent: Option<(Vec<u8>, OwnedFd)>,
    buffer: Vec<u8>,
    /// Directories get their attributes last: what is made in them changes their times.
    directories: Vec<(Vec<u8>, Attributes)>,
}

impl Unpacking<'_> {
    /// Opens a directory below the root, without following a link.
    fn open(&self, path: &[u8], flags: OFlag) -> nix::Result<OwnedFd> {
        let how = OpenHow::new().flags(flags | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC).resolve(
            ResolveFlag::RESOLVE_BENEATH
                | ResolveFlag::RESOLVE_NO_SYMLINKS
                | ResolveFlag::RESOLVE_NO_MAGICLINKS,
        );
        let path = if path.is_empty() { b"." } else { path };
        openat2(self.root, OsStr::from_bytes(path), how)
    }

    /// The parent of a path, and its last component. Missing directories are made.
    fn place<'p>(&mut self, path: &'p [u8]) -> io::Result<(OwnedFd, &'p OsStr)> {
        let slash = path.iter().rposition(|byte| *byte == b'/');
        let (parent, name) = match slash {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&[][..], path),
        };
        let known = self.parent.as_ref().filter(|(path, _)| path == parent);
        let directory = match known {
            Some((_, directory)) => directory.try_clone()?,
            None => {
                let opened = match self.open(parent, OFlag::O_PATH) {
                    Err(Errno::ENOENT) => {
                        self.make_parents(parent)?;
                        self.open(parent, OFlag::O_PATH)?
                    }
                    opened => opened?,
                };
                self.parent = Some((parent.to_owned(), opened.try_clone()?));
                opened
            }
        };
        Ok((directory, OsStr::from_bytes(name)))
    }

    fn make_parents(&mut self, path: &[u8]) -> io::Result<()> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in ends.chain([path.len()]) {
            let (parent, name) = match path[..end].iter().rposition(|byte| *byte == b'/') {
                Some(slash) => (&path[..slash], &path[slash + 1..end]),
                None => (&[][..], &path[..end]),
            };
            let parent = self.open(parent, OFlag::O_PATH)?;
            match mkdirat(&parent, OsStr::from_bytes(name), Mode::from_bits_truncate(0o755)) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        let (parent, name) = self.place(&entry.path)?;
        match &entry.kind {
            EntryKind::Directory { opaque } => {
                mkdirat(&parent, name, Mode::S_IRWXU)?;
                if *opaque {
                    set_attribute(&self.open(&entry.path, OFlag::O_RDONLY)?, OPAQUE.0, OPAQUE.1)?;
                }
                self.directories.push((entry.path.clone(), entry.attributes.clone()));
                Ok(())
            }
            EntryKind::File { segments } => {
                let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
                let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
                let file = File::from(openat(&parent, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?);
                self.write(&file, segments)?;
                self.finish_open(&file, &entry.attributes)
            }
            EntryKind::Symlink { target } => {
                symlinkat(OsStr::from_bytes(target), &parent, name)?;
                self.finish_named(&parent, name, &entry.attributes)
            }
            EntryKind::HardLink { target } => {
                let (directory, target) = self.place(target)?;
                linkat(&directory, target, &parent, name, AtFlags::empty())?;
                Ok(())
            }
            EntryKind::CharDevice { major, minor } => {
                self.node(&parent, name, SFlag::S_IFCHR, (*major, *minor), &entry.attributes)
            }
            EntryKind::BlockDevice { major, minor } => {
                self.node(&parent, name, SFlag::S_IFBLK, (*major, *minor), &entry.attributes)
            }
            EntryKind::Fifo => self.node(&parent, name, SFlag::S_IFIFO, (0, 0), &entry.attributes),
            EntryKind::Whiteout => {
                mknodat(&parent, name, SFlag::S_IFCHR, Mode::empty(), makedev(0, 0))?;
                Ok(())
            }
        }
    }

    fn write(&mut self, mut file: &File, segments: &[Segment]) -> io::Result<()> {
        let mut length = 0_u64;
        for segment in segments {
            match segment {
                Segment::Chunk(chunk) => {
                    checked(self.source, chunk, &mut self.buffer)?;
                    file.write_all(&self.buffer)?;
                    length = length.saturating_add(chunk.length.into());
                }
                Segment::Hole { length: hole } => {
                    length = length.saturating_add(*hole);
                    file.seek(SeekFrom::Start(length))?;
                }
            }
        }
        if let Some(Segment::Hole { .. }) = segments.last() {
            file.set_len(length)?;
        }
        Ok(())
    }

    fn node(
        &self,
        parent: &OwnedFd,
        name: &OsStr,
        kind: SFlag,
        (major, minor): (u32, u32),
        attributes: &Attributes,
    ) -> io::Result<()> {
        mknodat(parent, name, kind, Mode::empty(), makedev(major.into(), minor.into()))?;
        self.finish_named(parent, name, attributes)?;
        let mode = Mode::from_bits_truncate(attributes.mode);
        nix::sys::stat::fchmodat(parent, name, mode, nix::sys::stat::FchmodatFlags::FollowSymlink)?;
        Ok(())
    }

    /// Gives an open file or directory its attributes: the mode after the owner, whose change clears set-uid bits.
    fn finish_open(&self, file: impl AsFd, attributes: &Attributes) -> io::Result<()> {
        if self.is_root {
            fchown(&file, Some(attributes.uid.into()), Some(attributes.gid.into()))?;
        }
        fchmod(&file, Mode::from_bits_truncate(attributes.mode))?;
        for (name, value) in &attributes.extended {
            set_attribute(&file, name, value)?;
        }
        let time = time(attributes);
        futimens(&file, &time, &time)?;
        Ok(())
    }

    /// The same for what cannot be opened, without its mode.
    fn finish_named(
        &self,
        parent: &OwnedFd,
        name: &OsStr,
        attributes: &Attributes,
    ) -> io::Result<()> {
        if self.is_root {
            let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
            fchownat(parent, name, Some(uid), Some(gid), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        }
        let time = time(attributes);
        utimensat(parent, name, &time, &time, UtimensatFlags::NoFollowSymlink)?;
        Ok(())
    }

    /// Gives the directories their attributes, the deepest first.
    fn finish(self) -> Result<(), UnpackError> {
        for (path, attributes) in self.directories.iter().rev() {
            let finish = || -> io::Result<()> {
                self.finish_open(self.open(path, OFlag::O_RDONLY)?, attributes)
            };
            finish().map_err(|source| UnpackError::Entry { path: path.clone(), source })?;
        }
        Ok(())
    }
}

fn time(attributes: &Attributes) -> TimeSpec {
    TimeSpec::new(attributes.seconds, attributes.nanos.into())
}

fn set_attribute(file: impl AsFd, name: &[u8], value: &[u8]) -> io::Result<()> {
    let name = CString::new(name)?;
    let set = rustix::fs::fsetxattr(file, &name, value, rustix::fs::XattrFlags::empty());
    set.map_err(io::Error::from)
}
