//! Requests as bytes, and replies as text: read with hickory's decoder of whole messages, which the
//! crate itself does not use.

use dns::{Names, Outcome, Settings, Via, answer};
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use model::Random;

/// A request for `NAME TYPE`, the type by name or as `TYPE251`, with an EDNS record if its payload is given.
pub(crate) fn request(question: &str, payload: Option<u16>) -> Vec<u8> {
    let (name, kind) = question.split_once(' ').expect("NAME TYPE");
    let mut message = Message::new(0x1234, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    let name = Name::from_ascii(name).expect(name);
    let kind = match kind.strip_prefix("TYPE") {
        Some(number) => RecordType::from(number.parse::<u16>().expect(kind)),
        None => kind.parse().expect(kind),
    };
    message.add_query(Query::query(name, kind));
    if let Some(payload) = payload {
        let mut edns = Edns::new();
        edns.set_max_payload(payload);
        message.set_edns(edns);
    }
    message.to_vec().expect("it is small")
}

/// Answers with a fixed seed.
pub(crate) fn ask(request: &[u8], via: Via, names: &dyn Names, settings: &Settings) -> Outcome {
    answer(request, via, names, settings, &mut Random::new(1))
}

/// The reply as a message.
pub(crate) fn reply(outcome: &Outcome) -> Message {
    let Outcome::Reply(reply) = outcome else { panic!("no reply: {outcome:?}") };
    Message::from_vec(&reply.message).expect("a reply is a message")
}

/// What `dig` shows: the status with the flags, then the records, answers sorted; `+` before a record
/// of the additional section, `@` before one of the authority section.
pub(crate) fn dig(outcome: &Outcome) -> Vec<String> {
    match outcome {
        Outcome::Forward => return vec!["forward".to_owned()],
        Outcome::Drop => return vec!["drop".to_owned()],
        Outcome::Miss(question) => return vec![format!("miss {question:?}")],
        Outcome::Reply(_) => {}
    }
    let message = reply(outcome);
    let code = format!("{:?}", message.metadata.response_code).to_ascii_uppercase();
    let mut head = format!("{code} {}", message.metadata.flags());
    if message.metadata.truncation && !head.contains("TC") {
        head.push_str(" TC");
    }
    let line = |mark: &str, record: &Record| {
        let data = match &record.data {
            RData::SRV(srv) => {
                format!("{} {} {} {}", srv.priority, srv.weight, srv.port, srv.target)
            }
            data => data.to_string(),
        };
        format!("{mark}{} {} {} {data}", record.name, record.ttl, record.record_type())
    };
    let sorted = |mark: &str, records: &[Record]| {
        let mut lines: Vec<String> = records.iter().map(|record| line(mark, record)).collect();
        lines.sort();
        lines
    };
    let mut lines = vec![head];
    lines.extend(sorted("", &message.answers));
    lines.extend(sorted("@", &message.authorities));
    lines.extend(sorted("+", &message.additionals));
    lines
}
