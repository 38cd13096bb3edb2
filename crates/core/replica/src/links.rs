//! The link shard of a replica, and how the leader spreads machines over the active replicas
//! ([`LinkShard`] documents the whole protocol).

use std::collections::BTreeMap;
use std::sync::Arc;

use cell::Cell;
use master::{LinkShard, Master, Partition, Reachability, Settings, Spread, owner};
use model::{LogIndex, MachineId, ReplicaId, Span, Time};
use raft::ProgressTracker;

/// A replica from which the leader has received nothing for this long is not active.
const ACTIVE_FOR: Span = Span::from_millis(1_500);
/// How often the leader repeats the spread if nothing has changed.
const SEND_EVERY: Span = Span::from_millis(500);
/// A replica that has received no spread for this long polls no machine: other replicas do by then.
const POLLS_FOR: Span = Span::from_secs(5);
/// A replica that is cut off from its machines is inactive for this long; then it is tried again.
const CUT_OFF_FOR: Span = Span::from_secs(60);
/// A replica that has lacked a committed record for this long polls no machine: its orders would be
/// outdated. It may hear the leader all the time, and be unable to write.
const LAGS_FOR: Span = Span::from_secs(5);
/// At least this many machines must be silent or doubtful before their poller is suspected.
const FAILING_MIN: u32 = 3;

/// The link shard and the active replicas.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) shard: LinkShard,
    me: ReplicaId,
    /// The latest spread from the leader.
    spread: Arc<Spread>,
    /// When it was received.
    received: Time,
    /// When each replica was last heard from.
    heard: BTreeMap<ReplicaId, Time>,
    /// When the leader sends the spread again.
    send_at: Time,
    /// The replica that appears to be cut off from its machines, and since when. It must appear so
    /// until each machine of the others has been polled at least once.
    suspected: Option<(ReplicaId, Time)>,
    suspect_for: Span,
    /// Replicas that are inactive because they were cut off, each until a given time.
    cut_off: BTreeMap<ReplicaId, Time>,
    /// For the leader: a committed record that each replica may lack, and since when it was looked
    /// for.
    looked_for: BTreeMap<ReplicaId, (LogIndex, Time)>,
}

/// What the leader knows of the logs.
pub(crate) struct Logs<'a> {
    /// Up to where the others have the log.
    pub(crate) progress: &'a ProgressTracker,
    /// The last committed record.
    pub(crate) committed: LogIndex,
}

/// Counts of how a replica's machines answer.
#[derive(Clone, Copy, Debug, Default)]
struct AnswerCounts {
    all: u32,
    failing: u32,
}

/// The replica that is not answered by most of its machines while nearly all machines of the others
/// answer: it is cut off, and the machines are not gone.
fn cut_off(
    active: &[ReplicaId],
    reachabilities: impl Iterator<Item = (MachineId, Reachability)>,
) -> Option<ReplicaId> {
    let mut partitions: BTreeMap<ReplicaId, AnswerCounts> = BTreeMap::new();
    let mut cell = AnswerCounts::default();
    for (machine, reachability) in reachabilities {
        let Some(owner) = owner(machine, active) else { continue };
        let failing =
            u32::from(matches!(reachability, Reachability::Doubtful | Reachability::Silent));
        for count in [&mut cell, partitions.entry(owner).or_default()] {
            count.all += 1;
            count.failing += failing;
        }
    }
    let is_cut_off = |partition: &AnswerCounts| {
        let (others, failing) = (cell.all - partition.all, cell.failing - partition.failing);
        partition.failing >= FAILING_MIN
            && partition.failing * 2 > partition.all
            && others > failing * 4
    };
    partitions.into_iter().find(|(_, partition)| is_cut_off(partition)).map(|(replica, _)| replica)
}

impl Links {
    pub(crate) fn new(me: ReplicaId, settings: Settings) -> Self {
        Self {
            shard: LinkShard::new(settings),
            me,
            spread: Arc::default(),
            received: Time::ZERO,
            heard: BTreeMap::new(),
            send_at: Time::ZERO,
            suspected: None,
            suspect_for: settings.poll_interval.saturating_mul(2),
            cut_off: BTreeMap::new(),
            looked_for: BTreeMap::new(),
        }
    }

    /// A message arrived from another replica.
    pub(crate) fn hear(&mut self, now: Time, from: ReplicaId) {
        self.heard.insert(from, now);
    }

