//! Assignment of machines to the replicas that poll them: rendezvous hashing over the active
//! replicas.
//!
//! Each machine is assigned to the replica with the highest weight for it. So every replica
//! computes the same assignment, a change of leader alone moves nothing, a leaving replica moves
//! only its own machines, and a joining one takes an even share from all others (Thaler,
//! Ravishankar, "A name-based mapping scheme for rendezvous", 1996).

use std::cmp::Reverse;
use std::sync::Arc;

use cell::Op;
use model::{MachineId, Random, ReplicaId};

/// The assignment of machines to replicas, as the leader distributes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// The active replicas, over which machines are spread, in any order. Other replicas poll none.
    pub active: Vec<ReplicaId>,
    /// Machines that are also polled by other replicas because their own cannot reach them; sorted
    /// by machine.
    pub seconds: Vec<Second>,
}

/// A machine that is polled by other replicas than its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Second {
    /// The machine.
    pub machine: MachineId,
    /// The additional replicas: all others until one has reached it, then that one.
    pub by: Vec<ReplicaId>,
    /// Whether that one reaches it.
    pub reached: bool,
}

impl Spread {
    /// The replica that owns a machine, and polls it whether it reaches it or not.
    #[must_use]
    pub fn owner(&self, machine: MachineId) -> Option<ReplicaId> {
        owner(machine, &self.active)
    }

    /// The additional replicas that poll a machine, if any.
    #[must_use]
    pub fn second(&self, machine: MachineId) -> Option<&Second> {
        let at = self.seconds.binary_search_by_key(&machine, |second| second.machine).ok()?;
        self.seconds.get(at)
    }
}

/// A replica's partition: the machines that it polls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The replica.
    pub me: ReplicaId,
    /// The assignment of all machines.
    pub spread: Arc<Spread>,
}

impl Partition {
    /// Whether the partition contains a machine, as an own or additional one.
    #[must_use]
    pub fn has(&self, machine: MachineId) -> bool {
        let as_well = |second: &Second| second.by.contains(&self.me);
        self.spread.owner(machine) == Some(self.me)
            || self.spread.second(machine).is_some_and(as_well)
    }

    /// Whether this replica estimates the tasks of a machine: it is the one that has its usage. A
    /// machine that its own replica cannot reach is estimated by the one that reaches it instead.
    #[must_use]
    pub fn estimates(&self, machine: MachineId) -> bool {
        match self.spread.second(machine) {
            Some(second) if second.reached => second.by.contains(&self.me),
            _ => self.spread.owner(machine) == Some(self.me),
        }
    }

    /// The partition of a replica among these active ones, without additional machines.
    #[must_use]
    pub fn of(me: ReplicaId, active: Vec<ReplicaId>) -> Self {
        Self { me, spread: Arc::new(Spread { active, seconds: Vec::new() }) }
    }

