//! Unresponsive machines: which are silent, which are marked down and when, and when too many are
//! silent to mark any down.
//!
//! A machine that misses the maximum number of polls of its link shard is unreachable at once. It
//! is down when there are tokens for its tasks ([`crate::rate`]), longest unreachable first. If
//! more than a given share of the machines that were up is unreachable, a network partition or an
//! isolated master is more likely than the loss of all of them: then none is marked down until they
//! answer again or an operator overrides this. When the first of them answer, the others may be
//! about to: each must miss all its polls again. Machines that fail together do not miss their
//! polls at exactly the same time, so machines whose last poll failed count as well when deciding
//! whether the first may go down.
//!
//! Messages between shards and the leader may be lost, and are repeated. A machine that should
//! begin anew but is still reported silent has a shard that missed the message: it is sent again.
//!
//! The counts are updated incrementally with every message and operation, to scale to large cells.

use std::collections::{BTreeMap, BTreeSet};

use cell::{Cell, MachineState, Op, Rescheduling};
use model::{MachineId, Time};

use crate::proposal::Proposal;
use crate::rate::Bucket;
use crate::{Action, Reachability, Settings};

/// How a machine is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MachineStanding {
    /// Not expected to answer: it has not joined yet, or is down.
    #[default]
    Away,
    /// Its last poll was answered.
    Answers,
    /// Its last poll failed, or none has completed yet.
    Doubtful,
    /// It is unreachable in the cell.
    Unreachable,
}

/// The leader's knowledge of one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WatchedMachine {
    /// Its reachability, combined from all reports.
    reachability: Reachability,
    standing: MachineStanding,
    /// Its position among the machines that wait to be marked down: since when it is unreachable.
    waits: Option<Time>,
    /// The proposal to mark it down.
    down: Proposal,
}

/// The leader's knowledge about unresponsive machines.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    machines: BTreeMap<MachineId, WatchedMachine>,
    counts: StandingCounts,
    /// Machines that are unreachable in the cell and silent.
    waiting: BTreeSet<(Time, MachineId)>,
    bucket: Bucket,
    /// The proposal to stop or allow rescheduling.
    breaker: Proposal,
    /// When the proposals to mark machines down count as lost.
    again: BTreeSet<(Time, MachineId)>,
    /// Machines whose shards must be told that they begin anew, and those whose shards were told
    /// and have reported nothing but silence since.
    to_tell: BTreeSet<MachineId>,
    told: BTreeSet<MachineId>,
    /// When there are tokens for the first waiting machine.
    wake: Option<Time>,
}

/// What to do with the waiting machines.
enum Verdict {
    /// Nothing for now.
    Wait,
    /// Mark them down at the limited rate.
    Lose,
    /// The cell answers again, and they may be about to: begin anew.
    BeginAnew,
}

/// The number of machines by standing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StandingCounts {
    answer: u32,
    doubtful: u32,
    unreachable: u32,
}

impl StandingCounts {
    fn of(&mut self, standing: MachineStanding) -> Option<&mut u32> {
        match standing {
            MachineStanding::Away => None,
            MachineStanding::Answers => Some(&mut self.answer),
            MachineStanding::Doubtful => Some(&mut self.doubtful),
            MachineStanding::Unreachable => Some(&mut self.unreachable),
        }
    }

    /// Counts a machine under another standing.
    fn change(&mut self, before: MachineStanding, now: MachineStanding) {
        if before == now {
            return;
        }
        if let Some(count) = self.of(before) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = self.of(now) {
            *count = count.saturating_add(1);
        }
    }

    /// The number of machines that should answer.
    fn all(&self) -> u32 {
        self.answer.saturating_add(self.doubtful).saturating_add(self.unreachable)
    }
}

/// Whether too many of the machines are silent to mark any down.
fn too_many(settings: &Settings, silent: u32, of: u32) -> bool {
    silent >= settings.silent_machines_min && settings.silent_share_max.is_less_than(silent, of)
}

impl Lost {
    /// The state of a new leader, which has not heard of any machine yet.
    pub(crate) fn new(now: Time, cell: &Cell) -> Self {
        let mut lost = Self {
            machines: BTreeMap::new(),
            counts: StandingCounts::default(),
            waiting: BTreeSet::new(),
            bucket: Bucket::empty(now),
            breaker: Proposal::None,
            again: BTreeSet::new(),
            to_tell: BTreeSet::new(),
            told: BTreeSet::new(),
            wake: None,
        };
        cell.machines().for_each(|machine| lost.count(now, cell, machine.id));
        lost
    }

