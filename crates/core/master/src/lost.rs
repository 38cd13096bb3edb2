//! Machines that do not answer: which count as silent, which are marked down and when, and when so
//! many are silent that none is.
//!
//! A machine that missed so many polls of its link shard is unreachable at once, and down when there
//! are tokens for its tasks ([`crate::rate`]), those first that have been unreachable for longest. Where more than a
//! share of the machines that were up is unreachable, it is more likely that the network or this
//! master is cut off than that they are all gone: nothing is marked down then, until they answer
//! again or a person says otherwise. When the first of them answer, the others may be about to: each
//! of them is given all its polls once more. And as those that fail together do not miss their polls at the
//! very same moment, machines whose last poll failed count as well while it is decided whether the
//! first of them may go down.
//!
//! What shards say of their machines may be lost on its way, and so may what they are told; they say it
//! again. Who was to begin anew and is said to be silent as before has not heard of it: it is told again.
//!
//! The counts are kept with everything that is heard and every operation, so that neither costs more
//! in a large cell.

use std::collections::{BTreeMap, BTreeSet};

use cell::{Cell, MachineState, Op, Rescheduling};
use model::{MachineId, Time};

use crate::proposal::Proposal;
use crate::rate::Bucket;
use crate::{Action, Reachability, Settings};

/// What a machine counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    /// Not among those that should answer: it has not joined yet, or is down.
    #[default]
    Away,
    /// Its last poll was answered.
    Answers,
    /// Its last poll was not, or nothing was heard of it yet.
    Doubtful,
    /// It is unreachable in the cell.
    Unreachable,
}

/// What the leader knows of one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Watched {
    /// What it counts as, by all that was said of it.
    reachability: Reachability,
    standing: Standing,
    /// Its place among those that wait to go down: since when it is unreachable.
    waits: Option<Time>,
    /// That it is down.
    down: Proposal,
}

/// What the leader knows about machines that do not answer.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    machines: BTreeMap<MachineId, Watched>,
    counts: Counts,
    /// Those that are unreachable in the cell and silent.
    waiting: BTreeSet<(Time, MachineId)>,
    bucket: Bucket,
    /// That rescheduling is stopped, or allowed again.
    breaker: Proposal,
    /// That one of these is down may be lost.
    again: BTreeSet<(Time, MachineId)>,
    /// Those whose shards are to be told that they begin anew, and those whose were told and have not
    /// said anything else of them yet than that they are silent.
    to_tell: BTreeSet<MachineId>,
    told: BTreeSet<MachineId>,
    /// When there are tokens for the first that waits.
    wake: Option<Time>,
}

/// What becomes of those that wait.
enum Verdict {
    /// Nothing, for now.
    Wait,
    /// They go down, at the limited rate.
    Lose,
    /// The cell answers again, and they may be about to.
    BeginAnew,
}

/// How many machines there are of each standing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    answer: u32,
    doubtful: u32,
    unreachable: u32,
}

impl Counts {
    fn of(&mut self, standing: Standing) -> Option<&mut u32> {
        match standing {
            Standing::Away => None,
            Standing::Answers => Some(&mut self.answer),
            Standing::Doubtful => Some(&mut self.doubtful),
            Standing::Unreachable => Some(&mut self.unreachable),
        }
    }

