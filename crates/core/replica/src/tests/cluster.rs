//! Several replicas with a queue as network and vectors as disks.

mod deposed;
mod forgotten;
mod idle;
mod lagging;
mod learners;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use borglet::Report;
use bytes::Bytes;
use cell::{
    AddMachine, AddReplica, LEVEL, MachineState, Member, Mutation, Op, Outcome, RemoveReplica,
    Reply, RequestId, TEST_LEVEL,
};
use master::{Answer, Poll};
use model::{
    CellName, DirectoryId, Level, LogIndex, MachineId, MachineName, MachineReport, PortRange,
    ReplicaId, Resources, RestoreEpoch, SessionId, Span, Stamp, Term, Time,
};

use super::{Table, user};
use crate::{
    Body, Bootstrap, Consensus, ConsensusKind, HardState, Input, LogEntry, Message, Output,
    Persist, Recovered, Refusal, Replica, ReplicaError, Settings, Snapshot, Ticket,
};

/// The disk of a replica.
#[derive(Clone, Default)]
struct Disk {
    checkpoint: Option<(cell::Cell, Term)>,
    entries: Vec<LogEntry>,
    hard_state: HardState,
    /// Stored with the checkpoint.
    restore_epoch: RestoreEpoch,
    /// Unknown by default.
    directory: DirectoryId,
}

impl Disk {
    fn write(&mut self, persist: Persist) {
        if let Some((index, _)) = persist.restart {
            let at = self.checkpoint.as_ref().map(|(cell, _)| cell.index());
            assert_eq!(at, Some(index), "its checkpoint was durable before");
            self.entries.clear();
        }
        for entry in persist.entries {
            self.entries.retain(|known| known.index < entry.index);
            self.entries.push(entry);
        }
        self.hard_state = persist.hard_state.unwrap_or(self.hard_state);
    }
}

struct Host {
    replica: Option<Replica<Table>>,
    disk: Disk,
    inbox: Vec<Input>,
    outputs: Vec<Output>,
}

impl Host {
    fn writes(&mut self, persist: Persist) {
        self.inbox.push(Input::Persisted(persist.number));
        self.disk.write(persist);
    }
}

fn records_bytes(message: &Message) -> usize {
    match &message.body {
        Body::Consensus(consensus) => consensus.entries.iter().map(|entry| entry.data.len()).sum(),
        _ => 0,
    }
}

struct Cluster {
    table: Table,
    now: Time,
    hosts: BTreeMap<ReplicaId, Host>,
    network: VecDeque<Message>,
    cut: BTreeSet<ReplicaId>,
    /// Disks that write nothing any more, with their pending writes.
    stuck: BTreeMap<ReplicaId, Vec<Persist>>,
    /// Replicas that cannot reach machines.
    blind: BTreeSet<ReplicaId>,
    /// Polls that machines hold, with the time of the answer.
    held: Vec<(Time, ReplicaId, Poll)>,
    /// The last order that each machine obeyed.
    obeyed: BTreeMap<MachineId, Stamp>,
    /// The level of replicas that are started.
    level: Level,
    snapshots: usize,
    /// The largest number of bytes of records in a message.
    largest: usize,
    failed: Option<ReplicaError>,
    /// Whether the first replica bootstraps the cell if it is empty.
    founds: bool,
}

/// A machine's report: nothing runs there.
fn report(stamp: Stamp) -> Report {
    let machine = Arc::new(MachineReport {
        capacity: Resources::default(),
        ports: PortRange::default(),
        ..MachineReport::default()
    });
    Report { stamp, machine, tasks: Vec::new() }
}

const STEP: Span = Span::from_millis(10);

fn id(number: u64) -> ReplicaId {
    ReplicaId(number)
}

fn address(id: ReplicaId) -> String {
    format!("replica-{id}:7800")
}

