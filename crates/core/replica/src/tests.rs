//! One replica, a disk of two vectors, and a manual clock.

mod cluster;

use std::cell::RefCell;
use std::rc::Rc;

use cell::{
    AddMachine, Applied, Cell, LEVEL, Mutation, Op, Outcome, Rejection, Reply, RequestId,
    TEST_LEVEL,
};
use model::{
    CellName, Level, LogIndex, MachineName, RestoreEpoch, SessionId, Span, Term, Time, UserName,
};

use crate::{
    Bootstrap, Codec, HardState, Input, LogEntry, Output, Persist, Recovered, Refusal, Replica,
    Settings, Ticket,
};

/// Operations stored in a table; a payload is an index into it, plus padding.
#[derive(Clone, Default)]
struct Table(Rc<RefCell<Vec<(Time, Op)>>>, Rc<RefCell<usize>>);

impl Codec for Table {
    fn encode(&self, at: Time, op: &Op) -> Vec<u8> {
        let mut table = self.0.borrow_mut();
        table.push((at, op.clone()));
        let mut payload = (table.len() as u64 - 1).to_le_bytes().to_vec();
        payload.resize(payload.len() + *self.1.borrow(), 0);
        payload
    }

    fn decode(&self, payload: &[u8]) -> Result<(Time, Op), String> {
        let place = payload.first_chunk().ok_or("not eight bytes")?;
        let place = usize::try_from(u64::from_le_bytes(*place)).unwrap_or(usize::MAX);
        self.0.borrow().get(place).cloned().ok_or_else(|| "not in the table".to_owned())
    }

    fn is_membership(&self, payload: &[u8]) -> bool {
        matches!(self.decode(payload), Ok((_, Op::ChangeMember { .. })))
    }

    fn events(&self, cell: &Cell, applied: &Applied) -> Vec<u8> {
        [cell.index().0.to_le_bytes(), (applied.events.len() as u64).to_le_bytes()].concat()
    }
}

struct World {
    table: Table,
    replica: Replica<Table>,
    now: Time,
    disk: Vec<LogEntry>,
    hard_state: HardState,
    pending: Vec<Persist>,
    outputs: Vec<Output>,
}

fn user() -> UserName {
    UserName::new("ana").expect("a name")
}

impl World {
    fn start(table: Table, disk: Vec<LogEntry>, hard_state: HardState, now: Time) -> Self {
        Self::start_with(Settings::default(), table, disk, hard_state, now)
    }

    /// A build of some level, on an empty disk.
    fn start_at(level: Level, table: Table) -> Self {
        let settings = Settings { level, ..Settings::default() };
        Self::start_with(settings, table, vec![], HardState::default(), Time(1))
    }

    fn start_with(
        settings: Settings,
        table: Table,
        disk: Vec<LogEntry>,
        hard_state: HardState,
        now: Time,
    ) -> Self {
        let entries = disk.clone();
        let recovered = Recovered { entries, hard_state, ..Recovered::default() };
        let name = CellName::new("dev").expect("a name");
        let bootstrap = Some(Bootstrap { name, administrator: user(), quota: false, queue: false });
        let replica = Replica::new(settings, table.clone(), now, recovered, bootstrap);
        let replica = replica.expect("settings are good");
        let (pending, outputs) = (vec![], vec![]);
        Self { table, replica, now, disk, hard_state, pending, outputs }
    }

    /// A bootstrapped cell.
    fn bootstrapped() -> Self {
        let table = Table::default();
        let mut world = Self::start(table, vec![], HardState::default(), Time(1_000_000));
        world.settle(vec![]);
        world
    }

    fn step(&mut self, inputs: Vec<Input>) {
        let mut outputs = vec![];
        self.replica.step(self.now, inputs, &mut outputs).expect("it can go on");
        for output in outputs {
            match output {
                Output::Persist(persist) => self.pending.push(persist),
                other => self.outputs.push(other),
            }
        }
    }

    /// Makes waiting writes durable, once.
    fn sync(&mut self) -> Vec<Input> {
        let mut inputs = vec![];
        for persist in std::mem::take(&mut self.pending) {
            self.disk.extend(persist.entries);
            self.hard_state = persist.hard_state.unwrap_or(self.hard_state);
            inputs.push(Input::Persisted(persist.number));
        }
        inputs
    }

    /// Steps and syncs until nothing waits for the disk.
    fn settle(&mut self, inputs: Vec<Input>) {
        self.step(inputs);
        while !self.pending.is_empty() {
            let persisted = self.sync();
            self.step(persisted);
        }
    }

