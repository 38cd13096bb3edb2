//! The view that reads are answered from; each answer is consistent as of one moment.

use std::sync::Arc;

use bns::Changes;
use cell::Cell;
use checkpoint::Origin;
use master::Spread;
use model::{ReplicaId, Term, Time};
use process::clock::Clock;
use replica::Progress;

/// A view: the cell at an index, and who leads.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) cell: Cell,
    /// When the names of that cell changed.
    pub(crate) name_changes: Changes,
    /// The term of the last operation, and the restore epoch.
    pub(crate) origin: Origin,
    /// The id of this replica.
    pub(crate) me: ReplicaId,
    /// The leader that this replica knows, and its term.
    pub(crate) leader: Option<ReplicaId>,
    pub(crate) term: Term,
    /// The term in which this replica leads; `None` if it does not.
    pub(crate) leads: Option<Term>,
    /// Whether the cell has reflected the whole log since this process started.
    pub(crate) caught_up: bool,
    /// The replicas' progress, if this replica leads.
    pub(super) progress: Arc<[Progress]>,
    /// Which replicas poll which machines.
    pub(super) spread: Arc<Spread>,
    /// The number of machines that have answered since this replica leads.
    pub(crate) machines_heard: u32,
    /// The number of schedulers that follow.
    pub(crate) followers: usize,
    /// The cell's clock, which is never behind the cell's time.
    pub(crate) clock: Clock,
    /// The number of violated invariants at the last check of the cell.
    pub(crate) violations: u64,
}

impl View {
    /// The view before the first step.
    pub(super) fn first(cell: Cell, origin: Origin, me: ReplicaId, clock: Clock) -> Self {
        Self {
            name_changes: Changes::of(&cell),
            cell,
            origin,
            me,
            leader: None,
            term: Term(0),
            leads: None,
            progress: Arc::default(),
            spread: Arc::default(),
            caught_up: false,
            machines_heard: 0,
            followers: 0,
            clock,
            violations: 0,
        }
    }

    /// A view of a cell, on replica 1.
    #[cfg(test)]
    pub(super) fn of(cell: Cell) -> Self {
        let origin = Origin::default();
        Self::first(cell, origin, ReplicaId(1), Clock::start())
    }

    /// The leader, if it is another replica.
    pub(super) fn leads_elsewhere(&self) -> Option<ReplicaId> {
        self.leader.filter(|leader| *leader != self.me)
    }

    /// The current time of the cell's clock, from which ages are computed.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }
}
