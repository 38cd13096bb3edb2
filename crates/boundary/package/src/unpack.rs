//! From a layer to a directory.
//!
//! Nothing is written outside the directory, whatever is in it or in the tree: every path is
//! resolved below it without symbolic links, and what is at the path of an entry is replaced, never
//! written through. Every chunk is checked before it is written.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{
    FchmodatFlags, Mode, SFlag, UtimensatFlags, fchmod, fchmodat, futimens, mkdirat, utimensat,
};
use nix::sys::time::TimeSpec;
use nix::unistd::{Gid, LinkatFlags, Uid, fchown, fchownat, linkat, symlinkat};
use thiserror::Error;

use crate::beneath::{self, as_path};
use crate::chunk::{ChunkError, ChunkSource};
use crate::layer::{LayerError, LayerReader, Source};
use crate::manifest::Layer;
use crate::sys;
use crate::tree::{EntryAttributes, EntryKind, Segment, TreeEntry};
use place::EntryPlace;
use privileges::Privileges;

mod place;
mod privileges;
#[cfg(test)]
mod tests;

/// The mode of directories that are in no layer, but have something in them.
const IMPLICIT_MODE: u32 = 0o755;
/// The mode of what is not finished yet.
const UNFINISHED_MODE: u32 = 0o700;
/// Extended attributes that a directory does not keep from lower layers.
const MERGED_XATTRS: [&[u8]; 3] = [b"user.", b"trusted.", b"system.posix_acl_"];

/// How what a layer removes is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// It is removed from the directory, in which the lower layers are.
    Plain,
    /// As overlayfs understands it, in a directory for this layer only: a whiteout is the character
    /// device 0:0, and an opaque directory has the extended attribute `trusted.overlay.opaque`. Who is
    /// not root of the machine cannot set that, and sets `user.overlay.opaque`: then the layers have to be
    /// mounted with the option `userxattr`.
    Overlay,
}

/// A layer that was unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// How many entries it has.
    pub entries: u64,
    /// How many bytes of files were written, without holes.
    pub bytes: u64,
}

/// A layer cannot be unpacked. Paths are relative to the directory.
#[derive(Debug, Error)]
pub enum UnpackError {
    /// Its tree is not what the manifest says.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// A part of a file cannot be read, or is not right.
    #[error("'{}' cannot be unpacked: {source}", path.display())]
    Chunk {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ChunkError,
    },
    /// Something cannot be written.
    #[error("cannot {action} '{}': {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// Of what.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
}

/// Unpacks a layer into a directory. What only root may create is left out by others: for them
/// everything is their own, and there are no devices. Root of a user namespace sets the owners that the
/// namespace has.
///
/// # Errors
///
/// See [`UnpackError`]. What was written until then stays, so the directory is of no use.
pub fn unpack(
    layer: &Layer,
    source: &mut dyn ChunkSource,
    into: BorrowedFd<'_>,
    form: Form,
) -> Result<Unpacked, UnpackError> {
    let source = Source::new(source);
    let privileges = Privileges::of_process();
    let (open, parent, buffer) = (Vec::new(), None, Vec::new());
    let mut unpacker = Unpacker { root: into, form, privileges, open, parent, buffer };
    let mut reader = LayerReader::new(layer, &source);
    while let Some(entry) = reader.next()? {
        unpacker.leave(&entry.path)?;
        unpacker.entry(&entry, &source)?;
    }
    while let Some(directory) = unpacker.open.pop() {
        unpacker.close(&directory)?;
    }
    let (entries, bytes) = reader.totals();
    Ok(Unpacked { entries, bytes })
}

/// Whether overlayfs needs the option `userxattr` to read what this process unpacks in the form
/// [`Form::Overlay`].
#[must_use]
pub fn needs_userxattr() -> bool {
    Privileges::of_process() != Privileges::Machine
}

/// A directory in which there may be more to come: its mode and times are set behind the last.
struct OpenDirectory {
    path: Vec<u8>,
    mode: u32,
    mtime: (i64, u32),
}