    fn answers(&mut self) -> Vec<(u64, Outcome)> {
        let answer = |output| match output {
            Output::Reply(ticket, _, outcome) => Some((ticket.0, outcome)),
            _ => None,
        };
        self.outputs.drain(..).filter_map(answer).collect()
    }

    /// A new process with the same disk.
    fn restart(self) -> Self {
        Self::start(self.table, self.disk, self.hard_state, self.now + Span::from_secs(1))
    }
}

fn add_machine(sequence: u64, name: &str) -> Input {
    let name = MachineName::new(name).expect("a name");
    let address = format!("{name}:1");
    let id = RequestId { session: SessionId(1), sequence };
    Input::Request(Ticket(sequence), id, user(), Mutation::AddMachine(AddMachine { name, address }))
}

#[test]
fn an_empty_log_becomes_a_founded_cell() {
    let world = World::bootstrapped();
    assert_eq!(world.replica.cell().name().map(CellName::as_str), Some("dev"));
    assert!(world.replica.cell().is_administrator(&user()));
    assert!(world.outputs.iter().any(|output| matches!(output, Output::Leads(Term(1)))));
}

/// The only replica raises the level as soon as it leads, and once.
#[test]
fn a_cell_is_at_the_level_of_its_only_replica() {
    let levels =
        |world: &World| -> Vec<Level> { world.disk.iter().map(|entry| entry.level).collect() };
    let world = World::bootstrapped();
    assert_eq!(world.replica.cell().level(), LEVEL);
    assert_eq!(levels(&world), [Level(0), LEVEL, LEVEL], "nothing raises it");
    let settings = Settings { level: TEST_LEVEL, ..Settings::default() };
    let mut world = World::start_at(TEST_LEVEL, Table::default());
    world.settle(vec![]);
    assert_eq!(world.replica.cell().level(), TEST_LEVEL);
    assert_eq!(
        levels(&world),
        [Level(0), LEVEL, LEVEL, TEST_LEVEL],
        "older builds stop before they apply what raises it"
    );
    let mut world = World::start_with(settings, world.table, world.disk, world.hard_state, Time(9));
    world.settle(vec![]);
    assert_eq!(world.disk.len(), 5, "the entry of the new term alone");
}

#[test]
fn a_request_above_the_level_of_the_cell_is_refused_until_raised() {
    let mut world = World::start_at(TEST_LEVEL, Table::default());
    world.step(vec![]);
    while !world.outputs.iter().any(|output| matches!(output, Output::Leads(_))) {
        let persisted = world.sync();
        world.step(persisted);
    }
    assert_eq!(world.replica.cell().level(), LEVEL, "that it is raised is not durable yet");
    // There is no request yet that needs more than the first level.
    let needs_it = || Input::Enrolment(Ticket(1), Op::RaiseLevel { to: TEST_LEVEL });
    world.outputs.clear();
    world.step(vec![needs_it()]);
    let refused = world.outputs.iter().find_map(|output| match output {
        Output::Refused(Ticket(1), refusal) => Some(refusal.to_string()),
        _ => None,
    });
    let says = "the cell is at level 1 of the state machine, and the request needs level 1000000: try \
                again when every replica runs a build that supports it";
    assert_eq!(refused.as_deref(), Some(says));
    world.settle(vec![]);
    world.settle(vec![Input::OpenSession(Ticket(9), user())]);
    world.answers();
    world.settle(vec![needs_it()]);
    assert_eq!(world.answers(), [(1, Outcome::Done)]);
}

#[test]
fn a_request_is_acknowledged_only_when_durable() {
    let mut world = World::bootstrapped();
    world.outputs.clear();
    world.step(vec![Input::OpenSession(Ticket(9), user())]);
    assert_eq!(world.answers(), []);
    assert_eq!(world.pending.len(), 1);
    let persisted = world.sync();
    world.step(persisted);
    assert_eq!(world.answers(), [(9, Outcome::Request(Ok(Reply::Session(SessionId(1)))))]);
}

#[test]
fn requests_of_one_step_become_durable_together() {
    let mut world = World::bootstrapped();
    world.settle(vec![Input::OpenSession(Ticket(9), user())]);
    world.step((1..=100).map(|n| add_machine(n, &format!("m{n}"))).collect());
    assert_eq!(world.pending.iter().map(|persist| persist.entries.len()).sum::<usize>(), 100);
    assert_eq!(world.pending.len(), 1);
    let persisted = world.sync();
    world.outputs.clear();
    world.step(persisted);
    assert_eq!(world.answers().len(), 100);
}

