//! The rules of a tree, checked entry by entry, for encoding and decoding alike.

use std::collections::HashMap;

use super::path::PATH_BYTES_MAX;
use super::{
    Attributes, Device, ENTRIES_MAX, EntryKind, EntryPath, MAJOR_MAX, MINOR_MAX, MODE_MAX,
    TreeEntry, XATTR_BYTES_MAX, XATTR_NAME_BYTES_MAX, is_of_overlay,
};
use crate::chunk::{Segment, cut};

/// Nanoseconds of a second.
const NANOS: u32 = 1_000_000_000;

/// What has to be remembered of the entries before the next one.
#[derive(Debug, Default)]
pub(super) struct Checker {
    entries: u64,
    last: Option<EntryPath>,
    /// The directories that may be above the next entry. Each contains the next one.
    above: Vec<EntryPath>,
    /// For each path that can matter to a hard link: whether it is a file, or the target of a
    /// link to a lower layer. Keyed by a part of its BLAKE3 digest.
    links: HashMap<[u8; 16], LinkTarget>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkTarget {
    File,
    Other,
    /// No entry may have this path: an earlier hard link names it.
    Lower,
}

impl Checker {
    /// Checks the next entry.
    ///
    /// # Errors
    /// The rule that it breaks, as a sentence without the path.
    pub(super) fn next(&mut self, entry: &TreeEntry) -> Result<(), &'static str> {
        self.entries += 1;
        if self.entries > ENTRIES_MAX {
            return Err("the tree has more than 2,000,000 entries");
        }
        let path = entry.path.as_bytes();
        if self.last.as_ref().is_some_and(|last| last.as_bytes() >= path) {
            return Err("it is not after the entry before it, in the order of bytes");
        }
        self.parent(&entry.path)?;
        kind(&entry.kind)?;
        attributes(entry)?;
        self.link(entry)?;
        self.last = Some(entry.path.clone());
        if matches!(entry.kind, EntryKind::Directory { .. }) {
            self.above.push(entry.path.clone());
        }
        Ok(())
    }

    /// Checks that the directory above is an entry. The paths below a directory are from `PATH/`
    /// up to `PATH0`, since `0` is after `/`: such ranges are nested or apart, so a stack has all
    /// that may still be above something.
    fn parent(&mut self, path: &EntryPath) -> Result<(), &'static str> {
        let passed = |directory: &EntryPath| {
            let directory = directory.as_bytes();
            path.as_bytes().get(..directory.len()).is_none_or(|start| start != directory)
                || path.as_bytes().get(directory.len()).is_some_and(|byte| *byte > b'/')
        };
        while self.above.last().is_some_and(passed) {
            self.above.pop();
        }
        match path.parent() {
            Some(parent) if !self.above.iter().rev().any(|above| above.as_bytes() == parent) => {
                Err("the directory above it is not an entry, or no directory")
            }
            _ => Ok(()),
        }
    }

    fn link(&mut self, entry: &TreeEntry) -> Result<(), &'static str> {
        let known = match &entry.kind {
            EntryKind::File { .. } => LinkTarget::File,
            _ => LinkTarget::Other,
        };
        if self.links.insert(key(entry.path.as_bytes()), known) == Some(LinkTarget::Lower) {
            return Err("an earlier hard link names it: its target has to precede it");
        }
        let EntryKind::HardLink { target } = &entry.kind else { return Ok(()) };
        match self.links.entry(key(target.as_bytes())).or_insert(LinkTarget::Lower) {
            LinkTarget::Other => Err("the target of the hard link is not a file"),
            LinkTarget::File | LinkTarget::Lower => Ok(()),
        }
    }
}

fn key(path: &[u8]) -> [u8; 16] {
    let mut key = [0; 16];
    key.copy_from_slice(&blake3::hash(path).as_bytes()[..16]);
    key
}

fn kind(kind: &EntryKind) -> Result<(), &'static str> {
    match kind {
        EntryKind::File { segments } => contents(segments),
        EntryKind::Symlink { target } => symlink(target),
        EntryKind::CharDevice(Device { major: 0, minor: 0 }) => {
            Err("the character device 0/0 stands for a whiteout")
        }
        EntryKind::CharDevice(device) | EntryKind::BlockDevice(device) => {
            match device.major > MAJOR_MAX || device.minor > MINOR_MAX {
                true => Err("the number of the device is out of range"),
                false => Ok(()),
            }
        }
        EntryKind::Directory { .. }
        | EntryKind::HardLink { .. }
        | EntryKind::Fifo
        | EntryKind::Whiteout => Ok(()),
    }
}

fn contents(segments: &[Segment]) -> Result<(), &'static str> {
    let (mut after_hole, mut bytes) = (false, 0_u64);
    for segment in segments {
        match segment {
            Segment::Chunk(chunk) if !(1..=cut::BYTES_MAX).contains(&chunk.length()) => {
                return Err("a chunk has no bytes, or more than 256 KiB");
            }
            Segment::Hole(0) => return Err("a hole has no bytes"),
            Segment::Hole(_) if after_hole => return Err("a hole follows another one"),
            Segment::Chunk(_) | Segment::Hole(_) => {}
        }
        after_hole = matches!(segment, Segment::Hole(_));
        bytes = bytes.saturating_add(segment.bytes());
        if i64::try_from(bytes).is_err() {
            return Err("the file is longer than a file can be");
        }
    }
    Ok(())
}

fn symlink(target: &[u8]) -> Result<(), &'static str> {
    match target {
        [] => Err("the symbolic link has no target"),
        _ if target.len() > PATH_BYTES_MAX => {
            Err("the target of the symbolic link is longer than 4,095 bytes")
        }
        _ if target.contains(&0) => Err("the target of the symbolic link has a zero byte"),
        _ => Ok(()),
    }
}

fn attributes(entry: &TreeEntry) -> Result<(), &'static str> {
    let attributes = &entry.attributes;
    if attributes.mode > MODE_MAX {
        return Err("its mode has more than permission bits");
    }
    if attributes.modified.nanos >= NANOS {
        return Err("its time has more nanoseconds than a second");
    }
    // Ids that chown takes as "no change".
    if attributes.uid == u32::MAX || attributes.gid == u32::MAX {
        return Err("its owner is no valid id");
    }
    match &entry.kind {
        EntryKind::HardLink { .. } | EntryKind::Whiteout
            if *attributes != Attributes::default() =>
        {
            return Err("a hard link or a whiteout has attributes of its own");
        }
        EntryKind::Symlink { .. } if attributes.mode != 0o777 => {
            return Err("the mode of a symbolic link is not 0777");
        }
        _ => {}
    }
    xattrs(attributes)
}

fn xattrs(attributes: &Attributes) -> Result<(), &'static str> {
    let sorted = attributes.xattrs.is_sorted_by(|one, other| one.name < other.name);
    let bytes: usize =
        attributes.xattrs.iter().map(|xattr| xattr.name.len() + xattr.value.len()).sum();
    match () {
        () if !sorted => Err("its extended attributes are not sorted by distinct names"),
        () if bytes > XATTR_BYTES_MAX => Err("its extended attributes have more than 64 KiB"),
        () => attributes.xattrs.iter().try_for_each(|xattr| name_of_xattr(&xattr.name)),
    }
}

fn name_of_xattr(name: &[u8]) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > XATTR_NAME_BYTES_MAX || name.contains(&0) {
        return Err("the name of an extended attribute is empty, too long, or has a zero byte");
    }
    if is_of_overlay(name) {
        return Err("an extended attribute is one of overlay mounts");
    }
    Ok(())
}