impl Cluster {
    /// A bootstrapped cell of one replica, with an open session.
    fn bootstrapped(level: Level) -> Self {
        let mut cluster = Self {
            table: Table::default(),
            now: Time(1_000_000),
            hosts: BTreeMap::new(),
            network: VecDeque::new(),
            cut: BTreeSet::new(),
            stuck: BTreeMap::new(),
            blind: BTreeSet::new(),
            held: Vec::new(),
            obeyed: BTreeMap::new(),
            level,
            snapshots: 0,
            largest: 0,
            failed: None,
            founds: true,
        };
        cluster.start(id(1), level);
        cluster.run(5);
        assert!(matches!(
            cluster.ask(id(1), Input::OpenSession(Ticket(0), user())),
            Some(Ok((_, Outcome::Request(Ok(Reply::Session(SessionId(1)))))))
        ));
        cluster
    }

    /// A cell with this many voters.
    fn of(replicas: u64) -> Self {
        let mut cluster = Self::bootstrapped(LEVEL);
        (2..=replicas).for_each(|number| cluster.grow(number));
        cluster
    }

    /// Adds a replica with an empty disk, and waits until it is a voter.
    fn grow(&mut self, number: u64) {
        let leader = self.leader().expect("somebody leads");
        let added =
            self.change(leader, Mutation::AddReplica(AddReplica { address: address(id(number)) }));
        assert_eq!(added, Some(Ok(Reply::ReplicaAdded(id(number)))));
        self.start(id(number), self.level);
        self.until("it votes", |cluster| {
            cluster.cell(leader).replica(id(number)).map(|r| r.member) == Some(Member::Voter)
        });
    }

    fn start(&mut self, id: ReplicaId, level: Level) {
        let host = self.hosts.entry(id).or_insert_with(|| Host {
            replica: None,
            disk: Disk { directory: DirectoryId(id.0), ..Disk::default() },
            inbox: vec![],
            outputs: vec![],
        });
        let Disk { checkpoint, entries, hard_state, restore_epoch, directory } = host.disk.clone();
        let recovered =
            Recovered { checkpoint, entries, hard_state, restore_epoch, ..Recovered::default() };
        let address = address(id).into();
        let settings = Settings { id, address, directory, level, ..Settings::default() };
        let name = CellName::new("dev").expect("a name");
        let bootstrap = Bootstrap { name, administrator: user(), quota: false, queue: false };
        let bootstrap = (id == ReplicaId(1) && self.founds).then_some(bootstrap);
        let replica = Replica::new(settings, self.table.clone(), self.now, recovered, bootstrap);
        host.replica = Some(replica.expect("settings are good"));
        host.inbox.clear();
        host.outputs.clear();
    }

    fn crash(&mut self, id: ReplicaId) {
        let host = self.hosts.get_mut(&id).expect("a host");
        host.replica = None;
        host.inbox.clear();
    }

    fn cell(&self, id: ReplicaId) -> &cell::Cell {
        self.hosts[&id].replica.as_ref().expect("it runs").cell()
    }

    /// Every replica takes a step; messages arrive in the next turn.
    fn turn(&mut self) {
        self.now = self.now + STEP;
        for message in std::mem::take(&mut self.network) {
            let lost = self.cut.contains(&message.from) || self.cut.contains(&message.to);
            let Some(host) = self.hosts.get_mut(&message.to).filter(|_| !lost) else { continue };
            if let Body::Consensus(consensus) = &message.body
                && let Some(snapshot) = &consensus.snapshot
            {
                self.snapshots += 1;
                host.disk.checkpoint = Some((snapshot.cell.clone(), snapshot.term));
                host.disk.restore_epoch = message.restore_epoch;
            }
            host.inbox.push(Input::Received(message));
        }
        for (_, id, Poll { machine, order, .. }) in
            self.held.extract_if(.., |(due, ..)| *due <= self.now)
        {
            let had_order = order.is_some();
            let answer = match self.blind.contains(&id) {
                true => Answer::Failed,
                false => {
                    let obeyed = self.obeyed.entry(machine).or_default();
                    *obeyed = order.map_or(*obeyed, |order| order.stamp);
                    Answer::Report {
                        report: Arc::new(report(*obeyed)),
                        version: obeyed.index.0,
                        usage: Arc::default(),
                    }
                }
            };
            let input = Input::Answered { machine, had_order, answer };
            self.hosts.get_mut(&id).expect("a host").inbox.push(input);
        }
        for (id, host) in &mut self.hosts {
            let Some(replica) = &mut host.replica else { continue };
            let mut outputs = vec![];
            if let Err(error) = replica.step(self.now, host.inbox.drain(..), &mut outputs) {
                (self.failed, host.replica) = (Some(error), None);
                continue;
            }
            let note = replica.note();
            for output in outputs {
                match output {
                    Output::Send(message) => {
                        self.largest = self.largest.max(records_bytes(&message));
                        self.network.push_back(message);
                    }
                    Output::Persist(persist) => match self.stuck.get_mut(id) {
                        Some(waits) => waits.push(persist),
                        None => host.writes(persist),
                    },
                    Output::Poll(poll) => {
                        let known = self.obeyed.get(&poll.machine).map(|stamp| stamp.index.0);
                        let is_news = poll.order.is_some() || known != Some(poll.seen);
                        let waits =
                            if is_news || self.blind.contains(id) { STEP } else { poll.hold };
                        self.held.push((self.now + waits, *id, poll));
                    }
                    other => host.outputs.push(other),
                }
            }
            host.disk.hard_state = note.unwrap_or(host.disk.hard_state);
        }
    }

