//! Header blocks (RFC 7541) without a dynamic table: we let the server have none, and need none
//! ourselves, so that no connection keeps one.

use tonic::codegen::http::StatusCode;
use tonic::codegen::http::header::{HeaderMap, HeaderName, HeaderValue};

use super::huffman;

/// The most that the fields of one block may take, decoded, in octets: what we say in our settings.
pub(super) const MAX_LIST_OCTETS: usize = 16 << 10;
/// What each field counts for beyond its octets (RFC 9113, section 6.5.2).
const FIELD_OCTETS: usize = 32;

/// A block that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadBlock;

/// The fields of one block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    /// Of a response, and not of its trailers.
    pub(super) status: Option<StatusCode>,
    pub(super) headers: HeaderMap,
}

/// Appends a field as a literal that is not indexed and not compressed.
pub(super) fn encode(block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    block.push(0);
    for text in [name, value] {
        integer(block, text.len());
        block.extend_from_slice(text);
    }
}

/// A length, with seven bits in its first octet.
fn integer(block: &mut Vec<u8>, number: usize) {
    let low = |number: usize| u8::try_from(number & 0x7f).unwrap_or_default();
    if number < 0x7f {
        return block.push(low(number));
    }
    block.push(0x7f);
    let mut rest = number - 0x7f;
    while rest >= 0x80 {
        block.push(low(rest) | 0x80);
        rest >>= 7;
    }
    block.push(low(rest));
}

/// Decodes a block.
pub(super) fn decode(block: &[u8]) -> Result<Fields, BadBlock> {
    let mut block = Block(block);
    let (mut fields, mut room) = (Fields::default(), MAX_LIST_OCTETS);
    while let Some(first) = block.0.first().copied() {
        // Where the name is known already: an index of the table.
        let (name_bits, indexed) = match first {
            0x80.. => (7, true),
            0x40.. => (6, false),
            0x20.. => {
                // A new size for the dynamic table, which has to be what it is.
                if block.integer(5)? != 0 {
                    return Err(BadBlock);
                }
                continue;
            }
            _ => (4, false),
        };
        let index = block.integer(name_bits)?;
        let known = || TABLE.get(index.wrapping_sub(1)).ok_or(BadBlock);
        let (name, value) = if indexed {
            let (name, value) = known()?;
            (name.as_bytes().to_vec(), value.as_bytes().to_vec())
        } else {
            let name = if index == 0 { block.text()? } else { known()?.0.as_bytes().to_vec() };
            (name, block.text()?)
        };
        let octets = name.len() + value.len() + FIELD_OCTETS;
        room = room.checked_sub(octets).ok_or(BadBlock)?;
        fields.add(&name, &value)?;
    }
    Ok(fields)
}

impl Fields {
    fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), BadBlock> {
        if name == b":status" {
            let status = StatusCode::from_bytes(value).map_err(|_| BadBlock)?;
            // Before every other field, and once.
            let is_first = self.status.is_none() && self.headers.is_empty();
            self.status = is_first.then_some(status);
            return if is_first { Ok(()) } else { Err(BadBlock) };
        }
        // Also other names that begin with a colon, and those with capitals.
        let is_lower = !name.iter().any(u8::is_ascii_uppercase);
        let name = HeaderName::from_bytes(name).ok().filter(|_| is_lower).ok_or(BadBlock)?;
        let value = HeaderValue::from_bytes(value).map_err(|_| BadBlock)?;
        self.headers.try_append(name, value).map(drop).map_err(|_| BadBlock)
    }
}

/// The rest of a block.
struct Block<'a>(&'a [u8]);

