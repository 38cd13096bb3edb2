//! Several replicas: their messages, their leader, and their operators, who add replicas, remove
//! them, and replace lost ones.

use std::sync::Arc;

use cell::{AddReplica, Applied, Cell, EventKind, Member, MemberChange, Mutation, RemoveReplica};
use model::{DirectoryId, LogIndex, Random, ReplicaId, RestoreEpoch, Span, Term};
use replica::{Body, Codec, ConsensusKind, Input, Message, Snapshot};

use crate::disk::{Checkpoint, Crash, Disk};
use crate::injected_bug::InjectedBug;
use crate::log_observer::ReplicaObservations;
use crate::network::{Fate, Node};
use crate::world::master::MasterHost;
use crate::world::{Event, World, silence_min};

/// How often the operator checks the replicas.
const LOOK: Span = Span::from_secs(2);
/// How long a process keeps running after its replica was removed.
const LINGERS: Span = Span::from_secs(15);
/// How long a replica waits for the outcome of its snapshot.
const SNAPSHOT_TIMEOUT: Span = Span::from_secs(10);
/// How long a snapshot takes to be sent and to be written; and additionally for each object.
const SNAPSHOT_TAKES: Span = Span::from_millis(20);
const OBJECT_TAKES: Span = Span(15);
/// Messages lost between unlucky replicas, in a thousand.
const UNLUCKY_LOSS: u64 = 250;

/// A snapshot in flight.
#[derive(Debug)]
pub(crate) struct Sent {
    number: u64,
    /// The sending replica, and its incarnation.
    from: usize,
    incarnation: u64,
    message: Message,
}

/// The operator of the replicas.
#[derive(Debug)]
pub(crate) struct Operator {
    random: Random,
    seed: u64,
    /// Desired number of replicas at first, and now.
    at_first: usize,
    pub(crate) wanted: usize,
    addresses: u64,
    checkpoint_every: u64,
    /// Whether leadership transfers are requested repeatedly.
    pub(crate) transfers: bool,
    /// Whether messages between replicas are lost, and replicas lose power after voting.
    pub(crate) unlucky: bool,
}

impl Operator {
    pub(crate) fn new(seed: u64, replicas: usize, checkpoint_every: u64) -> Self {
        let random = Random::new(Random::mixed(seed));
        Self {
            random,
            seed,
            at_first: replicas,
            wanted: replicas,
            addresses: 1,
            checkpoint_every,
            transfers: false,
            unlucky: false,
        }
    }

    /// Whether the Borgmaster has more than one replica.
    pub(crate) fn has_several(&self) -> bool {
        self.at_first > 1
    }

    /// Whether elections are caused, or made to fail, on purpose.
    pub(crate) fn has_induced_elections(&self) -> bool {
        self.transfers || self.unlucky
    }

    /// A random duration with the given mean.
    pub(crate) fn wait(&mut self, mean: Span) -> Span {
        self.random.wait(mean)
    }

    /// A random duration of at most the given length.
    pub(crate) fn span(&mut self, most: Span) -> Span {
        Span(self.random.below(most.0))
    }

    pub(crate) fn chance(&mut self, permille: u64) -> bool {
        self.random.chance(permille)
    }

    pub(crate) fn one_of(&mut self, hosts: &[usize]) -> Option<usize> {
        self.random.one_of(hosts).copied()
    }

    /// An address that no replica has had.
    fn address(&mut self) -> String {
        self.addresses += 1;
        format!("replica-{}:7", self.addresses)
    }
}

/// Whether a mutation concerns replicas.
fn of_replicas(mutation: &Mutation) -> bool {
    matches!(mutation, Mutation::AddReplica(_) | Mutation::RemoveReplica(_))
}

/// How long transferring a cell takes.
fn takes(cell: &Cell) -> Span {
    let objects = cell.machine_count() + cell.jobs().count();
    SNAPSHOT_TAKES + OBJECT_TAKES.saturating_mul(objects as u64)
}