    /// A machine that counted as one counts as another.
    fn change(&mut self, before: Standing, now: Standing) {
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

    /// How many should answer.
    fn all(&self) -> u32 {
        self.answer.saturating_add(self.doubtful).saturating_add(self.unreachable)
    }
}

/// Whether so many silent machines of so many are too many to be marked down.
fn too_many(settings: &Settings, silent: u32, of: u32) -> bool {
    silent >= settings.silent_machines_min && settings.silent_share_max.is_less_than(silent, of)
}

impl Lost {
    /// A leader that has heard of no machine yet.
    pub(crate) fn new(now: Time, cell: &Cell) -> Self {
        let mut lost = Self {
            machines: BTreeMap::new(),
            counts: Counts::default(),
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

    /// Counts a machine as what it is now, by the cell and by what is heard of it. To be called
    /// whenever one of the two may have changed.
    pub(crate) fn count(&mut self, now: Time, cell: &Cell, id: MachineId) {
        let Some(state) = cell.machine(id).map(|machine| machine.state) else {
            return self.forget(id);
        };
        let machine = self.machines.entry(id).or_default();
        let standing = match state {
            MachineState::Joining | MachineState::Down { .. } => Standing::Away,
            MachineState::Up if machine.reachability == Reachability::Answers => Standing::Answers,
            MachineState::Up => Standing::Doubtful,
            MachineState::Unreachable { .. } => Standing::Unreachable,
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

    /// A machine is removed.
    fn forget(&mut self, id: MachineId) {
        let Some(machine) = self.machines.remove(&id) else { return };
        self.counts.change(machine.standing, Standing::Away);
        machine.waits.map(|since| self.waiting.remove(&(since, id)));
        self.to_tell.remove(&id);
        self.told.remove(&id);
    }

    /// How many machines answer.
    pub(crate) fn answering(&self) -> u32 {
        self.counts.answer
    }

    /// The machines that should answer.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = MachineId> {
        let should = |watched: &Watched| watched.standing != Standing::Away;
        self.machines.iter().filter(move |(_, watched)| should(watched)).map(|(id, _)| *id)
    }

    /// What a machine counts as.
    pub(crate) fn reachability(&self, machine: MachineId) -> Reachability {
        self.machines.get(&machine).map(|machine| machine.reachability).unwrap_or_default()
    }

    /// A machine's own replica says how it answers. Whether that is by what it was told: else it is
    /// told again, and what it says does not count.
    pub(crate) fn has_heard(&mut self, id: MachineId, reachability: Reachability) -> bool {
        if reachability != Reachability::Silent {
            self.told.remove(&id);
        } else if self.told.contains(&id) {
            self.to_tell.insert(id);
            return false;
        }
        true
    }

    /// What a machine counts as from now on, by all that was said of it.
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

    /// An operation is applied.
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

    /// Whether machines may be marked down now. Wishes for what changes that.
    fn verdict(
        &mut self,
        now: Time,
        cell: &Cell,
        settings: &Settings,
        actions: &mut Vec<Action>,
    ) -> Verdict {
        let Counts { doubtful, unreachable: silent, .. } = self.counts;
        let of = self.counts.all();
        let broken = too_many(settings, silent, of);
        let (change, verdict) = match (cell.rescheduling(), broken) {
            (Rescheduling::Allowed, true) => {
                (Some(Op::StopRescheduling { silent, of }), Verdict::Wait)
            }
            // Who fell silent with them may be about to be unreachable too.
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

    /// Marks machines down that are silent for too long, as far as that may be. Those that begin anew.
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

    /// Those go down for whose tasks there are tokens.
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

    /// The first that waits goes down.
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

    /// All that wait have to miss all their polls once more.
    fn begin_anew(&mut self) {
        for (_, machine) in std::mem::take(&mut self.waiting) {
            if let Some(watched) = self.machines.get_mut(&machine) {
                (watched.waits, watched.reachability) = (None, Reachability::Unknown);
            }
            self.to_tell.insert(machine);
        }
    }

    /// When there is something to do next, if nothing is heard or applied before.
    pub(crate) fn next(&self) -> Option<Time> {
        let again = self.again.first().map(|(again, _)| *again);
        [self.wake, again, self.breaker.again()].into_iter().flatten().min()
    }
}

#[cfg(test)]
impl Lost {
    /// Whether the counts that are kept are those that a count from the start gives.
    pub(crate) fn is_right(&self, now: Time, cell: &Cell) -> bool {
        let mut anew = Self::new(now, &Cell::empty());
        for (id, machine) in &self.machines {
            let (reachability, down) = (machine.reachability, machine.down);
            anew.machines.insert(*id, Watched { reachability, down, ..Watched::default() });
            anew.count(now, cell, *id);
        }
        (anew.counts, anew.waiting, anew.machines)
            == (self.counts, self.waiting.clone(), self.machines.clone())
    }
}
