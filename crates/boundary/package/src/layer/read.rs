//! Reads the members of an archive in their order.

use std::io::{self, BufReader, Read};

use super::LayerError;
use super::header::{BLOCK_BYTES, Header, continued};
use super::pax::{Records, SPARSE_MAP};
use super::sparse::{self, MAP_BYTES_MAX, Map, MapLines, PARTS_MAX};
use crate::chunk::{Contents, Segment};
use crate::limits::Budget;
use crate::tree::{
    Attributes, Device, EntryPath, MAJOR_MAX, MINOR_MAX, MODE_MAX, Modified, PathError,
    XATTR_BYTES_MAX, Xattr, is_of_overlay,
};

/// The maximum length of an extended header or a long name in bytes: of paths, extended
/// attributes, and the map of a sparse file.
const EXTENDED_BYTES_MAX: usize = 8 << 20;

/// The maximum length of what holds for all members in bytes: each of them copies it.
const GLOBAL_BYTES_MAX: usize = 16 << 10;

/// The length of the buffer for headers and small files in bytes.
pub(crate) const BUFFER_BYTES: usize = 64 << 10;

/// The beginning of the name of a whiteout.
const WHITEOUT: &[u8] = b".wh.";

/// The name that makes its directory opaque.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// The beginning of names that aufs used for itself.
const AUFS: &[u8] = b".wh..wh.";

/// A member of an archive, with its path as in the archive, cleaned.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(super) path: EntryPath,
    pub(super) kind: MemberKind,
    pub(super) attributes: Attributes,
}

/// What a member is.
#[derive(Clone, Debug)]
pub(super) enum MemberKind {
    Directory,
    File(Vec<Segment>),
    Symlink(Vec<u8>),
    HardLink(EntryPath),
    CharDevice(Device),
    BlockDevice(Device),
    Fifo,
    /// The path is the one that it removes.
    Whiteout,
    /// The path is that of the directory.
    Opaque,
    /// The path means nothing.
    OpaqueRoot,
}

/// Reads all members, and puts the contents of files into chunks.
pub(crate) fn members(
    archive: &mut dyn Read,
    contents: &mut Contents<'_>,
    budget: &mut Budget,
) -> Result<Vec<Member>, LayerError> {
    let mut reader = TarReader::new(BufReader::with_capacity(BUFFER_BYTES, archive));
    let mut members = Vec::new();
    while let Some(raw) = reader.next()? {
        budget.entry()?;
        if let Some(member) = reader.member(&raw, contents, budget)? {
            members.push(member);
        }
    }
    Ok(members)
}

/// A header with what extended headers say of it.
pub(super) struct Raw {
    pub(super) header: Header,
    records: Records,
    pub(super) name: Vec<u8>,
    pub(super) link: Vec<u8>,
    pub(super) size: u64,
}

/// A stream of which parts can be skipped.
pub(crate) trait Skip: Read {
    /// Skips bytes, and returns how many there were, which is fewer only at the end.
    fn skip(&mut self, bytes: u64) -> io::Result<u64>
    where
        Self: Sized,
    {
        io::copy(&mut self.by_ref().take(bytes), &mut io::sink())
    }
}

impl Skip for BufReader<&mut dyn Read> {}

pub(super) struct TarReader<S> {
    pub(super) archive: S,
    pub(super) offset: u64,
    /// Records that hold for all members after them.
    global: Records,
}

impl<S: Skip> TarReader<S> {
    pub(super) fn new(archive: S) -> Self {
        Self { archive, offset: 0, global: Records::default() }
    }

    fn fault(&self, why: impl Into<String>) -> LayerError {
        LayerError::Tar { offset: self.offset, why: why.into() }
    }

    fn read_exact(&mut self, into: &mut [u8]) -> Result<(), LayerError> {
        let offset = self.offset;
        self.archive.read_exact(into).map_err(|source| LayerError::Read { offset, source })?;
        self.offset += into.len() as u64;
        Ok(())
    }

