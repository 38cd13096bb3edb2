//! A connection as the fuzz target `link` has it: without a socket, and with whatever comes.

use std::task::{Context, Poll, Waker};

use tonic::codegen::Bytes;

use super::frame::Frames;
use super::session::{LinkSession, Piece};

/// How much may be kept of what came, and of what is to be said about it, in octets: the windows of
/// the connection and its one stream, and the answers to all pings.
const KEPT_MAX: usize = 2 << 20;

/// Asks something on a new connection, and hears what a server may say to it, in pieces of so many
/// octets.
///
/// # Panics
/// Where more is kept of it than a connection may.
pub fn hear(came: &[u8], piece: usize) {
    let mut session = LinkSession::new();
    let context = Context::from_waker(Waker::noop());
    let body = Bytes::from(vec![b'x'; 100_000]);
    // Nothing is asked before the server's settings are there.
    let mut asked = None;
    let mut frames = Frames::default();
    for piece in came.chunks(piece.max(1)) {
        let mut kept = 0;
        let taken = frames.take(piece, |head, payload| session.receive(head, payload));
        if asked.is_none()
            && let Poll::Ready(Ok(id)) = session.poll_open(&context, &[0x83], &body)
        {
            asked = Some(id);
        }
        if let Some(id) = asked {
            kept += answer(&mut session, &context, id);
        }
        kept += session.take_out(&context).len();
        assert!(kept < KEPT_MAX, "{kept} octets are kept");
        if taken.is_err() {
            return;
        }
    }
}

/// Takes all of an answer that is there; how much it is.
fn answer(session: &mut LinkSession, context: &Context<'_>, id: u32) -> usize {
    let mut kept = 0;
    if let Poll::Ready(Ok(head)) = session.poll_head(context, id) {
        kept += head.headers().len();
    }
    while let Poll::Ready(Some(Ok(next))) = session.poll_piece(context, id) {
        match next {
            Piece::Data(data) => kept += data.len(),
            Piece::Trailers(_) => break,
        }
    }
    kept
}
