//! Messages to and from the other replicas.

use cell::{Op, Reservation};
use master::{Partition, Reachability};
use model::{LogIndex, MachineId, ReplicaId, Term, Time};
use raft::SnapshotStatus;
use raft::eraftpb::{self, MessageType};

use super::{Codec, Kinds, MESSAGE_BYTES_MAX, Replica};
use crate::io::{Output, Progress, ReplicaError};
use crate::members;
use crate::message::{Body, Consensus, ConsensusKind, Message};

/// The maximum number of messages that wait for a write to become durable. If a disk hangs for
/// long, the oldest ones are dropped, and consensus compensates for that.
const AWAITING_DISK_MAX: usize = 1_024;

impl<C: Codec> Replica<C> {
    /// The leader's view of all members, including itself; empty on other replicas.
    #[must_use]
    pub fn progress(&self, now: Time) -> Vec<Progress> {
        if !self.is_elected() {
            return Vec::new();
        }
        let progress = self.node.raft.prs().iter();
        let mut progress: Vec<_> = progress
            .map(|(id, of)| Progress {
                replica: ReplicaId(*id),
                answers: self.links.hears(now, ReplicaId(*id)),
                index: LogIndex(of.matched),
            })
            .collect();
        progress.sort_unstable_by_key(|of| of.replica);
        progress
    }

    /// The number of machines that are up and have answered since this replica became the leader:
    /// the first answer of each leads to proposals about its tasks. 0 if it does not lead.
    #[must_use]
    pub fn machines_heard(&self) -> u32 {
        self.master.machines_heard()
    }

    /// Whether all machines that are up have answered since this replica became the leader.
    #[must_use]
    pub fn are_all_machines_heard(&self) -> bool {
        self.master.are_all_machines_heard()
    }

    /// Handles a message of another replica. Messages from before a restoration, or for another
    /// replica, are ignored.
    pub(super) fn received(&mut self, now: Time, message: Message) -> Result<(), ReplicaError> {
        let Message { from, to, restore_epoch, directory, body } = message;
        // With an empty directory it cannot know how often the cell was restored. A restored
        // replica starts from a checkpoint, and so does this one: that puts the epoch on its disk.
        if restore_epoch > self.restore_epoch && self.has_nothing() {
            self.restore_epoch = restore_epoch;
        }
        if restore_epoch != self.restore_epoch || to != self.settings.id {
            return Ok(());
        }
        let known = self.cell.replica(from);
        if known.is_some_and(|known| known.directory.differs(directory)) {
            return Ok(());
        }
        self.links.hear(now, from);
        match body {
            Body::Heard { proposals, reachabilities } => {
                self.heard(now, from, &proposals, &reachabilities);
                Ok(())
            }
            Body::Active(spread) => {
                if self.leader() == Some(from) {
                    self.links.received(now, &self.cell, spread);
                }
                Ok(())
            }
            Body::BeginAnew(machines) => {
                if self.leader() == Some(from) {
                    self.links.shard.begin_anew(&machines);
                }
                Ok(())
            }
            Body::Consensus(consensus) => self.consensus(from, to, *consensus),
            Body::Describe { address, level } => {
                let differs = known.is_some_and(|known| {
                    known.address != address
                        || known.level != level
                        || members::says_directory(known, directory)
                });
                if differs && self.is_serving() {
                    let (replica, address) = (from, address.to_string());
                    let op = Op::DescribeReplica { replica, address, level, directory };
                    self.propose(now, &op, None);
                }
                Ok(())
            }
        }
    }

    /// Fails if the cell has recorded another data directory for this replica.
    pub(super) fn check_directory(&self) -> Result<(), ReplicaError> {
        let (replica, own) = (self.settings.id, self.settings.directory);
        let recorded = self.cell.replica(replica).map(|known| known.directory).unwrap_or_default();
        match recorded.differs(own) {
            true => Err(ReplicaError::AnotherDirectory { replica, recorded, own }),
            false => Ok(()),
        }
    }

    /// Whether it has neither a record nor a cell: it was never a member.
    pub(super) fn has_nothing(&self) -> bool {
        self.cell.index() == LogIndex(0) && self.node.store().last() == LogIndex(0)
    }

    /// Handles observations of another replica's link shard, ignoring machines that it does not
    /// poll.
    pub(super) fn heard(
        &mut self,
        now: Time,
        from: ReplicaId,
        proposals: &[Op],
        reachabilities: &[(MachineId, Reachability)],
    ) {
        if !self.is_serving() {
            return;
        }
        let partition = self.links.partition_of(from);
        self.master.heard(now, &self.cell, from, reachabilities);
        for op in proposals {
            if let Op::Reserve(reservations) = op {
                self.reserve(now, &partition, reservations);
            } else if partition.may_propose(op) && self.master.may_propose(op) {
                self.propose(now, op, None);
            }
        }
    }

    /// Proposes the reservations from another replica, without those of tasks that it does not
    /// estimate: another one that does may have proposed a newer one.
    fn reserve(&mut self, now: Time, by: &Partition, reservations: &[Reservation]) {
        let estimated = |reservation: &&Reservation| {
            let placed = self.cell.placement(reservation.instance);
            placed.is_some_and(|placed| by.estimates(placed.machine))
        };
        let theirs: Vec<_> = reservations.iter().filter(estimated).copied().collect();
        if !theirs.is_empty() {
            self.propose(now, &Op::Reserve(theirs), None);
        }
    }

