//! What holds for requests of any bytes.

use dns::{Outcome, Via, answers, failure, reply_limit, truncated};
use hickory_proto::op::Message;
use proptest::prelude::*;

use crate::cell::{Cell, settings};
use crate::wire::{ask, request};

/// Checks what is promised of a reply.
fn check(bytes: &[u8], via: Via) -> Result<(), TestCaseError> {
    let names = Cell { many: 200, ..Cell::NEW };
    let outcome = ask(bytes, via, &names, &settings());
    if bytes.len() < 12 || bytes[2] & 0x80 != 0 {
        prop_assert_eq!(outcome, Outcome::Drop);
        return Ok(());
    }
    let reply = match outcome {
        Outcome::Reply(reply) => reply.message,
        Outcome::Drop => return Err(TestCaseError::fail("a request with an id is answered")),
        Outcome::Forward | Outcome::Miss(_) => {
            failure(bytes, via, dns::Failure::ServerFailure, true).expect("it has an id")
        }
    };
    let limit = if via == Via::Udp { reply_limit(bytes) } else { 65_535 };
    prop_assert!((12..=limit).contains(&reply.len()), "{} bytes", reply.len());
    prop_assert!(limit <= 1_232 || via == Via::Tcp);
    prop_assert_eq!(&reply[..2], &bytes[..2], "the id is that of the request");
    prop_assert!(reply[2] & 0x80 != 0, "it is a response");
    let message = Message::from_vec(&reply);
    prop_assert!(message.is_ok(), "{:?}", message);
    if message.is_ok_and(|message| message.queries.len() == 1) {
        prop_assert!(answers(bytes, &reply), "it is the response to its request");
    }
    prop_assert!(truncated(bytes, true).is_some_and(|reply| reply.len() <= limit));
    Ok(())
}

/// A request to which bytes were written at random places.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let question = prop::sample::select(vec![
        "many.ubar.cc.borg. A",
        "_http._tcp.many.ubar.cc.borg. SRV",
        "none.ubar.cc.borg. A",
        "1.0.0.10.in-addr.arpa. PTR",
        "cc.borg. SOA",
        "example.com. A",
    ]);
    let payload = prop::option::of(any::<u16>());
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (question, payload, changes).prop_map(|(question, payload, changes)| {
        let mut bytes = request(question, payload);
        for (at, to) in changes {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        bytes
    })
}

fn via() -> impl Strategy<Value = Via> {
    prop::sample::select(vec![Via::Udp, Via::Tcp])
}

proptest! {
    #[test]
    fn any_bytes_are_answered_within_the_limit(
        bytes in prop::collection::vec(any::<u8>(), 0..300), via in via(),
    ) {
        check(&bytes, via)?;
    }

    #[test]
    fn damaged_requests_are_answered_within_the_limit(bytes in damaged(), via in via()) {
        check(&bytes, via)?;
    }

    /// Names of labels with every kind of byte.
    #[test]
    fn any_name_is_answered_within_the_limit(
        labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..63), 0..6),
        kind in any::<u16>(), via in via(),
    ) {
        let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in labels {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend(label);
        }
        bytes.extend(b"\x02cc\x04borg\0");
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1]);
        check(&bytes, via)?;
    }
}
