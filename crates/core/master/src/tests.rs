//! A single replica, which leads, its cell, and a machine whose answers the test supplies.

mod agreeing;
mod allocs;
mod cluster;
mod controllers;
mod failure_detector;
mod handover;
mod opinions;
mod partitions;
mod proposals;
mod reachability;
mod reclamation;
mod session;
mod surge;
mod updates;

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use borglet::{Measured, TaskReport, TaskStatus, Usage, UsageSample, UsageSubject};
use cell::{AddMachine, Assignment, Mutation, Observation, Outcome, RequestId, Reservation};
use model::{
    Bytes, CellName, CollectionId, End, GcuFactor, Generation, InstanceId, LogIndex, MachineName,
    MachineReport, MilliCores, PortRange, ReplicaId, Resources, RestoreEpoch, SessionId, Stamp,
    StartLatency, TaskIndex, TaskSelection, Term, UserName,
};
use spec::{JobSpec, TaskSpec};

struct World {
    cell: Cell,
    shard: LinkShard,
    master: Master,
    now: Time,
    actions: Vec<Action>,
    sequence: u64,
    /// What the machine sends beside its next report.
    usage: Usage,
    /// The version of its next report.
    version: u64,
}

const M1: MachineId = MachineId(1);

/// Ana kills tasks of a job of hers.
fn kill(job: &str, tasks: TaskSelection) -> Mutation {
    let owner = UserName::new("ana").expect("a name");
    Mutation::Kill(cell::Kill {
        owner,
        job: model::JobName::new(job).expect("a name"),
        tasks,
        now: false,
    })
}

impl World {
    /// A cell with one machine that has not reported yet.
    fn new() -> Self {
        let mut world = Self {
            cell: Cell::empty(),
            shard: LinkShard::new(Settings::default()),
            master: Master::new(Settings::default()),
            now: Time(1_000_000),
            actions: vec![],
            sequence: 0,
            usage: Usage::default(),
            version: 1,
        };
        let ana = UserName::new("ana").expect("a name");
        let name = CellName::new("dev").expect("a name");
        world.apply(&Op::Bootstrap { name, administrator: ana.clone() });
        world.apply(&Op::OpenSession { user: ana });
        let since =
            Stamp { restore_epoch: RestoreEpoch::NEVER, term: Term(3), index: world.cell.index() };
        world.shard.term_began(world.now, &world.cell, since);
        world.shard.serve(world.now, &world.cell, Some(everything()));
        world.master.lead(world.now, &world.cell);
        let name = MachineName::new("m1").expect("a name");
        world.request(Mutation::AddMachine(AddMachine { name, address: "h:1".to_owned() }));
        world
    }

    fn apply(&mut self, op: &Op) -> Outcome {
        let applied = self.cell.apply(self.now, op);
        let (now, cell, reordered) = (self.now, &self.cell, &applied.reordered);
        self.shard.applied(now, cell, op, reordered, &mut self.actions);
        self.master.applied(now, cell, op, reordered);
        applied.outcome
    }

    fn request(&mut self, mutation: Mutation) {
        let answer = self.answered(mutation);
        assert!(answer.is_ok(), "{answer:?}");
    }

    /// The answer to the mutation, which may be a rejection.
    fn answered(&mut self, mutation: Mutation) -> Result<cell::Reply, cell::Rejection> {
        self.sequence += 1;
        let id = RequestId { session: SessionId(1), sequence: self.sequence };
        let by = UserName::new("ana").expect("a name");
        let outcome = self.apply(&Op::Request { id, by, mutation });
        let Outcome::Request(answer) = outcome else { panic!("not an answer: {outcome:?}") };
        answer
    }

    fn submit(&mut self, tasks: u32) {
        let name = model::JobName::new("web").expect("a name");
        let task = TaskSpec::of(vec!["x".to_owned()]);
        self.submit_spec(JobSpec::of(name, model::Band::Production.usual(), tasks, task));
    }

