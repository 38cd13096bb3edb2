//! The answer to a request.

use std::collections::BTreeSet;
use std::net::IpAddr;

use hickory_proto::op::{OpCode, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, HINFO, NS, PTR, SOA, SRV};
use hickory_proto::rr::{DNSClass, RData, RecordType};
use model::{PortName, Random};

use crate::names::{Answer, Endpoint, Lookup, Names};
use crate::question::{NamePart, Question, Target};
use crate::reply::{Draft, ResourceRecord, Via};
use crate::request::DnsRequest;
use crate::zone::Zone;

/// How long resolvers may use a negative answer, in seconds.
const NEGATIVE_TTL: u32 = 1;

/// The types of requests that are no types of records: MAILB, MAILA, TKEY and TSIG.
const NO_RECORDS: [u16; 4] = [249, 250, 253, 254];

/// How requests are answered.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The zone of the cell.
    pub zone: Zone,
    /// Whether foreign names are resolved here: replies say so (RA), and requests for foreign names
    /// are [`Outcome::Forward`]. Without it they are refused.
    pub recursion: bool,
}

/// What to do with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Send this reply.
    Reply(Reply),
    /// Send the request to the host's resolvers: the name is not in the zone.
    Forward,
    /// Look this up at a replica, then answer again.
    Miss(Question),
    /// Do nothing: it is a response, or too short to have an id.
    Drop,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The message.
    pub message: Vec<u8>,
    /// The response code, as in the message: 0 for NOERROR, 3 for NXDOMAIN.
    pub code: u16,
    /// Whether it is made of names that may be outdated ([`Lookup::Stale`]).
    pub stale: bool,
}

/// Answers a request. A reply to a request over UDP has at most [`reply_limit`](crate::reply_limit)
/// bytes; what does not fit is left out, and the TC bit says so. Looks up at most one question.
#[must_use]
pub fn answer(
    request: &[u8],
    via: Via,
    names: &dyn Names,
    settings: &Settings,
    random: &mut Random,
) -> Outcome {
    let Some(request) = DnsRequest::read(request) else { return Outcome::Drop };
    let recursion = settings.recursion;
    let drafted = match rejected(&request) {
        Some(code) => Drafted::Reply(Draft::of(code, recursion), false),
        None => draft(&request, names, settings, random),
    };
    match drafted {
        Drafted::Reply(draft, stale) => {
            let message = draft.write(&request, via);
            Outcome::Reply(Reply { message, code: u16::from(draft.code), stale })
        }
        Drafted::Miss(question) => Outcome::Miss(question),
        Drafted::Foreign if recursion && request.header.metadata.recursion_desired => {
            Outcome::Forward
        }
        Drafted::Foreign => {
            let draft = Draft::of(ResponseCode::Refused, recursion);
            let message = draft.write(&request, via);
            Outcome::Reply(Reply { message, code: u16::from(draft.code), stale: false })
        }
    }
}

/// What a request leads to.
enum Drafted {
    /// A reply, and whether it may be outdated.
    Reply(Draft, bool),
    Miss(Question),
    Foreign,
}

/// The response code for a request that is not looked at further.
fn rejected(request: &DnsRequest) -> Option<ResponseCode> {
    if request.header.metadata.op_code != OpCode::Query {
        return Some(ResponseCode::NotImp);
    }
    let query = match &request.query {
        Some(query) if request.well_formed => query,
        _ => return Some(ResponseCode::FormErr),
    };
    if request.edns.is_some_and(|edns| edns.version > 0) {
        return Some(ResponseCode::BADVERS);
    }
    match query.query_type {
        RecordType::OPT => Some(ResponseCode::FormErr),
        RecordType::AXFR | RecordType::IXFR => Some(ResponseCode::Refused),
        kind if NO_RECORDS.contains(&u16::from(kind)) => Some(ResponseCode::NotImp),
        _ if query.query_class != DNSClass::IN => Some(ResponseCode::Refused),
        _ => None,
    }
}

