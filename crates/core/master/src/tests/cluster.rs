//! Several replicas with one log, real Borglets, and messages that may be lost.
//!
//! Proposals to the leader are committed at once; the others apply them in their next step unless
//! they lag. The expected text of a session is its script: lines that begin with `> ` are its
//! commands.
//!
//! ```text
//! cluster REPLICAS MACHINES TASKS    this many replicas, all active, the first one leads; this
//!                                    many tasks on each machine
//! active REPLICA…                    the leader sends out that these are active
//! lead REPLICA                       it becomes the leader
//! lag REPLICA, go REPLICA            it stops and resumes applying operations
//! cut REPLICA, heal REPLICA          cuts and restores its connection with the leader
//! deaf REPLICA, hear REPLICA         loses and restores messages from the leader to it only
//! silent MACHINE…, answer MACHINE…   they stop and resume answering polls: m3, m2-m5
//! silent MACHINE… to REPLICA, answer MACHINE… to REPLICA
//!                                    the same for polls of that replica only
//! kill TASK                          a user kills a task
//! for SECONDS                        time passes
//! polls                              who polled whom since the last time, and how often; * marks
//!                                    polls with an order
//! reachability                       the reachability of the machines, as reported to the leader
//! seconds                            the machines polled by replicas other than their own
//! runs MACHINE…                      what runs there, by the stamp obeyed
//! ```
//!
//! Proposals about the state of machines are printed when they are made.

use std::collections::{BTreeMap, BTreeSet};

use borglet::{Borglet, Effect, Input};
use cell::{AddMachine, Assignment, Mutation, RequestId};
use expect_test::Expect;
use model::{
    CellName, Random, ReplicaId, RestoreEpoch, SessionId, Stamp, TaskIndex, TaskSelection, Term,
    UserName,
};
use spec::{JobSpec, TaskSpec};

use super::session::{machine_report, name, number};
use super::*;

#[track_caller]
pub(super) fn session(expected: &Expect) {
    let mut cluster = Cluster::new();
    let mut text = String::new();
    let lines: Vec<&str> = expected.data().lines().map(str::trim_start).collect();
    for command in lines.iter().filter_map(|line| line.strip_prefix("> ")) {
        cluster.command(command);
        text.push_str(&format!("> {command}\n{}", std::mem::take(&mut cluster.said)));
    }
    expected.assert_eq(&text);
}

/// One replica.
pub(super) struct Replica {
    pub(super) cell: Cell,
    pub(super) shard: LinkShard,
    pub(super) master: Master,
    /// The newest term of which it has applied an operation.
    term: Term,
    pub(super) lags: bool,
    pub(super) cut: bool,
    deaf: bool,
    /// How often it polled each machine, with and without an order.
    polls: BTreeMap<(MachineId, bool), u32>,
}

/// One machine.
pub(super) struct Host {
    pub(super) borglet: Borglet,
    said: Arc<Report>,
    version: u64,
    held: Vec<(u64, Call)>,
    silent: bool,
    /// It does not receive the polls of these replicas.
    pub(super) deaf_to: BTreeSet<ReplicaId>,
}

impl Host {
    fn hears(&self, replica: ReplicaId) -> bool {
        !self.silent && !self.deaf_to.contains(&replica)
    }
}

/// Which replica polled, and how.
#[derive(Clone, Copy)]
pub(super) struct Call {
    replica: ReplicaId,
    machine: MachineId,
    had_order: bool,
}

enum Later {
    Polled(ReplicaId, Box<Poll>),
    HoldOver(MachineId, u64),
    Answered(Call, Answer),
}

pub(super) struct Cluster {
    settings: Settings,
    pub(super) now: Time,
    term: Term,
    pub(super) leader: ReplicaId,
    pub(super) active: Vec<ReplicaId>,
    log: Vec<(Term, Time, Op)>,
    pub(super) replicas: BTreeMap<ReplicaId, Replica>,
    pub(super) hosts: BTreeMap<MachineId, Host>,
    later: BTreeMap<(Time, u64), Later>,
    /// The delays of messages; a millisecond if not random.
    pub(super) delays: Option<Random>,
    sequence: u64,
    requests: u64,
    /// Every order that was obeyed.
    pub(super) obeyed: Vec<(MachineId, Order)>,
    /// Every operation proposed by shards.
    pub(super) proposed: Vec<Op>,
    said: String,
}

