//! Trees: the entries of a layer, as a stream of length-delimited messages in the order of their paths.
//!
//! A tree may have two million entries, so it is never one message. It is canonical: entries are sorted by the components
//! of their paths, and each is encoded in one way only; a reader rejects everything else. What a path, a target or an
//! attribute may be is checked here, once, before anything is unpacked.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use model::Digest;
use prost::Message as _;
use thiserror::Error;

use crate::chunk::{CHUNK_MAX, ChunkRef};
use crate::message;

/// The maximum number of entries of a tree.
pub const ENTRIES_MAX: u64 = 2_000_000;
/// The maximum length of a path, in bytes: that of Linux.
pub const PATH_BYTES_MAX: usize = 4_096;
/// The maximum length of a component of a path, in bytes: that of Linux.
pub const COMPONENT_BYTES_MAX: usize = 255;
/// The maximum size of the extended attributes of an entry, in bytes.
pub const ATTRIBUTES_BYTES_MAX: usize = 64 << 10;
/// The maximum length of an encoded entry, in bytes: that of a file of about 60 GiB.
pub const ENTRY_BYTES_MAX: usize = 16 << 20;
/// The bits of a mode: permissions, set-uid, set-gid and sticky.
pub const MODE_MASK: u32 = 0o7777;

/// An entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path below the root: components joined by `/`, none of them empty, `.` or `..`.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// Its mode, owner, time and extended attributes.
    pub attributes: Attributes,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Directory {
        /// Whether it hides what lower layers have in it.
        opaque: bool,
    },
    /// A file.
    File {
        /// Its content.
        segments: Vec<Segment>,
    },
    /// A symbolic link.
    Symlink {
        /// Its text.
        target: Vec<u8>,
    },
    /// Another name of a file of the same tree, which comes before it.
    HardLink {
        /// The path of the file.
        target: Vec<u8>,
    },
    /// A character device.
    CharDevice {
        /// Its major number.
        major: u32,
        /// Its minor number.
        minor: u32,
    },
    /// A block device.
    BlockDevice {
        /// Its major number.
        major: u32,
        /// Its minor number.
        minor: u32,
    },
    /// A named pipe.
    Fifo,
    /// What lower layers have under this name is hidden.
    Whiteout,
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// The bytes of a chunk.
    Chunk(ChunkRef),
    /// Zeros that take no space.
    Hole {
        /// Their number, at least 1.
        length: u64,
    },
}

/// What an entry has besides its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permissions, set-uid, set-gid and sticky bits.
    pub mode: u32,
    /// The user id of its owner.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
    /// When it was last changed: seconds since 1970.
    pub seconds: i64,
    /// The nanoseconds of that, below a billion.
    pub nanos: u32,
    /// Its extended attributes.
    pub extended: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Why a tree is rejected.
#[derive(Debug, Error)]
pub enum TreeError {
    /// It cannot be read or written.
    #[error("the list of files cannot be read: {0}")]
    Io(#[from] io::Error),
    /// An entry is not what it has to be.
    #[error("entry {number} of the list of files ('{}') {why}", .path.escape_ascii())]
    Entry {
        /// Its position, from 1.
        number: u64,
        /// Its path, as it is.
        path: Vec<u8>,
        /// What is wrong.
        why: &'static str,
    },
}

impl Entry {
    /// The number of bytes of a file; 0 for everything else.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let EntryKind::File { segments } = &self.kind else { return 0 };
        let length = |segment: &Segment| match segment {
            Segment::Chunk(chunk) => u64::from(chunk.length),
            Segment::Hole { length } => *length,
        };
        segments.iter().map(length).fold(0, u64::saturating_add)
    }
}

/// Writes a tree.
#[derive(Debug)]
pub struct TreeWriter<W> {
    out: W,
    order: Order,
}

impl<W: Write> TreeWriter<W> {
    /// A tree without entries.
    pub fn new(out: W) -> Self {
        Self { out, order: Order::default() }
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// When it is invalid, or its path does not come after that of the entry before.
    pub fn add(&mut self, entry: &Entry) -> Result<(), TreeError> {
        self.order.check(entry)?;
        self.out.write_all(&to_message(entry).encode_length_delimited_to_vec())?;
        Ok(())
    }

    /// The number of entries.
    pub fn entries(&self) -> u64 {
        self.order.number
    }

    /// Ends the tree.
    pub fn finish(self) -> W {
        self.out
    }
}

/// Reads a tree: its entries, until the first error.
#[derive(Debug)]
pub struct TreeReader<R> {
    stream: R,
    order: Order,
    buffer: Vec<u8>,
    failed: bool,
}

impl<R: Read> TreeReader<R> {
    /// Reads from a stream.
    pub fn new(stream: R) -> Self {
        Self { stream, order: Order::default(), buffer: Vec::new(), failed: false }
    }

