//! One request and its response: redirects, repeated attempts, and a body that is read with a bound on its time and
//! its length.

use std::error::Error as _;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION,
    PROXY_AUTHORIZATION, RANGE, RETRY_AFTER, USER_AGENT,
};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use url::Url;

use crate::connect::{ConnectFailure, RegistryConnector};
use crate::error::RegistryError;
use crate::settings::{Patience, RegistrySettings};
use crate::words::{ServerWords, chain, shown};

/// How many redirects in a row are followed.
const REDIRECTS_MAX: usize = 5;
/// How many idle connections to a host are kept.
const IDLE_CONNECTIONS_MAX: usize = 4;
/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(20);
/// How many bytes the header of a response has at most.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// How many bytes of the body of an error are read.
const ERROR_BYTES_MAX: u64 = 64 << 10;
/// How many bytes a second a server has to send so that it is no stall.
const BYTES_A_SECOND: f64 = 1024.0;

/// What is asked of a server.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// Which types of documents are wanted.
    pub(crate) accept: Option<&'static str>,
    /// From which byte on the body is wanted.
    pub(crate) from: u64,
    /// Who asks. It is sent to the host of `url` alone.
    pub(crate) authorization: Option<HeaderValue>,
    /// The fields of a form, sent as the body.
    pub(crate) form: Option<String>,
}

impl Exchange {
    pub(crate) fn get(url: Url) -> Self {
        let (accept, from, authorization, form) = (None, 0, None, None);
        Self { method: Method::GET, url, accept, from, authorization, form }
    }
}

/// Sends requests.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    client: Client<RegistryConnector, Full<Bytes>>,
    connector: RegistryConnector,
    patience: Patience,
}

impl Transport {
    pub(crate) fn new(settings: &RegistrySettings) -> Result<Self, RegistryError> {
        let connector = RegistryConnector::new(settings)?;
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
        builder.pool_max_idle_per_host(IDLE_CONNECTIONS_MAX).http1_max_buf_size(HEADER_BYTES_MAX);
        let client = builder.build(connector.clone());
        Ok(Self { client, connector, patience: settings.patience })
    }

    pub(crate) fn patience(&self) -> &Patience {
        &self.patience
    }

    /// Whether a server speaks TLS.
    pub(crate) async fn speaks_tls(&self, url: &Url) -> bool {
        let Ok(uri) = url.as_str().parse::<Uri>() else { return false };
        self.connector.clone().connect(uri).await.is_ok()
    }

    /// Sends a request until it is answered with anything but 429 and 5xx.
    pub(crate) async fn exchange(&self, exchange: &Exchange) -> Result<Reply, RegistryError> {
        let mut attempt = 1;
        loop {
            let error = match self.follow(exchange).await {
                Ok(reply) if is_passing(reply.status()) => reply.into_error().await,
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            if !error.may_pass() || !self.wait(attempt, error.asks_to_wait()).await {
                return Err(error);
            }
            attempt += 1;
        }
    }

    /// Waits after an attempt that failed, the first being 1, as long as the server has asked to or else as long as
    /// is usual; returns whether there is to be another.
    pub(crate) async fn wait(&self, attempt: u32, asked: Option<Duration>) -> bool {
        let own = self.patience.backoff.saturating_mul(1 << (attempt - 1).min(10));
        let long = asked.is_some_and(|asked| asked > self.patience.retry_after_max);
        let wait = asked.unwrap_or(own);
        let again = !long && attempt < self.patience.attempts;
        if again {
            sleep(wait).await;
        }
        again
    }

    /// Sends a request, and follows redirects.
    async fn follow(&self, exchange: &Exchange) -> Result<Reply, RegistryError> {
        let mut url = exchange.url.clone();
        let mut authorization = exchange.authorization.as_ref();
        for _ in 0..=REDIRECTS_MAX {
            if url.origin() != exchange.url.origin() {
                // For good: what another host redirects back is a request of that host.
                authorization = None;
            }
            let reply = self.send(exchange, &url, authorization).await?;
            match reply.redirection() {
                // What was posted is for this host alone.
                Some(to) if exchange.form.is_none() => url = redirected(&url, to)?,
                _ => return Ok(reply),
            }
        }
        let why = "there were more redirects in a row than are followed";
        Err(RegistryError::Redirect { url: exchange.url.to_string(), to: shown(url.as_str()), why })
    }

    async fn send(
        &self,
        exchange: &Exchange,
        url: &Url,
        authorization: Option<&HeaderValue>,
    ) -> Result<Reply, RegistryError> {
        let request = self.request(exchange, url, authorization)?;
        let stall = self.patience.stall;
        // Connecting has a bound of its own.
        let answered = timeout(self.patience.connect + stall, self.client.request(request)).await;
        let slow = |_| RegistryError::Stalled { url: public(url), after: stall };
        let response = answered.map_err(slow)?.map_err(|error| of_client(url, &error))?;
        Ok(Reply::new(url.clone(), response, stall))
    }

    fn request(
        &self,
        exchange: &Exchange,
        url: &Url,
        authorization: Option<&HeaderValue>,
    ) -> Result<Request<Full<Bytes>>, RegistryError> {
        let bad = |why: String| RegistryError::Connection { url: public(url), why };
        let uri: Uri = url.as_str().parse().map_err(|_| bad("it is no URL of HTTP".to_owned()))?;
        let mut headers = HeaderMap::new();
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("bourg/", env!("CARGO_PKG_VERSION"))),
        );
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(accept) = exchange.accept {
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
        }
        if exchange.from > 0 {
            let range = HeaderValue::from_str(&format!("bytes={}-", exchange.from));
            headers.insert(RANGE, range.map_err(|error| bad(error.to_string()))?);
        }
        if let Some(authorization) = authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        if let Some(authorization) = self.connector.proxy_authorization(&uri) {
            headers.insert(PROXY_AUTHORIZATION, authorization);
        }
        if exchange.form.is_some() {
            let form = HeaderValue::from_static("application/x-www-form-urlencoded");
            headers.insert(CONTENT_TYPE, form);
        }
        let body = Full::from(exchange.form.clone().unwrap_or_default());
        let mut request = Request::new(body);
        *request.method_mut() = exchange.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

/// A response whose body is not read yet.
#[derive(Debug)]
pub(crate) struct Reply {
    url: Url,
    status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    stall: Duration,
    /// When the server has to have sent `wanted` bytes more.
    deadline: Instant,
    wanted: u64,
    received: u64,
}

impl Reply {
    fn new(url: Url, response: Response<Incoming>, stall: Duration) -> Self {
        let (parts, body) = response.into_parts();
        // Rounded down, and at least one byte: a test may be impatient.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is positive and small"
        )]
        let wanted = (stall.as_secs_f64() * BYTES_A_SECOND).max(1.0) as u64;
        let (status, headers, deadline) = (parts.status, parts.headers, Instant::now() + stall);
        Self { url, status, headers, body, stall, deadline, wanted, received: 0 }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The URL that answered, without what may be secret in it.
    pub(crate) fn url(&self) -> String {
        public(&self.url)
    }