    /// Whether a replica was heard from recently; always true for this one. Consensus has a flag
    /// for that too, but it clears the flag of every replica twice a second, until the next answer.
    pub(crate) fn hears(&self, now: Time, replica: ReplicaId) -> bool {
        let heard = self.heard.get(&replica);
        replica == self.me || heard.is_some_and(|at| now.since(*at) < ACTIVE_FOR)
    }

    /// The leader sent the spread of the machines.
    pub(crate) fn received(&mut self, now: Time, cell: &Cell, spread: Arc<Spread>) {
        self.received = now;
        self.spread = spread;
        self.shard.serve(now, cell, Some(self.partition_of(self.me)));
    }

    /// This replica leads from now on. Each of the others is given time to be heard of: an election
    /// alone moves no machine.
    pub(crate) fn lead(&mut self, now: Time, cell: &Cell) {
        self.heard.extend(cell.voters().chain(cell.learners()).map(|other| (other, now)));
        self.suspected = None;
        self.cut_off.clear();
        self.looked_for.clear();
        self.send_at = now;
    }

    /// Whether a replica has every record that was committed some time ago.
    fn keeps_up(&mut self, now: Time, replica: ReplicaId, logs: &Logs<'_>) -> bool {
        let has = logs.progress.get(replica.0).map_or(0, |of| of.matched);
        match self.looked_for.get(&replica) {
            Some((record, since)) if record.0 > has => now.since(*since) < LAGS_FOR,
            _ => {
                self.looked_for.insert(replica, (logs.committed, now));
                true
            }
        }
    }

    /// Checks which replica is cut off from its machines.
    fn suspect(
        &mut self,
        now: Time,
        reachabilities: impl Iterator<Item = (MachineId, Reachability)>,
    ) {
        let seems = cut_off(&self.spread.active, reachabilities);
        self.suspected = match (seems, self.suspected) {
            (Some(seems), Some((id, since))) if seems == id => Some((id, since)),
            (seems, _) => seems.map(|id| (id, now)),
        };
        if let Some((id, since)) = self.suspected
            && now.since(since) >= self.suspect_for
        {
            self.cut_off.insert(id, now + CUT_OFF_FOR);
            self.suspected = None;
        }
    }

    /// The replicas to send the spread to, if it is due or has changed: a replica became active or
    /// inactive (it is not heard, is cut off from its machines, or lacks records), or machines are
    /// also polled by others. `reachabilities` are the observations of this replica's own shard, as
    /// the leader.
    pub(crate) fn send_spread(
        &mut self,
        now: Time,
        cell: &Cell,
        master: &mut Master,
        reachabilities: &[(MachineId, Reachability)],
        logs: &Logs<'_>,
    ) -> Option<(Vec<ReplicaId>, Arc<Spread>)> {
        if now >= self.send_at {
            self.cut_off.retain(|_, until| *until > now);
            self.suspect(now, master.reachabilities());
        }
        let active = cell.voters().filter(|id| self.hears(now, *id));
        let mut active: Vec<_> = active.filter(|id| !self.cut_off.contains_key(id)).collect();
        active.retain(|id| *id == self.me || self.keeps_up(now, *id, logs));
        master.spread(now, &active);
        master.heard(now, cell, self.me, reachabilities);
        let spread = Spread { active, seconds: master.seconds().cloned().collect() };
        if spread == *self.spread && now < self.send_at {
            self.received = now;
            return None;
        }
        self.send_at = now + SEND_EVERY;
        self.received(now, cell, Arc::new(spread));
        let all = cell.voters().chain(cell.learners());
        Some((all.filter(|id| *id != self.me).collect(), Arc::clone(&self.spread)))
    }

    /// A replica that has lost its leader polls no machine: a new leader has assigned its machines
    /// to others.
    pub(crate) fn tick(&mut self, now: Time, cell: &Cell) {
        if now.since(self.received) > POLLS_FOR && self.shard.partition().is_some() {
            self.shard.serve(now, cell, None);
        }
    }

    pub(crate) fn spread(&self) -> &Arc<Spread> {
        &self.spread
    }

    /// The partition of a replica: the machines that it polls.
    pub(crate) fn partition_of(&self, replica: ReplicaId) -> Partition {
        Partition { me: replica, spread: Arc::clone(&self.spread) }
    }
}
