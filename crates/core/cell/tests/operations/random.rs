//! Random sequences: nothing panics, the check finds no violation, a rejection changes nothing, the
//! events tell the whole history, and copies take the same course.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cell::{
    AddMachine, Applied, Assignment, Cell, ControlUpdate, DecisionChecker, DrainMachine, Image,
    Job, Machine, MachineState, MemberChange, Mutation, Observation, Op, Outcome, Package,
    RequestId, SkipReason, UpdateAction, UpdateFailure, UpdateStep,
};
use generator::{Values, small_or_huge, small_or_huge_32};
use model::{
    Bytes, CellName, CollectionId, Digest, DirectoryId, Enabled, End, FinalUsage, Generation,
    InstanceId, KeyDigest, Level, LockSessionId, MachineId, MachineName, PackageKind,
    PackageReaders, ReplicaId, SchedulerName, Serial, SessionId, Span, StartLatency, StartPart,
    TaskId, TaskIndex, Time,
};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::follower::Follower;
use crate::gangs::rest_of_gang;
use crate::script::{report, submitted, user};

/// An operation as it is, or one that is built for the cell's current state.
#[derive(Clone, Debug)]
enum Step {
    Absurd(Op),
    PlaceOne { task: Index, machine: Index },
    ReportOne { task: Index, what: Report },
    Answer { machine: Index },
    Request { by: &'static str, what: Mutation },
    Update { which: Index, steps: Vec<(u8, u32)> },
    Drain { which: Index, what: u8 },
    Control { which: Index, action: UpdateAction },
}

const ACTIONS: &[UpdateAction] =
    &[UpdateAction::Pause, UpdateAction::Resume, UpdateAction::Undo, UpdateAction::Close];

#[derive(Clone, Debug)]
enum Report {
    Started,
    Health(bool),
    Unready,
    Ended(End, FinalUsage),
}

const USERS: [&str; 3] = ["ana", "bob", "root"];

fn machine_id() -> impl Strategy<Value = MachineId> {
    small_or_huge().prop_map(MachineId)
}

fn instance() -> impl Strategy<Value = InstanceId> {
    (small_or_huge(), small_or_huge_32(), small_or_huge_32()).prop_map(
        |(job, index, generation)| InstanceId {
            collection: CollectionId(job),
            index: TaskIndex(index),
            generation: Generation(generation),
        },
    )
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => prop_oneof![Just(0), 1..3_u8].prop_map(|code| End::Exited { code }),
        1 => any::<u8>().prop_map(|signal| End::Signalled { signal }),
        1 => Just(End::Stopped),
        1 => "\\PC{0,5}|\u{e9}{1500}".prop_map(|reason| End::Lost { reason }),
        1 => ".{0,5}".prop_map(|reason| End::Unhealthy { reason }),
        1 => (1..9_u64).prop_map(|most| End::OverRuntime { most: Span(most) }),
        1 => ".{0,5}".prop_map(|reason| End::NotStarted { reason }),
        1 => ".{0,5}".prop_map(|reason| match reason.len() % 2 {
            0 => End::BrokeRule { reason },
            _ => End::OutOfResources { reason },
        }),
    ]
}

fn reported() -> impl Strategy<Value = Report> {
    prop_oneof![
        2 => Just(Report::Started),
        1 => any::<bool>().prop_map(Report::Health),
        1 => Just(Report::Unready),
        2 => (end(), usage()).prop_map(|(end, usage)| Report::Ended(end, usage)),
    ]
}

/// Whether mutations are about packages and secrets, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WithPackages {
    Yes,
    No,
}