    /// Updates how a machine is counted. Call it whenever the cell or the reachability of the
    /// machine may have changed.
    pub(crate) fn count(&mut self, now: Time, cell: &Cell, id: MachineId) {
        let Some(state) = cell.machine(id).map(|machine| machine.state) else {
            return self.forget(id);
        };
        let machine = self.machines.entry(id).or_default();
        let standing = match state {
            MachineState::Joining | MachineState::Down { .. } => MachineStanding::Away,
            MachineState::Up if machine.reachability == Reachability::Answers => {
                MachineStanding::Answers
            }
            MachineState::Up => MachineStanding::Doubtful,
            MachineState::Unreachable { .. } => MachineStanding::Unreachable,
        };
        let waits = match state {
            MachineState::Unreachable { since } => Some(since),
            _ => None,
        };
        let is_silent =
            machine.reachability == Reachability::Silent && !machine.down.is_awaited(now);
        let waits = waits.filter(|_| is_silent);
        let before = std::mem::replace(&mut machine.standing, standing);
        let waited = std::mem::replace(&mut machine.waits, waits);
        self.counts.change(before, standing);
        if waited != waits {
            waited.map(|since| self.waiting.remove(&(since, id)));
            waits.map(|since| self.waiting.insert((since, id)));
        }
    }

    /// A machine was removed.
    fn forget(&mut self, id: MachineId) {
        let Some(machine) = self.machines.remove(&id) else { return };
        self.counts.change(machine.standing, MachineStanding::Away);
        machine.waits.map(|since| self.waiting.remove(&(since, id)));
        self.to_tell.remove(&id);
        self.told.remove(&id);
    }

    /// The number of machines that answer.
    pub(crate) fn answering(&self) -> u32 {
        self.counts.answer
    }

    /// Whether every machine that is up has answered.
    pub(crate) fn all_answer(&self) -> bool {
        self.counts.doubtful == 0
    }