impl Block<'_> {
    fn octet(&mut self) -> Result<u8, BadBlock> {
        let (first, rest) = self.0.split_first().ok_or(BadBlock)?;
        self.0 = rest;
        Ok(*first)
    }

    /// A number, with so many bits in its first octet.
    fn integer(&mut self, bits: u32) -> Result<usize, BadBlock> {
        let most = (1_usize << bits) - 1;
        let mut number = usize::from(self.octet()?) & most;
        if number < most {
            return Ok(number);
        }
        // Three octets more are two million: no index and no length is longer here.
        for place in 0..3 {
            let octet = self.octet()?;
            number += usize::from(octet & 0x7f) << (7 * place);
            if octet & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(BadBlock)
    }

    fn text(&mut self) -> Result<Vec<u8>, BadBlock> {
        let is_coded = self.0.first().is_some_and(|octet| octet & 0x80 != 0);
        let length = self.integer(7)?;
        let (text, rest) = self.0.split_at_checked(length).ok_or(BadBlock)?;
        self.0 = rest;
        match is_coded {
            true => huffman::decode(text, MAX_LIST_OCTETS).ok_or(BadBlock),
            false => Ok(text.to_vec()),
        }
    }
}

/// The static table (appendix A), from index 1 on.
const TABLE: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(block: &[u8]) -> Result<String, BadBlock> {
        let fields = decode(block)?;
        let status = fields.status.map(|status| status.as_str().to_owned());
        let line = |(name, value): (&HeaderName, &HeaderValue)| {
            format!("{name}={}", value.to_str().unwrap_or("?"))
        };
        Ok(status.into_iter().chain(fields.headers.iter().map(line)).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn every_form_of_a_field_is_read() {
        for (block, fields) in [
            // Indexed; and the size of a table that is not there.
            (&[0x20, 0x88][..], "200"),
            // A name of the table, with a coded value (RFC 7541, C.6.1).
            (&[0x48, 0x82, 0x64, 0x02], "302"),
            (&[0x88, 0x5f, 0x02, b'a', b'b'], "200 content-type=ab"),
            // New names, indexed and never indexed.
            (&[0x40, 0x01, b'a', 0x01, b'b', 0x10, 0x01, b'c', 0x00], "a=b c="),
            (&[], ""),
        ] {
            assert_eq!(shown(block).as_deref(), Ok(fields), "{block:x?}");
        }
    }

    #[test]
    fn an_invalid_header_block_is_refused() {
        let mut long = Vec::new();
        encode(&mut long, b"a", &[b'x'; MAX_LIST_OCTETS]);
        let mut many = Vec::new();
        for _ in 0..MAX_LIST_OCTETS / FIELD_OCTETS {
            encode(&mut many, b"a", b"");
        }
        for block in [
            // Index 0, an index behind the table, a table with a size.
            &[0x80][..],
            &[0xbe],
            &[0x3f, 0x01],
            // Cut, and a length without an end.
            &[0x40, 0x05, b'a'],
            &[0x7f],
            &[0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            // Capitals, an unknown pseudo-field, a second status, a status behind another field.
            &[0x00, 0x01, b'A', 0x00],
            &[0x00, 0x02, b':', b'a', 0x00],
            &[0x88, 0x88],
            &[0x5f, 0x00, 0x88],
            &[0x00, 0x01, b'a', 0x01, b'\n'],
            &long,
            &many,
        ] {
            assert_eq!(decode(block), Err(BadBlock), "{block:x?}");
        }
    }

    proptest! {
        #[test]
        fn written_fields_are_read_back(
            fields in prop::collection::vec(("[a-z-]{1,200}", "[ -~]{0,300}"), 0..5),
        ) {
            let mut block = Vec::new();
            for (name, value) in &fields {
                encode(&mut block, name.as_bytes(), value.as_bytes());
            }
            let read = decode(&block).unwrap().headers;
            prop_assert_eq!(read.len(), fields.len());
            for (name, value) in &fields {
                prop_assert!(read.get_all(name).iter().any(|read| read == value.as_str()));
            }
        }

        #[test]
        fn no_input_makes_the_decoder_panic(block in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(&block);
        }
    }
}