    fn run(&mut self, turns: usize) {
        (0..turns).for_each(|_| self.turn());
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..2_000 {
            if is_so(self) {
                return;
            }
            self.turn();
        }
        panic!("never: {what}");
    }

    /// The latest leader.
    fn leader(&self) -> Option<ReplicaId> {
        let leads = |host: &&Host| {
            let said = host.outputs.iter().rev().find_map(|output| match output {
                Output::Leads(_) => Some(true),
                Output::Follows => Some(false),
                _ => None,
            });
            host.replica.is_some() && said == Some(true)
        };
        let mut leaders =
            self.hosts.iter().filter(|(id, host)| !self.cut.contains(id) && leads(host));
        leaders.next().map(|(id, _)| *id)
    }

    fn elected(&mut self) -> ReplicaId {
        self.until("somebody leads", |cluster| cluster.leader().is_some());
        self.leader().expect("somebody leads")
    }

    /// Sends an input to a replica, and waits for the answer; `None` if it never comes.
    fn ask(&mut self, id: ReplicaId, input: Input) -> Option<Result<(LogIndex, Outcome), Refusal>> {
        let host = self.hosts.get_mut(&id).expect("a host");
        let is_answer = |output: &Output| {
            matches!(output, Output::Reply(..) | Output::Refused(..) | Output::Readable(..))
        };
        host.outputs.retain(|output| !is_answer(output));
        host.inbox.push(input);
        for _ in 0..100 {
            self.turn();
            let outputs = &self.hosts[&id].outputs;
            let answer = outputs.iter().find_map(|output| match output {
                Output::Reply(_, index, outcome) => Some(Ok((*index, outcome.clone()))),
                Output::Refused(_, refusal) => Some(Err(*refusal)),
                Output::Readable(_, index) => Some(Ok((*index, Outcome::Done))),
                _ => None,
            });
            if answer.is_some() {
                return answer;
            }
        }
        None
    }

    /// Sends a mutation to a replica, in its own session.
    fn change(
        &mut self,
        at: ReplicaId,
        mutation: Mutation,
    ) -> Option<Result<Reply, cell::Rejection>> {
        let sequence = self.table.0.borrow().len() as u64;
        let id = RequestId { session: SessionId(1), sequence };
        match self.ask(at, Input::Request(Ticket(sequence), id, user(), mutation)) {
            Some(Ok((_, Outcome::Request(answer)))) => Some(answer),
            _ => None,
        }
    }

    fn add_machine(&mut self, at: ReplicaId, name: &str) -> bool {
        let name = MachineName::new(name).expect("a name");
        let address = format!("{name}:1");
        matches!(
            self.change(at, Mutation::AddMachine(AddMachine { name, address })),
            Some(Ok(Reply::MachineAdded(_)))
        )
    }

