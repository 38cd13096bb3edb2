//! The invariants of every world, whatever its faults; the first violation is the world's failure.
//!
//! The checker sees what no part of a cell sees: every committed record, every answer, every
//! process that was ever started, and how it really ended.

use std::collections::{BTreeMap, BTreeSet};

use cell::{
    Applied, AssignmentRefused, Cell, Event, EventKind, Job, Kill, KillReason, Mutation, Subject,
};
use master::Poll;
use model::{
    End, Generation, InstanceId, JobName, LogIndex, MachineId, ReplicaId, RestoreEpoch, Span,
    Stamp, TaskId, Term, Time, UserName, VolumeMount,
};
use replica::LogEntry;

use crate::acknowledged::Promises;
use crate::event_account::Account;
use crate::injected_bug::InjectedBug;
use crate::lock_account::LockAccount;
use crate::machine::{Machine, Port, ports};
use crate::saver_account::SaverAccount;

/// The invariant checker.
pub(crate) struct InvariantChecker {
    active: bool,
    injected_bug: Option<InjectedBug>,
    violation: Option<String>,
    events: blake3::Hasher,
    /// The last restoration of the cell from a backup.
    epoch: RestoreEpoch,
    /// The smallest index to which the cell was restored.
    first_restored: LogIndex,
    /// A digest of every committed record, by index from 1.
    records: Vec<u64>,
    /// Digests of the whole state at some indexes.
    states: BTreeMap<LogIndex, u64>,
    /// The leader elected in each term, per restore epoch.
    leaders: BTreeMap<(Restoration, Term), ReplicaId>,
    /// The start, in time and records, of the window in which operations are counted.
    pace: (Time, u64),
    /// The highest acknowledged index.
    acknowledged: LogIndex,
    /// The instances started, per restore epoch: incarnations of a lost period may begin again, and
    /// are different ones then.
    started: BTreeSet<(Restoration, InstanceId)>,
    ended: BTreeMap<InstanceId, Vec<End>>,
    /// Requested kills: the user, and the job's owner and name.
    killed: BTreeSet<(UserName, UserName, JobName)>,
    /// Where each task runs according to the events alone: the basis of names.
    names: BTreeMap<TaskId, (Generation, MachineId)>,
    /// The position of a reader of the events.
    reader: Reader,
    /// Machines and instances according to the events.
    account: Account,
    pub(crate) promises: Promises,
    /// Locks as their holders see them.
    pub(crate) locks: LockAccount,
    /// The data that savers are to save.
    pub(crate) savers: SaverAccount,
    /// Every event with its time, if they are recorded.
    told: Option<Vec<(Time, Event)>>,
}

/// A reader of the events that resumes at its position after every restart of the master.
#[derive(Debug, Default)]
struct Reader {
    read: u64,
    kept: u64,
    skips: bool,
}

/// The window in which a cell of the campaign performs at most [`OPERATIONS_MAX`] operations.
const PACE: Span = Span::from_secs(10);
const OPERATIONS_MAX: u64 = 10_000;

/// A restore epoch as a key.
type Restoration = (u64, u64);

fn restoration(epoch: RestoreEpoch) -> Restoration {
    (epoch.counter, epoch.random)
}

