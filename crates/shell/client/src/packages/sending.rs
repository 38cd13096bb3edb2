//! Sending a package to a store.

use std::collections::HashSet;
use std::io;

use api::v1;
use api::v1::upload_request::What;
use api::v1::upload_response;
use model::Digest;
use rpc::Rotating;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::{DATA_BYTES, Store, StoreError, UPLOAD_PATIENCE, joined};

/// The number of messages that wait to be sent.
const QUEUE: usize = 4;
/// The number of chunks that wait to be sent.
const CHUNKS_QUEUE: usize = 64;
/// The number of digests in one offer.
const OFFER: usize = 16_384;

/// An upload that has begun.
#[derive(Debug)]
pub struct Sending {
    store: Store,
    requests: mpsc::Sender<v1::UploadRequest>,
    responses: Streaming<v1::UploadResponse>,
    waiting: Vec<Vec<u8>>,
    bytes_waiting: usize,
}

/// What a store lacks of a package.
#[derive(Debug, Default)]
pub struct Offered {
    missing: HashSet<Digest>,
}

impl Offered {
    /// Whether a chunk is still to be sent. It then is no more.
    pub fn take(&mut self, digest: &Digest) -> bool {
        self.missing.remove(digest)
    }

    /// The number of chunks that are still to be sent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.missing.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty()
    }
}

/// Passes on the chunks that a store lacks, from a thread that reads a package.
#[derive(Debug)]
pub struct MissingChunks {
    offered: Offered,
    chunks: mpsc::Sender<Vec<u8>>,
}

impl MissingChunks {
    /// Takes a chunk, and waits while the store is slow.
    ///
    /// # Errors
    /// When the upload has ended.
    pub fn put(&mut self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        if !self.offered.take(&digest) {
            return Ok(());
        }
        let ended = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the upload has ended");
        self.chunks.blocking_send(bytes.to_vec()).map_err(ended)
    }
}

impl Sending {
    /// Sends what the store lacks while a package is read. Returns what reading it gives, and how many bytes were sent.
    pub async fn transfer<R, F: Future<Output = R>>(
        &mut self,
        offered: Offered,
        read: impl FnOnce(MissingChunks) -> F,
    ) -> (R, Result<u64, StoreError>) {
        let (chunks, missing) = mpsc::channel(CHUNKS_QUEUE);
        // The sink ends with it: then no chunk is missing any more.
        let reading = read(MissingChunks { offered, chunks });
        let transfer = async {
            // It ends with the transfer, so that nobody waits for a place in it when the store is gone.
            let (mut missing, mut sent) = (missing, 0);
            while let Some(chunk) = missing.recv().await {
                sent += chunk.len() as u64;
                self.chunk(chunk).await?;
            }
            Ok(sent)
        };
        tokio::join!(reading, transfer)
    }

    /// Begins an upload with the right to it; chunks of the packages of `bases` need not be sent.
    ///
    /// # Errors
    /// When the store does not accept it.
    pub async fn begin(
        address: &str,
        credentials: &Rotating,
        right: v1::Statement,
        bases: Vec<v1::Statement>,
    ) -> Result<Self, StoreError> {
        let store = Store::connect(address, credentials)?;
        let (requests, receiver) = mpsc::channel(QUEUE);
        let begin = v1::UploadBegin { right: Some(right), bases };
        // There is room for it.
        let _ = requests.try_send(v1::UploadRequest { what: Some(What::Begin(begin)) });
        let mut client = store.client.clone();
        let answered = client.upload(ReceiverStream::new(receiver));
        let responses = store.within(UPLOAD_PATIENCE, answered).await?.into_inner();
        let mut sending =
            Self { store, requests, responses, waiting: Vec::new(), bytes_waiting: 0 };
        match sending.answer().await? {
            upload_response::What::Begun(_) => Ok(sending),
            _ => Err(sending.store.wrong("another answer than that the upload has begun")),
        }
    }

