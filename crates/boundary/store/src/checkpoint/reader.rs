//! Reads a checkpoint and verifies all of it.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::format::{
    self, BadHeader, HEADER_BYTES, MAX_SECTION_BYTES, SECTION_BYTES, Stated, TRAILER_BYTES, Trailer,
};
use crate::{Error, Result};

const BUFFER_BYTES: usize = 1 << 20;

/// An open checkpoint whose header, trailer and size are valid. The content is verified as it is
/// read.
#[derive(Debug)]
pub struct CheckpointReader {
    file: BufReader<File>,
    path: PathBuf,
    stated: Stated,
    trailer: Trailer,
}

impl CheckpointReader {
    /// Opens a checkpoint and verifies header, trailer and size without reading the sections.
    ///
    /// # Errors
    /// [`Error::DamagedCheckpoint`], [`Error::NewerFormat`] and [`Error::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let damaged = |offset, why: &str| damaged(path, offset, why);
        let mut file = File::open(path).map_err(Error::io("open", path, 0))?;
        let bytes = file.metadata().map_err(Error::io("look at", path, 0))?.len();
        if bytes < (HEADER_BYTES + TRAILER_BYTES) as u64 {
            return Err(damaged(bytes, "the file ends too early"));
        }
        let mut header = [0; HEADER_BYTES];
        let mut trailer = [0; TRAILER_BYTES];
        let trailer_at = bytes - TRAILER_BYTES as u64;
        file.read_exact(&mut header)
            .and_then(|()| file.seek(SeekFrom::Start(trailer_at)))
            .and_then(|_| file.read_exact(&mut trailer))
            .map_err(Error::io("read", path, 0))?;

        let stated = format::parse_header(&header).map_err(|bad| match bad {
            BadHeader::Damaged { offset, why } => damaged(offset, why),
            BadHeader::Newer(found) => {
                Error::NewerFormat { path: path.to_owned(), found, known: format::VERSION }
            }
        })?;
        let trailer = Trailer::decode(&trailer)
            .ok_or_else(|| damaged(trailer_at, "it does not end with a checkpoint's trailer"))?;
        if trailer.file_bytes != bytes {
            return Err(damaged(trailer_at, "the file's size differs from its trailer's"));
        }
        let file = BufReader::with_capacity(BUFFER_BYTES, file);
        Ok(Self { file, path: path.to_owned(), stated, trailer })
    }

    /// The index of the last entry included in the state.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.stated.index
    }

    /// The term of that entry.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.stated.term
    }

    /// The time of the state in microseconds since 1970, if the writer set it.
    #[must_use]
    pub fn time_us(&self) -> Option<u64> {
        (self.stated.time_us > 0).then_some(self.stated.time_us)
    }

    /// The file's size.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.trailer.file_bytes
    }

    /// The number of sections.
    #[must_use]
    pub fn sections(&self) -> u64 {
        self.trailer.sections
    }

    /// The blake3 digest of the content: equal for equal checkpoints, wherever they were written.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.trailer.digest
    }

    /// Visits every section in order, with its kind and payload. A payload is verified before the
    /// visit, the order and number of sections only at the end: discard what was built from the
    /// sections unless this returns `Ok`.
    ///
    /// # Errors
    /// Those of `visit`, [`Error::DamagedCheckpoint`] and [`Error::Io`].
    pub fn for_each<E: From<Error>>(
        &mut self,
        mut visit: impl FnMut(u32, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let end = self.trailer.file_bytes - TRAILER_BYTES as u64;
        let mut hasher = blake3::Hasher::new();
        let mut header = [0; HEADER_BYTES];
        self.file.seek(SeekFrom::Start(0)).map_err(Error::io("read", &self.path, 0))?;
        self.read(&mut header)?;
        hasher.update(&header);

        let mut at = HEADER_BYTES as u64;
        let mut sections = 0;
        let mut payload = Vec::new();
        while at < end {
            let mut header = [0; SECTION_BYTES];
            if end - at < SECTION_BYTES as u64 {
                return Err(
                    damaged(&self.path, at, "a section extends past the end of the file").into()
                );
            }
            self.read(&mut header)?;
            let section = format::parse_section(&header).ok_or_else(|| {
                damaged(&self.path, at, "the checksum of a section's header does not match")
            })?;
            let from = at + SECTION_BYTES as u64;
            if section.bytes > (end - from).min(MAX_SECTION_BYTES as u64) {
                return Err(
                    damaged(&self.path, at, "a section extends past the end of the file").into()
                );
            }
            payload.resize(usize::try_from(section.bytes).unwrap_or(MAX_SECTION_BYTES), 0);
            self.read(&mut payload)?;
            if crc32c::crc32c(&payload) != section.checksum {
                let why = "the checksum of a section does not match";
                return Err(damaged(&self.path, from, why).into());
            }
            hasher.update(&header).update(&payload);
            at = from + section.bytes;
            sections += 1;
            visit(section.kind, &payload)?;
        }
        if sections != self.trailer.sections || *hasher.finalize().as_bytes() != self.trailer.digest
        {
            return Err(
                damaged(&self.path, end, "the digest of the whole file does not match").into()
            );
        }
        Ok(())
    }

    /// Reads and verifies everything and discards it: whether the checkpoint could be loaded.
    ///
    /// # Errors
    /// [`Error::DamagedCheckpoint`] and [`Error::Io`].
    pub fn verify(&mut self) -> Result<()> {
        self.for_each(|_, _| Ok(()))
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.file.read_exact(buffer).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => damaged(
                &self.path,
                self.trailer.file_bytes,
                "the file was truncated while it was read",
            ),
            _ => Error::io("read", &self.path, 0)(e),
        })
    }
}

fn damaged(path: &Path, offset: u64, why: &str) -> Error {
    Error::DamagedCheckpoint { path: path.to_owned(), offset, why: why.to_owned() }
}
