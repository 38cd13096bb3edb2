//! Cells that were loaded from images: unchanged images of cells, and edited ones.

use std::sync::Arc;

use cell::{
    Act, AddMachine, AddReplica, Cell, Countable, Credentials, Death, Image, ImageError, Job,
    JobParts, JobState, Machine, MachineState, Member, Mutation, Op, Outcome, PendingCause, Phase,
    Placement, Rejection, Replica, Reply, RequestId, Submission, Task, TaskState, Token,
};
use model::{
    CellName, CollectionId, Generation, Level, MachineId, MachineName, ReplicaId, Serial,
    SessionId, TaskIndex, Time, Version,
};
use spec::JobSpec;

use crate::script::{report, submitted, user};

fn machine(id: u64, name: &str) -> Arc<Machine> {
    let name = MachineName::new(name).expect("a name");
    let mut machine = Machine::new(MachineId(id), name, format!("m:{id}").into());
    machine.state = MachineState::Up;
    machine.report = report(&[]);
    Arc::new(machine)
}

/// A job of ana's of one task with one port, in that state, placed on machine 1 with those ports.
fn job(id: u64, state: JobState, ports: &[u16]) -> Arc<Job> {
    let placement = Placement {
        address: None,
        machine: MachineId(1),
        alloc: None,
        ports: ports.into(),
        since: Time::ZERO,
        check: None,
        phase: Phase::Starting,
        stop: None,
        latency: model::StartLatency::UNKNOWN,
        lost_starts: 0,
        inputs: None,
    };
    let task = Task {
        generation: Generation(1),
        version: Version(1),
        finishes: 0,
        ends_in_row: 0,
        failures: 0,
        last_incarnation: None,
        crashes: None,
        reserved: None,
        state: TaskState::Running(placement),
    };
    let spec = submitted("web", 1, &["ports=http"]);
    Arc::new(Job::from_parts(JobParts { state, ..parts(id, spec, vec![task]) }))
}

fn parts(id: u64, spec: Arc<JobSpec>, tasks: Vec<Task>) -> JobParts {
    JobParts {
        machine_tasks: None,
        id: CollectionId(id),
        owner: user("ana"),
        spec,
        version: Version(1),
        last_version: Version(1),
        others: Vec::new(),
        update: None,
        history: Vec::new(),
        disrupted: Vec::new(),
        submitted: Time::ZERO,
        state: JobState::Pending,
        after: Vec::new(),
        waits_for: Vec::new(),
        follows: Vec::new(),
        parent: None,
        alloc_set: None,
        tasks,
    }
}

fn image(machines: Vec<Arc<Machine>>, jobs: Vec<Arc<Job>>) -> Image {
    Image {
        name: Some(CellName::new("cc").expect("a name")),
        administrators: vec![user("root")],
        last_collection: CollectionId(9),
        last_machine: MachineId(9),
        last_session: SessionId(9),
        machines,
        jobs,
        ..Image::default()
    }
}

/// The error of loading, or else the violations that the check then finds.
fn says(image: Image) -> Vec<String> {
    match Cell::from_image(image) {
        Ok(cell) => cell.check().iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    }
}

#[test]
fn an_inconsistent_image_is_refused_or_found_by_the_check() {
    let running = |id, port| job(id, JobState::Running, &[port]);
    let m1 = || vec![machine(1, "m1")];
    let dead = JobState::Dead { at: Time::ZERO, death: Death::Finished };
    let cases: Vec<(Image, &[&str])> = vec![
        (image(m1(), vec![running(1, 31_000)]), &[]),
        (
            image(Vec::new(), vec![running(1, 31_000)]),
            &["a task of job 1 is on machine 1, which does not exist"],
        ),
        (
            image(m1(), vec![running(10, 31_000)]),
            &["job 10 is greater than the last id assigned (9)"],
        ),
        (
            image(vec![machine(0, "m0")], vec![]),
            &["machine 0 is greater than the last id assigned (9)"],
        ),
        (
            image(m1(), vec![running(1, 31_000), running(2, 31_000)]),
            &[
                "ana/web is the name of two living jobs, 1 and 2",
                "machine 1 has given port 31000 twice",
            ],
        ),
        (image(m1(), vec![running(1, 31_000), running(1, 31_000)]), &["job 1 appears twice"]),
        (
            image(m1(), vec![job(1, dead, &[31_000])]),
            &["job 1 is Dead { at: Time(0), death: Finished } with 0 tasks queued, 0 pending and \
                 1 running"],
        ),
        (image(m1(), vec![job(1, JobState::Running, &[])]), &["1-0-1 has 0 ports but requests 1"]),
        (image(vec![machine(1, "m1"), machine(2, "m1")], vec![]), &["machine m1 appears twice"]),
    ];
    for (image, expected) in cases {
        assert_eq!(says(image), *expected);
    }
}