/// Any mutation of a few objects, with descriptions of every kind.
fn mutation(packages: WithPackages) -> BoxedStrategy<Mutation> {
    let mut options = vec![
        "cpu=300",
        "ports=a,b",
        "static-ports=s:443",
        "readiness=http",
        "cpu=0",
        "delay=0",
        "big=0:700",
        "failures=0",
        "check=http",
        "priority=free",
        "priority=110",
        "priority=monitoring",
        // Often, because both jobs have to suit.
        "after=db",
        "after=db:each-task",
        "after=db:each-task:ended",
        "after=db:failed,web:ended",
        "max-runtime=60",
        "after=db",
        "after=bob/web",
        "parent=web",
        "parent=ana/db",
        "on=rack=r1",
        "on=gpu?",
        "in=room",
        "in=ana/room",
        "estimation=no",
        "kernel=net-raw",
        "cmd=other",
        "at-once=0",
        "per-hour=1",
        "autoscale=full",
        "gang=yes",
    ];
    if packages == WithPackages::Yes {
        options.extend(["secrets=tls", "secrets=tls,db", "outputs=out:words"]);
    }
    let options = select(options);
    let jobs = (select(vec!["web", "db"]), 0..4_u64, options).prop_map(|(name, tasks, option)| {
        // A job that finishes soon, for others to wait for.
        let tasks = if name == "db" { tasks.min(1) } else { tasks };
        submitted(name, tasks, &[option])
    });
    let rooms = (0..3_u64, select(vec!["allocs=none", "allocs=bob", "cpu=400"])).prop_map(
        |(allocs, option)| submitted("room", allocs, &["cpu=200", "ram=200", "allocs=bob", option]),
    );
    let spec = prop_oneof![3 => jobs, 1 => rooms].boxed();
    let mut values = Values { spec, ..Values::few() };
    values.package.take_if(|_| packages == WithPackages::No);
    generator::mutation(&values)
}

fn few() -> impl Strategy<Value = Serial> {
    (0..5_u8).prop_map(|number| Serial([number; Serial::BYTES]))
}

fn one() -> impl Strategy<Value = Serial> {
    Just(Serial([9; Serial::BYTES]))
}

fn seconds() -> impl Strategy<Value = Span> {
    prop_oneof![9 => (55..90_u64).prop_map(Span::from_secs), 1 => any::<u64>().prop_map(Span)]
}

fn named() -> impl Strategy<Value = MachineName> {
    "m[1-4]".prop_map(|name| MachineName::new(&name).expect("a name"))
}

fn of_enrolment() -> impl Strategy<Value = Op> {
    let key = || (0..2_u8).prop_map(|number| KeyDigest([number; KeyDigest::BYTES]));
    prop_oneof![
        16 => (2..6_u64, one(), key()).prop_map(|(replica, token, key)| {
            Op::JoinReplica { replica: ReplicaId(replica), token, key }
        }),
        4 => (
            few(),
            key(),
            prop::option::of("m[1-4][1-4]".prop_map(|name| name.parse().expect("a name"))),
            "m[1-4]:[12]|",
            few(),
            seconds(),
        )
            .prop_map(|(token, key, machine, address, certificate, validity)| Op::Enrol {
                token,
                key,
                machine,
                address,
                certificate,
                validity,
            }),
        1 => (named(), few(), few(), seconds()).prop_map(
            |(machine, old, certificate, validity)| Op::RenewMachine {
                machine,
                old,
                certificate,
                validity,
            }
        ),
    ]
}

fn of_replicas() -> impl Strategy<Value = Op> {
    let replica = || small_or_huge().prop_map(ReplicaId);
    let to = select(vec![MemberChange::Learner, MemberChange::Voter, MemberChange::Out]);
    prop_oneof![
        3 => (replica(), to).prop_map(|(replica, to)| Op::ChangeMember { replica, to }),
        1 => (replica(), "\\PC{0,3}|h{300}", small_or_huge_32(), 0..3_u64).prop_map(
            |(replica, address, level, directory)| Op::DescribeReplica {
                replica,
                address,
                level: Level(level),
                directory: DirectoryId(directory),
            }
        ),
    ]
}

