//! Bytes and JSON as they have been written since the first level: a change here makes logs and
//! snapshots on disks unreadable, unless it comes with a new level.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use cell::{
    Assignment, Cell, Death, Health, Image, Job, JobState, LastLife, Machine, MachineState,
    Mutation, Observation, Op, PendingCause, Phase, Placement, Rejection, Reply, RequestId,
    Session, Task, TaskState,
};
use expect_test::expect_file;
use model::{
    Appclass, Band, Bytes, CollectionId, End, Generation, InstanceId, LogIndex, MachineId,
    MachineReport, MilliCores, NameError, PortRange, Resources, SessionId, Span, TaskIndex,
    TaskSelection, Time,
};
use proto::image::{read_image, state_hash};
use proto::json::job_to_json;
use proto::log::{decode_record, encode_record};
use spec::{HealthCheck, JobSpec, RestartPolicy, TaskOverride, TaskSpec};

use crate::history::parts;

fn name<N: std::str::FromStr<Err = NameError>>(text: &str) -> N {
    text.parse().expect("a name")
}

fn words<const N: usize>(words: [(&str, &str); N]) -> BTreeMap<String, String> {
    words.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn resources(cpu: u64, ram: u64, disk: u64, rate: u64) -> Resources {
    let (cpu, ram) = (MilliCores(cpu), Bytes(ram));
    Resources { cpu, ram, disk: Bytes(disk), disk_rate: Bytes(rate) }
}

/// A job in which every field says something.
pub(crate) fn full_job() -> JobSpec {
    let task = TaskSpec {
        cmd: vec!["serve".to_owned(), "--port=${port.http}".to_owned()],
        env: words([("GREETING", "hello"), ("SHARD", "${task.index}")]),
        limit: resources(250, 64 << 20, 1 << 30, 10_000_000),
        processes: 512,
        ports: BTreeSet::from([name("admin")]),
        health_check: Some(HealthCheck {
            port: name("http"),
            path: "/healthz".to_owned(),
            interval: Span::from_secs(1),
            timeout: Span::from_millis(1_500),
            start_grace: Span(30_000_001),
            failures_max: 3,
        }),
        notice: Span::from_secs(10),
    };
    let change = TaskOverride {
        cmd: Some(vec!["serve".to_owned(), "--canary".to_owned()]),
        env: words([("GREETING", "hallo")]),
        limit: Some(resources(500, 128 << 20, 0, 0)),
        processes: Some(1_024),
    };
    JobSpec {
        name: name("web"),
        priority: Band::Production.usual(),
        appclass: Appclass::LatencySensitive,
        labels: words([("team", "search")]),
        tasks: 8,
        task,
        overrides: [(TaskIndex(7), change)].into(),
        restart: RestartPolicy {
            failures_max: Some(0),
            delay: Span::ZERO,
            delay_max: Span::from_secs(300),
        },
    }
}

fn instance(index: u32) -> InstanceId {
    let (collection, generation) = (CollectionId(1), Generation(2));
    InstanceId { collection, index: TaskIndex(index), generation }
}

fn machine_report() -> MachineReport {
    MachineReport {
        capacity: resources(64_000, 256 << 30, 1 << 40, 0),
        ports: PortRange { first: 31_000, last: 31_255 },
        attributes: words([("kernel", "6.1"), ("platform", "x86-64")]),
    }
}

fn ends() -> Vec<End> {
    let reason = "no such program".to_owned();
    vec![
        End::Exited { code: 0 },
        End::Exited { code: 255 },
        End::Signalled { signal: 9 },
        End::OutOfMemory { limit: Bytes(64 << 20), peak: Bytes(65 << 20) },
        End::NotStarted { reason: reason.clone() },
        End::Unhealthy { reason: reason.clone() },
        End::Stopped,
        End::Lost { reason },
    ]
}

fn requests() -> Vec<Mutation> {
    let range = (TaskIndex(0), TaskIndex(4));
    vec![
        Mutation::Submit(Arc::new(full_job())),
        Mutation::Kill { collection: CollectionId(1), tasks: TaskSelection::All },
        Mutation::Kill {
            collection: CollectionId(1),
            tasks: TaskSelection::Some(vec![range, (TaskIndex(7), TaskIndex(7))]),
        },
        Mutation::AddMachine { name: name("m1"), address: "10.0.0.1:4711".to_owned() },
    ]
}

/// Each kind of operation at least once.
fn all_ops() -> Vec<Op> {
    let machine = MachineId(3);
    let ended = |end| Observation::Ended { instance: instance(0), end };
    let mut observations = vec![
        Observation::Started { instance: instance(0) },
        Observation::Health { instance: instance(0), healthy: true },
        Observation::Health { instance: instance(0), healthy: false },
    ];
    observations.extend(ends().into_iter().map(ended));
    let assignment = |index, ports| Assignment { instance: instance(index), machine, ports };
    let mut ops = vec![
        Op::Nothing,
        Op::Found { name: name("dev"), administrator: name("ana") },
        Op::OpenSession { user: name("ana") },
        Op::Assign(vec![assignment(0, vec![31_000, 31_001]), assignment(1, vec![])]),
        Op::Observe { machine, observations },
        Op::DescribeMachine { machine, report: Arc::new(machine_report()) },
        Op::MachineSilent { machine },
        Op::MachineBack { machine },
        Op::Forget { collections: vec![CollectionId(1), CollectionId(300)] },
    ];
    let id = RequestId { session: SessionId(1), sequence: 2 };
    let request = |mutation| Op::Request { id, by: name("ana"), mutation };
    ops.extend(requests().into_iter().map(request));
    ops
}

/// A new kind of operation does not compile until it has a name here, and then wants an example.
fn kind(op: &Op) -> &'static str {
    match op {
        Op::Nothing => "nothing",
        Op::Found { .. } => "found",
        Op::OpenSession { .. } => "open session",
        Op::Request { mutation: Mutation::Submit(_), .. } => "submit",
        Op::Request { mutation: Mutation::Kill { tasks: TaskSelection::All, .. }, .. } => {
            "kill all"
        }
        Op::Request { mutation: Mutation::Kill { .. }, .. } => "kill some",
        Op::Request { mutation: Mutation::AddMachine { .. }, .. } => "add machine",
        Op::Assign(_) => "assign",
        Op::Observe { .. } => "observe",
        Op::DescribeMachine { .. } => "describe machine",
        Op::MachineSilent { .. } => "machine silent",
        Op::MachineBack { .. } => "machine back",
        Op::Forget { .. } => "forget",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(digit).collect()
}

#[test]
fn records_keep_their_bytes() {
    let at = Time(1_700_000_000_000_000);
    let mut lines = String::new();
    for op in all_ops() {
        let _ = writeln!(lines, "{}: {}", kind(&op), hex(&encode_record(at, &op)));
    }
    expect_file!["golden/log_records.txt"].assert_eq(&lines);
    // What stands in the file, and not only what was just written, can be read.
    let kept = include_str!("golden/log_records.txt").lines();
    let read = kept.map(|line| {
        let (_, bytes) = line.split_once(": ").expect("a line");
        decode_record(&unhex(bytes)).expect("a record")
    });
    let written: Vec<_> = all_ops().into_iter().map(|op| (at, op)).collect();
    assert_eq!(read.collect::<Vec<_>>(), written);
}

#[test]
fn a_job_keeps_its_canonical_json() {
    let job = full_job();
    assert_eq!(job.problems(), []);
    expect_file!["golden/job.json"].assert_eq(&format!("{}\n", job_to_json(&job)));
}

/// Two of every kind of object, in each of their states.
pub(crate) fn full_image() -> Image {
    let jobs = [job_alive(), job_dead()].map(Arc::new).into();
    let machine = |id, text, state, report| {
        let name = name(text);
        Arc::new(Machine::restore(MachineId(id), name, &format!("{text}:1"), state, report, 31_002))
    };
    let machines = vec![
        machine(1, "m1", MachineState::Joining, MachineReport::default()),
        machine(2, "m2", MachineState::Down { since: Time(9) }, machine_report()),
        machine(3, "m3", MachineState::Up, machine_report()),
    ];
    let session = |user, answers| {
        Arc::new(Session { user: name(user), used: LogIndex(7), answers, forgotten: 1 })
    };
    let sessions = vec![
        (SessionId(1), session("ana", (2..).zip(answers()).collect())),
        (SessionId(2), session("ben", BTreeMap::new())),
    ];
    Image {
        name: Some(name("dev")),
        administrators: vec![name("ana"), name("root")],
        index: LogIndex(9),
        time: Time(100),
        last_collection: CollectionId(4),
        last_machine: MachineId(5),
        last_session: SessionId(6),
        jobs,
        machines,
        sessions,
    }
}

fn job_alive() -> Job {
    let life = |end| Arc::new(LastLife { generation: Generation(1), machine: MachineId(3), end });
    let task = |end: Option<End>, state| Task {
        generation: Generation(2),
        failures: 3,
        last_life: end.map(life),
        state,
    };
    let pending = |cause| TaskState::Pending { since: Time(5), not_before: Time(6), cause };
    let placed = |phase, port: u16, killed_by| {
        let (machine, ports) = (MachineId(3), Arc::from([port, port + 1]));
        TaskState::Running(Placement { machine, ports, since: Time(7), phase, killed_by })
    };
    let started = |health| Phase::Started { at: Time(8), health };
    let states = [
        pending(PendingCause::Submitted),
        placed(Phase::Starting, 31_000, None),
        placed(started(Health::Unknown), 31_010, Some(name("ana"))),
        placed(started(Health::Healthy), 31_020, None),
        placed(started(Health::Unhealthy), 31_030, None),
        pending(PendingCause::Failed),
        pending(PendingCause::Lost),
        TaskState::Dead { at: Time(9), death: Death::Killed },
    ];
    let ends = ends().into_iter().map(Some).chain(std::iter::repeat(None));
    let tasks = ends.zip(states).map(|(end, state)| task(end, state)).collect();
    let spec = Arc::new(full_job());
    Job::restore(CollectionId(1), name("ana"), spec, Time(1), JobState::Running, tasks)
}

fn job_dead() -> Job {
    let mut spec = full_job();
    (spec.name, spec.tasks, spec.restart.failures_max) = (name("batch"), 2, None);
    (spec.task.health_check, spec.overrides) = (None, BTreeMap::new());
    let dead = |death| Task {
        generation: Generation(1),
        failures: 0,
        last_life: Some(Arc::new(LastLife {
            generation: Generation(1),
            machine: MachineId(3),
            end: End::Exited { code: 0 },
        })),
        state: TaskState::Dead { at: Time(4), death },
    };
    let tasks = vec![dead(Death::Finished), dead(Death::Failed)];
    let state = JobState::Dead { at: Time(4) };
    Job::restore(CollectionId(2), name("ben"), Arc::new(spec), Time(2), state, tasks)
}

fn answers() -> Vec<Result<Reply, Rejection>> {
    let text = || "something".to_owned();
    let session = SessionId(9);
    vec![
        Ok(Reply::Session(session)),
        Ok(Reply::Submitted { collection: CollectionId(1), unchanged: true }),
        Ok(Reply::Killed { tasks: 3 }),
        Ok(Reply::MachineAdded(MachineId(3))),
        Err(Rejection::NotFounded),
        Err(Rejection::NoSuchSession(session)),
        Err(Rejection::ForeignSession { session, owner: name("ana"), by: name("ben") }),
        Err(Rejection::AnswerForgotten { sequence: 3 }),
        Err(Rejection::Invalid(text())),
        Err(Rejection::DiffersFromLiving { owner: name("ana"), name: name("web") }),
        Err(Rejection::NoSuchJob(CollectionId(9))),
        Err(Rejection::NoSuchTask { last: 7 }),
        Err(Rejection::NotAllowed { by: name("ben"), what: text(), who: text() }),
        Err(Rejection::Full { what: "machines", has: 5, most: 5 }),
        Err(Rejection::AddressTaken(name("m1"))),
    ]
}

#[test]
fn an_image_keeps_its_bytes_and_its_hash() {
    let cell = Cell::from_image(full_image()).expect("a cell");
    assert_eq!(cell.check(), []);
    let mut lines = String::new();
    for part in parts(&cell.image()) {
        let _ = writeln!(lines, "part: {}", hex(&part));
    }
    let _ = writeln!(lines, "state hash: {}", state_hash(&cell));
    expect_file!["golden/image.txt"].assert_eq(&lines);
    let kept = include_str!("golden/image.txt").lines();
    let bytes: Vec<u8> =
        kept.filter_map(|line| line.strip_prefix("part: ")).flat_map(unhex).collect();
    let read = Cell::from_image(read_image(&bytes).expect("an image")).expect("a cell");
    assert_eq!(read.image(), cell.image());
}

#[test]
fn a_cell_that_has_given_all_its_ids_says_so_after_every_restart() {
    let last = u64::MAX;
    let (last_collection, last_machine) = (CollectionId(last), MachineId(last));
    let mut cell =
        Cell::from_image(Image { last_collection, last_machine, ..full_image() }).expect("a cell");
    let mut submitted = full_job();
    submitted.name = name("other");
    let add = Mutation::AddMachine { name: name("m9"), address: "m9:1".to_owned() };
    let mut full = Vec::new();
    for (sequence, mutation) in (100..).zip([Mutation::Submit(Arc::new(submitted)), add]) {
        let id = RequestId { session: SessionId(1), sequence };
        let op = Op::Request { id, by: name("ana"), mutation };
        full.push(cell.apply(Time(200), &op).outcome);
        let read = read_image(&parts(&cell.image()).concat()).expect("an image");
        cell = Cell::from_image(read).expect("a cell");
        assert_eq!(cell.apply(Time(200), &op).outcome, full[full.len() - 1]);
    }
    let refused = |outcome: &cell::Outcome| match outcome {
        cell::Outcome::Request(Err(Rejection::Full { what, .. })) => Some(*what),
        _ => None,
    };
    let what: Vec<_> = full.iter().filter_map(refused).collect();
    assert_eq!(what, ["job ids", "machine ids"]);
}