    /// The next block, or `None` at the end of the stream.
    fn block(&mut self) -> Result<Option<[u8; BLOCK_BYTES]>, LayerError> {
        let offset = self.offset;
        let mut block = [0; BLOCK_BYTES];
        let mut filled = 0;
        while filled < BLOCK_BYTES {
            match self.archive.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(self.fault("it ends within a header: it is truncated")),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(LayerError::Read { offset, source }),
            }
        }
        self.offset += BLOCK_BYTES as u64;
        Ok(Some(block))
    }

    /// The next header, or `None` at the end: two blocks of zeros, or the end of the stream, which
    /// some programs leave them out of.
    fn header(&mut self) -> Result<Option<Header>, LayerError> {
        let Some(block) = self.block()? else { return Ok(None) };
        if block == [0; BLOCK_BYTES] {
            return match self.block()? {
                None => Ok(None),
                Some(block) if block == [0; BLOCK_BYTES] => Ok(None),
                Some(_) => Err(self.fault("a block of zeros is followed by something else")),
            };
        }
        let header = Header(block);
        match header.has_checksum() {
            true => Ok(Some(header)),
            false => Err(self.fault(
                "the checksum of a header is wrong: the archive is damaged, or of another format",
            )),
        }
    }

    /// Reads the contents of an extended header.
    fn extended(&mut self, header: &Header) -> Result<Vec<u8>, LayerError> {
        let size = header.size().map_err(|why| self.fault(why))?;
        let size = usize::try_from(size).ok().filter(|size| *size <= EXTENDED_BYTES_MAX);
        let size = size.ok_or_else(|| self.fault("an extended header is longer than 8 MiB"))?;
        let mut bytes = vec![0; size];
        self.read_exact(&mut bytes)?;
        self.skip_padding(size as u64)?;
        Ok(bytes)
    }

    /// The next header that is not an extended one.
    pub(super) fn next(&mut self) -> Result<Option<Raw>, LayerError> {
        let mut records = self.global.clone();
        let (mut long_name, mut long_link) = (None, None);
        let until_zero =
            |bytes: Vec<u8>| bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
        loop {
            let Some(header) = self.header()? else { return Ok(None) };
            match header.kind() {
                b'g' => {
                    let bytes = self.extended(&header)?;
                    self.global.read(&bytes).map_err(|why| self.fault(why))?;
                    if self.global.bytes() > GLOBAL_BYTES_MAX {
                        return Err(self.fault("global extended headers are longer than 16 KiB"));
                    }
                    records = self.global.clone();
                }
                b'x' => {
                    let bytes = self.extended(&header)?;
                    records.read(&bytes).map_err(|why| self.fault(why))?;
                }
                b'L' => long_name = Some(until_zero(self.extended(&header)?)),
                b'K' => long_link = Some(until_zero(self.extended(&header)?)),
                // The label of a volume.
                b'V' => _ = self.extended(&header)?,
                _ => return self.raw(header, records, long_name, long_link).map(Some),
            }
        }
    }

    fn raw(
        &self,
        header: Header,
        records: Records,
        long_name: Option<Vec<u8>>,
        long_link: Option<Vec<u8>>,
    ) -> Result<Raw, LayerError> {
        let of_sparse = records.get(b"GNU.sparse.name");
        let name = of_sparse.or(records.get(b"path")).map(<[u8]>::to_vec);
        let name = name.or(long_name).unwrap_or_else(|| header.name());
        let link = records.get(b"linkpath").map(<[u8]>::to_vec);
        let link = link.or(long_link).unwrap_or_else(|| header.link());
        let size = records.number(b"size").and_then(|size| size.map_or_else(|| header.size(), Ok));
        let size = size.map_err(|why| self.fault(why))?;
        Ok(Raw { header, records, name, link, size })
    }

    /// Reads what follows a header. The root and what aufs used for itself are no members.
    fn member(
        &mut self,
        raw: &Raw,
        contents: &mut Contents<'_>,
        budget: &mut Budget,
    ) -> Result<Option<Member>, LayerError> {
        let fault = |why: &str| LayerError::Member { path: raw.name.clone(), why: why.to_owned() };
        let Some(path) = clean(&raw.name)? else {
            self.skip(if has_contents(raw.header.kind()) { raw.size } else { 0 })?;
            return Ok(None);
        };
        let base = path.name();
        if base.starts_with(WHITEOUT) {
            self.skip(if has_contents(raw.header.kind()) { raw.size } else { 0 })?;
            return whiteout(&path).map_err(&fault);
        }
        let mut attributes = attributes(raw).map_err(&fault)?;
        let kind = match raw.header.kind() {
            // Before POSIX a directory was a file whose name ends with a slash.
            b'0' | 0 if raw.name.ends_with(b"/") => {
                self.skip(raw.size)?;
                MemberKind::Directory
            }
            b'0' | b'7' | 0 | b'S' => MemberKind::File(self.file(raw, contents, budget)?),
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
                Device { major: 0, minor: 0 } => {
                    attributes = Attributes::default();
                    MemberKind::Whiteout
                }
                device => MemberKind::CharDevice(device),
            },
            b'4' => MemberKind::BlockDevice(device(&raw.header).map_err(&fault)?),
            b'5' => MemberKind::Directory,
            b'6' => MemberKind::Fifo,
            other => {
                let kind = char::from(other).escape_default();
                return Err(fault(&format!(
                    "its type is '{kind}', and not a file, directory, link, device or pipe"
                )));
            }
        };
        Ok(Some(Member { path, kind, attributes }))
    }

    fn file(
        &mut self,
        raw: &Raw,
        contents: &mut Contents<'_>,
        budget: &mut Budget,
    ) -> Result<Vec<Segment>, LayerError> {
        let (map, stored) = match self.map(raw)? {
            None => (Map { real_size: raw.size, parts: vec![(0, raw.size)] }, raw.size),
            Some((map, stored)) => (map, stored),
        };
        budget.file(&raw.name, map.real_size)?;
        if map.stored() != stored {
            return Err(self.fault("the map of a sparse file does not agree with its length"));
        }
        let failed = |source| LayerError::Contents { path: raw.name.clone(), source };
        let mut position = 0;
        for (offset, length) in &map.parts {
            contents.hole(offset - position).map_err(failed)?;
            contents.read(&mut self.archive, *length).map_err(failed)?;
            self.offset += length;
            position = offset + length;
        }
        contents.hole(map.real_size - position).map_err(failed)?;
        self.skip_padding(stored)?;
        contents.finish().map_err(failed)
    }

    /// The map of a sparse file and the bytes that follow it, or `None` of another file.
    fn map(&mut self, raw: &Raw) -> Result<Option<(Map, u64)>, LayerError> {
        let number = |key: &[u8]| raw.records.number(key).map_err(|why| self.fault(why));
        let (major, size) = (number(b"GNU.sparse.major")?, number(b"GNU.sparse.size")?);
        let (minor, real_size) = (number(b"GNU.sparse.minor")?, number(b"GNU.sparse.realsize")?);
        let (parts, stored, real_size) = match (raw.header.kind(), major) {
            (b'S', _) => {
                let real_size = raw.header.real_size().map_err(|why| self.fault(why))?;
                (self.map_of_header(&raw.header)?, raw.size, real_size)
            }
            (_, Some(1)) if minor.unwrap_or_default() == 0 => {
                let (parts, length) = self.map_of_lines(raw.size)?;
                let missing = || self.fault("a sparse file has no GNU.sparse.realsize");
                (parts, raw.size - length, real_size.ok_or_else(missing)?)
            }
            (_, Some(1..)) => {
                return Err(self.fault(
                    "a sparse file has a version that is not known: 0.0, 0.1, \
                                       1.0 and the old format of GNU are",
                ));
            }
            (_, _) => match (raw.records.get(SPARSE_MAP), size.or(real_size)) {
                (Some(map), Some(size)) => {
                    (sparse::of_text(map).map_err(|why| self.fault(why))?, raw.size, size)
                }
                (None, None) => return Ok(None),
                (Some(_), None) => return Err(self.fault("a sparse file has no GNU.sparse.size")),
                // All of it is a hole.
                (None, Some(size)) => (Vec::new(), raw.size, size),
            },
        };
        let map = Map::new(real_size, parts).map_err(|why| self.fault(why))?;
        Ok(Some((map, stored)))
    }

    fn map_of_header(&mut self, header: &Header) -> Result<Vec<(u64, u64)>, LayerError> {
        let (parts, mut more) = header.sparse();
        let mut all = parts.collect::<Result<Vec<_>, _>>().map_err(|why| self.fault(why))?;
        while more {
            let block = self.block()?;
            let block = block.ok_or_else(|| self.fault("it ends within a sparse map"))?;
            let (parts, continues) = continued(&block);
            for part in parts {
                all.push(part.map_err(|why| self.fault(why))?);
            }
            if all.len() > PARTS_MAX {
                return Err(self.fault("a sparse file has more than 1,048,576 parts"));
            }
            more = continues;
        }
        Ok(all)
    }

    /// The map before the contents of a file, and its length.
    fn map_of_lines(&mut self, size: u64) -> Result<(Vec<(u64, u64)>, u64), LayerError> {
        let (mut lines, mut length) = (MapLines::default(), 0);
        while length < size.min(MAP_BYTES_MAX as u64) {
            let block = self.block()?;
            let block = block.ok_or_else(|| self.fault("it ends within a sparse map"))?;
            length += BLOCK_BYTES as u64;
            if let Some(parts) = lines.block(&block).map_err(|why| self.fault(why))? {
                return Ok((parts, length.min(size)));
            }
        }
        Err(self.fault("the map of a sparse file has no end"))
    }

    /// Skips contents and what pads them.
    pub(super) fn skip(&mut self, bytes: u64) -> Result<(), LayerError> {
        self.skip_exactly(bytes)?;
        self.skip_padding(bytes)
    }

    pub(super) fn skip_exactly(&mut self, bytes: u64) -> Result<(), LayerError> {
        let offset = self.offset;
        let skipped =
            self.archive.skip(bytes).map_err(|source| LayerError::Read { offset, source })?;
        self.offset += skipped;
        match skipped == bytes {
            true => Ok(()),
            false => Err(self.fault("it ends within a member: it is truncated")),
        }
    }

    /// Skips what pads contents to whole blocks.
    pub(super) fn skip_padding(&mut self, bytes: u64) -> Result<(), LayerError> {
        let mut padding = [0; BLOCK_BYTES];
        // Below the length of a block.
        let length = usize::try_from(bytes.wrapping_neg() % BLOCK_BYTES as u64).unwrap_or_default();
        self.read_exact(&mut padding[..length])
    }
}

