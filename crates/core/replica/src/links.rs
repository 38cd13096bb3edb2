//! The link shard of a replica, and how machines are spread over the replicas that are active, as the
//! leader says ([`LinkShard`] has the whole protocol).

use std::collections::BTreeMap;
use std::sync::Arc;

use cell::Cell;
use master::{LinkShard, Master, Partition, Reachability, Settings, Spread, owner};
use model::{MachineId, ReplicaId, Span, Time};

/// A replica of which the leader has heard nothing for so long is not active.
const ACTIVE_FOR: Span = Span::from_millis(1_500);
/// How often the leader says who is active, where nothing has changed.
const SAY_EVERY: Span = Span::from_millis(500);
/// A replica that has heard nothing of a leader for so long polls no machine: others do, by then.
const TOLD_FOR: Span = Span::from_secs(5);
/// A replica that is cut off from its machines is not active for so long; then it is tried again.
const BLIND_FOR: Span = Span::from_secs(60);
/// So many machines have to be silent, or doubtful, before that is put down to who polls them.
const BLIND_MIN: u32 = 3;

/// The link shard, and who is active.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) shard: LinkShard,
    me: ReplicaId,
    /// How machines are spread, as the leader last said.
    spread: Arc<Spread>,
    /// When it did.
    told: Time,
    /// When each replica was last heard of.
    heard: BTreeMap<ReplicaId, Time>,
    /// When the leader says it again.
    say: Time,
    /// Who seems to be cut off from its machines, and since when; for how long it has to seem so, in
    /// which each machine of the others is polled at least once.
    suspected: Option<(ReplicaId, Time)>,
    suspect_for: Span,
    /// Until when these are not active, as they were cut off.
    blind: BTreeMap<ReplicaId, Time>,
}

/// How a replica's machines answer it.
#[derive(Clone, Copy, Debug, Default)]
struct Answered {
    all: u32,
    failing: u32,
}

/// Who is not answered by most of its machines while nearly all of the others' answer: it is cut off
/// from machines, and they are not gone.
fn blind(
    active: &[ReplicaId],
    reachabilities: impl Iterator<Item = (MachineId, Reachability)>,
) -> Option<ReplicaId> {
    let mut parts: BTreeMap<ReplicaId, Answered> = BTreeMap::new();
    let mut cell = Answered::default();
    for (machine, reachability) in reachabilities {
        let Some(owner) = owner(machine, active) else { continue };
        let failing =
            u32::from(matches!(reachability, Reachability::Doubtful | Reachability::Silent));
        for count in [&mut cell, parts.entry(owner).or_default()] {
            count.all += 1;
            count.failing += failing;
        }
    }
    let is_blind = |partition: &Answered| {
        let (others, failing) = (cell.all - partition.all, cell.failing - partition.failing);
        partition.failing >= BLIND_MIN
            && partition.failing * 2 > partition.all
            && others > failing * 4
    };
    parts.into_iter().find(|(_, partition)| is_blind(partition)).map(|(replica, _)| replica)
}

impl Links {
    pub(crate) fn new(me: ReplicaId, settings: Settings) -> Self {
        Self {
            shard: LinkShard::new(settings),
            me,
            spread: Arc::default(),
            told: Time::ZERO,
            heard: BTreeMap::new(),
            say: Time::ZERO,
            suspected: None,
            suspect_for: settings.poll_interval.saturating_mul(2),
            blind: BTreeMap::new(),
        }
    }

    /// Something came from another replica.
    pub(crate) fn hear(&mut self, now: Time, from: ReplicaId) {
        self.heard.insert(from, now);
    }

    /// Whether a replica was heard of lately, as this one always is. Consensus has a flag for that too, but
    /// it clears the flag of every replica twice a second, until the next answer.
    pub(crate) fn hears(&self, now: Time, replica: ReplicaId) -> bool {
        let heard = self.heard.get(&replica);
        replica == self.me || heard.is_some_and(|at| now.since(*at) < ACTIVE_FOR)
    }

    /// The leader said how machines are spread.
    pub(crate) fn told(&mut self, now: Time, cell: &Cell, spread: Arc<Spread>) {
        self.told = now;
        self.spread = spread;
        self.shard.serve(now, cell, Some(self.part_of(self.me)));
    }

    /// This replica leads from now on. Each of the others is given time to be heard of: an election
    /// alone moves no machine.
    pub(crate) fn lead(&mut self, now: Time, cell: &Cell) {
        self.heard.extend(cell.voters().chain(cell.learners()).map(|other| (other, now)));
        self.suspected = None;
        self.blind.clear();
        self.say = now;
    }

    /// Looks who is cut off from its machines.
    fn suspect(
        &mut self,
        now: Time,
        reachabilities: impl Iterator<Item = (MachineId, Reachability)>,
    ) {
        let seems = blind(&self.spread.active, reachabilities);
        self.suspected = match (seems, self.suspected) {
            (Some(seems), Some((id, since))) if seems == id => Some((id, since)),
            (seems, _) => seems.map(|id| (id, now)),
        };
        if let Some((id, since)) = self.suspected
            && now.since(since) >= self.suspect_for
        {
            self.blind.insert(id, now + BLIND_FOR);
            self.suspected = None;
        }
    }

    /// Who is to be told how machines are spread, where it is time to say so, or that has changed: a
    /// replica is no longer active, or is again, or machines are polled by others as well. `reachabilities`
    /// are what this replica's own shard has to say, as the leader.
    pub(crate) fn say(
        &mut self,
        now: Time,
        cell: &Cell,
        master: &mut Master,
        reachabilities: &[(MachineId, Reachability)],
    ) -> Option<(Vec<ReplicaId>, Arc<Spread>)> {
        if now >= self.say {
            self.blind.retain(|_, until| *until > now);
            self.suspect(now, master.reachabilities());
        }
        let active = cell.voters().filter(|id| self.hears(now, *id));
        let active: Vec<_> = active.filter(|id| !self.blind.contains_key(id)).collect();
        master.spread(now, &active);
        master.heard(now, cell, self.me, reachabilities);
        let spread = Spread { active, seconds: master.seconds().cloned().collect() };
        if spread == *self.spread && now < self.say {
            self.told = now;
            return None;
        }
        self.say = now + SAY_EVERY;
        self.told(now, cell, Arc::new(spread));
        let all = cell.voters().chain(cell.learners());
        Some((all.filter(|id| *id != self.me).collect(), Arc::clone(&self.spread)))
    }

    /// One that has lost its leader polls nobody: who leads elsewhere has given its machines to others.
    pub(crate) fn tick(&mut self, now: Time, cell: &Cell) {
        if now.since(self.told) > TOLD_FOR && self.shard.partition().is_some() {
            self.shard.serve(now, cell, None);
        }
    }

    pub(crate) fn spread(&self) -> &Arc<Spread> {
        &self.spread
    }

    /// What a replica polls.
    pub(crate) fn part_of(&self, replica: ReplicaId) -> Partition {
        Partition { me: replica, spread: Arc::clone(&self.spread) }
    }
}
