//! Requests, read from bytes that anybody may have sent.

use hickory_proto::op::{Header, MessageType, Query};
use hickory_proto::rr::{Name, RecordType};
use hickory_proto::serialize::binary::{BinDecodable as _, BinDecoder};

/// The largest request that is read, in bytes. Real ones have one name and a few options.
const REQUEST_BYTES_MAX: usize = 4_096;

/// The most records of a request beside its question. Real ones have one, or two when they are signed.
const RECORDS_MAX: u32 = 16;

/// The largest reply over UDP to a client that says nothing about it (RFC 1035).
const PLAIN_BYTES: usize = 512;

/// The largest reply over UDP, in bytes, which no usual network fragments (DNS flag day 2020).
pub(crate) const PAYLOAD_BYTES: u16 = 1_232;

/// A request, as far as its bytes can be read.
#[derive(Clone, Debug)]
pub(crate) struct DnsRequest {
    /// Its header.
    pub(crate) header: Header,
    /// Its question, if it has exactly one.
    pub(crate) query: Option<Query>,
    /// Its EDNS record.
    pub(crate) edns: Option<Edns>,
    /// Whether all of it could be read.
    pub(crate) well_formed: bool,
}

/// What of an EDNS record is used (RFC 6891). Its options are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edns {
    /// The largest reply over UDP that the client takes.
    pub(crate) payload: u16,
    /// The version.
    pub(crate) version: u8,
    /// Whether the client asks for DNSSEC records; a reply repeats it (RFC 3225).
    pub(crate) dnssec_ok: bool,
}

impl DnsRequest {
    /// Reads a request; `None` if it has no header, or is a response, which is never answered.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut decoder = BinDecoder::new(bytes);
        let header = Header::read(&mut decoder).ok()?;
        if header.metadata.message_type == MessageType::Response {
            return None;
        }
        let mut request = Self { header, query: None, edns: None, well_formed: false };
        // Other operations have the same sections: their replies repeat question and EDNS, too.
        if bytes.len() <= REQUEST_BYTES_MAX && header.counts.queries == 1 {
            request.query = Query::read(&mut decoder).ok();
            request.well_formed =
                request.query.is_some() && request.read_records(&mut decoder).is_some();
        }
        Some(request)
    }

    /// Reads the records after the question; `None` if they are malformed. Only EDNS is understood.
    fn read_records(&mut self, decoder: &mut BinDecoder<'_>) -> Option<()> {
        let counts = &self.header.counts;
        let others = u32::from(counts.answers) + u32::from(counts.authorities);
        let all = others + u32::from(counts.additionals);
        if all > RECORDS_MAX {
            return None;
        }
        for number in 0..all {
            let name = Name::read(decoder).ok()?;
            let kind = RecordType::read(decoder).ok()?;
            let class = decoder.read_u16().ok()?.unverified();
            let [_, version, flags, _] = decoder.read_u32().ok()?.unverified().to_be_bytes();
            let length = decoder.read_u16().ok()?.unverified();
            decoder.read_slice(usize::from(length)).ok()?;
            if kind == RecordType::OPT {
                if number < others || self.edns.is_some() || !name.is_root() {
                    return None;
                }
                self.edns = Some(Edns { payload: class, version, dnssec_ok: flags & 0x80 != 0 });
            }
        }
        decoder.is_empty().then_some(())
    }

    /// The largest reply over UDP, in bytes.
    pub(crate) fn reply_bytes_max(&self) -> usize {
        self.edns.map_or(PLAIN_BYTES, |edns| {
            usize::from(edns.payload.min(PAYLOAD_BYTES)).max(PLAIN_BYTES)
        })
    }
}

/// The largest reply over UDP to a request, in bytes: 512, or what its EDNS record says, up to 1,232.
#[must_use]
pub fn reply_limit(request: &[u8]) -> usize {
    DnsRequest::read(request).map_or(PLAIN_BYTES, |request| request.reply_bytes_max())
}