fn absurd(packages: WithPackages) -> impl Strategy<Value = Op> {
    let ports = prop::collection::vec(prop_oneof![31_000..31_005_u16, any::<u16>()], 0..4);
    let victims = prop::collection::vec(instance(), 0..3);
    let alloc = prop::option::weighted(0.2, instance());
    let assignment = (instance(), machine_id(), ports, victims, alloc).prop_map(
        |(instance, machine, ports, victims, alloc)| Assignment {
            address: None,
            instance,
            alloc,
            machine,
            ports,
            victims,
        },
    );
    let observation = (instance(), reported()).prop_map(|(id, what)| observation(id, what));
    let described = select(vec![
        "short=ram:persists",
        "short=ram:eased",
        "not-ready=broken",
        "saving=1-0-1:kept",
        "saving=1-0-1:saved",
        "saving=1-0-1:too-late",
        "cpu=400",
        "cpu=18446744073709551615",
        "ports=none",
        "ports=31002-31004",
        "held=31001-31001:sshd",
        "held=31000-65535:sshd",
    ]);
    let request = (small_or_huge(), small_or_huge(), select(USERS.to_vec()), mutation(packages));
    prop_oneof![
        1 => Just(Op::Nothing),
        1 => select(USERS.to_vec()).prop_map(|by| Op::Bootstrap {
            name: CellName::new("cc").expect("a name"),
            administrator: user(by),
        }),
        1 => select(USERS.to_vec()).prop_map(|by| Op::OpenSession { user: user(by) }),
        3 => request.prop_map(|(session, sequence, by, mutation)| Op::Request {
            id: RequestId { session: SessionId(session), sequence },
            by: user(by),
            mutation,
        }),
        3 => prop::collection::vec(assignment, 0..3).prop_map(Op::assign),
        3 => (machine_id(), prop::collection::vec(observation, 0..3))
            .prop_map(|(machine, observations)| Op::Observe { machine, observations }),
        2 => (machine_id(), described)
            .prop_map(|(machine, option)| Op::DescribeMachine { machine, report: report(&[option]) }),
        2 => prop::collection::vec(small_or_huge().prop_map(LockSessionId), 0..3)
            .prop_map(|sessions| Op::ExpireLockSessions { sessions }),
        2 => machine_id().prop_map(|machine| Op::MachineSilent { machine }),
        3 => machine_id().prop_map(|machine| Op::MachineUnreachable { machine }),
        1 => (0..5_u32, 3..5_u32).prop_map(|(silent, of)| Op::StopRescheduling { silent, of }),
        1 => Just(Op::AllowRescheduling),
        1 => Just(Op::MeterQuota),
        1 => Just(Op::SwitchQueueOn),
        3 => prop::collection::vec((small_or_huge(), 0..4_u32), 0..3).prop_map(|enabled| {
            let each = |(job, tasks)| Enabled { job: CollectionId(job), tasks };
            let enabled = enabled.into_iter().map(each).collect();
            Op::Enable { by: SchedulerName::main(), enabled }
        }),
        1 => of_replicas(),
        5 => of_enrolment(),
        2 => machine_id().prop_map(|machine| Op::MachineBack { machine }),
        1 => prop_oneof![small_or_huge_32(), Just(cell::TEST_LEVEL.0)]
            .prop_map(|to| Op::RaiseLevel { to: Level(to) }),
        2 => prop::collection::vec(small_or_huge().prop_map(CollectionId), 0..4)
            .prop_map(|collections| Op::Forget { collections }),
    ]
}

fn step(packages: WithPackages) -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => absurd(packages).prop_map(Step::Absurd),
        4 => any::<(Index, Index)>().prop_map(|(task, machine)| Step::PlaceOne { task, machine }),
        4 => (any::<Index>(), reported()).prop_map(|(task, what)| Step::ReportOne { task, what }),
        3 => (select(USERS.to_vec()), mutation(packages)).prop_map(|(by, what)| Step::Request { by, what }),
        1 => any::<Index>().prop_map(|machine| Step::Answer { machine }),
        3 => (any::<Index>(), prop::collection::vec((0..6_u8, 0..4_u32), 0..4))
            .prop_map(|(which, steps)| Step::Update { which, steps }),
        2 => (any::<Index>(), 0..8_u8).prop_map(|(which, what)| Step::Drain { which, what }),
        2 => (any::<Index>(), select(ACTIONS))
            .prop_map(|(which, action)| Step::Control { which, action }),
    ]
}

fn usage() -> impl Strategy<Value = FinalUsage> {
    let notice = proptest::option::of(select(model::NoticeDelivery::ALL.to_vec()));
    let amounts = (any::<Option<u64>>(), any::<Option<u64>>(), notice);
    amounts.prop_map(|(time, peak, notice)| FinalUsage {
        notice,
        cpu_time: time.map(Span),
        memory_peak: peak.map(Bytes),
    })
}