    /// All running and connected replicas have the same state after some time.
    fn agree(&mut self) {
        self.run(200);
        let cells = self.hosts.iter().filter(|(id, _)| !self.cut.contains(id));
        let cells = cells.filter_map(|(_, host)| host.replica.as_ref());
        let mut images = cells.map(|replica| format!("{:?}", replica.cell().image()));
        let first = images.next().expect("one runs");
        assert!(images.all(|image| image == first));
    }
}

#[test]
fn one_replica_becomes_five_while_it_serves() {
    let mut cluster = Cluster::of(5);
    assert!(cluster.add_machine(id(1), "m1"));
    assert_eq!(cluster.cell(id(1)).voters().count(), 5);
    cluster.agree();
    let levels: Vec<_> = cluster.cell(id(5)).replicas().map(|r| (r.level, &*r.address)).collect();
    assert_eq!(levels[4], (LEVEL, "replica-5:7800"), "each has described itself");
}

#[test]
fn a_majority_goes_on_without_the_leader_and_nothing_acknowledged_is_lost() {
    let mut cluster = Cluster::of(3);
    assert!(cluster.add_machine(id(1), "m1"));
    cluster.crash(id(1));
    let second = cluster.elected();
    assert_ne!(second, id(1));
    assert_eq!(cluster.cell(second).machine_count(), 1);
    assert!(cluster.add_machine(second, "m2"));
    cluster.start(id(1), LEVEL);
    cluster.agree();
    assert_eq!(cluster.cell(id(1)).machine_count(), 2);
}

#[test]
fn a_minority_acknowledges_nothing_and_reads_nothing() {
    let mut cluster = Cluster::of(3);
    cluster.cut = [id(1)].into();
    let host = cluster.hosts.get_mut(&id(1)).expect("a host");
    host.outputs.clear();
    host.inbox.push(Input::Read(Ticket(1)));
    assert!(!cluster.add_machine(id(1), "m1"));
    let readable = |output: &Output| matches!(output, Output::Readable(..));
    assert!(!cluster.hosts[&id(1)].outputs.iter().any(readable));
    let second = cluster.elected();
    assert!(cluster.add_machine(second, "m2"));
    cluster.cut.clear();
    cluster.agree();
    assert_eq!(cluster.cell(id(1)).machine_count(), 1, "what was not acknowledged is void");
    let names: Vec<_> = cluster.cell(id(1)).machines().map(|m| m.name.to_string()).collect();
    assert_eq!(names, ["m2"]);
}

#[test]
fn a_follower_reads_what_is_true_now() {
    let mut cluster = Cluster::of(3);
    assert!(cluster.add_machine(id(1), "m1"));
    let committed = cluster.cell(id(1)).index();
    let read = cluster.ask(id(3), Input::Read(Ticket(7)));
    assert!(matches!(read, Some(Ok((index, _))) if index >= committed));
    assert_eq!(cluster.cell(id(3)).machine_count(), 1);
}

#[test]
fn a_replica_too_far_behind_continues_from_a_snapshot() {
    let mut cluster = Cluster::of(3);
    cluster.crash(id(3));
    for number in 0..20 {
        assert!(cluster.add_machine(id(1), &format!("m{number}")));
    }
    cluster.run(50);
    let covered = cluster.cell(id(1)).index();
    for replica in [1, 2] {
        let host = cluster.hosts.get_mut(&id(replica)).expect("a host");
        host.inbox.push(Input::Checkpointed(covered));
    }
    assert!(cluster.add_machine(id(1), "last"));
    cluster.start(id(3), LEVEL);
    cluster.agree();
    assert_eq!(cluster.cell(id(3)).machine_count(), 21);
    assert!(cluster.snapshots > 0);
    // It recovers from its disk alone.
    cluster.crash(id(3));
    cluster.start(id(3), LEVEL);
    cluster.agree();
    assert_eq!(cluster.cell(id(3)).machine_count(), 21);
}

