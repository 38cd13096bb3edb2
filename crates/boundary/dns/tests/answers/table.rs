//! The table of answers.

use dns::{Failure, Outcome, Settings, Via, Zone, failure, truncated};
use hickory_proto::op::{Message, ResponseCode};

use crate::cell::{Cell, settings};
use crate::wire::{ask, dig, reply, request};

const SOA: &str = "@cc.borg. 1 SOA master.cc.borg. hostmaster.cc.borg. 42 60 10 3600 1";

#[test]
fn questions_have_these_answers() {
    let (ok, none) = ("NOERROR RD,AA,RA", "NXDOMAIN RD,AA,RA");
    let table: &[(&str, &[&str])] = &[
        // Tasks: running ones, healthy or not.
        ("0.jfoo.ubar.cc.borg. A", &[ok, "0.jfoo.ubar.cc.borg. 5 A 10.0.0.1"]),
        ("2.jfoo.ubar.cc.borg. A", &[ok, "2.jfoo.ubar.cc.borg. 5 A 10.0.0.3"]),
        ("3.jfoo.ubar.cc.borg. A", &[ok, SOA]),
        ("0.jfoo.ubar.cc.borg. AAAA", &[ok, SOA]),
        ("0.dual.ubar.cc.borg. AAAA", &[ok, "0.dual.ubar.cc.borg. 5 AAAA 2001:db8::1"]),
        ("4.jfoo.ubar.cc.borg. A", &[none, SOA]),
        // Jobs: healthy tasks.
        (
            "jfoo.ubar.cc.borg. A",
            &[ok, "jfoo.ubar.cc.borg. 5 A 10.0.0.1", "jfoo.ubar.cc.borg. 5 A 10.0.0.2"],
        ),
        (
            "JFoo.UBAR.cc.Borg. A",
            &[ok, "JFoo.UBAR.cc.Borg. 5 A 10.0.0.1", "JFoo.UBAR.cc.Borg. 5 A 10.0.0.2"],
        ),
        ("jfoo.ubar.cc.borg. AAAA", &[ok, SOA]),
        ("jfoo.ubar.cc.borg. TXT", &[ok, SOA]),
        ("jfoo.ubar.cc.borg. MX", &[ok, SOA]),
        ("sick.ubar.cc.borg. A", &[ok, SOA]),
        ("empty.ana.cc.borg. A", &[ok, SOA]),
        ("none.ubar.cc.borg. A", &[none, SOA]),
        ("none.ubar.cc.borg. TXT", &[none, SOA]),
        // Ports.
        (
            "_http._tcp.jfoo.ubar.cc.borg. SRV",
            &[
                ok,
                "_http._tcp.jfoo.ubar.cc.borg. 5 SRV 0 0 31000 0.jfoo.ubar.cc.borg.",
                "_http._tcp.jfoo.ubar.cc.borg. 5 SRV 0 0 31000 1.jfoo.ubar.cc.borg.",
                "+0.jfoo.ubar.cc.borg. 5 A 10.0.0.1",
                "+1.jfoo.ubar.cc.borg. 5 A 10.0.0.2",
            ],
        ),
        (
            "_rpc._tcp.2.jfoo.ubar.cc.borg. SRV",
            &[
                ok,
                "_rpc._tcp.2.jfoo.ubar.cc.borg. 5 SRV 0 0 31001 2.jfoo.ubar.cc.borg.",
                "+2.jfoo.ubar.cc.borg. 5 A 10.0.0.3",
            ],
        ),
        (
            "_http._tcp.dual.ubar.cc.borg. SRV",
            &[
                ok,
                "_http._tcp.dual.ubar.cc.borg. 5 SRV 0 0 31002 0.dual.ubar.cc.borg.",
                "+0.dual.ubar.cc.borg. 5 A 10.0.0.1",
                "+0.dual.ubar.cc.borg. 5 AAAA 2001:db8::1",
            ],
        ),
        ("_http._tcp.jfoo.ubar.cc.borg. A", &[ok, SOA]),
        ("_http._tcp.sick.ubar.cc.borg. SRV", &[ok, SOA]),
        ("_none._tcp.jfoo.ubar.cc.borg. SRV", &[none, SOA]),
        ("_rpc._tcp.3.jfoo.ubar.cc.borg. SRV", &[none, SOA]),
        ("_http._tcp.none.ubar.cc.borg. SRV", &[none, SOA]),
        ("_http._udp.jfoo.ubar.cc.borg. SRV", &[none, SOA]),
        ("jfoo.ubar.cc.borg. SRV", &[ok, SOA]),
        // Names that exist because of others below them.
        ("ubar.cc.borg. A", &[ok, SOA]),
        ("nobody.cc.borg. A", &[none, SOA]),
        ("_tcp.jfoo.ubar.cc.borg. SRV", &[ok, SOA]),
        ("_tcp.none.ubar.cc.borg. SRV", &[none, SOA]),
        // The replicas and the zone.
        (
            "master.cc.borg. A",
            &[ok, "master.cc.borg. 5 A 10.0.1.1", "master.cc.borg. 5 A 10.0.1.2"],
        ),
        ("0.master.cc.borg. A", &[none, SOA]),
        ("cc.borg. SOA", &[ok, &SOA[1..]]),
        ("cc.borg. NS", &[ok, "cc.borg. 5 NS master.cc.borg."]),
        ("cc.borg. A", &[ok, SOA]),
        ("jfoo.ubar.cc.borg. SOA", &[ok, SOA]),
        ("jfoo.ubar.cc.borg. NS", &[ok, SOA]),
        // Addresses.
        (
            "1.0.0.10.in-addr.arpa. PTR",
            &[
                ok,
                "1.0.0.10.in-addr.arpa. 5 PTR 0.dual.ubar.cc.borg.",
                "1.0.0.10.in-addr.arpa. 5 PTR 0.jfoo.ubar.cc.borg.",
            ],
        ),
        ("1.1.0.10.in-addr.arpa. PTR", &[ok, "1.1.0.10.in-addr.arpa. 5 PTR master.cc.borg."]),
        ("1.0.0.10.in-addr.arpa. A", &["forward"]),
        ("8.8.8.8.in-addr.arpa. PTR", &["forward"]),
        ("0.10.in-addr.arpa. PTR", &["forward"]),
        // Other names, and what nobody may ask.
        ("example.com. A", &["forward"]),
        ("borg. SOA", &["forward"]),
        (". NS", &["forward"]),
        ("lost.ana.cc.borg. A", &["miss Job { user: UserName(ana), job: JobName(lost) }"]),
        (
            "_x._tcp.lost.ana.cc.borg. SRV",
            &["miss Job { user: UserName(ana), job: JobName(lost) }"],
        ),
        ("cc.borg. AXFR", &["REFUSED RD,RA"]),
        ("cc.borg. TYPE251", &["REFUSED RD,RA"]),
        ("example.com. AXFR", &["REFUSED RD,RA"]),
        ("cc.borg. TYPE41", &["FORMERR RD,RA"]),
        ("cc.borg. TYPE250", &["NOTIMP RD,RA"]),
    ];
    for (question, expected) in table {
        for payload in [None, Some(1_232)] {
            let outcome = ask(&request(question, payload), Via::Udp, &Cell::NEW, &settings());
            assert_eq!(dig(&outcome), *expected, "{question}");
        }
    }
}

