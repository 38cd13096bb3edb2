//! The world: all parts of a cell in one process, and its simulated time.
//!
//! Each part reacts to [`Event`]s and schedules its effects as later events. Nothing happens
//! outside of that, so the seed decides everything.

mod actions;
mod calls;
mod clients;
mod estimates;
mod failing;
mod faults;
mod inputs;
mod machines;
mod master;
mod names;
mod progress;
mod readers;
mod replicas;
mod scheduling;
mod settled;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;

use ::master::Answer;
use cell::{AddMachine, Cell, Mutation};
use model::{
    Bytes, CellCopy, CellName, DirectoryId, InstanceId, MachineName, MachineReport, MilliCores,
    PortRange, Random, ReplicaId, Resources, Span, Subnet, Time, UserName,
};
use replica::{Codec, LogEntry, Message};

use crate::disk::{Crash, Disk};
use crate::event_queue::Agenda;
use crate::fault::Fault;
use crate::injected_bug::InjectedBug;
use crate::invariants::InvariantChecker;
use crate::load::Load;
use crate::log_observer::{Checking, Checks, ReplicaObservations};
use crate::machine::inputs::InputsRequest;
use crate::machine::{Call, Machine, MachineEvent};
use crate::network::Network;
use crate::program::Programs;
use crate::rates::{Intervals, Pace};
use clients::{ClientRequest, Clients, Told};
use master::MasterHost;
use names::NameReader;
use progress::HealthyMajority;
use replicas::{Operator, Sent};
use scheduling::{Rival, SchedulerHost};

/// The time at which every world begins: that of the trace of 2011.
pub const BEGIN: Time = Time(1_304_233_200_000_000);

/// The parameters of a world.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The seed of everything random.
    pub seed: u64,
    /// The machines.
    pub machines: Vec<(MachineName, Arc<MachineReport>)>,
    /// Number of replicas of the Borgmaster: the cell is bootstrapped with one, and grows at the
    /// beginning.
    pub replicas: usize,
    /// The settings of each replica and its master.
    pub replica: replica::Settings,
    /// How thoroughly it is checked.
    pub checking: Checking,
    /// Number of operations between checkpoints.
    pub checkpoint_every: u64,
    /// A bug to inject.
    pub injected_bug: Option<InjectedBug>,
    /// The users that make requests. The first is the administrator.
    pub users: Vec<UserName>,
}

/// A scheduled event.
#[derive(Debug)]
pub(crate) enum Event {
    /// A replica takes a step.
    MasterStep { host: usize, incarnation: u64 },
    /// A replica's disk finished a write.
    Written { host: usize, incarnation: u64, number: u64 },
    /// A poll ended.
    Answered { call: Call, answer: Answer },
    /// A replica makes a round of estimates.
    Estimates { host: usize, incarnation: u64 },
    /// A checkpoint was written.
    Checkpointed { host: usize, incarnation: u64, cell: Box<Cell>, term: model::Term },
    /// A replica is started.
    MasterStarts { host: usize },
    /// A replica that was removed is stopped.
    MasterEnds { host: usize },
    /// The cell is restored from a replica that an earlier restoration discarded.
    RestoredAgain { host: usize },
    /// A message from another replica arrives.
    Received { host: usize, message: Box<Message> },
    /// A message with a whole cell arrives.
    SnapshotArrives { host: usize, sent: Box<Sent> },
    /// A received snapshot is durable.
    SnapshotKept { host: usize, incarnation: u64, sent: Box<Sent> },
    /// A replica learns whether its snapshot was received.
    SnapshotTold { number: u64, host: usize, incarnation: u64, to: ReplicaId, taken: bool },
    /// A replica that has voted loses power.
    MasterDies { host: usize, incarnation: u64 },
    /// An operator requests a leadership transfer.
    Transfer,
    /// The operator checks the replicas.
    OperatorLooks,
    /// A client reads, and the next read is scheduled.
    Reads,
    /// A read arrives at a replica.
    ReadAsked { host: usize },
    /// A request of a Borglet for what a task needs arrives at a replica.
    InputsAsked(InputsRequest),
    /// An event on a machine.
    OnMachine { machine: usize, event: MachineEvent },
    /// A request arrives at a replica.
    Asked(Box<ClientRequest>),
    /// An answer arrives at a client.
    Told(Box<Told>),
    /// A client stops waiting for an answer.
    GivesUp { client: usize, attempt: u64 },
    /// The load's next action is due.
    Action,
    /// The scheduler's stream begins: with a copy of the cell, or with the records after its own.
    StreamBegins { incarnation: u64, image: Option<Box<Cell>>, copy: CellCopy },
    /// The scheduler receives a committed record.
    Followed { incarnation: u64, entry: LogEntry },
    /// The scheduler notices that its stream is broken.
    StreamEnds { incarnation: u64 },
    /// The scheduler does what is due.
    SchedulerTicks { incarnation: u64, at: Time },
    /// The scheduler learns the outcome of a proposal, or that it is unknown.
    Judged { incarnation: u64, number: u64, refused: Option<Vec<InstanceId>> },
    /// A proposal arrives at a replica.
    Proposed {
        host: usize,
        incarnation: Option<u64>,
        number: u64,
        /// When the pass that made it began.
        began: Time,
        enabled: Vec<model::Enabled>,
        assignments: Vec<cell::Assignment>,
    },
    /// The rival scheduler takes its turn.
    RivalTurn,
    /// A fault begins, or ends.
    Fault { number: usize, begins: bool },
}