    fn submit_spec(&mut self, spec: JobSpec) {
        self.request(Mutation::Submit(Arc::new(spec)));
    }

    fn assign(&mut self, index: u32) {
        let assignment = Assignment {
            address: None,
            instance: instance(index, 1),
            alloc: None,
            machine: M1,
            ports: vec![],
            victims: vec![],
        };
        let outcome = self.apply(&Op::assign(vec![assignment]));
        assert_eq!(outcome, Outcome::Assigned(vec![Ok(())]));
    }

    fn tick(&mut self) -> String {
        self.shard.tick(self.now, &self.cell, &mut self.actions);
        self.lead();
        self.said()
    }

    /// Processes what the shard reports, as the leader.
    fn lead(&mut self) {
        let (now, cell) = (self.now, &self.cell);
        self.master.spread(now, &[ReplicaId(1)]);
        self.master.heard(now, cell, ReplicaId(1), &self.shard.contacts_changed());
        self.master.tick(now, cell, &mut self.actions);
    }

    fn answer(&mut self, had_order: bool, stamp: u64, tasks: &[(u32, TaskStatus)]) -> String {
        self.reported(had_order, stamp, tasks);
        self.said()
    }

    /// The machine reports; the resulting proposals are not applied.
    fn reported(&mut self, had_order: bool, stamp: u64, tasks: &[(u32, TaskStatus)]) {
        let stamp =
            Stamp { restore_epoch: RestoreEpoch::NEVER, term: Term(3), index: LogIndex(stamp) };
        self.reported_of(had_order, stamp, machine(), tasks);
    }

    fn reported_of(
        &mut self,
        had_order: bool,
        stamp: Stamp,
        machine: Arc<MachineReport>,
        tasks: &[(u32, TaskStatus)],
    ) {
        let tasks = tasks.iter().map(|(index, status)| TaskReport {
            check: String::new(),
            latency: StartLatency::UNKNOWN,
            instance: instance(*index, 1),
            status: status.clone(),
        });
        let report = Report { stamp, machine, tasks: tasks.collect() };
        let usage = Arc::new(std::mem::take(&mut self.usage));
        let answer = &Answer::Report { report: Arc::new(report), version: self.version, usage };
        let (now, cell) = (self.now, &self.cell);
        self.shard.answered(now, cell, M1, had_order, answer, &mut self.actions);
    }

    fn fail(&mut self) -> String {
        self.failed();
        self.lead();
        self.said()
    }

    /// The machine does not answer; the resulting proposals are not applied.
    fn failed(&mut self) {
        let (now, cell) = (self.now, &self.cell);
        self.shard.answered(now, cell, M1, false, &Answer::Failed, &mut self.actions);
    }

    /// The actions so far as text; proposals are applied at once.
    fn said(&mut self) -> String {
        let mut words = Vec::new();
        while !self.actions.is_empty() {
            for action in std::mem::take(&mut self.actions) {
                match action {
                    Action::Propose(op) => {
                        words.push(in_words(&op));
                        self.apply(&op);
                    }
                    Action::BeginAnew(machines) => self.shard.begin_anew(&machines),
                    Action::Poll(Poll { order: None, .. }) => words.push("poll".to_owned()),
                    Action::Poll(Poll { order: Some(order), .. }) => {
                        let tasks = order.tasks.iter().map(|task| task.instance.to_string());
                        let tasks = tasks.collect::<Vec<_>>().join(" ");
                        words.push(format!("order {} [{tasks}]", order.stamp.index));
                    }
                }
            }
        }
        words.join(", ")
    }

    fn after(&mut self, ms: u64) -> String {
        self.now = self.now + Span::from_millis(ms);
        self.tick()
    }
}

fn in_words(op: &Op) -> String {
    match op {
        Op::DescribeMachine { .. } => "describe".to_owned(),
        Op::Observe { observations, .. } => format!("{observations:?}"),
        other => format!("{other:?}"),
    }
}

