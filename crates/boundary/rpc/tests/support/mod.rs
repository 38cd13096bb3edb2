//! A server with a minimal service, over a real socket.

#![allow(dead_code, unreachable_pub)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;

use rpc::transport::{Cause, Limits, Peer, Refusals, peer, serve};
use rpc::{Authority, Credentials, Expect, Identity, Rotating, Validity};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_stream::Stream;
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::{Body as HttpBody, BoxFuture, Bytes, Context, Poll, Service, http};
use tonic::server::{Grpc, NamedService, ServerStreamingService, UnaryService};
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

pub const CELL: &str = "cc";
pub const HOUR: Duration = Duration::from_secs(3600);

pub fn issue(authority: &Authority, identity: &str) -> Credentials {
    let identity: Identity = identity.parse().unwrap();
    authority.issue(&identity, Validity::lasting(HOUR)).unwrap()
}

/// An authority of [`CELL`] in its own directory.
pub fn authority() -> (Authority, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (Authority::create(dir.path(), CELL).unwrap(), dir)
}

/// A running server; it ends with [`Self::stop`].
pub struct Running {
    pub address: SocketAddr,
    pub refusals: Refusals,
    stop: oneshot::Sender<()>,
    served: JoinHandle<rpc::Result<()>>,
}

impl Running {
    pub fn start(credentials: &Credentials, limits: Limits) -> Self {
        Self::start_rotating(&Rotating::new(credentials.clone()).unwrap(), limits)
    }

    pub fn start_rotating(credentials: &Rotating, limits: Limits) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), credentials, limits)
    }

    pub fn start_at(address: SocketAddr, credentials: &Rotating, limits: Limits) -> Self {
        Self::start_serving(address, credentials, limits, Routes::new(Who))
    }

    pub fn start_serving(
        address: SocketAddr,
        credentials: &Rotating,
        limits: Limits,
        routes: Routes,
    ) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let refusals = Refusals::default();
        let (credentials, counted) = (credentials.clone(), refusals.clone());
        let served = tokio::spawn(async move {
            let stopped = async move { stopped.await.unwrap_or(()) };
            serve(listener, &credentials, routes, limits, &counted, stopped).await
        });
        Self { address, refusals, stop, served }
    }

    pub fn endpoint(&self) -> String {
        self.address.to_string()
    }

    /// Waits for these counts of rejections: a client that rejects the server notices first.
    pub async fn counts(&self, wanted: &[(Cause, u64)]) {
        let counted = || {
            let all = Cause::ALL.map(|cause| (cause, self.refusals.total(cause)));
            all.into_iter().filter(|(_, total)| *total > 0).collect::<Vec<_>>()
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), async {
            while counted() != wanted {
                tokio::task::yield_now().await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("{:?}, and not {wanted:?}", counted()));
    }

    pub async fn stop(self) -> rpc::Result<()> {
        let _ = self.stop.send(());
        self.served.await.unwrap()
    }
}

/// A foreign client: trusts an authority, and presents any certificate with its key, or none.
#[derive(Clone)]
pub struct Stranger {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
}

impl Stranger {
    pub fn new(running: &Running, ca_pem: &str, shown: Option<(&str, &str)>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots);
        let mut tls = match shown {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
        };
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Self { address: running.address, tls: Arc::new(tls) }
    }

    /// The certificate that the server presents.
    pub async fn sees(&self) -> CertificateDer<'static> {
        let stream = self.clone().call(http::Uri::default()).await.unwrap();
        let shown = stream.inner().get_ref().1.peer_certificates();
        shown.unwrap().first().unwrap().clone()
    }

    pub fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("https://{}", self.address)).unwrap();
        endpoint.connect_with_connector_lazy(self.clone())
    }
}

impl Service<http::Uri> for Stranger {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = BoxFuture<Self::Response, io::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Uri) -> Self::Future {
        let Self { address, tls } = self.clone();
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            let name = "master.cc.borg".try_into().unwrap();
            TlsConnector::from(tls).connect(name, stream).await.map(TokioIo::new)
        })
    }
}

/// A client that can make calls.
pub trait Client:
    GrpcService<
        Body,
        Error: Into<BoxError>,
        ResponseBody: HttpBody<Data = Bytes, Error: Into<BoxError> + Send> + Send + 'static,
    >
{
}

