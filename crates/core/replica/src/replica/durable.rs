//! What the disk has to remember, and what follows when it does.

use model::{Term, Time};

use super::{Codec, Replica};
use crate::HardState;
use crate::io::{Output, ReplicaError};

impl<C: Codec> Replica<C> {
    /// What is worth a note on the disk when nothing else is to be written: that more is known to be
    /// committed than when this was last asked. It need not be durable. Nothing where that is not
    /// so, or where the disk does not have everything yet that was handed to it.
    pub fn note(&mut self) -> Option<HardState> {
        let committed = self.commit_index();
        if self.handed > self.durable || committed <= self.hard_state.committed {
            return None;
        }
        self.hard_state.committed = committed;
        Some(self.hard_state)
    }

    pub(super) fn persisted(
        &mut self,
        now: Time,
        number: u64,
        outputs: &mut Vec<Output>,
    ) -> Result<(), ReplicaError> {
        self.durable = self.durable.max(number);
        self.node.on_persist_ready(number);
        if let Some((_, index)) = self.installing.take_if(|(installed, _)| *installed <= number) {
            self.node.advance_apply_to(index.0);
        }
        while let Some((_, messages)) = self.held.pop_front_if(|(after, _)| *after <= number) {
            self.send(messages, outputs);
        }
        while let Some((_, agreed)) = self.agreeing.pop_front_if(|(after, _)| *after <= number) {
            self.agreed = agreed;
            self.apply_committed(now, outputs)?;
        }
        Ok(())
    }

    /// What the disk has to remember from now on, where that has changed. A commit index that is
    /// lost is found again by the next leader, and needs no fsync; only that a change of who takes
    /// part is agreed upon must not be forgotten by a replica that has acted on it, or it could
    /// elect a leader among those of before.
    pub(super) fn promise(&mut self, promised: Option<(Term, u64)>) -> Option<HardState> {
        let mut memberships = self.committed.iter().rev().map(|entry| entry.index);
        let changed = memberships.find(|index| self.node.store().is_membership(*index));
        let before = self.hard_state;
        if let Some((term, vote)) = promised {
            (self.hard_state.term, self.hard_state.vote) = (term, vote);
        }
        self.hard_state.agreed = self.hard_state.agreed.max(changed.unwrap_or_default());
        (self.hard_state != before || promised.is_some()).then_some(self.hard_state)
    }
}