/// A single message would be larger than the transport allows, and would block all others.
#[test]
fn missed_entries_arrive_in_many_messages() {
    let mut cluster = Cluster::of(3);
    cluster.cut.insert(id(3));
    *cluster.table.1.borrow_mut() = 400 << 10;
    for number in 0..20 {
        assert!(cluster.add_machine(id(1), &format!("m{number}")));
    }
    *cluster.table.1.borrow_mut() = 0;
    (cluster.largest, cluster.snapshots) = (0, 0);
    cluster.cut.clear();
    cluster.agree();
    assert_eq!(cluster.cell(id(3)).machine_count(), 20);
    assert_eq!(cluster.snapshots, 0, "it read the records");
    assert!((400 << 10..2 << 20).contains(&cluster.largest), "{} bytes", cluster.largest);
}

#[test]
fn messages_waiting_for_a_stuck_disk_are_bounded() {
    let mut cluster = Cluster::of(3);
    assert_eq!(cluster.elected(), id(1));
    cluster.stuck.insert(id(3), Vec::new());
    assert!(cluster.add_machine(id(1), "m1"));
    // The leader's heartbeats arrive, and would be answered, ten times a second.
    cluster.run(20_000);
    let waits = cluster.stuck.remove(&id(3)).expect("it is stuck");
    assert!(!waits.is_empty());
    let host = cluster.hosts.get_mut(&id(3)).expect("a host");
    waits.into_iter().for_each(|persist| host.writes(persist));
    cluster.turn();
    let said = cluster.network.iter().filter(|message| message.from == id(3)).count();
    assert!((1_000..1_100).contains(&said), "{said} messages at once");
    cluster.agree();
    assert_eq!(cluster.cell(id(3)).machine_count(), 1);
}

/// From a former leader, arriving late.
#[test]
fn a_snapshot_that_is_refused_does_not_displace_one_that_was_taken() {
    let mut cluster = Cluster::of(2);
    let added = cluster.change(id(1), Mutation::AddReplica(AddReplica { address: address(id(3)) }));
    assert_eq!(added, Some(Ok(Reply::ReplicaAdded(id(3)))));
    cluster.run(50);
    let older = cluster.cell(id(1)).clone();
    assert!(cluster.add_machine(id(1), "m1"));
    let newer = cluster.cell(id(1)).clone();
    cluster.cut.insert(id(3));
    cluster.start(id(3), LEVEL);
    let host = cluster.hosts.get_mut(&id(3)).expect("a host");
    host.disk.checkpoint = Some((newer.clone(), Term(1)));
    for (term, cell) in [(3, newer.clone()), (2, older)] {
        let snapshot = Some(Snapshot { term: Term(1), cell });
        let kind = ConsensusKind::Snapshot;
        let says = Consensus { kind, term: Term(term), snapshot, ..Consensus::default() };
        let body = Body::Consensus(Box::new(says));
        let directory = DirectoryId(1);
        let message =
            Message { from: id(1), to: id(3), restore_epoch: RestoreEpoch::NEVER, directory, body };
        host.inbox.push(Input::Received(message));
    }
    cluster.turn();
    assert_eq!(cluster.cell(id(3)).index(), newer.index());
}

#[test]
fn a_restored_cell_accepts_new_replicas_and_no_former_ones() {
    let mut cluster = Cluster::of(2);
    assert!(cluster.add_machine(id(1), "m1"));
    let cell = cluster.cell(id(1)).restored();
    let image = cell.image().of_one_replica(id(1), None);
    let cell = cell::Cell::from_image(image).expect("a whole cell");
    (1..=2).for_each(|number| cluster.crash(id(number)));
    let left = cluster.hosts.get_mut(&id(1)).expect("a host");
    let checkpoint = Some((cell, Term(left.disk.hard_state.term.0)));
    left.disk = Disk { checkpoint, restore_epoch: RestoreEpoch::after(0, 77), ..Disk::default() };
    cluster.start(id(1), LEVEL);
    assert_eq!(cluster.elected(), id(1));
    cluster.start(id(2), LEVEL);
    // Ids that may have been assigned in the lost time are skipped.
    let new = 1_003;
    cluster.grow(new);
    assert!(cluster.add_machine(id(1), "m2"));
    cluster.run(100);
    let machines = |number| cluster.cell(id(number)).machine_count();
    assert_eq!([1, new].map(machines), [2, 2]);
    assert!(machines(2) < 2, "nobody listens to it, or tells it anything");
    // It has stored the epoch by then.
    cluster.crash(id(new));
    cluster.start(id(new), LEVEL);
    cluster.run(100);
    assert!(cluster.add_machine(id(1), "m3"));
    cluster.run(100);
    assert_eq!(cluster.cell(id(new)).machine_count(), 3);
}

