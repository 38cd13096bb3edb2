//! What this machine has of packages, for other machines.
//!
//! A machine that asks shows the right with which it reads from a store, and the manifest whose digest is in that right. So
//! who may not read a package gets nothing of it here either, and no master is asked. Chunks are read from the unpacked
//! layers: they are not kept twice. Who gets them checks them.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use api::v1;
use borglet::SendPace;
use model::{Bytes, Digest};
use package::ChunkPlaces;
use package::manifest::{Layer, Manifest};
use process::clock::Clock;
use prometheus_client::metrics::counter::Counter;
use rpc::statement::Verifier;
use rpc::transport::{Full, Limiter, Permit};
use rpc::{Identity, Rotating, rights};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::layers::{CHUNKS_MAX, LayerHere, PartialLayer};
use super::{KEPT_MANIFEST_BYTES_MAX, Packages, lock};

/// How many bytes a machine sends to others per second, unless it is told otherwise.
pub(crate) const SHARE_RATE: Bytes = Bytes(100 << 20);
/// How many requests of other machines are answered at once, and how many of one machine.
const REQUESTS_MAX: usize = 128;
const REQUESTS_OF_ONE: usize = 16;
/// The maximum number of chunks in one request.
const REQUESTED_MAX: usize = 64;
/// The longest chunk that is sent, in bytes. The cutter makes shorter ones.
const SENT_BYTES_MAX: u32 = 1 << 20;
/// The number of layers of which it is known where their chunks are, without reading their trees again.
const PLACES_KEPT_MAX: usize = 8;
/// How many answers wait for a machine that reads slowly, and for how long.
const QUEUE: usize = 2;
const PATIENCE: Duration = Duration::from_secs(10);

/// The service for other machines. Clones share their state.
#[derive(Clone)]
pub(crate) struct Sharing(Arc<Inner>);

struct Inner {
    packages: Packages,
    cell: String,
    verifier: Verifier,
    rate: Bytes,
    pace: Mutex<SendPace>,
    requests: Limiter<String>,
    clock: Clock,
    /// Where the chunks of the layers are that were asked for last.
    places: tokio::sync::Mutex<VecDeque<(Digest, Arc<ChunkPlaces>)>>,
    /// Bytes of chunks sent.
    sent: Counter,
}

/// What chunks of a layer are read from.
#[derive(Clone)]
enum ReadFrom {
    Directory {
        directory: Arc<File>,
        tree: Arc<File>,
        places: Arc<ChunkPlaces>,
    },
    Partial(Arc<PartialLayer>),
    /// It may be on its way soon.
    Nothing,
}

impl Sharing {
    /// Sends at most so many bytes per second to other machines; 0: nothing.
    pub(crate) fn new(
        packages: Packages,
        credentials: &Rotating,
        rate: Bytes,
    ) -> rpc::Result<Self> {
        let own = credentials.credentials();
        Ok(Self(Arc::new(Inner {
            packages,
            cell: own.cell().to_owned(),
            verifier: Verifier::new(own.ca_pem())?,
            rate,
            pace: Mutex::new(SendPace::new(rate)),
            requests: Limiter::new(REQUESTS_MAX, REQUESTS_OF_ONE),
            clock: Clock::start(),
            places: tokio::sync::Mutex::default(),
            sent: Counter::default(),
        })))
    }

    /// Bytes of chunks sent since the start.
    pub(crate) fn sent(&self) -> Counter {
        self.0.sent.clone()
    }

    /// A place among the requests that are answered.
    fn slot(&self, who: &Identity) -> Result<Permit<String>, Status> {
        self.0.requests.acquire(who.to_string()).map_err(|full| {
            let held = match full {
                Full::One(who, held) => format!("{who} has {held} requests here already"),
                Full::All(held) => format!("{held} requests are answered already"),
            };
            Status::resource_exhausted(format!("{held}: read from the store or another machine"))
        })
    }

    /// The layer that a request is for, if the caller may read it.
    fn layer(&self, caller: &Identity, request: &v1::ReadChunksRequest) -> Result<Layer, Status> {
        let invalid = |why: String| Status::invalid_argument(why);
        let package = rights::to_read(&self.0.verifier, request.right.as_ref(), caller)?;
        if request.manifest.len() > KEPT_MANIFEST_BYTES_MAX {
            let most = KEPT_MANIFEST_BYTES_MAX;
            return Err(invalid(format!("a manifest of more than {most} bytes is not shared")));
        }
        if package::chunk::digest_of(&request.manifest) != package {
            return Err(Status::permission_denied(format!(
                "the manifest is not that of package {package}, which is all that this right allows to read"
            )));
        }
        let manifest = Manifest::decode(&request.manifest);
        let manifest = manifest.map_err(|error| invalid(error.to_string()))?;
        let digest = <[u8; Digest::BYTES]>::try_from(request.layer.as_slice());
        let digest =
            digest.map_err(|_| invalid("the digest of the layer has 32 bytes".to_owned()))?;
        let digest = Digest::from_bytes(digest);
        let mut layers = manifest.variants.into_iter().flat_map(|variant| variant.layers);
        layers.find(|layer| layer.digest == digest).ok_or_else(|| {
            Status::permission_denied(format!("layer {digest} is not part of package {package}"))
        })
    }

