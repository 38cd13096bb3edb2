//! Writing a checkpoint.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::Checkpoint;
use super::format::{self, MAX_SECTION_BYTES, Trailer};
use crate::{Error, Result, disk};

const BUFFER_BYTES: usize = 1 << 20;

/// A checkpoint being written. Dropped before [`Self::finish`] it leaves nothing behind.
#[derive(Debug)]
pub struct CheckpointWriter {
    file: BufWriter<File>,
    unfinished: PathBuf,
    path: PathBuf,
    index: u64,
    term: u64,
    hasher: blake3::Hasher,
    sections: u64,
    bytes: u64,
    finished: bool,
}

impl CheckpointWriter {
    /// Begins the checkpoint of the state after `index`, whose entry is of `term`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] and [`Error::Io`].
    pub fn create(directory: impl AsRef<Path>, index: u64, term: u64) -> Result<Self> {
        let path = directory.as_ref().join(format::name(index, term));
        let unfinished = disk::unfinished(&path);
        let file = disk::create_unfinished(&unfinished)?;
        let mut writer = Self {
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            unfinished,
            path,
            index,
            term,
            hasher: blake3::Hasher::new(),
            sections: 0,
            bytes: 0,
            finished: false,
        };
        writer.write(&format::header(index, term))?;
        Ok(writer)
    }

    /// Adds a section. The same kind may come many times; order is kept.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above [`MAX_SECTION_BYTES`]; [`Error::NoRoom`] and [`Error::Io`], after
    /// which this checkpoint cannot be finished.
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

    /// Makes the checkpoint durable and gives it its name.
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
        let (index, term, bytes) = (self.index, self.term, self.bytes);
        Ok(Checkpoint { path: self.path.clone(), index, term, bytes })
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
