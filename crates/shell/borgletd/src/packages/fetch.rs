//! A layer on its way from a store to a thread that unpacks it.
//!
//! What is asked for is known before: the tree of a layer lists its chunks in the order in which they are unpacked. So
//! chunks are read ahead, a bounded number of bytes, while the thread writes.

use std::io;

use client::packages::{ReadChunks, StoreError};
use package::chunk::{ChunkRef, ChunkSource};
use tokio::sync::mpsc;

/// The number of chunks that are read ahead: with at most 256 KiB each, 16 MiB.
const AHEAD: usize = 64;

/// Chunks in the order in which they were asked for.
pub(super) struct Ahead(mpsc::Receiver<Result<Vec<u8>, StoreError>>);

impl Ahead {
    /// Begins to read chunks. The returned future reads them; it ends early when nobody takes them any more.
    pub(super) fn begin(mut chunks: ReadChunks) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, receiver) = mpsc::channel(AHEAD);
        let reading = async move {
            while let Some(next) = chunks.next().await.transpose() {
                let is_last = next.is_err();
                if sender.send(next).await.is_err() || is_last {
                    break;
                }
            }
        };
        (Self(receiver), reading)
    }
}

impl ChunkSource for Ahead {
    fn get(&mut self, _: &ChunkRef, into: &mut Vec<u8>) -> io::Result<()> {
        match self.0.blocking_recv() {
            Some(Ok(chunk)) => {
                *into = chunk;
                Ok(())
            }
            Some(Err(error)) => Err(io::Error::other(error)),
            None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the store sent too little")),
        }
    }
}
