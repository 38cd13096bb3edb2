//! Reads a layer on a thread of its own: one thread decompresses, the other cuts and hashes.

use std::io::{self, BufReader, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use super::decompress::Decompressed;
use super::sha256::{Hashing, Sha256};

/// The length of the buffers between the threads in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// The number of buffers that are full at once.
const BUFFERS: usize = 4;

/// What a blob was before it was decompressed.
pub(super) struct Compressed {
    /// The digest of all bytes.
    pub(super) digest: Sha256,
    pub(super) bytes: u64,
}

/// Gives `work` the decompressed bytes of a blob, and whether it was compressed.
///
/// # Errors
/// That of `work`. An error of the blob is one of the reader of `work`, too.
pub(super) fn decompress<T, E>(
    blob: &mut (dyn Read + Send),
    work: impl FnOnce(io::Result<(&mut dyn Read, bool)>) -> Result<T, E>,
) -> Result<(T, io::Result<Compressed>), E> {
    let blob = BufReader::with_capacity(BUFFER_BYTES, Hashing::new(blob, true));
    let decompressed = match Decompressed::new(blob) {
        Ok(decompressed) => decompressed,
        Err(error) => {
            let again = io::Error::new(error.kind(), error.to_string());
            return work(Err(error)).map(|worked| (worked, Err(again)));
        }
    };
    let is_compressed = decompressed.is_compressed();
    thread::scope(|scope| {
        let (full, receiver) = sync_channel(BUFFERS);
        let (recycle, empty) = channel();
        let reading = thread::Builder::new()
            .name("decompress".to_owned())
            .spawn_scoped(scope, move || send(decompressed, &full, &empty));
        let mut reader = Buffers { receiver, recycle, current: Vec::new(), read: 0 };
        let worked = work(Ok((&mut reader, is_compressed)));
        // Without a receiver the thread ends.
        drop(reader);
        let compressed = reading.and_then(|reading| {
            let panicked = |_| io::Error::other("the decompression failed: the data is damaged");
            reading.join().map_err(panicked)?
        });
        worked.map(|worked| (worked, compressed))
    })
}

type Blob<'a> = Decompressed<BufReader<Hashing<&'a mut (dyn Read + Send)>>>;

/// Sends the decompressed bytes, at last an error, if there was one.
fn send(
    mut blob: Blob<'_>,
    full: &SyncSender<io::Result<Vec<u8>>>,
    empty: &Receiver<Vec<u8>>,
) -> io::Result<Compressed> {
    if let Err(error) = send_all(&mut blob, full, empty) {
        // Nobody may be interested any more.
        let _gone = full.send(Err(error));
    }
    // What follows the compressed data is hashed, too, and what follows an error: if the bytes do
    // not have their digest, then this is the cause.
    let mut blob = blob.into_inner();
    io::copy(&mut blob, &mut io::sink())?;
    let (digest, bytes) = blob.into_inner().finish();
    let digest = digest.ok_or_else(|| io::Error::other("no digest was computed"))?;
    Ok(Compressed { digest, bytes })
}

fn send_all(
    blob: &mut Blob<'_>,
    full: &SyncSender<io::Result<Vec<u8>>>,
    empty: &Receiver<Vec<u8>>,
) -> io::Result<()> {
    loop {
        let mut buffer = empty.try_recv().unwrap_or_default();
        buffer.resize(BUFFER_BYTES, 0);
        let mut filled = 0;
        while filled < BUFFER_BYTES {
            match blob.read(&mut buffer[filled..]) {
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

/// Reads what the other thread sends.
struct Buffers {
    receiver: Receiver<io::Result<Vec<u8>>>,
    recycle: Sender<Vec<u8>>,
    current: Vec<u8>,
    read: usize,
}

impl Read for Buffers {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.read == self.current.len() {
            let Ok(next) = self.receiver.recv() else { return Ok(0) };
            let empty = std::mem::replace(&mut self.current, next?);
            // The thread may have ended.
            let _ended = self.recycle.send(empty);
            self.read = 0;
        }
        let rest = &self.current[self.read..];
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        self.read += length;
        Ok(length)
    }
}
