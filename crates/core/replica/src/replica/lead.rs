//! What a replica does when it begins to lead, and when another one does.

use cell::Op;
use model::{Term, Time};

use super::{Bootstrap, Codec, Output, Refusal, Replica, Waiting};

impl<C: Codec> Replica<C> {
    /// Its first entry is committed: it has everything that was ever acknowledged.
    pub(super) fn lead(&mut self, now: Time, outputs: &mut Vec<Output>) {
        self.tell_leader(outputs);
        let term = Term(self.node.raft.term);
        self.master.lead(now, &self.cell);
        self.links.lead(now, &self.cell);
        self.members.proposed = None;
        outputs.push(Output::Leads(term));
        self.reads.again();
        if self.cell.name().is_none()
            && let Some(Bootstrap { name, administrator, .. }) = self.bootstrap.clone()
        {
            self.propose(now, &Op::Bootstrap { name, administrator }, None);
        }
        self.reconcile(now);
        // Until the first session is open: completes a bootstrap of which the disk has only a part.
        let quota = self.bootstrap.as_ref().is_some_and(|bootstrap| bootstrap.quota);
        if quota && self.cell.is_untouched() && !self.cell.metering().on {
            self.propose(now, &Op::MeterQuota, None);
        }
        let queue = self.bootstrap.as_ref().is_some_and(|bootstrap| bootstrap.queue);
        if queue && self.cell.is_untouched() && !self.cell.queue_settings().on {
            self.propose(now, &Op::SwitchQueueOn, None);
        }
    }

    /// Tells the caller who leads, if that has changed: whatever this replica began as the leader of
    /// an earlier term ends.
    pub(super) fn tell_leader(&mut self, outputs: &mut Vec<Output>) {
        let (leader, term) = (self.leader(), self.term());
        if (leader, term) == self.told {
            return;
        }
        self.told = (leader, term);
        if self.master.is_leading() {
            self.master.follow();
            outputs.push(Output::Follows);
            let waiting = self.waiting.drain(..);
            let unknown = |waiting: Waiting| Output::Refused(waiting.ticket, Refusal::Unknown);
            outputs.extend(waiting.map(unknown));
        }
        self.reads.again();
        outputs.push(Output::Leader(leader, term));
    }
}