/// Whether contents follow a member of this type. The length of others means nothing.
pub(super) fn has_contents(kind: u8) -> bool {
    !matches!(kind, b'1'..=b'6')
}

/// The path without a leading `/` and without `.`, or `None` for the root.
pub(super) fn clean(name: &[u8]) -> Result<Option<EntryPath>, PathError> {
    let components = name.split(|byte| *byte == b'/');
    let kept: Vec<&[u8]> = components.filter(|name| !matches!(*name, b"" | b".")).collect();
    match kept.is_empty() {
        true => Ok(None),
        false => EntryPath::new(&kept.join(&b'/')).map(Some),
    }
}

/// The member for a name that begins with `.wh.`.
fn whiteout(path: &EntryPath) -> Result<Option<Member>, &'static str> {
    let parent = path.parent().unwrap_or_default();
    let member = |path: &[u8], kind| {
        let path = EntryPath::new(path).map_err(|_| "it removes something that has no path")?;
        Ok(Some(Member { path, kind, attributes: Attributes::default() }))
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

fn device(header: &Header) -> Result<Device, &'static str> {
    let within = |number: i64, max| u32::try_from(number).ok().filter(|number| *number <= max);
    let major = within(header.major()?, MAJOR_MAX);
    let minor = within(header.minor()?, MINOR_MAX);
    let device = major.zip(minor).map(|(major, minor)| Device { major, minor });
    device.ok_or("the number of the device is out of range")
}