#[test]
fn replicas_that_contradict_each_other_are_refused_or_found_by_the_check() {
    let replica = |id, member, leaving| Replica {
        leaving,
        ..Replica::new(ReplicaId(id), format!("h{id}:1"), Level(1), member)
    };
    let (voter, level) = (|id| replica(id, Member::Voter, false), Level(1));
    let nobody: &[&str] = &[
        "none of the replicas in the head votes: let at least one be a voter that is not leaving",
    ];
    let cases: Vec<(u64, Vec<Replica>, &[&str])> = vec![
        (1, vec![], &[]),
        (5, vec![], &[]),
        (0, vec![], &["replica 1 is greater than the last id assigned (0)"]),
        (2, vec![voter(1), voter(3)], &["replica 3 is greater than the last id assigned (2)"]),
        (2, vec![voter(0)], &["replica 0 is greater than the last id assigned (2)"]),
        (2, vec![voter(2), voter(2)], &["replica 2 appears twice"]),
        (2, vec![replica(2, Member::Learner, false)], nobody),
        (2, vec![replica(2, Member::Voter, true)], nobody),
        (2, vec![voter(1), replica(2, Member::Voter, true)], &[]),
        (
            2,
            vec![voter(1), replica(2, Member::Waiting, true)],
            &["replica 2 is leaving but still waits to join"],
        ),
    ];
    for (last, replicas, expected) in cases {
        let last_replica = ReplicaId(last);
        let image = Image { level, last_replica, replicas, ..image(vec![], vec![]) };
        assert_eq!(says(image), *expected);
    }
}

#[test]
fn tokens_and_revoked_names_are_there_once() {
    let act = || Act { at: Time::ZERO, by: user("root") };
    let token = |number: u8| {
        let (machine, expires) = (MachineName::new("m1").expect("a name"), Time(99));
        let token = Token { machine, issued: act(), expires, used: None, many: None };
        (Serial::from_bytes(&[number]).expect("short enough"), Arc::new(token))
    };
    let revoked = |name: &str| {
        let said = Credentials { certificates: Vec::new(), revoked: Some(act()) };
        (MachineName::new(name).expect("a name"), Arc::new(said))
    };
    let m1 = || Image { level: Level(1), ..image(vec![machine(1, "m1")], vec![]) };
    let cases: Vec<(Image, &[&str])> = vec![
        (Image { tokens: vec![token(1), token(2)], ..m1() }, &[]),
        (Image { tokens: vec![token(1), token(1)], ..m1() }, &["join token 01 appears twice"]),
        (Image { revoked_machines: vec![revoked("m2"), revoked("m3")], ..m1() }, &[]),
        (
            Image { revoked_machines: vec![revoked("m2"), revoked("m2")], ..m1() },
            &["the revoked name m2 appears twice"],
        ),
        (
            Image { revoked_machines: vec![revoked("m1")], ..m1() },
            &["m1 is wrongly recorded as a revoked name that no machine has"],
        ),
    ];
    for (image, expected) in cases {
        assert_eq!(says(image), *expected);
    }
}

/// A machine may run an incarnation that began in the lost period: no new one may have its name.
#[test]
fn pending_tasks_of_a_restored_cell_get_later_incarnations() {
    let waits = |id, state| {
        let job = job(id, JobState::Running, &[]);
        let task = Task { state, ..job.task(TaskIndex(0)).expect("a task").clone() };
        Arc::new(Job::from_parts(parts(id, submitted("api", 1, &[]), vec![task])))
    };
    let (since, not_before, cause) = (Time::ZERO, Time::ZERO, PendingCause::Submitted);
    let pending = TaskState::Pending { since, not_before, cause };
    let runs = job(1, JobState::Running, &[31_000]);
    let cell = Cell::from_image(image(vec![machine(1, "m1")], vec![runs, waits(2, pending)]));
    let restored = cell.expect("a whole cell").restored();
    assert_eq!(restored.check(), vec![]);
    let incarnation = |id| {
        let job = restored.job(CollectionId(id)).expect("the job");
        job.instance(TaskIndex(0)).expect("its task").to_string()
    };
    assert_eq!(
        [incarnation(1), incarnation(2)],
        ["1-0-1", "2-0-1001"],
        "what runs is what runs there"
    );
}