#[test]
fn an_any_query_is_answered_with_one_record() {
    let any = |question| reply(&ask(&request(question, None), Via::Tcp, &Cell::NEW, &settings()));
    for question in ["jfoo.ubar.cc.borg. ANY", "cc.borg. ANY", "1.0.0.10.in-addr.arpa. ANY"] {
        let message = any(question);
        let [record] = message.answers.as_slice() else { panic!("{question}") };
        assert!(record.data.to_string().contains("RFC8482"), "{question}");
    }
    assert_eq!(any("none.ubar.cc.borg. ANY").metadata.response_code, ResponseCode::NXDomain);
}

#[test]
fn headers_decide() {
    let plain = request("0.jfoo.ubar.cc.borg. A", None);
    let changed = |changes: &[(usize, u8)]| {
        let mut bytes = plain.clone();
        for (at, to) in changes {
            bytes[*at] = *to;
        }
        bytes
    };
    let class = plain.len() - 1;
    let table: [(&str, Vec<u8>, &str); 12] = [
        ("as it is", plain.clone(), "NOERROR RD,AA,RA"),
        ("no recursion desired", changed(&[(2, 0)]), "NOERROR AA,RA"),
        ("a response", changed(&[(2, 0x80)]), "drop"),
        ("IQUERY", changed(&[(2, 0x08)]), "NOTIMP RA"),
        ("NOTIFY", changed(&[(2, 0x20)]), "NOTIMP RA"),
        ("UPDATE", changed(&[(2, 0x28)]), "NOTIMP RA"),
        ("opcode 15", changed(&[(2, 0x78)]), "NOTIMP RA"),
        ("no question", changed(&[(5, 0)]), "FORMERR RD,RA"),
        ("two questions", changed(&[(5, 2)]), "FORMERR RD,RA"),
        ("class CH", changed(&[(class, 3)]), "REFUSED RD,RA"),
        ("class ANY", changed(&[(class, 255)]), "REFUSED RD,RA"),
        ("half a question", plain[..20].to_vec(), "FORMERR RD,RA"),
    ];
    for (what, bytes, expected) in table {
        let outcome = ask(&bytes, Via::Udp, &Cell::NEW, &settings());
        assert_eq!(dig(&outcome)[0], expected, "{what}");
    }
    for length in 0..12 {
        assert_eq!(ask(&plain[..length], Via::Udp, &Cell::NEW, &settings()), Outcome::Drop);
    }
    let foreign = request("example.com. A", None);
    let no_recursion = Settings { recursion: false, ..settings() };
    assert_eq!(dig(&ask(&foreign, Via::Udp, &Cell::NEW, &no_recursion)), ["REFUSED RD"]);
    assert_eq!(dig(&ask(&plain, Via::Udp, &Cell::NEW, &no_recursion))[0], "NOERROR RD,AA");
    let mut not_desired = foreign;
    not_desired[2] = 0;
    assert_eq!(dig(&ask(&not_desired, Via::Udp, &Cell::NEW, &settings())), ["REFUSED RA"]);
}

