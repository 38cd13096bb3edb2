//! Serving and connecting: HTTP/2 over mutual TLS, and who is at the other end.
//!
//! A server shows its certificate and asks for one that the cell's authority signed; before any
//! service sees a request, the identity in that certificate is read and must be of this cell. A
//! client asks for the host name of the role, or of the one identity, that it wants to talk to, and
//! waits for the server's first word before it takes the connection for made: only then has the
//! server looked at its certificate. Who is not let in is counted by cause ([`Refusals`]).
//!
//! Both ends send keep-alives on idle connections: without them a channel does not recover from a
//! partition. A call has no deadline of its own; a caller sets one with
//! [`tonic::Request::set_timeout`], and leaves it off for a stream that is to stay.
//!
//! There are two clients: [`connect`] gives tonic's channel ([`connect_within`] one that is given up
//! soon where nothing arrives), and [`link`](fn@link) a lean one, of crate `link`, for connections of
//! which there are thousands.
//!
//! Limits of messages are the generated services' to set (`max_decoding_message_size`), from the
//! constants here.

mod accept;
mod admission;
mod client;
mod dial;
mod limiter;
mod peer;
mod refusals;
mod server;
mod tls;

use std::error::Error as StdError;
use std::time::Duration;

pub use client::{check_address, connect, connect_within, link};
pub use limiter::{Full, Limiter, Permit};
pub use link::{Answer, CLIENT_KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT, Link};
pub use peer::{Peer, peer, peer_identity, refuse};
pub use refusals::{Cause, Refusals};
pub use server::{Limits, serve};
pub(crate) use tls::Tls;

/// The largest message of an ordinary call, in bytes: 4 MiB.
pub const MAX_REQUEST_BYTES: usize = 4 << 20;

/// The largest message of a stream that follows the cell (ops, events, checkpoints), in bytes:
/// 64 MiB.
pub const MAX_STREAM_MESSAGE_BYTES: usize = 64 << 20;

/// How long a client waits for a TCP connection, and then for the TLS handshake.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// After how long without a frame a server asks whether the client is there.
pub const SERVER_KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// What a failed call says, with the causes beneath it.
#[must_use]
pub fn explain(status: &tonic::Status) -> String {
    let mut text = status.message().to_owned();
    let mut source = status.source();
    while let Some(cause) = source {
        append_cause(&mut text, cause);
        source = cause.source();
    }
    text
}

/// Whether a call failed because one of both ends does not trust the other: the same call will fail
/// again.
#[must_use]
pub fn is_distrust(status: &tonic::Status) -> bool {
    failed_dial(status).is_some_and(dial::Failed::is_distrust)
}

/// Why a call failed where that is because the server is not trusted.
#[must_use]
pub fn distrusts(status: &tonic::Status) -> Option<Cause> {
    failed_dial(status).and_then(dial::Failed::distrusts)
}

fn failed_dial(status: &tonic::Status) -> Option<&dial::Failed> {
    let mut source = status.source();
    while let Some(cause) = source {
        if let Some(failed) = cause.downcast_ref::<dial::Failed>() {
            return Some(failed);
        }
        source = cause.source();
    }
    None
}

/// Whether a call failed because its connection broke while it waited: nobody knows what became of it.
#[must_use]
pub fn is_broken(status: &tonic::Status) -> bool {
    let mut source = status.source();
    while let Some(cause) = source {
        if cause.is::<tonic::transport::Error>() {
            return true;
        }
        source = cause.source();
    }
    false
}

/// An error with the causes beneath it.
pub(crate) fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        append_cause(&mut text, cause);
        source = cause.source();
    }
    text
}

fn append_cause(text: &mut String, cause: &dyn StdError) {
    let cause = cause.to_string();
    // Many layers repeat the text of another; tonic's own says no more than this.
    if text.contains(&cause) || cause == "transport error" && !text.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push_str(": ");
    }
    text.push_str(&cause);
}
