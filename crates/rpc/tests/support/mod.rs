//! A server with the smallest service, over a real socket.

#![allow(dead_code, unreachable_pub)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use rpc::transport::{Limits, peer_identity, serve};
use rpc::{Authority, Credentials, Identity, Validity};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::Stream;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Context, Poll, Service, http};
use tonic::server::{Grpc, NamedService, ServerStreamingService, UnaryService};
use tonic::service::Routes;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

pub const CELL: &str = "cc";
pub const HOUR: Duration = Duration::from_secs(3600);

pub fn issue(authority: &Authority, identity: &str) -> Credentials {
    let identity: Identity = identity.parse().unwrap();
    authority.issue(&identity, Validity::lasting(HOUR)).unwrap()
}

/// An authority of [`CELL`] in a directory of its own.
pub fn authority() -> (Authority, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (Authority::create(dir.path(), CELL).unwrap(), dir)
}

/// A running server; it ends with [`Self::stop`].
pub struct Running {
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<rpc::Result<()>>,
}

impl Running {
    pub fn start(credentials: &Credentials, limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let credentials = credentials.clone();
        let served = tokio::spawn(async move {
            let routes = Routes::new(Who);
            let stopped = async move { stopped.await.unwrap_or(()) };
            serve(listener, &credentials, routes, limits, stopped).await
        });
        Self { address, stop, served }
    }

    pub fn endpoint(&self) -> String {
        self.address.to_string()
    }

    pub async fn stop(self) -> rpc::Result<()> {
        let _ = self.stop.send(());
        self.served.await.unwrap()
    }
}

/// Asks a server who it thinks is asking.
pub async fn ask(channel: Channel) -> Result<String, Status> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.map_err(|e| Status::unavailable(e.to_string()))?;
    let path = http::uri::PathAndQuery::from_static("/bourg.test.Who/Ask");
    let codec: ProstCodec<String, String> = ProstCodec::default();
    client.unary(Request::new(String::new()), path, codec).await.map(Response::into_inner)
}

/// Opens a stream that never ends, and waits for its first message.
pub async fn follow(channel: Channel) -> Result<tonic::Streaming<String>, Status> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.map_err(|e| Status::unavailable(e.to_string()))?;
    let path = http::uri::PathAndQuery::from_static("/bourg.test.Who/Follow");
    let codec: ProstCodec<String, String> = ProstCodec::default();
    let answer = client.server_streaming(Request::new(String::new()), path, codec).await?;
    let mut stream = answer.into_inner();
    assert_eq!(stream.message().await?.as_deref(), Some("first"));
    Ok(stream)
}

#[derive(Clone)]
struct Who;

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
                "/bourg.test.Who/Ask" => grpc.unary(Ask, request).await,
                _ => grpc.server_streaming(Follow, request).await,
            })
        })
    }
}

struct Ask;

impl UnaryService<String> for Ask {
    type Response = String;
    type Future = BoxFuture<Response<String>, Status>;

    fn call(&mut self, request: Request<String>) -> Self::Future {
        Box::pin(async move {
            assert!(request.remote_addr().is_some());
            Ok(Response::new(peer_identity(&request, CELL)?.to_string()))
        })
    }
}

struct Follow;

impl ServerStreamingService<String> for Follow {
    type Response = String;
    type ResponseStream = std::pin::Pin<Box<dyn Stream<Item = Result<String, Status>> + Send>>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, _: Request<String>) -> Self::Future {
        Box::pin(async move {
            use tokio_stream::StreamExt as _;
            let first = tokio_stream::once(Ok("first".to_owned()));
            let stream: Self::ResponseStream = Box::pin(first.chain(tokio_stream::pending()));
            Ok(Response::new(stream))
        })
    }
}

/// Fails a test that waits for what does not come.
pub async fn within<T>(seconds: u64, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(seconds), future).await.expect("it takes too long")
}