pub(crate) fn digest(of: &[&[u8]]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for part in of {
        hasher.update(part);
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
}

impl InvariantChecker {
    pub(crate) fn new(injected_bug: Option<InjectedBug>, active: bool) -> Self {
        Self {
            active,
            injected_bug,
            violation: None,
            events: blake3::Hasher::new(),
            epoch: RestoreEpoch::NEVER,
            first_restored: LogIndex(u64::MAX),
            records: Vec::new(),
            states: BTreeMap::new(),
            leaders: BTreeMap::new(),
            pace: (Time::ZERO, 0),
            acknowledged: LogIndex(0),
            started: BTreeSet::new(),
            ended: BTreeMap::new(),
            killed: BTreeSet::new(),
            names: BTreeMap::new(),
            reader: Reader::default(),
            account: Account::default(),
            promises: Promises::default(),
            locks: LockAccount::default(),
            savers: SaverAccount::default(),
            told: None,
        }
    }

    pub(crate) fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// Records a violation. Only the first counts: later ones may follow from it.
    pub(crate) fn violated(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// The incarnations that ended since the last call, each with its machine: none of their
    /// processes may run there.
    pub(crate) fn take_ended(&mut self) -> Vec<(InstanceId, MachineId)> {
        self.account.take_ended()
    }

    /// Records every event from now on.
    pub(crate) fn keep_events(&mut self) {
        self.told.get_or_insert_default();
    }

    /// The recorded events, each with its time.
    pub(crate) fn told(&self) -> &[(Time, Event)] {
        self.told.as_deref().unwrap_or_default()
    }

    pub(crate) fn digest(&self) -> String {
        self.events.finalize().to_hex().to_string()
    }

    /// A record is committed; returns whether it is new. A master that starts commits again what it
    /// had committed before: those records have to be identical.
    pub(crate) fn committed(
        &mut self,
        entry: &LogEntry,
        at: Time,
        events: &[u8],
        applied: Option<&Applied>,
        cell: Option<&Cell>,
    ) -> bool {
        let (index, known) = (entry.index.0, self.records.len() as u64);
        if index > known + 1 {
            self.violated(format!("record {index} is committed, but {} never was", known + 1));
            return false;
        }
        if self.active || index <= known {
            let record =
                digest(&[&entry.term.0.to_le_bytes(), &at.0.to_le_bytes(), &entry.data, events]);
            if index <= known {
                let place = usize::try_from(index.saturating_sub(1)).unwrap_or(0);
                if self.active && self.records.get(place) != Some(&record) {
                    self.violated(format!(
                        "record {index} was committed, but another one has replaced it"
                    ));
                }
                self.reader.repeated(self.injected_bug);
                return false;
            }
            self.records.push(record);
        } else {
            self.records.push(0);
        }
        self.check_rate(index, at);
        self.events.update(&index.to_le_bytes());
        self.events.update(&at.0.to_le_bytes());
        self.events.update(events);
        if let Some(applied) = applied {
            self.reader.next(applied.events.len() as u64);
            for event in &applied.events {
                if let Subject::Job(job) = event.subject
                    && let EventKind::UpdateUndoing { .. } | EventKind::UpdateUndone { .. } =
                        event.kind
                {
                    self.promises.undone(job, entry.index);
                }
                self.happened(event, cell);
            }
            if let Err(wrong) = self.account.happened(&applied.events) {
                self.violated(wrong);
            }
            if let Some(told) = &mut self.told {
                told.extend(applied.events.iter().map(|event| (at, event.clone())));
            }
        }
        true
    }

    /// A cell in a loop performs more operations than there are causes for them.
    fn check_rate(&mut self, index: u64, at: Time) {
        let (since, from) = self.pace;
        if at.since(since) > PACE {
            self.pace = (at, index);
        } else if self.active && index.saturating_sub(from) > OPERATIONS_MAX {
            self.violated(format!(
                "the cell is in a loop: {OPERATIONS_MAX} operations within {PACE}"
            ));
        }
    }

    pub(crate) fn acknowledged(&mut self, index: LogIndex) {
        self.acknowledged = self.acknowledged.max(index);
    }

    /// A master becomes the leader, knowing all records up to an index.
    pub(crate) fn leads(&mut self, index: LogIndex) {
        if index < self.acknowledged {
            let acknowledged = self.acknowledged;
            self.violated(format!(
                "requests were acknowledged up to record {acknowledged}, but the new leader has only {index} records"
            ));
        }
    }

    /// The last restoration of the cell from a backup: replicas of other epochs are not valid.
    pub(crate) fn epoch(&self) -> RestoreEpoch {
        self.epoch
    }

    /// The highest acknowledged index so far.
    pub(crate) fn floor(&self) -> LogIndex {
        self.acknowledged
    }

    /// A read requested when `floor` was acknowledged is answered at `index`.
    pub(crate) fn read(&mut self, replica: ReplicaId, floor: LogIndex, index: LogIndex) {
        if index < floor {
            self.violated(format!(
                "replica {replica} answered a read at record {index}, but {floor} had been acknowledged when it was requested"
            ));
        }
    }

    /// A replica reports the leader of a term.
    pub(crate) fn elected(&mut self, epoch: RestoreEpoch, term: Term, leader: ReplicaId) {
        let first = *self.leaders.entry((restoration(epoch), term)).or_insert(leader);
        if first != leader {
            self.violated(format!("in term {term} both replica {first} and {leader} were elected"));
        }
    }

    /// A digest of a replica's whole state at an index: it has to be that of all others.
    pub(crate) fn state(&mut self, index: LogIndex, state: u64) {
        if *self.states.entry(index).or_insert(state) != state {
            self.violated(format!("at record {index} the states of two replicas differ"));
        }
    }

    /// The cell was restored from a backup of the history with the former epoch: later records are
    /// legitimately lost. If that is not the present history, they have in common only what was before
    /// every restoration.
    pub(crate) fn restored(&mut self, former: RestoreEpoch, epoch: RestoreEpoch, cell: &Cell) {
        let index = cell.index();
        let common = if former == self.epoch { index } else { index.min(self.first_restored) };
        self.first_restored = self.first_restored.min(index);
        self.epoch = epoch;
        // A second restoration may be of a longer history than the first. What it has beyond that was
        // committed in a history that is over, and is never committed again.
        self.records.resize(usize::try_from(index.0).unwrap_or(usize::MAX), 0);
        self.states.split_off(&LogIndex(index.0 + 1));
        self.acknowledged = index;
        self.pace.1 = index.0;
        self.names = placed(cell).collect();
        self.account = Account::of(cell);
        self.promises.lost_after(common);
        self.savers.restored();
        self.locks.restored();
        self.events.update(b"restored");
    }

    /// The outcome of a proposal: an accepted assignment is placed exactly as proposed.
    pub(crate) fn assigned(
        &mut self,
        instances: &[InstanceId],
        results: &[Result<(), AssignmentRefused>],
        applied: Option<&Applied>,
    ) {
        let Some(applied) = applied else { return };
        let accepted = instances.iter().zip(results).filter(|(_, result)| result.is_ok());
        let mut accepted: Vec<InstanceId> = accepted.map(|(instance, _)| *instance).collect();
        let placed = |event: &Event| match (event.subject, &event.kind) {
            (Subject::Task(id), EventKind::Schedule { .. }) => Some(id),
            _ => None,
        };
        let mut placed: Vec<InstanceId> = applied.events.iter().filter_map(placed).collect();
        accepted.sort_unstable();
        placed.sort_unstable();
        if accepted != placed {
            self.violated(format!(
                "of a proposal {accepted:?} were accepted, but {placed:?} placed"
            ));
        }
    }

    /// A client makes a request, which explains its later effects.
    pub(crate) fn asked(&mut self, by: &UserName, mutation: &Mutation) {
        if let Mutation::Kill(Kill { owner, job, .. }) = mutation {
            self.killed.insert((by.clone(), owner.clone(), job.clone()));
        }
        self.locks.asked(mutation);
    }

    /// A machine obeys an order: none older than one it has obeyed.
    pub(crate) fn obeyed(&mut self, number: usize, newest: &mut Stamp, stamp: Stamp) {
        let is_newest = stamp >= *newest;
        if !is_newest {
            let newest = *newest;
            self.violated(format!("m{number} obeys {stamp:?} after it had obeyed {newest:?}"));
        }
        *newest = stamp;
    }

    /// A process starts.
    pub(crate) fn started(&mut self, number: usize, machine: &Machine, instance: InstanceId) {
        if !self.active {
            return;
        }
        if !self.started.insert((restoration(machine.obeyed.restore_epoch), instance)) {
            self.violated(format!("{instance} is started a second time, on m{number}"));
        }
        self.check_alloc_exists(number, machine);
        let Some(process) = machine.processes.get(&instance) else { return };
        let desired = &process.launch.desired;
        let taken = |port: &Port| ports(desired).any(|own| own == *port);
        if let Some((_, port)) = machine.ports_in_use(instance).find(taken) {
            self.violated(format!(
                "{instance} is started on m{number} with port {port} of another"
            ));
        }
        if let Some(address) = desired.address.filter(|_| desired.alloc.is_none())
            && machine.addresses_in_use(instance).any(|other| other == address)
        {
            self.violated(format!(
                "{instance} is started on m{number} with address {address} of another"
            ));
        }
        // No volume of these worlds is shared.
        let has =
            |volume: &VolumeMount| desired.volumes.iter().any(|own| own.source == volume.source);
        if let Some(volume) = machine.volumes_in_use(instance).find(|volume| has(volume)) {
            let name = &volume.name;
            self.violated(format!(
                "{instance} is started on m{number} with the volume {name}, which another task has"
            ));
        }
        let uid = process.launch.uid;
        let same = |(id, other): (&InstanceId, &crate::machine::InstanceProcess)| {
            *id != instance && other.is_there() && other.launch.uid == uid
        };
        if machine.processes.iter().any(same) {
            self.violated(format!("{instance} is started on m{number} as user {uid} of another"));
        }
    }

    /// An instance in an alloc exists only while the alloc does.
    pub(crate) fn check_alloc_exists(&mut self, number: usize, machine: &Machine) {
        if let Some((instance, alloc)) = machine.misplaced()
            && self.active
        {
            self.violated(format!("{instance} is on m{number} in {alloc}, which does not exist"));
        }
    }

    /// A process ended.
    pub(crate) fn ended(&mut self, instance: InstanceId, end: &End) {
        if self.active {
            self.ended.entry(instance).or_default().push(end.clone());
        }
    }

    /// An instance with a saver has ended. It was started when the cell had been restored so often.
    pub(crate) fn leaves_data(
        &mut self,
        now: Time,
        number: usize,
        id: InstanceId,
        epoch: RestoreEpoch,
    ) {
        if self.active {
            self.savers.leaves(now, number, id, epoch != self.epoch);
        }
    }

    /// A machine forgets what became of data.
    pub(crate) fn forgets_data(&mut self, id: InstanceId) {
        self.savers.forgotten(id).unwrap_or_else(|wrong| self.violated(wrong));
    }

    fn happened(&mut self, event: &Event, cell: Option<&Cell>) {
        if let (Subject::Machine(id), EventKind::MachineRemoved { .. }) =
            (event.subject, &event.kind)
        {
            self.savers.removed(id);
        }
        let Subject::Task(id) = event.subject else { return };
        if self.active
            && let Err(wrong) = self.savers.told(id, &event.kind)
        {
            self.violated(wrong);
        }
        match &event.kind {
            EventKind::Start { machine, .. } => {
                self.names.insert(id.task(), (id.generation, *machine));
            }
            EventKind::Finish => {
                self.explained(id, &End::Exited { code: 0 });
                self.unname(id);
            }
            EventKind::Fail { end } => {
                if let Some(end) = end {
                    self.explained(id, end);
                }
                self.unname(id);
            }
            EventKind::Kill { why } => {
                self.explained_kill(id, why, cell);
                self.unname(id);
            }
            EventKind::Evict { .. } | EventKind::Lost { .. }
                if self.injected_bug != Some(InjectedBug::DeadName) =>
            {
                self.unname(id);
            }
            _ => {}
        }
    }

    fn unname(&mut self, id: InstanceId) {
        if self.names.get(&id.task()).is_some_and(|(generation, _)| *generation == id.generation) {
            self.names.remove(&id.task());
        }
    }

    /// An end that the cell records really happened.
    fn explained(&mut self, id: InstanceId, end: &End) {
        let seen = match end {
            End::Exited { .. }
            | End::Signalled { .. }
            | End::OutOfMemory { .. }
            | End::BrokeRule { .. }
            | End::NotStarted { .. } => true,
            End::Unhealthy { .. }
            | End::OverRuntime { .. }
            | End::Stopped
            | End::Lost { .. }
            | End::OutOfResources { .. } => false,
        };
        if seen && !self.ended.get(&id).is_some_and(|ends| ends.contains(end)) {
            let really = self.ended.get(&id);
            self.violated(format!("the cell's end of {id}: {end}; its real end: {really:?}"));
        }
    }

    /// A user who is recorded as the cause of a kill requested it.
    fn explained_kill(&mut self, id: InstanceId, why: &KillReason, cell: Option<&Cell>) {
        let asked = |by: &UserName, job: &Job| {
            self.killed.contains(&(by.clone(), job.owner.clone(), job.spec.name.clone()))
        };
        if let KillReason::User(user) = why
            && !cell.and_then(|cell| cell.job(id.collection)).is_some_and(|job| asked(user, job))
        {
            self.violated(format!("{id} was killed by {user}, who never requested that"));
        }
    }

    /// An injected bug in an order.
    pub(crate) fn orders(&self, poll: &mut Poll) {
        if self.injected_bug != Some(InjectedBug::PortTwice) {
            return;
        }
        let Some(order) = &mut poll.order else { return };
        let mut first = None;
        for (_, port) in order.tasks.iter_mut().flat_map(|desired| &mut desired.ports) {
            *port = *first.get_or_insert(*port);
        }
    }

    /// The events and the cell agree on where tasks run; and a reader has read every event once.
    pub(crate) fn check_agreement_with(&mut self, cell: &Cell) {
        let should: BTreeMap<_, _> = placed(cell).collect();
        let differs = |(task, is): (&TaskId, &(Generation, MachineId))| {
            (should.get(task) != Some(is)).then_some(*task)
        };
        let dead = self.names.iter().find_map(differs);
        let missing = should.keys().find(|task| !self.names.contains_key(task)).copied();
        if let Some(task) = dead.or(missing) {
            let (named, is) = (self.names.get(&task), should.get(&task));
            self.violated(format!("the names have {named:?} for {task}, the cell {is:?}"));
        }
        if let Err(broken) = self.promises.kept(cell) {
            self.violated(format!("an acknowledgement is broken: {broken}"));
        }
        if self.reader.read != self.reader.kept {
            let Reader { read, kept, .. } = self.reader;
            self.violated(format!("a reader has read {read} events of {kept}"));
        }
    }
}

impl Reader {
    /// The events of an operation can be read.
    fn next(&mut self, events: u64) {
        self.kept += events;
        // An injected bug: after a restart the first operation with events is skipped.
        if self.skips && events > 0 {
            self.skips = false;
        } else {
            self.read += events;
        }
    }

    /// The master has started, and repeats what it had committed.
    fn repeated(&mut self, injected_bug: Option<InjectedBug>) {
        self.skips = injected_bug == Some(InjectedBug::SkippedEvent);
    }
}

/// Where each task's program runs.
fn placed(cell: &Cell) -> impl Iterator<Item = (TaskId, (Generation, MachineId))> {
    cell.jobs().flat_map(|job| {
        job.tasks().filter_map(|(index, task)| {
            let instance = TaskId { collection: job.id, index }.generation(task.generation);
            let placement = cell.placement(instance)?;
            let started = matches!(placement.phase, cell::Phase::Started { .. });
            started.then_some((instance.task(), (task.generation, placement.machine)))
        })
    })
}