fn attributes(raw: &Raw) -> Result<Attributes, &'static str> {
    let Raw { header, records, .. } = raw;
    let mode = u32::try_from(header.mode()? & i64::from(MODE_MAX)).unwrap_or_default();
    let id = |record: Option<u64>, number: i64| match record {
        Some(record) => u32::try_from(record).ok(),
        None => u32::try_from(number).ok(),
    };
    let uid = id(records.number(b"uid")?, header.uid()?).ok_or("its user is out of range")?;
    let gid = id(records.number(b"gid")?, header.gid()?).ok_or("its group is out of range")?;
    let seconds = header.modified()?;
    let modified = records.modified()?.unwrap_or(Modified { seconds, nanos: 0 });
    let of_image = |name: &[u8]| name != b"security.selinux" && !is_of_overlay(name);
    let xattrs: Vec<Xattr> = records
        .xattrs()
        .filter(|(name, _)| of_image(name))
        .map(|(name, value)| Xattr { name: name.to_vec(), value: value.to_vec() })
        .collect();
    let bytes: usize = xattrs.iter().map(|xattr| xattr.name.len() + xattr.value.len()).sum();
    match bytes > XATTR_BYTES_MAX {
        true => Err("its extended attributes have more than 64 KiB"),
        false => Ok(Attributes { mode, uid, gid, modified, xattrs }),
    }
}