fn observation(instance: InstanceId, what: Report) -> Observation {
    match what {
        // Of some longer than they can have taken.
        Report::Started => {
            let seconds = u64::from(instance.generation.0 ^ instance.index.0) % 7;
            let latency = StartLatency::UNKNOWN
                .with(StartPart::Fetch, Span::from_secs(seconds))
                .with(StartPart::Start, Span::from_secs(seconds % 3));
            Observation::Started { instance, latency }
        }
        Report::Health(healthy) => Observation::Health { instance, healthy, check: String::new() },
        Report::Unready => Observation::Unready { instance, check: String::new() },
        Report::Ended(end, usage) => Observation::Ended { instance, end, usage },
    }
}

impl Step {
    fn op(&self, cell: &Cell) -> Op {
        let incarnations = |placed: bool| -> Vec<InstanceId> {
            let jobs = cell.jobs();
            let all = jobs.flat_map(|job| job.tasks().filter_map(|(index, _)| job.instance(index)));
            all.filter(|id| cell.placement(*id).is_some() == placed).collect()
        };
        match self {
            Self::Absurd(op) => op.clone(),
            Self::Request { by, what } => request(cell, by, what.clone()),
            Self::Control { which, action } => {
                let all: Vec<_> = cell.jobs_with_open_updates().collect();
                if all.is_empty() {
                    return Op::Nothing;
                }
                let (job, action, expected) = (which.get(&all), *action, None);
                // Every other one to an earlier version.
                let to = job.history.last().map(|past| past.version);
                let to = to.filter(|_| cell.index().0.is_multiple_of(2));
                let (owner, job) = (job.owner.clone(), job.spec.name.clone());
                request(cell, "root", ControlUpdate { owner, job, action, to, expected }.into())
            }
            Self::Answer { machine } => {
                let machines = cell.machine_count();
                let Some(machine) = cell.machines().nth(machine.index(machines.max(1))) else {
                    return Op::Nothing;
                };
                match machine.state {
                    MachineState::Unreachable { .. } | MachineState::Down { .. } => {
                        Op::MachineBack { machine: machine.id }
                    }
                    _ => Op::DescribeMachine { machine: machine.id, report: report(&[]) },
                }
            }
            Self::Update { which, steps } => {
                let all: Vec<_> = cell.jobs().filter(|job| job.update.is_some()).collect();
                if all.is_empty() {
                    return Op::Nothing;
                }
                let job = which.get(&all);
                let step = |(kind, index): &(u8, u32)| update_step(job, *kind, TaskIndex(*index));
                let steps = steps.iter().map(step).collect();
                Op::StepUpdate { job: job.id, version: job.last_version, steps }
            }
            Self::Drain { which, what } => {
                let machines: Vec<_> = cell.machines().collect();
                let jobs: Vec<_> = cell.jobs().collect();
                match what {
                    4 if !machines.is_empty() => {
                        let machine = which.get(&machines).name.clone();
                        let deadline = Some(cell.time() + Span::from_secs(1));
                        let drain = DrainMachine { deadline, ..DrainMachine::of(machine, "") };
                        request(cell, "root", drain.into())
                    }
                    0 if !machines.is_empty() => {
                        let machine = which.get(&machines).id;
                        Op::EvictDraining { machine, instances: cell.to_leave(machine) }
                    }
                    1 if !machines.is_empty() => {
                        Op::ExpireDrain { machine: which.get(&machines).id }
                    }
                    5 if !jobs.is_empty() => Op::TellInputs { job: which.get(&jobs).id },
                    6 if !incarnations(true).is_empty() => {
                        let instance = *which.get(&incarnations(true));
                        let on = cell.placement(instance).and_then(|at| cell.machine(at.machine));
                        match on {
                            Some(on) => Op::ReadSecrets { machine: on.name.clone(), instance },
                            None => Op::Nothing,
                        }
                    }
                    7 => add_outputs(cell, which),
                    2 if !jobs.is_empty() => Op::StartReplacement { job: which.get(&jobs).id },
                    _ if !jobs.is_empty() => Op::RemoveReplacements { job: which.get(&jobs).id },
                    _ => Op::Nothing,
                }
            }
            Self::PlaceOne { task, machine } => {
                let (tasks, machines) = (incarnations(false), cell.machine_count());
                if tasks.is_empty() || machines == 0 {
                    return Op::Nothing;
                }
                let instance = *task.get(&tasks);
                let machine = cell.machines().nth(machine.index(machines)).expect("one of them");
                let job = cell.job(instance.collection).expect("the task's");
                let alloc = |set: CollectionId| {
                    let of_set = |id: &&InstanceId| id.collection == set;
                    let placed = incarnations(true);
                    let allocs: Vec<_> = placed.iter().filter(of_set).copied().collect();
                    (!allocs.is_empty()).then(|| *task.get(&allocs))
                };
                let alloc = job.alloc_set.and_then(alloc);
                let its = alloc.and_then(|alloc| cell.machine(cell.placement(alloc)?.machine));
                let machine = its.unwrap_or(machine);
                let ports = machine.free_ports(job.port_count(instance.index), &[]);
                let takes = job.network(instance.index).is_own() && alloc.is_none();
                let address = takes.then(|| machine.free_address(&[])).flatten();
                let victims = victims(cell, job, machine);
                // Of some before their tasks were pending, or later than now.
                let offset = Span::from_secs(u64::from(instance.index.0) % 5);
                let began = match instance.generation.0 % 3 {
                    0 => None,
                    1 => Some(cell.time() - offset),
                    _ => Some(cell.time() + offset),
                };
                let machine = machine.id;
                let mut assignments =
                    vec![Assignment { address, instance, alloc, machine, ports, victims }];
                if instance.generation.0 % 4 != 3 {
                    assignments.extend(rest_of_gang(cell, instance));
                }
                Op::Assign { by: SchedulerName::main(), assignments, began }
            }
            Self::ReportOne { task, what } => {
                let tasks = incarnations(true);
                if tasks.is_empty() {
                    return Op::Nothing;
                }
                let id = *task.get(&tasks);
                let machine = cell.placement(id).expect("placed").machine;
                Op::Observe { machine, observations: vec![observation(id, what.clone())] }
            }
        }
    }
}

