//! The link shard of a replica, and who of the replicas is active as the leader says: machines are
//! spread over those ([`LinkShard`] has the whole protocol).

use std::collections::BTreeMap;

use cell::Cell;
use master::{LinkShard, Part, Settings};
use model::{ReplicaId, Span, Time};

/// A replica of which the leader has heard nothing for so long is not active.
const ACTIVE_FOR: Span = Span::from_millis(1_500);
/// How often the leader says who is active, where nothing has changed.
const SAY_EVERY: Span = Span::from_millis(500);
/// A replica that has heard nothing of a leader for so long polls no machine: others do, by then.
const TOLD_FOR: Span = Span::from_secs(5);

/// The link shard, and who is active.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) shard: LinkShard,
    me: ReplicaId,
    /// Over whom machines are spread, as the leader last said.
    active: Vec<ReplicaId>,
    /// When it did.
    told: Time,
    /// When each replica was last heard of.
    heard: BTreeMap<ReplicaId, Time>,
    /// When the leader says it again.
    say: Time,
}

impl Links {
    pub(crate) fn new(me: ReplicaId, settings: Settings) -> Self {
        Self {
            shard: LinkShard::new(settings),
            me,
            active: Vec::new(),
            told: Time::ZERO,
            heard: BTreeMap::new(),
            say: Time::ZERO,
        }
    }

    /// Something came from another replica.
    pub(crate) fn hear(&mut self, now: Time, from: ReplicaId) {
        self.heard.insert(from, now);
    }

    /// The leader said who is active.
    pub(crate) fn told(&mut self, now: Time, cell: &Cell, active: Vec<ReplicaId>) {
        self.told = now;
        self.active = active;
        let part = Part { me: self.me, active: self.active.clone() };
        self.shard.serve(now, cell, Some(part));
    }

    /// This replica leads from now on. Each of the others is given time to be heard of: an election
    /// alone moves no machine.
    pub(crate) fn lead(&mut self, now: Time, cell: &Cell) {
        self.heard.extend(cell.voters().map(|voter| (voter, now)));
        self.say = now;
    }

    /// Who is to be told that these are active, where it is time to say so, or somebody is no longer,
    /// or is again.
    pub(crate) fn say(
        &mut self,
        now: Time,
        cell: &Cell,
    ) -> Option<(Vec<ReplicaId>, Vec<ReplicaId>)> {
        let heard =
            |id: &ReplicaId| self.heard.get(id).is_some_and(|at| now.since(*at) < ACTIVE_FOR);
        let active: Vec<_> = cell.voters().filter(|id| *id == self.me || heard(id)).collect();
        if active == self.active && now < self.say {
            self.told = now;
            return None;
        }
        self.say = now + SAY_EVERY;
        self.told(now, cell, active.clone());
        let all = cell.voters().chain(cell.learners());
        Some((all.filter(|id| *id != self.me).collect(), active))
    }

    /// One that has lost its leader polls nobody: who leads elsewhere has given its machines to others.
    pub(crate) fn tick(&mut self, now: Time, cell: &Cell) {
        if now.since(self.told) > TOLD_FOR && self.shard.part().is_some() {
            self.shard.serve(now, cell, None);
        }
    }

    pub(crate) fn active(&self) -> &[ReplicaId] {
        &self.active
    }

    /// What another replica polls.
    pub(crate) fn part_of(&self, replica: ReplicaId) -> Part {
        Part { me: replica, active: self.active.clone() }
    }
}
