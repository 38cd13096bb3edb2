//! The chunks of a layer that is on its way, in the order in which they come.
//!
//! They are in a file without a name, which is gone when nobody has it open any more. A thread that unpacks the layer waits
//! for those that it needs, and other machines get what is there.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

use borglet::ChunkSet;
use package::chunk::ChunkRef;

use super::lock;

/// Chunks by their positions in the layer.
#[derive(Debug)]
pub(super) struct Spool {
    file: File,
    chunks: Vec<ChunkRef>,
    /// Where each begins in the file.
    offsets: Vec<u64>,
    state: Mutex<SpoolState>,
    changed: Condvar,
}

#[derive(Debug)]
struct SpoolState {
    here: ChunkSet,
    /// Why no more will come.
    ended: Option<String>,
}

impl Spool {
    /// Room for chunks, in a directory, under a name that no other has.
    pub(super) fn new(path: &Path, chunks: Vec<ChunkRef>) -> io::Result<Self> {
        let made = File::options().read(true).write(true).create_new(true).mode(0o600).open(path);
        let file = made?;
        fs::remove_file(path)?;
        let mut offsets = Vec::with_capacity(chunks.len());
        let mut offset = 0;
        for chunk in &chunks {
            offsets.push(offset);
            offset += u64::from(chunk.length);
        }
        let length = u32::try_from(chunks.len()).map_err(io::Error::other)?;
        let state = Mutex::new(SpoolState { here: ChunkSet::none(length), ended: None });
        Ok(Self { file, chunks, offsets, state, changed: Condvar::new() })
    }

    /// The chunks that it is for.
    pub(super) fn chunks(&self) -> &[ChunkRef] {
        &self.chunks
    }

    /// Which chunks are here.
    pub(super) fn here(&self) -> ChunkSet {
        lock(&self.state).here.clone()
    }

    /// Takes a chunk. Returns whether its bytes are right.
    pub(super) fn put(&self, position: u32, bytes: &[u8]) -> io::Result<bool> {
        let of = position as usize;
        let (Some(chunk), Some(offset)) = (self.chunks.get(of), self.offsets.get(of)) else {
            return Ok(false);
        };
        let is_right = u32::try_from(bytes.len()).is_ok_and(|length| length == chunk.length)
            && package::chunk::digest_of(bytes) == chunk.digest;
        if is_right && !lock(&self.state).here.contains(position) {
            self.file.write_all_at(bytes, *offset)?;
            lock(&self.state).here.insert(position);
            self.changed.notify_all();
        }
        Ok(is_right)
    }

    /// The bytes of a chunk, if it is here.
    pub(super) fn get(&self, position: u32) -> io::Result<Option<Vec<u8>>> {
        let of = position as usize;
        let is_here = lock(&self.state).here.contains(position);
        match (self.chunks.get(of), self.offsets.get(of)) {
            (Some(chunk), Some(offset)) if is_here => {
                let mut bytes = vec![0; chunk.length as usize];
                self.file.read_exact_at(&mut bytes, *offset)?;
                Ok(Some(bytes))
            }
            _ => Ok(None),
        }
    }

    /// Waits for a chunk.
    pub(super) fn wait(&self, position: u32) -> io::Result<Vec<u8>> {
        let mut state = lock(&self.state);
        while !state.here.contains(position) {
            if let Some(why) = &state.ended {
                return Err(io::Error::other(why.clone()));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.get(position)?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// No more will come.
    pub(super) fn end(&self, why: &str) {
        lock(&self.state).ended.get_or_insert_with(|| why.to_owned());
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn chunks_come_in_any_order_and_who_waits_gets_them() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let parts = [&b"one"[..], b"three", b"five5"];
        let chunk = |bytes: &&[u8]| ChunkRef {
            digest: package::chunk::digest_of(bytes),
            length: u32::try_from(bytes.len()).expect("it is short"),
        };
        let path = place.path().join("spool");
        let spool = Spool::new(&path, parts.iter().map(chunk).collect()).expect("there is room");
        assert!(!path.exists());
        let spool = Arc::new(spool);
        let waiting = Arc::clone(&spool);
        let waits = std::thread::spawn(move || waiting.wait(2).expect("it comes"));
        assert!(!spool.put(0, b"One").expect("there is room"), "other bytes");
        assert!(!spool.put(7, b"one").expect("there is room"), "there is no such chunk");
        assert!(spool.put(2, b"five5").expect("there is room"));
        assert_eq!(waits.join().expect("it ends"), b"five5");
        assert_eq!(spool.get(2).expect("it is read"), Some(b"five5".to_vec()));
        assert_eq!(spool.get(1).expect("it is not there"), None);
        assert_eq!(spool.here().to_bits(), [0b100]);
        spool.end("the start was prevented");
        assert!(spool.wait(1).is_err_and(|error| error.to_string().contains("prevented")));
        assert!(spool.wait(2).is_ok());
    }
}
