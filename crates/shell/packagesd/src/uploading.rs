//! An upload: a right, offers, data, a commit, and the receipt for it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use api::v1;
use api::v1::upload_request::What;
use api::v1::upload_response;
use bytes::Bytes;
use model::{Digest, Time};
use package_store::{MAX_CHUNK_BYTES, Upload};
use rpc::Identity;
use tokio::time::timeout;
use tonic::{Status, Streaming};

use crate::closures::Closure;
use crate::driven::Responses;
use crate::failure::of_store;
use crate::parts::{Parts, ServiceCounts};
use crate::rights::{self, account};
use crate::spent::Spending;
use crate::walk::{PACKAGE_DIGESTS_MAX, Reached, walk};

/// The packages whose chunks need not be sent again, at most.
const BASES_MAX: usize = 8;

/// The digests of one offer, at most.
const OFFER_MAX: usize = 16_384;

/// The digests of all offers of an upload together, at most: each of a package twice.
const OFFERED_MAX: usize = 2 * PACKAGE_DIGESTS_MAX;

/// The bytes of the chunks in one message, at most.
const DATA_MAX: usize = 1 << 20;

/// How long an upload waits for its client.
const PATIENCE: Duration = Duration::from_secs(60);

type UploadResponses = Responses<v1::UploadResponse>;

/// Receives an upload to its end.
pub(crate) async fn receive(
    parts: &Parts,
    caller: &Identity,
    mut requests: Streaming<v1::UploadRequest>,
    responses: UploadResponses,
) -> Result<(), Status> {
    let Some(What::Begin(begin)) = next(&mut requests).await? else {
        return Err(Status::invalid_argument("an upload begins with the right to upload"));
    };
    let mut receiving = Receiving::new(parts, caller, &begin, responses).await?;
    loop {
        match next(&mut requests).await? {
            Some(What::Offer(offer)) => receiving.offer(&offer.digests).await?,
            Some(What::Data(data)) => receiving.data(data).await?,
            Some(What::Commit(commit)) => return receiving.commit(&commit.manifest).await,
            Some(What::Begin(_)) => {
                return Err(Status::invalid_argument("an upload begins only once"));
            }
            // What is complete is kept; the client continues later.
            None => return receiving.seal().await,
        }
    }
}

/// The next request; `None` at the end of the stream.
async fn next(requests: &mut Streaming<v1::UploadRequest>) -> Result<Option<What>, Status> {
    match timeout(PATIENCE, requests.message()).await {
        Ok(Ok(Some(request))) => request.what.map(Some).ok_or_else(|| {
            Status::invalid_argument(
                "the request is empty, or of a kind that this version does not know",
            )
        }),
        Ok(Ok(None)) => Ok(None),
        Ok(Err(status)) => Err(status),
        Err(_elapsed) => Err(Status::deadline_exceeded(format!(
            "nothing was sent for {} s: push again, what was stored is kept",
            PATIENCE.as_secs()
        ))),
    }
}

struct Receiving<'a> {
    parts: &'a Parts,
    upload: Upload,
    /// For shares of bandwidth.
    account: String,
    bases: Vec<Arc<Closure>>,
    spending: Spending,
    /// How many digests were offered.
    offered: usize,
    /// The beginning of a chunk.
    partial: Vec<u8>,
    /// What the client knows to be stored, in bytes.
    told: u64,
    responses: UploadResponses,
}

impl<'a> Receiving<'a> {
    async fn new(
        parts: &'a Parts,
        caller: &Identity,
        begin: &v1::UploadBegin,
        responses: UploadResponses,
    ) -> Result<Self, Status> {
        let may = rights::to_upload(&parts.verifier, begin.right.as_ref(), caller)?;
        if begin.bases.len() > BASES_MAX {
            let why = format!("an upload builds on at most {BASES_MAX} packages");
            return Err(Status::invalid_argument(why));
        }
        let account = account(caller);
        let signature = begin.right.as_ref().map_or(&[][..], |right| &right.signature);
        let spending = parts.spent.upload(signature, may.until, may.bytes_max);
        let mut bases = Vec::new();
        for base in &begin.bases {
            let manifest = rpc::rights::to_read(&parts.verifier, Some(base), caller)?;
            // A damaged package is no base; its chunks are sent again.
            match parts.closures.of(&parts.store, manifest, &account).await {
                Ok(closure) => bases.push(closure),
                Err(status) => tracing::info!("not a base of an upload: {}", status.message()),
            }
        }
        parts.store.refresh().await.map_err(|error| of_store(&error))?;
        let begun = v1::UploadBegun { bytes_max: spending.left() };
        responses.send(response(upload_response::What::Begun(begun))).await?;
        let upload = parts.store.upload(may.user);
        let (offered, partial, told) = (0, Vec::new(), 0);
        Ok(Self { parts, upload, account, bases, spending, offered, partial, told, responses })
    }

    /// Whether the user may rely on a chunk, if it is there.
    fn is_mine(&self, digest: &Digest) -> bool {
        self.parts.store.has_of(self.upload.user(), digest)
            || self.bases.iter().any(|base| base.contains(digest))
    }