#[test]
fn the_leader_hands_over_and_can_be_removed() {
    let mut cluster = Cluster::of(3);
    let first = cluster.leader().expect("it leads");
    let host = cluster.hosts.get_mut(&first).expect("a host");
    host.inbox.push(Input::Transfer(Some(id(2))));
    cluster.until("the other leads", |cluster| cluster.leader() == Some(id(2)));
    assert!(cluster.add_machine(id(2), "m1"));
    // The leader is removed: it transfers leadership first.
    let removed = cluster.change(id(2), Mutation::RemoveReplica(RemoveReplica { replica: id(2) }));
    assert_eq!(removed, Some(Ok(Reply::Done)));
    cluster.until("it is gone", |cluster| {
        cluster.leader().is_some_and(|leader| cluster.cell(leader).replica(id(2)).is_none())
    });
    let leader = cluster.leader().expect("somebody leads");
    assert!(cluster.add_machine(leader, "m2"));
    assert_eq!(cluster.cell(leader).voters().collect::<Vec<_>>(), [id(1), id(3)]);
}

/// Its followers have records that it cannot write: it could acknowledge nothing while it leads.
#[test]
fn a_leader_whose_disk_is_stuck_hands_over() {
    let mut cluster = Cluster::of(3);
    let first = cluster.leader().expect("it leads");
    cluster.stuck.insert(first, Vec::new());
    assert!(!cluster.add_machine(first, "m1"), "nobody knows");
    cluster.until("another one leads", |cluster| cluster.leader().is_some_and(|id| id != first));
    let second = cluster.leader().expect("it leads");
    assert!(cluster.add_machine(second, "m2"));
}

#[test]
fn a_disk_that_lost_what_it_had_acknowledged_takes_no_part() {
    let mut cluster = Cluster::of(3);
    assert!(cluster.add_machine(id(1), "m1"));
    cluster.run(20);
    cluster.crash(id(3));
    cluster.hosts.get_mut(&id(3)).expect("a host").disk = Disk::default();
    cluster.start(id(3), LEVEL);
    cluster.until("it stops", |cluster| cluster.failed.is_some());
    let said = cluster.failed.as_ref().map(ToString::to_string).unwrap_or_default();
    assert!(said.contains("it lost acknowledged records"), "{said}");
    assert!(cluster.add_machine(id(1), "m2"));
}

/// A message to a process that has ended arrives at the next one.
#[test]
fn a_read_is_not_answered_by_what_an_earlier_incarnation_was_told() {
    let mut cluster = Cluster::of(3);
    let kind = |message: &Message| match &message.body {
        Body::Consensus(consensus) => Some(consensus.kind),
        _ => None,
    };
    let is = |message: &Message, wanted| message.to == id(3) && kind(message) == Some(wanted);
    let host = cluster.hosts.get_mut(&id(3)).expect("a host");
    host.inbox.push(Input::Read(Ticket(7)));
    let answers = |cluster: &Cluster| {
        let mut sent = cluster.network.iter();
        sent.find(|message| is(message, ConsensusKind::ReadIndexResponse)).cloned()
    };
    cluster.until("it is answered", |cluster| answers(cluster).is_some());
    let late = answers(&cluster).expect("an answer");
    cluster.crash(id(3));
    assert!(cluster.add_machine(id(1), "m1"));
    let acknowledged = cluster.cell(id(1)).index();
    cluster.start(id(3), LEVEL);
    // It knows the leader, and receives none of the missed records.
    let step = |cluster: &mut Cluster| {
        cluster.network.retain(|message| !is(message, ConsensusKind::Append));
        cluster.turn();
    };
    (0..50).for_each(|_| step(&mut cluster));
    let host = cluster.hosts.get_mut(&id(3)).expect("a host");
    host.inbox.push(Input::Read(Ticket(8)));
    step(&mut cluster);
    cluster.network.push_front(late);
    (0..50).for_each(|_| step(&mut cluster));
    let read = |cluster: &Cluster| {
        cluster.hosts[&id(3)].outputs.iter().find_map(|output| match output {
            Output::Readable(Ticket(8), index) => Some(*index),
            _ => None,
        })
    };
    assert_eq!(read(&cluster), None, "it does not know of {acknowledged}");
    cluster.until("it has caught up", |cluster| read(cluster).is_some());
    assert!(read(&cluster).is_some_and(|index| index >= acknowledged));
}

