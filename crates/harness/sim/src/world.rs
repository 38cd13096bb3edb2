//! The world: everything of a cell in one process, and its time.
//!
//! Each part reacts to [`Event`]s; what it causes is noted in the agenda and comes to pass later.
//! Nothing happens outside of that, so the seed decides everything.

mod actions;
mod calls;
mod clients;
mod failing;
mod faults;
mod machines;
mod master;
mod progress;
mod readers;
mod replicas;
mod scheduling;
mod settled;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use ::master::Answer;
use cell::{Cell, Mutation};
use model::{
    Bytes, CellName, DirectoryId, InstanceId, MachineName, MachineReport, MilliCores, PortRange,
    Random, ReplicaId, Resources, Span, Time, UserName,
};
use replica::{Codec, LogEntry, Message};

use crate::agenda::Agenda;
use crate::disk::{Crash, Disk};
use crate::fault::Fault;
use crate::injected_bug::InjectedBug;
use crate::invariants::InvariantChecker;
use crate::load::Load;
use crate::machine::{Call, Machine, MachineEvent};
use crate::network::Network;
use crate::pace::{Intervals, Pace};
use crate::program::Programs;
use crate::tap::{Checking, Checks, Seen};
use clients::{Asked, Clients, Told};
use master::MasterHost;
use progress::Well;
use replicas::{Operator, Sent};
use scheduling::{Rival, SchedulerHost};

/// The moment at which every world begins: that of the trace of 2011.
pub const BEGIN: Time = Time(1_304_233_200_000_000);

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct Setting {
    /// What decides everything that is not said.
    pub seed: u64,
    /// The machines.
    pub machines: Vec<(MachineName, Arc<MachineReport>)>,
    /// How many replicas the Borgmaster has: the cell is bootstrapped with one, and grows as it begins.
    pub replicas: usize,
    /// What each of them and its master are set to.
    pub replica: replica::Settings,
    /// How thoroughly it is checked.
    pub checking: Checking,
    /// After so many operations a checkpoint is written.
    pub checkpoint_every: u64,
    /// A mistake that is made on purpose.
    pub injected_bug: Option<InjectedBug>,
    /// Who asks for things. The first administers the cell.
    pub users: Vec<UserName>,
}

/// Something that comes to pass.
#[derive(Debug)]
pub(crate) enum Event {
    /// A replica takes a step.
    MasterStep { host: usize, incarnation: u64 },
    /// Its disk has finished a write.
    Written { host: usize, incarnation: u64, number: u64 },
    /// A poll came to an end.
    Answered { call: Call, answer: Answer },
    /// A checkpoint is written.
    Checkpointed { host: usize, incarnation: u64, cell: Box<Cell>, term: model::Term },
    /// A replica is started.
    MasterStarts { host: usize },
    /// One that is not the cell's any more is ended.
    MasterEnds { host: usize },
    /// A message of another replica arrives.
    Received { host: usize, message: Box<Message> },
    /// One with a whole cell does.
    SnapshotArrives { host: usize, sent: Box<Sent> },
    /// And is durable.
    SnapshotKept { host: usize, incarnation: u64, sent: Box<Sent> },
    /// A replica hears whether its snapshot was taken.
    SnapshotTold { number: u64, host: usize, incarnation: u64, to: ReplicaId, taken: bool },
    /// One that has voted loses power.
    MasterDies { host: usize, incarnation: u64 },
    /// Somebody wants that another replica leads.
    Transfer,
    /// Those who keep the replicas look after them.
    OperatorLooks,
    /// Somebody reads, and the next one thinks of it.
    Reads,
    /// That arrives at a replica.
    ReadAsked { host: usize },
    /// Something comes to pass on a machine.
    OnMachine { machine: usize, event: MachineEvent },
    /// A request arrives at a replica.
    Asked(Box<Asked>),
    /// An answer arrives at a client.
    Told(Box<Told>),
    /// A client waits no longer for an answer.
    GivesUp { client: usize, attempt: u64 },
    /// Something is wished for.
    Action,
    /// The scheduler asks for a copy of the cell.
    SchedulerConnects { incarnation: u64 },
    /// It gets the copy.
    Copied { incarnation: u64, cell: Box<Cell> },
    /// It gets a committed record.
    Followed { incarnation: u64, entry: LogEntry },
    /// Its stream is found to be broken.
    StreamEnds { incarnation: u64 },
    /// It takes its turn.
    SchedulerTurn { incarnation: u64, at: Time },
    /// It hears about a proposal, or does not.
    Judged { incarnation: u64, number: u64, refused: Option<Vec<InstanceId>> },
    /// A proposal arrives at a replica.
    Proposed {
        host: usize,
        incarnation: Option<u64>,
        number: u64,
        assignments: Vec<cell::Assignment>,
    },
    /// The other scheduler takes its turn.
    RivalTurn,
    /// A fault begins, or ends.
    Fault { number: usize, begins: bool },
}

