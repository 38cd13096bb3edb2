//! What is read: every answer comes of one of these, and is true of one moment.

use std::sync::Arc;

use cell::Cell;
use checkpoint::Origin;
use master::Spread;
use model::{ReplicaId, Term, Time};
use process::clock::Clock;
use replica::Progress;

/// What is read: the cell at an index, and who leads.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) cell: Cell,
    /// The term of the last operation, and how often the cell was restored.
    pub(crate) origin: Origin,
    /// Which replica this is.
    pub(crate) me: ReplicaId,
    /// The replica that leads, as far as this one knows, and in which term.
    pub(crate) leader: Option<ReplicaId>,
    pub(crate) term: Term,
    /// The term in which this replica leads; none where it does not.
    pub(crate) leads: Option<Term>,
    /// Whether the cell has been, since this process started, what the whole log gives.
    pub(crate) caught_up: bool,
    /// What it sees of the replicas then.
    pub(super) progress: Arc<[Progress]>,
    /// Which replicas poll which machines.
    pub(super) spread: Arc<Spread>,
    /// How many machines have answered since this replica leads.
    pub(crate) machines_heard: u32,
    /// How many schedulers follow.
    pub(crate) followers: usize,
    /// The cell's clock, which is at no moment before the cell's time.
    pub(crate) clock: Clock,
    /// In how many places the cell contradicted itself when that was last looked at.
    pub(crate) violations: u64,
}

impl View {
    /// What there is to see before the first step.
    pub(super) fn first(cell: Cell, origin: Origin, me: ReplicaId, clock: Clock) -> Self {
        Self {
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

    /// Of a cell, on replica 1.
    #[cfg(test)]
    pub(super) fn of(cell: Cell) -> Self {
        let origin = Origin { term: Term(0), restore_epoch: 0 };
        Self::first(cell, origin, ReplicaId(1), Clock::start())
    }

    /// The replica that leads, where it is not this one.
    pub(super) fn leads_elsewhere(&self) -> Option<ReplicaId> {
        self.leader.filter(|leader| *leader != self.me)
    }

    /// Now, as the cell counts time: ages are told by it.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }
}
