//! A cell with every kind of thing in it, and its checkpoints that are kept: one of each level that
//! there was. They must stay readable for ever (docs/decisions/017). The test writes that of a new
//! level with `UPDATE_EXPECT=1`, and never one that is there.

mod members;
mod owners;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use cell::{
    AddMachine, Applied, Assignment, Cell, ControlUpdate, Death, DrainMachine, EvictionCause,
    Health, Kill, KillReason, LEVEL, MachineState, Mutation, Observation, Op, Outcome,
    PendingCause, Phase, Rejection, RemoveMachine, Reply, RequestId, Reservation,
    ResumeRescheduling, SetAttributes, SetPacking, SetPlatform, SetReclamation, StopReason, Task,
    TaskState, UndrainMachine, UpdateAction,
};
use expect_test::expect;
use formats::image::state_hash;
use model::{
    Appclass, Band, Bytes, Capability, CellName, End, GcuFactor, Generation, GrantId, InstanceId,
    JobName, Level, MachineId, MachineReport, MilliCores, PackingPolicy, Reclamation, Resources,
    RestoreEpoch, SchedulingClass, SessionId, Span, TaskId, TaskIndex, TaskSelection, Term, Time,
    UserName, Version,
};
use spec::{
    Constraint, HealthCheck, JobReference, JobSpec, Maximum, Predecessor, Probe, Relation,
    TaskOverride, TaskSpec,
};

use super::{Origin, read, write_as};

/// Each level with the state hash in its checkpoint.
const KEPT: [(Level, &str); 1] = [
    // Not released yet: a change that adds to it deletes the file and writes a new one.
    (Level(1), "e44b754c8e894da110d659e8b0de57c0acc5e078e7907d01fd09be45e1777f43"),
];

const ORIGIN: Origin =
    Origin { term: Term(3), restore_epoch: RestoreEpoch { counter: 1, random: 0 } };

fn file(level: Level) -> PathBuf {
    let name = format!("tests/kept/level-{level}.checkpoint");
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[test]
fn a_checkpoint_of_every_level_is_kept_and_read() {
    assert_eq!(KEPT.map(|(level, _)| level).last(), Some(&LEVEL), "each level is kept");
    for (level, hash) in KEPT {
        let file = file(level);
        let shown = file.display();
        if !file.exists() && std::env::var_os("UPDATE_EXPECT").is_some() {
            write_as(&file, &every_kind_of_thing(level).image(), ORIGIN).expect("there is room");
        }
        let (cell, origin) = read(&file).unwrap_or_else(|error| panic!("{error:#}"));
        assert_eq!((cell.level(), origin), (level, ORIGIN), "{shown}");
        assert_eq!(cell.check(), [], "{shown}");
        assert_eq!(state_hash(&cell).to_string(), hash, "{shown}");
        assert!(fs::metadata(&file).expect("it is there").len() < 50 << 10, "{shown} is small");
    }
}

#[test]
fn the_same_operations_give_the_state_that_is_kept() {
    for (level, hash) in KEPT {
        let cell = every_kind_of_thing(level);
        assert_eq!(cell.level(), level);
        assert_eq!(state_hash(&cell).to_string(), hash, "at level {level}");
    }
}

/// What a cell has, a word for each kind.
fn kinds(cell: &Cell) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    seen.insert(format!("rescheduling {}", first_word(cell.rescheduling()).to_lowercase()));
    for job in cell.jobs() {
        let state = format!("{:?}", job.state);
        let state = state.split([' ', '(']).next().unwrap_or_default().to_lowercase();
        seen.insert(format!("job {state}"));
        seen.extend(job.tasks().map(|(_, task)| format!("task {}", of_task(task))));
        let ends = job.tasks().filter_map(|(_, task)| task.last_incarnation.as_ref());
        seen.extend(ends.map(|incarnation| format!("end {}", first_word(&incarnation.end))));
    }
    for machine in cell.machines() {
        let state = match machine.state {
            MachineState::Joining => "joining",
            MachineState::Up if machine.drain.is_some() => "draining",
            MachineState::Up if machine.is_suspect(cell.time()) => "suspect",
            MachineState::Up => "up",
            MachineState::Unreachable { .. } => "unreachable",
            MachineState::Down { .. } => "down",
        };
        seen.insert(format!("machine {state}"));
        if machine.held_port_count() > 0 {
            seen.insert("machine of which something holds ports".to_owned());
        }
    }
    for (_, session) in &cell.image().sessions {
        seen.extend(session.answers.values().map(|answer| match answer {
            Ok(reply) => format!("answer {}", first_word(reply)),
            Err(rejection) => format!("refusal {}", first_word(rejection)),
        }));
    }
    seen
}