/// How much has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Things that came to pass.
    pub events: u64,
    /// Steps of the replica.
    pub steps: u64,
    /// Polls that were made.
    pub polls: u64,
    /// Operations that were committed.
    pub operations: u64,
    /// Times that a master was started.
    pub masters: u64,
    /// Times that another replica was elected.
    pub elections: u64,
    /// Reads of what is true now that were answered.
    pub reads: u64,
    /// Snapshots that replicas took from others.
    pub snapshots: u64,
    /// Processes that were started.
    pub processes: u64,
    /// Assignments of the scheduler that were refused, or of which nobody knows.
    pub refused: u64,
    /// Times that a machine lost power.
    pub removals: u64,
}

/// A world.
pub struct World<C: Codec> {
    pub(crate) now: Time,
    pub(crate) agenda: Agenda<Event>,
    pub(crate) random: Random,
    pub(crate) network: Network,
    pub(crate) codec: Rc<C>,
    pub(crate) checks: Rc<RefCell<Checks>>,
    /// The replicas that ever were, each at its place.
    pub(crate) masters: Vec<MasterHost<C>>,
    pub(crate) operator: Operator,
    /// Snapshots on their way, by their numbers.
    pub(crate) snapshots: BTreeSet<u64>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) scheduler: SchedulerHost,
    pub(crate) rival: Rival,
    pub(crate) clients: Clients,
    pub(crate) load: Box<dyn Load>,
    pub(crate) programs: Box<dyn Programs>,
    pub(crate) faults: Vec<Fault>,
    /// The replicas that each fault under way concerns, and those by which there is one more.
    pub(crate) concerned: BTreeMap<usize, Vec<usize>>,
    pub(crate) more: BTreeSet<usize>,
    pub(crate) well: Well,
    pub(crate) invariants: InvariantChecker,
    pub(crate) counts: Counts,
    /// Polls and operations by the second.
    pub(crate) polls: Pace,
    pub(crate) operations: Pace,
    pub(crate) poll_intervals: Intervals,
    pub(crate) injected_bug: Option<InjectedBug>,
    calls: u64,
}

