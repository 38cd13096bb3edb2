//! Chunks as files of one directory.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use model::Digest;

use super::{ChunkRef, ChunkSink, ChunkSource, cut};

/// Keeps each chunk in a file, below a directory of its first two digits: for tools and tests.
///
/// A chunk appears under its name once all its bytes are written; nothing is synced. Chunks are
/// never removed.
#[derive(Debug)]
pub struct DirectoryChunks {
    path: PathBuf,
}

impl DirectoryChunks {
    /// Uses an existing directory, which may have chunks.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// The file of a chunk.
    #[must_use]
    pub fn path_of(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        self.path.join(&name[..2]).join(&name)
    }
}

impl ChunkSink for DirectoryChunks {
    fn put(&mut self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        let path = self.path_of(&digest);
        let at = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
        };
        if path.try_exists().map_err(at)? {
            return Ok(());
        }
        let unfinished = path.with_extension(std::process::id().to_string());
        fs::create_dir_all(path.parent().unwrap_or(&self.path)).map_err(at)?;
        fs::write(&unfinished, bytes).map_err(at)?;
        fs::rename(&unfinished, &path).map_err(at)
    }
}

impl ChunkSource for DirectoryChunks {
    fn get(&mut self, chunk: &ChunkRef, into: &mut Vec<u8>) -> io::Result<()> {
        let path = self.path_of(&chunk.digest);
        let at = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))
        };
        into.clear();
        let file = File::open(&path).map_err(at)?;
        // A file that is too long is damaged, and one byte more is enough to see it.
        file.take(cut::BYTES_MAX as u64 + 1).read_to_end(into).map_err(at)?;
        Ok(())
    }
}
