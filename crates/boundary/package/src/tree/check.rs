//! The rules of trees, for those who write and those who read them.

use std::collections::HashSet;

use model::Digest;

use super::{
    EntryAttributes, EntryFault, EntryKind, MAX_COMPONENT_BYTES, MAX_ENTRIES, MAX_FILE_BYTES,
    MAX_PATH_BYTES, MAX_SEGMENTS, MAX_SYMLINK_BYTES, MAX_TREE_BYTES, MAX_XATTR_BYTES, MAX_XATTRS,
    MODE_BITS, Malformed, Segment, TreeEntry, TreeError, printable,
};
use crate::chunk::{MAX_CHUNK_BYTES, digest_of};

/// Extended attributes with which overlayfs is told what to show.
pub(crate) const OVERLAY_PREFIXES: [&[u8]; 2] = [b"trusted.overlay.", b"user.overlay."];
/// The longest name of an extended attribute that the kernel takes, in bytes.
const MAX_XATTR_NAME_BYTES: usize = 255;
/// The highest major number of a device.
const MAX_MAJOR: u32 = (1 << 12) - 1;
/// The highest minor number of a device.
const MAX_MINOR: u32 = (1 << 20) - 1;

/// What has to be known of the entries so far to check the next one.
#[derive(Debug, Default)]
pub(super) struct Checker {
    entries: u64,
    bytes: u64,
    last: Vec<u8>,
    last_is_directory: bool,
    /// The digests of the paths of all files: shorter than what they stand for.
    files: HashSet<Digest>,
}

impl Checker {
    /// The number of the next entry.
    pub(super) fn entry(&self) -> u64 {
        self.entries
    }

    /// Wraps what is wrong with the bytes of the next entry.
    pub(super) fn malformed(&self, malformed: Malformed) -> TreeError {
        TreeError::Malformed { entry: self.entries, malformed }
    }

    /// Checks the next entry, and that its encoding of so many bytes is not too much.
    pub(super) fn next(&mut self, entry: &TreeEntry, encoded: usize) -> Result<(), TreeError> {
        if self.entries == MAX_ENTRIES {
            return Err(self.malformed(Malformed::TooMany));
        }
        self.bytes += encoded as u64;
        if self.bytes > MAX_TREE_BYTES {
            return Err(self.malformed(Malformed::TooLong));
        }
        self.check(entry).map_err(|fault| TreeError::Fault {
            entry: self.entries,
            path: printable(&entry.path),
            fault,
        })?;
        self.entries += 1;
        self.last.clone_from(&entry.path);
        self.last_is_directory = matches!(entry.kind, EntryKind::Directory { .. });
        if matches!(entry.kind, EntryKind::File { .. }) {
            self.files.insert(digest_of(&entry.path));
        }
        Ok(())
    }

    fn check(&self, entry: &TreeEntry) -> Result<(), EntryFault> {
        path(&entry.path)?;
        self.order(&entry.path)?;
        match &entry.kind {
            EntryKind::Directory { .. } | EntryKind::Fifo => {}
            EntryKind::File { segments } => content(segments)?,
            EntryKind::Symlink { target } => symlink(target)?,
            EntryKind::HardLink { target } => {
                if !self.files.contains(&digest_of(target)) {
                    return Err(EntryFault::HardLinkTarget(printable(target)));
                }
            }
            EntryKind::CharDevice { major: 0, minor: 0 } => return Err(EntryFault::Device(0, 0)),
            EntryKind::CharDevice { major, minor } | EntryKind::BlockDevice { major, minor } => {
                if *major > MAX_MAJOR || *minor > MAX_MINOR {
                    return Err(EntryFault::Device(*major, *minor));
                }
            }
            EntryKind::Whiteout => {}
        }
        if matches!(entry.kind, EntryKind::HardLink { .. } | EntryKind::Whiteout)
            && entry.attributes != EntryAttributes::default()
        {
            return Err(EntryFault::EntryAttributes);
        }
        attributes(&entry.attributes)
    }

    /// What is below an entry follows it directly, so the last one is all that has to be known.
    fn order(&self, path: &[u8]) -> Result<(), EntryFault> {
        if self.entries == 0 {
            return Ok(());
        }
        if path == self.last {
            return Err(EntryFault::Duplicate);
        }
        if components(path).lt(components(&self.last)) {
            return Err(EntryFault::Unsorted(printable(&self.last)));
        }
        let below = path.strip_prefix(&*self.last).is_some_and(|rest| rest.first() == Some(&b'/'));
        if below && !self.last_is_directory {
            return Err(EntryFault::NoDirectory(printable(&self.last)));
        }
        Ok(())
    }
}

/// What is between the slashes of a path.
fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
}

fn path(path: &[u8]) -> Result<(), EntryFault> {
    if path.is_empty() {
        return Err(EntryFault::EmptyPath);
    }
    if path.first() == Some(&b'/') {
        return Err(EntryFault::AbsolutePath);
    }
    if path.len() > MAX_PATH_BYTES {
        return Err(EntryFault::LongPath);
    }
    for component in components(path) {
        if matches!(component, b"" | b"." | b"..") || component.contains(&0) {
            return Err(EntryFault::Component);
        }
        if component.len() > MAX_COMPONENT_BYTES {
            return Err(EntryFault::LongComponent);
        }
    }
    Ok(())
}

fn symlink(target: &[u8]) -> Result<(), EntryFault> {
    if target.is_empty() || target.len() > MAX_SYMLINK_BYTES || target.contains(&0) {
        return Err(EntryFault::SymlinkTarget);
    }
    Ok(())
}

fn content(segments: &[Segment]) -> Result<(), EntryFault> {
    if segments.len() > MAX_SEGMENTS {
        return Err(EntryFault::TooManySegments);
    }
    let mut total = 0_u64;
    for segment in segments {
        let length = segment.length();
        let long = matches!(segment, Segment::Chunk(_)) && length > MAX_CHUNK_BYTES as u64;
        if length == 0 || long {
            return Err(EntryFault::Segment(length));
        }
        total = total
            .checked_add(length)
            .filter(|total| *total <= MAX_FILE_BYTES)
            .ok_or(EntryFault::LongFile)?;
    }
    Ok(())
}

fn attributes(attributes: &EntryAttributes) -> Result<(), EntryFault> {
    const SECOND: u32 = 1_000_000_000;
    if attributes.mode & !MODE_BITS != 0 {
        return Err(EntryFault::Mode(attributes.mode));
    }
    if attributes.uid == u32::MAX || attributes.gid == u32::MAX {
        return Err(EntryFault::Owner);
    }
    if attributes.mtime.1 >= SECOND {
        return Err(EntryFault::Nanoseconds(attributes.mtime.1));
    }
    if attributes.xattrs.len() > MAX_XATTRS {
        return Err(EntryFault::TooManyXattrs);
    }
    let mut total = 0_usize;
    for (name, value) in &attributes.xattrs {
        let length = (1..=MAX_XATTR_NAME_BYTES).contains(&name.len());
        let overlay = OVERLAY_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        if !length || overlay || name.contains(&0) {
            return Err(EntryFault::XattrName(printable(name)));
        }
        total = total.saturating_add(name.len()).saturating_add(value.len());
    }
    if total > MAX_XATTR_BYTES {
        return Err(EntryFault::LongXattrs);
    }
    Ok(())
}