impl<C: Codec> World<C> {
    /// A world before its first moment: the machines are on, the master starts, nothing is known of
    /// anything.
    #[must_use]
    pub fn new(
        setting: Setting,
        codec: C,
        load: Box<dyn Load>,
        programs: Box<dyn Programs>,
        faults: Vec<Fault>,
    ) -> Self {
        let mut random = Random::new(setting.seed);
        let checks = Checks::new(setting.checking, setting.replicas > 1);
        let mut disk = Disk::new(random.fork());
        disk.injected_bug = setting.injected_bug;
        let machine = |(name, report): (MachineName, Arc<MachineReport>)| {
            Machine::new(name, report, random.fork())
        };
        let machines: Vec<_> = setting.machines.into_iter().map(machine).collect();
        let clients = Clients::new(setting.users);
        let founder = clients.administrator();
        let (seed, directory) = (random.number(), DirectoryId(1));
        let settings = replica::Settings { seed, directory, ..setting.replica };
        let silence_min = silence_min(&settings);
        let seen = Seen::new(Rc::clone(&checks), setting.injected_bug, silence_min);
        let every = setting.checkpoint_every;
        let masters = vec![MasterHost::new(settings, disk, founder, every, seen)];
        let mut world = Self {
            now: BEGIN,
            agenda: Agenda::default(),
            network: Network::new(random.fork()),
            rival: Rival::new(random.fork()),
            random,
            codec: Rc::new(codec),
            checks,
            masters,
            operator: Operator::new(setting.seed, setting.replicas, every),
            snapshots: BTreeSet::new(),
            machines,
            scheduler: SchedulerHost::default(),
            clients,
            load,
            programs,
            faults,
            concerned: BTreeMap::new(),
            more: BTreeSet::new(),
            well: Well::default(),
            invariants: InvariantChecker::new(
                setting.injected_bug,
                setting.checking != Checking::Off,
            ),
            counts: Counts::default(),
            polls: Pace::default(),
            operations: Pace::default(),
            poll_intervals: Intervals::default(),
            injected_bug: setting.injected_bug,
            calls: 0,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.agenda.at(self.now, Event::MasterStarts { host: 0 });
        self.agenda
            .at(self.now, Event::SchedulerConnects { incarnation: self.scheduler.incarnation });
        self.grow();
        self.add_machines();
        self.note_action();
        for (number, fault) in self.faults.iter().enumerate() {
            self.agenda.at(BEGIN + fault.after, Event::Fault { number, begins: true });
            let ends = BEGIN + fault.after + fault.lasts;
            self.agenda.at(ends, Event::Fault { number, begins: false });
        }
    }

    /// The administrator adds every machine; one that the cell knows stays as it is.
    pub(crate) fn add_machines(&mut self) {
        for number in 0..self.machines.len() {
            let name = self.machines[number].name.clone();
            let address = address(number);
            self.ask(0, Mutation::AddMachine { name, address });
        }
    }

    /// The moment it is.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// How long it has been going.
    #[must_use]
    pub fn age(&self) -> Span {
        self.now.since(BEGIN)
    }

    /// How much has happened.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// So much time passes between two polls of a machine, whoever polls it, in so many of a hundred
    /// of them or less; to 10 ms, and at most 100 s.
    #[must_use]
    pub fn poll_interval(&self, percent: u64) -> Span {
        self.poll_intervals.at(percent)
    }

    /// The cell, as the elected master knows it, else whoever knows most; none while no master is
    /// there.
    #[must_use]
    pub fn cell(&self) -> Option<&Cell> {
        self.knowing().and_then(|host| self.masters[host].cell())
    }

    /// What is wrong, as soon as something is.
    #[must_use]
    pub fn violation(&self) -> Option<&str> {
        self.invariants.violation()
    }

    /// A digest of every event so far, with its place in the log and its moment.
    #[must_use]
    pub fn digest(&self) -> String {
        self.invariants.digest()
    }

    /// Lets everything happen that does so up to an age of the world, or until something is wrong.
    pub fn run_to(&mut self, age: Span) {
        let end = BEGIN + age;
        while self.invariants.violation().is_none()
            && let Some(at) = self.agenda.next_at()
            && at <= end
        {
            let Some((at, event)) = self.agenda.next() else { break };
            self.now = self.now.max(at);
            self.counts.events += 1;
            self.handle(event);
        }
        self.now = self.now.max(end);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::MasterStep { host, .. }
            | Event::Written { host, .. }
            | Event::Answered { call: Call { master: host, .. }, .. }
            | Event::Checkpointed { host, .. }
            | Event::Proposed { host, .. }
            | Event::Received { host, .. }
            | Event::SnapshotArrives { host, .. }
            | Event::SnapshotKept { host, .. }
            | Event::SnapshotTold { host, .. }
            | Event::ReadAsked { host }
                if self.masters[host].is_frozen() =>
            {
                self.masters[host].later(event);
            }
            Event::Asked(asked) if self.masters[asked.host].is_frozen() => {
                self.masters[asked.host].later(Event::Asked(asked));
            }
            Event::MasterStep { host, incarnation } => self.master_wakes(host, incarnation),
            Event::Written { host, incarnation, number } => self.written(host, incarnation, number),
            Event::Answered { call, answer } => self.answered(call, answer),
            Event::Checkpointed { host, incarnation, cell, term } => {
                self.checkpointed(host, incarnation, *cell, term);
            }
            Event::MasterStarts { host } => self.start_master(host),
            Event::MasterEnds { host } => self.end_master(host),
            Event::Received { .. }
            | Event::SnapshotArrives { .. }
            | Event::SnapshotKept { .. }
            | Event::SnapshotTold { .. } => self.between_replicas(event),
            Event::MasterDies { host, incarnation } => self.dies(host, incarnation),
            Event::Transfer => self.transfer(),
            Event::OperatorLooks => self.operator_looks(),
            Event::Reads => self.reads(),
            Event::ReadAsked { host } => self.read_asked(host),
            Event::Asked(asked) => self.asked(*asked),
            Event::Proposed { host, incarnation, number, assignments } => {
                self.proposed(host, incarnation, number, assignments);
            }
            Event::Told(told) => self.told(*told),
            Event::GivesUp { client, attempt } => self.gives_up(client, attempt),
            Event::Action => self.action(),
            Event::SchedulerConnects { .. }
            | Event::Copied { .. }
            | Event::Followed { .. }
            | Event::StreamEnds { .. }
            | Event::SchedulerTurn { .. }
            | Event::Judged { .. } => self.scheduler_event(event),
            Event::RivalTurn => self.rival_turn(),
            Event::Fault { number, begins } => self.fault(number, begins),
            Event::OnMachine { machine, event } => self.machine_event(machine, event),
        }
    }

