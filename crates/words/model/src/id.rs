//! Typed ids. The cell numbers collections and machines as it applies operations and never reuses a
//! number. Positions in memory (slots, offsets) are never used as ids.

use std::fmt;

use crate::RestoreEpoch;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            /// The next id.
            ///
            /// # Panics
            /// When the numbers are exhausted, which does not happen in practice.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.checked_add(1).expect("ids are not used up"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// A job or an alloc set: what the published traces call a collection (trace v3, `collection_id`).
    CollectionId(u64)
);
number!(
    /// A machine, for the whole lifetime of the cell (trace v3, `machine_id`).
    MachineId(u64)
);
number!(
    /// A grant of quota.
    GrantId(u64)
);
number!(
    /// A replica of the Borgmaster, for the whole lifetime of the cell. Replica 1 is the one that
    /// bootstrapped it.
    ReplicaId(u64)
);
number!(
    /// A task's index in its job, from 0 (paper, section 2.3).
    TaskIndex(u32)
);
number!(
    /// The number of a task's current incarnation, from 1. It increases whenever a placed task
    /// becomes pending again, so two copies of one task on two machines can always be told apart.
    Generation(u32)
);
number!(
    /// A version of a job's description, from 1. An update gives the next number, which is never used
    /// again for the job.
    Version(u32)
);
number!(
    /// A client's session with the cell. Each request of a session is executed at most once.
    SessionId(u64)
);
number!(
    /// A session that holds locks and ephemeral files, as long as its lease is renewed.
    LockSessionId(u64)
);
number!(
    /// A position in the replicated log. 0 is before the first operation.
    LogIndex(u64)
);
number!(
    /// A term of the consensus protocol.
    Term(u64)
);
number!(
    /// A version of the state machine's behaviour. Each record states the level it needs; a replica
    /// that does not support that level must not decode the record.
    Level(u32)
);

/// A random number that identifies a replica's data directory, drawn when the directory is created.
/// A directory that was emptied and created again has another id. 0 means unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectoryId(pub u64);

impl DirectoryId {
    /// Whether the id is known.
    #[must_use]
    pub fn is_known(self) -> bool {
        self.0 > 0
    }

    /// Whether both ids are known and differ.
    #[must_use]
    pub fn differs(self, other: Self) -> bool {
        self.is_known() && other.is_known() && self != other
    }
}

/// Displayed in hexadecimal.
impl fmt::Display for DirectoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A task: one index of a job, over all its generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The job.
    pub collection: CollectionId,
    /// The task's index in the job.
    pub index: TaskIndex,
}

/// One incarnation of a task: what is placed on a machine, runs and ends there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId {
    /// The job.
    pub collection: CollectionId,
    /// The task's index in the job.
    pub index: TaskIndex,
    /// The incarnation's generation.
    pub generation: Generation,
}

impl InstanceId {
    /// The task of this instance.
    #[must_use]
    pub fn task(self) -> TaskId {
        TaskId { collection: self.collection, index: self.index }
    }
}

impl TaskId {
    /// The instance of this task with the given generation.
    #[must_use]
    pub fn generation(self, generation: Generation) -> InstanceId {
        InstanceId { collection: self.collection, index: self.index, generation }
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.collection, self.index)
    }
}

/// Displayed as `collection-index-generation`, which also names the instance's directory and
/// cgroup.
impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.collection, self.index, self.generation)
    }
}

impl std::str::FromStr for InstanceId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('-');
        let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok()).ok_or(());
        let id = Self {
            collection: CollectionId(number()?),
            index: TaskIndex(u32::try_from(number()?).map_err(|_| ())?),
            generation: Generation(u32::try_from(number()?).map_err(|_| ())?),
        };
        // Only the canonical form is accepted, so that each instance has exactly one text.
        if id.to_string() == text { Ok(id) } else { Err(()) }
    }
}

/// The version of an order to a machine. A Borglet obeys an order only if its stamp is at least as
/// high as that of the last one it has obeyed (design, section 4). Stamps of two restorations that
/// know nothing of each other are not ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Hash)]
pub struct Stamp {
    /// Which restoration the cell continues from.
    pub restore_epoch: RestoreEpoch,
    /// The leader's term.
    pub term: Term,
    /// The log index of the state that the order reflects.
    pub index: LogIndex,
}

/// Displayed as `epoch/term/index`.
impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.restore_epoch, self.term, self.index)
    }
}

impl std::str::FromStr for Stamp {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('/');
        let restore_epoch = parts.next().ok_or(())?.parse()?;
        let mut number = || parts.next().and_then(|part| part.parse().ok()).ok_or(());
        let (term, index) = (Term(number()?), LogIndex(number()?));
        let stamp = Self { restore_epoch, term, index };
        // Only the canonical form, so that each stamp has exactly one text.
        if stamp.to_string() == text { Ok(stamp) } else { Err(()) }
    }
}

/// Identifies a request within its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId {
    /// The session.
    pub session: SessionId,
    /// Its number in the session, from 1, increasing.
    pub sequence: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_reads_back_what_it_prints_and_nothing_else() {
        let restore_epoch = RestoreEpoch { counter: 2, random: 0xc };
        let stamp = Stamp { restore_epoch, term: Term(3), index: LogIndex(256) };
        assert_eq!(stamp.to_string(), "2-000000000000000c/3/256");
        for of in [stamp, Stamp::default()] {
            assert_eq!(of.to_string().parse(), Ok(of));
        }
        for bad in ["", "2/3", "0/3/x", "0/3/4/5", "0/03/4"] {
            assert_eq!(bad.parse::<Stamp>(), Err(()), "{bad}");
        }
    }

    #[test]
    fn an_instance_reads_back_what_it_prints_and_nothing_else() {
        let id = InstanceId {
            collection: CollectionId(7),
            index: TaskIndex(3),
            generation: Generation(12),
        };
        assert_eq!(id.to_string(), "7-3-12");
        assert_eq!("7-3-12".parse(), Ok(id));
        for bad in ["", "7", "7-3", "7-3-12-1", "07-3-12", "7-3-x", "7-3-99999999999", "-1-3-12"] {
            assert_eq!(bad.parse::<InstanceId>(), Err(()), "{bad}");
        }
    }

    #[test]
    fn stamps_order_by_epoch_then_term_then_index() {
        let stamp = |counter, term, index| Stamp {
            restore_epoch: RestoreEpoch { counter, random: 0 },
            term: Term(term),
            index: LogIndex(index),
        };
        assert!(stamp(1, 0, 0) > stamp(0, 9, 9));
        assert!(stamp(0, 2, 0) > stamp(0, 1, 9));
        assert!(stamp(0, 1, 2) > stamp(0, 1, 1));
        let other = RestoreEpoch { counter: 1, random: 5 };
        let other = Stamp { restore_epoch: other, ..stamp(1, 9, 9) };
        assert_eq!(other.partial_cmp(&stamp(1, 0, 0)), None, "another restoration");
    }
}