    fn read(&mut self) -> Result<Option<Entry>, TreeError> {
        let Some(length) = self.length()? else { return Ok(None) };
        let invalid =
            |why| TreeError::Entry { number: self.order.number + 1, path: Vec::new(), why };
        if length > ENTRY_BYTES_MAX {
            return Err(invalid("is too long"));
        }
        self.buffer.clear();
        // What is read decides how much memory is taken, not what is announced.
        let read = Read::take(&mut self.stream, length as u64).read_to_end(&mut self.buffer)?;
        if read < length {
            return Err(invalid("is cut off"));
        }
        let message = message::Entry::decode(&*self.buffer).map_err(|_| invalid("is no entry"))?;
        if message.encode_to_vec() != self.buffer {
            return Err(invalid("is not encoded as it has to be"));
        }
        let path = message.path.clone();
        let number = self.order.number + 1;
        let entry = from_message(message).map_err(|why| TreeError::Entry { number, path, why })?;
        self.order.check(&entry)?;
        Ok(Some(entry))
    }

    /// The length of the next entry; `None` at the end.
    fn length(&mut self) -> Result<Option<usize>, TreeError> {
        let (mut length, mut shift) = (0_usize, 0);
        loop {
            let mut byte = [0];
            match self.stream.read(&mut byte)? {
                0 if shift == 0 => return Ok(None),
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                _ => {}
            }
            length |= usize::from(byte[0] & 0x7f) << shift;
            if byte[0] & 0x80 == 0 {
                return Ok(Some(length));
            }
            shift += 7;
            if shift > 28 {
                return Err(
                    io::Error::new(io::ErrorKind::InvalidData, "a length is too long").into()
                );
            }
        }
    }
}

impl<R: Read> Iterator for TreeReader<R> {
    type Item = Result<Entry, TreeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let read = self.read();
        self.failed = read.is_err();
        read.transpose()
    }
}

/// What the entries so far allow for the next one.
#[derive(Debug, Default)]
struct Order {
    number: u64,
    last: Vec<u8>,
    /// Whether the last entry can have others below it.
    last_is_directory: bool,
    /// The entry under which entries may not be, if the last was no directory.
    files: std::collections::HashSet<Vec<u8>>,
}

impl Order {
    fn check(&mut self, entry: &Entry) -> Result<(), TreeError> {
        let wrong = match problem(entry) {
            Some(why) => Some(why),
            None => self.misplaced(entry),
        };
        self.number += 1;
        if let Some(why) = wrong {
            return Err(TreeError::Entry { number: self.number, path: entry.path.clone(), why });
        }
        if matches!(entry.kind, EntryKind::File { .. }) {
            self.files.insert(entry.path.clone());
        }
        self.last.clone_from(&entry.path);
        self.last_is_directory = matches!(entry.kind, EntryKind::Directory { .. });
        Ok(())
    }

    fn misplaced(&self, entry: &Entry) -> Option<&'static str> {
        if self.number >= ENTRIES_MAX {
            return Some("is beyond the maximum number of entries");
        }
        if self.number > 0 && components(&self.last).cmp(components(&entry.path)).is_ge() {
            return Some("is not in the order of paths");
        }
        // What is below an entry follows it at once, so only the last one can be its parent or a parent's sibling.
        let is_below = entry.path.starts_with(&self.last)
            && entry.path.get(self.last.len()) == Some(&b'/')
            && self.number > 0;
        if is_below && !self.last_is_directory {
            return Some("is below something that is no directory");
        }
        match &entry.kind {
            EntryKind::HardLink { target } if !self.files.contains(target) => {
                Some("is a link to something that is no earlier file")
            }
            _ => None,
        }
    }
}

fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
}

/// What is wrong with a path below the root.
pub(crate) fn path_problem(path: &[u8]) -> Option<&'static str> {
    if path.is_empty() || path.len() > PATH_BYTES_MAX {
        return Some("has an empty or too long path");
    }
    let bad = |component: &[u8]| {
        matches!(component, b"" | b"." | b"..") || component.len() > COMPONENT_BYTES_MAX
    };
    if path.contains(&0) || components(path).any(bad) {
        return Some("has a path that leads out of the package, or is not plain");
    }
    None
}

/// What is wrong with an entry by itself.
fn problem(entry: &Entry) -> Option<&'static str> {
    if let Some(why) = path_problem(&entry.path) {
        return Some(why);
    }
    let Attributes { mode, nanos, extended, .. } = &entry.attributes;
    if mode & !MODE_MASK != 0 || *nanos >= 1_000_000_000 {
        return Some("has a mode or a time that does not exist");
    }
    let bytes = |(name, value): (&Vec<u8>, &Vec<u8>)| name.len() + value.len();
    let bad_name = |name: &Vec<u8>| name.is_empty() || name.len() > 255 || name.contains(&0);
    if extended.iter().map(bytes).sum::<usize>() > ATTRIBUTES_BYTES_MAX
        || extended.keys().any(bad_name)
    {
        return Some("has too many extended attributes, or one without a proper name");
    }
    let bad_segment = |segment: &Segment| match segment {
        Segment::Chunk(chunk) => chunk.length == 0 || chunk.length as usize > CHUNK_MAX,
        Segment::Hole { length } => *length == 0,
    };
    match &entry.kind {
        EntryKind::File { segments } if segments.iter().any(bad_segment) => {
            Some("has a part without a proper length")
        }
        EntryKind::Symlink { target } if target.is_empty() || target.len() > PATH_BYTES_MAX => {
            Some("is a link without a proper target")
        }
        EntryKind::Symlink { target } if target.contains(&0) => Some("is a link with a zero byte"),
        EntryKind::HardLink { target } if path_problem(target).is_some() => {
            Some("is a link to a path that is not plain")
        }
        _ => None,
    }
}