#[test]
fn a_restart_arrives_at_the_same_state() {
    let mut world = World::bootstrapped();
    world.settle(vec![Input::OpenSession(Ticket(9), user())]);
    world.settle(vec![add_machine(1, "m1"), add_machine(2, "m2"), add_machine(2, "m3")]);
    let before = format!("{:?}", world.replica.cell().image());
    let index = world.replica.cell().index();
    let mut world = world.restart();
    world.settle(vec![]);
    // The new term starts with an empty entry, and the cell is bootstrapped only once.
    assert_eq!(world.replica.cell().index(), LogIndex(index.0 + 1));
    let after = format!("{:?}", world.replica.cell().image());
    assert_eq!(
        after.replace(&format!("index: {:?}", world.replica.cell().index()), ""),
        before.replace(&format!("index: {index:?}"), "")
    );
    world.settle(vec![add_machine(2, "other")]);
    let same = Outcome::Request(Ok(Reply::MachineAdded(model::MachineId(2))));
    assert_eq!(world.answers(), [(2, same)], "a request is remembered over a restart");
    assert_eq!(world.replica.cell().machine_count(), 2);
}

/// A follower goes on from what it has, as long as the records after it are in memory.
#[test]
fn records_after_an_applied_one_stay_until_a_checkpoint_covers_them() {
    let mut world = World::bootstrapped();
    world.settle(vec![Input::OpenSession(Ticket(9), user())]);
    world.settle((1..=5).map(|n| add_machine(n, &format!("m{n}"))).collect());
    let last = world.replica.cell().index();
    let term = |from: u64| if from == 0 { Term(0) } else { Term(1) };
    for from in 0..=last.0 {
        let records = world.replica.records_after(LogIndex(from), term(from));
        let records = records.expect("they are in memory");
        let after = world.disk.iter().filter(|entry| entry.index.0 > from);
        assert!(records.iter().eq(after), "after {from}");
    }
    assert_eq!(world.replica.records_after(last.next(), Term(1)), None, "it is not applied yet");
    assert_eq!(world.replica.records_after(last, Term(2)), None, "of another history");
    // What is not durable is not applied.
    world.step(vec![add_machine(6, "m6")]);
    assert_eq!(world.replica.records_after(last, Term(1)), Some(Vec::new()));
    let persisted = world.sync();
    world.step(persisted);
    world.settle(vec![Input::Checkpointed(last)]);
    let gone = world.replica.records_after(LogIndex(last.0 - 1), Term(1));
    assert_eq!(gone, None, "they are gone");
    let records = world.replica.records_after(last, Term(1)).map(|records| records.len());
    assert_eq!(records, Some(1));
}

/// However many operations one step applies, the events of each are generated directly after it;
/// and a restart generates them again.
#[test]
fn events_are_those_of_their_operation() {
    let committed = |world: &mut World| -> Vec<(u64, Vec<u8>)> {
        let committed = |output| match output {
            Output::Committed { entry, events, .. } => Some((entry.index.0, events)),
            _ => None,
        };
        world.outputs.drain(..).filter_map(committed).collect()
    };
    let mut world = World::bootstrapped();
    world.settle(vec![Input::OpenSession(Ticket(9), user())]);
    world.settle(vec![add_machine(1, "m1"), add_machine(2, "m2"), add_machine(3, "m2")]);
    let first = committed(&mut world);
    let counts: Vec<u8> = first.iter().map(|(_, events)| events[8]).collect();
    assert_eq!(
        counts,
        [0, 1, 1, 0, 1, 1, 0],
        "a term, the founding, the replica itself, a session, two machines"
    );
    for (index, events) in &first {
        assert_eq!(events[..8], index.to_le_bytes(), "the cell was at that operation");
    }
    let mut world = world.restart();
    world.settle(vec![]);
    assert_eq!(committed(&mut world)[..first.len()], first);
}

#[test]
fn a_replica_refuses_requests_before_it_leads() {
    let mut world = World::start(Table::default(), vec![], HardState::default(), Time(1));
    world.step(vec![Input::OpenSession(Ticket(1), user())]);
    let refused =
        |output: &Output| matches!(output, Output::Refused(Ticket(1), Refusal::NotLeading));
    assert!(world.outputs.iter().any(refused), "{:?}", world.outputs);
}

