//! The state of one HTTP/2 connection as a client (RFC 9113), without its socket: frames in, frames
//! out, and the streams between them.
//!
//! Everything that the server may send without being asked is bounded: headers by their size, data by
//! the windows, what we have to answer by [`MAX_ANSWERS`]. It keeps no buffer while nothing is
//! under way.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tonic::codegen::Bytes;
use tonic::codegen::http::{HeaderMap, Response, StatusCode};

use super::frame::{self, Head, MAX_PAYLOAD_OCTETS, Violation};
use super::hpack;

/// How much of a stream the server may send before it is read, in octets: the protocol's default.
const STREAM_WINDOW: u32 = 65_535;
/// How much of all streams it may send at once. What came is given back at once, so that a stream
/// that nobody reads holds up no other.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// How much data is written at once, in octets.
const MAX_OUT_OCTETS: usize = 64 << 10;
/// How many answers to settings and pings may wait to be written.
const MAX_ANSWERS: usize = 1_000;
/// Up to so many streams no room is kept for more: most connections have one.
const FEW_STREAMS: usize = 4;
/// The largest window there can be, and the last stream.
const MAX_31_BITS: u32 = u32::MAX >> 1;
/// How many streams may be open where the server's settings say nothing of it.
const USUAL_STREAMS: usize = 100;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;

/// How a stream ended that has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    /// The server gave it up, for the protocol's reason of this number.
    Reset(u32),
    /// The server has not looked at it, and looks at no more streams of this connection.
    Unseen,
    /// The connection ended.
    Lost(Arc<str>),
}

/// One connection.
#[derive(Debug)]
pub(super) struct LinkSession {
    streams: Vec<StreamState>,
    next: u32,
    /// What is to be written, and how many answers to settings and pings are in it.
    out: Vec<u8>,
    answers: usize,
    /// What the connection may send, and what each new stream may.
    send_window: i64,
    first_send_window: i64,
    send_frame: usize,
    most_streams: usize,
    /// What the server may still send before it is told to go on.
    receive_window: u32,
    /// A header block whose end has not come, of a stream, and whether it ends the stream.
    block: Option<(u32, bool, Vec<u8>)>,
    has_settings: bool,
    /// The server takes no more streams.
    is_leaving: bool,
    /// Why it ended.
    ended: Option<Arc<str>>,
    /// How many can still use it.
    users: usize,
    /// Who writes, and who waits for a place for one more stream.
    writer: Option<Waker>,
    waiting: Vec<Waker>,
}

#[derive(Debug)]
struct StreamState {
    id: u32,
    /// Who waits for what comes.
    reader: Option<Waker>,
    /// What is to be sent of the request.
    body: Bytes,
    send_window: i64,
    head: Arrival<(StatusCode, HeaderMap)>,
    data: Vec<u8>,
    receive_window: u32,
    trailers: Option<HeaderMap>,
    /// The server has said all.
    is_complete: bool,
    fate: Option<Fate>,
}

/// What comes once.
#[derive(Debug)]
enum Arrival<T> {
    Awaited,
    There(T),
    Taken,
}

/// A piece of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
}

