//! What a replica says to the others and hears from them.

use cell::Op;
use master::Reachability;
use model::{LogIndex, MachineId, ReplicaId, Term, Time};
use raft::eraftpb::{self, MessageType};
use raft::{SnapshotStatus, StateRole};

use super::{Codec, Kinds, MESSAGE_BYTES_MAX, Replica};
use crate::io::{Output, Progress, ReplicaError};
use crate::members;
use crate::message::{Body, Consensus, ConsensusKind, Message};

/// How much waits at most to be said when the disk has what it says. Where a disk takes nothing for a long
/// time, what is lost is what was to be said first, and consensus makes up for it.
const HELD_MAX: usize = 1_024;

impl<C: Codec> Replica<C> {
    /// What this replica sees of each that takes part, itself included; nothing where it does not
    /// lead.
    #[must_use]
    pub fn progress(&self, now: Time) -> Vec<Progress> {
        if self.role != StateRole::Leader {
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

    /// Of the machines that are up, how many have answered since this replica leads: with the first answer
    /// of each, what it says of its tasks is proposed. None where it does not lead.
    #[must_use]
    pub fn machines_heard(&self) -> u32 {
        self.master.machines_heard()
    }

    /// A message of another replica. What comes from before a restoration, or for another, is not
    /// listened to.
    pub(super) fn received(&mut self, now: Time, message: Message) -> Result<(), ReplicaError> {
        let Message { from, to, restore_epoch, directory, body } = message;
        // With an empty directory it cannot know how often the cell was restored. Whoever is restored
        // begins with a checkpoint, and so does this one: with it the epoch is on its disk.
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
                if self.leader == Some(from) {
                    self.links.told(now, &self.cell, spread);
                }
                Ok(())
            }
            Body::BeginAnew(machines) => {
                if self.leader == Some(from) {
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
                if differs && self.master.is_leading() {
                    let (replica, address) = (from, address.to_string());
                    let op = Op::DescribeReplica { replica, address, level, directory };
                    self.propose(now, &op, None);
                }
                Ok(())
            }
        }
    }

    /// Fails where the cell knows this replica by another directory than the one it is in.
    pub(super) fn check_directory(&self) -> Result<(), ReplicaError> {
        let (replica, own) = (self.settings.id, self.settings.directory);
        let recorded = self.cell.replica(replica).map(|known| known.directory).unwrap_or_default();
        match recorded.differs(own) {
            true => Err(ReplicaError::AnotherDirectory { replica, recorded, own }),
            false => Ok(()),
        }
    }

    /// Whether it has neither a record nor a cell: it was never part of anything.
    pub(super) fn has_nothing(&self) -> bool {
        self.cell.index() == LogIndex(0) && self.node.store().last() == LogIndex(0)
    }

    /// What another replica's link shard has to say: what it does not poll is not its to speak of.
    pub(super) fn heard(
        &mut self,
        now: Time,
        from: ReplicaId,
        proposals: &[Op],
        reachabilities: &[(MachineId, Reachability)],
    ) {
        if !self.master.is_leading() {
            return;
        }
        let partition = self.links.part_of(from);
        self.master.heard(now, &self.cell, from, reachabilities);
        for op in proposals {
            if partition.may_propose(op) && self.master.may_propose(op) {
                self.propose(now, op, None);
            }
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
            // The leader never says that more is agreed upon than this replica has acknowledged.
            ConsensusKind::Heartbeat
                if consensus.commit > last && consensus.term.0 >= self.node.raft.term =>
            {
                return Err(ReplicaError::Forgot { committed: consensus.commit, last });
            }
            ConsensusKind::Append => {
                if let Some(index) = self.contradicted(&consensus) {
                    let committed = self.known_committed();
                    return Err(ReplicaError::Contradicted { leader: from, index, committed });
                }
            }
            // What it may have promised was in the directory that it had before.
            ConsensusKind::RequestVote | ConsensusKind::RequestPreVote if self.has_nothing() => {
                return Ok(());
            }
            ConsensusKind::TimeoutNow if self.installing.is_some() => return Ok(()),
            ConsensusKind::Snapshot => {
                // One at a time, and one without a cell says nothing.
                if self.installing.is_some() || consensus.snapshot.is_none() {
                    return Ok(());
                }
                consensus.entries.clear();
            }
            _ => {}
        }
        let snapshot = consensus.snapshot.clone();
        // What one that was away has missed goes out by its answers: in many messages, or the library
        // makes a single one of all of them.
        self.node.set_batch_append(!consensus.kind.is_answer());
        let message = consensus.into_raft(from, to, &Kinds(&self.codec));
        // What does not fit the present term or membership is dropped.
        let _ignored = self.node.step(message);
        self.node.set_batch_append(self.proposed_bytes <= MESSAGE_BYTES_MAX);
        let taken = self.node.raft.raft_log.unstable_snapshot().as_ref();
        let taken = taken.map(|taken| taken.get_metadata().index);
        // One that consensus refuses does not take the place of one that it took.
        if let Some(snapshot) = snapshot.filter(|it| Some(it.cell.index().0) == taken) {
            self.arrived = Some(snapshot);
        }
        Ok(())
    }

    /// The first record in a message of the leader that is another than the one which was committed
    /// here in its place.
    fn contradicted(&self, append: &Consensus) -> Option<LogIndex> {
        if append.term.0 < self.node.raft.term {
            return None;
        }
        let before = (append.index, append.log_term);
        let records = append.entries.iter().map(|entry| (entry.index, entry.term));
        let committed = self.known_committed();
        let mut judged = std::iter::once(before).chain(records);
        // The log's newest records are not in its storage yet. It gives 0 for what it does not have.
        let log = &self.node.raft.raft_log;
        let differs = |(index, term): &(LogIndex, Term)| {
            let own = log.term(index.0).unwrap_or_default();
            *index <= committed && own > 0 && own != term.0
        };
        judged.find(differs).map(|(index, _)| index)
    }

    /// Up to here it is known that records are committed, also by what an earlier process noted.
    fn known_committed(&self) -> LogIndex {
        self.hard_state.committed.max(self.commit_index())
    }

    /// Keeps what is to be said when the disk has what was handed to it.
    pub(super) fn hold(&mut self, messages: Vec<eraftpb::Message>) {
        if self.held.len() >= HELD_MAX {
            self.held.pop_front();
        }
        self.held.push_back((self.handed, messages));
    }

    /// Lets another replica lead, where this one does.
    pub(super) fn transfer(&mut self, now: Time, to: Option<ReplicaId>) {
        // Whoever was chosen first is waited for: of several that are told to lead, none may win.
        let under_way = to.is_none() && self.node.raft.lead_transferee.is_some();
        if self.role != StateRole::Leader || under_way {
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
                // The one that was meant is gone: consensus tries another.
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
