//! What a server says, frame by frame, and what becomes of it.

use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use tonic::codegen::Bytes;

use super::*;
use crate::frame::{
    ACK, COMPRESSION_ERROR, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, Frames, GOAWAY, HEADERS, PADDED, PING, PRIORITY,
    PROTOCOL_ERROR, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};

const ALL: u8 = END_HEADERS | END_STREAM;
/// `:status: 200`.
const OK: &[u8] = &[0x88];

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// A session whose preface is written and that has the server's settings.
fn session() -> LinkSession {
    let mut session = LinkSession::new();
    receive(&mut session, SETTINGS, 0, 0, &[]).unwrap();
    assert!(session.take_out(&context()).starts_with(PREFACE));
    session
}

/// The same with a stream that waits for its answer, whose request is a body of this length.
fn asked(length: usize) -> LinkSession {
    let mut session = session();
    assert_eq!(open(&mut session, length), Poll::Ready(Ok(1)));
    session
}

fn open(session: &mut LinkSession, length: usize) -> Poll<Result<u32, Fate>> {
    session.poll_open(&context(), b"block", &Bytes::from(vec![b'x'; length]))
}

fn receive(
    session: &mut LinkSession,
    kind: u8,
    flags: u8,
    stream: u32,
    payload: &[u8],
) -> Result<(), Violation> {
    session.receive(Head { kind, flags, stream }, payload)
}

/// What is written: of each frame its kind, its flags, its stream and its length.
fn written(session: &mut LinkSession) -> Vec<(u8, u8, u32, usize)> {
    let (out, mut all) = (session.take_out(&context()), Vec::new());
    let take = |head: Head, payload: &[u8]| {
        all.push((head.kind, head.flags, head.stream, payload.len()));
        Ok(())
    };
    Frames::default().take(&out, take).unwrap();
    all
}

/// All of a stream's answer that is there.
fn answer(session: &mut LinkSession, id: u32) -> String {
    let mut said = match session.poll_head(&context(), id) {
        Poll::Ready(Ok(head)) => head.status().to_string(),
        other => return format!("{other:?}"),
    };
    loop {
        said.push_str(&match session.poll_piece(&context(), id) {
            Poll::Ready(Some(Ok(Piece::Data(data)))) => format!(", {} octets", data.len()),
            Poll::Ready(Some(Ok(Piece::Trailers(trailers)))) => format!(", {trailers:?}"),
            Poll::Ready(Some(Err(fate))) => return format!("{said}, {fate:?}"),
            Poll::Ready(None) => return format!("{said}, end"),
            Poll::Pending => return format!("{said}, …"),
        });
    }
}