impl LinkSession {
    /// A connection with one user, which has our preface to write.
    pub(super) fn new() -> Self {
        let mut out = PREFACE.to_vec();
        let header_list = u32::try_from(hpack::MAX_LIST_OCTETS).unwrap_or(u32::MAX);
        let settings =
            [(HEADER_TABLE_SIZE, 0), (ENABLE_PUSH, 0), (MAX_HEADER_LIST_SIZE, header_list)];
        let mut payload = Vec::new();
        for (setting, value) in settings {
            payload.extend(setting.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        frame::write(&mut out, frame::SETTINGS, 0, 0, &payload);
        let more = CONNECTION_WINDOW - STREAM_WINDOW;
        frame::write(&mut out, frame::WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
        Self {
            streams: Vec::new(),
            next: 1,
            out,
            answers: 0,
            send_window: STREAM_WINDOW.into(),
            first_send_window: STREAM_WINDOW.into(),
            send_frame: MAX_PAYLOAD_OCTETS,
            most_streams: USUAL_STREAMS,
            receive_window: CONNECTION_WINDOW,
            block: None,
            has_settings: false,
            is_leaving: false,
            ended: None,
            users: 1,
            writer: None,
            waiting: Vec::new(),
        }
    }

    /// Whether one more stream may be opened, now or when another has ended.
    pub(super) fn is_open(&self) -> bool {
        self.ended.is_none() && !self.is_leaving && self.next < MAX_31_BITS
    }

    pub(super) fn add_user(&mut self) {
        self.users += 1;
    }

    pub(super) fn remove_user(&mut self) {
        self.users = self.users.saturating_sub(1);
        if self.users == 0 {
            self.stir();
        }
    }

    /// Whether nobody can use it any more.
    pub(super) fn is_done(&self) -> bool {
        let is_over = !self.is_open() && self.streams.is_empty();
        self.ended.is_some() || (self.users == 0 || is_over) && self.out.is_empty()
    }

    /// Opens a stream, once there is a place for it: `block` is its header block. Before the server's
    /// settings have come there is none: it may take fewer streams than were opened by then, and refuse
    /// the others.
    pub(super) fn poll_open(
        &mut self,
        context: &Context<'_>,
        block: &[u8],
        body: &Bytes,
    ) -> Poll<Result<u32, Fate>> {
        if let Some(why) = &self.ended {
            return Poll::Ready(Err(Fate::Lost(Arc::clone(why))));
        }
        if !self.is_open() {
            return Poll::Ready(Err(Fate::Unseen));
        }
        let under_way = self.streams.iter().filter(|stream| !stream.is_complete).count();
        if !self.has_settings || under_way >= self.most_streams {
            if !self.waiting.iter().any(|it| it.will_wake(context.waker())) {
                self.waiting.push(context.waker().clone());
            }
            return Poll::Pending;
        }
        if self.streams.len() < FEW_STREAMS {
            self.streams.reserve_exact(1);
        }
        let id = self.next;
        self.next += 2;
        self.write_block(id, block, body.is_empty());
        self.streams.push(StreamState {
            id,
            reader: Some(context.waker().clone()),
            body: body.clone(),
            send_window: self.first_send_window,
            head: Arrival::Awaited,
            data: Vec::new(),
            receive_window: STREAM_WINDOW,
            trailers: None,
            is_complete: false,
            fate: None,
        });
        self.stir();
        Poll::Ready(Ok(id))
    }

    fn write_block(&mut self, id: u32, block: &[u8], is_all: bool) {
        let mut pieces = block.chunks(self.send_frame).peekable();
        let mut kind = frame::HEADERS;
        let mut flags = if is_all { frame::END_STREAM } else { 0 };
        while let Some(piece) = pieces.next() {
            if pieces.peek().is_none() {
                flags |= frame::END_HEADERS;
            }
            frame::write(&mut self.out, kind, flags, id, piece);
            (kind, flags) = (frame::CONTINUATION, 0);
        }
    }

    /// The head of a stream's answer. Asked for until it is there, and no more.
    pub(super) fn poll_head(
        &mut self,
        context: &Context<'_>,
        id: u32,
    ) -> Poll<Result<Response<()>, Fate>> {
        let ended = self.ended.clone();
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.id == id) else {
            return Poll::Ready(Err(Fate::Unseen));
        };
        match std::mem::replace(&mut stream.head, Arrival::Taken) {
            Arrival::There((status, headers)) => {
                let mut response = Response::new(());
                *response.status_mut() = status;
                *response.headers_mut() = headers;
                return Poll::Ready(Ok(response));
            }
            other => stream.head = other,
        }
        stream.fate(ended).map_or_else(|| stream.wait(context), |fate| Poll::Ready(Err(fate)))
    }

    /// The next piece of a stream's answer behind its head.
    pub(super) fn poll_piece(
        &mut self,
        context: &Context<'_>,
        id: u32,
    ) -> Poll<Option<Result<Piece, Fate>>> {
        let ended = self.ended.clone();
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.id == id) else {
            return Poll::Ready(None);
        };
        if !stream.data.is_empty() {
            let data = std::mem::take(&mut stream.data);
            let is_under_way = !stream.is_complete && stream.fate.is_none();
            if is_under_way && stream.receive_window <= STREAM_WINDOW / 2 {
                let back = STREAM_WINDOW - stream.receive_window;
                stream.receive_window = STREAM_WINDOW;
                frame::write(&mut self.out, frame::WINDOW_UPDATE, 0, id, &back.to_be_bytes());
                self.stir();
            }
            return Poll::Ready(Some(Ok(Piece::Data(Bytes::from(data)))));
        }
        if let Some(trailers) = stream.trailers.take() {
            return Poll::Ready(Some(Ok(Piece::Trailers(trailers))));
        }
        if stream.is_complete {
            return Poll::Ready(None);
        }
        let fate = stream.fate(ended);
        fate.map_or_else(|| stream.wait(context), |fate| Poll::Ready(Some(Err(fate))))
    }

    /// Nobody wants anything more of a stream.
    pub(super) fn close(&mut self, id: u32) {
        let Some(place) = self.streams.iter().position(|stream| stream.id == id) else { return };
        let stream = self.streams.remove(place);
        if self.streams.is_empty() {
            self.streams = Vec::new();
        }
        let is_over = stream.is_complete && stream.body.is_empty();
        if !is_over && stream.fate.is_none() && self.ended.is_none() {
            frame::write(&mut self.out, frame::RST_STREAM, 0, id, &frame::CANCEL.to_be_bytes());
        }
        self.wake_waiting();
        self.stir();
    }

    /// Ends the connection, and with it every stream that has not all of its answer.
    pub(super) fn end(&mut self, why: &str) {
        self.ended.get_or_insert_with(|| why.into());
        for stream in &mut self.streams {
            stream.wake();
        }
        self.wake_waiting();
    }

    /// What is to be written now, with what the windows let through. Empty where that is nothing;
    /// then the writer is woken when there is something, or nothing more to come.
    pub(super) fn take_out(&mut self, context: &Context<'_>) -> Vec<u8> {
        for stream in &mut self.streams {
            while !stream.body.is_empty() && self.out.len() < MAX_OUT_OCTETS {
                let window = self.send_window.min(stream.send_window);
                let most = usize::try_from(window).unwrap_or(0).min(self.send_frame);
                let piece = stream.body.split_to(most.min(stream.body.len()));
                if piece.is_empty() {
                    break;
                }
                let sent = i64::try_from(piece.len()).unwrap_or(i64::MAX);
                self.send_window -= sent;
                stream.send_window -= sent;
                let flags = if stream.body.is_empty() { frame::END_STREAM } else { 0 };
                frame::write(&mut self.out, frame::DATA, flags, stream.id, &piece);
            }
        }
        if self.out.is_empty()
            && !self.writer.as_ref().is_some_and(|it| it.will_wake(context.waker()))
        {
            self.writer = Some(context.waker().clone());
        }
        self.answers = 0;
        std::mem::take(&mut self.out)
    }

    /// Asks the server whether it is there.
    pub(super) fn ping(&mut self) {
        frame::write(&mut self.out, frame::PING, 0, 0, &[0; 8]);
    }

    /// Says goodbye, for the protocol's reason of this number.
    pub(super) fn say_goodbye(&mut self, code: u32) {
        let payload = [0_u32.to_be_bytes(), code.to_be_bytes()].concat();
        frame::write(&mut self.out, frame::GOAWAY, 0, 0, &payload);
    }

    fn stir(&mut self) {
        if let Some(writer) = &self.writer {
            writer.wake_by_ref();
        }
    }

    fn wake_waiting(&mut self) {
        std::mem::take(&mut self.waiting).into_iter().for_each(Waker::wake);
    }

    /// Takes a frame.
    pub(super) fn receive(&mut self, head: Head, payload: &[u8]) -> Result<(), Violation> {
        let is_continued = head.kind == frame::CONTINUATION;
        let expected = self.block.as_ref().map(|(stream, ..)| *stream);
        if expected.is_some() != is_continued || expected.is_some_and(|id| id != head.stream) {
            return Err(protocol("a header block is interrupted, or goes on from nothing"));
        }
        if !self.has_settings && (head.kind != frame::SETTINGS || head.has(frame::ACK)) {
            return Err(protocol("it does not begin with its settings"));
        }
        if self.answers > MAX_ANSWERS {
            let what = "it asks faster than it reads the answers";
            return Err(Violation { code: frame::ENHANCE_YOUR_CALM, what });
        }
        match head.kind {
            frame::DATA => self.receive_data(head, payload),
            frame::HEADERS => {
                let payload = unpadded(head, payload)?;
                let skipped = if head.has(frame::PRIORITY) { 5 } else { 0 };
                let block = payload.get(skipped..).ok_or(FRAME_SIZE)?;
                self.receive_block(head, head.has(frame::END_STREAM), Vec::new(), block)
            }
            frame::CONTINUATION => match self.block.take() {
                Some((_, is_last, begun)) => self.receive_block(head, is_last, begun, payload),
                None => Ok(()),
            },
            frame::RST_STREAM => {
                let code = u32::from_be_bytes(payload.try_into().map_err(|_| FRAME_SIZE)?);
                self.fate_of(head.stream, Fate::Reset(code))
            }
            frame::SETTINGS => self.receive_settings(head, payload),
            frame::PING if payload.len() != 8 => Err(FRAME_SIZE),
            frame::PING if head.has(frame::ACK) => Ok(()),
            frame::PING => {
                self.answers += 1;
                frame::write(&mut self.out, frame::PING, frame::ACK, 0, payload);
                Ok(())
            }
            frame::GOAWAY => self.receive_goodbye(payload),
            frame::WINDOW_UPDATE => self.receive_window(head, payload),
            frame::PUSH_PROMISE => Err(protocol("it pushes what was not asked for")),
            _ => Ok(()),
        }
    }

    fn receive_data(&mut self, head: Head, payload: &[u8]) -> Result<(), Violation> {
        let length = u32::try_from(payload.len()).map_err(|_| FRAME_SIZE)?;
        self.receive_window = self.receive_window.checked_sub(length).ok_or(FLOW_CONTROL)?;
        if self.receive_window <= CONNECTION_WINDOW / 2 {
            let back = CONNECTION_WINDOW - self.receive_window;
            frame::write(&mut self.out, frame::WINDOW_UPDATE, 0, 0, &back.to_be_bytes());
            self.receive_window = CONNECTION_WINDOW;
        }
        let data = unpadded(head, payload)?;
        let Some(stream) = self.stream(head.stream)? else { return Ok(()) };
        if stream.is_complete || matches!(stream.head, Arrival::Awaited) {
            return Err(protocol("data comes before the head of its answer, or behind the end"));
        }
        stream.receive_window = stream.receive_window.checked_sub(length).ok_or(FLOW_CONTROL)?;
        stream.data.extend_from_slice(data);
        stream.is_complete = head.has(frame::END_STREAM);
        stream.wake();
        self.freed()
    }

    /// Takes a piece of a header block, behind those that have come.
    fn receive_block(
        &mut self,
        head: Head,
        is_last: bool,
        mut begun: Vec<u8>,
        piece: &[u8],
    ) -> Result<(), Violation> {
        if begun.len() + piece.len() > hpack::MAX_LIST_OCTETS {
            let what = "its headers are too long";
            return Err(Violation { code: frame::ENHANCE_YOUR_CALM, what });
        }
        begun.extend_from_slice(piece);
        if !head.has(frame::END_HEADERS) {
            // A piece of nothing could come for ever.
            let is_endless = piece.is_empty() && head.kind == frame::CONTINUATION;
            self.block = Some((head.stream, is_last, begun));
            return if is_endless { Err(protocol("a header block has no end")) } else { Ok(()) };
        }
        let fields = hpack::decode(&begun).map_err(|hpack::BadBlock| Violation {
            code: frame::COMPRESSION_ERROR,
            what: "its headers cannot be read",
        })?;
        let Some(stream) = self.stream(head.stream)? else { return Ok(()) };
        match (&stream.head, fields.status) {
            // An interim answer; the real one comes behind it.
            (Arrival::Awaited, Some(status)) if status.is_informational() && !is_last => {
                return Ok(());
            }
            (Arrival::Awaited, Some(status)) => {
                stream.head = Arrival::There((status, fields.headers));
            }
            (Arrival::There(_) | Arrival::Taken, None) if is_last && !stream.is_complete => {
                stream.trailers = Some(fields.headers);
            }
            _ => return Err(protocol("headers come where none may")),
        }
        stream.is_complete = is_last;
        stream.wake();
        self.freed()
    }

    fn receive_settings(&mut self, head: Head, payload: &[u8]) -> Result<(), Violation> {
        if head.has(frame::ACK) {
            return Ok(());
        }
        self.has_settings = true;
        let (settings, []) = payload.as_chunks::<6>() else { return Err(FRAME_SIZE) };
        for [kind @ .., a, b, c, d] in settings {
            let value = u32::from_be_bytes([*a, *b, *c, *d]);
            match u16::from_be_bytes(*kind) {
                MAX_CONCURRENT_STREAMS => {
                    self.most_streams = usize::try_from(value).unwrap_or(usize::MAX);
                }
                INITIAL_WINDOW_SIZE if value > MAX_31_BITS => return Err(FLOW_CONTROL),
                INITIAL_WINDOW_SIZE => {
                    let more = i64::from(value) - self.first_send_window;
                    self.first_send_window = value.into();
                    for stream in &mut self.streams {
                        stream.send_window += more;
                    }
                }
                MAX_FRAME_SIZE => {
                    // We never send longer ones than every server takes.
                    let least = u32::try_from(MAX_PAYLOAD_OCTETS).unwrap_or(u32::MAX);
                    if value < least {
                        return Err(protocol("it takes shorter frames than it may"));
                    }
                }
                _ => {}
            }
        }
        self.answers += 1;
        frame::write(&mut self.out, frame::SETTINGS, frame::ACK, 0, &[]);
        self.freed()
    }

    fn receive_goodbye(&mut self, payload: &[u8]) -> Result<(), Violation> {
        let last = u32::from_be_bytes(*payload.first_chunk().ok_or(FRAME_SIZE)?) & MAX_31_BITS;
        self.is_leaving = true;
        for stream in self.streams.iter_mut().filter(|stream| stream.id > last) {
            stream.fate.get_or_insert(Fate::Unseen);
            stream.body = Bytes::new();
            stream.wake();
        }
        self.freed()
    }

    fn receive_window(&mut self, head: Head, payload: &[u8]) -> Result<(), Violation> {
        let more = u32::from_be_bytes(payload.try_into().map_err(|_| FRAME_SIZE)?) & MAX_31_BITS;
        if more == 0 {
            return Err(protocol("it opens a window by nothing"));
        }
        let window = match head.stream {
            0 => Some(&mut self.send_window),
            id => self.stream(id)?.map(|stream| &mut stream.send_window),
        };
        let Some(window) = window else { return Ok(()) };
        *window += i64::from(more);
        if *window > i64::from(MAX_31_BITS) { Err(FLOW_CONTROL) } else { Ok(()) }
    }

    fn fate_of(&mut self, id: u32, fate: Fate) -> Result<(), Violation> {
        if let Some(stream) = self.stream(id)? {
            stream.fate.get_or_insert(fate);
            stream.body = Bytes::new();
            stream.wake();
        }
        self.freed()
    }

    /// The stream that a frame is of; none where it was closed here meanwhile.
    fn stream(&mut self, id: u32) -> Result<Option<&mut StreamState>, Violation> {
        if id.is_multiple_of(2) || id >= self.next {
            return Err(protocol("it speaks of a stream that was never opened"));
        }
        Ok(self.streams.iter_mut().find(|stream| stream.id == id))
    }

    /// There may be a place for one more stream.
    fn freed(&mut self) -> Result<(), Violation> {
        self.wake_waiting();
        Ok(())
    }
}

impl StreamState {
    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    fn wait<T>(&mut self, context: &Context<'_>) -> Poll<T> {
        self.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// How it ended, where it has.
    fn fate(&self, ended: Option<Arc<str>>) -> Option<Fate> {
        self.fate.clone().or_else(|| ended.map(Fate::Lost))
    }
}

const FRAME_SIZE: Violation =
    Violation { code: frame::FRAME_SIZE_ERROR, what: "a frame has a length that it cannot have" };
const FLOW_CONTROL: Violation =
    Violation { code: frame::FLOW_CONTROL_ERROR, what: "more is sent than a window lets through" };

fn protocol(what: &'static str) -> Violation {
    Violation { code: frame::PROTOCOL_ERROR, what }
}

/// A payload without its padding.
fn unpadded(head: Head, payload: &[u8]) -> Result<&[u8], Violation> {
    if !head.has(frame::PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(FRAME_SIZE)?;
    let length = rest.len().checked_sub(usize::from(*padding));
    let length = length.ok_or_else(|| protocol("there is more padding than payload"))?;
    Ok(rest.split_at(length).0)
}

#[cfg(test)]
mod tests;