/// The outputs of an ended task become a version, if its job says so.
fn add_outputs(cell: &Cell, which: &Index) -> Op {
    let mut left = Vec::new();
    for job in cell.jobs() {
        for index in (0..job.size()).map(TaskIndex) {
            let last = job.task(index).and_then(|task| task.last_incarnation.as_deref());
            let Some(last) = last else { continue };
            let instance = TaskId { collection: job.id, index }.generation(last.generation);
            let Some(machine) = cell.machine(last.machine) else { continue };
            let id = job.described(index).task.outputs.version_of(&job.owner, instance);
            left.extend(id.map(|id| (machine.name.clone(), instance, id)));
        }
    }
    if left.is_empty() {
        return Op::Nothing;
    }
    let (machine, instance, id) = which.get(&left).clone();
    let package = Package {
        id,
        digest: Digest::from_bytes([1; Digest::BYTES]),
        kind: PackageKind::Files,
        stored: Bytes(1 << 20),
        unpacked: Bytes(1 << 20),
        entries: 1,
        architectures: BTreeSet::new(),
        readers: PackageReaders::default(),
    };
    Op::AddOutputs { machine, instance, package: Arc::new(package) }
}

/// Instances that a task may evict from a machine, if it would not fit otherwise.
fn request(cell: &Cell, by: &str, mutation: Mutation) -> Op {
    let session = 1 + USERS.iter().position(|user| *user == by).expect("a user") as u64;
    let id = RequestId { session: SessionId(session), sequence: cell.index().0 };
    Op::Request { id, by: user(by), mutation }
}

