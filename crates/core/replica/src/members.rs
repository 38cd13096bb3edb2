//! Who the replicas are: the leader brings consensus to what the cell says, one change at a time, and
//! the state machine to the level that all of them know.

use cell::{Cell, Member, MemberChange, Op, Replica};
use model::{DirectoryId, Level, LogIndex, ReplicaId, Time};
use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2};
use raft::{Progress, ProgressTracker};

use crate::io::{Output, Settings};
use crate::message::{Body, Message};

/// A learner that is so few records behind gets a vote.
const BEHIND_MAX: u64 = 1_000;
/// How many ticks of consensus a replica waits before it describes itself to the leader again.
const DESCRIBE_TICKS: u64 = 10;

/// What is under way.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// A change that is proposed; the next waits until it is applied.
    pub(crate) proposed: Option<LogIndex>,
    /// When this replica tells the leader about itself again.
    describe: Time,
}

/// What the leader does next about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// This.
    Propose(Op),
    /// It is to leave itself: another has to lead first.
    Resign,
}

/// What the leader does next, if anything.
pub(crate) fn next(cell: &Cell, me: &Settings, progress: &ProgressTracker) -> Option<Step> {
    let is = cell.level();
    if let Some(describe) = description(cell, me) {
        return Some(Step::Propose(describe));
    }
    let knows = cell.replicas().filter(|replica| replica.member != Member::Waiting);
    let knows = knows.map(|replica| replica.level).min().unwrap_or(is).min(me.level);
    if knows > is {
        return Some(Step::Propose(Op::RaiseLevel { to: knows }));
    }
    let change = |replica, to| Some(Step::Propose(Op::ChangeMember { replica, to }));
    let last = progress.get(me.id.0).map_or(0, |own| own.matched);
    let keeps_up = |other: &Progress| other.recent_active && other.matched + BEHIND_MAX >= last;
    // One that is new counts as active, and in a young cell as caught up: that it runs is known from
    // what it says of itself. A vote before would be missing.
    let runs = |replica: &Replica| replica.level > Level(0);
    cell.replicas().find_map(|replica| match replica.member {
        _ if replica.leaving && replica.id == me.id => Some(Step::Resign),
        _ if replica.leaving => change(replica.id, MemberChange::Out),
        Member::Waiting => change(replica.id, MemberChange::Learner),
        Member::Learner if runs(replica) && progress.get(replica.id.0).is_some_and(keeps_up) => {
            change(replica.id, MemberChange::Voter)
        }
        Member::Learner | Member::Voter => None,
    })
}

/// What this replica would like to be recorded of itself, where that is not what is.
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

/// Whether it is news in which directory a replica is.
pub(crate) fn says_directory(known: &Replica, directory: DirectoryId) -> bool {
    directory.is_known() && !known.directory.is_known()
}

impl Members {
    /// Tells the leader about this replica, where the cell does not know.
    pub(crate) fn describe(
        &mut self,
        now: Time,
        cell: &Cell,
        me: &Settings,
        leader: ReplicaId,
        restore_epoch: u64,
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

/// Of those that can lead and are heard, the one with most of the log.
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

/// What consensus has to be told where an operation changed who takes part in it.
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
