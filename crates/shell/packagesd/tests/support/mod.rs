//! A store of packages on a real socket, its cell's authority, and clients.

#![allow(dead_code, unreachable_pub)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod package;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use api::v1;
use api::v1::upload_request::What;
use api::v1::upload_response;
use model::{Digest, Time};
use package_store::{Clock, PackageStore, Settings, StoreLocation};
use packagesd::Service;
use rpc::service::package_store_client::PackageStoreClient;
use rpc::transport::{Limits, Refusals};
use rpc::{Authority, Credentials, Expect, Identity, Role, Rotating, Validity};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};

pub const HOUR: Duration = Duration::from_secs(3_600);
pub const GIB: u64 = 1 << 30;

/// A cell with its authority, and a directory for a store.
pub struct Cell {
    pub authority: Authority,
    pub dir: tempfile::TempDir,
    pub now: Arc<AtomicU64>,
}

impl Cell {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::create(dir.path(), "cc").unwrap();
        let now = Arc::new(AtomicU64::new(micros(SystemTime::now())));
        Self { authority, dir, now }
    }

    pub fn credentials(&self, identity: &str) -> Credentials {
        let identity: Identity = identity.parse().unwrap();
        self.authority.issue(&identity, Validity::lasting(HOUR)).unwrap()
    }

    /// A right that a master signs, for an hour.
    pub fn right(&self, holder: &str, what: v1::right::What) -> Option<v1::Statement> {
        self.right_until(holder, what, SystemTime::now() + HOUR)
    }

    pub fn right_until(
        &self,
        holder: &str,
        what: v1::right::What,
        until: SystemTime,
    ) -> Option<v1::Statement> {
        let until = micros(until);
        let right = v1::Right { what: Some(what), holder: holder.to_owned(), until };
        Some(rpc::statement::sign(&self.credentials("master"), &right).unwrap())
    }

    pub fn begin(&self, user: &str) -> What {
        let holder = format!("user/{user}");
        What::Begin(v1::UploadBegin {
            right: self.right(&holder, may_upload(user, GIB)),
            bases: vec![],
        })
    }

    pub fn later(&self, by: Duration) {
        self.now.fetch_add(u64::try_from(by.as_micros()).unwrap(), Ordering::Relaxed);
    }
}

pub fn micros(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros().try_into().unwrap()
}

pub fn may_upload(user: &str, bytes_max: u64) -> v1::right::What {
    v1::right::What::Upload(v1::UploadRight { user: user.to_owned(), bytes_max })
}

pub fn may_read(manifest: Digest) -> v1::right::What {
    v1::right::What::Read(manifest.as_bytes().to_vec())
}

/// A server in a runtime of its own, so that it can end without notice.
pub struct Server {
    pub endpoint: String,
    runtime: Option<Runtime>,
}