fn update_step(job: &Job, kind: u8, index: TaskIndex) -> UpdateStep {
    // One that has still to be changed, if there is one.
    let mut tasks = (0..job.spec.tasks).map(TaskIndex);
    let index = match kind {
        1 | 5 => tasks.find(|index| job.is_to_change(*index)).unwrap_or(index),
        2 => {
            let update = job.update.as_ref();
            update.and_then(|update| update.changing.keys().next()).copied().unwrap_or(index)
        }
        _ => index,
    };
    match kind {
        0 => UpdateStep::Passed(index),
        1 => UpdateStep::Skip(index, SkipReason::Budget),
        2 => {
            let instance = job.instance(index).unwrap_or(InstanceId {
                collection: job.id,
                index,
                generation: Generation(1),
            });
            UpdateStep::Fail(UpdateFailure { instance, end: None })
        }
        3 => UpdateStep::Finish,
        4 => UpdateStep::Close,
        _ => UpdateStep::Change(index),
    }
}

fn victims(cell: &Cell, job: &Job, machine: &Machine) -> Vec<InstanceId> {
    if job.limit(TaskIndex(0)).first_above(&machine.free()).is_none() {
        return Vec::new();
    }
    let lower = |id: &InstanceId| {
        let placed = cell.placement(*id).is_some_and(|placed| placed.stop.is_none());
        placed
            && cell.job(id.collection).is_some_and(|other| other.spec.priority < job.spec.priority)
    };
    machine.instances().iter().copied().filter(lower).collect()
}

/// A bootstrapped cell with a session for each user and two machines, one of which has not
/// answered.
fn begun() -> Cell {
    let mut cell = Cell::empty();
    let bootstrapped =
        Op::Bootstrap { name: CellName::new("cc").expect("a name"), administrator: user("root") };
    cell.apply(Time::ZERO, &bootstrapped);
    for by in USERS {
        cell.apply(Time::ZERO, &Op::OpenSession { user: user(by) });
    }
    for (sequence, name) in [(1, "m1"), (2, "m2")] {
        let name = MachineName::new(name).expect("a name");
        let mutation = Mutation::AddMachine(AddMachine { address: format!("{name}:1"), name });
        let id = RequestId { session: SessionId(3), sequence };
        cell.apply(Time::ZERO, &Op::Request { id, by: user("root"), mutation });
    }
    cell.apply(Time::ZERO, &Op::DescribeMachine { machine: MachineId(1), report: report(&[]) });
    cell
}

/// What a rejection or a repetition must not change.
fn objects(cell: &Cell) -> Image {
    let image = cell.image();
    Image { index: model::LogIndex(0), time: Time::ZERO, sessions: Vec::new(), ..image }
}

/// What each machine is to run: what is placed there and not being stopped.
fn desired(cell: &Cell) -> BTreeMap<MachineId, Vec<InstanceId>> {
    let dying = |id: &InstanceId| cell.placement(*id).is_none_or(|placed| placed.stop.is_some());
    let wanted = |machine: &Machine| {
        machine.instances().iter().copied().filter(|id| !dying(id)).collect::<Vec<_>>()
    };
    let wanted = cell.machines().map(|machine| (machine.id, wanted(machine)));
    wanted.filter(|(_, wanted)| !wanted.is_empty()).collect()
}

fn apply(cell: &mut Cell, at: Time, op: &Op) -> Applied {
    let (before, desired_before) = (objects(cell), desired(cell));
    let mut watch = DecisionChecker::from(cell);
    let applied = cell.apply(at, op);
    assert_eq!(cell.check(), [], "after {op:?}");
    assert_eq!(watch.after(cell, &applied), [], "{op:?} gave {applied:?}");
    let desired_after = desired(cell);
    for machine in desired_before.keys().chain(desired_after.keys()) {
        let same = desired_before.get(machine) == desired_after.get(machine);
        assert!(same || applied.reordered.contains(machine), "{machine} needs a new order");
    }
    if let Outcome::Request(Err(_)) = applied.outcome {
        assert!(applied.events.is_empty() && objects(cell) == before, "a refusal changes nothing");
    }
    if let Op::Request { .. } | Op::Enrol { .. } | Op::RenewMachine { .. } = op {
        let (mut again, now) = (cell.clone(), objects(cell));
        let repeated = again.apply(at, op);
        assert!(repeated.events.is_empty() && objects(&again) == now, "{op:?} is done once");
        assert!(
            repeated.outcome == applied.outcome || repeated_too_late(&repeated.outcome),
            "{op:?} gave {:?}, then {:?}",
            applied.outcome,
            repeated.outcome
        );
    }
    applied
}