#[test]
fn edns_is_answered() {
    let edns = |payload, version: u8, options: &[u8]| {
        let mut bytes = request("0.jfoo.ubar.cc.borg. A", Some(payload));
        let at = bytes.len() - 5;
        bytes[at] = version;
        bytes.truncate(bytes.len() - 2);
        bytes.extend(u16::try_from(options.len()).unwrap().to_be_bytes());
        bytes.extend(options);
        reply(&ask(&bytes, Via::Udp, &Cell::NEW, &settings()))
    };
    let message = edns(4_096, 0, &[]);
    let theirs = message.edns.expect("it is repeated");
    assert_eq!((theirs.max_payload(), theirs.version()), (1_232, 0));
    // Unknown options, and options that are malformed: neither is read.
    for options in [&[0xff_u8, 0, 0, 1, 7][..], &[0, 3, 0, 0], &[1], &[0, 8, 0xff, 0xff, 0]] {
        let message = edns(1_232, 0, options);
        assert_eq!(message.metadata.response_code, ResponseCode::NoError, "{options:?}");
        assert_eq!((message.answers.len(), message.edns.is_some()), (1, true));
    }
    let message = edns(1_232, 1, &[]);
    // BADVERS and BADSIG have the same number, and hickory reads it as the latter.
    assert_eq!(u16::from(message.metadata.response_code), 16);
    assert_eq!((message.answers.len(), message.edns.map(|edns| edns.version())), (0, Some(0)));
    let plain = ask(&request("0.jfoo.ubar.cc.borg. A", None), Via::Udp, &Cell::NEW, &settings());
    assert!(reply(&plain).edns.is_none());
}

