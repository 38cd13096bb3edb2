//! What a browser does, without a screen: HTTP/2 over TLS, a sign-in, pages, and their live changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use flate2::read::GzDecoder;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::header::{ACCEPT_ENCODING, CONTENT_ENCODING, COOKIE, SET_COOKIE};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// How much a server may send before the browser has read it, as Chromium says: of a response, and of all.
const STREAM_WINDOW: u32 = 6 << 20;
const CONNECTION_WINDOW: u32 = 15 << 20;

/// The address of the pages, and the authority of their certificate.
#[derive(Clone)]
pub(super) struct Site {
    tls: TlsConnector,
    /// Host and port.
    address: String,
}

impl Site {
    /// The pages at an address, of the cell with this authority.
    pub(super) fn new(address: String, ca_pem: &str) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes())?)?;
        let provider = Arc::new(ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self { tls: TlsConnector::from(Arc::new(tls)), address })
    }

    async fn connect(&self) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        let (host, _) = self.address.rsplit_once(':').context("an address without a port")?;
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let stream = self.tls.connect(ServerName::try_from(host.to_owned())?, stream).await?;
        let mut http = Builder::new(TokioExecutor::new());
        http.initial_stream_window_size(STREAM_WINDOW);
        http.initial_connection_window_size(CONNECTION_WINDOW);
        let (requests, connection) = http.handshake(TokioIo::new(stream)).await?;
        // It ends with the connection.
        tokio::spawn(connection);
        Ok(requests)
    }

    /// A browser that uses a link to sign in.
    pub(super) async fn sign_in(&self, link: &str) -> anyhow::Result<Browser> {
        let path = link.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
        let (_, path) = path.context("a link without a path")?;
        let (site, requests) = (self.clone(), self.connect().await?);
        let browser = Browser { site, requests, cookie: String::new() };
        let answer = browser.send(Method::POST, &format!("/{path}")).await?;
        let cookie = answer.headers().get(SET_COOKIE).context("it signs nobody in")?;
        let cookie = cookie.to_str()?.split(';').next().unwrap_or_default().to_owned();
        Ok(Browser { cookie, ..browser })
    }
}

/// A browser in which somebody has signed in, with one connection.
#[derive(Clone)]
pub(super) struct Browser {
    site: Site,
    requests: SendRequest<Full<Bytes>>,
    cookie: String,
}

/// A page as it was sent.
#[derive(Clone, Debug)]
pub(super) struct SentPage {
    body: Bytes,
    is_compressed: bool,
    /// How long it took the server, as its header says.
    pub(super) took: Duration,
}

impl Browser {
    /// The same user in another browser.
    pub(super) async fn another(&self) -> anyhow::Result<Self> {
        Ok(Self { requests: self.site.connect().await?, ..self.clone() })
    }

    async fn send(&self, method: Method, path: &str) -> anyhow::Result<Response<Incoming>> {
        let request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.site.address))
            .header(COOKIE, &self.cookie)
            .header(ACCEPT_ENCODING, "gzip");
        let mut requests = self.requests.clone();
        requests.ready().await?;
        Ok(requests.send_request(request.body(Full::default())?).await?)
    }

    /// A page.
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<SentPage> {
        let answer = self.send(Method::GET, path).await?;
        let status = answer.status();
        let is_compressed = answer.headers().contains_key(CONTENT_ENCODING);
        let took = answer.headers().get("server-timing").context("no server-timing")?;
        let took = took.to_str()?.strip_prefix("total;dur=").context("another server-timing")?;
        let took = Duration::from_secs_f64(took.parse::<f64>()?.max(0.0) / 1e3);
        let body = answer.into_body().collect().await?.to_bytes();
        let page = SentPage { body, is_compressed, took };
        if status != StatusCode::OK {
            let text = page.text()?;
            let said = text.split_once("<h1>").and_then(|(_, rest)| rest.split_once("</p>"));
            anyhow::bail!("{path}: {status}: {}", said.map_or("", |(said, _)| said));
        }
        Ok(page)
    }

    /// Opens a page, and the stream of its changes.
    pub(super) async fn live(self, path: &str) -> anyhow::Result<Live> {
        let page = self.get(path).await?.text()?;
        let live = page.split_once("data-live=\"").and_then(|(_, rest)| rest.split_once('"'));
        let (live, _) = live.with_context(|| format!("{path} is not live"))?;
        let answer = self.send(Method::GET, &live.replace("&amp;", "&")).await?;
        ensure!(answer.status() == StatusCode::OK, "{live}: {}", answer.status());
        Ok(Live { _browser: self, path: path.to_owned(), changes: answer.into_body() })
    }
}