fn snapshot(message: &Message) -> Option<&Snapshot> {
    match &message.body {
        Body::Consensus(consensus) => consensus.snapshot.as_ref(),
        _ => None,
    }
}

// Membership and leadership.
impl<C: Codec> World<C> {
    /// The newest replica that considers itself the leader.
    pub(crate) fn leading(&self) -> Option<usize> {
        let leads = |(host, master): (usize, &MasterHost<C>)| Some((master.leads?, host));
        self.masters.iter().enumerate().filter_map(leads).max().map(|(_, host)| host)
    }

    /// The leader, or else the most advanced replica.
    pub(crate) fn most_advanced(&self) -> Option<usize> {
        let known = |host: &usize| {
            let master = &self.masters[*host];
            let present = master.disk.restore_epoch == self.invariants.epoch();
            master.cell().filter(|_| present).map(Cell::index)
        };
        let most =
            || (0..self.masters.len()).filter(|host| known(host).is_some()).max_by_key(known);
        self.leading().or_else(most)
    }

    /// The positions of replicas that are, or will be, members of the cell.
    pub(crate) fn present(&self) -> Vec<usize> {
        (0..self.masters.len()).filter(|host| !self.masters[*host].gone).collect()
    }

    /// The next replica after one that does not answer or is not the leader; the same if it is the
    /// only one. Going round tries all of them, where a random choice could pick a frozen one again
    /// and again.
    pub(crate) fn another_master(&self, than: usize) -> usize {
        let present = self.present();
        let after = present.iter().find(|host| **host > than);
        after.or(present.first()).copied().unwrap_or(than)
    }

    /// Any replica.
    pub(crate) fn any_master(&mut self) -> usize {
        if self.masters.len() == 1 {
            return 0;
        }
        let present = self.present();
        self.operator.random.one_of(&present).copied().unwrap_or(0)
    }

    pub(crate) fn place_of(&self, id: ReplicaId) -> Option<usize> {
        self.masters.iter().position(|master| master.id() == id)
    }

    /// A replica reports the leader.
    pub(crate) fn elected(&mut self, host: usize, leader: Option<ReplicaId>, term: Term) {
        let Some(leader) = leader else { return };
        let master = &self.masters[host];
        self.counts.elections += u64::from(leader == master.id());
        self.invariants.elected(master.disk.restore_epoch, term, leader);
    }
}

// Messages.
impl<C: Codec> World<C> {
    pub(crate) fn send_message(&mut self, host: usize, message: Message) {
        let Some(to) = self.place_of(message.to) else { return };
        if snapshot(&message).is_some() {
            return self.send_snapshot(host, to, message);
        }
        let fate = match self.operator.unlucky && self.operator.chance(UNLUCKY_LOSS) {
            true => Fate::Lost,
            false => self.network.connected(self.now, Node::Master(host), Node::Master(to)),
        };
        match fate {
            Fate::Arrives(delay, again) => {
                if let Some(again) = again {
                    let message = Box::new(message.clone());
                    self.agenda.at(self.now + again, Event::Received { host: to, message });
                }
                let message = Box::new(message);
                self.agenda.at(self.now + delay, Event::Received { host: to, message });
            }
            // Some connections break, others just become silent.
            Fate::Lost if self.operator.random.chance(300) => {
                self.tell_master(host, Input::Unreachable(message.to));
            }
            Fate::Lost => {}
        }
    }

