//! The blocks of an archive: headers, extended headers, and what is skipped.

use std::io::{self, Read};

use super::header::{BLOCK_BYTES, TarHeader};
use super::pax::PaxRecords;
use crate::archive::error::ArchiveError;
use crate::archive::path::{EntryPath, PathError};

/// How long the extended headers and long names of a member are at most, together and in bytes: paths, extended
/// attributes, and the map of a sparse file.
const MAX_EXTENDED_BYTES: usize = 8 * 1024 * 1024;
/// How long what holds for all members is at most, in bytes: each of them copies it.
const MAX_GLOBAL_BYTES: usize = 16 * 1024;

/// A header with what extended headers say of it.
pub(super) struct RawMember {
    pub(super) header: TarHeader,
    pub(super) records: PaxRecords,
    pub(super) name: Vec<u8>,
    pub(super) link: Vec<u8>,
    pub(super) size: u64,
}

/// A stream of which parts can be skipped.
pub(in crate::archive) trait Skip: Read {
    /// Skips bytes, and returns how many there were, which is fewer only at the end.
    fn skip(&mut self, bytes: u64) -> io::Result<u64>
    where
        Self: Sized,
    {
        io::copy(&mut self.by_ref().take(bytes), &mut io::sink())
    }
}

pub(super) struct TarReader<S> {
    pub(super) archive: S,
    pub(super) offset: u64,
    /// Records that hold for all members after them.
    global: PaxRecords,
}

impl<S: Skip> TarReader<S> {
    pub(super) fn new(archive: S) -> Self {
        Self { archive, offset: 0, global: PaxRecords::default() }
    }

    pub(super) fn fault(&self, why: impl Into<String>) -> ArchiveError {
        ArchiveError::Tar { offset: self.offset, why: why.into() }
    }

    fn read_exact(&mut self, into: &mut [u8]) -> Result<(), ArchiveError> {
        let offset = self.offset;
        self.archive.read_exact(into).map_err(|source| ArchiveError::Read { offset, source })?;
        self.offset += into.len() as u64;
        Ok(())
    }

    /// The next block, or `None` at the end of the stream.
    pub(super) fn block(&mut self) -> Result<Option<[u8; BLOCK_BYTES]>, ArchiveError> {
        let offset = self.offset;
        let mut block = [0; BLOCK_BYTES];
        let mut filled = 0;
        while filled < BLOCK_BYTES {
            match self.archive.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(self.fault("it ends within a header: it is truncated")),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(ArchiveError::Read { offset, source }),
            }
        }
        self.offset += BLOCK_BYTES as u64;
        Ok(Some(block))
    }

    /// The next header, or `None` at the end: two blocks of zeros, or the end of the stream, which
    /// some programs leave them out of.
    fn header(&mut self) -> Result<Option<TarHeader>, ArchiveError> {
        let Some(block) = self.block()? else { return Ok(None) };
        if block == [0; BLOCK_BYTES] {
            return match self.block()? {
                None => Ok(None),
                Some(block) if block == [0; BLOCK_BYTES] => Ok(None),
                Some(_) => Err(self.fault("a block of zeros is followed by something else")),
            };
        }
        let header = TarHeader(block);
        match header.has_checksum() {
            true => Ok(Some(header)),
            false => Err(self.fault(
                "the checksum of a header is wrong: the archive is damaged, or of another format",
            )),
        }
    }

    /// Reads the contents of an extended header. `left` is how many bytes those of the same member may still have.
    fn extended(&mut self, header: &TarHeader, left: &mut usize) -> Result<Vec<u8>, ArchiveError> {
        let size = header.size().map_err(|why| self.fault(why))?;
        let size = usize::try_from(size).ok().filter(|size| size <= left);
        let long = "the extended headers of a member are longer than 8 MiB";
        let size = size.ok_or_else(|| self.fault(long))?;
        *left -= size;
        let mut bytes = vec![0; size];
        self.read_exact(&mut bytes)?;
        self.skip_padding(size as u64)?;
        Ok(bytes)
    }

    /// The next header that is not an extended one.
    pub(super) fn next(&mut self) -> Result<Option<RawMember>, ArchiveError> {
        let mut records = self.global.clone();
        let (mut long_name, mut long_link) = (None, None);
        let mut left = MAX_EXTENDED_BYTES;
        let until_zero =
            |bytes: Vec<u8>| bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
        loop {
            let Some(header) = self.header()? else { return Ok(None) };
            match header.kind() {
                b'g' => {
                    let bytes = self.extended(&header, &mut left)?;
                    self.global.read(&bytes).map_err(|why| self.fault(why))?;
                    if self.global.bytes() > MAX_GLOBAL_BYTES {
                        return Err(self.fault("global extended headers are longer than 16 KiB"));
                    }
                    records = self.global.clone();
                }
                b'x' => {
                    let bytes = self.extended(&header, &mut left)?;
                    records.read(&bytes).map_err(|why| self.fault(why))?;
                }
                b'L' => long_name = Some(until_zero(self.extended(&header, &mut left)?)),
                b'K' => long_link = Some(until_zero(self.extended(&header, &mut left)?)),
                // The label of a volume.
                b'V' => _ = self.extended(&header, &mut left)?,
                _ => return self.raw(header, records, long_name, long_link).map(Some),
            }
        }
    }

    fn raw(
        &self,
        header: TarHeader,
        records: PaxRecords,
        long_name: Option<Vec<u8>>,
        long_link: Option<Vec<u8>>,
    ) -> Result<RawMember, ArchiveError> {
        let of_sparse = records.get(b"GNU.sparse.name");
        let name = of_sparse.or(records.get(b"path")).map(<[u8]>::to_vec);
        let name = name.or(long_name).unwrap_or_else(|| header.name());
        let link = records.get(b"linkpath").map(<[u8]>::to_vec);
        let link = link.or(long_link).unwrap_or_else(|| header.link());
        let size = records.number(b"size").and_then(|size| size.map_or_else(|| header.size(), Ok));
        let size = size.map_err(|why| self.fault(why))?;
        Ok(RawMember { header, records, name, link, size })
    }

    /// Skips contents and what pads them.
    pub(super) fn skip(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        self.skip_exactly(bytes)?;
        self.skip_padding(bytes)
    }

    pub(super) fn skip_exactly(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        let offset = self.offset;
        let skipped =
            self.archive.skip(bytes).map_err(|source| ArchiveError::Read { offset, source })?;
        self.offset += skipped;
        match skipped == bytes {
            true => Ok(()),
            false => Err(self.fault("it ends within a member: it is truncated")),
        }
    }

    /// Skips what pads contents to whole blocks. Behind the last member some programs leave it out, with the end of
    /// the archive.
    pub(super) fn skip_padding(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        let (offset, length) = (self.offset, bytes.wrapping_neg() % BLOCK_BYTES as u64);
        let skipped = self.archive.skip(length);
        self.offset += skipped.map_err(|source| ArchiveError::Read { offset, source })?;
        Ok(())
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