    /// The next number of a call.
    pub(crate) fn next_call(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    /// A replica dies, and is started again after a while.
    pub(crate) fn crash_master(&mut self, host: usize, how: Crash, starts_after: Span) {
        if !self.masters[host].crash(how) {
            return;
        }
        self.stream_breaks(Some(host), Span::from_millis(5));
        self.agenda.at(self.now + starts_after, Event::MasterStarts { host });
        // What a disk lied about is gone now, and nobody can say what of it was acknowledged.
        if how == Crash::PowerLost && std::mem::take(&mut self.masters[host].disk.lies) {
            match self.operator.has_several() {
                true => self.lose_replica(host),
                false => self.restore(host),
            }
        }
    }
}

/// For how long nothing is heard at least of a machine that is taken for lost.
pub(crate) fn silence_min(settings: &replica::Settings) -> Span {
    let master = settings.master;
    master.poll_interval.saturating_mul(master.missed_polls_max.saturating_sub(1).into())
}

/// So many machines of the same kind, in racks of a size, named `m0`, `m1`, ….
#[must_use]
pub fn machines(
    count: usize,
    rack: usize,
    capacity: Resources,
) -> Vec<(MachineName, Arc<MachineReport>)> {
    let machine = |number: usize| {
        let attributes = [
            ("rack".to_owned(), format!("r{}", number / rack.max(1))),
            ("power-domain".to_owned(), format!("p{}", number / (rack.max(1) * 3))),
        ];
        let ports = PortRange { first: 31_000, last: 31_031 };
        let report = MachineReport {
            capacity,
            ports,
            attributes: attributes.into(),
            ..MachineReport::default()
        };
        Some((MachineName::new(&format!("m{number}")).ok()?, Arc::new(report)))
    };
    (0..count).filter_map(machine).collect()
}

/// A machine of that many cores and GiB, with disk in plenty.
#[must_use]
pub fn capacity(cores: u64, gib: u64) -> Resources {
    Resources {
        cpu: MilliCores(cores * 1_000),
        ram: Bytes(gib << 30),
        disk: Bytes(1 << 40),
        disk_rate: Bytes(200 << 20),
    }
}

/// Where a machine's Borglet answers: it says which of the world's machines that is.
pub(crate) fn address(number: usize) -> String {
    format!("machine-{number}:7")
}

/// Which of the world's machines answers at an address.
pub(crate) fn number_of(address: &str) -> Option<usize> {
    address.strip_prefix("machine-")?.strip_suffix(":7")?.parse().ok()
}

/// The name of every simulated cell.
pub(crate) fn cell_name() -> Option<CellName> {
    CellName::new("sim").ok()
}
