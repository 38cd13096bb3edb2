//! Frames (RFC 9113, sections 4 and 6): cutting what comes into them, and writing them.

/// The most that a frame which we take may carry, in octets: the protocol's own default.
pub(super) const MAX_PAYLOAD_OCTETS: usize = 16 << 10;
const HEAD_OCTETS: usize = 9;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

/// Of settings and pings.
pub(super) const ACK: u8 = 1;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const PADDED: u8 = 8;
pub(super) const PRIORITY: u8 = 0x20;

/// What an end of the connection did that it may not, as the protocol's number of it, and in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) code: u32,
    pub(super) what: &'static str,
}

pub(super) const PROTOCOL_ERROR: u32 = 1;
pub(super) const FLOW_CONTROL_ERROR: u32 = 3;
pub(super) const FRAME_SIZE_ERROR: u32 = 6;
pub(super) const REFUSED_STREAM: u32 = 7;
pub(super) const CANCEL: u32 = 8;
pub(super) const COMPRESSION_ERROR: u32 = 9;
pub(super) const ENHANCE_YOUR_CALM: u32 = 11;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// 0 for the connection as a whole.
    pub(super) stream: u32,
}

impl Head {
    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame. The payload is shorter than any that a frame can have.
pub(super) fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    out.extend(length);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Cuts what comes into frames. Keeps nothing between whole frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The begin of a frame whose end has not come.
    begun: Vec<u8>,
}

impl Frames {
    /// Takes what came, and gives each frame that is whole by it.
    pub(super) fn take(
        &mut self,
        mut came: &[u8],
        mut each: impl FnMut(Head, &[u8]) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        while !came.is_empty() {
            if self.begun.is_empty()
                && let Some((frame, rest)) = whole(came)?.and_then(|all| came.split_at_checked(all))
            {
                give(frame, &mut each)?;
                came = rest;
                continue;
            }
            // Up to the end of its head first, which says how long it is.
            let end = whole(&self.begun)?.unwrap_or(HEAD_OCTETS);
            let missing = end.saturating_sub(self.begun.len()).min(came.len());
            let (more, rest) = came.split_at(missing);
            self.begun.extend_from_slice(more);
            came = rest;
            if whole(&self.begun)?.is_some_and(|all| all == self.begun.len()) {
                give(&std::mem::take(&mut self.begun), &mut each)?;
            }
        }
        Ok(())
    }
}

/// How long a frame is with its head, where the head is there.
fn whole(frame: &[u8]) -> Result<Option<usize>, Violation> {
    let Some([_, high, middle, low]) = frame.first_chunk::<HEAD_OCTETS>().map(|head| {
        let [high, middle, low, ..] = *head;
        [0, high, middle, low]
    }) else {
        return Ok(None);
    };
    let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
    if length > MAX_PAYLOAD_OCTETS {
        return Err(Violation { code: FRAME_SIZE_ERROR, what: "a frame is too long" });
    }
    Ok(Some(HEAD_OCTETS + length))
}

fn give(
    frame: &[u8],
    each: &mut impl FnMut(Head, &[u8]) -> Result<(), Violation>,
) -> Result<(), Violation> {
    let Some(([_, _, _, kind, flags, stream @ ..], payload)) =
        frame.split_first_chunk::<HEAD_OCTETS>()
    else {
        return Ok(());
    };
    // The first bit means nothing.
    let stream = u32::from_be_bytes(*stream) & (u32::MAX >> 1);
    each(Head { kind: *kind, flags: *flags, stream }, payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(frames: &mut Frames, came: &[u8]) -> Result<Vec<(Head, Vec<u8>)>, Violation> {
        let mut all = Vec::new();
        let taken = frames.take(came, |head, payload| {
            all.push((head, payload.to_vec()));
            Ok(())
        });
        taken.map(|()| all)
    }

    #[test]
    fn frames_come_whole_however_they_are_cut() {
        let mut bytes = Vec::new();
        let mut written = Vec::new();
        for (kind, flags, stream, payload) in [
            (SETTINGS, 0, 0, &b""[..]),
            (DATA, END_STREAM, 7, b"hello"),
            (PING, ACK, 0, b"12345678"),
        ] {
            write(&mut bytes, kind, flags, stream, payload);
            written.push((Head { kind, flags, stream }, payload.to_vec()));
        }
        for size in 1..=bytes.len() {
            let mut frames = Frames::default();
            let read: Result<Vec<_>, _> =
                bytes.chunks(size).map(|piece| taken(&mut frames, piece)).collect();
            assert_eq!(read.unwrap().concat(), written, "in pieces of {size}");
            assert_eq!(frames.begun.capacity(), 0, "nothing is kept");
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_at_its_head() {
        let head = [0, 0x40, 1, 0, 0, 0, 0, 0, 1];
        for size in [1, 9] {
            let mut frames = Frames::default();
            let refused = head.chunks(size).find_map(|piece| taken(&mut frames, piece).err());
            assert_eq!(refused.map(|refused| refused.code), Some(FRAME_SIZE_ERROR));
        }
    }
}