struct Unpacker<'a> {
    root: BorrowedFd<'a>,
    form: Form,
    privileges: Privileges,
    /// Each in the one before it.
    open: Vec<OpenDirectory>,
    /// The directory of the last entry, by its path.
    parent: Option<(Vec<u8>, OwnedFd)>,
    buffer: Vec<u8>,
}

impl Unpacker<'_> {
    /// Finishes the directories that an entry is not in.
    fn leave(&mut self, path: &[u8]) -> Result<(), UnpackError> {
        let inside = |directory: &OpenDirectory| {
            path.strip_prefix(&*directory.path).is_some_and(|rest| rest.first() == Some(&b'/'))
        };
        while let Some(directory) = self.open.pop_if(|directory| !inside(directory)) {
            self.close(&directory)?;
        }
        Ok(())
    }

    fn close(&self, directory: &OpenDirectory) -> Result<(), UnpackError> {
        let path = &directory.path;
        let fd = beneath::open(self.root, path, OFlag::O_RDONLY | OFlag::O_DIRECTORY)
            .map_err(io_error("open the directory", path))?;
        fchmod(&fd, mode(directory.mode)).map_err(io_error("set the mode of", path))?;
        let (omit, mtime) = (TimeSpec::UTIME_OMIT, time(directory.mtime));
        futimens(&fd, &omit, &mtime).map_err(io_error("set the time of", path))
    }

    fn entry(&mut self, entry: &TreeEntry, source: &Source<'_>) -> Result<(), UnpackError> {
        let (parent_path, name) = beneath::split(&entry.path);
        if self.parent.as_ref().is_none_or(|(path, _)| path != parent_path) {
            // Nothing has to be removed where there is no directory.
            let make = self.form == Form::Overlay || entry.kind != EntryKind::Whiteout;
            let Some(parent) = self.directory_of(parent_path, make)? else { return Ok(()) };
            self.parent = Some((parent_path.to_vec(), parent));
        }
        let Some((parent_path, parent)) = self.parent.take() else { return Ok(()) };
        let place = EntryPlace { parent: parent.as_fd(), name, path: &entry.path };
        let result = self.place(entry, &place, source);
        self.parent = Some((parent_path, parent));
        result
    }

    /// Opens a directory that may be in no layer.
    fn directory_of(&self, path: &[u8], make: bool) -> Result<Option<OwnedFd>, UnpackError> {
        let open = |path: &[u8]| beneath::open(self.root, path, OFlag::O_PATH | OFlag::O_DIRECTORY);
        match open(path) {
            Err(Errno::ENOENT) if !make => return Ok(None),
            Err(Errno::ENOENT) => {}
            opened => return opened.map(Some).map_err(io_error("open the directory", path)),
        }
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut parent = open(b"").map_err(io_error("open the directory", b""))?;
        for end in ends.chain([path.len()]) {
            let path = &path[..end];
            parent = match open(path) {
                Err(Errno::ENOENT) => {
                    let name = as_path(beneath::split(path).1);
                    mkdirat(&parent, name, mode(IMPLICIT_MODE))
                        .and_then(|()| openat(&parent, name, directory_flags(), Mode::empty()))
                        .and_then(|fd| fchmod(&fd, mode(IMPLICIT_MODE)).map(|()| fd))
                        .map_err(io_error("make the directory", path))?
                }
                opened => opened.map_err(io_error("open the directory", path))?,
            };
        }
        Ok(Some(parent))
    }

    fn place(
        &mut self,
        entry: &TreeEntry,
        place: &EntryPlace<'_>,
        source: &Source<'_>,
    ) -> Result<(), UnpackError> {
        if let EntryKind::Directory { opaque } = &entry.kind {
            return self.directory(place, *opaque, &entry.attributes);
        }
        place.remove(self.root)?;
        let made = match &entry.kind {
            EntryKind::Directory { .. } => true,
            EntryKind::File { segments } => {
                return self.file(place, segments, &entry.attributes, source);
            }
            EntryKind::Symlink { target } => {
                symlinkat(as_path(target), place.parent, as_path(place.name))
                    .map_err(place.error("make the symbolic link"))?;
                true
            }
            EntryKind::HardLink { target } => return self.hard_link(place, target),
            EntryKind::CharDevice { major, minor } => {
                self.device(place, SFlag::S_IFCHR, *major, *minor)?
            }
            EntryKind::BlockDevice { major, minor } => {
                self.device(place, SFlag::S_IFBLK, *major, *minor)?
            }
            EntryKind::Fifo => {
                place.node(SFlag::S_IFIFO, 0, 0).map_err(place.error("make the pipe"))?;
                true
            }
            EntryKind::Whiteout if self.form == Form::Plain => return Ok(()),
            EntryKind::Whiteout => {
                return place.node(SFlag::S_IFCHR, 0, 0).map_err(place.error("make the whiteout"));
            }
        };
        if made { self.special_attributes(place, entry) } else { Ok(()) }
    }

    /// Makes a device. Returns whether it may.
    fn device(
        &self,
        place: &EntryPlace<'_>,
        kind: SFlag,
        major: u32,
        minor: u32,
    ) -> Result<bool, UnpackError> {
        let made = self.privileges.device(place.node(kind, major, minor));
        made.map_err(place.error("make the device"))
    }

    fn directory(
        &mut self,
        place: &EntryPlace<'_>,
        opaque: bool,
        attributes: &EntryAttributes,
    ) -> Result<(), UnpackError> {
        let there = match place.kind()? {
            Some(SFlag::S_IFDIR) => true,
            Some(_) => {
                place.remove(self.root)?;
                false
            }
            None => false,
        };
        let name = as_path(place.name);
        if !there {
            mkdirat(place.parent, name, mode(UNFINISHED_MODE))
                .map_err(place.error("make the directory"))?;
        }
        let fd = openat(place.parent, name, directory_flags(), Mode::empty())
            .map_err(place.error("open the directory"))?;
        if there {
            fchmod(&fd, mode(UNFINISHED_MODE)).map_err(place.error("set the mode of"))?;
            // What the directory of a lower layer has is not merged, only what is in it.
            for name in sys::list_xattrs(fd.as_fd()).unwrap_or_default() {
                let removed = MERGED_XATTRS.iter().any(|prefix| name.starts_with(prefix));
                if removed && !attributes.xattrs.contains_key(&name) {
                    sys::remove_xattr(fd.as_fd(), &text(&name))
                        .map_err(place.error("remove an extended attribute of"))?;
                }
            }
        }
        if there && opaque {
            place::remove_content(self.root, place.path)?;
        }
        self.own(place, attributes, |uid, gid| fchown(&fd, uid, gid))?;
        self.set_xattrs(place, attributes, |name, value| sys::set_xattr(fd.as_fd(), name, value))?;
        if opaque && self.form == Form::Overlay {
            sys::set_xattr(fd.as_fd(), &text(self.privileges.opaque()), b"y")
                .map_err(place.error("set an extended attribute of"))?;
        }
        let EntryAttributes { mode, mtime, .. } = *attributes;
        self.open.push(OpenDirectory { path: place.path.to_vec(), mode, mtime });
        Ok(())
    }

    fn file(
        &mut self,
        place: &EntryPlace<'_>,
        segments: &[Segment],
        attributes: &EntryAttributes,
        source: &Source<'_>,
    ) -> Result<(), UnpackError> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = openat(place.parent, as_path(place.name), flags, mode(0o600))
            .map_err(place.error("create"))?;
        let file = File::from(fd);
        let io = |action, source| UnpackError::Io { action, path: place.shown(), source };
        let mut at = 0;
        for segment in segments {
            if let Segment::Chunk(chunk) = segment {
                source
                    .fetch(chunk, &mut self.buffer)
                    .map_err(|source| UnpackError::Chunk { path: place.shown(), source })?;
                file.write_all_at(&self.buffer, at).map_err(|source| io("write", source))?;
            }
            at += segment.length();
        }
        if let Some(Segment::Hole { .. }) = segments.last() {
            file.set_len(at).map_err(|source| io("set the length of", source))?;
        }
        self.own(place, attributes, |uid, gid| fchown(&file, uid, gid))?;
        // Behind the owner, with which capabilities are lost; who is not root may need to write.
        self.set_xattrs(place, attributes, |name, value| {
            sys::set_xattr(file.as_fd(), name, value)
        })?;
        fchmod(&file, mode(attributes.mode)).map_err(place.error("set the mode of"))?;
        let (omit, mtime) = (TimeSpec::UTIME_OMIT, time(attributes.mtime));
        futimens(&file, &omit, &mtime).map_err(place.error("set the time of"))
    }

    fn hard_link(&self, place: &EntryPlace<'_>, target: &[u8]) -> Result<(), UnpackError> {
        let (directory, name) = beneath::split(target);
        beneath::open(self.root, directory, OFlag::O_PATH | OFlag::O_DIRECTORY)
            .and_then(|directory| {
                let new = as_path(place.name);
                linkat(&directory, as_path(name), place.parent, new, LinkatFlags::empty())
            })
            .map_err(place.error("make the hard link"))
    }

    /// Sets the attributes of what cannot be opened, or not without an effect.
    fn special_attributes(
        &self,
        place: &EntryPlace<'_>,
        entry: &TreeEntry,
    ) -> Result<(), UnpackError> {
        let (parent, name) = (place.parent, as_path(place.name));
        let attributes = &entry.attributes;
        self.own(place, attributes, |uid, gid| {
            fchownat(parent, name, uid, gid, AtFlags::AT_SYMLINK_NOFOLLOW)
        })?;
        // The mode of a symbolic link means nothing, and setting it would set that of its target.
        if !matches!(entry.kind, EntryKind::Symlink { .. }) {
            fchmodat(parent, name, mode(attributes.mode), FchmodatFlags::FollowSymlink)
                .map_err(place.error("set the mode of"))?;
        }
        let mut path = format!("/proc/self/fd/{}/", parent.as_raw_fd()).into_bytes();
        path.extend_from_slice(place.name);
        let path = text(&path);
        self.set_xattrs(place, attributes, |name, value| sys::set_link_xattr(&path, name, value))?;
        let (omit, mtime) = (TimeSpec::UTIME_OMIT, time(attributes.mtime));
        utimensat(parent, name, &omit, &mtime, UtimensatFlags::NoFollowSymlink)
            .map_err(place.error("set the time of"))
    }

    /// Sets the owner, if the process may.
    fn own(
        &self,
        place: &EntryPlace<'_>,
        attributes: &EntryAttributes,
        set: impl FnOnce(Option<Uid>, Option<Gid>) -> Result<(), Errno>,
    ) -> Result<(), UnpackError> {
        if !self.privileges.set_owners() {
            return Ok(());
        }
        let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
        self.privileges.owner(set(Some(uid), Some(gid))).map_err(place.error("set the owner of"))
    }

    /// Sets the extended attributes that the process may set.
    fn set_xattrs(
        &self,
        place: &EntryPlace<'_>,
        attributes: &EntryAttributes,
        set: impl Fn(&CStr, &[u8]) -> Result<(), Errno>,
    ) -> Result<(), UnpackError> {
        for (name, value) in &attributes.xattrs {
            self.privileges
                .xattr(name, set(&text(name), value))
                .map_err(place.error("set an extended attribute of"))?;
        }
        Ok(())
    }
}

fn io_error<'a>(action: &'static str, path: &'a [u8]) -> impl Fn(Errno) -> UnpackError + use<'a> {
    move |errno| UnpackError::Io { action, path: beneath::shown(path), source: errno.into() }
}

fn directory_flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}

fn mode(bits: u32) -> Mode {
    Mode::from_bits_truncate(bits)
}

fn time(mtime: (i64, u32)) -> TimeSpec {
    let (seconds, nanoseconds) = mtime;
    TimeSpec::new(seconds, nanoseconds.into())
}

/// Trees have no NUL in paths and names, so nothing is cut off.
fn text(bytes: &[u8]) -> CString {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    CString::new(&bytes[..end]).unwrap_or_default()
}