    /// Handles a message between replicas on its arrival.
    pub(crate) fn between_replicas(&mut self, event: Event) {
        match event {
            Event::Received { host, message } if self.masters[host].is_up() => {
                if self.is_of_another_directory(host, &message) {
                    let from = self.place_of(message.from);
                    return from.into_iter().for_each(|from| self.lose_replica(from));
                }
                if self.injected_bug == Some(InjectedBug::MemberTwice) {
                    let again = self.of_another_member(host, &message);
                    again.into_iter().for_each(|it| self.tell_master(host, Input::Received(it)));
                }
                self.tell_master(host, Input::Received(*message));
            }
            // The connection is refused at once.
            Event::Received { message, .. } => {
                let from = self.place_of(message.from);
                let from = from.filter(|from| self.masters[*from].is_up());
                if let Some(from) = from {
                    self.tell_master(from, Input::Unreachable(message.to));
                }
            }
            Event::SnapshotArrives { host, sent } => self.snapshot_arrives(host, sent),
            Event::SnapshotKept { host, incarnation, sent } => {
                self.snapshot_kept(host, incarnation, *sent);
            }
            Event::SnapshotTold { number, host, incarnation, to, taken }
                if self.snapshots.remove(&number)
                    && incarnation == self.masters[host].incarnation =>
            {
                self.tell_master(host, Input::SnapshotSent(to, taken));
            }
            _ => {}
        }
    }

    /// For an injected bug: the same answer, as from the voter after its sender.
    fn of_another_member(&self, host: usize, message: &Message) -> Option<Message> {
        let Body::Consensus(consensus) = &message.body else { return None };
        let is_answer = matches!(
            consensus.kind,
            ConsensusKind::AppendResponse
                | ConsensusKind::RequestVoteResponse
                | ConsensusKind::RequestPreVoteResponse
        );
        let voters: Vec<ReplicaId> = self.masters[host].cell()?.voters().collect();
        let other = voters.iter().find(|id| **id > message.from).or(voters.first()).copied()?;
        let counts = is_answer && other != message.to && other != message.from;
        let directory = DirectoryId::default();
        counts.then(|| Message { from: other, directory, ..message.clone() })
    }

    /// Whether the sender has another directory than the cell records; if so, the receiver tells
    /// it.
    fn is_of_another_directory(&self, host: usize, message: &Message) -> bool {
        let known = self.masters[host].cell().and_then(|cell| cell.replica(message.from));
        known.is_some_and(|known| known.directory.differs(message.directory))
    }

    fn send_snapshot(&mut self, host: usize, to: usize, message: Message) {
        let number = self.next_call();
        let incarnation = self.masters[host].incarnation;
        self.snapshots.insert(number);
        let takes = snapshot(&message).map_or(SNAPSHOT_TAKES, |snapshot| takes(&snapshot.cell));
        let timeout =
            Event::SnapshotTold { number, host, incarnation, to: message.to, taken: false };
        self.agenda.at(self.now + takes + SNAPSHOT_TIMEOUT, timeout);
        if let Fate::Arrives(delay, _) = self.network.send(Node::Master(host), Node::Master(to)) {
            let sent = Box::new(Sent { number, from: host, incarnation, message });
            self.agenda.at(self.now + takes + delay, Event::SnapshotArrives { host: to, sent });
        }
    }

    fn snapshot_arrives(&mut self, host: usize, sent: Box<Sent>) {
        let cut = self.network.is_cut(Node::Master(sent.from), Node::Master(host));
        let master = &self.masters[host];
        let Some(Snapshot { cell, .. }) = snapshot(&sent.message) else { return };
        let cut = cut || sent.message.restore_epoch != master.disk.restore_epoch;
        if cut || !master.is_up() || !master.disk.takes_checkpoint(cell.index()) {
            return self.tell_of_snapshot(host, &sent, false);
        }
        let (takes, incarnation) = (takes(cell), master.incarnation);
        self.agenda.at(self.now + takes, Event::SnapshotKept { host, incarnation, sent });
    }