#[test]
fn an_answer_comes_in_its_parts() {
    let mut session = asked(0);
    assert_eq!(written(&mut session), [(HEADERS, ALL, 1, 5)]);
    assert!(session.poll_head(&context(), 1).is_pending());
    // An interim answer is none.
    receive(&mut session, HEADERS, END_HEADERS, 1, &[0x48, 3, b'1', b'0', b'3']).unwrap();
    assert!(session.poll_head(&context(), 1).is_pending());
    // A head in three frames, with padding and a priority.
    let flags = PADDED | PRIORITY;
    receive(&mut session, HEADERS, flags, 1, &[1, 0, 0, 0, 0, 9, 0x88, 0x40, 0]).unwrap();
    receive(&mut session, CONTINUATION, 0, 1, &[1, b'a']).unwrap();
    receive(&mut session, CONTINUATION, END_HEADERS, 1, &[1, b'b']).unwrap();
    receive(&mut session, DATA, 0, 1, b"12345").unwrap();
    receive(&mut session, DATA, PADDED, 1, &[2, b'6', 0, 0]).unwrap();
    receive(&mut session, HEADERS, ALL, 1, &[0, 1, b't', 1, b'u']).unwrap();
    assert_eq!(answer(&mut session, 1), r#"200 OK, 6 octets, {"t": "u"}, end"#);
    session.close(1);
    assert_eq!(written(&mut session), [], "nothing is to be said of it");
    // What comes late is of nobody.
    receive(&mut session, RST_STREAM, 0, 1, &[0; 4]).unwrap();
}

#[test]
fn a_protocol_violation_by_the_server_ends_the_connection() {
    let far = [0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff];
    for (kind, flags, stream, payload, code) in [
        (DATA, 0, 0, &b""[..], PROTOCOL_ERROR),
        (DATA, 0, 2, b"", PROTOCOL_ERROR),
        (DATA, 0, 3, b"", PROTOCOL_ERROR),
        // Before the head of its answer.
        (DATA, 0, 1, b"x", PROTOCOL_ERROR),
        (DATA, PADDED, 1, &[2, 0], PROTOCOL_ERROR),
        (DATA, PADDED, 1, b"", FRAME_SIZE_ERROR),
        (HEADERS, ALL, 3, OK, PROTOCOL_ERROR),
        (HEADERS, ALL, 1, b"", PROTOCOL_ERROR),
        (HEADERS, ALL, 1, &[0xff], COMPRESSION_ERROR),
        (HEADERS, ALL | PRIORITY, 1, &[0; 4], FRAME_SIZE_ERROR),
        (HEADERS, 0, 1, &[0; MAX_PAYLOAD_OCTETS + 1], ENHANCE_YOUR_CALM),
        (CONTINUATION, END_HEADERS, 1, OK, PROTOCOL_ERROR),
        (PUSH_PROMISE, END_HEADERS, 1, OK, PROTOCOL_ERROR),
        (RST_STREAM, 0, 1, &[0; 3], FRAME_SIZE_ERROR),
        (RST_STREAM, 0, 0, &[0; 4], PROTOCOL_ERROR),
        (SETTINGS, 0, 0, &[0; 5], FRAME_SIZE_ERROR),
        (SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0], FLOW_CONTROL_ERROR),
        (SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 1], PROTOCOL_ERROR),
        (PING, 0, 0, &[0; 7], FRAME_SIZE_ERROR),
        (GOAWAY, 0, 0, &[0; 3], FRAME_SIZE_ERROR),
        (WINDOW_UPDATE, 0, 0, &[0; 4], PROTOCOL_ERROR),
        (WINDOW_UPDATE, 0, 1, &far[4..], FLOW_CONTROL_ERROR),
        (WINDOW_UPDATE, 0, 0, &far[3..], FRAME_SIZE_ERROR),
    ] {
        let refused = receive(&mut asked(0), kind, flags, stream, payload).unwrap_err();
        assert_eq!(refused.code, code, "{kind} {flags} {stream} {payload:?}: {refused:?}");
    }
    // A block that is interrupted, or has no end.
    let mut session = asked(0);
    receive(&mut session, HEADERS, 0, 1, OK).unwrap();
    assert_eq!(receive(&mut session, PING, 0, 0, &[0; 8]).unwrap_err().code, PROTOCOL_ERROR);
    let endless = (0..10).find_map(|_| receive(&mut session, CONTINUATION, 0, 1, b"").err());
    assert_eq!(endless.unwrap().code, PROTOCOL_ERROR);
    // Anything before its settings.
    let refused = receive(&mut LinkSession::new(), PING, 0, 0, &[0; 8]).unwrap_err();
    assert_eq!(refused.code, PROTOCOL_ERROR);
    // Two heads, and data behind the end.
    for (kind, payload) in [(HEADERS, OK), (DATA, b"x")] {
        let mut session = asked(0);
        receive(&mut session, HEADERS, ALL, 1, OK).unwrap();
        assert_eq!(receive(&mut session, kind, ALL, 1, payload).unwrap_err().code, PROTOCOL_ERROR);
    }
}

#[test]
fn a_server_that_asks_and_does_not_read_is_left() {
    let mut session = session();
    let asks = |session: &mut LinkSession| receive(session, PING, 0, 0, &[7; 8]);
    let refused = (0..2_000).find_map(|_| asks(&mut session).err()).unwrap();
    assert_eq!(refused.code, ENHANCE_YOUR_CALM);
    assert!(session.out.len() < 20_000, "{}", session.out.len());
    // One that reads may ask for ever.
    let mut session = self::session();
    for _ in 0..2_000 {
        asks(&mut session).unwrap();
        assert_eq!(written(&mut session), [(PING, ACK, 0, 8)]);
    }
}

#[test]
fn no_more_is_sent_than_the_windows_let_through() {
    let sent = |session: &mut LinkSession| {
        let frames = written(session);
        let data = frames.iter().filter(|(kind, ..)| *kind == DATA);
        (data.map(|(.., length)| length).sum::<usize>(), frames.last().map(|frame| frame.1))
    };
    let window = |session: &mut LinkSession, stream, more: u32| {
        receive(session, WINDOW_UPDATE, 0, stream, &more.to_be_bytes()).unwrap();
    };
    let mut session = asked(100_000);
    assert_eq!(sent(&mut session).0, 65_535);
    window(&mut session, 1, 10_000);
    assert_eq!(sent(&mut session).0, 0, "the connection's is closed still");
    window(&mut session, 0, 4_465);
    assert_eq!(sent(&mut session).0, 4_465);
    // A smaller first window closes those that are open, below nothing.
    receive(&mut session, SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]).unwrap();
    window(&mut session, 0, 1_000_000);
    assert_eq!(sent(&mut session).0, 0);
    window(&mut session, 1, 60_000);
    assert_eq!(sent(&mut session), (0, None));
    window(&mut session, 1, 20_000);
    assert_eq!(sent(&mut session), (20_000, Some(0)));
    receive(&mut session, SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]).unwrap();
    assert_eq!(sent(&mut session), (10_000, Some(END_STREAM)));
}

