//! Reads a layer on several threads. The digests of SHA-256 take as long as everything else, and so
//! does decompression:
//!
//! - `layer read` reads and hashes the file
//! - `layer inflate` decompresses it, and `layer hash` hashes what comes out, if it is compressed
//! - the caller's thread reads the archive, cuts, and hashes chunks

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, Scope, ScopedJoinHandle};

use super::decompress::Decompressed;
use super::files::LimitedReader;
use super::limits::Decompression;
use super::sha256::{HashingReader, Sha256};

/// The length of the buffers between threads, in bytes.
const BUFFER_BYTES: usize = 1 << 20;
/// How many buffers between two threads are full at once, at most.
const BUFFERS: usize = 4;

/// The digests and lengths of a layer.
pub(super) struct StreamDigests {
    /// That of the file.
    pub(super) blob: Sha256,
    /// The length of the file in bytes.
    pub(super) blob_bytes: u64,
    /// That of the decompressed archive, up to where it was read.
    pub(super) archive: Sha256,
    /// The length of the decompressed archive in bytes, up to where it was read.
    pub(super) archive_bytes: u64,
}

/// Gives `work` the decompressed bytes of a blob, up to a limit.
///
/// # Errors
///
/// That of `work`. An error of the blob is one of the reader of `work`. The digests are missing if
/// the blob could not be read to its end.
pub(super) fn decompress<T>(
    blob: &mut (dyn Read + Send),
    limit: Decompression,
    work: impl FnOnce(io::Result<&mut dyn Read>) -> T,
) -> (T, io::Result<StreamDigests>) {
    let counted = |inner| LimitedReader { inner, limit };
    thread::scope(|scope| {
        let (blob, reading) = match pipe(scope, "layer read", HashingReader::new(blob), true) {
            Ok(piped) => piped,
            Err(error) => return without(work, error),
        };
        let decompressed = match Decompressed::new(blob) {
            Ok(decompressed) => decompressed,
            Err(error) => return without(work, error),
        };
        if !decompressed.is_compressed() {
            let mut reader = counted(decompressed);
            let worked = work(Ok(&mut reader));
            drop(reader);
            let digests = joined(reading).map(|(blob, blob_bytes)| StreamDigests {
                blob,
                blob_bytes,
                archive: blob,
                archive_bytes: blob_bytes,
            });
            return (worked, digests);
        }
        let hashed = pipe(scope, "layer inflate", counted(decompressed), false)
            .and_then(|(archive, _)| pipe(scope, "layer hash", HashingReader::new(archive), false));
        let (mut reader, hashing) = match hashed {
            Ok(piped) => piped,
            Err(error) => return without(work, error),
        };
        let worked = work(Ok(&mut reader));
        // Without a receiver each thread ends.
        drop(reader);
        let archive = joined(hashing);
        let digests = joined(reading).and_then(|(blob, blob_bytes)| {
            let (archive, archive_bytes) = archive?;
            Ok(StreamDigests { blob, blob_bytes, archive, archive_bytes })
        });
        (worked, digests)
    })
}

/// What remains to do without threads, or for a compression that is not supported.
fn without<T>(
    work: impl FnOnce(io::Result<&mut dyn Read>) -> T,
    error: io::Error,
) -> (T, io::Result<StreamDigests>) {
    let again = io::Error::new(error.kind(), error.to_string());
    (work(Err(error)), Err(again))
}

/// The digest and the length of all that a thread has read.
fn joined<R: Read>(
    thread: ScopedJoinHandle<'_, io::Result<HashingReader<R>>>,
) -> io::Result<(Sha256, u64)> {
    let panicked = |_| io::Error::other("a thread that reads the layer failed");
    thread.join().map_err(panicked)?.map(HashingReader::finish)
}

/// Reads on another thread. It returns the reader: at its end if `to_end`, whatever happens to the
/// bytes.
fn pipe<'scope, R: Read + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    mut reader: R,
    to_end: bool,
) -> io::Result<(PipeReader, ScopedJoinHandle<'scope, io::Result<R>>)> {
    let (full, receiver) = sync_channel(BUFFERS);
    let (recycle, empty) = channel();
    let thread = thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, move || {
        if let Err(error) = send_all(&mut reader, &full, &empty) {
            // Nobody may be interested any more.
            let _gone = full.send(Err(error));
        }
        drop(full);
        if to_end {
            io::copy(&mut reader, &mut io::sink())?;
        }
        Ok(reader)
    })?;
    Ok((PipeReader { receiver, recycle, current: Vec::new(), read: 0 }, thread))
}

/// Sends what a reader has, until its end or until nobody receives it.
fn send_all(
    reader: &mut dyn Read,
    full: &SyncSender<io::Result<Vec<u8>>>,
    empty: &Receiver<Vec<u8>>,
) -> io::Result<()> {
    loop {
        let mut buffer = empty.try_recv().unwrap_or_default();
        buffer.resize(BUFFER_BYTES, 0);
        let mut filled = 0;
        while filled < BUFFER_BYTES {
            match reader.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        buffer.truncate(filled);
        if filled == 0 || full.send(Ok(buffer)).is_err() {
            return Ok(());
        }
    }
}

/// Reads what another thread sends.
struct PipeReader {
    receiver: Receiver<io::Result<Vec<u8>>>,
    recycle: Sender<Vec<u8>>,
    current: Vec<u8>,
    read: usize,
}

impl BufRead for PipeReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.read == self.current.len()
            && let Ok(next) = self.receiver.recv()
        {
            let empty = std::mem::replace(&mut self.current, next?);
            // The thread may have ended.
            let _ended = self.recycle.send(empty);
            self.read = 0;
        }
        Ok(&self.current[self.read..])
    }

    fn consume(&mut self, bytes: usize) {
        self.read += bytes;
    }
}

impl Read for PipeReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let rest = self.fill_buf()?;
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        self.consume(length);
        Ok(length)
    }
}