    /// It becomes a checkpoint, and both replicas are notified.
    fn snapshot_kept(&mut self, host: usize, incarnation: u64, mut sent: Sent) {
        let master = &self.masters[host];
        let index = snapshot(&sent.message).map_or(LogIndex(0), |snapshot| snapshot.cell.index());
        if incarnation != master.incarnation || !master.disk.takes_checkpoint(index) {
            return self.tell_of_snapshot(host, &sent, false);
        }
        if let Body::Consensus(consensus) = &mut sent.message.body
            && let Some(snapshot) = &mut consensus.snapshot
        {
            // What is sent is an image.
            match Cell::from_image(snapshot.cell.image()) {
                Ok(cell) => snapshot.cell = cell,
                Err(error) => {
                    self.invariants.violated(format!("a snapshot cannot be read: {error}"));
                }
            }
            let (cell, term) = (snapshot.cell.clone(), snapshot.term);
            self.masters[host].disk.checkpoint(Checkpoint { cell, term });
            self.counts.snapshots += 1;
        }
        self.tell_of_snapshot(host, &sent, true);
        self.tell_master(host, Input::Received(sent.message));
    }

    fn tell_of_snapshot(&mut self, host: usize, sent: &Sent, taken: bool) {
        let Sent { number, from, incarnation, ref message } = *sent;
        if let Fate::Arrives(delay, _) = self.network.send(Node::Master(host), Node::Master(from)) {
            let to = message.to;
            let told = Event::SnapshotTold { number, host: from, incarnation, to, taken };
            self.agenda.at(self.now + delay, told);
        }
    }

    /// A replica continues from a snapshot: its followers have to start again.
    pub(crate) fn restored_from_snapshot(&mut self, host: usize) {
        let master = &mut self.masters[host];
        master.last_checkpoint = master.cell().map_or(LogIndex(0), Cell::index);
        self.stream_breaks(Some(host), Span::from_millis(5));
    }
}

// The operator.
impl<C: Codec> World<C> {
    /// The administrator adds the initially desired replicas.
    pub(crate) fn grow(&mut self) {
        if !self.operator.has_several() {
            return;
        }
        for _ in 1..self.operator.wanted {
            let address = self.operator.address();
            self.ask(0, Mutation::AddReplica(AddReplica { address }));
        }
        self.agenda.at(self.now + LOOK, Event::OperatorLooks);
        self.agenda.at(self.now, Event::Reads);
    }

    /// Moves the replicas towards the desired state: removes lost ones, and adds missing ones.
    pub(crate) fn operator_looks(&mut self) {
        self.agenda.at(self.now + LOOK, Event::OperatorLooks);
        self.check_progress();
        let Some(leading) = self.leading() else { return };
        let Some(cell) = self.masters[leading].cell() else { return };
        if self.clients.waits(0, of_replicas) {
            return;
        }
        let stay = cell.replicas().filter(|replica| !replica.leaving);
        let stay: Vec<ReplicaId> = stay.map(|replica| replica.id).collect();
        let lost = stay
            .iter()
            .find(|id| self.place_of(**id).is_some_and(|place| self.masters[place].gone));
        let mutation = if let Some(lost) = lost {
            Mutation::RemoveReplica(RemoveReplica { replica: *lost })
        } else if stay.len() < self.operator.wanted {
            Mutation::AddReplica(AddReplica { address: self.operator.address() })
        } else if stay.len() > self.operator.wanted && stay.len() > 1 {
            let Some(replica) = self.operator.random.one_of(&stay).copied() else { return };
            Mutation::RemoveReplica(RemoveReplica { replica })
        } else {
            return;
        };
        self.ask(0, mutation);
    }

    /// Carries out membership changes that a replica applied: processes are started and stopped.
    pub(crate) fn members_changed(&mut self, by: usize, applied: &Applied) {
        for event in &applied.events {
            match &event.kind {
                EventKind::ReplicaAdded { replica, address } => {
                    // Replicas of an epoch before a restore do not take part.
                    let restore_epoch = self.masters[by].disk.restore_epoch;
                    self.add_master(*replica, address, restore_epoch);
                }
                EventKind::ReplicaMember { replica, to: MemberChange::Out } => {
                    self.removed(*replica);
                }
                // A waiting one is removed at once.
                EventKind::ReplicaRemoved { replica }
                    if self.masters[by].cell().is_some_and(|it| it.replica(*replica).is_none()) =>
                {
                    self.removed(*replica);
                }
                _ => {}
            }
        }
    }

