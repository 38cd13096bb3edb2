//! Replies, written within a limit.

use hickory_proto::ProtoError;
use hickory_proto::op::{Header, HeaderCounts, Metadata, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RData, RecordType};
use hickory_proto::serialize::binary::{BinEncodable as _, BinEncoder};

use crate::request::{DnsRequest, PAYLOAD_BYTES};

/// How long resolvers may use a record, in seconds.
pub const TTL: u32 = 5;

/// A pointer to the name of the question, which follows the header.
const QUESTION: u16 = 0xc00c;

/// The size of an EDNS record without options, in bytes.
const EDNS_BYTES: u16 = 11;

/// How a request arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// In a datagram: a reply has at most 512 bytes, or what the client says, up to 1,232.
    Udp,
    /// Over a connection: a reply has at most 65,535 bytes.
    Tcp,
}

/// Why there is no answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody answered who could.
    ServerFailure,
    /// The client is over its limit, or may not ask this.
    Refused,
}

/// A record of a reply.
#[derive(Clone, Debug)]
pub(crate) struct ResourceRecord {
    /// Whose record it is; `None` if the question's name.
    pub(crate) name: Option<Name>,
    /// What it says.
    pub(crate) data: RData,
}

/// A reply, before it is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    /// The response code.
    pub(crate) code: ResponseCode,
    /// Whether it is the zone's own answer.
    pub(crate) authoritative: bool,
    /// Whether it says that foreign names are resolved here.
    pub(crate) recursion: bool,
    /// The answers.
    pub(crate) answers: Vec<ResourceRecord>,
    /// The authority section.
    pub(crate) authorities: Vec<ResourceRecord>,
    /// The additional section, without EDNS. What does not fit is left out.
    pub(crate) additionals: Vec<ResourceRecord>,
}

impl Draft {
    /// A reply without records.
    pub(crate) fn of(code: ResponseCode, recursion: bool) -> Self {
        Self { code, recursion, ..Self::default() }
    }

    /// Writes the reply to a request.
    pub(crate) fn write(&self, request: &DnsRequest, via: Via) -> Vec<u8> {
        let limit = match via {
            Via::Udp => u16::try_from(request.reply_bytes_max()).unwrap_or(PAYLOAD_BYTES),
            Via::Tcp => u16::MAX,
        };
        let mut bytes = Vec::with_capacity(512);
        if self.write_within(request, limit, &mut bytes).is_err() {
            // A header always fits, and only a header that does not fit ends here.
            bytes.clear();
        }
        bytes
    }

    fn write_within(
        &self,
        request: &DnsRequest,
        limit: u16,
        bytes: &mut Vec<u8>,
    ) -> Result<(), ProtoError> {
        let mut encoder = BinEncoder::new(bytes);
        let reserved = if request.edns.is_some() { EDNS_BYTES } else { 0 };
        encoder.set_max_size(limit.saturating_sub(reserved));
        let header = encoder.place::<Header>()?;
        let mut metadata = Metadata::response_from_request(&request.header.metadata);
        metadata.authoritative = self.authoritative;
        metadata.recursion_available = self.recursion;
        metadata.response_code = self.code;
        let mut counts = HeaderCounts::default();
        if let Some(query) = &request.query {
            query.emit(&mut encoder)?;
            counts.queries = 1;
        }
        let mut whole;
        (counts.answers, whole) = write_records(&mut encoder, &self.answers);
        if whole {
            (counts.authorities, whole) = write_records(&mut encoder, &self.authorities);
        }
        metadata.truncation = !whole;
        if whole {
            (counts.additionals, _) = write_records(&mut encoder, &self.additionals);
        }
        encoder.set_max_size(limit);
        if let Some(edns) = &request.edns {
            encoder.emit_u8(0)?;
            RecordType::OPT.emit(&mut encoder)?;
            encoder.emit_u16(PAYLOAD_BYTES)?;
            let flags = if edns.dnssec_ok { 0x80 } else { 0 };
            encoder.emit_vec(&[self.code.high(), 0, flags, 0])?;
            encoder.emit_u16(0)?;
            counts.additionals += 1;
        }
        header.replace(&mut encoder, Header { metadata, counts })
    }
}

/// Writes records while they fit. Returns how many did, and whether all did.
fn write_records(encoder: &mut BinEncoder<'_>, records: &[ResourceRecord]) -> (u16, bool) {
    let mut written = 0;
    for record in records {
        let before = encoder.offset();
        if write_record(encoder, record).is_err() {
            encoder.set_offset(before);
            encoder.trim();
            return (written, false);
        }
        written += 1;
    }
    (written, true)
}

fn write_record(encoder: &mut BinEncoder<'_>, record: &ResourceRecord) -> Result<(), ProtoError> {
    match &record.name {
        Some(name) => name.emit(encoder)?,
        None => encoder.emit_u16(QUESTION)?,
    }
    record.data.record_type().emit(encoder)?;
    DNSClass::IN.emit(encoder)?;
    encoder.emit_u32(ttl(&record.data))?;
    let length = encoder.place::<u16>()?;
    record.data.emit(encoder)?;
    let bytes = encoder.len_since_place(&length);
    length.replace(encoder, u16::try_from(bytes).unwrap_or(u16::MAX))
}

/// The TTL of a record. That of a SOA record limits how long a negative answer is used (RFC 2308).
fn ttl(data: &RData) -> u32 {
    match data {
        RData::SOA(soa) => soa.minimum,
        _ => TTL,
    }
}

/// A reply without an answer; `None` if the request is one that is never answered.
#[must_use]
pub fn failure(request: &[u8], via: Via, failure: Failure, recursion: bool) -> Option<Vec<u8>> {
    let code = match failure {
        Failure::ServerFailure => ResponseCode::ServFail,
        Failure::Refused => ResponseCode::Refused,
    };
    Some(Draft::of(code, recursion).write(&DnsRequest::read(request)?, via))
}

/// A reply that says that the answer does not fit: the client asks again over TCP. `None` if the
/// request is one that is never answered.
#[must_use]
pub fn truncated(request: &[u8], recursion: bool) -> Option<Vec<u8>> {
    /// The third byte of a header has the bit.
    const TRUNCATED: u8 = 0x02;
    let request = DnsRequest::read(request)?;
    let mut bytes = Draft::of(ResponseCode::NoError, recursion).write(&request, Via::Udp);
    *bytes.get_mut(2)? |= TRUNCATED;
    Some(bytes)
}
