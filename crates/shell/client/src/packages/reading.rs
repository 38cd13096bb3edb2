//! Reading chunks from a store.

use std::collections::VecDeque;

use api::v1;
use model::Digest;
use rpc::Rotating;
use tonic::Streaming;

use super::{CHUNK_BYTES_MAX, READ_PATIENCE, Store, StoreError, joined};

/// The maximum number of chunks in one request.
const DIGESTS_MAX: usize = 1_024;

/// Reads the chunks of one package.
#[derive(Clone, Debug)]
pub struct PackageReader {
    store: Store,
    right: v1::Statement,
}

/// Chunks that are read in the order in which they were asked for.
#[derive(Debug)]
pub struct ReadChunks {
    reader: PackageReader,
    /// What is still to be asked for.
    digests: VecDeque<Digest>,
    answers: Option<Streaming<v1::FetchResponse>>,
    /// The number of chunks of the request that have not come yet.
    left: usize,
    arrived: VecDeque<Vec<u8>>,
    partial: Vec<u8>,
}

impl PackageReader {
    /// A reader with a right to read a package, which connects lazily.
    ///
    /// # Errors
    /// When the address is none.
    pub fn new(
        store: &str,
        credentials: &Rotating,
        right: v1::Statement,
    ) -> Result<Self, StoreError> {
        Ok(Self { store: Store::connect(store, credentials)?, right })
    }

    /// Begins to read chunks, in this order. Their digests are for the receiver to check.
    #[must_use]
    pub fn read(&self, digests: impl IntoIterator<Item = Digest>) -> ReadChunks {
        ReadChunks {
            reader: self.clone(),
            digests: digests.into_iter().collect(),
            answers: None,
            left: 0,
            arrived: VecDeque::new(),
            partial: Vec::new(),
        }
    }

    /// Reads one chunk.
    ///
    /// # Errors
    /// When the store does not send it.
    pub async fn one(&self, digest: Digest) -> Result<Vec<u8>, StoreError> {
        let mut reading = self.read([digest]);
        let read = reading.next().await?;
        // To the end of the answer: a server closes connections on which many answers are broken off.
        reading.next().await?;
        read.ok_or_else(|| self.store.wrong("nothing"))
    }
}

impl ReadChunks {
    /// The next chunk; `None` after the last.
    ///
    /// # Errors
    /// When the store does not send what was asked for, or nothing for 30 s.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        loop {
            if let Some(chunk) = self.arrived.pop_front() {
                return Ok(Some(chunk));
            }
            let store = &self.reader.store;
            let Some(answers) = &mut self.answers else {
                let number = self.digests.len().min(DIGESTS_MAX);
                if number == 0 {
                    return Ok(None);
                }
                let some: Vec<Digest> = self.digests.drain(..number).collect();
                let right = Some(self.reader.right.clone());
                let request = v1::FetchRequest { right, digests: joined(&some) };
                let mut client = store.client.clone();
                let answered = store.within(READ_PATIENCE, client.fetch(request)).await?;
                self.answers = Some(answered.into_inner());
                self.left = number;
                continue;
            };
            match store.within(READ_PATIENCE, answers.message()).await? {
                Some(answer) => self.take(answer)?,
                None if self.left == 0 && self.partial.is_empty() => self.answers = None,
                None => return Err(store.wrong("fewer chunks than were asked for")),
            }
        }
    }

    fn take(&mut self, answer: v1::FetchResponse) -> Result<(), StoreError> {
        let last = answer.chunks.len().saturating_sub(1);
        for (position, chunk) in answer.chunks.into_iter().enumerate() {
            let chunk = match self.partial.is_empty() {
                true => chunk,
                false => [std::mem::take(&mut self.partial), chunk].concat(),
            };
            if chunk.len() > CHUNK_BYTES_MAX {
                return Err(self.reader.store.wrong("a chunk that is too long"));
            }
            if answer.more && position == last {
                self.partial = chunk;
                continue;
            }
            self.left = match self.left.checked_sub(1) {
                Some(left) => left,
                None => return Err(self.reader.store.wrong("more chunks than were asked for")),
            };
            self.arrived.push_back(chunk);
        }
        Ok(())
    }
}