#[test]
fn received_data_is_bounded_by_windows_that_reopen_when_it_is_read() {
    let mut session = asked(0);
    written(&mut session);
    receive(&mut session, HEADERS, END_HEADERS, 1, OK).unwrap();
    let piece = [0; 10_000];
    for _ in 0..6 {
        receive(&mut session, DATA, 0, 1, &piece).unwrap();
    }
    let refused = receive(&mut session, DATA, 0, 1, &piece).unwrap_err();
    assert_eq!(refused.code, FLOW_CONTROL_ERROR);

    let mut session = asked(0);
    written(&mut session);
    receive(&mut session, HEADERS, END_HEADERS, 1, OK).unwrap();
    session.poll_head(&context(), 1).map(Result::unwrap).is_ready();
    for round in 0..200 {
        for _ in 0..5 {
            receive(&mut session, DATA, 0, 1, &piece).unwrap();
        }
        assert!(session.poll_piece(&context(), 1).is_ready());
        let given = written(&mut session);
        assert!(given.contains(&(WINDOW_UPDATE, 0, 1, 4)), "round {round}: {given:?}");
    }
}

#[test]
fn a_server_that_leaves_ends_what_it_has_begun() {
    let mut session = session();
    for _ in 0..3 {
        assert!(open(&mut session, 0).is_ready());
    }
    receive(&mut session, GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]).unwrap();
    assert!(!session.is_open() && !session.is_done());
    assert_eq!(open(&mut session, 0), Poll::Ready(Err(Fate::Unseen)));
    assert_eq!(answer(&mut session, 5), "Ready(Err(Unseen))");
    receive(&mut session, HEADERS, ALL, 3, OK).unwrap();
    assert_eq!(answer(&mut session, 3), "200 OK, end");
    receive(&mut session, RST_STREAM, 0, 1, &[0, 0, 0, 8]).unwrap();
    assert_eq!(answer(&mut session, 1), "Ready(Err(Reset(8)))");
    for id in [1, 3, 5] {
        session.close(id);
    }
    written(&mut session);
    assert!(session.is_done());
}

#[test]
fn places_are_as_many_as_the_server_says() {
    let mut session = LinkSession::new();
    assert!(open(&mut session, 0).is_pending(), "it may take none");
    assert!(session.take_out(&context()).starts_with(PREFACE));
    receive(&mut session, SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 2]).unwrap();
    assert_eq!(open(&mut session, 0), Poll::Ready(Ok(1)));
    assert_eq!(open(&mut session, 0), Poll::Ready(Ok(3)));
    assert!(open(&mut session, 0).is_pending());
    receive(&mut session, HEADERS, ALL, 1, OK).unwrap();
    assert_eq!(open(&mut session, 0), Poll::Ready(Ok(5)));
    session.close(3);
    assert_eq!(open(&mut session, 0), Poll::Ready(Ok(7)));
    written(&mut session);
    session.end("the cable is cut");
    assert_eq!(open(&mut session, 0), Poll::Ready(Err(Fate::Lost("the cable is cut".into()))));
    // What is there can be read still.
    assert_eq!(answer(&mut session, 1), "200 OK, end");
    assert_eq!(answer(&mut session, 5), r#"Ready(Err(Lost("the cable is cut")))"#);
}

proptest! {
    #[test]
    fn no_received_bytes_make_the_session_panic_or_grow(
        came in prop::collection::vec(
            (0_u8..11, any::<u8>(), 0_u32..8, prop::collection::vec(any::<u8>(), 0..40)),
            0..200,
        ),
        cut in 1_usize..50,
    ) {
        let mut session = asked(1_000);
        let mut bytes = Vec::new();
        for (kind, flags, stream, payload) in &came {
            frame::write(&mut bytes, *kind, *flags, *stream, payload);
        }
        let mut frames = Frames::default();
        for piece in bytes.chunks(cut) {
            let taken = frames.take(piece, |head, payload| session.receive(head, payload));
            let _ = answer(&mut session, 1);
            if taken.is_err() {
                break;
            }
        }
        prop_assert!(session.out.len() < 100_000);
    }
}