/// A page that changes.
pub(super) struct Live {
    /// Its connection ends with it.
    _browser: Browser,
    path: String,
    changes: Incoming,
}

impl Live {
    /// Reads its changes for ever, and counts them.
    pub(super) async fn read(mut self, counts: &ViewerCounts) -> anyhow::Result<()> {
        let mut tail = Vec::new();
        while let Some(frame) = self.changes.frame().await {
            if let Some(data) = frame?.data_ref() {
                counts.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
                counts.add(&mut tail, data);
            }
        }
        anyhow::bail!("the changes of {} have ended", self.path)
    }
}

impl SentPage {
    /// The bytes that were sent.
    pub(super) fn sent(&self) -> usize {
        self.body.len()
    }

    /// Its text.
    pub(super) fn text(&self) -> anyhow::Result<String> {
        if !self.is_compressed {
            return Ok(String::from_utf8_lossy(&self.body).into_owned());
        }
        Ok(std::io::read_to_string(GzDecoder::new(&*self.body))?)
    }
}

/// The events that all viewers have received.
#[derive(Debug, Default)]
pub(super) struct ViewerCounts {
    pub(super) bytes: AtomicU64,
    /// Parts of pages that have changed.
    pub(super) parts: AtomicU64,
    /// Pages that were rendered again.
    pub(super) rendered: AtomicU64,
    /// Pages that could not be rendered, and sessions that are over.
    pub(super) lost: AtomicU64,
}

/// The line that begins an event, before its name.
const EVENT: &[u8] = b"event: ";

impl ViewerCounts {
    /// Counts the events that begin in some data; `tail` is what may be the beginning of one.
    fn add(&self, tail: &mut Vec<u8>, data: &[u8]) {
        // The line and the first letter of the name.
        let whole = EVENT.len() + 1;
        let head = &data[..data.len().min(EVENT.len())];
        tail.extend_from_slice(head);
        self.count(tail);
        self.count(data);
        match data.len() >= EVENT.len() {
            true => *tail = data[data.len() + 1 - whole..].to_vec(),
            false => drop(tail.drain(..tail.len().saturating_sub(EVENT.len()))),
        }
    }

    fn count(&self, data: &[u8]) {
        for at in data.windows(EVENT.len() + 1).filter(|at| at.starts_with(EVENT)) {
            let counted = match at.last() {
                Some(b'p') => &self.parts,
                Some(b'n') => &self.rendered,
                _ => &self.lost,
            };
            counted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_however_they_are_cut() {
        let text =
            b"event: part\ndata: {}\n\nevent: now\ndata: 1\n\n:\n\nevent: lost\ndata: no\n\n";
        for size in 1..=text.len() {
            let (counts, mut tail) = (ViewerCounts::default(), Vec::new());
            for piece in text.chunks(size) {
                counts.add(&mut tail, piece);
            }
            let counted = [&counts.parts, &counts.rendered, &counts.lost];
            let counted = counted.map(|count| count.load(Ordering::Relaxed));
            assert_eq!(counted, [1, 1, 1], "in pieces of {size}");
        }
    }
}