    /// The machines that should answer.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = MachineId> {
        let should = |watched: &WatchedMachine| watched.standing != MachineStanding::Away;
        self.machines.iter().filter(move |(_, watched)| should(watched)).map(|(id, _)| *id)
    }

    /// The reachability of a machine.
    pub(crate) fn reachability(&self, machine: MachineId) -> Reachability {
        self.machines.get(&machine).map(|machine| machine.reachability).unwrap_or_default()
    }

    /// A machine's own replica reported its reachability. Returns whether the report takes account
    /// of what the shard was told; otherwise the shard is told again, and the report does not
    /// count.
    pub(crate) fn has_heard(&mut self, id: MachineId, reachability: Reachability) -> bool {
        if reachability != Reachability::Silent {
            self.told.remove(&id);
        } else if self.told.contains(&id) {
            self.to_tell.insert(id);
            return false;
        }
        true
    }

    /// Updates the combined reachability of a machine.
    pub(crate) fn hear(
        &mut self,
        now: Time,
        cell: &Cell,
        id: MachineId,
        reachability: Reachability,
    ) {
        let Some(machine) = self.machines.get_mut(&id) else { return };
        if machine.reachability != reachability {
            machine.reachability = reachability;
            self.count(now, cell, id);
        }
    }

    /// An operation was applied.
    pub(crate) fn settle(&mut self, op: &Op) {
        match op {
            Op::StopRescheduling { .. } | Op::AllowRescheduling => self.breaker.end(),
            Op::MachineUnreachable { machine }
            | Op::MachineSilent { machine }
            | Op::MachineBack { machine } => {
                if let Some(machine) = self.machines.get_mut(machine) {
                    machine.down.end();
                }
            }
            _ => {}
        }
    }

    /// Decides whether machines may be marked down now, and proposes changes of the circuit
    /// breaker.
    fn verdict(
        &mut self,
        now: Time,
        cell: &Cell,
        settings: &Settings,
        actions: &mut Vec<Action>,
    ) -> Verdict {
        let StandingCounts { doubtful, unreachable: silent, .. } = self.counts;
        let of = self.counts.all();
        let broken = too_many(settings, silent, of);
        let (change, verdict) = match (cell.rescheduling(), broken) {
            (Rescheduling::Allowed, true) => {
                (Some(Op::StopRescheduling { silent, of }), Verdict::Wait)
            }
            // Machines that fell silent with them may be about to become unreachable, too.
            (Rescheduling::Allowed, false) => {
                match too_many(settings, silent.saturating_add(doubtful), of) {
                    true => (None, Verdict::Wait),
                    false => (None, Verdict::Lose),
                }
            }
            (Rescheduling::Stopped { .. }, true) => (None, Verdict::Wait),
            (Rescheduling::Stopped { .. }, false) => {
                (Some(Op::AllowRescheduling), Verdict::BeginAnew)
            }
            (Rescheduling::Resumed { .. }, true) => (None, Verdict::Lose),
            (Rescheduling::Resumed { .. }, false) => (Some(Op::AllowRescheduling), Verdict::Lose),
        };
        if !self.breaker.is_awaited(now) {
            match change {
                Some(op) => {
                    self.breaker.make(now, settings);
                    actions.push(Action::Propose(op));
                }
                None => self.breaker.end(),
            }
        }
        verdict
    }

    /// Marks machines down that are silent for too long, as far as allowed. Returns those that
    /// begin anew.
    pub(crate) fn lose(
        &mut self,
        now: Time,
        cell: &Cell,
        settings: &Settings,
        actions: &mut Vec<Action>,
    ) -> Vec<MachineId> {
        self.wake = None;
        self.bucket.fill(now, settings);
        while let Some((again, machine)) = self.again.first().copied()
            && again <= now
        {
            self.again.pop_first();
            self.count(now, cell, machine);
        }
        match self.verdict(now, cell, settings, actions) {
            Verdict::Wait => {}
            Verdict::Lose => self.lose_at_rate(now, cell, settings, actions),
            Verdict::BeginAnew => self.begin_anew(),
        }
        let tell: Vec<MachineId> = std::mem::take(&mut self.to_tell).into_iter().collect();
        if !tell.is_empty() {
            self.told.extend(&tell);
            actions.push(Action::BeginAnew(tell.clone()));
        }
        tell
    }

    /// Marks machines down as far as there are tokens for their tasks.
    fn lose_at_rate(
        &mut self,
        now: Time,
        cell: &Cell,
        settings: &Settings,
        actions: &mut Vec<Action>,
    ) {
        while let Some((_, machine)) = self.waiting.first().copied() {
            let tasks = cell.machine(machine).map_or(0, |known| known.instances().len());
            if let Err(wake) = self.bucket.take(tasks, settings) {
                self.wake = wake;
                return;
            }
            self.goes(now, machine, settings, actions);
        }
    }

    /// Marks the first waiting machine down.
    fn goes(
        &mut self,
        now: Time,
        machine: MachineId,
        settings: &Settings,
        actions: &mut Vec<Action>,
    ) {
        self.waiting.pop_first();
        actions.push(Action::Propose(Op::MachineSilent { machine }));
        if let Some(watched) = self.machines.get_mut(&machine) {
            watched.waits = None;
            watched.down.make(now, settings);
            self.again.extend(watched.down.again().map(|again| (again, machine)));
        }
    }

    /// Requires all waiting machines to miss all their polls again.
    fn begin_anew(&mut self) {
        for (_, machine) in std::mem::take(&mut self.waiting) {
            if let Some(watched) = self.machines.get_mut(&machine) {
                (watched.waits, watched.reachability) = (None, Reachability::Unknown);
            }
            self.to_tell.insert(machine);
        }
    }

    /// When something is due next, unless something is heard or applied before.
    pub(crate) fn next(&self) -> Option<Time> {
        let again = self.again.first().map(|(again, _)| *again);
        [self.wake, again, self.breaker.again()].into_iter().flatten().min()
    }
}

#[cfg(test)]
impl Lost {
    /// Whether the incremental counts equal a recount.
    pub(crate) fn is_right(&self, now: Time, cell: &Cell) -> bool {
        let mut anew = Self::new(now, &Cell::empty());
        for (id, machine) in &self.machines {
            let (reachability, down) = (machine.reachability, machine.down);
            anew.machines
                .insert(*id, WatchedMachine { reachability, down, ..WatchedMachine::default() });
            anew.count(now, cell, *id);
        }
        (anew.counts, anew.waiting, anew.machines)
            == (self.counts, self.waiting.clone(), self.machines.clone())
    }
}
