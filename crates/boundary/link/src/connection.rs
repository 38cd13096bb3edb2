//! One connection with its socket: what the session gives is written, what comes is given to it, and
//! a server that says nothing any more is given up.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::time::{Instant, Sleep};
use tokio_rustls::client::TlsStream;
use tonic::codegen::Bytes;
use tonic::codegen::http::Response;

use super::frame::{Frames, Violation};
use super::session::{Fate, LinkSession, Piece};
use crate::{CLIENT_KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT};

/// A session as one of its users has it. The connection ends when there is none.
pub(super) struct Handle(Arc<Mutex<LinkSession>>);

impl Handle {
    fn session(&self) -> MutexGuard<'_, LinkSession> {
        lock(&self.0)
    }

    /// Whether it is of use still.
    pub(super) fn is_open(&self) -> bool {
        self.session().is_open()
    }

    /// Opens a stream with a header block and a body.
    pub(super) async fn open(self, block: &[u8], body: &Bytes) -> Result<Stream, Fate> {
        let id = std::future::poll_fn(|context| self.session().poll_open(context, block, body));
        let id = id.await?;
        Ok(Stream { handle: self, id })
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        self.session().add_user();
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.session().remove_user();
    }
}

/// A stream of a session. It is closed when this is dropped.
pub(super) struct Stream {
    handle: Handle,
    id: u32,
}

impl Stream {
    pub(super) async fn head(&mut self) -> Result<Response<()>, Fate> {
        std::future::poll_fn(|context| self.handle.session().poll_head(context, self.id)).await
    }

    pub(super) fn poll_piece(
        &mut self,
        context: &Context<'_>,
    ) -> Poll<Option<Result<Piece, Fate>>> {
        self.handle.session().poll_piece(context, self.id)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.handle.session().close(self.id);
    }
}

/// The connection: it is over when this is.
pub(super) struct Connection<S = TlsStream<tokio::net::TcpStream>> {
    stream: S,
    session: Arc<Mutex<LinkSession>>,
    frames: Frames,
    /// What is being written, and how much of it was.
    writing: Vec<u8>,
    written: usize,
    /// When something came last, and when the server was asked whether it is there, unless it has
    /// said something since.
    heard: Instant,
    asked: Option<Instant>,
    alarm: Pin<Box<Sleep>>,
}

impl<S: AsyncBufRead + AsyncWrite + Unpin> Connection<S> {
    /// A connection over a stream, and its first user.
    pub(super) fn new(stream: S) -> (Self, Handle) {
        let session = Arc::new(Mutex::new(LinkSession::new()));
        let handle = Handle(Arc::clone(&session));
        let connection = Self {
            stream,
            session,
            frames: Frames::default(),
            writing: Vec::new(),
            written: 0,
            heard: Instant::now(),
            asked: None,
            alarm: Box::pin(tokio::time::sleep(CLIENT_KEEP_ALIVE_INTERVAL)),
        };
        (connection, handle)
    }

    /// Reads until there is nothing to read.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Over>> {
        loop {
            let came = ready!(Pin::new(&mut self.stream).poll_fill_buf(context))?;
            if came.is_empty() {
                return Poll::Ready(Err(Over::Closed));
            }
            let length = came.len();
            let mut session = lock(&self.session);
            self.frames.take(came, |head, payload| session.receive(head, payload))?;
            drop(session);
            Pin::new(&mut self.stream).consume(length);
            self.heard = Instant::now();
            self.asked = None;
        }
    }

    /// Writes until there is nothing to write.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while let Some(rest) = self.writing.get(self.written..).filter(|rest| !rest.is_empty())
            {
                match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    written => self.written += written,
                }
            }
            // Nothing is kept while there is nothing to write.
            (self.writing, self.written) = (lock(&self.session).take_out(context), 0);
            if self.writing.is_empty() {
                return Pin::new(&mut self.stream).poll_flush(context);
            }
        }
    }

    /// Asks a server that has said nothing for long, and gives up one that does not answer.
    fn poll_alarm(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Over>> {
        loop {
            ready!(self.alarm.as_mut().poll(context));
            let now = Instant::now();
            let next = match self.asked {
                Some(asked) if now >= asked + KEEP_ALIVE_TIMEOUT => {
                    return Poll::Ready(Err(Over::Silent));
                }
                Some(asked) => asked + KEEP_ALIVE_TIMEOUT,
                None if now >= self.heard + CLIENT_KEEP_ALIVE_INTERVAL => {
                    self.asked = Some(now);
                    lock(&self.session).ping();
                    now + KEEP_ALIVE_TIMEOUT
                }
                None => self.heard + CLIENT_KEEP_ALIVE_INTERVAL,
            };
            self.alarm.as_mut().reset(next);
        }
    }

    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<Over> {
        for polled in [self.poll_read(context), self.poll_alarm(context)] {
            if let Poll::Ready(Err(over)) = polled {
                return Poll::Ready(over);
            }
        }
        if let Poll::Ready(Err(error)) = self.poll_write(context) {
            return Poll::Ready(error.into());
        }
        let is_done = self.writing.is_empty() && lock(&self.session).is_done();
        if is_done { Poll::Ready(Over::Done) } else { Poll::Pending }
    }

    /// Keeps it up until it is over, and says goodbye.
    pub(super) async fn run(mut self) {
        let over = std::future::poll_fn(|context| self.poll_over(context)).await;
        let code = if let Over::Broken(violation) = &over { violation.code } else { 0 };
        {
            let mut session = lock(&self.session);
            session.end(&over.to_string());
            session.say_goodbye(code);
        }
        let goodbye = std::future::poll_fn(|context| {
            ready!(self.poll_write(context))?;
            Pin::new(&mut self.stream).poll_shutdown(context)
        });
        // It may be gone already.
        let _said = tokio::time::timeout(KEEP_ALIVE_TIMEOUT, goodbye).await;
    }
}

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
enum Over {
    /// Nobody wants it any more, or it takes no more streams.
    #[error("it was ended in good order")]
    Done,
    #[error("the other end closed it")]
    Closed,
    #[error("the other end does not answer for {} s", KEEP_ALIVE_TIMEOUT.as_secs())]
    Silent,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the other end breaks the protocol: {}", .0.what)]
    Broken(Violation),
}