impl Server {
    pub fn start(cell: &Cell) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.unwrap();
        let credentials = Rotating::new(cell.credentials("packages/p1")).unwrap();
        let location = StoreLocation::Directory(cell.dir.path().join("store"));
        let now = Arc::clone(&cell.now);
        let clock = Clock::new(move || Time(now.load(Ordering::Relaxed)));
        let settings = Settings { clock, ..Settings::default() };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = listener.local_addr().unwrap().to_string();
        runtime.spawn(async move {
            let store = PackageStore::open(&location, settings).await.unwrap();
            let refusals = Refusals::default();
            let routes = Service::new(store, &credentials).unwrap().routes(&refusals).prepare();
            let (limits, never) = (Limits::default(), std::future::pending());
            rpc::transport::serve(listener, &credentials, routes, limits, &refusals, never).await
        });
        Self { endpoint, runtime: Some(runtime) }
    }

    pub fn client(&self, credentials: Credentials) -> PackageStoreClient<Channel> {
        let credentials = Rotating::new(credentials).unwrap();
        let expect = Expect::Role(Role::Packages);
        let channel = rpc::transport::connect(&self.endpoint, &credentials, &expect).unwrap();
        PackageStoreClient::new(channel)
    }

    /// Ends it as a kill does.
    pub fn kill(mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// An upload in progress, seen from its client.
pub struct Uploading {
    requests: mpsc::Sender<v1::UploadRequest>,
    responses: tonic::Streaming<v1::UploadResponse>,
}

impl Uploading {
    pub async fn begin(
        client: &mut PackageStoreClient<Channel>,
        begin: What,
    ) -> Result<Self, Status> {
        let (requests, stream) = mpsc::channel(64);
        requests.send(v1::UploadRequest { what: Some(begin) }).await.unwrap();
        let responses = client.upload(ReceiverStream::new(stream)).await?.into_inner();
        let mut this = Self { requests, responses };
        match this.next().await? {
            upload_response::What::Begun(_) => Ok(this),
            other => panic!("{other:?}"),
        }
    }

    pub async fn send(&self, what: What) {
        // The server may have ended the upload: its response tells.
        let _gone = self.requests.send(v1::UploadRequest { what: Some(what) }).await;
    }

    /// The next response.
    pub async fn next(&mut self) -> Result<upload_response::What, Status> {
        let next = tokio::time::timeout(Duration::from_secs(30), self.responses.message()).await;
        let next = next.expect("it takes too long")?;
        next.and_then(|next| next.what).ok_or_else(|| Status::cancelled("the end"))
    }

    /// Those of the digests that the store does not have.
    pub async fn offer(&mut self, digests: &[Digest]) -> Result<Vec<Digest>, Status> {
        let bytes = digests.iter().flat_map(|digest| *digest.as_bytes()).collect();
        self.send(What::Offer(v1::UploadOffer { digests: bytes })).await;
        loop {
            match self.next().await? {
                upload_response::What::Stored(_) => {}
                upload_response::What::Missing(v1::UploadMissing { bits }) => {
                    let missing = |number: usize| bits[number / 8] >> (number % 8) & 1 == 1;
                    let missing = (0..digests.len()).filter(|number| missing(*number));
                    return Ok(missing.map(|number| digests[number]).collect());
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Sends chunks, those above 1 MiB in pieces.
    pub async fn data(&self, chunks: impl IntoIterator<Item = &[u8]>) {
        for chunk in chunks {
            let pieces = chunk.chunks(1 << 20);
            let last = pieces.len();
            for (piece, number) in pieces.zip(1..) {
                let data = v1::UploadData { chunks: vec![piece.to_vec()], more: number < last };
                self.send(What::Data(data)).await;
            }
        }
    }

    pub async fn commit(&mut self, manifest: Digest) -> Result<v1::Statement, Status> {
        self.send(What::Commit(v1::UploadCommit { manifest: manifest.as_bytes().to_vec() })).await;
        loop {
            match self.next().await? {
                upload_response::What::Stored(_) => {}
                upload_response::What::Receipt(receipt) => return Ok(receipt),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Uploads a package. Returns the receipt, and how many pieces were sent.
pub async fn push(
    client: &mut PackageStoreClient<Channel>,
    begin: What,
    package: &package::Package,
) -> Result<(v1::Statement, usize), Status> {
    let mut upload = Uploading::begin(client, begin).await?;
    let missing = upload.offer(&package.digests()).await?;
    let chunks = missing.iter().map(|digest| package.bytes(digest));
    upload.data(chunks).await;
    Ok((upload.commit(package.manifest).await?, missing.len()))
}

/// Reads chunks.
pub async fn fetch(
    client: &mut PackageStoreClient<Channel>,
    right: Option<v1::Statement>,
    digests: &[Digest],
) -> Result<Vec<Vec<u8>>, Status> {
    let digests = digests.iter().flat_map(|digest| *digest.as_bytes()).collect();
    let mut stream = client.fetch(v1::FetchRequest { right, digests }).await?.into_inner();
    let (mut chunks, mut continues) = (Vec::<Vec<u8>>::new(), false);
    while let Some(message) = stream.message().await? {
        assert!(message.chunks.iter().map(Vec::len).sum::<usize>() <= 1 << 20);
        for chunk in message.chunks {
            match chunks.last_mut().filter(|_| continues) {
                Some(last) => last.extend(chunk),
                None => chunks.push(chunk),
            }
            continues = false;
        }
        continues = message.more;
    }
    Ok(chunks)
}

/// The code of a failure.
pub fn code<T>(result: &Result<T, Status>) -> Code {
    result.as_ref().map_or_else(Status::code, |_| Code::Ok)
}
