//! Links: a lean client for connections of which there are thousands, as those to the Borglets.
//!
//! A connection of `hyper` and `h2` takes 54 kB, of which 28 are fixed buffers that an idle
//! connection has no use for. Here nothing is kept between two frames, so that an idle connection is
//! its TLS session and little more. It is HTTP/2 as every server speaks it, and as little of it as
//! calls need: requests of one message, no push, no dynamic table of headers.
//!
//! What is deliberately not here: how a server is reached, whom to trust and as whom ([`Dial`], which
//! crate `rpc` implements), and any service.

mod connection;
mod frame;
mod fuzzing;
mod hpack;
mod huffman;
mod session;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::Frame;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::client::TlsStream;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::codegen::{BoxFuture, Bytes, Service};

pub use self::fuzzing::hear;

use self::connection::{Connection, Handle, Stream};
use self::session::{Fate, Piece};
/// After how long without a frame a client asks whether the server is there.
pub const CLIENT_KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// How long either end waits for the answer before it gives the connection up.
pub const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Dials one server, and knows whom it accepts there.
pub trait Dial: Send + Sync + 'static {
    /// The server's `HOST:PORT`.
    fn address(&self) -> &str;

    /// Connects. Fails with what the calls that wait for the connection are told.
    fn dial(&self) -> BoxFuture<Dialled, Status>;

    /// What a call is told whose user does not accept the server's certificate any more
    /// ([`Link::where_accepted`]).
    fn revoked(&self) -> Status;
}

/// A connection on which the server has said something, which it does once it accepts the client's
/// certificate.
#[derive(Debug)]
pub struct Dialled {
    /// The connection.
    pub stream: TlsStream<TcpStream>,
    /// The serial number of the certificate that the server showed, the most significant byte first.
    pub serial: Arc<[u8]>,
}

/// A link to one server. Clones share it.
///
/// It dials with the first call, and again after its connection is lost. It ends with its last clone
/// and call.
#[derive(Clone)]
pub struct Link {
    shared: Arc<LinkState>,
    accepts: Option<Arc<Accepts>>,
}

/// Whether a certificate with that serial number, the most significant byte first, is accepted.
type Accepts = dyn Fn(&[u8]) -> bool + Send + Sync;

struct LinkState {
    dial: Arc<dyn Dial>,
    current: Mutex<Current>,
}

/// What there is of a connection.
enum Current {
    None,
    /// It is dialled; whoever wants it waits for what comes of that.
    Dialling(watch::Receiver<Option<DialOutcome>>),
    /// It was there when it was used last.
    Open(OpenConnection),
}

/// A connection, and the serial number of the certificate that the server showed.
#[derive(Clone)]
struct OpenConnection {
    handle: Handle,
    serial: Arc<[u8]>,
}

/// What came of dialling.
type DialOutcome = Result<OpenConnection, Status>;

impl Link {
    /// A link to the server that `dial` reaches.
    #[must_use]
    pub fn new(dial: impl Dial) -> Self {
        let shared = LinkState { dial: Arc::new(dial), current: Mutex::new(Current::None) };
        Self { shared: Arc::new(shared), accepts: None }
    }

    /// Connects now, where it is not connected: a call would do it as well.
    ///
    /// # Errors
    /// `UNAVAILABLE`, as a call.
    pub async fn dial(&self) -> Result<(), Status> {
        self.open().await.map(drop)
    }