fn everything() -> Partition {
    Partition::of(ReplicaId(1), vec![ReplicaId(1)])
}

fn instance(index: u32, generation: u32) -> InstanceId {
    InstanceId {
        collection: CollectionId(1),
        index: TaskIndex(index),
        generation: Generation(generation),
    }
}

fn machine() -> Arc<MachineReport> {
    Arc::new(MachineReport {
        capacity: Resources { cpu: MilliCores(4_000), ram: Bytes(1 << 30), ..Resources::default() },
        ports: PortRange { first: 31_000, last: 31_009 },
        ..MachineReport::default()
    })
}

#[test]
fn a_machine_is_described_ordered_and_observed() {
    let mut world = World::new();
    assert_eq!(world.tick(), "order 3 []", "a new leader asks every machine and stamps its order");
    assert_eq!(world.tick(), "", "one at a time");
    assert_eq!(world.answer(true, 3, &[]), "describe");
    assert_eq!(world.after(5), "poll");
    world.submit(2);
    assert_eq!(world.tick(), "");
    world.assign(0);
    world.assign(1);
    assert_eq!(world.tick(), "order 7 [1-0-1 1-1-1]", "beside the poll that is held");
    let starting = [(0, TaskStatus::Starting), (1, TaskStatus::Starting)];
    assert_eq!(world.answer(true, 7, &starting), "");
    let running = [
        (0, TaskStatus::Running { healthy: None }),
        (1, TaskStatus::Running { healthy: Some(true) }),
    ];
    let seen = world.answer(false, 7, &running);
    assert_eq!(seen.matches("Started").count(), 2, "{seen}");
    assert_eq!(seen.matches("Health").count(), 0, "without a check it is healthy as it runs");
    assert_eq!(world.answer(false, 7, &running), "", "a repeated report fills no log");
    let ended = [
        (0, TaskStatus::Ended(End::Exited { code: 0 }, model::FinalUsage::UNMEASURED)),
        running[1].clone(),
    ];
    assert!(world.answer(false, 7, &ended).contains("Exited { code: 0 }"));
    assert_eq!(world.tick(), "order 9 [1-1-1]", "its end is known: it may be forgotten there");
}

/// A program that ended before the first poll that could have seen it run has run nevertheless.
#[test]
fn a_program_that_has_ended_was_started() {
    let end = |reason: &str| reason.to_owned();
    let oom = End::OutOfMemory { limit: Bytes(1), peak: Bytes(1) };
    for (end, is_killed, is_started) in [
        (End::Exited { code: 0 }, false, true),
        (End::Exited { code: 3 }, false, true),
        (End::Signalled { signal: 9 }, false, true),
        (oom, false, true),
        (End::Exited { code: 0 }, true, false),
        (End::NotStarted { reason: end("no such file") }, false, false),
        (End::Lost { reason: end("it rebooted") }, false, false),
        (End::OutOfResources { reason: end("memory") }, false, false),
    ] {
        let mut world = World::new();
        world.tick();
        world.answer(true, 3, &[]);
        world.submit(1);
        world.assign(0);
        world.tick();
        if is_killed {
            world.request(kill("web", TaskSelection::All));
            world.tick();
        }
        let ended = [(0, TaskStatus::Ended(end.clone(), model::FinalUsage::UNMEASURED))];
        let stamp = world.cell.index().0;
        let seen = world.answer(true, stamp, &ended);
        let first = seen.split("Ended").next().unwrap_or_default();
        assert_eq!(first.contains("Started"), is_started, "{end:?}: {seen}");
        assert!(seen.contains("Ended"), "{end:?}: {seen}");
    }
    // Not twice for one that was seen to run.
    let mut world = World::new();
    world.tick();
    world.answer(true, 3, &[]);
    world.submit(1);
    world.assign(0);
    world.tick();
    let started = Observation::started(instance(0, 1));
    world.apply(&Op::Observe { machine: M1, observations: vec![started] });
    let end = TaskStatus::Ended(End::Exited { code: 0 }, model::FinalUsage::UNMEASURED);
    let stamp = world.cell.index().0;
    let seen = world.answer(true, stamp, &[(0, end)]);
    assert!(seen.contains("Ended") && !seen.contains("Started"), "{seen}");
}

