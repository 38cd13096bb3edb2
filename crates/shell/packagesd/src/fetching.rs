//! Reading chunks of a package.

use api::v1;
use model::Digest;
use rpc::Identity;
use tonic::Status;

use crate::driven::Responses;
use crate::failure::of_store;
use crate::parts::{Parts, ServiceCounts};
use crate::rights::{self, account};

/// The digests of one request, at most.
const FETCH_MAX: usize = 1_024;

/// The bytes of the chunks in one message, at most.
const DATA_MAX: usize = 1 << 20;

/// Chunks that a caller may read.
#[derive(Debug)]
pub(crate) struct WantedChunks {
    digests: Vec<Digest>,
    account: String,
}

impl WantedChunks {
    /// Checks a request.
    pub(crate) async fn new(
        parts: &Parts,
        caller: &Identity,
        request: &v1::FetchRequest,
    ) -> Result<Self, Status> {
        let manifest = rpc::rights::to_read(&parts.verifier, request.right.as_ref(), caller)?;
        let digests = rights::digests(&request.digests, FETCH_MAX)?;
        let account = account(caller);
        let closure = parts.closures.of(&parts.store, manifest, &account).await?;
        if let Some(other) = digests.iter().find(|digest| !closure.contains(digest)) {
            return Err(Status::permission_denied(format!(
                "{other} is not part of package {manifest}, which is all that this right allows to read"
            )));
        }
        ServiceCounts::add(&parts.counts.fetches, 1);
        Ok(Self { digests, account })
    }

    /// Sends the chunks in their order.
    pub(crate) async fn send(
        self,
        parts: &Parts,
        responses: Responses<v1::FetchResponse>,
    ) -> Result<(), Status> {
        let mut digests = &self.digests[..];
        while !digests.is_empty() {
            let turn = parts.turns.of(&self.account).await;
            let (some, rest) = digests.split_at(self.fitting(parts, digests));
            digests = rest;
            let read = parts.store.get_many(some).await.map_err(|error| of_store(&error))?;
            // A client that reads slowly keeps no turn.
            drop(turn);
            let bytes = read.iter().map(|chunk| chunk.len() as u64).sum();
            for response in messages(&read) {
                responses.send(response).await?;
            }
            ServiceCounts::add(&parts.counts.bytes_sent, bytes);
        }
        Ok(())
    }

    /// How many of these chunks fit into one message, at least one.
    fn fitting(&self, parts: &Parts, digests: &[Digest]) -> usize {
        let mut room = DATA_MAX as u64;
        let fits = |digest: &&Digest| {
            // One that is not known any more is looked for alone.
            let length = parts.store.length(digest).map_or(u64::MAX, u64::from);
            let left = room.checked_sub(length);
            room = left.unwrap_or_default();
            left.is_some()
        };
        digests.iter().take_while(fits).count().clamp(1, digests.len())
    }
}

/// Messages with these chunks: all in one, or one chunk in several.
fn messages(chunks: &[bytes::Bytes]) -> Vec<v1::FetchResponse> {
    if let [chunk] = chunks {
        let pieces = chunk.len().div_ceil(DATA_MAX);
        let pieces = chunk.chunks(DATA_MAX).zip(1..).map(|(piece, number)| v1::FetchResponse {
            chunks: vec![piece.to_vec()],
            more: number < pieces,
        });
        return pieces.collect();
    }
    vec![v1::FetchResponse {
        chunks: chunks.iter().map(|chunk| chunk.to_vec()).collect(),
        more: false,
    }]
}
