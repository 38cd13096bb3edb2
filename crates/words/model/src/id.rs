//! Typed ids. Collections and machines are numbered by the cell as it applies operations and a
//! number is never given twice; nothing in memory (slots, offsets) is ever used as an id.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            /// The one after this.
            ///
            /// # Panics
            /// When the numbers are used up, which no cell lives long enough to see.
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
    /// A machine of the cell, for as long as the cell exists (trace v3, `machine_id`).
    MachineId(u64)
);
number!(
    /// A grant of quota.
    GrantId(u64)
);
number!(
    /// A replica of the Borgmaster, for as long as the cell exists. 1 is the one that the cell was
    /// bootstrapped with.
    ReplicaId(u64)
);
number!(
    /// The place of a task in its job, from 0 (paper, section 2.3).
    TaskIndex(u32)
);
number!(
    /// How often a task has been given a new life: 1 is the first. A new generation begins
    /// whenever the task goes back to pending after it had been placed on a machine, so that two
    /// copies of one task on two machines can always be told apart.
    Generation(u32)
);
number!(
    /// A client's session with the cell, in which each of its requests is done at most once.
    SessionId(u64)
);
number!(
    /// The place of an operation in the replicated log. 0 is before the first.
    LogIndex(u64)
);
number!(
    /// An election's number in the consensus protocol.
    Term(u64)
);
number!(
    /// A level of the state machine. A record states the level it needs; a replica that does not
    /// know that level must not decode it.
    Level(u32)
);

/// A replica's data directory, by a number that was drawn when it was made: an emptied directory, or
/// another replica's, has another one. 0 where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectoryId(pub u64);

impl DirectoryId {
    /// Whether it is known.
    #[must_use]
    pub fn is_known(self) -> bool {
        self.0 > 0
    }

    /// Whether two directories are known to be different ones.
    #[must_use]
    pub fn differs(self, other: Self) -> bool {
        self.is_known() && other.is_known() && self != other
    }
}

/// Written in hexadecimal: nobody counts them.
impl fmt::Display for DirectoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A task: one place in a job, over all its generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The job.
    pub collection: CollectionId,
    /// The place in it.
    pub index: TaskIndex,
}

/// One life of a task: what is placed on a machine, runs and ends there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId {
    /// The job.
    pub collection: CollectionId,
    /// The place in it.
    pub index: TaskIndex,
    /// Which life.
    pub generation: Generation,
}

impl InstanceId {
    /// The task that this is a life of.
    #[must_use]
    pub fn task(self) -> TaskId {
        TaskId { collection: self.collection, index: self.index }
    }
}

impl TaskId {
    /// The given life of this task.
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

/// Written `collection-index-generation`: it also names the instance's directory and cgroup.
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
        // Only the canonical form, so that no two texts name one instance.
        if id.to_string() == text { Ok(id) } else { Err(()) }
    }
}

/// The age of an order to a machine. Orders are compared by it, oldest first: a Borglet obeys
/// no order older than the newest it has seen (design, section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// How often the cell was restored from a checkpoint by hand.
    pub restore_epoch: u64,
    /// The leader's term.
    pub term: Term,
    /// The log index that the order reflects.
    pub index: LogIndex,
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let stamp = |restore_epoch, term, index| Stamp {
            restore_epoch,
            term: Term(term),
            index: LogIndex(index),
        };
        assert!(stamp(1, 0, 0) > stamp(0, 9, 9));
        assert!(stamp(0, 2, 0) > stamp(0, 1, 9));
        assert!(stamp(0, 1, 2) > stamp(0, 1, 1));
    }
}