    /// Answers what of an offer is missing.
    async fn offer(&mut self, digests: &[u8]) -> Result<(), Status> {
        let digests = rights::digests(digests, OFFER_MAX)?;
        self.offered += digests.len();
        if self.offered > OFFERED_MAX {
            let why = format!("an upload offers at most {OFFERED_MAX} digests");
            return Err(Status::resource_exhausted(why));
        }
        let turn = self.parts.turns.of(&self.account).await;
        let mine: Vec<Digest> =
            digests.iter().filter(|digest| self.is_mine(digest)).copied().collect();
        let there = match mine.is_empty() {
            true => Vec::new(),
            false => self.upload.rely(&mine).await.map_err(|error| of_store(&error))?,
        };
        drop(turn);
        let there = mine.iter().zip(there).filter_map(|(digest, there)| there.then_some(digest));
        let there: HashSet<&Digest> = there.collect();
        let mut bits = vec![0_u8; digests.len().div_ceil(8)];
        for (number, digest) in digests.iter().enumerate() {
            if !there.contains(digest)
                && let Some(byte) = bits.get_mut(number / 8)
            {
                *byte |= 1 << (number % 8);
            }
        }
        let missing = upload_response::What::Missing(v1::UploadMissing { bits });
        self.responses.send(response(missing)).await
    }

    /// Takes chunks.
    async fn data(&mut self, data: v1::UploadData) -> Result<(), Status> {
        let all: usize = data.chunks.iter().map(Vec::len).sum();
        if all > DATA_MAX {
            let why = format!("a message has at most {DATA_MAX} bytes of chunks, this one {all}");
            return Err(Status::invalid_argument(why));
        }
        ServiceCounts::add(&self.parts.counts.bytes_received, all as u64);
        let _turn = self.parts.turns.of(&self.account).await;
        let last = data.chunks.len().saturating_sub(1);
        for (number, mut chunk) in data.chunks.into_iter().enumerate() {
            if !self.partial.is_empty() {
                self.partial.append(&mut chunk);
                chunk = std::mem::take(&mut self.partial);
            }
            if chunk.len() as u64 > MAX_CHUNK_BYTES {
                let why = format!("a chunk has more than {MAX_CHUNK_BYTES} bytes");
                return Err(Status::invalid_argument(why));
            }
            if data.more && number == last {
                self.partial = chunk;
                continue;
            }
            let length = chunk.len() as u64;
            if !self.spending.take(length) {
                return Err(Status::resource_exhausted(format!(
                    "this upload may store {} bytes, and more was sent: remove packages that are not needed, or ask for more",
                    self.spending.bytes_max()
                )));
            }
            let taken = self.upload.take(Bytes::from(chunk)).await;
            let (_, added) = taken.map_err(|error| of_store(&error))?;
            self.spending.give_back(length - added);
            self.spending.is_pending(self.upload.pending());
        }
        self.tell().await
    }

    /// Tells what is stored, if that is news.
    async fn tell(&mut self) -> Result<(), Status> {
        let bytes = self.upload.stored();
        if bytes == self.told {
            return Ok(());
        }
        self.told = bytes;
        let stored = upload_response::What::Stored(v1::UploadStored { bytes });
        self.responses.send(response(stored)).await
    }

    async fn seal(&mut self) -> Result<(), Status> {
        let _turn = self.parts.turns.of(&self.account).await;
        self.upload.seal().await.map_err(|error| of_store(&error))?;
        self.spending.is_pending(0);
        Ok(())
    }

    /// Checks that the package is complete, and signs a receipt.
    async fn commit(&mut self, manifest: &[u8]) -> Result<(), Status> {
        let manifest = rights::digest(manifest)?;
        if !self.partial.is_empty() {
            return Err(Status::invalid_argument("the last chunk was not sent to its end"));
        }
        self.seal().await?;
        let parts = self.parts;
        let turn = parts.closures.turn(&self.account).await;
        let mut reached = Reached::default();
        let there = |digest: &Digest| self.is_mine(digest);
        let walked = walk(&parts.store, manifest, there, &mut reached, PACKAGE_DIGESTS_MAX).await?;
        let all: Vec<Digest> = reached.into_all().into_iter().collect();
        let there = self.upload.confirm(&all).await.map_err(|error| of_store(&error))?;
        if let Some((digest, _)) = all.iter().zip(there).find(|(_, there)| !there) {
            return Err(Status::failed_precondition(format!(
                "{digest} was collected during the upload: push the package again"
            )));
        }
        drop(turn);
        let (stored, manifest_read) = (walked.bytes_stored, walked.manifest);
        let variants = &manifest_read.variants;
        for config in variants.iter().filter_map(|variant| variant.config.as_ref()) {
            let checked = config.check_start();
            checked.map_err(|error| {
                Status::invalid_argument(format!("the image cannot be started: {error}"))
            })?;
        }
        let layers = || variants.iter().flat_map(|variant| &variant.layers);
        // One without an architecture is for all others.
        let is_for_any = variants.iter().any(|variant| variant.architecture.is_empty());
        let named = variants.iter().filter(|_| !is_for_any);
        let kind = match manifest_read.is_image() {
            true => v1::PackageKind::Image,
            false => v1::PackageKind::Files,
        };
        let settings = parts.store.settings();
        let kept = settings.grace.0 / 2;
        let receipt = v1::Receipt {
            manifest: manifest.as_bytes().to_vec(),
            user: self.upload.user().to_string(),
            bytes_stored: stored,
            bytes_unpacked: layers().map(|layer| layer.unpacked).fold(0, u64::saturating_add),
            entries: layers().map(|layer| layer.entries).fold(0, u64::saturating_add),
            kind: kind.into(),
            architectures: named.map(|variant| variant.architecture.clone()).collect(),
            until: Time(settings.clock.now().0.saturating_add(kept)).0,
        };
        let receipt = rpc::statement::sign(&parts.credentials.credentials(), &receipt);
        let receipt = receipt.map_err(|error| Status::internal(error.to_string()))?;
        ServiceCounts::add(&parts.counts.uploads, 1);
        self.tell().await?;
        self.responses.send(response(upload_response::What::Receipt(receipt))).await
    }
}

fn response(what: upload_response::What) -> v1::UploadResponse {
    v1::UploadResponse { what: Some(what) }
}