#[test]
fn an_oversized_answer_is_truncated() {
    // The records of a job's tasks take 16 bytes each, those of its ports 41 and more.
    let table = [
        ("many.ubar.cc.borg. A", 20, None, Via::Udp, 20, false),
        ("many.ubar.cc.borg. A", 100, None, Via::Udp, 29, true),
        ("many.ubar.cc.borg. A", 100, Some(100), Via::Udp, 29, true),
        ("many.ubar.cc.borg. A", 100, Some(800), Via::Udp, 47, true),
        ("many.ubar.cc.borg. A", 100, Some(1_232), Via::Udp, 74, true),
        ("many.ubar.cc.borg. A", 100, Some(65_535), Via::Udp, 74, true),
        ("many.ubar.cc.borg. A", 100, None, Via::Tcp, 100, false),
        ("many.ubar.cc.borg. A", 10_000, None, Via::Tcp, 4_093, true),
        ("_http._tcp.many.ubar.cc.borg. SRV", 100, None, Via::Udp, 11, true),
        ("_http._tcp.many.ubar.cc.borg. SRV", 100, None, Via::Tcp, 100, false),
    ];
    for (question, many, payload, via, answers, truncated) in table {
        let names = Cell { many, ..Cell::NEW };
        let outcome = ask(&request(question, payload), via, &names, &settings());
        let message = reply(&outcome);
        let line = format!("{question} {many} {payload:?} {via:?}");
        assert_eq!(
            (message.answers.len(), message.metadata.truncation),
            (answers, truncated),
            "{line}"
        );
        assert_eq!(message.edns.is_some(), payload.is_some(), "{line}");
        let Outcome::Reply(reply) = outcome else { unreachable!() };
        let limit =
            if via == Via::Tcp { 65_535 } else { dns::reply_limit(&request(question, payload)) };
        assert!(reply.message.len() <= limit, "{line}");
    }
}

#[test]
fn tasks_of_a_job_come_in_random_order() {
    let names = Cell { many: 3, ..Cell::NEW };
    let mut random = model::Random::new(1);
    let mut first = std::collections::BTreeMap::new();
    for _ in 0..600 {
        let request = request("many.ubar.cc.borg. A", None);
        let outcome = dns::answer(&request, Via::Udp, &names, &settings(), &mut random);
        *first.entry(reply(&outcome).answers[0].data.to_string()).or_insert(0) += 1;
    }
    assert!(first.len() == 3 && first.values().all(|times| *times > 150), "{first:?}");
}

#[test]
fn outdated_answers_say_so() {
    let names = Cell { stale: true, ..Cell::NEW };
    for (question, stale) in [
        ("jfoo.ubar.cc.borg. A", true),
        ("none.ubar.cc.borg. A", true),
        ("1.0.0.10.in-addr.arpa. PTR", true),
        ("cc.borg. SOA", false),
    ] {
        let Outcome::Reply(reply) = ask(&request(question, None), Via::Udp, &names, &settings())
        else {
            panic!("{question}");
        };
        assert_eq!(reply.stale, stale, "{question}");
    }
}

#[test]
fn failures_are_replies_too() {
    let asked = request("lost.ana.cc.borg. A", Some(1_232));
    let read = |bytes: Option<Vec<u8>>| Message::from_vec(&bytes.expect("a reply")).expect("whole");
    let message = read(failure(&asked, Via::Udp, Failure::ServerFailure, true));
    assert_eq!(message.metadata.response_code, ResponseCode::ServFail);
    assert_eq!((message.metadata.id, message.queries.len()), (0x1234, 1));
    let message = read(failure(&asked, Via::Udp, Failure::Refused, true));
    assert_eq!(message.metadata.response_code, ResponseCode::Refused);
    assert!(read(truncated(&asked, true)).metadata.truncation);
    assert_eq!(failure(&[], Via::Udp, Failure::Refused, true), None);
    assert_eq!(truncated(&[0; 3], true), None);
}

#[test]
fn a_zone_below_a_domain_answers_for_its_names() {
    let zone = Zone::new(&"cc".parse().unwrap(), Some("example.com")).unwrap();
    let settings = Settings { zone, recursion: true };
    let lines = |question| dig(&ask(&request(question, None), Via::Udp, &Cell::NEW, &settings));
    assert_eq!(
        lines("_http._tcp.0.jfoo.ubar.cc.borg.example.com. SRV")[1..],
        [
            "_http._tcp.0.jfoo.ubar.cc.borg.example.com. 5 SRV 0 0 31000 \
             0.jfoo.ubar.cc.borg.example.com.",
            "+0.jfoo.ubar.cc.borg.example.com. 5 A 10.0.0.1",
        ]
    );
    assert_eq!(lines("jfoo.ubar.cc.borg. A"), ["forward"]);
}
