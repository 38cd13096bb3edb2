//! Records and their changes while a cell goes on: scripts as an operator would type them, and random
//! ones.

use std::collections::{BTreeMap, BTreeSet};

use bns::{Changes, Stage, TaskRecord};
use cell::{Cell, Health, Job, Service};
use expect_test::{Expect, expect};
use model::LogIndex;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use script::Script;

const BEGINNING: [&str; 3] = [
    "bootstrap cc root",
    "machine m1 address=10.0.0.1:7801 ports=31000-31007",
    "machine m2 address=10.0.0.2:7801 ports=31000-31007",
];

/// A task's record in one line.
fn shown(task: &TaskRecord<'_>) -> String {
    let ports: Vec<String> = task.ports().map(|(name, port)| format!(" {name}={port}")).collect();
    let stage = match task.stage {
        Stage::Starting => "starting",
        Stage::Running => "running",
        Stage::Stopping => "stopping",
    };
    let health = match task.health {
        Health::Unknown => "unknown",
        Health::Healthy => "healthy",
        Health::Unhealthy => "unhealthy",
        Health::Unready => "unready",
    };
    let reachable = if task.reachable { "" } else { ", unreachable" };
    let serves = if task.serves() { ", serves" } else { "" };
    let (index, generation, host) = (task.index, task.generation, &task.host);
    let ports = ports.concat();
    format!("  {index}-{generation} on {host}{ports}, {stage}, {health}{reachable}{serves}\n")
}

/// A job's record as text.
fn record(cell: &Cell, job: &Job) -> String {
    let tasks: String = bns::tasks(cell, job).map(|task| shown(&task)).collect();
    format!("{}/{} of {}\n{tasks}", job.owner, job.spec.name, job.spec.tasks)
}

/// The beginning of a service's record.
fn service_heading(service: &Service) -> String {
    format!("{}/{} at {} of {}\n", service.owner, service.name, service.port, service.labels)
}

/// The line of a task behind a service.
fn behind(job: &Job, task: &TaskRecord<'_>) -> String {
    format!("  {}/{}{}", job.owner, job.spec.name, shown(task))
}

/// A service's record as text, as a watch gets it.
fn service_record(cell: &Cell, changes: &Changes, service: &Service) -> String {
    let tasks = bns::service_tasks(cell, changes, service);
    let tasks: String = tasks.map(|(job, task)| behind(job, &task)).collect();
    service_heading(service) + &tasks
}

/// The same, from all jobs of the cell.
fn expected_service_record(cell: &Cell, service: &Service) -> String {
    let mut text = service_heading(service);
    for job in cell.jobs().filter(|job| job.is_alive() && !job.spec.kind.is_alloc_set()) {
        let granted = job.owner == service.owner || service.users.contains(&job.owner);
        let labels = &job.spec.labels;
        if !(granted && service.labels.holds(|key| labels.get(key).map(String::as_str))) {
            continue;
        }
        for task in bns::tasks(cell, job) {
            let Some(port) = task.ports().find(|(name, _)| **name == service.port) else {
                continue;
            };
            let ports = (vec![port.0.clone()].into(), vec![port.1].into());
            text += &behind(job, &TaskRecord { ports, ..task.clone() });
        }
    }
    text
}

/// All records, by name.
fn all(cell: &Cell) -> BTreeMap<(String, String), String> {
    let jobs = cell.jobs().filter(|job| bns::is_named(job));
    jobs.map(|job| {
        let name = (job.owner.to_string(), job.spec.name.to_string());
        (name, record(cell, job))
    })
    .chain(cell.services().map(|service| {
        let name = (service.owner.to_string(), service.name.to_string());
        (name, expected_service_record(cell, service))
    }))
    .collect()
}

