//! Writes a checkpoint.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::Checkpoint;
use super::format::{self, MAX_SECTION_BYTES, Stated, Trailer};
use crate::{Error, Result, disk};

const BUFFER_BYTES: usize = 1 << 20;

/// A checkpoint being written. Dropped before [`Self::finish`], it leaves nothing behind.
#[derive(Debug)]
pub struct CheckpointWriter {
    file: BufWriter<File>,
    unfinished: PathBuf,
    path: PathBuf,
    stated: Stated,
    hasher: blake3::Hasher,
    sections: u64,
    bytes: u64,
    finished: bool,
}

impl CheckpointWriter {
    /// Starts the checkpoint of the state after entry `index` of term `term`, without a time.
    ///
    /// # Errors
    /// [`Error::NoRoom`] and [`Error::Io`].
    pub fn create(directory: impl AsRef<Path>, index: u64, term: u64) -> Result<Self> {
        Self::create_at(directory, index, term, 0)
    }

    /// Starts the checkpoint of the state after entry `index` of term `term`, at the time
    /// `time_us`: microseconds since 1970, which determine its age; 0 means unknown.
    ///
    /// # Errors
    /// [`Error::NoRoom`] and [`Error::Io`].
    pub fn create_at(
        directory: impl AsRef<Path>,
        index: u64,
        term: u64,
        time_us: u64,
    ) -> Result<Self> {
        let path = directory.as_ref().join(format::name(index, term));
        Self::create_as(path, index, term, time_us)
    }

    /// Like [`Self::create_at`], but in a file of any name. Until it is finished, the data is in a
    /// file beside it with the suffix `.tmp`; then it replaces any file of that name.
    ///
    /// # Errors
    /// [`Error::NoRoom`] and [`Error::Io`].
    pub fn create_as(
        path: impl Into<PathBuf>,
        index: u64,
        term: u64,
        time_us: u64,
    ) -> Result<Self> {
        let (stated, path) = (Stated { index, term, time_us }, path.into());
        let unfinished = disk::unfinished(&path);
        let file = disk::create_unfinished(&unfinished)?;
        let mut writer = Self {
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            unfinished,
            path,
            stated,
            hasher: blake3::Hasher::new(),
            sections: 0,
            bytes: 0,
            finished: false,
        };
        writer.write(&format::header(stated))?;
        Ok(writer)
    }

    /// Appends a section. A kind may occur many times; the order is preserved.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above [`MAX_SECTION_BYTES`]; [`Error::NoRoom`] and [`Error::Io`], after
    /// which the checkpoint cannot be finished.
    pub fn section(&mut self, kind: u32, payload: &[u8]) -> Result<()> {
        if payload.len() > MAX_SECTION_BYTES {
            let (bytes, limit) = (payload.len() as u64, MAX_SECTION_BYTES as u64);
            return Err(Error::TooLarge { what: "a section of a checkpoint", bytes, limit });
        }
        self.write(&format::section(kind, payload))?;
        self.write(payload)?;
        self.sections += 1;
        Ok(())
    }

    /// Makes the checkpoint durable and renames it into place.
    ///
    /// # Errors
    /// [`Error::NoRoom`] and [`Error::Io`].
    pub fn finish(mut self) -> Result<Checkpoint> {
        let trailer = Trailer {
            sections: self.sections,
            file_bytes: self.bytes + format::TRAILER_BYTES as u64,
            digest: *self.hasher.finalize().as_bytes(),
        };
        self.write(&trailer.encode())?;
        self.file.flush().and_then(|()| self.file.get_ref().sync_all()).map_err(Error::io(
            "write",
            &self.unfinished,
            self.bytes,
        ))?;
        disk::publish(&self.unfinished, &self.path)?;
        self.finished = true;
        Checkpoint::at(self.path.clone(), self.stated, self.file.get_ref())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        let failed = Error::io("write", &self.unfinished, bytes.len() as u64);
        self.file.write_all(bytes).map_err(failed)
    }
}

impl Drop for CheckpointWriter {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}