#[test]
fn the_kept_checkpoint_has_every_kind_of_object() {
    let seen = kinds(&read(&file(LEVEL)).expect("it is kept").0);
    expect![[r#"
        answer Done
        answer Granted
        answer Killed
        answer MachineAdded
        answer MachineRevoked
        answer ReplicaAdded
        answer Submitted
        answer TokenIssued
        answer Updated
        answer UserAdded
        answer UserRevoked
        end BrokeRule
        end Exited
        end Lost
        end NotStarted
        end OutOfMemory
        end OutOfResources
        end Signalled
        end Stopped
        end Unhealthy
        job dead
        job pending
        job queued
        job running
        machine down
        machine draining
        machine joining
        machine of which something holds ports
        machine unreachable
        machine up
        refusal BadText
        refusal CannotControlUpdate
        refusal ChangedMeanwhile
        refusal Fixed
        refusal InvalidDescription
        refusal NoSuchGrant
        refusal NoSuchJob
        refusal NoSuchReference
        refusal NoSuchReplica
        refusal NoSuchTask
        refusal NotAllowed
        refusal NotAnAllocSet
        refusal NotStopped
        refusal Oversold
        refusal PredecessorEnded
        refusal Quota
        refusal RevokesOneself
        rescheduling resumed
        task Failed
        task Finished
        task healthy
        task killed ParentEnded
        task killed PredecessorEnded
        task killed User
        task pending Failed
        task pending MachineFailure
        task pending MachineShutdown
        task pending OutOfResources
        task pending Preempted
        task pending StartLost
        task pending Submitted
        task queued
        task started
        task starting
        task stopping MachineShutdown
        task stopping Preempted
        task stopping Updated
        task stopping killed ParentEnded
        task stopping killed User
        task unhealthy
    "#]]
    .assert_eq(&seen.iter().fold(String::new(), |text, word| text + word + "\n"));
}

fn first_word(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.split([' ', '(', '{']).next().unwrap_or_default().to_owned()
}

fn of_task(task: &Task) -> String {
    let killed = |why: &KillReason| format!("killed {}", first_word(why));
    match &task.state {
        TaskState::Queued { .. } => "queued".to_owned(),
        TaskState::Pending { cause, .. } => match cause {
            PendingCause::Evicted(cause) => format!("pending {}", of_cause(*cause)),
            other => format!("pending {}", first_word(other)),
        },
        TaskState::Running(placement) => match (placement.stop.as_deref(), placement.phase) {
            (Some(StopReason::Kill(why)), _) => format!("stopping {}", killed(why)),
            (Some(StopReason::Evict(cause)), _) => format!("stopping {}", of_cause(*cause)),
            (None, Phase::Starting) => "starting".to_owned(),
            (None, Phase::Started { health, .. }) => match health {
                Health::Unknown => "started".to_owned(),
                Health::Healthy => "healthy".to_owned(),
                Health::Unhealthy => "unhealthy".to_owned(),
                Health::Unready => "not ready".to_owned(),
            },
        },
        TaskState::Dead { death: Death::Killed(why), .. } => killed(why),
        TaskState::Dead { death, .. } => first_word(death),
    }
}

fn of_cause(cause: EvictionCause) -> String {
    first_word(&cause)
}

/// The cell, made by operations at a level. What a later level adds is added for it alone.
pub(crate) fn every_kind_of_thing(level: Level) -> Cell {
    let mut history = KeptHistory::begin();
    if level > history.cell.level() {
        history.apply(&Op::RaiseLevel { to: level });
    }
    history.machines();
    history.a_service();
    history.a_preemption();
    history.failures();
    history.relations();
    history.lost_machines();
    history.refusals();
    history.crashes();
    history.unreachable_machines();
    history.reservations();
    history.users();
    history.allocs();
    history.quota();
    history.replicas();
    history.enrolment();
    history.rules();
    history.cell
}

struct KeptHistory {
    cell: Cell,
    now: Time,
    sequences: BTreeMap<&'static str, u64>,
}

/// Who asks; session 1 is the first one's, and so on.
const USERS: [&str; 3] = ["root", "ana", "ben"];

impl KeptHistory {
    fn begin() -> Self {
        let now = Time(1_750_000_000_000_000);
        let mut history = Self { cell: Cell::empty(), now, sequences: BTreeMap::new() };
        history.apply(&Op::Nothing);
        let name = CellName::new("kept").expect("a name");
        history.apply(&Op::Bootstrap { name, administrator: user("root") });
        USERS.iter().for_each(|name| drop(history.apply(&Op::OpenSession { user: user(name) })));
        history
    }

    fn apply(&mut self, op: &Op) -> Applied {
        self.now = self.now + Span::from_secs(1);
        let applied = self.cell.apply(self.now, op);
        assert_eq!(self.cell.check(), [], "after {op:?}");
        applied
    }

    /// Reservations of a running and a waiting task, and maxima.
    fn reservations(&mut self) {
        let maximum = |tasks, hard| Some(Maximum { tasks, hard });
        self.submit("apart", 3, |job| {
            job.max_per_machine = maximum(1, true);
            job.max_per_switch = maximum(2, false);
        });
        let name = JobName::new("apart").expect("a name");
        let id = self.cell.job_named(&user("ana"), &name).expect("submitted").id;
        let one = |index| TaskId { collection: id, index: TaskIndex(index) };
        let instance = |index| one(index).generation(Generation(1));
        let limit = self.cell.job(id).expect("submitted").limit(TaskIndex(0));
        let amount = Resources { cpu: MilliCores(limit.cpu.0 / 2), ..limit };
        let reserve =
            |index| Reservation { instance: instance(index), amount, newest_sample: Some(Time(7)) };
        let up = self
            .cell
            .machines()
            .find(|machine| machine.state == MachineState::Up && machine.drain.is_none());
        let machine = up.expect("a machine that is up").clone();
        let ports =
            machine.free_ports(self.cell.job(id).expect("there").ports(TaskIndex(0)).len(), &[]);
        let assignment = Assignment {
            address: None,
            instance: instance(0),
            alloc: None,
            machine: machine.id,
            ports,
            victims: Vec::new(),
        };
        let placed = self.apply(&Op::assign(vec![assignment])).outcome;
        assert_eq!(placed, Outcome::Assigned(vec![Ok(())]));
        self.apply(&Op::Reserve(vec![reserve(0), reserve(1)]));
        assert_eq!(self.cell.job(id).expect("there").reservation(TaskIndex(1)), amount);
    }

    fn ask(&mut self, by: &'static str, mutation: Mutation) -> Result<Reply, Rejection> {
        let sequence = self.sequences.entry(by).or_default();
        *sequence += 1;
        let session = USERS.iter().zip(1..).find(|(name, _)| **name == by);
        let session = SessionId(session.expect("a user with a session").1);
        let id = RequestId { session, sequence: *sequence };
        match self.apply(&Op::Request { id, by: user(by), mutation }).outcome {
            Outcome::Request(answer) => answer,
            other => panic!("{other:?} answers no request"),
        }
    }

    #[track_caller]
    fn does(&mut self, by: &'static str, mutation: Mutation) {
        let answer = self.ask(by, mutation);
        assert!(answer.is_ok(), "{answer:?}");
    }

    #[track_caller]
    fn may_not(&mut self, by: &'static str, mutation: Mutation) {
        let answer = self.ask(by, mutation);
        assert!(answer.is_err(), "{answer:?}");
    }

    #[track_caller]
    fn submit(&mut self, name: &str, tasks: u32, change: impl FnOnce(&mut JobSpec)) {
        self.does("ana", Mutation::Submit(job(name, tasks, change)));
    }

    fn kill(&self, name: &str, tasks: TaskSelection) -> Mutation {
        let name = JobName::new(name).expect("a name");
        let job = self.cell.job_named(&user("ana"), &name).expect("a job of that name");
        Mutation::Kill(Kill::of(job, tasks))
    }

    fn machine(&self, name: &str) -> MachineId {
        let name = name.parse().expect("a name");
        self.cell.machine_named(&name).expect("a machine of that name").id
    }

    /// Places tasks, each with its first free ports.
    #[track_caller]
    fn assign(&mut self, instances: &str, machine: &str, victims: &str) {
        for instance in ids(instances) {
            let to = self.cell.machine_named(&machine.parse().expect("a name"));
            let to = to.expect("a machine of that name");
            let job = self.cell.job(instance.collection).expect("a job");
            let ports = to.free_ports(job.ports(instance.index).len(), &[]);
            let (machine, victims) = (to.id, ids(victims));
            let assignment =
                Assignment { address: None, instance, alloc: None, machine, ports, victims };
            let outcome = self.apply(&Op::assign(vec![assignment])).outcome;
            assert_eq!(outcome, Outcome::Assigned(vec![Ok(())]), "{instance}");
        }
    }

    #[track_caller]
    fn observe(&mut self, machine: &str, what: &[Observation]) {
        let (machine, observations) = (self.machine(machine), what.to_vec());
        let outcome = self.apply(&Op::Observe { machine, observations }).outcome;
        assert_eq!(outcome, Outcome::Observed(vec![]), "{what:?}");
    }

    #[track_caller]
    fn started(&mut self, machine: &str, instances: &str) {
        let started = Observation::started;
        let all: Vec<_> = ids(instances).into_iter().map(started).collect();
        self.observe(machine, &all);
    }

    #[track_caller]
    fn ended(&mut self, machine: &str, instance: &str, end: End) {
        self.observe(
            machine,
            &[Observation::Ended {
                instance: id(instance),
                end,
                usage: model::FinalUsage::UNMEASURED,
            }],
        );
    }

    /// Tasks of several jobs crash on one machine.
    fn crashes(&mut self) {
        for (by, name) in [("ana", "crash-1"), ("ana", "crash-2"), ("ben", "crash-3")] {
            self.does(by, Mutation::Submit(job(name, 1, |_| {})));
            let job = self.cell.job_named(&user(by), &name.parse().expect("a name"));
            let instance = job.and_then(|job| job.instance(TaskIndex(0))).expect("a task");
            self.assign(&instance.to_string(), "m6", "");
            self.ended("m6", &instance.to_string(), End::Signalled { signal: 11 });
        }
    }

    fn machines(&mut self) {
        for number in 1..=7 {
            self.add(&format!("m{number}"), &format!("127.0.0.1:{number}"));
        }
        self.does(
            "root",
            Mutation::RemoveMachine(RemoveMachine {
                machine: "m7".parse().expect("a name"),
                force: false,
            }),
        );
        for (name, platform) in [
            ("m1", "x86-64"),
            ("m2", "arm64"),
            ("m4", "x86-64"),
            ("m5", "x86-64"),
            ("m6", "x86-64"),
        ] {
            let attributes = [("kernel", "6.1"), ("platform", platform)];
            let report = Arc::new(MachineReport {
                task_network: None,
                capacity: Resources {
                    cpu: MilliCores(4_000),
                    ram: Bytes(8 << 30),
                    disk: Bytes(100 << 30),
                    disk_rate: Bytes(100 << 20),
                },
                ports: "31000-31015".parse().expect("ports"),
                attributes: attributes.map(|(name, value)| (name.into(), value.into())).into(),
                held_ports: Vec::new(),
                saving: Vec::new(),
                volumes: Vec::new(),
                shortage: None,
                not_ready: None,
            });
            self.apply(&Op::DescribeMachine { machine: self.machine(name), report });
        }
        let changes = [("rack".to_owned(), Some("r1".to_owned())), ("gpu".to_owned(), None)].into();
        let machine = "m1".parse().expect("a name");
        self.does("root", Mutation::SetAttributes(SetAttributes { machine, changes }));
        let factor = GcuFactor::from_milli(800).expect("a factor");
        self.does(
            "root",
            Mutation::SetPlatform(SetPlatform { platform: "arm64".to_owned(), factor }),
        );
        self.does("root", SetReclamation(Reclamation::Aggressive).into());
        self.does("root", SetPacking(PackingPolicy::BestFit).into());
    }

    #[track_caller]
    fn add(&mut self, name: &str, address: &str) {
        let (name, address) = (name.parse().expect("a name"), address.to_owned());
        self.does("root", Mutation::AddMachine(AddMachine { name, address }));
    }

    /// Job 1: a task in each state of a service's life cycle.
    fn a_service(&mut self) {
        self.submit("web", 6, service);
        self.assign("1-0-1 1-1-1 1-2-1 1-3-1 1-4-1", "m1", "");
        self.started("m1", "1-1-1 1-2-1 1-3-1 1-4-1");
        for (instance, healthy) in [("1-2-1", true), ("1-3-1", true), ("1-3-1", false)] {
            self.observe(
                "m1",
                &[Observation::Health { instance: id(instance), healthy, check: String::new() }],
            );
        }
        let fifth = TaskSelection::Some(vec![(TaskIndex(4), TaskIndex(4))]);
        self.does("ana", self.kill("web", fifth));
        self.does("ana", Mutation::Submit(job("web", 6, service)));
        let relabelled = |job: &mut JobSpec| {
            service(job);
            job.labels.insert("tier".to_owned(), "gold".to_owned());
        };
        self.does("ana", Mutation::Submit(job("web", 6, relabelled)));
    }

    /// Job 2 gives way to job 3; one of its tasks has left already.
    fn a_preemption(&mut self) {
        self.submit("train", 3, |job| {
            job.priority = Band::Free.usual();
            job.task.limit.cpu = MilliCores(1_500);
        });
        self.assign("2-0-1 2-1-1", "m2", "");
        self.started("m2", "2-0-1 2-1-1");
        self.submit("urgent", 2, |job| job.task.limit.cpu = MilliCores(1_500));
        self.assign("3-0-1", "m2", "2-0-1");
        self.assign("3-1-1", "m2", "2-1-1");
        self.ended("m2", "2-0-1", End::Signalled { signal: 15 });
    }

    /// Jobs 4 to 8: what fails, finishes or is killed, and what hangs on it.
    fn failures(&mut self) {
        self.submit("flaky", 3, |_| {});
        self.assign("4-0-1 4-1-1 4-2-1", "m6", "");
        self.started("m6", "4-0-1 4-2-1");
        let reason = || "no such \"program\"".to_owned();
        self.ended("m6", "4-0-1", End::Exited { code: 3 });
        self.ended("m6", "4-1-1", End::NotStarted { reason: reason() });
        self.ended("m6", "4-2-1", End::Unhealthy { reason: "GET /: 500".to_owned() });
        self.submit("hungry", 1, |job| job.restart.failures_max = Some(0));
        self.submit("second", 1, |job| job.after = [after("hungry")].into());
        self.assign("5-0-1", "m1", "");
        self.started("m1", "5-0-1");
        let (limit, peak) = (Bytes(64 << 20), Bytes(65 << 20));
        self.ended("m1", "5-0-1", End::OutOfMemory { limit, peak });
        self.submit("done", 2, |job| job.task.cmd.push("--index=${task.index}".to_owned()));
        self.assign("7-0-1 7-1-1", "m1", "");
        self.started("m1", "7-0-1 7-1-1");
        self.ended("m1", "7-0-1", End::Exited { code: 0 });
        self.ended("m1", "7-1-1", End::Exited { code: 0 });
        self.submit("forgotten", 1, |_| {});
        self.does("ana", self.kill("forgotten", TaskSelection::All));
        self.apply(&Op::Forget { collections: vec![id("8-0-1").collection] });
    }

    /// Jobs 9 to 13: parents, children and those who wait.
    fn relations(&mut self) {
        self.submit("family", 2, |_| {});
        self.submit("orphan", 1, |job| job.parent = Some(reference("family")));
        self.submit("ward", 1, |job| job.parent = Some(reference("family")));
        self.assign("9-0-1 11-0-1", "m1", "");
        self.started("m1", "9-0-1 11-0-1");
        self.does("ana", self.kill("family", TaskSelection::All));
        self.ended("m1", "9-0-1", End::Stopped);
        self.submit("later", 2, |job| job.after = [after("web"), after("done")].into());
        self.submit("helper", 1, |job| job.parent = Some(reference("web")));
    }

    /// Jobs 14 and 15: machines that are down or being emptied.
    fn lost_machines(&mut self) {
        self.submit("adrift", 3, |_| {});
        self.assign("14-0-1 14-1-1", "m4", "");
        self.assign("14-2-1", "m1", "");
        self.apply(&Op::MachineSilent { machine: self.machine("m4") });
        self.ended("m1", "14-2-1", End::Lost { reason: "its shim is gone".to_owned() });
        self.submit("settled", 2, |_| {});
        self.assign("15-0-1 15-1-1", "m5", "");
        self.started("m5", "15-0-1 15-1-1");
        let (machine, reason) = ("m5".parse().expect("a name"), "a new kernel".to_owned());
        self.does("root", Mutation::DrainMachine(DrainMachine::of(machine, reason)));
        self.ended("m5", "15-0-1", End::Signalled { signal: 9 });
    }

    /// Unreachable machines, the circuit breaker, and the user who resets it.
    fn unreachable_machines(&mut self) {
        self.submit("cut-off", 2, |_| {});
        let job = self.cell.job_named(&user("ana"), &"cut-off".parse().expect("a name"));
        let job = job.expect("a job of that name").id;
        self.assign(&format!("{job}-0-1 {job}-1-1"), "m6", "");
        self.started("m6", &format!("{job}-0-1 {job}-1-1"));
        self.may_not("root", Mutation::ResumeRescheduling(ResumeRescheduling));
        for name in ["m1", "m6"] {
            self.apply(&Op::MachineUnreachable { machine: self.machine(name) });
        }
        self.apply(&Op::StopRescheduling { silent: 2, of: 4 });
        self.apply(&Op::AllowRescheduling);
        self.apply(&Op::MachineBack { machine: self.machine("m1") });
        self.apply(&Op::StopRescheduling { silent: 3, of: 4 });
        let first = TaskSelection::Some(vec![(TaskIndex(0), TaskIndex(0))]);
        self.does("ana", self.kill("cut-off", first));
        self.does("root", Mutation::ResumeRescheduling(ResumeRescheduling));
    }

    fn refusals(&mut self) {
        self.may_not("ben", self.kill("web", TaskSelection::All));
        let nobodys = Kill {
            owner: user("ben"),
            job: JobName::new("nothing").expect("a name"),
            tasks: TaskSelection::All,
            now: false,
        };
        self.may_not("ben", Mutation::Kill(nobodys));
        let beyond = TaskSelection::Some(vec![(TaskIndex(9), TaskIndex(9))]);
        self.may_not("ana", self.kill("web", beyond));
        let after = |name: &'static str| {
            Mutation::Submit(job("refused", 1, |job| job.after = [after(name)].into()))
        };
        self.may_not("ana", after("nothing"));
        self.may_not("ana", after("hungry"));
        self.may_not("ana", Mutation::Submit(job("refused", 1, |job| job.task.cmd.clear())));
        let other = |job: &mut JobSpec| {
            service(job);
            job.parent = Some(reference("nothing"));
        };
        self.may_not("ana", Mutation::Submit(job("web", 6, other)));
        let large = |job: &mut JobSpec| {
            service(job);
            job.labels.insert("tier".to_owned(), "gold".to_owned());
            job.task.limit.ram = Bytes(7 << 30);
        };
        // An update that is open: most tasks would have to move.
        self.does("ana", Mutation::Submit(job("web", 6, large)));
        let control = |action, expected| {
            let (owner, job) = (user("ana"), JobName::new("web").expect("a name"));
            Mutation::ControlUpdate(ControlUpdate { owner, job, action, to: None, expected })
        };
        self.may_not("ana", control(UpdateAction::Resume, None));
        self.may_not("ana", control(UpdateAction::Pause, Some(Version(1))));
        self.does("ana", control(UpdateAction::Pause, None));
        let machine = || "m1".parse().expect("a name");
        self.may_not(
            "root",
            Mutation::RemoveMachine(RemoveMachine { machine: machine(), force: false }),
        );
        let (name, address) = ("m8".parse().expect("a name"), "127.0.0.1:1".to_owned());
        self.may_not("root", Mutation::AddMachine(AddMachine { name, address }));
        self.may_not(
            "root",
            Mutation::UndrainMachine(UndrainMachine { machine: "m9".parse().expect("a name") }),
        );
        let reason = "\u{7}".to_owned();
        self.may_not("root", Mutation::DrainMachine(DrainMachine::of(machine(), reason)));
    }
}

fn user(name: &str) -> UserName {
    UserName::new(name).expect("a name")
}

fn id(text: &str) -> InstanceId {
    text.parse().unwrap_or_else(|()| panic!("'{text}' is no instance"))
}

fn ids(text: &str) -> Vec<InstanceId> {
    text.split_whitespace().map(id).collect()
}

fn after(name: &str) -> Predecessor {
    name.parse().expect("a job to run after")
}

fn reference(name: &str) -> JobReference {
    name.parse().expect("a job's name")
}

fn job(name: &str, tasks: u32, change: impl FnOnce(&mut JobSpec)) -> Arc<JobSpec> {
    let name = JobName::new(name).expect("a name");
    let task = TaskSpec::of(vec!["compute".to_owned()]);
    let mut job = JobSpec::of(name, Band::Production.usual(), tasks, task);
    change(&mut job);
    Arc::new(job)
}

/// A service with everything that can be said of one.
fn service(job: &mut JobSpec) {
    let text = str::to_owned;
    job.appclass = Appclass::LatencySensitive;
    job.scheduling_class = SchedulingClass::usual(job.appclass);
    job.labels = [("team".to_owned(), "search".to_owned())].into();
    job.restart.failures_max = None;
    let http: model::PortName = "http".parse().expect("a name");
    job.task.cmd = ["serve", "--port=${port.http}"].map(text).into();
    job.task.env = [("MODE".to_owned(), "fast; \"quoted\" \u{1b}[31m".to_owned())].into();
    job.task.limit.disk_rate = Bytes(1 << 20);
    job.task.ports = [http.clone(), "admin".parse().expect("a name")].into();
    job.task.health_check = Some(HealthCheck::on(http.clone()));
    job.task.notice = Span::from_secs(20);
    let constraint = |attribute: &str, relation, value: &str, hard| {
        let (attribute, value) = (attribute.to_owned(), value.to_owned());
        Constraint { attribute, relation, value, hard }
    };
    job.task.constraints = vec![
        constraint("platform", Relation::Equal, "x86-64", true),
        constraint("rack", Relation::Present, "", false),
    ];
    let limit = Some(Resources { ram: Bytes(128 << 20), ..job.task.limit });
    let change = TaskOverride {
        cmd: Some(["serve", "--canary", "--port=${port.http}"].map(text).into()),
        env: [("MODE".to_owned(), "slow".to_owned())].into(),
        limit,
        processes: Some(64),
        ports: Some([http.clone()].into()),
        health_check: Some(HealthCheck::of(Probe::Http { port: http, path: "/canary".to_owned() })),
        notice: Some(Span::from_secs(1)),
        constraints: Some(vec![]),
        labels: [("track".to_owned(), "canary".to_owned())].into(),
    };
    job.overrides = [(TaskIndex(5), change)].into();
}