    /// Tells the store what a package consists of, its manifest included. Returns what it lacks.
    ///
    /// # Errors
    /// When the store does not answer that.
    pub async fn offer(&mut self, digests: &[Digest]) -> Result<Offered, StoreError> {
        let mut offered = Offered::default();
        for some in digests.chunks(OFFER) {
            let offer = v1::UploadOffer { digests: joined(some) };
            self.send(What::Offer(offer)).await?;
            let upload_response::What::Missing(missing) = self.answer().await? else {
                return Err(self.store.wrong("another answer than what it lacks"));
            };
            let is_missing = |position: &usize| {
                let bits = missing.bits.get(position / 8).copied().unwrap_or_default();
                bits & 1 << (position % 8) != 0
            };
            offered.missing.extend((0..some.len()).filter(is_missing).map(|at| some[at]));
        }
        Ok(offered)
    }

    /// Sends a chunk that the store lacks.
    ///
    /// # Errors
    /// When the store has ended the upload.
    pub async fn chunk(&mut self, bytes: Vec<u8>) -> Result<(), StoreError> {
        if self.bytes_waiting > 0 && self.bytes_waiting + bytes.len() > DATA_BYTES {
            self.flush().await?;
        }
        if bytes.len() <= DATA_BYTES {
            self.bytes_waiting += bytes.len();
            self.waiting.push(bytes);
            return Ok(());
        }
        let pieces = bytes.len().div_ceil(DATA_BYTES);
        for (piece, number) in bytes.chunks(DATA_BYTES).zip(1..) {
            let data = v1::UploadData { chunks: vec![piece.to_vec()], more: number < pieces };
            self.send(What::Data(data)).await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), StoreError> {
        self.bytes_waiting = 0;
        let chunks = std::mem::take(&mut self.waiting);
        match chunks.is_empty() {
            true => Ok(()),
            false => self.send(What::Data(v1::UploadData { chunks, more: false })).await,
        }
    }

    /// Ends the upload of the package with this manifest. Returns the store's receipt.
    ///
    /// # Errors
    /// When the store lacks a part of it, or finds it malformed.
    pub async fn commit(mut self, manifest: Digest) -> Result<v1::Statement, StoreError> {
        self.flush().await?;
        let commit = v1::UploadCommit { manifest: manifest.as_bytes().to_vec() };
        self.send(What::Commit(commit)).await?;
        match self.answer().await? {
            upload_response::What::Receipt(receipt) => Ok(receipt),
            _ => Err(self.store.wrong("another answer than a receipt")),
        }
    }

    async fn send(&mut self, what: What) -> Result<(), StoreError> {
        let sent = self.requests.send(v1::UploadRequest { what: Some(what) });
        let sent = async { Ok(sent.await.is_ok()) };
        match self.store.within(UPLOAD_PATIENCE, sent).await? {
            true => Ok(()),
            // The store has ended the upload, and says why.
            false => Err(self.end().await),
        }
    }

    /// The next answer, without those that only tell how far the store is.
    async fn answer(&mut self) -> Result<upload_response::What, StoreError> {
        loop {
            match self.store.within(UPLOAD_PATIENCE, self.responses.message()).await? {
                Some(v1::UploadResponse { what: Some(upload_response::What::Stored(_)) }) => {}
                Some(v1::UploadResponse { what: Some(what) }) => return Ok(what),
                Some(_) => {
                    return Err(self.store.wrong("an answer that this version does not know"));
                }
                None => return Err(self.store.failed(&ended())),
            }
        }
    }

    async fn end(&mut self) -> StoreError {
        loop {
            match self.store.within(UPLOAD_PATIENCE, self.responses.message()).await {
                Ok(Some(_)) => {}
                Ok(None) => return self.store.failed(&ended()),
                Err(error) => return error,
            }
        }
    }
}

fn ended() -> Status {
    Status::new(Code::Unavailable, "it ended the upload")
}
