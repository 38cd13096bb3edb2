//! What the two ends of `bourg port-forward` say to each other over one pair of streams: frames, each of one
//! connection.
//!
//! A frame is the number of its connection (4 bytes), its kind (1 byte), the length of its content (4 bytes),
//! and the content. Numbers are big-endian. The end in the task says [`GREETING`] before its first frame.

use std::io;

/// The first bytes from the task: it is ready, and speaks this version.
pub(super) const GREETING: &[u8] = b"bourg-forward 1\n";
/// The maximum size of a frame's content.
pub(super) const CONTENT_BYTES_MAX: usize = 32 << 10;
const HEADER_BYTES: usize = 9;

/// What a frame says of its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ForwardFrame {
    /// It begins, to this port of the task.
    Open(u16),
    /// Bytes of it.
    Bytes(Vec<u8>),
    /// No bytes follow in this direction.
    End,
    /// It is broken off, with the reason.
    Reset(String),
    /// So many more bytes may be sent.
    Credit(u32),
}

impl ForwardFrame {
    /// The frame as bytes.
    pub(super) fn encode(&self, connection: u32) -> Vec<u8> {
        let (kind, content): (u8, &[u8]) = match self {
            Self::Open(port) => (0, &port.to_be_bytes()),
            Self::Bytes(bytes) => (1, bytes),
            Self::End => (2, &[]),
            Self::Reset(why) => (3, why.as_bytes()),
            Self::Credit(bytes) => (4, &bytes.to_be_bytes()),
        };
        let content = content.get(..CONTENT_BYTES_MAX).unwrap_or(content);
        let mut frame = Vec::with_capacity(HEADER_BYTES + content.len());
        frame.extend_from_slice(&connection.to_be_bytes());
        frame.push(kind);
        frame.extend_from_slice(&u32::try_from(content.len()).unwrap_or(u32::MAX).to_be_bytes());
        frame.extend_from_slice(content);
        frame
    }

    fn decode(kind: u8, content: &[u8]) -> io::Result<Self> {
        let number = || content.try_into().map_err(|_| malformed("a number has another length"));
        Ok(match kind {
            0 => {
                let port = content.try_into();
                let port = port.map_err(|_| malformed("a port has another length"))?;
                Self::Open(u16::from_be_bytes(port))
            }
            1 => Self::Bytes(content.to_vec()),
            2 => Self::End,
            3 => Self::Reset(String::from_utf8_lossy(content).into_owned()),
            4 => Self::Credit(u32::from_be_bytes(number()?)),
            _ => return Err(malformed("a frame has an unknown kind")),
        })
    }
}

pub(super) fn malformed(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the other end is not understood: {why}"))
}

/// Cuts a stream into frames, however its bytes arrive.
#[derive(Debug, Default)]
pub(super) struct FrameReader {
    bytes: Vec<u8>,
    /// Whether the greeting is still to come.
    awaits_greeting: bool,
}

impl FrameReader {
    /// For a stream that begins with the greeting.
    pub(super) fn greeted() -> Self {
        Self { bytes: Vec::new(), awaits_greeting: true }
    }

    /// Adds bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether the greeting has come.
    pub(super) fn take_greeting(&mut self) -> io::Result<bool> {
        if !self.awaits_greeting {
            return Ok(true);
        }
        let begin = self.bytes.get(..GREETING.len()).unwrap_or(&self.bytes);
        if !GREETING.starts_with(begin) {
            return Err(malformed("its version differs from this one's"));
        }
        if begin.len() < GREETING.len() {
            return Ok(false);
        }
        self.bytes.drain(..GREETING.len());
        self.awaits_greeting = false;
        Ok(true)
    }

    /// Every frame that is complete, with its connection.
    pub(super) fn take_frames(&mut self) -> io::Result<Vec<(u32, ForwardFrame)>> {
        let mut frames = Vec::new();
        let mut rest = self.bytes.as_slice();
        while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let [c0, c1, c2, c3, kind, l0, l1, l2, l3] = *header;
            let length = u32::from_be_bytes([l0, l1, l2, l3]);
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            if length > CONTENT_BYTES_MAX {
                return Err(malformed("a frame is too large"));
            }
            let Some((content, after)) = after.split_at_checked(length) else { break };
            let connection = u32::from_be_bytes([c0, c1, c2, c3]);
            frames.push((connection, ForwardFrame::decode(kind, content)?));
            rest = after;
        }
        let taken = self.bytes.len() - rest.len();
        self.bytes.drain(..taken);
        Ok(frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_however_their_bytes_are_cut() {
        let sent = [
            (1, ForwardFrame::Open(8080)),
            (1, ForwardFrame::Bytes(b"GET / HTTP/1.0\r\n\r\n".to_vec())),
            (u32::MAX, ForwardFrame::Bytes(vec![7; CONTENT_BYTES_MAX])),
            (1, ForwardFrame::End),
            (2, ForwardFrame::Reset("Connection refused".to_owned())),
            (1, ForwardFrame::Credit(262_144)),
        ];
        let mut bytes = GREETING.to_vec();
        bytes.extend(sent.iter().flat_map(|(connection, frame)| frame.encode(*connection)));
        for size in [1, 2, 9, 10, 4_096, bytes.len()] {
            let mut reader = FrameReader::greeted();
            let mut received = Vec::new();
            for piece in bytes.chunks(size) {
                reader.push(piece);
                if reader.take_greeting().expect("the greeting") {
                    received.extend(reader.take_frames().expect("frames"));
                }
            }
            assert_eq!(received, sent, "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        let mut reader = FrameReader::greeted();
        reader.push(b"bourg-forward 2\n");
        assert!(reader.take_greeting().is_err());
        for (bytes, why) in [
            (vec![0, 0, 0, 1, 9, 0, 0, 0, 0], "unknown kind"),
            (vec![0, 0, 0, 1, 0, 0, 0, 0, 1, 8], "a port has another length"),
            (vec![0, 0, 0, 1, 4, 0, 0, 0, 1, 8], "a number has another length"),
            (vec![0, 0, 0, 1, 1, 255, 255, 255, 255], "too large"),
        ] {
            let mut reader = FrameReader::default();
            reader.push(&bytes);
            let error = reader.take_frames().expect_err("no frame").to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
