//! The connections of one `bourg port-forward`, the same at both ends: each has a socket here, and frames
//! to and from the other end.
//!
//! Nothing waits for a slow connection but itself: each direction of each has credit, and bytes beyond it
//! are an error of the other end.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

use super::frames::{CONTENT_BYTES_MAX, ForwardFrame, malformed};

/// The connections of a session at once; further ones wait here, and are rejected there.
pub(super) const FORWARDED_MAX: usize = 128;
/// What may be under way in one direction of a connection.
const WINDOW_BYTES: u32 = 256 << 10;
/// A connection in which nothing moves for so long is broken off.
const IDLE_MAX: Duration = Duration::from_secs(60 * 60);
/// The maximum length of a reason that is sent.
const REASON_CHARACTERS_MAX: usize = 200;

/// Frames to the other end.
pub(super) type ToOther = mpsc::Sender<Vec<u8>>;

/// What arrived for a connection.
enum Arrived {
    Bytes(Vec<u8>),
    End,
    Reset(String),
}

/// Bytes that may be sent.
#[derive(Default)]
struct ForwardCredit {
    bytes: AtomicU64,
    more: Notify,
}

impl ForwardCredit {
    fn add(&self, bytes: u32) {
        self.bytes.fetch_add(bytes.into(), Ordering::SeqCst);
        self.more.notify_one();
    }

    /// Waits until some bytes may be sent, and returns how many.
    async fn wait(&self) -> usize {
        loop {
            let bytes = self.bytes.load(Ordering::SeqCst);
            if bytes > 0 {
                return usize::try_from(bytes).unwrap_or(usize::MAX);
            }
            self.more.notified().await;
        }
    }

    fn spend(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes as u64, Ordering::SeqCst);
    }
}

/// What is known of an open connection.
struct ForwardedConnection {
    /// It cannot grow beyond the window: each piece has bytes, and there is one end and one reset.
    to_socket: mpsc::UnboundedSender<Arrived>,
    /// What this end may send.
    credit: Arc<ForwardCredit>,
    /// What the other end may still send.
    window: Arc<AtomicU64>,
    /// Whether the other end has sent its last bytes.
    has_ended: bool,
    /// Whether the other end has broken it off. Its number stays taken until it has ended here, too.
    is_reset: bool,
}

/// The open connections of a session.
#[derive(Clone, Default)]
pub(super) struct OpenConnections {
    all: Arc<Mutex<BTreeMap<u32, ForwardedConnection>>>,
}

/// One end of a connection, to be [carried](carry).
pub(super) struct ConnectionEnd {
    number: u32,
    all: OpenConnections,
    arrived: mpsc::UnboundedReceiver<Arrived>,
    credit: Arc<ForwardCredit>,
    window: Arc<AtomicU64>,
    to_other: ToOther,
}

impl Drop for ConnectionEnd {
    fn drop(&mut self) {
        self.all.lock().remove(&self.number);
    }
}

impl OpenConnections {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, ForwardedConnection>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection; `None` if there are as many as may be, or this one exists.
    pub(super) fn open(&self, number: u32, to_other: ToOther) -> Option<ConnectionEnd> {
        let mut all = self.lock();
        if all.len() >= FORWARDED_MAX || all.contains_key(&number) {
            return None;
        }
        let (to_socket, arrived) = mpsc::unbounded_channel();
        let credit = Arc::new(ForwardCredit::default());
        credit.add(WINDOW_BYTES);
        let window = Arc::new(AtomicU64::new(WINDOW_BYTES.into()));
        let (credit_here, window_here) = (Arc::clone(&credit), Arc::clone(&window));
        all.insert(
            number,
            ForwardedConnection {
                to_socket,
                credit: credit_here,
                window: window_here,
                has_ended: false,
                is_reset: false,
            },
        );
        drop(all);
        Some(ConnectionEnd { number, all: self.clone(), arrived, credit, window, to_other })
    }

    /// Breaks off every connection.
    pub(super) fn break_off(&self, why: &str) {
        for connection in self.lock().values() {
            let _gone = connection.to_socket.send(Arrived::Reset(why.to_owned()));
        }
    }

    /// Delivers a frame. What is for a connection that has ended here is ignored.
    ///
    /// # Errors
    /// If the other end sends more than it may, or what it may not.
    pub(super) fn deliver(&self, number: u32, frame: ForwardFrame) -> io::Result<()> {
        let mut all = self.lock();
        let Some(connection) = all.get_mut(&number) else { return Ok(()) };
        let arrived = match frame {
            ForwardFrame::Open(_) => return Err(malformed("a connection begins twice")),
            ForwardFrame::Credit(bytes) => {
                connection.credit.add(bytes);
                return Ok(());
            }
            ForwardFrame::Bytes(bytes) => {
                let length = bytes.len() as u64;
                // It would take no credit.
                if length == 0 {
                    return Err(malformed("a frame has no bytes"));
                }
                if connection.window.load(Ordering::SeqCst) < length {
                    return Err(malformed("more bytes arrive than may"));
                }
                connection.window.fetch_sub(length, Ordering::SeqCst);
                Arrived::Bytes(bytes)
            }
            ForwardFrame::End if std::mem::replace(&mut connection.has_ended, true) => {
                return Err(malformed("a connection ends twice"));
            }
            ForwardFrame::End => Arrived::End,
            ForwardFrame::Reset(_) if std::mem::replace(&mut connection.is_reset, true) => {
                return Err(malformed("a connection is broken off twice"));
            }
            ForwardFrame::Reset(why) => Arrived::Reset(why),
        };
        // The socket may be closed already.
        let _gone = connection.to_socket.send(arrived);
        Ok(())
    }
}