/// Whichever replica continues alone, the cell is valid, and no later replica gets an earlier id.
#[test]
fn one_replica_goes_on_alone_with_everything_else() {
    let replica = |id, level, member, leaving| {
        let alone = Replica::new(ReplicaId(id), format!("h{id}:1"), Level(level), member);
        Replica { leaving, ..alone }
    };
    let before = Image {
        level: Level(1),
        last_replica: ReplicaId(5),
        replicas: vec![
            replica(1, 2, Member::Voter, true),
            replica(2, 3, Member::Voter, false),
            replica(4, 2, Member::Learner, false),
            replica(5, 0, Member::Waiting, false),
        ],
        ..image(vec![machine(1, "m1")], vec![job(1, JobState::Running, &[31_000])])
    };
    for (id, address, at, level, next) in [
        (1, None, "h1:1", 2, 1_006),
        (2, None, "h2:1", 3, 1_006),
        (2, Some("new:1"), "new:1", 3, 1_006),
        (5, None, "h5:1", 1, 1_006),
        (7, None, "", 1, 1_008),
        (7, Some("new:1"), "new:1", 1, 1_008),
    ] {
        let id = ReplicaId(id);
        let after = before.clone().of_one_replica(id, address.map(Into::into));
        let mut cell = Cell::from_image(after.clone()).expect("the image of a cell");
        assert_eq!(cell.check(), []);
        assert_eq!((cell.voters().collect(), cell.learners().count()), (vec![id], 0));
        let alone = Replica { address: at.into(), ..replica(id.0, level, Member::Voter, false) };
        assert_eq!(cell.replicas().collect::<Vec<_>>(), [&alone]);

        let (replicas, last_replica) = (before.replicas.clone(), before.last_replica);
        assert_eq!(Image { replicas, last_replica, ..after }, before, "nothing else changes");

        cell.apply(Time::ZERO, &Op::OpenSession { user: user("root") });
        let add = Mutation::AddReplica(AddReplica { address: "h9:1".to_owned() });
        let request = RequestId { session: SessionId(10), sequence: 1 };
        let add = Op::Request { id: request, by: user("root"), mutation: add };
        let added = Outcome::Request(Ok(Reply::ReplicaAdded(ReplicaId(next))));
        assert_eq!(cell.apply(Time::ZERO, &add).outcome, added);
    }
}

#[test]
fn a_job_has_as_many_tasks_as_its_description_says() {
    let spec = submitted("web", 2, &[]);
    let job = Job::from_parts(parts(1, spec, vec![]));
    let error = Cell::from_image(image(vec![], vec![Arc::new(job)])).expect_err("no tasks");
    assert_eq!(error, ImageError::WrongTaskCount { id: CollectionId(1), has: 0, wants: 2 });
}

/// Ids that were not assigned in rising order cost no more than others, and none is assigned twice.
#[test]
fn a_cell_gives_its_last_id_and_then_refuses_requests() {
    let almost = u64::MAX - 1;
    let mut cell = Cell::from_image(Image {
        level: Level(1),
        last_replica: ReplicaId(almost),
        last_collection: CollectionId(almost),
        last_machine: MachineId(almost),
        last_session: SessionId(almost),
        ..image(vec![machine(almost, "m1")], vec![])
    })
    .expect("an image");
    let mut apply = |op: &Op| {
        let outcome = cell.apply(Time::ZERO, op).outcome;
        assert_eq!(cell.check(), []);
        outcome
    };
    let request = |sequence, mutation| Op::Request {
        id: RequestId { session: SessionId(u64::MAX), sequence },
        by: user("root"),
        mutation,
    };
    let submit = |name| Mutation::Submit(submitted(name, 1, &[]));
    let add = |name: &str| {
        Mutation::AddMachine(AddMachine {
            name: MachineName::new(name).expect("a name"),
            address: format!("{name}:1"),
        })
    };
    let full =
        |what| Outcome::Request(Err(Rejection::Full { what, has: u64::MAX, most: u64::MAX }));
    let open = Op::OpenSession { user: user("root") };
    assert_eq!(apply(&open), Outcome::Request(Ok(Reply::Session(SessionId(u64::MAX)))));
    assert_eq!(apply(&open), full(Countable::SessionIds));
    let last = Reply::Submitted {
        collection: CollectionId(u64::MAX),
        submission: Submission::New,
        version: Version(1),
        changes: Arc::default(),
        expiring_quota: None,
    };
    assert_eq!(apply(&request(1, submit("web"))), Outcome::Request(Ok(last)));
    assert_eq!(apply(&request(2, submit("db"))), full(Countable::JobIds));
    let last = Reply::MachineAdded(MachineId(u64::MAX));
    assert_eq!(apply(&request(3, add("m2"))), Outcome::Request(Ok(last)));
    assert_eq!(apply(&request(4, add("m3"))), full(Countable::MachineIds));
    let add = |address: &str| Mutation::AddReplica(AddReplica { address: address.to_owned() });
    let last = Reply::ReplicaAdded(ReplicaId(u64::MAX));
    assert_eq!(apply(&request(5, add("h2:1"))), Outcome::Request(Ok(last)));
    assert_eq!(apply(&request(6, add("h3:1"))), full(Countable::ReplicaIds));
}