fn draft(
    request: &DnsRequest,
    names: &dyn Names,
    settings: &Settings,
    random: &mut Random,
) -> Drafted {
    let Some(query) = &request.query else { return Drafted::Foreign };
    let kind = query.query_type;
    let zone = Authority { settings, serial: names.serial() };
    let (question, part) = match settings.zone.target(&query.name) {
        Target::Foreign => return Drafted::Foreign,
        Target::Impossible => return Drafted::Reply(zone.no_such_name(), false),
        Target::Apex => return Drafted::Reply(zone.apex(kind), false),
        Target::Name(question, part) => (question, part),
        Target::Reverse(address) if kind == RecordType::PTR || kind == RecordType::ANY => {
            return match names.lookup(&Question::Address(address)) {
                Lookup::Missing => Drafted::Miss(Question::Address(address)),
                Lookup::Fresh(answer) => zone.reverse(kind, &answer, false),
                Lookup::Stale(answer) => zone.reverse(kind, &answer, true),
            };
        }
        Target::Reverse(_) => return Drafted::Foreign,
    };
    let (answer, stale) = match names.lookup(&question) {
        Lookup::Missing => return Drafted::Miss(question),
        Lookup::Fresh(answer) => (answer, false),
        Lookup::Stale(answer) => (answer, true),
    };
    let Answer::Found(endpoints) = answer else {
        return Drafted::Reply(zone.no_such_name(), stale);
    };
    let draft = match part {
        NamePart::Port(port) => {
            if endpoints.iter().any(|endpoint| port_of(endpoint, &port).is_some()) {
                zone.records(kind, |kind| match kind {
                    RecordType::SRV => zone.ports(&question, &endpoints, &port, random),
                    _ => Records::default(),
                })
            } else {
                zone.no_such_name()
            }
        }
        NamePart::Tcp => zone.records(kind, |_| Records::default()),
        NamePart::Itself => zone.records(kind, |kind| {
            let shown = shown(&question, &endpoints, random);
            // Tasks on one machine have one address, and a set of records has none twice (RFC 2181,
            // section 5).
            let mut seen = BTreeSet::new();
            let addresses = shown.into_iter().map(|endpoint| endpoint.address);
            let addresses = addresses.filter(|address| seen.insert(*address));
            let answers = addresses.filter_map(|it| address(kind, it));
            let answers = answers.map(|data| ResourceRecord { name: None, data }).collect();
            Records { answers, additionals: Vec::new() }
        }),
    };
    Drafted::Reply(draft, stale)
}

/// The records that answer a request.
#[derive(Default)]
struct Records {
    answers: Vec<ResourceRecord>,
    additionals: Vec<ResourceRecord>,
}

/// What the zone says.
struct Authority<'a> {
    settings: &'a Settings,
    serial: u32,
}