/// The expected text is the script: below each line what a watch gets.
#[track_caller]
fn session(expected: &Expect) {
    let mut script = Script::default();
    for line in BEGINNING {
        script.command(line).unwrap_or_else(|error| panic!("'{line}': {error}"));
    }
    let mut changes = Changes::of(script.cell());
    let mut text = String::new();
    let lines = expected.data().lines().map(str::trim_start);
    for line in lines.filter_map(|line| line.strip_prefix("> ")) {
        let mut cell = script.cell().clone();
        let steps = script.command(line).unwrap_or_else(|error| panic!("'{line}': {error}"));
        let seen = changes.index();
        for step in steps {
            cell.apply(step.at, &step.op);
            changes.applied(&cell, &step.applied.events);
        }
        text += &format!("> {line}\n");
        for key in changes.after(seen).expect("they are known") {
            let (user, job) = &**key;
            text += &match bns::named(script.cell(), user, job) {
                Some(job) => record(script.cell(), job),
                None => match script.cell().service(user, job) {
                    Some(service) => service_record(script.cell(), &changes, service),
                    None => format!("{user}/{job} is gone\n"),
                },
            };
        }
    }
    expected.assert_eq(&text);
}

#[test]
fn a_record_follows_its_tasks_from_start_to_end() {
    session(&expect![[r#"
        > submit ana/web 2 ports=http
        ana/web of 2
        > assign 1-0-1 m1 31000 ; 1-1-1 m2 31000
        ana/web of 2
          0-1 on 10.0.0.1 http=31000, starting, unknown
          1-1 on 10.0.0.2 http=31000, starting, unknown
        > started 1-0-1
        ana/web of 2
          0-1 on 10.0.0.1 http=31000, running, healthy, serves
          1-1 on 10.0.0.2 http=31000, starting, unknown
        > started 1-1-1
        ana/web of 2
          0-1 on 10.0.0.1 http=31000, running, healthy, serves
          1-1 on 10.0.0.2 http=31000, running, healthy, serves
        > health 1-1-1 bad
        ana/web of 2
          0-1 on 10.0.0.1 http=31000, running, healthy, serves
          1-1 on 10.0.0.2 http=31000, running, unhealthy
        > unreachable m1
        ana/web of 2
          0-1 on 10.0.0.1 http=31000, running, healthy, unreachable
          1-1 on 10.0.0.2 http=31000, running, unhealthy
        > back m1
        ana/web of 2
          0-1 on 10.0.0.1 http=31000, running, healthy, serves
          1-1 on 10.0.0.2 http=31000, running, unhealthy
        > submit ana/web 2 ports=http
        > reserve 1-0-1 cpu=50
        > drain m1
        ana/web of 2
          0-1 on 10.0.0.1 http=31000, stopping, healthy
          1-1 on 10.0.0.2 http=31000, running, unhealthy
        > ended 1-0-1 stopped
        ana/web of 2
          1-1 on 10.0.0.2 http=31000, running, unhealthy
        > kill ana/web
        ana/web of 2
          1-1 on 10.0.0.2 http=31000, stopping, unhealthy
        > ended 1-1-1 stopped
        ana/web is gone
        > submit ana/web 1
        ana/web of 1
        > submit bob/room 1 allocs=none
    "#]]);
}

#[test]
fn a_record_of_a_service_follows_the_jobs_behind_it() {
    session(&expect![[r#"
        > service ana/web http app=web
        ana/web at http of app=web
        > submit ana/blue 1 ports=rpc,http label=app:web
        ana/blue of 1
        ana/web at http of app=web
        > submit bob/green 1 ports=http label=app:web
        bob/green of 1
        > submit ana/other 1 ports=http label=app:other
        ana/other of 1
        > submit ana/portless 1 label=app:web
        ana/portless of 1
        ana/web at http of app=web
        > assign 1-0-1 m1 31000 31001 ; 2-0-1 m2 31000 ; 4-0-1 m2
        ana/blue of 1
          0-1 on 10.0.0.1 http=31000 rpc=31001, starting, unknown
        ana/portless of 1
          0-1 on 10.0.0.2, starting, unknown
        ana/web at http of app=web
          ana/blue  0-1 on 10.0.0.1 http=31000, starting, unknown
        bob/green of 1
          0-1 on 10.0.0.2 http=31000, starting, unknown
        > started 1-0-1
        ana/blue of 1
          0-1 on 10.0.0.1 http=31000 rpc=31001, running, healthy, serves
        ana/web at http of app=web
          ana/blue  0-1 on 10.0.0.1 http=31000, running, healthy, serves
        > started 4-0-1
        ana/portless of 1
          0-1 on 10.0.0.2, running, healthy, serves
        ana/web at http of app=web
          ana/blue  0-1 on 10.0.0.1 http=31000, running, healthy, serves
        > service ana/web http app=web bob
        ana/web at http of app=web
          ana/blue  0-1 on 10.0.0.1 http=31000, running, healthy, serves
          bob/green  0-1 on 10.0.0.2 http=31000, starting, unknown
        > started 2-0-1
        ana/web at http of app=web
          ana/blue  0-1 on 10.0.0.1 http=31000, running, healthy, serves
          bob/green  0-1 on 10.0.0.2 http=31000, running, healthy, serves
        bob/green of 1
          0-1 on 10.0.0.2 http=31000, running, healthy, serves
        > unreachable m2
        ana/portless of 1
          0-1 on 10.0.0.2, running, healthy, unreachable
        ana/web at http of app=web
          ana/blue  0-1 on 10.0.0.1 http=31000, running, healthy, serves
          bob/green  0-1 on 10.0.0.2 http=31000, running, healthy, unreachable
        bob/green of 1
          0-1 on 10.0.0.2 http=31000, running, healthy, unreachable
        > back m2
        ana/portless of 1
          0-1 on 10.0.0.2, running, healthy, serves
        ana/web at http of app=web
          ana/blue  0-1 on 10.0.0.1 http=31000, running, healthy, serves
          bob/green  0-1 on 10.0.0.2 http=31000, running, healthy, serves
        bob/green of 1
          0-1 on 10.0.0.2 http=31000, running, healthy, serves
        > service ana/web rpc app=web bob
        ana/web at rpc of app=web
          ana/blue  0-1 on 10.0.0.1 rpc=31001, running, healthy, serves
        > service ana/web http app=web
        ana/web at http of app=web
          ana/blue  0-1 on 10.0.0.1 http=31000, running, healthy, serves
        > submit ana/web 1
        > kill ana/blue
        ana/blue of 1
          0-1 on 10.0.0.1 http=31000 rpc=31001, stopping, healthy
        ana/web at http of app=web
          ana/blue  0-1 on 10.0.0.1 http=31000, stopping, healthy
        > ended 1-0-1 stopped
        ana/blue is gone
        ana/web at http of app=web
        > delete-service ana/web
        ana/web is gone
        > submit ana/web 1
        ana/web of 1
    "#]]);
}

/// A line of a random script. Names of tasks are filled in from the cell.
#[derive(Clone, Debug)]
enum Line {
    Plain(String),
    Place { task: Index, machine: Index },
    Report { task: Index, what: &'static str },
}

fn line() -> impl Strategy<Value = Line> {
    let job = || select(vec!["ana/web", "ana/db", "bob/web"]);
    let machine = || select(vec!["m1", "m2", "m3"]);
    let what = select(vec![
        "started",
        "started",
        "started",
        "health good",
        "health bad",
        "ended exit 0",
        "ended signal 9",
        "ended stopped",
    ]);
    let options =
        select(vec!["", " ports=http", " label=a:b ports=http", " label=a:b", " cmd=new"]);
    let name = || select(vec!["ana/all", "ana/web", "bob/all"]);
    let service =
        select(vec!["http a=b", "http a=b bob", "http a bob eve", "rpc a", "http !a bob"]);
    let on_machine = select(vec!["unreachable", "silent", "back", "drain", "undrain", "describe"]);
    prop_oneof![
        6 => (any::<Index>(), any::<Index>()).prop_map(|(task, machine)| Line::Place { task, machine }),
        8 => (any::<Index>(), what).prop_map(|(task, what)| Line::Report { task, what }),
        3 => (job(), 0..4_u32, options)
            .prop_map(|(job, tasks, options)| Line::Plain(format!("submit {job} {tasks}{options}"))),
        1 => job().prop_map(|job| Line::Plain(format!("kill {job}"))),
        2 => (name(), service).prop_map(|(name, of)| Line::Plain(format!("service {name} {of}"))),
        1 => name().prop_map(|name| Line::Plain(format!("delete-service {name}"))),
        1 => (job(), 0..4_u32).prop_map(|(job, tasks)| Line::Plain(format!("resize {job} {tasks}"))),
        2 => (on_machine, machine()).prop_map(|(what, on)| Line::Plain(format!("{what} {on}"))),
        1 => (machine(), 1..4_u32)
            .prop_map(|(on, host)| Line::Plain(format!("machine {on} address=10.0.1.{host}:7801 ports=31000-31007"))),
        1 => machine().prop_map(|on| Line::Plain(format!("remove {on}"))),
        1 => (1..6_u64).prop_map(|job| Line::Plain(format!("forget {job}"))),
    ]
}

impl Line {
    fn text(&self, cell: &Cell) -> Option<String> {
        let placed = |is_placed: bool| {
            let tasks = cell.jobs().flat_map(|job| {
                let of = job.tasks().filter(move |(_, task)| {
                    matches!(task.state, cell::TaskState::Running(_)) == is_placed
                });
                of.filter_map(|(index, _)| job.instance(index))
            });
            tasks.collect::<Vec<_>>()
        };
        match self {
            Self::Plain(text) => Some(text.clone()),
            Self::Place { task, machine } => {
                let (tasks, machines) = (placed(false), cell.machines().collect::<Vec<_>>());
                let (task, machine) = (task.get_in(&tasks)?, machine.get_in(&machines)?);
                let port = machine.free_ports(1, &[]).first().copied();
                let ports = port.filter(|_| {
                    cell.job(task.collection).is_some_and(|job| !job.ports(task.index).is_empty())
                });
                let ports = ports.map_or_else(String::new, |port| format!(" {port}"));
                Some(format!("assign {task} {}{ports}", machine.name))
            }
            Self::Report { task, what } => {
                let tasks = placed(true);
                let (what, rest) = what.split_once(' ').unwrap_or((what, ""));
                Some(format!("{what} {} {rest}", task.get_in(&tasks)?))
            }
        }
    }
}

trait GetIn {
    fn get_in<'a, T>(&self, among: &'a [T]) -> Option<&'a T>;
}

impl GetIn for Index {
    fn get_in<'a, T>(&self, among: &'a [T]) -> Option<&'a T> {
        (!among.is_empty()).then(|| self.get(among))
    }
}

/// What a reader has: the index of the last answer, and the records as they were then.
#[derive(Clone)]
struct Reader {
    after: LogIndex,
    records: BTreeMap<(String, String), String>,
}

impl Reader {
    /// Takes in what a replica says that has applied the log up to this cell.
    fn ask(&mut self, cell: &Cell, changes: &Changes) {
        match changes.after(self.after) {
            Ok(keys) => {
                for key in keys {
                    let name = (key.0.to_string(), key.1.to_string());
                    match bns::named(cell, &key.0, &key.1) {
                        Some(job) => drop(self.records.insert(name, record(cell, job))),
                        None => match cell.service(&key.0, &key.1) {
                            Some(service) => {
                                let record = service_record(cell, changes, service);
                                self.records.insert(name, record);
                            }
                            None => drop(self.records.remove(&name)),
                        },
                    }
                }
            }
            // It began after that: everything comes again.
            Err(_) => self.records = all(cell),
        }
        self.after = changes.index();
    }
}

/// The operations of random lines.
fn log(lines: &[Line]) -> Vec<script::Step> {
    let mut script = Script::default();
    let mut log = Vec::new();
    for line in BEGINNING {
        log.extend(script.command(line).expect("a line"));
    }
    for line in lines {
        if let Some(text) = line.text(script.cell()) {
            // What the cell rejects changes nothing; a name may not exist.
            log.extend(script.command(&text).into_iter().flatten());
        }
    }
    log
}

/// The states of the cell, each with what is known of changes: after each operation.
fn replayed(log: &[script::Step], from: usize) -> Vec<(Cell, Changes)> {
    let mut cell = Cell::empty();
    for step in &log[..from] {
        cell.apply(step.at, &step.op);
    }
    let mut changes = Changes::of(&cell);
    let mut states = vec![(cell.clone(), changes.clone())];
    for step in &log[from..] {
        cell.apply(step.at, &step.op);
        changes.applied(&cell, &step.applied.events);
        states.push((cell.clone(), changes.clone()));
    }
    states
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Each operation marks exactly the names whose record it may have changed: a record that is
    /// different after it is marked with its index, and so it is at every replica, wherever it began.
    #[test]
    fn changes_follow_from_each_operation(
        lines in prop::collection::vec(line(), 1..60),
        began in any::<Index>(),
    ) {
        let log = log(&lines);
        let states = replayed(&log, 0);
        for (before, (cell, changes)) in states.iter().zip(&states[1..]) {
            let (then, now) = (all(&before.0), all(cell));
            let names: BTreeSet<_> = then.keys().chain(now.keys()).collect();
            for name in names.into_iter().filter(|name| then.get(*name) != now.get(*name)) {
                let (user, job) = (name.0.parse().expect("a user"), name.1.parse().expect("a job"));
                let changed = changes.changed(&user, &job);
                prop_assert_eq!(changed, Some(cell.index()), "{:?} at {}", name, cell.index());
            }
        }
        // A replica that began later says the same of what it has seen.
        let began = began.index(states.len());
        for (one, other) in states[began..].iter().zip(replayed(&log, began)) {
            let since = states[began].0.index();
            let keys = |changes: &Changes| -> Vec<bns::NameKey> {
                changes.after(since).expect("known").cloned().collect()
            };
            prop_assert_eq!(keys(&one.1), keys(&other.1));
        }
        // An index before all that is known is told so.
        if began > 0 {
            let later = replayed(&log, began);
            prop_assert!(later[0].1.after(states[began - 1].0.index()).is_err());
        }
    }

    /// A reader that moves between replicas, some of which lag and catch up at once, or began later,
    /// has the same records as one that reads everything.
    #[test]
    fn a_watch_from_any_index_arrives_at_the_same_records(
        lines in prop::collection::vec(line(), 1..60),
        began in prop::collection::vec(any::<Index>(), 2),
        moves in prop::collection::vec((0..3_usize, any::<Index>(), any::<bool>()), 1..40),
    ) {
        let log = log(&lines);
        let mut replicas = vec![(0, replayed(&log, 0))];
        replicas.extend(began.iter().map(|began| began.index(log.len())).map(|it| (it, replayed(&log, it))));
        let mut readers = vec![Reader { after: LogIndex(0), records: BTreeMap::new() }];
        for (replica, at, splits) in moves {
            let (first, states) = &replicas[replica];
            let at = at.index(log.len() + 1).max(*first);
            let (cell, changes) = &states[at - first];
            let now = all(cell);
            if splits {
                // Somebody who goes on from here elsewhere.
                readers.push(readers[readers.len() - 1].clone());
            }
            for reader in &mut readers {
                // A replica that is behind answers when it is not any more.
                if reader.after > cell.index() {
                    continue;
                }
                reader.ask(cell, changes);
                prop_assert_eq!(&reader.records, &now, "at {}", cell.index());
            }
        }
    }
}