    /// Whether a link shard with this partition may propose an operation: one that follows from
    /// polls of its own machines. Other operations sent in the name of a replica, and those about
    /// machines that left its partition, are not proposed.
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

/// The active replica that polls a machine; `None` if none is active. Independent of the order of
/// `active`. Replicas of different builds must agree on it: it must never change.
#[must_use]
pub fn owner(machine: MachineId, active: &[ReplicaId]) -> Option<ReplicaId> {
    let weight = |replica: &ReplicaId| Random::mixed(machine.0 ^ Random::new(replica.0).number());
    active.iter().copied().max_by_key(|replica| (weight(replica), Reverse(*replica)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use cell::{Mutation, RemoveMachine};
    use model::MachineReport;

    use super::*;

    const MACHINES: u64 = 10_000;

    fn replicas(ids: &[u64]) -> Vec<ReplicaId> {
        ids.iter().copied().map(ReplicaId).collect()
    }

    fn owners(ids: &[u64]) -> Vec<Option<ReplicaId>> {
        let active = replicas(ids);
        (1..=MACHINES).map(|machine| owner(MachineId(machine), &active)).collect()
    }

    /// Different builds spread machines in the same way.
    #[test]
    fn the_assignment_of_machines_to_replicas_never_changes() {
        for (active, expected) in [
            (&[1][..], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
            (&[1, 2, 3], [2, 2, 1, 2, 2, 2, 1, 1, 1, 3, 1, 3]),
            (&[1, 2, 3, 4, 5], [2, 2, 1, 2, 5, 2, 5, 1, 5, 3, 4, 5]),
            (&[7, 4], [4, 7, 7, 7, 7, 4, 7, 7, 4, 7, 4, 7]),
        ] {
            let active = replicas(active);
            let of = |machine| owner(MachineId(machine), &active).map_or(0, |replica| replica.0);
            let is: Vec<u64> = (1..=12).map(of).collect();
            assert_eq!(is, expected, "{active:?}");
        }
        assert_eq!(owner(MachineId(1), &[]), None);
    }

    #[test]
    fn machines_move_only_from_a_leaving_replica_or_to_a_new_one() {
        for (before, after) in [
            (&[1][..], &[1, 2][..]),
            (&[1, 2, 3], &[1, 2]),
            (&[1, 2, 3], &[2, 3, 1]),
            (&[1, 2, 3], &[1, 2, 3, 4]),
            (&[1, 2, 3, 4, 5], &[1, 2, 4, 5]),
            (&[1, 2, 3, 4, 5], &[1, 2, 4, 5, 6]),
            (&[1, 2, 3], &[4, 5, 6]),
            (&[1, 2, 3], &[]),
        ] {
            let is_in =
                |ids: &[u64], id: Option<ReplicaId>| id.is_some_and(|id| ids.contains(&id.0));
            let mut moved = 0;
            for (from, to) in owners(before).into_iter().zip(owners(after)) {
                if from != to {
                    moved += 1;
                    assert!(
                        !is_in(after, from) || !is_in(before, to),
                        "{before:?} to {after:?}: from {from:?} to {to:?}"
                    );
                }
            }
            // Joining and leaving replicas move their share, not more.
            let changed = |of: &[u64], other: &[u64]| {
                of.iter().filter(|id| !other.contains(id)).count() as u64 * MACHINES
                    / (of.len() as u64).max(1)
            };
            let most = changed(before, after) + changed(after, before);
            assert!(moved <= most + most / 10, "{before:?} to {after:?}: {moved} moved");
        }
    }

    #[test]
    fn each_replica_polls_its_share_of_machines() {
        for active in
            [&[1, 2][..], &[1, 2, 3], &[1, 2, 3, 4, 5], &[1, 9, 17], &[100, 200, 300, 400]]
        {
            let mut counts: BTreeMap<Option<ReplicaId>, u64> = BTreeMap::new();
            owners(active).into_iter().for_each(|owner| *counts.entry(owner).or_default() += 1);
            let fair = MACHINES / active.len() as u64;
            assert_eq!(counts.len(), active.len());
            for (replica, count) in counts {
                assert!(count.abs_diff(fair) <= fair / 20, "{active:?}: {replica:?} has {count}");
            }
        }
    }

    #[test]
    fn a_shard_makes_proposals_about_its_own_machines_only() {
        let machine = MachineId(1);
        let name = "m1".parse().expect("a name");
        let id = cell::RequestId { session: model::SessionId(1), sequence: 1 };
        let by = "ana".parse().expect("a name");
        for (op, expected) in [
            (Op::Observe { machine, observations: vec![] }, true),
            (Op::DescribeMachine { machine, report: Arc::new(MachineReport::default()) }, true),
            (Op::MachineUnreachable { machine }, true),
            (Op::MachineBack { machine }, true),
            // Only the leader, at its rate.
            (Op::MachineSilent { machine }, false),
            (Op::StopRescheduling { silent: 1, of: 1 }, false),
            (Op::Forget { collections: vec![] }, false),
            (
                Op::Request {
                    id,
                    by,
                    mutation: Mutation::RemoveMachine(RemoveMachine {
                        machine: name,
                        force: false,
                    }),
                },
                false,
            ),
        ] {
            let mine = Partition::of(ReplicaId(1), replicas(&[1]));
            assert_eq!(mine.may_propose(&op), expected, "{op:?}");
            let others = Partition::of(ReplicaId(2), replicas(&[1]));
            assert!(!others.may_propose(&op), "{op:?}");
        }
    }
}