/// Why a connection was broken off.
pub(super) enum BrokenOff {
    /// By this end.
    Here(String),
    /// By the other end, in its words, which are not to be trusted.
    There(String),
}

impl ConnectionEnd {
    async fn send(&self, frame: &ForwardFrame) {
        let _gone = self.to_other.send(frame.encode(self.number)).await;
    }

    /// Ends the connection at the other end.
    pub(super) async fn reset(self, why: &str) {
        let why = why.chars().take(REASON_CHARACTERS_MAX).collect();
        self.send(&ForwardFrame::Reset(why)).await;
    }

    /// Tells the other end that the connection begins.
    pub(super) async fn begin(&self, port: u16) {
        self.send(&ForwardFrame::Open(port)).await;
    }
}

/// Carries a connection until both directions have ended, or one fails.
///
/// # Errors
/// If it was broken off.
pub(super) async fn carry(mut end: ConnectionEnd, mut socket: TcpStream) -> Result<(), BrokenOff> {
    let _best_effort = socket.set_nodelay(true);
    let moved = Mutex::new(Instant::now());
    let (_, none) = mpsc::unbounded_channel();
    let arrived = std::mem::replace(&mut end.arrived, none);
    let all_sent = Notify::new();
    let carried = {
        let (reader, writer) = socket.split();
        let sent = async {
            send_all(&end, reader, &moved).await?;
            all_sent.notify_one();
            Ok(())
        };
        let received = receive_all(&end, writer, arrived, &all_sent, &moved);
        let both = async { tokio::try_join!(sent, received).map(drop) };
        tokio::select! {
            biased;
            carried = both => carried,
            // Also if it was accepted when the session had broken off its connections already.
            () = end.to_other.closed() => {
                Err(BrokenOff::Here("the session has ended".to_owned()))
            }
            () = idle(&moved) => Err(BrokenOff::Here("nothing moved in it for an hour".to_owned())),
        }
    };
    if carried.is_err() {
        // The program at the socket sees that it did not end as it should.
        let _best_effort = socket.set_zero_linger();
    }
    if let Err(BrokenOff::Here(why)) = &carried {
        end.reset(why).await;
    }
    carried
}

fn touch(moved: &Mutex<Instant>) {
    *moved.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
}

/// Returns when nothing has moved for too long.
async fn idle(moved: &Mutex<Instant>) {
    loop {
        let until = *moved.lock().unwrap_or_else(PoisonError::into_inner) + IDLE_MAX;
        if until <= Instant::now() {
            return;
        }
        sleep_until(until).await;
    }
}

/// Sends what the socket says, as far as there is credit.
async fn send_all(
    end: &ConnectionEnd,
    mut socket: ReadHalf<'_>,
    moved: &Mutex<Instant>,
) -> Result<(), BrokenOff> {
    let mut buffer = vec![0; CONTENT_BYTES_MAX];
    loop {
        let room = end.credit.wait().await.min(buffer.len());
        let read = socket.read(buffer.get_mut(..room).unwrap_or_default()).await;
        let read = read.map_err(|error| BrokenOff::Here(error.to_string()))?;
        touch(moved);
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
            end.send(&ForwardFrame::End).await;
            return Ok(());
        };
        end.credit.spend(read);
        end.send(&ForwardFrame::Bytes(bytes.to_vec())).await;
    }
}

/// Writes what arrives to the socket, and gives credit for it. After the end it still listens for a reset, until
/// the other direction has ended, too.
async fn receive_all(
    end: &ConnectionEnd,
    mut socket: WriteHalf<'_>,
    mut arrived: mpsc::UnboundedReceiver<Arrived>,
    all_sent: &Notify,
    moved: &Mutex<Instant>,
) -> Result<(), BrokenOff> {
    let mut has_ended = false;
    loop {
        let next = tokio::select! {
            next = arrived.recv() => next,
            () = all_sent.notified(), if has_ended => return Ok(()),
        };
        touch(moved);
        match next {
            Some(Arrived::Bytes(bytes)) if !has_ended => {
                let written = socket.write_all(&bytes).await;
                written.map_err(|error| BrokenOff::Here(error.to_string()))?;
                touch(moved);
                let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                end.window.fetch_add(length.into(), Ordering::SeqCst);
                end.send(&ForwardFrame::Credit(length)).await;
            }
            Some(Arrived::Bytes(_)) => {
                return Err(BrokenOff::Here("bytes arrive after their end".to_owned()));
            }
            Some(Arrived::End) => {
                // A program that has closed its side altogether is not told.
                let _closed = socket.shutdown().await;
                has_ended = true;
            }
            Some(Arrived::Reset(why)) => return Err(BrokenOff::There(why)),
            None => return Err(BrokenOff::Here("the session has ended".to_owned())),
        }
    }
}
