//! A valid cell, corrupted in one place at a time: the check names the place.

mod allocs;
mod enrolment;
mod every_machine;
mod queue;
mod quota;
mod replicas;

use std::sync::Arc;

use model::{
    Band, CellName, Certificate, CollectionId, JobName, MachineId, MachineName, MachineReport,
    MilliCores, RequestId, Resources, Serial, SessionId, TaskId, TaskIndex, Time, UserName,
};
use spec::{JobSpec, TaskSpec};

use crate::feasibility::testing::resources;
use crate::{
    Act, AddMachine, Assignment, Cell, Job, JobState, LastBackup, Machine, MachineState, Mutation,
    Op, Rescheduling, Stages, TaskState, User,
};

const JOB: CollectionId = CollectionId(1);
const MACHINE: MachineId = MachineId(1);

fn user(name: &str) -> UserName {
    UserName::new(name).expect("a name")
}

/// Ana was revoked at time 9; then her record is changed.
fn revoke(cell: &mut Cell, change: fn(&mut User)) {
    let act = Act { at: Time(9), by: user("root") };
    let mut ana = User { revoked: Some(act), ..User::default() };
    change(&mut ana);
    cell.users.insert(user("ana"), Arc::new(ana));
}

fn certificate(issued: u64) -> Certificate {
    let serial = Serial::from_bytes(&[7]).expect("short enough");
    Certificate { serial, issued: Time(issued), expires: Time(99) }
}

/// A job of ana's with three tasks of one port each: one pending, two on the machine.
fn valid_cell() -> Cell {
    let mut task = TaskSpec::of(vec!["server".to_owned(), "${port.http}".to_owned()]);
    task.limit.cpu = MilliCores(100);
    let name = JobName::new("web").expect("a name");
    let spec = JobSpec::of(name, Band::Production.usual(), 3, task);
    let report = MachineReport {
        capacity: Resources {
            cpu: MilliCores(1_000),
            ram: model::Bytes(1 << 30),
            ..<_>::default()
        },
        ports: "31000-31009".parse().expect("ports"),
        ..MachineReport::default()
    };
    let name = MachineName::new("m1").expect("a name");
    let request = |sequence, mutation| Op::Request {
        id: RequestId { session: SessionId(1), sequence },
        by: user("ana"),
        mutation,
    };
    let assignment = |index, port| Assignment {
        address: None,
        instance: TaskId { collection: JOB, index: TaskIndex(index) }
            .generation(model::Generation(1)),
        alloc: None,
        machine: MACHINE,
        ports: vec![port],
        victims: Vec::new(),
    };
    let mut cell = Cell::empty();
    for op in [
        Op::Bootstrap { name: CellName::new("cc").expect("a name"), administrator: user("ana") },
        Op::OpenSession { user: user("ana") },
        request(1, Mutation::AddMachine(AddMachine { name, address: "m1:1".to_owned() })),
        Op::DescribeMachine { machine: MACHINE, report: Arc::new(report) },
        request(2, Mutation::Submit(Arc::new(spec))),
        Op::assign(vec![assignment(0, 31_000), assignment(1, 31_001)]),
    ] {
        cell.apply(Time::ZERO, &op);
    }
    cell
}

fn job(cell: &mut Cell) -> &mut Job {
    cell.jobs.get_mut(JOB).expect("the job")
}

fn machine(cell: &mut Cell) -> &mut Machine {
    cell.machines.get_mut(MACHINE).expect("the machine")
}

