//! The members of a layer, in the order of its archive.

use std::io::{BufReader, Read};

use super::BUFFER_BYTES;
use super::header::TarHeader;
use super::read::{RawMember, Skip, TarReader, clean, has_contents};
use super::sparse::SparseMap;
use crate::archive::error::ArchiveError;
use crate::archive::limits::ImportBudget;
use crate::archive::path::EntryPath;
use crate::chunk::ChunkSink;
use crate::contents::{ContentError, Contents};
use crate::tree::{EntryAttributes, EntryKind, MODE_BITS, OVERLAY_PREFIXES, Segment, printable};

/// The beginning of the name of a whiteout.
const WHITEOUT: &[u8] = b".wh.";
/// The name that makes its directory opaque.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// The beginning of names that aufs used for itself.
const AUFS: &[u8] = b".wh..wh.";

/// A member of an archive, with its path as in the archive, cleaned.
#[derive(Clone, Debug)]
pub(in crate::archive) struct LayerMember {
    pub(in crate::archive) path: EntryPath,
    pub(in crate::archive) kind: MemberKind,
    pub(in crate::archive) attributes: EntryAttributes,
}

/// What a member is.
#[derive(Clone, Debug)]
pub(in crate::archive) enum MemberKind {
    Directory,
    File(Vec<Segment>),
    Symlink(Vec<u8>),
    HardLink(EntryPath),
    CharDevice {
        major: u32,
        minor: u32,
    },
    BlockDevice {
        major: u32,
        minor: u32,
    },
    Fifo,
    /// The path is the one that it removes.
    Whiteout,
    /// The path is that of the directory.
    Opaque,
    /// The path means nothing.
    OpaqueRoot,
}

/// Reads all members, and puts the content of files into chunks.
pub(in crate::archive) fn members(
    archive: &mut dyn Read,
    contents: &mut Contents,
    sink: &mut dyn ChunkSink,
    budget: &mut ImportBudget,
) -> Result<Vec<LayerMember>, ArchiveError> {
    let mut reader = TarReader::new(BufReader::with_capacity(BUFFER_BYTES, archive));
    let mut members = Vec::new();
    while let Some(raw) = reader.next()? {
        budget.entry(raw.name.len() + raw.link.len())?;
        if let Some(member) = reader.member(&raw, contents, sink, budget)? {
            members.push(member);
        }
    }
    Ok(members)
}

/// How many bytes an entry has in memory, besides its path.
pub(in crate::archive) fn metadata(kind: &EntryKind, attributes: &EntryAttributes) -> usize {
    let more = match kind {
        EntryKind::File { segments } => size_of_val(&segments[..]),
        EntryKind::Symlink { target } | EntryKind::HardLink { target } => target.len(),
        _ => 0,
    };
    more + attributes.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
}

impl Skip for BufReader<&mut dyn Read> {}

impl<S: Skip> TarReader<S> {
    /// Reads what follows a header. The root and what aufs used for itself are no members.
    fn member(
        &mut self,
        raw: &RawMember,
        contents: &mut Contents,
        sink: &mut dyn ChunkSink,
        budget: &mut ImportBudget,
    ) -> Result<Option<LayerMember>, ArchiveError> {
        let fault =
            |why: &str| ArchiveError::Member { path: printable(&raw.name), why: why.to_owned() };
        let length = if has_contents(raw.header.kind()) { raw.size } else { 0 };
        let Some(path) = clean(&raw.name)? else {
            self.skip(length)?;
            return Ok(None);
        };
        if path.as_bytes().starts_with(AUFS) && path.as_bytes() != OPAQUE {
            self.skip(length)?;
            return Ok(None);
        }
        if path.name().starts_with(WHITEOUT) {
            self.skip(length)?;
            return whiteout(&path).map_err(&fault);
        }
        let mut attributes = attributes(raw, budget)?;
        let kind = match raw.header.kind() {
            // Before POSIX a directory was a file whose name ends with a slash.
            b'0' | 0 if raw.name.ends_with(b"/") => {
                self.skip(raw.size)?;
                MemberKind::Directory
            }
            b'0' | b'7' | 0 | b'S' => MemberKind::File(self.file(raw, contents, sink, budget)?),
            b'1' => match clean(&raw.link)? {
                Some(target) => MemberKind::HardLink(target),
                None => return Err(fault("it is a hard link to the root")),
            },
            b'2' => {
                attributes.mode = 0o777;
                MemberKind::Symlink(raw.link.clone())
            }
            b'3' => match device(&raw.header).map_err(&fault)? {
                // What an overlay mount would take for one.
                (0, 0) => {
                    attributes = EntryAttributes::default();
                    MemberKind::Whiteout
                }
                (major, minor) => MemberKind::CharDevice { major, minor },
            },
            b'4' => {
                let (major, minor) = device(&raw.header).map_err(&fault)?;
                MemberKind::BlockDevice { major, minor }
            }
            b'5' => MemberKind::Directory,
            b'6' => MemberKind::Fifo,
            other => {
                let kind = char::from(other).escape_default();
                return Err(fault(&format!(
                    "its type is '{kind}', and not a file, directory, link, device or pipe"
                )));
            }
        };
        Ok(Some(LayerMember { path, kind, attributes }))
    }