    /// The URL that answered.
    pub(crate) fn answered(&self) -> &Url {
        &self.url
    }

    /// Where the server redirects.
    fn redirection(&self) -> Option<&HeaderValue> {
        let redirects = matches!(self.status.as_u16(), 301 | 302 | 303 | 307 | 308);
        self.headers.get(LOCATION).filter(|_| redirects)
    }

    /// The next bytes of the body; `None` at its end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, RegistryError> {
        loop {
            let frame = timeout_at(self.deadline, self.body.frame()).await;
            let stalled = |_| RegistryError::Stalled { url: self.url(), after: self.stall };
            let Some(frame) = frame.map_err(stalled)? else { return Ok(None) };
            let broken = |error: hyper::Error| RegistryError::Connection {
                url: self.url(),
                why: format!("the connection broke: {}", chain(&error)),
            };
            let Ok(bytes) = frame.map_err(broken)?.into_data() else { continue };
            self.received += bytes.len() as u64;
            if self.received >= self.wanted {
                self.received = 0;
                self.deadline = Instant::now() + self.stall;
            }
            return Ok(Some(bytes));
        }
    }

    /// The whole body of a document.
    ///
    /// # Errors
    /// It has more than `max` bytes, or the connection fails.
    pub(crate) async fn document(
        &mut self,
        what: &'static str,
        max: u64,
    ) -> Result<Vec<u8>, RegistryError> {
        let mut document = Vec::new();
        while let Some(bytes) = self.next().await? {
            if document.len() as u64 + bytes.len() as u64 > max {
                return Err(RegistryError::TooLong { url: self.url(), what, max });
            }
            document.extend_from_slice(&bytes);
        }
        Ok(document)
    }

    /// What the server says in the body of an error.
    pub(crate) async fn words(&mut self) -> ServerWords {
        let body = self.document("the text of an error", ERROR_BYTES_MAX).await;
        body.map_or_else(|_| ServerWords::default(), |body| ServerWords::of_body(&body))
    }

    /// The error that this response is.
    pub(crate) async fn into_error(mut self) -> RegistryError {
        let after = retry_after(&self.headers);
        let said = self.words().await;
        match self.status {
            StatusCode::TOO_MANY_REQUESTS => {
                let host = self.url.host_str().unwrap_or_default().to_owned();
                RegistryError::RateLimited { host, after, said }
            }
            status => {
                RegistryError::Status { url: self.url(), status: status.as_u16(), said, after }
            }
        }
    }
}

/// Whether a status may be another one soon.
fn is_passing(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}

/// How long a server asks to wait: a number of seconds, or a moment.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let moment = httpdate::parse_http_date(text).ok()?;
    Some(moment.duration_since(SystemTime::now()).unwrap_or_default())
}

/// The URL to which another one redirects.
fn redirected(from: &Url, to: &HeaderValue) -> Result<Url, RegistryError> {
    let text = String::from_utf8_lossy(to.as_bytes());
    let refused = |why| RegistryError::Redirect { url: public(from), to: shown(&text), why };
    let mut url = from.join(&text).map_err(|_| refused("it is no URL"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(refused("it is no URL of HTTP"));
    }
    if from.scheme() == "https" && url.scheme() == "http" {
        return Err(refused("it leads from https to http"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("it has a user or a password"));
    }
    url.set_fragment(None);
    Ok(url)
}

/// A URL as errors show it: without its query, where signatures and tokens are.
fn public(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    shown(url.as_str())
}

/// The error of the HTTP client.
fn of_client(url: &Url, error: &hyper_util::client::legacy::Error) -> RegistryError {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(ConnectFailure::Tls(why)) = inner.downcast_ref() {
            return RegistryError::Tls { url: public(url), why: why.clone() };
        }
        cause = inner.source();
    }
    RegistryError::Connection { url: public(url), why: chain(error) }
}