    fn removed(&mut self, id: ReplicaId) {
        if let Some(host) = self.place_of(id) {
            self.agenda.at(self.now + LINGERS, Event::MasterEnds { host });
        }
    }

    /// Provides a machine with an empty disk for a replica that was added.
    fn add_master(&mut self, id: ReplicaId, address: &Arc<str>, restore_epoch: RestoreEpoch) {
        let Some(first) = self.masters.first() else { return };
        if self.place_of(id).is_some() {
            return;
        }
        let (address, seed) = (Arc::clone(address), self.operator.seed);
        let directory = DirectoryId(self.masters.len() as u64 + 1);
        let settings = replica::Settings { id, address, seed, directory, ..first.settings.clone() };
        let mut disk = Disk::new(self.operator.random.fork());
        disk.injected_bug = self.injected_bug;
        disk.restore_epoch = restore_epoch;
        let seen = ReplicaObservations::new(
            self.checks.clone(),
            self.injected_bug,
            silence_min(&settings),
        );
        let every = self.operator.checkpoint_every;
        let host = self.masters.len();
        self.masters.push(MasterHost::new(settings, disk, None, every, seen));
        let after = self.operator.random.wait(Span::from_millis(500));
        self.agenda.at(self.now + after, Event::MasterStarts { host });
    }

    /// A replica was told that it is no longer a member.
    pub(crate) fn dismissed(&mut self, host: usize) {
        let id = self.masters[host].id();
        if self.masters[host].cell().is_some_and(|cell| cell.replica(id).is_some()) {
            self.invariants.violated(format!("replica {id} is dismissed although it is a member"));
        }
        self.end_master(host);
    }

    /// Stops a replica for good.
    pub(crate) fn end_master(&mut self, host: usize) {
        self.crash_master(host, Crash::Killed, Span::ZERO);
        self.masters[host].gone = true;
    }

    /// A replica's data is lost: it never takes part again.
    pub(crate) fn lose_replica(&mut self, host: usize) {
        if !self.operator.has_several() {
            let what = "the only replica has lost its data".to_owned();
            return self.invariants.violated(what);
        }
        self.end_master(host);
    }

    /// Whether the cell can permanently do without a replica: fewer than half of the voters are
    /// missing then.
    pub(crate) fn can_lose(&self, host: usize) -> bool {
        let Some(cell) = self.leading().and_then(|host| self.masters[host].cell()) else {
            return false;
        };
        let settled = cell.replicas().all(|it| it.member == Member::Voter && !it.leaving);
        let bad = |place: usize| {
            let master = &self.masters[place];
            place == host || master.gone || master.disk.lies || master.disk.lost
        };
        let voters: Vec<usize> = cell.voters().filter_map(|id| self.place_of(id)).collect();
        let lost = voters.iter().filter(|place| bad(**place)).count();
        settled && lost * 2 < voters.len() && !self.clients.waits(0, of_replicas)
    }

    /// Whether all replicas are in their desired state.
    pub(crate) fn unsettled_replicas(&mut self, cell: &Cell) -> Option<String> {
        if !self.operator.has_several() {
            return None;
        }
        let wanted = self.operator.wanted;
        let voters = cell.replicas().filter(|it| it.member == Member::Voter && !it.leaving).count();
        if voters != wanted || cell.replicas().count() != wanted {
            return Some(format!("{voters} of {wanted} replicas are voters"));
        }
        for id in cell.voters() {
            let there = self.place_of(id).and_then(|place| self.masters[place].cell());
            let Some(there) = there else { return Some(format!("replica {id} is down")) };
            if there.index() != cell.index() {
                let (is, should) = (there.index(), cell.index());
                return Some(format!("replica {id} is at {is}, the leader at {should}"));
            }
            if there.image() != cell.image() {
                let index = cell.index();
                self.invariants.violated(format!(
                    "at {index} the state of replica {id} differs from the leader's"
                ));
                break;
            }
        }
        None
    }
}
