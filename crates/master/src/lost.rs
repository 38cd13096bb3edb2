//! Machines that do not answer: which count as silent, which are marked down and when, and when so
//! many are silent that none is.
//!
//! A machine that missed so many polls is unreachable at once, and down when there are tokens for its
//! tasks ([`crate::rate`]), those first that have been unreachable for longest. Where more than a
//! share of the machines that were up is unreachable, it is more likely that the network or this
//! master is cut off than that they are all gone: nothing is marked down then, until they answer
//! again or a person says otherwise. When the first of them answer, the others may be about to: each
//! of them is given all its polls once more. And as those that fail together do not miss their polls at the
//! very same moment, machines whose last poll failed count as well while it is decided whether the
//! first of them may go down.
//!
//! The counts are kept with every answer and every operation, so that neither costs more in a large
//! cell.

use std::collections::BTreeSet;

use cell::{Cell, LOST_MACHINES, MachineState, Op, Rescheduling};
use model::{MachineId, Time};

use crate::link::Link;
use crate::rate::Bucket;
use crate::{Settings, Wish};

/// What a machine counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Not among those that should answer: it has not joined yet, or is down.
    Away,
    /// Its last poll was answered.
    Answers,
    /// Its last poll was not, or there was none yet.
    Doubtful,
    /// It is unreachable in the cell.
    Unreachable {
        /// Since when.
        since: Time,
    },
}

/// What the leader knows about machines that do not answer.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    counts: Counts,
    /// Those that are unreachable in the cell and missed enough polls of this leader.
    waiting: BTreeSet<(Time, MachineId)>,
    bucket: Bucket,
    /// That rescheduling is stopped, or allowed again, is proposed and not yet applied.
    breaker_proposed: bool,
    /// When there are tokens for the first that waits.
    pub(crate) wake: Option<Time>,
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

/// What was decided about machines.
#[derive(Debug, Default)]
pub(crate) struct Decided {
    /// They are to be down, which is proposed.
    pub(crate) gone: Vec<MachineId>,
    /// They are to miss all their polls once more before they can be.
    pub(crate) anew: Vec<MachineId>,
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
            Standing::Unreachable { .. } => Some(&mut self.unreachable),
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
    pub(crate) fn new(now: Time) -> Self {
        Self {
            counts: Counts::default(),
            waiting: BTreeSet::new(),
            bucket: Bucket::empty(now),
            breaker_proposed: false,
            wake: None,
        }
    }

    /// Counts a machine as what it is now, by the cell and by its answers. To be called whenever one
    /// of the two may have changed.
    pub(crate) fn count(
        &mut self,
        id: MachineId,
        link: &mut Link,
        state: Option<MachineState>,
        settings: &Settings,
    ) {
        let now = match state {
            None | Some(MachineState::Joining | MachineState::Down { .. }) => Standing::Away,
            Some(MachineState::Up) if link.answers() => Standing::Answers,
            Some(MachineState::Up) => Standing::Doubtful,
            Some(MachineState::Unreachable { since }) => Standing::Unreachable { since },
        };
        let before = std::mem::replace(&mut link.standing, now);
        if before != now {
            if let Some(count) = self.counts.of(before) {
                *count = count.saturating_sub(1);
            }
            if let Some(count) = self.counts.of(now) {
                *count = count.saturating_add(1);
            }
        }
        if let Standing::Unreachable { since } = before {
            self.waiting.remove(&(since, id));
        }
        if let Standing::Unreachable { since } = now
            && link.missed >= settings.missed_polls_max
            && !link.state_proposed
        {
            self.waiting.insert((since, id));
        }
    }

    /// An operation of the breaker is applied.
    pub(crate) fn settle(&mut self) {
        self.breaker_proposed = false;
    }

    /// Whether machines may be marked down now. Wishes for what changes that.
    fn verdict(&mut self, cell: &Cell, settings: &Settings, wishes: &mut Vec<Wish>) -> Verdict {
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
        if let Some(op) = change
            && !self.breaker_proposed
        {
            self.breaker_proposed = true;
            wishes.push(Wish::Propose(op));
        }
        verdict
    }

    /// Who goes down now: those for whose tasks there are tokens, while machines may be marked down
    /// at all. Or else who has to miss all its polls once more.
    pub(crate) fn lose(
        &mut self,
        now: Time,
        cell: &Cell,
        settings: &Settings,
        wishes: &mut Vec<Wish>,
    ) -> Decided {
        self.wake = None;
        self.bucket.fill(now, settings);
        let mut decided = Decided::default();
        if cell.level() < LOST_MACHINES {
            return decided;
        }
        match self.verdict(cell, settings, wishes) {
            Verdict::Wait => return decided,
            Verdict::BeginAnew => {
                let waiting = std::mem::take(&mut self.waiting);
                decided.anew = waiting.into_iter().map(|(_, machine)| machine).collect();
                return decided;
            }
            Verdict::Lose => {}
        }
        while let Some((_, machine)) = self.waiting.first().copied() {
            let tasks = cell.machine(machine).map_or(0, |known| known.instances().len());
            if let Err(wake) = self.bucket.take(tasks, settings) {
                self.wake = wake;
                break;
            }
            self.waiting.pop_first();
            wishes.push(Wish::Propose(Op::MachineSilent { machine }));
            decided.gone.push(machine);
        }
        decided
    }
}

#[cfg(test)]
impl Lost {
    /// Whether the counts that are kept are those that a count from the start gives.
    pub(crate) fn is_right<'a>(
        &self,
        cell: &Cell,
        links: impl Iterator<Item = (&'a MachineId, &'a Link)>,
        settings: &Settings,
    ) -> bool {
        let mut anew = Self::new(Time::ZERO);
        for (id, link) in links {
            let mut link = link.clone();
            link.standing = Standing::Away;
            anew.count(*id, &mut link, cell.machine(*id).map(|known| known.state), settings);
        }
        (anew.counts, anew.waiting) == (self.counts, self.waiting.clone())
    }
}