#[test]
fn more_requests_than_may_wait_are_refused_at_once() {
    let mut world = World::bootstrapped();
    world.outputs.clear();
    world.replica_settings_waiting(3);
    world.step((1..=5).map(|n| Input::OpenSession(Ticket(n), user())).collect());
    let overloaded = |output: &&Output| matches!(output, Output::Refused(_, Refusal::Overloaded));
    assert_eq!(world.outputs.iter().filter(overloaded).count(), 2);
}

impl World {
    fn replica_settings_waiting(&mut self, waiting_max: usize) {
        let now = self.now;
        let disk = std::mem::take(&mut self.disk);
        let hard_state = self.hard_state;
        let recovered = Recovered { entries: disk, hard_state, ..Recovered::default() };
        let settings = Settings { waiting_max, ..Settings::default() };
        let replica = Replica::new(settings, self.table.clone(), now, recovered, None);
        self.replica = replica.expect("settings are good");
        self.settle(vec![]);
        self.outputs.clear();
    }
}

#[test]
fn a_moment_is_never_before_the_last_one() {
    let mut world = World::bootstrapped();
    world.settle(vec![Input::OpenSession(Ticket(1), user())]);
    let late = world.replica.cell().time();
    world.now = Time(5);
    world.settle(vec![Input::OpenSession(Ticket(2), user())]);
    assert_eq!(world.replica.cell().time(), late);
}

#[test]
fn a_record_of_a_higher_level_stops_the_replica_and_says_why() {
    let mut world = World::bootstrapped();
    world.settle(vec![Input::OpenSession(Ticket(1), user())]);
    let last = world.disk.last_mut().expect("a record");
    last.level = Level(99);
    let index = last.index;
    let mut world = world.restart();
    world.step(vec![]);
    let persisted = world.sync();
    let said = world.replica.step(world.now, persisted, &mut vec![]).expect_err("it must stop");
    assert_eq!(
        said.to_string(),
        format!(
            "record {index} needs level 99 of the state machine, this program supports {LEVEL}: start a \
             newer one"
        )
    );
}

#[test]
fn a_rejected_request_changes_nothing_and_is_remembered_too() {
    let mut world = World::bootstrapped();
    world.settle(vec![Input::OpenSession(Ticket(9), user())]);
    world.answers();
    let id = RequestId { session: SessionId(7), sequence: 1 };
    let job = "web".parse().expect("a name");
    let kill = cell::Kill { owner: user(), job, tasks: model::TaskSelection::All, now: false };
    let mutation = Mutation::Kill(kill);
    world.settle(vec![Input::Request(Ticket(1), id, user(), mutation)]);
    let refused = Outcome::Request(Err(Rejection::NoSuchSession(SessionId(7))));
    assert_eq!(world.answers(), [(1, refused)]);
}

#[test]
fn a_restored_cell_continues_from_its_checkpoint_with_newer_orders() {
    let mut cell = Cell::empty();
    let name = CellName::new("dev").expect("a name");
    cell.apply(Time(1), &Op::Bootstrap { name, administrator: user() });
    cell.apply(Time(2), &Op::OpenSession { user: user() });
    let (id, name) = (RequestId { session: SessionId(1), sequence: 1 }, "m1".parse());
    let (name, address) = (name.expect("a name"), "m1:1".to_owned());
    let mutation = Mutation::AddMachine(AddMachine { name, address });
    cell.apply(Time(3), &Op::Request { id, by: user(), mutation });
    let checkpoint = Some((cell.clone(), Term(7)));
    let restore_epoch = RestoreEpoch::after(2, 9);
    let recovered = Recovered { checkpoint, restore_epoch, ..Recovered::default() };
    let mut world = World::bootstrapped();
    let (settings, table) = (Settings::default(), world.table.clone());
    let replica = Replica::new(settings, table, world.now, recovered, None);
    world.replica = replica.expect("settings are good");
    world.disk.clear();
    world.outputs.clear();
    world.settle(vec![]);
    // The entry of its term, and the replica itself.
    let next = |after| (Term(8), LogIndex(cell.index().0 + after));
    assert_eq!(
        world.disk.iter().map(|entry| (entry.term, entry.index)).collect::<Vec<_>>(),
        [next(1), next(2)]
    );
    let order = world.outputs.iter().find_map(|output| match output {
        Output::Poll(poll) => poll.order.as_ref(),
        _ => None,
    });
    let stamp = order.expect("the machine gets its order").stamp;
    assert_eq!((stamp.restore_epoch, stamp.term), (restore_epoch, Term(8)));
}