impl Replica {
    /// Whether it receives what the leader sends to shards.
    fn hears(&self) -> bool {
        !self.cut && !self.deaf
    }

    /// The number of its polls.
    pub(super) fn polled(&self) -> u32 {
        self.polls.values().sum()
    }
}

impl Cluster {
    /// All committed operations.
    pub(super) fn log(&self) -> &[(Term, Time, Op)] {
        &self.log
    }

    pub(super) fn new() -> Self {
        Self {
            settings: Settings::default(),
            now: Time(1_000_000),
            term: Term(1),
            leader: ReplicaId(1),
            active: Vec::new(),
            log: Vec::new(),
            replicas: BTreeMap::new(),
            hosts: BTreeMap::new(),
            later: BTreeMap::new(),
            delays: None,
            sequence: 0,
            requests: 0,
            obeyed: Vec::new(),
            proposed: Vec::new(),
            said: String::new(),
        }
    }

    fn command(&mut self, command: &str) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let replica = |text: &str| ReplicaId(number(text));
        match words[..] {
            ["cluster", replicas, machines, tasks] => {
                self.begin(number(replicas), number(machines), number(tasks));
            }
            ["active", ref active @ ..] => {
                self.active = active.iter().map(|id| replica(id)).collect();
            }
            ["lead", id] => self.lead(replica(id)),
            ["lag", id] => self.replica(replica(id)).lags = true,
            ["go", id] => self.replica(replica(id)).lags = false,
            ["cut", id] => self.replica(replica(id)).cut = true,
            ["heal", id] => self.replica(replica(id)).cut = false,
            ["deaf", id] => self.replica(replica(id)).deaf = true,
            ["hear", id] => self.replica(replica(id)).deaf = false,
            ["silent", ref machines @ .., "to", id] => self.deafen(machines, replica(id), true),
            ["answer", ref machines @ .., "to", id] => self.deafen(machines, replica(id), false),
            ["silent", ref machines @ ..] => self.silence(machines, true),
            ["answer", ref machines @ ..] => self.silence(machines, false),
            ["kill", task] => self.kill(number(task)),
            ["for", seconds] => self.pass(Span::from_secs(number(seconds))),
            ["polls"] => self.show_polls(),
            ["reachability"] => self.show_reachability(),
            ["seconds"] => self.show_seconds(),
            ["runs", ref machines @ ..] => self.show_runs(machines),
            _ => panic!("there is no command '{command}'"),
        }
        self.pass(Span::ZERO);
    }

    pub(super) fn replica(&mut self, id: ReplicaId) -> &mut Replica {
        self.replicas.get_mut(&id).expect("a replica")
    }

    /// A bootstrapped cell whose machines are up and run their tasks.
    pub(super) fn begin(&mut self, replicas: u64, machines: u32, tasks: u32) {
        for id in 1..=replicas {
            let replica = Replica {
                cell: Cell::empty(),
                shard: LinkShard::new(self.settings),
                master: Master::new(self.settings),
                term: Term(0),
                lags: false,
                cut: false,
                deaf: false,
                polls: BTreeMap::new(),
            };
            self.replicas.insert(ReplicaId(id), replica);
            self.active.push(ReplicaId(id));
        }
        let ana = UserName::new("ana").expect("a name");
        let cell = CellName::new("dev").expect("a name");
        self.propose(Op::Nothing);
        self.propose(Op::Bootstrap { name: cell, administrator: ana.clone() });
        self.propose(Op::OpenSession { user: ana });
        for number in 1..=machines {
            let address = format!("m{number}:1");
            self.request(Mutation::AddMachine(AddMachine {
                name: name(&format!("m{number}")),
                address,
            }));
            let report = machine_report();
            let borglet = borglet::Settings::default();
            let borglet =
                Borglet::new(borglet, Arc::clone(&report), Stamp::default(), vec![], vec![]);
            let said = Arc::new(borglet.report());
            let (version, held) = (1, vec![]);
            let (silent, deaf_to) = (false, BTreeSet::new());
            let host = Host { borglet, said, version, held, silent, deaf_to };
            let machine = MachineId(number.into());
            self.hosts.insert(machine, host);
            self.propose(Op::DescribeMachine { machine, report });
        }
        if machines * tasks > 0 {
            let job = model::JobName::new("web").expect("a name");
            let mut task = TaskSpec::of(vec!["x".to_owned()]);
            task.notice = Span::ZERO;
            let spec = JobSpec::of(job, model::Band::Production.usual(), machines * tasks, task);
            self.request(Mutation::Submit(Arc::new(spec)));
            for index in 0..machines * tasks {
                self.assign(index, 1, MachineId(u64::from(index % machines) + 1));
            }
        }
        self.pass(Span::from_secs(10));
        self.said.clear();
        self.replicas.values_mut().for_each(|replica| replica.polls.clear());
    }

    pub(super) fn assign(&mut self, index: u32, generation: u32, machine: MachineId) {
        let instance = instance(index, generation);
        let assignment = Assignment {
            address: None,
            instance,
            alloc: None,
            machine,
            ports: vec![],
            victims: vec![],
        };
        self.propose(Op::assign(vec![assignment]));
    }

    pub(super) fn kill(&mut self, index: u32) {
        let tasks = TaskSelection::Some(vec![(TaskIndex(index), TaskIndex(index))]);
        self.request(kill("web", tasks));
    }

    pub(super) fn request(&mut self, mutation: Mutation) {
        self.requests += 1;
        let id = RequestId { session: SessionId(1), sequence: self.requests };
        let by = UserName::new("ana").expect("a name");
        self.propose(Op::Request { id, by, mutation });
    }

    /// Commits an operation, which the leader applies.
    pub(super) fn propose(&mut self, op: Op) {
        self.log.push((self.term, self.now, op));
        self.apply(self.leader);
    }

    /// Applies what a replica has not applied yet, up to a number of operations.
    fn apply(&mut self, id: ReplicaId) {
        while self.apply_one(id) {}
    }

    pub(super) fn apply_one(&mut self, id: ReplicaId) -> bool {
        let replica = self.replicas.get_mut(&id).expect("a replica");
        let applied = usize::try_from(replica.cell.index().0).expect("small");
        let Some((term, at, op)) = self.log.get(applied) else { return false };
        let applied = replica.cell.apply(*at, op);
        let mut actions = Vec::new();
        if *term > replica.term {
            replica.term = *term;
            let since = Stamp {
                restore_epoch: RestoreEpoch::NEVER,
                term: *term,
                index: replica.cell.index(),
            };
            replica.shard.term_began(self.now, &replica.cell, since);
            if id == self.leader && *term == self.term {
                replica.master.lead(self.now, &replica.cell);
            }
        } else {
            let reordered = &applied.reordered;
            replica.shard.applied(self.now, &replica.cell, op, reordered, &mut actions);
            replica.master.applied(self.now, &replica.cell, op, reordered);
        }
        self.fulfil(id, actions);
        true
    }

    pub(super) fn lead(&mut self, id: ReplicaId) {
        self.apply(id);
        let before = self.leader;
        self.replica(before).master.follow();
        (self.leader, self.term) = (id, Term(self.term.0 + 1));
        self.propose(Op::Nothing);
    }

    /// The partition of a replica, as the leader assigns it.
    fn partition(&self, me: ReplicaId) -> Partition {
        let seconds = self.replicas[&self.leader].master.seconds().cloned().collect();
        Partition { me, spread: Arc::new(Spread { active: self.active.clone(), seconds }) }
    }

    /// One step of a replica; returns whether it did anything.
    pub(super) fn step(&mut self, id: ReplicaId) -> bool {
        let leader = self.leader;
        let before = self.sequence;
        // Nothing is committed that the leader does not apply.
        if id == leader || !self.replica(id).lags {
            self.apply(id);
        }
        let (now, partition) = (self.now, self.partition(id));
        let replica = self.replica(id);
        if replica.hears() {
            replica.shard.serve(now, &replica.cell, Some(partition));
        }
        let mut actions = Vec::new();
        replica.shard.tick(now, &replica.cell, &mut actions);
        self.say_contacts(id);
        self.fulfil(id, actions);
        if id == leader {
            let (mut actions, replica) = (Vec::new(), self.replica(id));
            replica.master.tick(now, &replica.cell, &mut actions);
            self.fulfil(id, actions);
        }
        self.sequence != before
    }

    /// Delivers a replica's reachabilities, before its proposals.
    fn say_contacts(&mut self, id: ReplicaId) {
        let (now, leader, active) = (self.now, self.leader, self.active.clone());
        let replica = self.replica(id);
        let reachabilities = replica.shard.contacts_changed();
        if !replica.cut && !reachabilities.is_empty() {
            self.sequence += 1;
            let master = self.replica(leader);
            master.master.spread(now, &active);
            master.master.heard(now, &master.cell, id, &reachabilities);
        }
    }

    fn fulfil(&mut self, id: ReplicaId, actions: Vec<Action>) {
        for action in actions {
            self.sequence += 1;
            match action {
                Action::Poll(poll) => {
                    let key = (poll.machine, poll.order.is_some());
                    *self.replica(id).polls.entry(key).or_default() += 1;
                    self.send(Later::Polled(id, Box::new(poll)));
                }
                Action::Propose(op) => {
                    let of_shard = self.partition(id).may_propose(&op);
                    let may = self.replicas[&self.leader].master.may_propose(&op);
                    if self.replica(id).cut || !(of_shard || id == self.leader) || !may {
                        continue;
                    }
                    self.say(&op);
                    self.proposed.push(op.clone());
                    self.propose(op);
                }
                Action::BeginAnew(machines) => {
                    for replica in self.replicas.values_mut().filter(|replica| replica.hears()) {
                        replica.shard.begin_anew(&machines);
                    }
                }
            }
        }
    }

    fn send(&mut self, what: Later) {
        let delay = self.delays.as_mut().map_or(1, |delays| delays.below(300));
        self.sequence += 1;
        self.later.insert((self.now + Span::from_millis(delay), self.sequence), what);
    }

    pub(super) fn pass(&mut self, span: Span) {
        let until = self.now + span;
        let ids: Vec<ReplicaId> = self.replicas.keys().copied().collect();
        loop {
            // Every replica, in turn.
            if ids.iter().fold(false, |any, id| self.step(*id) | any) {
                continue;
            }
            let first = self.later.keys().next().map(|(at, _)| *at);
            let ticks = self.replicas.values().flat_map(|replica| {
                [replica.shard.next_tick(), replica.master.next_tick()].into_iter().flatten()
            });
            let Some(next) = first.into_iter().chain(ticks).min() else { break };
            if next > until {
                break;
            }
            assert!(next > self.now || first == Some(next), "nobody wakes for nothing");
            self.now = self.now.max(next);
            if first.is_some_and(|first| first <= self.now) {
                let (_, later) = self.later.pop_first().expect("there is one");
                self.comes(later);
            }
        }
        self.now = until;
    }

    fn comes(&mut self, later: Later) {
        match later {
            Later::Polled(replica, poll) => self.polled(replica, *poll),
            Later::HoldOver(machine, number) => {
                let held = &mut self.hosts.get_mut(&machine).expect("a machine").held;
                if let Some(place) = held.iter().position(|(held, _)| *held == number) {
                    let (_, call) = held.remove(place);
                    self.answer(call);
                }
            }
            Later::Answered(call, answer) => {
                let (now, replica) = (self.now, self.replica(call.replica));
                let (cell, mut actions) = (&replica.cell, Vec::new());
                let Call { machine, had_order, .. } = call;
                replica.shard.answered(now, cell, machine, had_order, &answer, &mut actions);
                assert_eq!(replica.shard.overlooked(now, cell), []);
                self.say_contacts(call.replica);
                self.fulfil(call.replica, actions);
            }
        }
    }

    /// Polls like a real Borglet: a new poll ends the hold of the previous one.
    fn polled(&mut self, replica: ReplicaId, poll: Poll) {
        let (machine, seen, had_order) = (poll.machine, poll.seen, poll.order.is_some());
        let call = Call { replica, machine, had_order };
        let host = self.hosts.get_mut(&machine).expect("a machine");
        if !host.hears(replica) {
            return self.send(Later::Answered(call, Answer::Failed));
        }
        let held = std::mem::take(&mut host.held);
        held.into_iter().for_each(|(_, call)| self.answer(call));
        if let Some(order) = poll.order {
            self.obey(machine, order);
        }
        self.sequence += 1;
        let host = self.hosts.get_mut(&machine).expect("a machine");
        if host.version == seen {
            host.held.push((self.sequence, call));
            let over = Later::HoldOver(machine, self.sequence);
            self.later.insert((self.now + poll.hold, self.sequence), over);
        } else {
            self.answer(call);
        }
    }

    fn obey(&mut self, machine: MachineId, order: Order) {
        let host = self.hosts.get_mut(&machine).expect("a machine");
        let mut effects = Vec::new();
        if host.borglet.obey(self.now, order.clone(), &mut effects).is_ok() {
            self.obeyed.push((machine, order));
        }
        while !effects.is_empty() {
            for effect in std::mem::take(&mut effects) {
                let input = match effect {
                    Effect::Start(launch) => Input::Started(launch.instance),
                    Effect::Terminate(instance, _) => Input::Ended(
                        instance,
                        End::Signalled { signal: 15 },
                        model::FinalUsage::UNMEASURED,
                    ),
                    _ => continue,
                };
                host.borglet.step(self.now, input, &mut effects);
            }
        }
        let report = host.borglet.report();
        if report != *host.said {
            (host.said, host.version) = (Arc::new(report), host.version + 1);
        }
    }

    fn answer(&mut self, call: Call) {
        let host = &self.hosts[&call.machine];
        let answer = match host.hears(call.replica) {
            false => Answer::Failed,
            true => Answer::Report {
                report: Arc::clone(&host.said),
                version: host.version,
                usage: Arc::default(),
            },
        };
        self.send(Later::Answered(call, answer));
    }

    fn silence(&mut self, machines: &[&str], silent: bool) {
        for machine in ids(machines) {
            self.hosts.get_mut(&machine).expect("a machine").silent = silent;
        }
    }

    fn deafen(&mut self, machines: &[&str], to: ReplicaId, deaf: bool) {
        for machine in ids(machines) {
            let deaf_to = &mut self.hosts.get_mut(&machine).expect("a machine").deaf_to;
            match deaf {
                true => drop(deaf_to.insert(to)),
                false => drop(deaf_to.remove(&to)),
            }
        }
    }

    fn show_seconds(&mut self) {
        let seconds: Vec<_> = self.replicas[&self.leader].master.seconds().cloned().collect();
        for Second { machine, by, reached } in seconds {
            let by: String = by.iter().map(|replica| format!(" {replica}")).collect();
            let reached = if reached { ", which reaches it" } else { "" };
            self.said.push_str(&format!("m{machine}: by{by}{reached}\n"));
        }
    }

    fn say(&mut self, op: &Op) {
        let words = match op {
            Op::MachineUnreachable { machine } => format!("unreachable m{machine}"),
            Op::MachineSilent { machine } => format!("down m{machine}"),
            Op::MachineBack { machine } => format!("back m{machine}"),
            Op::StopRescheduling { silent, of } => format!("stop: {silent} of {of} are silent"),
            Op::AllowRescheduling => "allow".to_owned(),
            _ => return,
        };
        let seconds = self.now.0.div_ceil(100_000);
        self.said.push_str(&format!("{}.{} s: {words}\n", seconds / 10, seconds % 10));
    }

    fn show_polls(&mut self) {
        for (id, replica) in &mut self.replicas {
            let word = |((machine, order), count): ((MachineId, bool), u32)| {
                let times = if count == 1 { String::new() } else { format!("x{count}") };
                format!(" m{machine}{}{times}", if order { "*" } else { "" })
            };
            let polls = std::mem::take(&mut replica.polls);
            let polls: String = polls.into_iter().map(word).collect();
            self.said.push_str(&format!("{id}:{polls}\n"));
        }
    }

    fn show_reachability(&mut self) {
        let master = &self.replicas[&self.leader].master;
        let mut reachabilities: BTreeMap<String, String> = BTreeMap::new();
        let lost = &master.leading.as_ref().expect("it leads").lost_machines.lost;
        for machine in self.hosts.keys() {
            let reachability = format!("{:?}", lost.reachability(*machine)).to_lowercase();
            reachabilities.entry(reachability).or_default().push_str(&format!(" m{machine}"));
        }
        for (reachability, machines) in reachabilities {
            self.said.push_str(&format!("{reachability}:{machines}\n"));
        }
    }

    fn show_runs(&mut self, machines: &[&str]) {
        for machine in ids(machines) {
            let report = self.hosts[&machine].borglet.report();
            let tasks = report.tasks.iter().map(|task| format!(" {}", task.instance));
            let tasks: String = tasks.collect();
            let Stamp { term, index, .. } = report.stamp;
            self.said.push_str(&format!("m{machine}:{tasks} (term {term}, index {index})\n"));
        }
    }
}

fn ids(words: &[&str]) -> Vec<MachineId> {
    let id = |text: &str| number::<u64>(text.strip_prefix('m').expect("m and a number"));
    let range = |word: &&str| {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        (id(first)..=id(last)).map(MachineId)
    };
    words.iter().flat_map(range).collect()
}