fn repeated_too_late(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Request(Err(cell::Rejection::AnswerForgotten { .. })))
}

/// Runs the steps; at the cut, a copy is loaded from an image and runs the rest too.
fn run(bootstrapped: bool, steps: &[(u64, Step)], cut: usize) {
    let start = if bootstrapped { begun() } else { Cell::empty() };
    let mut cell = start.clone();
    let mut follower = Follower::of(&cell);
    let (mut ops, mut copy, mut view) = (Vec::new(), None, None);
    for (position, (seconds, step)) in steps.iter().enumerate() {
        if position == cut {
            copy = Some(Cell::from_image(cell.image()).expect("the image of a cell"));
            view = Some((cell.clone(), format!("{cell:?}")));
        }
        let (at, op) = (Time(seconds.saturating_mul(1_000_000)), step.op(&cell));
        let applied = apply(&mut cell, at, &op);
        follower.follow(&applied.events);
        if let Some(copy) = &mut copy {
            assert_eq!(copy.apply(at, &op), applied, "a loaded cell answers alike");
            assert_eq!(copy.check(), []);
        }
        ops.push((at, op));
    }
    follower.agrees_with(&cell);
    let mut replayed = start;
    ops.iter().for_each(|(at, op)| drop(replayed.apply(*at, op)));
    assert_eq!(replayed.image(), cell.image(), "a replay ends alike");
    if let Some(copy) = copy {
        assert_eq!(copy.image(), cell.image(), "a loaded cell ends alike");
        assert!(copy.named_jobs().eq(cell.named_jobs()), "and names lead to the same jobs");
    }
    if let Some((view, text)) = view {
        assert_eq!(format!("{view:?}"), text, "a view does not change");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn the_cell_stays_consistent_under_any_operations(
        bootstrapped in prop::bool::weighted(0.9),
        steps in prop::collection::vec(
            (prop_oneof![0..20_u64, Just(u64::MAX)], step(WithPackages::Yes)),
            0..60,
        ),
        cut in 0..60_usize,
    ) {
        run(bootstrapped, &steps, cut);
    }

    #[test]
    fn the_cell_stays_consistent_under_mostly_valid_operations(
        steps in prop::collection::vec((0..20_u64, step(WithPackages::Yes)), 60..120),
        cut in 0..120_usize,
    ) {
        let absurd = |step: &Step| matches!(step, Step::Absurd(_));
        let kept = |position: usize, step: &Step| !absurd(step) || position.is_multiple_of(4);
        let steps: Vec<_> = steps
            .into_iter()
            .enumerate()
            .filter(|(position, (_, step))| kept(*position, step))
            .map(|(_, step)| step)
            .collect();
        run(true, &steps, cut);
    }
}

/// The sequences above reach the states they are meant for.
#[test]
fn a_long_sequence_places_and_ends_tasks() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut cell, mut seen) = (begun(), BTreeSet::new());
    for number in 0..800_000 {
        // Otherwise nobody would have quota any more, and nothing would be admitted.
        if number % 6_000 == 0 {
            cell = begun();
        }
        // Packages would take the places of rarer events.
        let step = step(WithPackages::No).new_tree(&mut runner).expect("a step").current();
        let op = step.op(&cell);
        let applied = cell.apply(cell.time() + Span::from_secs(1), &op);
        for event in applied.events {
            let kind = format!("{:?}", event.kind);
            if kind.contains("alloc: Some") {
                seen.insert(Some("Schedule in an alloc".to_owned()));
            }
            seen.insert(kind.split([' ', '(']).next().map(str::to_owned));
        }
        if cell.job_count() > 50 {
            let collections = cell.jobs().map(|job| job.id).collect();
            cell.apply(cell.time(), &Op::Forget { collections });
        }
    }
    // An autoscaler of random limits is always out of bounds.
    assert_eq!(
        seen.len(),
        72,
        "every kind of event but the cell's own and an autoscaler's: {seen:?}"
    );
    assert_eq!(cell.check(), []);
}
