//! Events, as they are stored and shown: `events.proto`.
//!
//! The master encodes the events of every operation on its critical path, and decodes them only for
//! requests. So there are two ways to the same bytes: [`encode_all`] writes them straight from the
//! cell, without allocation beyond the given buffer; and [`Record`] converts to a message like
//! every other type, for JSON and for responses.

mod encode;
mod message;
mod stored;

use cell::{
    Actor, Applied, Cell, Event, EventKind, EvictionCause, KillReason, PendingCause, StopReason,
    Subject,
};
use model::{CollectionId, InstanceId, JobName, LogIndex, MachineId, MachineName, Time, UserName};
use prost::Message;

pub use stored::StoredNames;

use crate::error::Malformed;
use crate::v1;

/// One stored event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The operation that caused it.
    pub index: LogIndex,
    /// Its position among the events of that operation, from 0.
    pub sub: u32,
    /// The time of the operation.
    pub at: Time,
    /// Who caused the operation.
    pub by: Actor,
    /// What happened.
    pub event: Event,
    /// The names at that time.
    pub names: Names,
}

/// A borrowed [`Record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// See [`Record::index`].
    pub index: LogIndex,
    /// See [`Record::sub`].
    pub sub: u32,
    /// See [`Record::at`].
    pub at: Time,
    /// See [`Record::by`].
    pub by: &'a Actor,
    /// See [`Record::event`].
    pub event: &'a Event,
    /// See [`Record::names`].
    pub names: &'a Names,
}

/// The names of an event's subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The owner of the job; `None` for machines and the cell.
    pub user: Option<UserName>,
    /// The job; `None` likewise.
    pub job: Option<JobName>,
    /// The machine that it is about, or on which the task is or was; `None` if there is none, or if
    /// that machine no longer exists.
    pub machine: Option<MachineName>,
    /// The machine whose report caused the operation; `None` if no report did.
    pub reporter: Option<MachineName>,
    /// Another job that the event's kind has by its id: that of the task for which one was evicted,
    /// or the job with which or after which one was to run.
    pub related: Option<(UserName, JobName)>,
}

impl Names {
    /// The names in a cell right after an event, which somebody caused.
    #[must_use]
    pub fn of(cell: &Cell, by: &Actor, event: &Event) -> Self {
        let collection = match event.subject {
            Subject::Job(id) => Some(id),
            Subject::Task(id) => Some(id.collection),
            Subject::Cell | Subject::Machine(_) => None,
        };
        let job = collection.and_then(|id| cell.job(id));
        let named = |id| cell.machine(id).map(|machine| machine.name.clone());
        let machine = match &event.kind {
            EventKind::MachineRemoved { name } => Some(name.clone()),
            _ => machine(cell, event).and_then(named),
        };
        let reporter = match by {
            Actor::Machine(id) => named(*id),
            Actor::User(_) | Actor::Scheduler | Actor::Master => None,
        };
        Self {
            user: job.map(|job| job.owner.clone()),
            job: job.map(|job| job.spec.name.clone()),
            machine,
            reporter,
            related: related(&event.kind)
                .and_then(|id| cell.job(id))
                .map(|job| (job.owner.clone(), job.spec.name.clone())),
        }
    }
}

/// Another job in the kind of an event.
fn related(kind: &EventKind) -> Option<CollectionId> {
    let of_eviction = |cause: &EvictionCause| match cause {
        EvictionCause::Preempted { by } => Some(by.collection),
        _ => None,
    };
    let of_kill = |why: &KillReason| match why {
        KillReason::ParentEnded(id)
        | KillReason::AllocSetEnded(id)
        | KillReason::PredecessorEnded(id) => Some(*id),
        KillReason::User(_) | KillReason::Now(_) | KillReason::Removed => None,
    };
    match kind {
        EventKind::Submit { cause: PendingCause::Evicted(cause) }
        | EventKind::Evict { cause }
        | EventKind::Stop { why: StopReason::Evict(cause) } => of_eviction(cause),
        EventKind::Kill { why } | EventKind::Stop { why: StopReason::Kill(why) } => of_kill(why),
        _ => None,
    }
}

/// The machine that an event is about.
fn machine(cell: &Cell, event: &Event) -> Option<MachineId> {
    match (&event.kind, event.subject) {
        (
            EventKind::Schedule { machine, .. }
            | EventKind::Start { machine }
            | EventKind::Saved { machine, .. }
            | EventKind::SaverGivenUp { machine, .. },
            _,
        ) => Some(*machine),
        (_, Subject::Machine(id)) => Some(id),
        (_, Subject::Task(id)) => placed(cell, id),
        (_, Subject::Cell | Subject::Job(_)) => None,
    }
}

/// The machine on which an incarnation of a task is, or was until its end.
fn placed(cell: &Cell, id: InstanceId) -> Option<MachineId> {
    if let Some(placement) = cell.placement(id) {
        return Some(placement.machine);
    }
    let incarnation = cell.task(id.task())?.last_incarnation.as_ref()?;
    (incarnation.generation == id.generation).then_some(incarnation.machine)
}

/// Encodes every event of an operation, in order: `keep` receives each one's position and bytes,
/// which stay in `buffer` until the next one. The cell is in its state right after the operation:
/// its index and time are those of the events.
///
/// Allocates nothing once the buffer is as large as the largest event.
pub fn encode_all(
    cell: &Cell,
    applied: &Applied,
    buffer: &mut Vec<u8>,
    mut keep: impl FnMut(u32, &[u8]),
) {
    let (index, at, by) = (cell.index(), cell.time(), &applied.by);
    for (sub, event) in (0..).zip(&applied.events) {
        let names = &Names::of(cell, by, event);
        buffer.clear();
        RecordRef { index, sub, at, by, event, names }.encode(buffer);
        keep(sub, buffer);
    }
}

/// Decodes an event.
///
/// # Errors
/// If the bytes are not an event that this build knows.
pub fn decode(bytes: &[u8]) -> Result<Record, Malformed> {
    v1::EventRecord::decode(bytes)?.try_into()
}

impl Record {
    /// Borrows it.
    #[must_use]
    pub fn as_ref(&self) -> RecordRef<'_> {
        let Self { index, sub, at, by, event, names } = self;
        RecordRef { index: *index, sub: *sub, at: *at, by, event, names }
    }
}