    /// The same link for calls that are made only where the server's certificate, known by its serial
    /// number, is accepted. Else they fail, as where the server is not trusted, before anything of them
    /// is sent, and the next one dials again: the server may have another certificate by then.
    #[must_use]
    pub fn where_accepted(&self, accepts: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Self {
        Self { shared: Arc::clone(&self.shared), accepts: Some(Arc::new(accepts)) }
    }

    /// A connection to a server that is accepted.
    async fn accepted(&self) -> Result<Handle, Status> {
        let open = self.open().await?;
        if self.accepts.as_ref().is_none_or(|accepts| accepts(&open.serial)) {
            return Ok(open.handle);
        }
        let mut current = self.shared.current.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(&*current, Current::Open(now) if now.serial == open.serial) {
            *current = Current::None;
        }
        drop(current);
        Err(self.shared.dial.revoked())
    }

    async fn open(&self) -> Result<OpenConnection, Status> {
        let mut dialled = {
            let mut current = self.shared.current.lock().unwrap_or_else(PoisonError::into_inner);
            match &*current {
                Current::Open(open) if open.handle.is_open() => return Ok(open.clone()),
                Current::Dialling(dialled) => dialled.clone(),
                Current::Open(_) | Current::None => {
                    let (tell, dialled) = watch::channel(None);
                    *current = Current::Dialling(dialled.clone());
                    let dial = Arc::clone(&self.shared.dial);
                    // Ends with its connection, of which the link is a user.
                    tokio::spawn(keep_up(dial, Arc::downgrade(&self.shared), tell));
                    dialled
                }
            }
        };
        let outcome = dialled.wait_for(Option::is_some).await.ok();
        match outcome.as_deref() {
            Some(Some(Ok(open))) => Ok(open.clone()),
            Some(Some(Err(failed))) => Err(failed.clone()),
            _ => Err(Status::unavailable("the program ends")),
        }
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<ResponseBody>, Status> {
        let (head, body) = request.into_parts();
        let mut block = Vec::with_capacity(256);
        for (name, value) in [
            (":method", head.method.as_str()),
            (":scheme", "https"),
            (":authority", self.shared.dial.address()),
            (":path", head.uri.path()),
        ] {
            hpack::encode(&mut block, name.as_bytes(), value.as_bytes());
        }
        for (name, value) in &head.headers {
            hpack::encode(&mut block, name.as_str().as_bytes(), value.as_bytes());
        }
        let body = whole(body).await?;
        let fate = |fate| self.status(fate);
        let mut stream = self.accepted().await?.open(&block, &body).await.map_err(fate)?;
        let head = stream.head().await.map_err(fate)?;
        Ok(head.map(|()| ResponseBody { stream, link: self }))
    }

    /// What a caller is told of a stream that has no answer.
    fn status(&self, fate: Fate) -> Status {
        let address = self.shared.dial.address();
        match fate {
            Fate::Lost(why) => {
                Status::unavailable(format!("the connection to {address} was lost: {why}"))
            }
            Fate::Unseen | Fate::Reset(frame::REFUSED_STREAM) => {
                Status::unavailable(format!("{address} takes no more calls on this connection"))
            }
            Fate::Reset(frame::CANCEL) => Status::cancelled(format!("{address} gave the call up")),
            Fate::Reset(code) => {
                Status::internal(format!("{address} gave the call up, for reason {code} of HTTP/2"))
            }
        }
    }
}

/// Dials, tells what came of it, and keeps the connection up.
async fn keep_up(
    dial: Arc<dyn Dial>,
    link: Weak<LinkState>,
    tell: watch::Sender<Option<DialOutcome>>,
) {
    // In a box, so that a connection that stands has no room for it.
    let dialled = dial.dial().await;
    drop(dial);
    let (connection, dialled) = match dialled {
        Ok(Dialled { stream, serial }) => {
            let (connection, handle) = Connection::new(stream);
            (Some(connection), Ok(OpenConnection { handle, serial }))
        }
        Err(failed) => (None, Err(failed)),
    };
    if let Some(link) = link.upgrade() {
        let mut current = link.current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = dialled.as_ref().map_or(Current::None, |open| Current::Open(open.clone()));
    }
    tell.send_replace(Some(dialled));
    drop((tell, link));
    if let Some(connection) = connection {
        connection.run().await;
    }
}

/// All of a request's body: it is one message, however many pieces it comes in.
async fn whole(body: Body) -> Result<Bytes, Status> {
    let mut body = std::pin::pin!(body);
    let mut pieces = Vec::new();
    while let Some(frame) =
        std::future::poll_fn(|context| http_body::Body::poll_frame(body.as_mut(), context)).await
    {
        pieces.extend(frame?.into_data().ok());
    }
    Ok(match pieces.as_slice() {
        [one] => one.clone(),
        several => Bytes::from(several.concat()),
    })
}

impl Service<Request<Body>> for Link {
    type Response = Response<ResponseBody>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Status>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let limit = time_limit(request.headers());
        let answer = self.clone().answer(request);
        Box::pin(async move {
            let Some(limit) = limit else { return answer.await };
            let late =
                |_elapsed| Err(Status::deadline_exceeded(format!("no answer for {limit:?}")));
            tokio::time::timeout(limit, answer).await.unwrap_or_else(late)
        })
    }
}

/// How long a request may take, as it says of itself.
fn time_limit(headers: &HeaderMap) -> Option<Duration> {
    let said = headers.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = said.split_at_checked(said.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number.saturating_mul(3_600))),
        "M" => Some(Duration::from_secs(number.saturating_mul(60))),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

/// The body of an answer. The call is given up where this is dropped before its end.
pub struct ResponseBody {
    stream: Stream,
    link: Link,
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.stream.poll_piece(context).map(|piece| {
            piece.map(|piece| match piece {
                Ok(Piece::Data(data)) => Ok(Frame::data(data)),
                Ok(Piece::Trailers(trailers)) => Ok(Frame::trailers(trailers)),
                Err(fate) => Err(self.link.status(fate)),
            })
        })
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").field("link", &self.link).finish_non_exhaustive()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Link").field(&self.shared.dial.address()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limits_are_read() {
        for (said, limit) in [
            ("2H", Some(Duration::from_secs(7_200))),
            ("1M", Some(Duration::from_secs(60))),
            ("30S", Some(Duration::from_secs(30))),
            ("250m", Some(Duration::from_millis(250))),
            ("7u", Some(Duration::from_micros(7))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("", None),
            ("S", None),
            ("1", None),
            ("1s", None),
            ("-1S", None),
            ("1…", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", said.parse().unwrap());
            assert_eq!(time_limit(&headers), limit, "{said}");
        }
        assert_eq!(time_limit(&HeaderMap::new()), None);
    }
}
