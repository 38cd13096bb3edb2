//! Servers and clients: HTTP/2 over mutual TLS, and the identity of the peer.
//!
//! A server presents its certificate and requires one signed by the cell's authority. Before a
//! service sees a request, the identity in that certificate is parsed and must belong to this cell.
//! A client verifies the host name of the expected role or identity. It treats a connection as
//! established only after the server's first frame, since only then has the server checked the
//! client's certificate. Rejected connections are counted by cause ([`Refusals`]).
//!
//! Both ends send keep-alives on idle connections; without them a channel does not recover from a
//! network partition. Calls have no default deadline: callers set one with
//! [`tonic::Request::set_timeout`], except for long-lived streams.
//!
//! There are two clients: [`connect`] returns a tonic channel ([`connect_within`] one that detects
//! unresponsive servers quickly), and [`link`](fn@link) a lightweight client, of crate `link`, for
//! thousands of connections.
//!
//! The generated services set message limits (`max_decoding_message_size`) from the constants here.

mod accept;
mod admission;
mod client;
mod dial;
mod in_process;
mod limiter;
mod peer;
mod refusals;
mod server;
mod turns;

use std::error::Error as _;
use std::time::Duration;

use crate::error::append_cause;
pub use client::{check_address, connect, connect_within, link};
pub use in_process::in_process;
pub use limiter::{Full, Limiter, Permit};
pub use link::{CLIENT_KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT, Link, ResponseBody};
pub use peer::{Peer, peer, peer_identity, refuse, web_peer};
pub use refusals::{Cause, Refusals};
pub use server::{HttpService, Limits, WebOptions, serve, serve_web};
pub use turns::{Turn, Turns};

/// The maximum message size of ordinary calls, in bytes: 4 MiB.
pub const MAX_REQUEST_BYTES: usize = 4 << 20;

/// The maximum message size of streams that follow the cell (operations, events, checkpoints), in
/// bytes: 64 MiB.
pub const MAX_STREAM_MESSAGE_BYTES: usize = 64 << 20;

/// The timeout of a TCP connection, and then of the TLS handshake.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// After this long without a frame, a server sends a keep-alive.
pub const SERVER_KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// The message of a failed call, with its causes.
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

/// Whether a call failed because one end does not trust the other, so that retrying is useless.
#[must_use]
pub fn is_distrust(status: &tonic::Status) -> bool {
    failed_dial(status).is_some_and(dial::Failed::is_distrust)
}

/// Why the server of a failed call is not trusted, if so.
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

/// Whether a call failed because its connection broke while it waited: its outcome is unknown.
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