/// The numbers of the kinds of entries.
mod kinds {
    pub(super) const DIRECTORY: u32 = 1;
    pub(super) const FILE: u32 = 2;
    pub(super) const SYMLINK: u32 = 3;
    pub(super) const HARD_LINK: u32 = 4;
    pub(super) const CHAR_DEVICE: u32 = 5;
    pub(super) const BLOCK_DEVICE: u32 = 6;
    pub(super) const FIFO: u32 = 7;
    pub(super) const WHITEOUT: u32 = 8;
}

fn to_message(entry: &Entry) -> message::Entry {
    let Attributes { mode, uid, gid, seconds, nanos, extended } = &entry.attributes;
    let attribute = |(name, value): (&Vec<u8>, &Vec<u8>)| message::Attribute {
        name: name.clone(),
        value: value.clone(),
    };
    let mut message = message::Entry {
        path: entry.path.clone(),
        mode: *mode,
        uid: *uid,
        gid: *gid,
        seconds: *seconds,
        nanos: *nanos,
        attributes: extended.iter().map(attribute).collect(),
        ..message::Entry::default()
    };
    message.kind = match &entry.kind {
        EntryKind::Directory { opaque } => {
            message.opaque = *opaque;
            kinds::DIRECTORY
        }
        EntryKind::File { segments } => {
            message.segments = segments.iter().map(segment_message).collect();
            kinds::FILE
        }
        EntryKind::Symlink { target } => {
            message.target.clone_from(target);
            kinds::SYMLINK
        }
        EntryKind::HardLink { target } => {
            message.target.clone_from(target);
            kinds::HARD_LINK
        }
        EntryKind::CharDevice { major, minor } => {
            (message.major, message.minor) = (*major, *minor);
            kinds::CHAR_DEVICE
        }
        EntryKind::BlockDevice { major, minor } => {
            (message.major, message.minor) = (*major, *minor);
            kinds::BLOCK_DEVICE
        }
        EntryKind::Fifo => kinds::FIFO,
        EntryKind::Whiteout => kinds::WHITEOUT,
    };
    message
}

fn segment_message(segment: &Segment) -> message::Segment {
    match segment {
        Segment::Chunk(chunk) => message::Segment { chunk: Some(chunk_message(chunk)), hole: 0 },
        Segment::Hole { length } => message::Segment { chunk: None, hole: *length },
    }
}

/// The message of a chunk.
pub(crate) fn chunk_message(chunk: &ChunkRef) -> message::Chunk {
    message::Chunk { digest: chunk.digest.as_bytes().to_vec(), length: chunk.length }
}

/// The digest of a message.
pub(crate) fn digest(bytes: &[u8]) -> Result<Digest, &'static str> {
    let bytes = bytes.try_into().map_err(|_| "has a digest of another length than 32 bytes")?;
    Ok(Digest::from_bytes(bytes))
}

/// The chunk of a message.
pub(crate) fn chunk(message: &message::Chunk) -> Result<ChunkRef, &'static str> {
    Ok(ChunkRef { digest: digest(&message.digest)?, length: message.length })
}

fn segment(message: &message::Segment) -> Result<Segment, &'static str> {
    match (&message.chunk, message.hole) {
        (Some(it), 0) => Ok(Segment::Chunk(chunk(it)?)),
        (None, length) => Ok(Segment::Hole { length }),
        (Some(_), _) => Err("has a part that is a chunk and a hole"),
    }
}

fn from_message(message: message::Entry) -> Result<Entry, &'static str> {
    let message::Entry { path, kind, mode, uid, gid, seconds, nanos, target, .. } = message;
    let (major, minor) = (message.major, message.minor);
    let kind = match kind {
        kinds::DIRECTORY => EntryKind::Directory { opaque: message.opaque },
        kinds::FILE => EntryKind::File {
            segments: message.segments.iter().map(segment).collect::<Result<_, _>>()?,
        },
        kinds::SYMLINK => EntryKind::Symlink { target },
        kinds::HARD_LINK => EntryKind::HardLink { target },
        kinds::CHAR_DEVICE => EntryKind::CharDevice { major, minor },
        kinds::BLOCK_DEVICE => EntryKind::BlockDevice { major, minor },
        kinds::FIFO => EntryKind::Fifo,
        kinds::WHITEOUT => EntryKind::Whiteout,
        _ => return Err("is of a kind that this version does not know"),
    };
    let number = message.attributes.len();
    let extended: BTreeMap<_, _> =
        message.attributes.into_iter().map(|it| (it.name, it.value)).collect();
    if extended.len() != number {
        return Err("has an extended attribute twice");
    }
    let attributes = Attributes { mode, uid, gid, seconds, nanos, extended };
    Ok(Entry { path, kind, attributes })
}
