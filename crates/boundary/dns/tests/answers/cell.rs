//! A small cell for the tests.

use std::net::IpAddr;
use std::sync::Arc;

use dns::{Answer, Endpoint, Lookup, Names, Owner, Question, Settings, Zone};
use model::TaskIndex;

/// One line for each task: `USER JOB INDEX ADDRESS STATE PORT...`.
const TASKS: &str = "
    ubar jfoo 0 10.0.0.1 healthy http=31000 rpc=31001
    ubar jfoo 1 10.0.0.2 healthy http=31000 rpc=31001
    ubar jfoo 2 10.0.0.3 unhealthy http=31000 rpc=31001
    ubar jfoo 3 10.0.0.4 pending http=31000
    ubar dual 0 10.0.0.1 healthy http=31002
    ubar dual 0 2001:db8::1 healthy http=31002
    ubar sick 0 10.0.0.9 unhealthy http=31000
    ana empty - 0.0.0.0 pending
    ana lost - 0.0.0.0 missing
";

/// The names of a cell, from [`TASKS`] and as many healthy tasks of `ubar`'s job `many` as wanted.
pub(crate) struct Cell {
    pub(crate) many: u32,
    pub(crate) stale: bool,
}

impl Cell {
    pub(crate) const NEW: Self = Self { many: 0, stale: false };

    fn endpoints(&self) -> Vec<Endpoint> {
        let line = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let port = |port: &str| {
                let (name, number) = port.split_once('=').expect("NAME=NUMBER");
                (name.parse().expect("a port name"), number.parse().expect("a port"))
            };
            let index = words[2].parse().ok()?;
            Some(Endpoint {
                owner: Owner::Task {
                    user: words[0].parse().expect("a name"),
                    job: words[1].parse().expect("a name"),
                    index: TaskIndex(index),
                },
                address: words[3].parse().expect("an address"),
                ports: words[5..].iter().copied().map(port).collect(),
                running: words[4] != "pending",
                healthy: words[4] == "healthy",
            })
        };
        let mut all: Vec<_> =
            TASKS.lines().filter(|text| !text.trim().is_empty()).filter_map(line).collect();
        all.extend((0..self.many).map(|index| Endpoint {
            owner: Owner::Task {
                user: "ubar".parse().expect("a name"),
                job: "many".parse().expect("a name"),
                index: TaskIndex(index),
            },
            address: IpAddr::from((0x0a01_0000 + index).to_be_bytes()),
            ports: vec![("http".parse().expect("a name"), 31_000)],
            running: true,
            healthy: true,
        }));
        let replica = |address: &str| Endpoint {
            owner: Owner::Master,
            address: address.parse().expect("an address"),
            ports: Vec::new(),
            running: true,
            healthy: true,
        };
        all.extend(["10.0.1.1", "10.0.1.2"].map(replica));
        all
    }

    fn find(&self, question: &Question) -> Option<Answer> {
        let is = |endpoint: &Endpoint| match (&endpoint.owner, question) {
            (owner, Question::Master) => *owner == Owner::Master,
            (_, Question::Address(address)) => endpoint.address == *address && endpoint.running,
            (Owner::Task { user: u, job: j, .. }, Question::Job { user, job }) => {
                u == user && j == job
            }
            (Owner::Task { user: u, job: j, index: i }, Question::Task { user, job, index }) => {
                u == user && j == job && i == index
            }
            _ => false,
        };
        let found: Vec<_> = self.endpoints().into_iter().filter(is).collect();
        let word = |at: usize, text: &str| {
            TASKS.lines().any(|line| line.split_whitespace().nth(at) == Some(text))
        };
        match question {
            Question::User(user) => {
                let found = Answer::Found(Arc::from([]));
                Some(if word(0, user.as_str()) { found } else { Answer::NoSuchName })
            }
            Question::Job { job, .. } if job.as_str() == "lost" => None,
            Question::Job { job, .. } if word(1, job.as_str()) => Some(Answer::Found(found.into())),
            _ if found.is_empty() => Some(Answer::NoSuchName),
            _ => Some(Answer::Found(found.into())),
        }
    }
}

impl Names for Cell {
    fn lookup(&self, question: &Question) -> Lookup {
        match self.find(question) {
            None => Lookup::Missing,
            Some(answer) if self.stale => Lookup::Stale(answer),
            Some(answer) => Lookup::Fresh(answer),
        }
    }

    fn serial(&self) -> u32 {
        42
    }
}

/// The zone `cc.borg.`, with foreign names.
pub(crate) fn settings() -> Settings {
    Settings {
        zone: Zone::new(&"cc".parse().expect("a name"), None).expect("a zone"),
        recursion: true,
    }
}
