//! Which replica polls which machine: rendezvous hashing over the replicas that are active.
//!
//! Each machine goes to the replica that has the highest weight for it. So it is the same for whoever
//! computes it, a change of leader alone moves nothing, a replica that leaves moves its own
//! machines only, and one that comes takes its share evenly from all others (Thaler, Ravishankar,
//! "A name-based mapping scheme for rendezvous", 1996).

use std::cmp::Reverse;

use cell::Op;
use model::{MachineId, Random, ReplicaId};

/// The part of the cell's machines that one replica polls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Whose part it is.
    pub me: ReplicaId,
    /// The replicas over which the machines are spread, in any order. Who is not among them polls
    /// none.
    pub active: Vec<ReplicaId>,
}

impl Part {
    /// Whether a machine is in it.
    #[must_use]
    pub fn has(&self, machine: MachineId) -> bool {
        owner(machine, &self.active) == Some(self.me)
    }

    /// Whether a link shard with this part may propose an operation: what it learns from polls, of
    /// its own machines. Whatever else a replica sends in its name, and what it sends of machines
    /// that are no longer its own, is not to be proposed.
    #[must_use]
    pub fn may_propose(&self, op: &Op) -> bool {
        match op {
            Op::Observe { machine, .. }
            | Op::DescribeMachine { machine, .. }
            | Op::MachineUnreachable { machine }
            | Op::MachineBack { machine } => self.has(*machine),
            _ => false,
        }
    }
}

/// Which of the active replicas polls a machine; none where none is active. It does not depend on
/// their order. Replicas of different builds have to agree on it: it never changes.
#[must_use]
pub fn owner(machine: MachineId, active: &[ReplicaId]) -> Option<ReplicaId> {
    let weight = |replica: &ReplicaId| Random::mixed(machine.0 ^ Random::new(replica.0).number());
    active.iter().copied().max_by_key(|replica| (weight(replica), Reverse(*replica)))
}