impl Authority<'_> {
    /// A reply with records of the requested type. Without any it is NOERROR with the SOA record; to a
    /// request for any type it is one HINFO record (RFC 8482).
    fn records(&self, kind: RecordType, of: impl FnOnce(RecordType) -> Records) -> Draft {
        let Records { answers, additionals } = match kind {
            RecordType::ANY => {
                let data = RData::HINFO(HINFO::new("RFC8482".to_owned(), String::new()));
                Records {
                    answers: vec![ResourceRecord { name: None, data }],
                    additionals: Vec::new(),
                }
            }
            kind => of(kind),
        };
        let authorities = if answers.is_empty() { vec![self.soa()] } else { Vec::new() };
        Draft { answers, authorities, additionals, ..self.draft(ResponseCode::NoError) }
    }

    fn draft(&self, code: ResponseCode) -> Draft {
        Draft { authoritative: true, ..Draft::of(code, self.settings.recursion) }
    }

    fn no_such_name(&self) -> Draft {
        Draft { authorities: vec![self.soa()], ..self.draft(ResponseCode::NXDomain) }
    }

    /// The records of the zone itself.
    fn apex(&self, kind: RecordType) -> Draft {
        let zone = &self.settings.zone;
        self.records(kind, |kind| {
            let data = match kind {
                RecordType::SOA => self.soa().data,
                RecordType::NS => RData::NS(NS(zone.master().clone())),
                _ => return Records::default(),
            };
            Records { answers: vec![ResourceRecord { name: None, data }], additionals: Vec::new() }
        })
    }

    /// The SOA record: the name server, the contact, and how long negative answers may be used.
    fn soa(&self) -> ResourceRecord {
        let zone = &self.settings.zone;
        let data = SOA::new(
            zone.master().clone(),
            zone.contact().clone(),
            self.serial,
            // Nobody transfers the zone: refresh, retry and expire are what a secondary would use.
            60,
            10,
            3_600,
            NEGATIVE_TTL,
        );
        ResourceRecord { name: Some(zone.origin().clone()), data: RData::SOA(data) }
    }

    /// The names of an address. An address that the cell does not know is a foreign name.
    fn reverse(&self, kind: RecordType, answer: &Answer, stale: bool) -> Drafted {
        let Answer::Found(endpoints) = answer else { return Drafted::Foreign };
        let names =
            endpoints.iter().filter_map(|endpoint| self.settings.zone.name_of(&endpoint.owner));
        let names = names.map(|name| ResourceRecord { name: None, data: RData::PTR(PTR(name)) });
        let answers: Vec<_> = names.collect();
        if answers.is_empty() {
            return Drafted::Foreign;
        }
        let of = |_| Records { answers, additionals: Vec::new() };
        Drafted::Reply(self.records(kind, of), stale)
    }

    /// The SRV records of a port, with the addresses of their targets.
    fn ports(
        &self,
        question: &Question,
        endpoints: &[Endpoint],
        port: &PortName,
        random: &mut Random,
    ) -> Records {
        let mut records = Records::default();
        let mut targets = Vec::new();
        for endpoint in shown(question, endpoints, random) {
            let (Some(number), Some(target)) =
                (port_of(endpoint, port), self.settings.zone.name_of(&endpoint.owner))
            else {
                continue;
            };
            let kind = if endpoint.address.is_ipv4() { RecordType::A } else { RecordType::AAAA };
            if let Some(data) = address(kind, endpoint.address) {
                records.additionals.push(ResourceRecord { name: Some(target.clone()), data });
            }
            targets.push((target, number));
        }
        // A task with two addresses has one record for each port.
        targets.sort_unstable();
        targets.dedup();
        random.shuffle(&mut targets);
        let srv = |(target, number)| RData::SRV(SRV::new(0, 0, number, target));
        records.answers =
            targets.into_iter().map(srv).map(|data| ResourceRecord { name: None, data }).collect();
        records
    }
}

/// The endpoints whose addresses are shown, in random order: those that run, and of a job only healthy
/// ones.
fn shown<'a>(
    question: &Question,
    endpoints: &'a [Endpoint],
    random: &mut Random,
) -> Vec<&'a Endpoint> {
    let healthy = matches!(question, Question::Job { .. });
    let shown = endpoints.iter();
    let shown = shown.filter(|endpoint| endpoint.running && (endpoint.healthy || !healthy));
    let mut shown: Vec<&Endpoint> = shown.collect();
    random.shuffle(&mut shown);
    shown
}

/// The number of a port.
fn port_of(endpoint: &Endpoint, port: &PortName) -> Option<u16> {
    endpoint.ports.iter().find(|(name, _)| name == port).map(|(_, number)| *number)
}

/// The record of an address, if it is of the requested type.
fn address(kind: RecordType, address: IpAddr) -> Option<RData> {
    match (kind, address) {
        (RecordType::A, IpAddr::V4(address)) => Some(RData::A(A(address))),
        (RecordType::AAAA, IpAddr::V6(address)) => Some(RData::AAAA(AAAA(address))),
        _ => None,
    }
}
