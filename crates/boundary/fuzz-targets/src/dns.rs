//! A DNS request as anybody may send it: it is answered within the limit, with its id, or dropped. The
//! first byte says whether it comes over UDP or TCP, and how many tasks the job `j.u` has.

use std::sync::Arc;

use dns::{Answer, Endpoint, Lookup, Names, Outcome, Owner, Question, Settings, Via, Zone, answer};
use model::{JobName, Random, TaskIndex, UserName};

/// A cell with one job, which has this many tasks.
struct Cell(u32);

impl Names for Cell {
    fn lookup(&self, question: &Question) -> Lookup {
        let (user, job): (UserName, JobName) =
            ("u".parse().expect("a name"), "j".parse().expect("a name"));
        let task = |index: u32| Endpoint {
            owner: Owner::Task { user: user.clone(), job: job.clone(), index: TaskIndex(index) },
            address: if index.is_multiple_of(2) {
                (0x0a00_0000 + index).to_be_bytes().into()
            } else {
                u128::from(index).to_be_bytes().into()
            },
            ports: vec![("http".parse().expect("a name"), 80)],
            running: index % 5 != 4,
            healthy: index % 7 != 6,
        };
        let found = |indexes: &mut dyn Iterator<Item = u32>| {
            Answer::Found(indexes.map(task).collect::<Vec<_>>().into())
        };
        match question {
            Question::Master => Lookup::Fresh(Answer::Found(Arc::from([]))),
            Question::User(u) if *u == user => Lookup::Fresh(Answer::Found(Arc::from([]))),
            Question::Job { user: u, job: j } if *u == user && *j == job => {
                Lookup::Stale(found(&mut (0..self.0)))
            }
            Question::Task { user: u, job: j, index } if *u == user && *j == job => {
                Lookup::Fresh(found(&mut std::iter::once(index.0 % 1_000)))
            }
            Question::Address(address) if address.is_ipv4() => {
                Lookup::Fresh(found(&mut (0..self.0)))
            }
            Question::Job { .. } => Lookup::Missing,
            _ => Lookup::Fresh(Answer::NoSuchName),
        }
    }
}

pub(crate) fn run(input: &[u8]) {
    let Some((first, request)) = input.split_first() else { return };
    let via = if first & 1 == 0 { Via::Udp } else { Via::Tcp };
    let zone = Zone::new(&"c".parse().expect("a name"), None).expect("a zone");
    let settings = Settings { zone, recursion: first & 2 == 0 };
    let cell = Cell(u32::from(first >> 2) * 4);
    let message = match answer(request, via, &cell, &settings, &mut Random::new(1)) {
        Outcome::Reply(reply) => reply.message,
        Outcome::Drop => {
            assert!(request.len() < 12 || request[2] & 0x80 != 0, "requests are answered");
            assert_eq!(dns::failure(request, via, dns::Failure::Refused, true), None);
            return;
        }
        Outcome::Forward | Outcome::Miss(_) => {
            dns::failure(request, via, dns::Failure::ServerFailure, true).expect("it has an id")
        }
    };
    let limit = if via == Via::Udp { dns::reply_limit(request) } else { 65_535 };
    assert!((12..=limit).contains(&message.len()), "{} bytes", message.len());
    assert_eq!(message[..2], request[..2], "the id");
    assert!(message[2] & 0x80 != 0, "it is a response");
    // Its question is that of the request, if it has one.
    assert!(message[5] == 0 || dns::answers(request, &message), "the question");
    assert!(dns::truncated(request, true).is_some_and(|short| short.len() <= limit));
}