    pub(super) fn consensus(
        &mut self,
        from: ReplicaId,
        to: ReplicaId,
        mut consensus: Consensus,
    ) -> Result<(), ReplicaError> {
        let last = self.node.store().last();
        match consensus.kind {
            // The leader never announces a commit index beyond what this replica has acknowledged.
            ConsensusKind::Heartbeat
                if consensus.commit > last && consensus.term.0 >= self.node.raft.term =>
            {
                return Err(ReplicaError::LostRecords { committed: consensus.commit, last });
            }
            ConsensusKind::Append => {
                if let Some(index) = self.contradicted(&consensus) {
                    let committed = self.known_committed();
                    return Err(ReplicaError::Contradicted { leader: from, index, committed });
                }
            }
            // Its earlier votes were in the directory that it lost.
            ConsensusKind::RequestVote | ConsensusKind::RequestPreVote if self.has_nothing() => {
                return Ok(());
            }
            ConsensusKind::TimeoutNow if self.installing.is_some() => return Ok(()),
            ConsensusKind::Snapshot => {
                // One at a time, and a message without a cell is ignored.
                if self.installing.is_some() || consensus.snapshot.is_none() {
                    return Ok(());
                }
                consensus.entries.clear();
            }
            _ => {}
        }
        let snapshot = consensus.snapshot.clone();
        // What a returning replica has missed is sent in response to its answers: in many messages,
        // because the library would otherwise batch all of it into one.
        self.node.set_batch_append(!consensus.kind.is_answer());
        let message = consensus.into_raft(from, to, &Kinds(&self.codec));
        // Messages that do not fit the current term or membership are dropped.
        let _ignored = self.node.step(message);
        self.node.set_batch_append(self.proposed_bytes <= MESSAGE_BYTES_MAX);
        let taken = self.node.raft.raft_log.unstable_snapshot().as_ref();
        let taken = taken.map(|taken| taken.get_metadata().index);
        // A snapshot that consensus rejects does not replace one that it accepted.
        if let Some(snapshot) = snapshot.filter(|it| Some(it.cell.index().0) == taken) {
            self.arrived = Some(snapshot);
        }
        Ok(())
    }

    /// The first record in a leader's message that differs from the one committed here at its
    /// index.
    fn contradicted(&self, append: &Consensus) -> Option<LogIndex> {
        if append.term.0 < self.node.raft.term {
            return None;
        }
        let before = (append.index, append.log_term);
        let records = append.entries.iter().map(|entry| (entry.index, entry.term));
        let committed = self.known_committed();
        let mut judged = std::iter::once(before).chain(records);
        // The newest records of the log are not in its storage yet. It returns 0 for missing ones.
        let log = &self.node.raft.raft_log;
        let differs = |(index, term): &(LogIndex, Term)| {
            let own = log.term(index.0).unwrap_or_default();
            *index <= committed && own > 0 && own != term.0
        };
        judged.find(differs).map(|(index, _)| index)
    }

    /// The commit index, including what an earlier process recorded.
    fn known_committed(&self) -> LogIndex {
        self.hard_state.committed.max(self.commit_index())
    }

    /// Queues messages until the last write handed to the disk is durable.
    pub(super) fn send_when_durable(&mut self, messages: Vec<eraftpb::Message>) {
        if self.awaiting_disk.len() >= AWAITING_DISK_MAX {
            self.awaiting_disk.pop_front();
        }
        self.awaiting_disk.push_back((self.handed, messages));
    }

    /// Transfers leadership to another replica, if this one leads.
    pub(super) fn transfer(&mut self, now: Time, to: Option<ReplicaId>) {
        // Wait for the replica chosen first: if several are told to lead, possibly none wins.
        let under_way = to.is_none() && self.node.raft.lead_transferee.is_some();
        if !self.is_elected() || under_way {
            return;
        }
        let hears = |id| self.links.hears(now, id);
        let best = || members::successor(&self.cell, self.settings.id, self.node.raft.prs(), hears);
        if let Some(to) = to.filter(|to| self.cell.voters().any(|voter| voter == *to)).or_else(best)
        {
            self.node.transfer_leader(to.0);
        }
    }

    pub(super) fn send(&mut self, messages: Vec<eraftpb::Message>, outputs: &mut Vec<Output>) {
        let (from, restore_epoch) = (self.settings.id, self.restore_epoch);
        let directory = self.settings.directory;
        for message in messages {
            let to = ReplicaId(message.to);
            let is_snapshot = message.get_msg_type() == MessageType::MsgSnapshot;
            let offered = self.node.store().offered();
            match Consensus::from_raft(message, offered) {
                Some(consensus) => {
                    let body = Body::Consensus(Box::new(consensus));
                    let message = Message { from, to, restore_epoch, directory, body };
                    outputs.push(Output::Send(message));
                }
                // The cell it referred to is gone: consensus tries another one.
                None if is_snapshot => {
                    self.node.report_snapshot(to.0, SnapshotStatus::Failure);
                }
                None => {}
            }
        }
    }

    pub(super) fn tell(&self, others: &[ReplicaId], body: &Body, outputs: &mut Vec<Output>) {
        let (from, directory) = (self.settings.id, self.settings.directory);
        let restore_epoch = self.restore_epoch;
        let to = |to| Message { from, to, restore_epoch, directory, body: body.clone() };
        outputs.extend(others.iter().map(|other| Output::Send(to(*other))));
    }
}