#[test]
fn usage_leads_to_no_operation_and_to_no_sooner_poll() {
    let mut world = World::new();
    world.tick();
    world.answer(true, 3, &[]);
    world.submit(1);
    world.assign(0);
    world.tick();
    let running = [(0, TaskStatus::Running { healthy: Some(true) })];
    assert!(world.answer(true, 5, &running).contains("Started"));
    let started = Observation::started(instance(0, 1));
    world.apply(&Op::Observe { machine: M1, observations: vec![started] });
    world.answer(false, 5, &running);
    let (cell, next) = (world.cell.image(), world.shard.next_tick());
    let measured = Measured { memory: Some(Bytes(1 << 20)), ..Measured::default() };
    let sample =
        UsageSample { subject: UsageSubject::Instance(instance(0, 1)), at: world.now, measured };
    // Of one that the cell knows nothing of, too.
    let other = UsageSample { subject: UsageSubject::Instance(instance(7, 9)), ..sample };
    world.usage = Usage { samples: vec![sample, other], ..Usage::default() };
    assert_eq!(world.answer(false, 5, &running), "");
    assert_eq!(world.usage, Usage::default(), "it was sent");
    assert_eq!(world.cell.image(), cell);
    assert_eq!(world.shard.next_tick(), next);
}

#[test]
fn a_task_unknown_to_its_machine_is_lost_after_the_order() {
    let mut world = World::new();
    world.tick();
    world.answer(true, 3, &[]);
    world.submit(1);
    world.assign(0);
    assert_eq!(world.answer(false, 3, &[]), "", "it has not seen the order yet");
    let seen = world.answer(false, 6, &[]);
    assert!(seen.contains("Lost"), "{seen}");
}

#[test]
fn a_killed_task_leaves_the_order_and_is_dead_once_gone() {
    let mut world = World::new();
    world.tick();
    world.answer(true, 3, &[]);
    world.submit(1);
    world.assign(0);
    assert_eq!(world.tick(), "order 6 [1-0-1]");
    world.answer(true, 6, &[(0, TaskStatus::Running { healthy: None })]);
    world.request(kill("web", TaskSelection::All));
    assert_eq!(world.tick(), "order 8 []");
    assert_eq!(world.answer(true, 8, &[(0, TaskStatus::Stopping)]), "");
    assert!(world.answer(false, 8, &[]).contains("Stopped"));
    assert!(!world.cell.job(CollectionId(1)).expect("kept").is_alive());
}

#[test]
fn a_machine_is_unreachable_after_missed_polls_until_its_first_answer() {
    let mut world = World::new();
    world.tick();
    world.answer(true, 3, &[]);
    for missed in 1..=5 {
        assert_eq!(world.after(2_000), "poll");
        let said = world.fail();
        let expected =
            if missed == 5 { "MachineUnreachable { machine: MachineId(1) }" } else { "" };
        assert_eq!(said, expected);
    }
    let down = "poll, MachineSilent { machine: MachineId(1) }";
    assert_eq!(world.after(2_000), down, "it is asked on, and nothing keeps it from being down");
    assert_eq!(world.answer(false, 3, &[]), "MachineBack { machine: MachineId(1) }");
}

#[test]
fn dead_jobs_are_forgotten_when_they_are_old() {
    let mut world = World::new();
    world.submit(1);
    world.request(kill("web", TaskSelection::All));
    world.tick();
    assert!(!world.after(3_600_000).contains("Forget"));
    assert!(world.after(24 * 3_600_000).contains("Forget"));
    assert_eq!(world.cell.job_count(), 0);
}