    /// Where the chunks of a layer are read from.
    async fn found(&self, layer: Layer) -> anyhow::Result<ReadFrom> {
        let digest = layer.digest;
        let (directory, tree) = match self.0.packages.0.layers.here(digest) {
            None => return Ok(ReadFrom::Nothing),
            Some(LayerHere::Some(partial)) => return Ok(ReadFrom::Partial(partial)),
            Some(LayerHere::All { directory, tree }) => (directory, tree),
        };
        let (directory, file) = (Arc::new(File::open(directory)?), Arc::new(File::open(&tree)?));
        // One at a time reads a tree.
        let mut kept = self.0.places.lock().await;
        let known = kept.iter().find(|(of, _)| *of == digest);
        let places = match known.map(|(_, places)| Arc::clone(places)) {
            Some(places) => places,
            None => {
                let read = spawn_blocking(move || read_places(&layer, &tree));
                let places = Arc::new(read.await??);
                if kept.len() >= PLACES_KEPT_MAX {
                    kept.pop_front();
                }
                kept.push_back((digest, Arc::clone(&places)));
                places
            }
        };
        drop(kept);
        Ok(ReadFrom::Directory { directory, tree: file, places })
    }

    /// Sends what was asked for, at the pace of this machine.
    async fn send(
        self,
        from: ReadFrom,
        positions: Vec<u32>,
        to: mpsc::Sender<Result<v1::ReadChunksResponse, Status>>,
        _slot: Permit<String>,
    ) {
        let holding = v1::LayerHolding { bits: from.bits() };
        let holding = v1::read_chunks_response::What::Holding(holding);
        if !sent(&to, holding).await {
            return;
        }
        for position in positions {
            let length = Bytes(from.length(position).into());
            let delay = lock(&self.0.pace).delay(length, self.0.clock.now());
            let Some(delay) = delay else { return };
            sleep(delay.to_std()).await;
            let of = from.clone();
            let read = spawn_blocking(move || of.read(position)).await;
            let bytes = match read.map_err(io::Error::other).and_then(|read| read) {
                Ok(bytes) => bytes,
                Err(error) => {
                    tracing::debug!("chunk {position} is not sent: {error}");
                    Vec::new()
                }
            };
            self.0.sent.inc_by(bytes.len() as u64);
            if !sent(&to, v1::read_chunks_response::What::Chunk(bytes)).await {
                return;
            }
        }
    }
}

/// Sends one answer; `false` if the machine that asked is gone, or does not read.
async fn sent(
    to: &mpsc::Sender<Result<v1::ReadChunksResponse, Status>>,
    what: v1::read_chunks_response::What,
) -> bool {
    let response = v1::ReadChunksResponse { what: Some(what) };
    matches!(timeout(PATIENCE, to.send(Ok(response))).await, Ok(Ok(())))
}

fn read_places(layer: &Layer, tree: &Path) -> anyhow::Result<ChunkPlaces> {
    let tree = fs::read(tree).context("the list of files of a layer")?;
    Ok(ChunkPlaces::of(layer, &tree, CHUNKS_MAX)?)
}

impl ReadFrom {
    fn places(&self) -> Option<&ChunkPlaces> {
        match self {
            Self::Directory { places, .. } => Some(places),
            Self::Partial(partial) => Some(&partial.places),
            Self::Nothing => None,
        }
    }

    /// The length of a chunk; 0 if it is none, or is not sent.
    fn length(&self, position: u32) -> u32 {
        let chunk = self.places().and_then(|places| places.chunks().get(position as usize));
        chunk.map(|chunk| chunk.length).filter(|length| *length <= SENT_BYTES_MAX).unwrap_or(0)
    }

    /// Which chunks are here; empty: all.
    fn bits(&self) -> Vec<u8> {
        match self {
            Self::Directory { .. } => Vec::new(),
            Self::Partial(partial) => partial.spool.here().to_bits(),
            Self::Nothing => vec![0],
        }
    }

    /// The bytes of a chunk; none if it is not here.
    fn read(&self, position: u32) -> io::Result<Vec<u8>> {
        if self.length(position) == 0 {
            return Ok(Vec::new());
        }
        match self {
            Self::Partial(partial) => Ok(partial.spool.get(position)?.unwrap_or_default()),
            Self::Directory { tree, places, .. } if position < places.of_tree() => {
                let offset = places.offset_in_tree(position).ok_or(io::ErrorKind::NotFound)?;
                let mut bytes = vec![0; self.length(position) as usize];
                tree.read_exact_at(&mut bytes, offset)?;
                Ok(bytes)
            }
            Self::Nothing => Ok(Vec::new()),
            Self::Directory { directory, places, .. } => places.read(position, directory.as_fd()),
        }
    }
}

#[tonic::async_trait]
impl rpc::service::package_peers_server::PackagePeers for Sharing {
    type ReadChunksStream = ReceiverStream<Result<v1::ReadChunksResponse, Status>>;

    async fn read_chunks(
        &self,
        request: Request<v1::ReadChunksRequest>,
    ) -> Result<Response<Self::ReadChunksStream>, Status> {
        let caller = rpc::transport::peer_identity(&request, &self.0.cell)?;
        let request = request.into_inner();
        if self.0.rate == Bytes(0) {
            return Err(Status::failed_precondition("this machine sends no packages to others"));
        }
        let slot = self.slot(&caller)?;
        let layer = self.layer(&caller, &request)?;
        if request.chunks.len() > REQUESTED_MAX {
            return Err(Status::invalid_argument(format!(
                "{} chunks are more than {REQUESTED_MAX}, the maximum of one request",
                request.chunks.len()
            )));
        }
        let found = self.found(layer).await;
        let from = found.map_err(|error| Status::internal(format!("{error:#}")))?;
        let (to, answers) = mpsc::channel(QUEUE);
        tokio::spawn(self.clone().send(from, request.chunks, to, slot));
        Ok(Response::new(ReceiverStream::new(answers)))
    }
}