#[test]
fn machines_cut_off_from_one_replica_are_polled_elsewhere_and_stay_up() {
    let mut cluster = Cluster::of(3);
    let names = (1..=24).map(|number| format!("m{number}"));
    names.for_each(|name| assert!(cluster.add_machine(id(1), &name)));
    let up = |cluster: &Cluster| {
        let machines = cluster.cell(id(1)).machines();
        machines.filter(|machine| machine.state == MachineState::Up).count()
    };
    cluster.until("all are up", |cluster| up(cluster) == 24);
    let active = |cluster: &Cluster| {
        cluster.hosts[&id(1)]
            .replica
            .as_ref()
            .map(|it| it.spread().active.clone())
            .expect("it runs")
    };
    assert_eq!(active(&cluster), [id(1), id(2), id(3)]);
    cluster.blind.insert(id(3));
    cluster.until("others poll its machines", |cluster| active(cluster) == [id(1), id(2)]);
    cluster.run(3_000);
    assert_eq!((up(&cluster), active(&cluster)), (24, vec![id(1), id(2)]));
    let polled = |cluster: &Cluster, by| cluster.held.iter().any(|(_, id, _)| *id == by);
    assert!(!polled(&cluster, id(3)));
    // It is tried again, in vain while it is cut off.
    cluster.run(4_000);
    assert_eq!((up(&cluster), active(&cluster)), (24, vec![id(1), id(2)]));
    cluster.blind.clear();
    cluster.run(7_000);
    assert_eq!((up(&cluster), active(&cluster)), (24, vec![id(1), id(2), id(3)]));
    assert!(polled(&cluster, id(3)));
    // Machines that are gone are gone for all replicas.
    cluster.blind.extend([id(1), id(2), id(3)]);
    cluster.until("they are known to be", |cluster| up(cluster) == 0);
    assert_eq!(active(&cluster), [id(1), id(2), id(3)]);
}

#[test]
fn a_cell_of_mixed_levels_serves_and_is_raised_when_all_can() {
    let mut cluster = Cluster::of(3);
    // There is no request yet that needs more than the first level.
    let new = |cluster: &mut Cluster, at| {
        cluster.ask(at, Input::Enrolment(Ticket(1), Op::RaiseLevel { to: TEST_LEVEL }))
    };
    let levels = |cluster: &Cluster| [1, 2, 3].map(|number| cluster.cell(id(number)).level());
    for (number, expected) in [(3, LEVEL), (2, LEVEL), (1, TEST_LEVEL)] {
        let leader = cluster.elected();
        assert!(cluster.add_machine(leader, &format!("m{number}")));
        let older = Refusal::Level { needs: TEST_LEVEL, is: LEVEL };
        assert_eq!(new(&mut cluster, leader), Some(Err(older)), "a replica is older");
        // The newer build replaces the older one.
        cluster.crash(id(number));
        let leader = cluster.elected();
        assert!(cluster.add_machine(leader, &format!("m{number}b")), "two of three serve");
        cluster.start(id(number), TEST_LEVEL);
        cluster.agree();
        cluster.run(500);
        assert_eq!(levels(&cluster), [expected; 3], "after replica {number}");
    }
    let leader = cluster.elected();
    assert!(matches!(new(&mut cluster, leader), Some(Ok((_, Outcome::Done)))));
    cluster.agree();
    assert_eq!(cluster.cell(id(1)).machine_count(), 6);
}
