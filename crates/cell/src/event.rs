//! What happened, for those who follow the cell. The names of the life cycle are those of the
//! published traces (trace v3, "event type").

use model::{CollectionId, InstanceId, MachineId, UserName};

use crate::{Death, PendingCause};

/// One thing that happened. Its moment and index are those of the operation that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// To whom or what.
    pub subject: Subject,
    /// What.
    pub kind: EventKind,
}

/// To whom or what something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A job.
    Job(CollectionId),
    /// A life of a task.
    Task(InstanceId),
    /// A machine.
    Machine(MachineId),
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// SUBMIT: it is there and pending; for a task also every later life that begins pending.
    Submit {
        /// Why it is pending.
        cause: PendingCause,
    },
    /// SCHEDULE: it was given a machine.
    Schedule {
        /// Which one.
        machine: MachineId,
    },
    /// Its program runs on its machine.
    Start {
        /// Which one.
        machine: MachineId,
    },
    /// Its health changed.
    Health {
        /// To what.
        healthy: bool,
    },
    /// A user asked for its end; it has its notice now.
    KillRequested {
        /// Who.
        by: UserName,
    },
    /// FINISH, FAIL, KILL or LOST, as the death says.
    Dead(Death),
    /// A machine joined, or has a new address.
    MachineAdded,
    /// A machine's capacity or attributes are known anew.
    MachineDescribed,
    /// A machine is down.
    MachineDown,
    /// A machine is back.
    MachineBack,
}