/// Whether a message is a response to a request: the same id, and the same question with the same
/// capital letters. An attacker who guesses the id and the port of a forwarded request has to guess these, too.
#[must_use]
pub fn answers(request: &[u8], response: &[u8]) -> bool {
    let read = |bytes| {
        let mut decoder = BinDecoder::new(bytes);
        let header = Header::read(&mut decoder).ok()?;
        let query = (header.counts.queries == 1).then(|| Query::read(&mut decoder).ok())??;
        Some((header, query))
    };
    let (Some((request, asked)), Some((response, answered))) = (read(request), read(response))
    else {
        return false;
    };
    response.metadata.message_type == MessageType::Response
        && response.metadata.id == request.metadata.id
        && response.metadata.op_code == request.metadata.op_code
        && answered.query_type == asked.query_type
        && answered.query_class == asked.query_class
        && answered.name.eq_case(&asked.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request for `a.` A IN, with additional records.
    fn request(counts: [u8; 4], records: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x12, 0x34, 1, 0];
        bytes.extend(counts.into_iter().flat_map(|count| [0, count]));
        bytes.extend([1, b'a', 0, 0, 1, 0, 1]);
        bytes.extend(records);
        bytes
    }

    #[test]
    fn requests_are_read_or_not() {
        const OPT: [u8; 11] = [0, 0, 41, 0x10, 0, 0, 0, 0x80, 0, 0, 0];
        let edns = Edns { payload: 4_096, version: 0, dnssec_ok: true };
        let table = [
            ("no header", vec![0; 11], None),
            ("a response", vec![0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0], None),
            ("plain", request([1, 0, 0, 0], &[]), Some((true, None))),
            ("with EDNS", request([1, 0, 0, 1], &OPT), Some((true, Some(edns)))),
            ("EDNS twice", request([1, 0, 0, 2], &[OPT, OPT].concat()), Some((false, Some(edns)))),
            ("EDNS as an answer", request([1, 1, 0, 0], &OPT), Some((false, None))),
            (
                "EDNS of a name",
                request([1, 0, 0, 1], &[&[1, b'a'], &OPT[..]].concat()),
                Some((false, None)),
            ),
            (
                "an unknown option",
                request([1, 0, 0, 1], &[&OPT[..9], &[0, 5, 0xff, 0, 0, 1, 7]].concat()),
                Some((true, Some(edns))),
            ),
            ("a record too short", request([1, 0, 0, 1], &OPT[..10]), Some((false, None))),
            ("a record that is not there", request([1, 0, 0, 1], &[]), Some((false, None))),
            ("more than it says", request([1, 0, 0, 0], &[0]), Some((false, None))),
            ("too many records", request([1, 0, 0, 17], &[0; 187]), Some((false, None))),
            ("no question", request([0, 0, 0, 0], &[]), Some((false, None))),
        ];
        for (what, bytes, expected) in table {
            let read = DnsRequest::read(&bytes).map(|request| (request.well_formed, request.edns));
            assert_eq!(read, expected, "{what}");
        }
        assert!(!DnsRequest::read(&request([1, 0, 0, 1], &[0; 4_096])).unwrap().well_formed);
    }

    #[test]
    fn compression_loops_are_refused() {
        let header = [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let names: [&[u8]; 5] =
            [&[0xc0, 12], &[1, b'a', 0xc0, 12], &[0xc0, 14], &[0xff, 0xff], &[0x40, 1]];
        for name in names {
            let bytes = [&header, name, &[0, 1, 0, 1]].concat();
            let read = DnsRequest::read(&bytes).expect("it has a header");
            assert!(!read.well_formed && read.query.is_none(), "{name:?}");
        }
    }

    #[test]
    fn a_response_has_the_id_and_the_question_of_its_request() {
        let asked = request([1, 0, 0, 0], &[]);
        let changed = |at: usize, to: u8| {
            let mut bytes = asked.clone();
            bytes[2] |= 0x80;
            bytes[at] = to;
            bytes
        };
        assert!(answers(&asked, &changed(2, 0x81)));
        for (at, to) in
            [(0, 0), (1, 0), (2, 1), (2, 0xa0), (5, 0), (13, b'A'), (13, b'b'), (16, 28)]
        {
            assert!(!answers(&asked, &changed(at, to)), "{at}");
        }
        assert!(!answers(&asked, &[]) && !answers(&[], &asked));
    }
}