/// Counters of what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events processed.
    pub events: u64,
    /// Steps of replicas.
    pub steps: u64,
    /// Polls sent.
    pub polls: u64,
    /// Operations committed.
    pub operations: u64,
    /// Starts of masters.
    pub masters: u64,
    /// Changes of the leader.
    pub elections: u64,
    /// Linearizable reads that were answered.
    pub reads: u64,
    /// Answers to the reader of names.
    pub name_reads: u64,
    /// Snapshots received from other replicas.
    pub snapshots: u64,
    /// Processes started.
    pub processes: u64,
    /// Assignments of the scheduler that were rejected, or whose outcome is unknown.
    pub refused: u64,
    /// Power losses of machines.
    pub removals: u64,
    /// Readings of memory that was short.
    pub shortages: u64,
    /// Tasks that were evicted for it.
    pub short_evictions: u64,
    /// Answers to tasks that read secrets and names.
    pub input_reads: u64,
}

/// A simulated world.
pub struct World<C: Codec> {
    pub(crate) now: Time,
    pub(crate) agenda: Agenda<Event>,
    pub(crate) random: Random,
    pub(crate) network: Network,
    pub(crate) codec: Rc<C>,
    pub(crate) checks: Rc<RefCell<Checks>>,
    /// All replicas that ever existed, by position.
    pub(crate) masters: Vec<MasterHost<C>>,
    /// Whether the cell has a batch queue, as it has with some seeds.
    has_queue: bool,
    pub(crate) operator: Operator,
    /// Snapshots in flight, by number.
    pub(crate) snapshots: BTreeSet<u64>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) scheduler: SchedulerHost,
    pub(crate) rival: Rival,
    pub(crate) clients: Clients,
    pub(crate) load: Box<dyn Load>,
    pub(crate) programs: Box<dyn Programs>,
    pub(crate) faults: Vec<Fault>,
    /// The replicas affected by each active fault, and the faults that added one (`more`).
    pub(crate) concerned: BTreeMap<usize, Vec<usize>>,
    pub(crate) more: BTreeSet<usize>,
    pub(crate) well: HealthyMajority,
    pub(crate) names: NameReader,
    pub(crate) invariants: InvariantChecker,
    pub(crate) counts: Counts,
    /// Polls and operations per second.
    pub(crate) polls: Pace,
    pub(crate) operations: Pace,
    pub(crate) poll_intervals: Intervals,
    pub(crate) injected_bug: Option<InjectedBug>,
    calls: u64,
}

impl<C: Codec> World<C> {
    /// A world at its beginning: the machines are on, the master starts, and nothing is known to
    /// any part.
    #[must_use]
    pub fn new(
        setting: Setting,
        codec: C,
        load: Box<dyn Load>,
        programs: Box<dyn Programs>,
        faults: Vec<Fault>,
    ) -> Self {
        let mut random = Random::new(setting.seed);
        let several = setting.replicas > 1;
        let checks = Checks::new(setting.checking, several);
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
        let seen = ReplicaObservations::new(Rc::clone(&checks), setting.injected_bug, silence_min);
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
            has_queue: setting.seed % 3 == 1,
            snapshots: BTreeSet::new(),
            machines,
            scheduler: SchedulerHost::default(),
            clients,
            load,
            programs,
            faults,
            concerned: BTreeMap::new(),
            more: BTreeSet::new(),
            well: HealthyMajority::default(),
            names: NameReader::default(),
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
        world.invariants.savers.several_pollers = several;
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.agenda.at(self.now, Event::MasterStarts { host: 0 });
        self.restart_scheduler(Span::ZERO);
        self.grow();
        self.add_machines();
        self.note_action();
        for (number, fault) in self.faults.iter().enumerate() {
            self.agenda.at(BEGIN + fault.after, Event::Fault { number, begins: true });
            let ends = BEGIN + fault.after + fault.lasts;
            self.agenda.at(ends, Event::Fault { number, begins: false });
        }
    }