impl<T> Client for T where
    T: GrpcService<
            Body,
            Error: Into<BoxError>,
            ResponseBody: HttpBody<Data = Bytes, Error: Into<BoxError> + Send> + Send + 'static,
        >
{
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A channel of ours, with fixed credentials.
pub fn connect(endpoint: &str, credentials: &Credentials, expect: &Expect) -> rpc::Result<Channel> {
    rpc::transport::connect(endpoint, &Rotating::new(credentials.clone())?, expect)
}

/// Asks a server for the caller's identity.
pub async fn ask<T: Client>(channel: T) -> Result<String, Status> {
    call(channel, "/bourg.test.Who/Ask").await
}

/// Asks a server for the serial number of the caller's certificate.
pub async fn ask_serial<T: Client>(channel: T) -> Result<String, Status> {
    call(channel, "/bourg.test.Who/AskSerial").await
}

/// Calls a method that takes and returns a string.
pub async fn call<T: Client>(channel: T, path: &'static str) -> Result<String, Status> {
    say(channel, path, Request::new(String::new())).await
}

pub async fn say<T: Client>(
    channel: T,
    path: &'static str,
    request: Request<String>,
) -> Result<String, Status> {
    let mut client = tonic::client::Grpc::new(channel);
    let _ready = client.ready().await;
    let path = http::uri::PathAndQuery::from_static(path);
    let codec: ProstCodec<String, String> = ProstCodec::default();
    client.unary(request, path, codec).await.map(Response::into_inner)
}

/// Opens a stream.
pub async fn stream<T: Client>(
    channel: T,
    path: &'static str,
) -> Result<tonic::Streaming<String>, Status> {
    let mut client = tonic::client::Grpc::new(channel);
    let _ready = client.ready().await;
    let path = http::uri::PathAndQuery::from_static(path);
    let codec: ProstCodec<String, String> = ProstCodec::default();
    client
        .server_streaming(Request::new(String::new()), path, codec)
        .await
        .map(Response::into_inner)
}

/// Opens a stream that never ends, and waits for its first message.
pub async fn follow<T: Client>(channel: T) -> Result<tonic::Streaming<String>, Status> {
    let mut stream = stream(channel, "/bourg.test.Who/Follow").await?;
    assert_eq!(stream.message().await?.as_deref(), Some("first"));
    Ok(stream)
}

/// The minimal service.
#[derive(Clone)]
pub struct Who;

impl NamedService for Who {
    const NAME: &'static str = "bourg.test.Who";
}

impl Service<http::Request<Body>> for Who {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = Grpc::new(ProstCodec::<String, String>::default());
            Ok(match request.uri().path() {
                "/bourg.test.Who/Ask" => {
                    grpc.unary(Ask(|peer| peer.identity.to_string()), request).await
                }
                "/bourg.test.Who/Echo" => grpc.unary(Echo, request).await,
                "/bourg.test.Who/Never" => grpc.unary(Never, request).await,
                "/bourg.test.Who/AskSerial" => {
                    grpc.unary(Ask(|peer| format!("{:?}", peer.serial)), request).await
                }
                "/bourg.test.Who/Flood" => {
                    grpc.server_streaming(Follow("x".repeat(50_000), true), request).await
                }
                _ => grpc.server_streaming(Follow("first".to_owned(), false), request).await,
            })
        })
    }
}

struct Ask(fn(Peer) -> String);

impl UnaryService<String> for Ask {
    type Response = String;
    type Future = BoxFuture<Response<String>, Status>;

    fn call(&mut self, request: Request<String>) -> Self::Future {
        let say = self.0;
        Box::pin(async move {
            let peer = peer(&request, CELL)?;
            assert!(peer.address.ip().is_loopback());
            Ok(Response::new(say(peer)))
        })
    }
}

struct Echo;

impl UnaryService<String> for Echo {
    type Response = String;
    type Future = BoxFuture<Response<String>, Status>;

    fn call(&mut self, request: Request<String>) -> Self::Future {
        Box::pin(async move {
            let said = request.into_inner();
            match said.strip_prefix("refuse ") {
                Some(why) => Err(Status::failed_precondition(why)),
                None => Ok(Response::new(said)),
            }
        })
    }
}

struct Never;

impl UnaryService<String> for Never {
    type Response = String;
    type Future = BoxFuture<Response<String>, Status>;

    fn call(&mut self, _: Request<String>) -> Self::Future {
        Box::pin(std::future::pending())
    }
}

/// Sends a message once or repeatedly, and never ends.
struct Follow(String, bool);

impl ServerStreamingService<String> for Follow {
    type Response = String;
    type ResponseStream = std::pin::Pin<Box<dyn Stream<Item = Result<String, Status>> + Send>>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, _: Request<String>) -> Self::Future {
        use tokio_stream::StreamExt as _;
        let said = self.0.clone();
        let stream: Self::ResponseStream = match self.1 {
            true => Box::pin(tokio_stream::iter(std::iter::repeat_with(move || Ok(said.clone())))),
            false => Box::pin(tokio_stream::once(Ok(said)).chain(tokio_stream::pending())),
        };
        Box::pin(std::future::ready(Ok(Response::new(stream))))
    }
}

/// Fails a test on a timeout.
pub async fn within<T>(seconds: u64, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(seconds), future).await.expect("it takes too long")
}
