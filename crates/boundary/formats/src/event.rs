//! The events of an operation, as they are stored (`api::event`).

use api::event::{Names, RecordRef};
use cell::{Applied, Cell};
use event::{
    Actor, Event, EventKind, EvictionCause, KillReason, MoveReason, PendingCause, StopReason,
    Subject,
};
use model::{CollectionId, InstanceId, MachineId};

/// The names in a cell right after an event, with who caused it.
#[must_use]
pub fn names(cell: &Cell, by: &Actor, event: &Event) -> Names {
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
        Actor::User(_) | Actor::Scheduler(_) | Actor::Master => None,
    };
    Names {
        user: job.map(|job| job.owner.clone()),
        job: job.map(|job| job.spec.name.clone()),
        machine,
        reporter,
        related: related(&event.kind)
            .and_then(|id| cell.job(id))
            .map(|job| (job.owner.clone(), job.spec.name.clone())),
    }
}

/// Another job in the kind of an event.
fn related(kind: &EventKind) -> Option<CollectionId> {
    let of_eviction = |cause: &EvictionCause| match cause {
        EvictionCause::Preempted { by } => Some(by.collection),
        EvictionCause::Moved { why: MoveReason::Fits { task }, .. } => Some(task.collection),
        _ => None,
    };
    let of_kill = |why: &KillReason| match why {
        KillReason::ParentEnded(id)
        | KillReason::AllocSetEnded(id)
        | KillReason::PredecessorEnded(id)
        | KillReason::PredecessorFinished(id) => Some(*id),
        KillReason::CounterpartEnded(task) | KillReason::CounterpartFinished(task) => {
            Some(task.collection)
        }
        KillReason::User(_)
        | KillReason::Now(_)
        | KillReason::Removed
        | KillReason::MachineLeft(_)
        | KillReason::GangFailed { .. } => None,
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
            | EventKind::Start { machine, .. }
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
        let names = &names(cell, by, event);
        buffer.clear();
        RecordRef { index, sub, at, by, event, names }.encode(buffer);
        keep(sub, buffer);
    }
}
