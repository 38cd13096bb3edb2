//! Membership: the leader changes consensus towards the cell's desired membership, one change at a
//! time, and raises the state machine to the level that all replicas support.

use cell::{Cell, Member, MemberChange, Op, Replica};
use model::{DirectoryId, Level, LogIndex, ReplicaId, RestoreEpoch, Time};
use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2};
use raft::{Progress, ProgressTracker};

use crate::io::{Output, Settings};
use crate::message::{Body, Message};

/// A learner that is at most this many records behind becomes a voter.
const BEHIND_MAX: u64 = 1_000;
/// How many ticks of consensus a replica waits before it describes itself to the leader again.
const DESCRIBE_TICKS: u64 = 10;

/// Pending changes.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// A proposed change; the next one waits until it is applied.
    pub(crate) proposed: Option<LogIndex>,
    /// When this replica describes itself to the leader again.
    describe: Time,
}

/// The leader's next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeaderStep {
    /// Propose this operation.
    Propose(Op),
    /// The leader itself is to be removed: another replica must lead first.
    Resign,
}

/// The leader's next step, if any.
pub(crate) fn next(cell: &Cell, me: &Settings, progress: &ProgressTracker) -> Option<LeaderStep> {
    let is = cell.level();
    if let Some(describe) = description(cell, me) {
        return Some(LeaderStep::Propose(describe));
    }
    let knows = cell.replicas().filter(|replica| replica.member != Member::Waiting);
    let knows = knows.map(|replica| replica.level).min().unwrap_or(is).min(me.level);
    if knows > is {
        return Some(LeaderStep::Propose(Op::RaiseLevel { to: knows }));
    }
    let change = |replica, to| Some(LeaderStep::Propose(Op::ChangeMember { replica, to }));
    let last = progress.get(me.id.0).map_or(0, |own| own.matched);
    // What a learner has acknowledged is on its disk. One that has nothing votes for nobody, and in a young
    // cell it is only a few records behind.
    let keeps_up = |other: &Progress| {
        other.recent_active && other.matched > 0 && other.matched + BEHIND_MAX >= last
    };
    // A new replica counts as active; only its own description shows that it runs. A vote given earlier
    // could be missing.
    let runs = |replica: &Replica| replica.level > Level(0);
    cell.replicas().find_map(|replica| match replica.member {
        _ if replica.leaving && replica.id == me.id => Some(LeaderStep::Resign),
        _ if replica.leaving => change(replica.id, MemberChange::Out),
        Member::Waiting => change(replica.id, MemberChange::Learner),
        Member::Learner if runs(replica) && progress.get(replica.id.0).is_some_and(keeps_up) => {
            change(replica.id, MemberChange::Voter)
        }
        Member::Learner | Member::Voter => None,
    })
}

/// This replica's description, if it differs from the recorded one.
fn description(cell: &Cell, me: &Settings) -> Option<Op> {
    let known = cell.replica(me.id);
    let is_right = known.is_some_and(|known| {
        known.level == me.level
            && (known.address == me.address || me.address.is_empty())
            && !says_directory(known, me.directory)
    });
    let address = me.address.to_string();
    let (replica, level, directory) = (me.id, me.level, me.directory);
    (!is_right).then_some(Op::DescribeReplica { replica, address, level, directory })
}

/// Whether the data directory of a replica is news to the cell.
pub(crate) fn says_directory(known: &Replica, directory: DirectoryId) -> bool {
    directory.is_known() && !known.directory.is_known()
}

impl Members {
    /// Describes this replica to the leader, if the recorded description is outdated.
    pub(crate) fn describe(
        &mut self,
        now: Time,
        cell: &Cell,
        me: &Settings,
        leader: ReplicaId,
        restore_epoch: RestoreEpoch,
        outputs: &mut Vec<Output>,
    ) {
        if now < self.describe || description(cell, me).is_none() {
            return;
        }
        self.describe = now + me.raft_tick.saturating_mul(DESCRIBE_TICKS);
        let body = Body::Describe { address: me.address.clone(), level: me.level };
        let (from, directory) = (me.id, me.directory);
        outputs.push(Output::Send(Message { from, to: leader, restore_epoch, directory, body }));
    }
}

/// The replica with the most of the log among those that can lead and were heard from recently.
pub(crate) fn successor(
    cell: &Cell,
    me: ReplicaId,
    progress: &ProgressTracker,
    hears: impl Fn(ReplicaId) -> bool,
) -> Option<ReplicaId> {
    let stays = |id: &ReplicaId| cell.replica(*id).is_some_and(|replica| !replica.leaving);
    let others = cell.voters().filter(|id| *id != me && stays(id));
    let matched = |id: &ReplicaId| progress.get(id.0).map(|other| other.matched);
    others.filter(|id| hears(*id)).max_by_key(matched)
}

/// The change of consensus' configuration that corresponds to an operation, if any.
pub(crate) fn conf_change(op: &Op) -> Option<ConfChangeV2> {
    let Op::ChangeMember { replica, to } = op else { return None };
    let kind = match to {
        MemberChange::Learner => ConfChangeType::AddLearnerNode,
        MemberChange::Voter => ConfChangeType::AddNode,
        MemberChange::Out => ConfChangeType::RemoveNode,
    };
    let mut single = ConfChangeSingle::default();
    single.set_change_type(kind);
    single.node_id = replica.0;
    let mut change = ConfChangeV2::default();
    change.set_changes(vec![single].into());
    Some(change)
}