    fn file(
        &mut self,
        raw: &RawMember,
        contents: &mut Contents,
        sink: &mut dyn ChunkSink,
        budget: &mut ImportBudget,
    ) -> Result<Vec<Segment>, ArchiveError> {
        let (map, stored) = match self.map(raw)? {
            None => (SparseMap { real_size: raw.size, parts: vec![(0, raw.size)] }, raw.size),
            Some((map, stored)) => (map, stored),
        };
        budget.file(&raw.name, map.real_size)?;
        if map.stored() != stored {
            return Err(self.fault("the map of a sparse file does not agree with its length"));
        }
        let failed = |error| match error {
            ContentError::Read(source) => {
                ArchiveError::Content { path: printable(&raw.name), source }
            }
            ContentError::Sink(source) => ArchiveError::Sink(source),
        };
        let mut position = 0;
        for (offset, length) in &map.parts {
            contents.hole(offset - position, sink).map_err(failed)?;
            contents.read(&mut self.archive, *length, sink).map_err(failed)?;
            self.offset += length;
            position = offset + length;
        }
        contents.hole(map.real_size - position, sink).map_err(failed)?;
        self.skip_padding(stored)?;
        let segments = contents.finish(sink).map_err(failed)?;
        budget.metadata(size_of_val(&segments[..]))?;
        Ok(segments)
    }
}

/// The member for a name that begins with `.wh.`.
fn whiteout(path: &EntryPath) -> Result<Option<LayerMember>, &'static str> {
    let parent = path.parent().unwrap_or_default();
    let member = |path: &[u8], kind| {
        let path = EntryPath::new(path).map_err(|_| "it removes something that has no path")?;
        Ok(Some(LayerMember { path, kind, attributes: EntryAttributes::default() }))
    };
    match path.name() {
        OPAQUE if parent.is_empty() => member(path.as_bytes(), MemberKind::OpaqueRoot),
        OPAQUE => member(parent, MemberKind::Opaque),
        name if name.starts_with(AUFS) => Ok(None),
        name => {
            let removed = &name[WHITEOUT.len()..];
            match parent {
                b"" => member(removed, MemberKind::Whiteout),
                _ => member(&[parent, b"/", removed].concat(), MemberKind::Whiteout),
            }
        }
    }
}

/// The numbers of a device, whose bounds are those of trees.
fn device(header: &TarHeader) -> Result<(u32, u32), &'static str> {
    let number = |number| u32::try_from(number).map_err(|_| "the number of the device is negative");
    Ok((number(header.major()?)?, number(header.minor()?)?))
}

fn attributes(raw: &RawMember, budget: &mut ImportBudget) -> Result<EntryAttributes, ArchiveError> {
    let attributes = attributes_of(raw).map_err(|why| {
        let path = printable(&raw.name);
        ArchiveError::Member { path, why: why.to_owned() }
    })?;
    budget.metadata(metadata(&EntryKind::Fifo, &attributes))?;
    Ok(attributes)
}

fn attributes_of(raw: &RawMember) -> Result<EntryAttributes, &'static str> {
    let RawMember { header, records, .. } = raw;
    let mode = u32::try_from(header.mode()? & i64::from(MODE_BITS)).unwrap_or_default();
    let id = |record: Option<u64>, number: i64| match record {
        Some(record) => u32::try_from(record).ok(),
        None => u32::try_from(number).ok(),
    };
    let uid = id(records.number(b"uid")?, header.uid()?).ok_or("its user is out of range")?;
    let gid = id(records.number(b"gid")?, header.gid()?).ok_or("its group is out of range")?;
    let seconds = header.modified()?;
    let mtime = records.modified()?.unwrap_or((seconds, 0));
    let of_image = |name: &[u8]| {
        let overlay = OVERLAY_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        name != b"security.selinux" && !overlay
    };
    let xattrs = records.xattrs().filter(|(name, _)| of_image(name));
    let xattrs = xattrs.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    Ok(EntryAttributes { mode, uid, gid, mtime, xattrs })
}