fn placement(cell: &mut Cell, index: usize) -> &mut crate::Placement {
    match &mut job(cell).tasks.get_mut(index).expect("a task").state {
        TaskState::Running(placement) => placement,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_sound_cell_has_nothing_to_say() {
    assert_eq!(valid_cell().check(), []);
    assert_eq!(Cell::empty().check(), []);
}

#[test]
fn every_corruption_of_the_cell_is_named() {
    type Corrupt = fn(&mut Cell);
    let cases: &[(Corrupt, &[&str])] = &[
        (|cell| job(cell).counts.pending = 7, &["job 1: 7 pending tasks stored, 1 counted"]),
        (|cell| job(cell).counts.running = 0, &["job 1: 0 running tasks stored, 2 counted"]),
        (
            |cell| job(cell).state = JobState::Pending,
            &["job 1 is Pending with 0 tasks queued, 1 pending and 2 running"],
        ),
        (
            |cell| job(cell).state = JobState::Dead { at: Time(5), death: crate::Death::Finished },
            &["job 1 is Dead { at: Time(5), death: Finished } with 0 tasks queued, 1 pending and \
                 2 running"],
        ),
        (
            |cell| job(cell).ports = Arc::from([]),
            &[
                "job 1 does not have the port names of its description",
                "1-0-1 has 1 ports but requests 0",
                "1-1-1 has 1 ports but requests 0",
            ],
        ),
        (
            |cell| assert!(cell.pending.remove(&JOB).is_some()),
            &["job 1 is listed as pending (false) with 1 tasks pending"],
        ),
        (
            |cell| assert!(cell.pending.insert(CollectionId(9)).is_none()),
            &["job 9 is listed as pending (true) with 0 tasks pending"],
        ),
        (|cell| cell.tasks = 2, &["the cell: 2 tasks stored, 3 counted"]),
        (
            |cell| cell.tally.bands[0] = Stages { queued: 1, dead: 2, ..Stages::default() },
            &[
                "the free band: 1 queued tasks stored, 0 counted",
                "the free band: 2 dead tasks stored, 0 counted",
            ],
        ),
        (|cell| cell.job_names.clear(), &["ana/web and job 1 do not refer to each other"]),
        (
            |cell| {
                cell.machine_names.insert(MachineName::new("m9").expect("a name"), MACHINE);
            },
            &["m9 and machine 1 do not refer to each other"],
        ),
        (
            |cell| cell.last_collection = CollectionId(0),
            &["job 1 is greater than the last id assigned (0), or stored under another id"],
        ),
        (
            |cell| machine(cell).id = MachineId(2),
            &[
                "m1 and machine 1 do not refer to each other",
                "m1 and machine 2 do not refer to each other",
                "m1:1 and machine 1 do not refer to each other",
                "m1:1 and machine 2 do not refer to each other",
                "machine 2 is greater than the last id assigned (1), or stored under another id",
                "machine 2 lists 1-0-1, which is not placed there",
                "machine 2 lists 1-1-1, which is not placed there",
                "machine 2: 0.2 cores, 128 MiB taken, 0 cores, 0 B by its tasks' limits",
                "machine 2: 0.2 cores, 128 MiB reserved and 0.2 cores, 128 MiB limits of production, by \
                 its tasks 0 cores, 0 B reserved and 0 cores, 0 B limits of production",
                "machine 2: ports [31000, 31001] taken, [] by its tasks",
            ],
        ),
        (|cell| cell.machine_addresses.clear(), &["m1:1 and machine 1 do not refer to each other"]),
        (
            |cell| machine(cell).gcu = "2".parse().expect("a factor"),
            &["machine 1 has other attributes or another factor than were reported and set"],
        ),
        (|cell| cell.level = model::Level(9), &["the cell is at level 9"]),
        (
            |cell| machine(cell).state = MachineState::Down { since: Time(1) },
            &["machine 1 is down but has 2 tasks"],
        ),
        (
            |cell| {
                cell.rescheduling = Rescheduling::Stopped { since: Time(1), silent: 4, of: 3 };
            },
            &["rescheduling was stopped for 4 of 3 machines"],
        ),
        (
            |cell| {
                let (index, at) = (cell.index, Time(1));
                cell.last_backup = Some(LastBackup { index, at, by: user("ana") });
            },
            &["the last backup is later than the cell's last operation"],
        ),
        (
            |cell| cell.bootstrapped = Some(Time(1_000_000)),
            &["the bootstrap is later than the cell's last operation"],
        ),
        (
            |cell| {
                revoke(cell, |ana| ana.certificates.push(certificate(8)));
            },
            &["certificate 07 of ana ends before it begins, or is from before ana was revoked"],
        ),
        (
            |cell| {
                revoke(cell, |ana| ana.certificates = vec![certificate(9); 17]);
            },
            &["17 certificates of a user, the maximum is 16"],
        ),
        (
            |cell| {
                revoke(cell, |ana| ana.revoked = None);
            },
            &["user ana has a record but was neither added nor revoked"],
        ),
        (
            |cell| job(cell).waits_for.push(CollectionId(7)),
            &[
                "job 1 is Running with 0 tasks queued, 1 pending and 2 running",
                "job 1 waits for job 7, which is not alive or not named in its description",
                "the index and the jobs disagree on whether job 1 waits for job 7",
            ],
        ),
        (
            |cell| {
                job(cell).parent = Some(CollectionId(7));
                cell.children.insert((CollectionId(7), JOB));
            },
            &["task 1/0 is alive, but the parent of its job, job 7, is dead"],
        ),
        (
            |cell| {
                job(cell).parent = Some(JOB);
                cell.children.insert((JOB, JOB));
            },
            &["job 1 is its own parent, or runs after itself"],
        ),
        (
            |cell| {
                cell.children.insert((JOB, CollectionId(8)));
            },
            &["the index and the jobs disagree on whether job 8 is a child of job 1"],
        ),
        (
            |cell| job(cell).tasks.get_mut(2).expect("a task").generation = model::Generation(0),
            &["task 1/2 is in generation 0"],
        ),
        (
            |cell| cell.last_session = SessionId(0),
            &["session 1 is greater than the last id assigned (0), or stored under another id"],
        ),
        (
            |cell| cell.sessions_by_use.clear(),
            &["session 1, last used at 5, is not in the order of use exactly once"],
        ),
        (
            |cell| placement(cell, 0).machine = MachineId(9),
            &[
                "1-0-1 is placed on machine 9, which does not exist",
                "machine 1 lists 1-0-1, which is not placed there",
                "machine 1: 0.2 cores, 128 MiB taken, 0.1 cores, 64 MiB by its tasks' limits",
                "machine 1: 0.2 cores, 128 MiB reserved and 0.2 cores, 128 MiB limits of production, by \
                 its tasks 0.1 cores, 64 MiB reserved and 0.1 cores, 64 MiB limits of production",
                "machine 1: ports [31000, 31001] taken, [31001] by its tasks",
            ],
        ),
        (
            |cell| machine(cell).instances.truncate(1),
            &["1-1-1 is placed on machine 1, which lists it 0 times"],
        ),
        (
            |cell| {
                let first = machine(cell).instances[0];
                machine(cell).instances.insert(0, first);
            },
            &["1-0-1 is placed on machine 1, which lists it 2 times"],
        ),
        (
            |cell| machine(cell).taken = Resources::default(),
            &["machine 1: 0 cores, 0 B taken, 0.2 cores, 128 MiB by its tasks' limits"],
        ),
        (
            |cell| machine(cell).taken_by_prod = resources(100, 0),
            &[
                "machine 1: 0.2 cores, 128 MiB reserved and 0.1 cores, 0 B limits of production, by \
               its tasks 0.2 cores, 128 MiB reserved and 0.2 cores, 128 MiB limits of production",
            ],
        ),
        (
            |cell| {
                let amount = resources(50, 32 << 20);
                let half = crate::Reserved { amount, newest_sample: None };
                job(cell).tasks.get_mut(0).expect("a task").reserved = Some(Arc::new(half));
            },
            &[
                "machine 1: 0.2 cores, 128 MiB reserved and 0.2 cores, 128 MiB limits of production, by \
               its tasks 0.15 cores, 96 MiB reserved and 0.2 cores, 128 MiB limits of production",
            ],
        ),
        (
            |cell| {
                cell.switches.insert(("s1".into(), MACHINE));
            },
            &["the index and the machine disagree on whether machine 1 is at switch s1"],
        ),
        (
            |cell| machine(cell).ports_taken.clear(),
            &["machine 1: ports [] taken, [31000, 31001] by its tasks"],
        ),
        (
            |cell| placement(cell, 0).ports = Arc::from([31_001]),
            &[
                "machine 1 has given port 31001 twice",
                "machine 1: ports [31000, 31001] taken, [31001, 31001] by its tasks",
            ],
        ),
        (
            |cell| placement(cell, 0).ports = Arc::from([]),
            &[
                "1-0-1 has 0 ports but requests 1",
                "machine 1: ports [31000, 31001] taken, [31001] by its tasks",
            ],
        ),
    ];
    for (corrupt, expected) in cases {
        let mut cell = valid_cell();
        corrupt(&mut cell);
        let says: Vec<String> = cell.check().iter().map(ToString::to_string).collect();
        assert_eq!(says, *expected);
    }
}