    /// The administrator adds every machine; existing ones stay as they are.
    pub(crate) fn add_machines(&mut self) {
        for number in 0..self.machines.len() {
            let name = self.machines[number].name.clone();
            let address = address(number);
            self.ask(0, Mutation::AddMachine(AddMachine { name, address }));
        }
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// The time since its beginning.
    #[must_use]
    pub fn age(&self) -> Span {
        self.now.since(BEGIN)
    }

    /// The counters.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The percentile of the intervals between two polls of the same machine, whoever polls it;
    /// with a resolution of 10 ms, and at most 100 s.
    #[must_use]
    pub fn poll_interval(&self, percent: u64) -> Span {
        self.poll_intervals.at(percent)
    }

    /// The cell, as known to the leader, or else to the most advanced replica; `None` while no
    /// replica runs.
    #[must_use]
    pub fn cell(&self) -> Option<&Cell> {
        self.most_advanced().and_then(|host| self.masters[host].cell())
    }

    /// The first violation, if any.
    #[must_use]
    pub fn violation(&self) -> Option<&str> {
        self.invariants.violation()
    }

    /// A digest of every event so far, with its index and time.
    #[must_use]
    pub fn digest(&self) -> String {
        self.invariants.digest()
    }

    /// Runs to an age of the world, or until a violation.
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
            | Event::Estimates { host, .. }
                if self.masters[host].is_frozen() =>
            {
                self.masters[host].later(event);
            }
            Event::Asked(asked) if self.masters[asked.host].is_frozen() => {
                self.masters[asked.host].later(Event::Asked(asked));
            }
            Event::InputsAsked(asked) if self.masters[asked.host].is_frozen() => {
                self.masters[asked.host].later(event);
            }
            Event::InputsAsked(asked) => self.inputs_asked(asked),
            Event::MasterStep { host, incarnation } => self.master_wakes(host, incarnation),
            Event::Written { host, incarnation, number } => self.written(host, incarnation, number),
            Event::Answered { call, answer } => self.answered(call, answer),
            Event::Checkpointed { host, incarnation, cell, term } => {
                self.checkpointed(host, incarnation, *cell, term);
            }
            Event::Estimates { host, incarnation } => self.estimates(host, incarnation),
            Event::MasterStarts { host } => self.start_master(host),
            Event::MasterEnds { host } => self.end_master(host),
            Event::RestoredAgain { host } => self.restore_again(host),
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
            Event::Proposed { host, incarnation, number, began, enabled, assignments } => {
                self.enabled(host, incarnation, number, enabled, (began, assignments));
            }
            Event::Told(told) => self.told(*told),
            Event::GivesUp { client, attempt } => self.gives_up(client, attempt),
            Event::Action => self.action(),
            Event::StreamBegins { .. }
            | Event::Followed { .. }
            | Event::StreamEnds { .. }
            | Event::SchedulerTicks { .. }
            | Event::Judged { .. } => self.scheduler_event(event),
            Event::RivalTurn => self.rival_turn(),
            Event::Fault { number, begins } => self.fault(number, begins),
            Event::OnMachine { machine, event } => self.machine_event(machine, event),
        }
    }

    /// The next call number.
    pub(crate) fn next_call(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    /// A replica crashes, and is restarted after a while.
    pub(crate) fn crash_master(&mut self, host: usize, how: Crash, starts_after: Span) {
        if self.masters[host].crash(how) {
            self.stream_breaks(Some(host), Span::from_millis(5));
            self.agenda.at(self.now + starts_after, Event::MasterStarts { host });
        } else if self.masters[host].disk.lies && how == Crash::PowerLost {
            // Its process was down already.
            self.masters[host].disk.crash(how);
        } else {
            return;
        }
        // What the disk falsely claimed to have synced is lost, and any of it may have been
        // acknowledged.
        if how == Crash::PowerLost && std::mem::take(&mut self.masters[host].disk.lies) {
            match self.operator.has_several() {
                true => self.lose_replica(host),
                false => self.restore(host),
            }
        }
    }
}

/// Minimum silence of a machine before it may be marked down.
pub(crate) fn silence_min(settings: &replica::Settings) -> Span {
    let master = settings.master;
    master.poll_interval.saturating_mul(master.missed_polls_max.saturating_sub(1).into())
}

/// Machines of the same kind, in racks of a given size, named `m0`, `m1`, ….
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
            task_network: task_network(number),
            attributes: attributes.into(),
            ..MachineReport::default()
        };
        Some((MachineName::new(&format!("m{number}")).ok()?, Arc::new(report)))
    };
    (0..count).filter_map(machine).collect()
}

/// The addresses for tasks of a machine: few, so that they run out.
fn task_network(number: usize) -> Option<Subnet> {
    let (high, low) = (64 + number / 256, number % 256);
    let address = Ipv4Addr::new(10, u8::try_from(high).ok()?, u8::try_from(low).ok()?, 0);
    Subnet::new(address, 29).ok()
}

/// A machine of that many cores and GiB of memory, with ample disk.
#[must_use]
pub fn capacity(cores: u64, gib: u64) -> Resources {
    Resources {
        cpu: MilliCores(cores * 1_000),
        ram: Bytes(gib << 30),
        disk: Bytes(1 << 40),
        disk_rate: Bytes(200 << 20),
    }
}

/// The address of a machine's Borglet, which encodes the machine's number.
pub(crate) fn address(number: usize) -> String {
    format!("machine-{number}:7")
}

/// The number of the machine with that address.
pub(crate) fn number_of(address: &str) -> Option<usize> {
    address.strip_prefix("machine-")?.strip_suffix(":7")?.parse().ok()
}

/// The name of every simulated cell.
pub(crate) fn cell_name() -> Option<CellName> {
    CellName::new("sim").ok()
}
