//! Serving and connecting: HTTP/2 over mutual TLS, and who is at the other end.
//!
//! A server shows its certificate and asks for one that the cell's authority signed; before any
//! service sees a request, the identity in that certificate is read and must be of this cell. A
//! client asks for the host name of the role, or of the one identity, that it wants to talk to.
//!
//! Both ends send keep-alives on idle connections: without them a channel does not recover from a
//! partition. A call has no deadline of its own; a caller sets one with
//! [`tonic::Request::set_timeout`], and leaves it off for a stream that is to stay.
//!
//! Limits of messages are the generated services' to set (`max_decoding_message_size`), from the
//! constants here.

mod accept;
mod client;
mod peer;
mod server;

use std::error::Error as StdError;
use std::time::Duration;

pub use client::connect;
pub use peer::{Peer, peer, peer_identity};
pub use server::{Limits, serve};

/// The largest message of an ordinary call, in bytes: 4 MiB.
pub const MAX_REQUEST_BYTES: usize = 4 << 20;

/// The largest message of a stream that follows the cell (ops, events, checkpoints), in bytes:
/// 64 MiB.
pub const MAX_STREAM_MESSAGE_BYTES: usize = 64 << 20;

/// How long a client waits for a TCP connection, and then for the TLS handshake.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// After how long without a frame a client asks whether the server is there.
pub const CLIENT_KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// After how long without a frame a server asks whether the client is there.
pub const SERVER_KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// How long either end waits for the answer before it gives the connection up.
pub const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// What a failed call says, with the causes beneath it: tonic's own text for a failed connection
/// is only "transport error".
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
    // Many layers repeat the text of the one below.
    if !text.ends_with(&cause) {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
}

/// Makes ring the process's provider of cryptography, unless it has one: rustls takes the one that
/// is linked in only as long as no dependency links a second.
fn provide_cryptography() {
    // An error says that there is a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
