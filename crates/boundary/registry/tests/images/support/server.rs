//! A small HTTP server that answers as a test says, byte by byte.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct TestRequest {
    pub(crate) method: String,
    /// As it stands in the first line: a path with its query, or a URL at a proxy.
    pub(crate) target: String,
    /// By their names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl TestRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
}

/// How the body of an answer is sent.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// With its length.
    Whole(Vec<u8>),
    /// With a length that is not its own; then the connection ends.
    Announced(u64, Vec<u8>),
    /// Without a length.
    Chunked(Vec<u8>),
    /// Without an end.
    Endless,
    /// With this length, of which these bytes are sent, and then nothing until the client leaves.
    Stalled(u64, Vec<u8>),
    /// A byte every few milliseconds.
    Dripping(u64),
    /// With its length, when as many clients wait as the barrier says.
    Together(Arc<Barrier>, Vec<u8>),
    /// Nothing at all: not even the header.
    Silent,
}

impl Answer {
    pub(crate) fn new(status: u16, body: Body) -> Self {
        Self { status, headers: Vec::new(), body }
    }

    pub(crate) fn whole(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status, Body::Whole(body.into()))
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    async fn write(
        self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        head: bool,
    ) -> std::io::Result<()> {
        let mut text = format!("HTTP/1.1 {} Status\r\nConnection: close\r\n", self.status);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        match &self.body {
            Body::Whole(bytes) | Body::Together(_, bytes) => {
                text.push_str(&format!("Content-Length: {}\r\n", bytes.len()));
            }
            Body::Announced(length, _) | Body::Stalled(length, _) | Body::Dripping(length) => {
                text.push_str(&format!("Content-Length: {length}\r\n"));
            }
            Body::Chunked(_) | Body::Endless => text.push_str("Transfer-Encoding: chunked\r\n"),
            Body::Silent => return until_left(stream).await,
        }
        stream.write_all(format!("{text}\r\n").as_bytes()).await?;
        if head {
            return stream.flush().await;
        }
        match self.body {
            Body::Whole(bytes) | Body::Announced(_, bytes) => stream.write_all(&bytes).await?,
            Body::Chunked(bytes) => {
                chunk(stream, &bytes).await?;
                stream.write_all(b"0\r\n\r\n").await?;
            }
            Body::Endless => loop {
                chunk(stream, &[b'x'; 16 << 10]).await?;
            },
            Body::Stalled(_, bytes) => {
                stream.write_all(&bytes).await?;
                stream.flush().await?;
                until_left(stream).await?;
            }
            Body::Dripping(length) => {
                let mut tick = tokio::time::interval(Duration::from_millis(5));
                for _ in 0..length {
                    tick.tick().await;
                    stream.write_all(b"x").await?;
                    stream.flush().await?;
                }
            }
            Body::Together(barrier, bytes) => {
                barrier.wait().await;
                stream.write_all(&bytes).await?;
            }
            Body::Silent => {}
        }
        stream.flush().await?;
        stream.shutdown().await
    }
}

async fn chunk(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).await?;
    stream.write_all(bytes).await?;
    stream.write_all(b"\r\n").await
}

async fn until_left(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<()> {
    while stream.read(&mut [0; 1024]).await? > 0 {}
    Ok(())
}

/// A server on a port of its own.
pub(crate) struct TestServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<TestRequest>>>,
    serving: JoinHandle<()>,
}

type Handler = Arc<dyn Fn(&TestRequest) -> Answer + Send + Sync>;

impl TestServer {
    /// A server without TLS.
    pub(crate) async fn plain(
        handler: impl Fn(&TestRequest) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::start(None, Arc::new(handler)).await
    }

    /// A server with TLS, and its certificate in PEM, for `localhost` and 127.0.0.1.
    pub(crate) async fn tls(
        handler: impl Fn(&TestRequest) -> Answer + Send + Sync + 'static,
    ) -> (Self, String) {
        Self::tls_of(rustls::DEFAULT_VERSIONS, handler).await
    }

    /// The same with these versions of TLS alone.
    pub(crate) async fn tls_of(
        versions: &[&'static SupportedProtocolVersion],
        handler: impl Fn(&TestRequest) -> Answer + Send + Sync + 'static,
    ) -> (Self, String) {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        (Self::start(Some(acceptor), Arc::new(handler)).await, made.cert.pem())
    }

    async fn start(tls: Option<TlsAcceptor>, handler: Handler) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let serving = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (tls, handler, seen) = (tls.clone(), Arc::clone(&handler), Arc::clone(&seen));
                tokio::spawn(async move {
                    // A client that leaves early is what many tests are about.
                    let _left = match tls {
                        None => serve(stream, &handler, &seen).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, &handler, &seen).await,
                            Err(error) => Err(error),
                        },
                    };
                });
            }
        });
        Self { address, requests, serving }
    }

    /// Its host and port.
    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<TestRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// How many requests had this in their target.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.requests().iter().filter(|request| request.target.contains(part)).count()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    handler: &Handler,
    seen: &Mutex<Vec<TestRequest>>,
) -> std::io::Result<()> {
    let Some(request) = read(&mut stream).await? else { return Ok(()) };
    let answer = handler(&request);
    let head = request.method == "HEAD";
    seen.lock().unwrap().push(request);
    answer.write(&mut stream, head).await
}

/// Reads a request; `None` if it is none, such as the begin of TLS.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Option<TestRequest>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = stream.read_u8().await?;
        if head.is_empty() && !byte.is_ascii_uppercase() {
            return Ok(None);
        }
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let mut words = lines.next().unwrap().split(' ').map(str::to_owned);
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers: BTreeMap<_, _> =
        headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let body = String::from_utf8(body).unwrap();
    Ok(Some(TestRequest { method, target, headers, body }))
}
