//! Which replica polls which machine: rendezvous hashing over the replicas that are active.
//!
//! Each machine goes to the replica that has the highest weight for it. So it is the same for whoever
//! computes it, a change of leader alone moves nothing, a replica that leaves moves its own
//! machines only, and one that comes takes its share evenly from all others (Thaler, Ravishankar,
//! "A name-based mapping scheme for rendezvous", 1996).

use std::cmp::Reverse;
use std::sync::Arc;

use cell::Op;
use model::{MachineId, Random, ReplicaId};

/// Which replicas poll which machines, as the leader says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// The replicas over which the machines are spread, in any order. Who is not among them polls
    /// none.
    pub active: Vec<ReplicaId>,
    /// The machines that others poll as well, as their own replicas do not reach them; by machine.
    pub seconds: Vec<Second>,
}

/// That a machine is polled by others than its own replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Second {
    /// Which machine.
    pub machine: MachineId,
    /// By whom: all others as long as none has reached it, then one that has.
    pub by: Vec<ReplicaId>,
    /// Whether that one reaches it.
    pub reached: bool,
}

impl Spread {
    /// The replica whose machine it is, and which polls it whether it reaches it or not.
    #[must_use]
    pub fn owner(&self, machine: MachineId) -> Option<ReplicaId> {
        owner(machine, &self.active)
    }

    /// Who else polls a machine.
    #[must_use]
    pub fn second(&self, machine: MachineId) -> Option<&Second> {
        let at = self.seconds.binary_search_by_key(&machine, |second| second.machine).ok()?;
        self.seconds.get(at)
    }
}

/// The part of the cell's machines that one replica polls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Whose part it is.
    pub me: ReplicaId,
    /// How all machines are spread.
    pub spread: Arc<Spread>,
}

impl Partition {
    /// Whether a machine is in it: one of its own, or one that it polls as well.
    #[must_use]
    pub fn has(&self, machine: MachineId) -> bool {
        let as_well = |second: &Second| second.by.contains(&self.me);
        self.spread.owner(machine) == Some(self.me)
            || self.spread.second(machine).is_some_and(as_well)
    }

    /// The part of a replica where these are active, and nobody polls another's machines.
    #[must_use]
    pub fn of(me: ReplicaId, active: Vec<ReplicaId>) -> Self {
        Self { me, spread: Arc::new(Spread { active, seconds: Vec::new() }) }
    }

    /// Whether a link shard with this part may propose an operation: what it learns from polls of the
    /// machines that are in it. Whatever else a replica sends in its name, and what it sends of machines
    /// that are no longer in it, is not to be proposed.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use cell::Mutation;
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

    /// Builds of different ages spread machines over the same replicas.
    #[test]
    fn who_polls_whom_never_changes() {
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
    fn machines_move_only_from_a_replica_that_leaves_and_to_one_that_comes() {
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
            // What those have who leave, and those who come get: a share each, and not the rest.
            let changed = |of: &[u64], other: &[u64]| {
                of.iter().filter(|id| !other.contains(id)).count() as u64 * MACHINES
                    / (of.len() as u64).max(1)
            };
            let most = changed(before, after) + changed(after, before);
            assert!(moved <= most + most / 10, "{before:?} to {after:?}: {moved} moved");
        }
    }

    #[test]
    fn each_has_its_share() {
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
    fn a_shard_proposes_what_it_learns_of_its_own_machines_and_nothing_else() {
        let machine = MachineId(1);
        let name = "m1".parse().expect("a name");
        let id = cell::RequestId { session: model::SessionId(1), sequence: 1 };
        let by = "ana".parse().expect("a name");
        for (op, expected) in [
            (Op::Observe { machine, observations: vec![] }, true),
            (Op::DescribeMachine { machine, report: Arc::new(MachineReport::default()) }, true),
            (Op::MachineUnreachable { machine }, true),
            (Op::MachineBack { machine }, true),
            // The leader alone, at its rate.
            (Op::MachineSilent { machine }, false),
            (Op::StopRescheduling { silent: 1, of: 1 }, false),
            (Op::Forget { collections: vec![] }, false),
            (Op::Request { id, by, mutation: Mutation::RemoveMachine { machine: name } }, false),
        ] {
            let mine = Partition::of(ReplicaId(1), replicas(&[1]));
            assert_eq!(mine.may_propose(&op), expected, "{op:?}");
            let others = Partition::of(ReplicaId(2), replicas(&[1]));
            assert!(!others.may_propose(&op), "{op:?}");
        }
    }
}
