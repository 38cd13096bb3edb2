//! The hard state, and what follows when a write is durable.

use model::{Term, Time};

use super::{Codec, Replica};
use crate::HardState;
use crate::io::{Output, ReplicaError};

impl<C: Codec> Replica<C> {
    /// The hard state to write when nothing else is to be written: the commit index has advanced
    /// since the last call. It need not be durable. `None` if it has not advanced, or if an earlier
    /// write is not durable yet.
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
        while let Some((_, messages)) =
            self.awaiting_disk.pop_front_if(|(after, _)| *after <= number)
        {
            self.send(messages, outputs);
        }
        while let Some((_, agreed)) = self.agreeing.pop_front_if(|(after, _)| *after <= number) {
            self.agreed = agreed;
            self.apply_committed(now, outputs)?;
        }
        Ok(())
    }

    /// The hard state to write, if it changed. A lost commit index is found again by the next
    /// leader and needs no fsync; only the commit of a membership change must not be forgotten by a
    /// replica that has acted on it, because it could then elect a leader among the former members.
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