impl From<Violation> for Over {
    fn from(violation: Violation) -> Self {
        Self::Broken(violation)
    }
}

fn lock(session: &Mutex<LinkSession>) -> MutexGuard<'_, LinkSession> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

    use super::super::frame;
    use super::*;

    /// A connection that runs, one who uses it, and the other end.
    fn running() -> (tokio::task::JoinHandle<()>, Handle, DuplexStream) {
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let (connection, handle) = Connection::new(BufReader::new(near));
        let run = tokio::spawn(connection.run());
        let mut settings = Vec::new();
        frame::write(&mut settings, frame::SETTINGS, 0, 0, &[]);
        futures(async { far.write_all(&settings).await });
        (run, handle, far)
    }

    /// Starts what needs no wait.
    fn futures<T>(future: impl Future<Output = T>) {
        let polled =
            std::pin::pin!(future).poll(&mut Context::from_waker(std::task::Waker::noop()));
        assert!(polled.is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_says_nothing_any_more_is_given_up() {
        let (run, handle, _far) = running();
        let begun = Instant::now();
        let open = handle.clone().open(b"block", &Bytes::new()).await;
        let lost = open.unwrap().head().await.unwrap_err();
        assert_eq!(lost, Fate::Lost("the other end does not answer for 5 s".into()));
        assert!(begun.elapsed() >= CLIENT_KEEP_ALIVE_INTERVAL + KEEP_ALIVE_TIMEOUT);
        assert!(begun.elapsed() < Duration::from_secs(11), "{:?}", begun.elapsed());
        assert!(!handle.is_open());
        run.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_answers_pings_is_kept() {
        let (_run, handle, mut far) = running();
        let begun = Instant::now();
        let mut pings = 0;
        let mut ping = Vec::new();
        frame::write(&mut ping, frame::PING, 0, 0, &[0; 8]);
        let mut answer = Vec::new();
        frame::write(&mut answer, frame::PING, frame::ACK, 0, &[0; 8]);
        let mut buffer = vec![0; 1 << 12];
        while begun.elapsed() < Duration::from_secs(3_600) {
            let read = far.read(&mut buffer).await.unwrap();
            if buffer[..read] == ping {
                pings += 1;
                far.write_all(&answer).await.unwrap();
            }
        }
        assert!(handle.is_open());
        assert!((600..=721).contains(&pings), "{pings} within an hour");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_with_its_last_user() {
        let (run, handle, mut far) = running();
        let stream = handle.clone().open(b"block", &Bytes::new()).await.unwrap();
        drop(handle);
        tokio::task::yield_now().await;
        assert!(!run.is_finished(), "a stream is open");
        drop(stream);
        run.await.unwrap();
        let mut said = Vec::new();
        far.read_to_end(&mut said).await.unwrap();
        let mut goodbye = Vec::new();
        frame::write(&mut goodbye, frame::GOAWAY, 0, 0, &[0; 8]);
        assert!(said.ends_with(&goodbye), "{said:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_breaks_the_protocol_is_told_so() {
        let (run, handle, mut far) = running();
        let open = handle.open(b"block", &Bytes::new()).await;
        far.write_all(&[0xff; 20]).await.unwrap();
        let lost = open.unwrap().head().await.unwrap_err();
        let why = "the other end breaks the protocol: a frame is too long";
        assert_eq!(lost, Fate::Lost(why.into()));
        run.await.unwrap();
        let mut said = Vec::new();
        far.read_to_end(&mut said).await.unwrap();
        assert!(said.ends_with(&[0, 0, 0, 0, 0, 0, 0, 6]), "{said:?}");
    }
}
