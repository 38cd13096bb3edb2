//! The Borgmaster's decisions beside the cell (paper, sections 3.1 and 3.3): which machine to poll
//! when, what to order it, what its report means for the cell, when it counts as unreachable and
//! when as down, and when dead jobs are forgotten.
//!
//! A [`Master`] is deterministic: moments are arguments, and what it wants is returned as
//! [`Wish`]es: operations to propose and polls to make. What it remembers about machines is not
//! part of the cell's state; a new leader begins with nothing but the cell and asks every machine.
//!
//! What is deliberately absent: the cell's rules (crate `cell`), consensus (crate `replica`),
//! sockets and clocks.

mod link;
mod lost;
mod observe;
mod order;
mod rate;
mod share;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borglet::{Order, Report};
use cell::{Cell, JobState, LOST_MACHINES, MachineState, Mutation, Op};
use model::{CollectionId, LogIndex, MachineId, MachineName, Span, Stamp, Time};

use link::Link;
use lost::{Decided, Lost};
pub use share::{NoShare, Share};

/// What a master is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a Borglet may keep an answer back while it has no news; then it is polled again.
    pub poll_interval: Span,
    /// The shortest time between an answer and the next poll, which bounds how often a machine
    /// with much news is asked.
    pub poll_spacing: Span,
    /// How many polls in a row must fail before a machine is unreachable.
    pub missed_polls_max: u32,
    /// How many tasks a second are taken from machines that are unreachable, to run elsewhere; at 0,
    /// no machine that has tasks is marked down.
    pub reschedule_rate: u32,
    /// How many tasks are taken at once, where none were for a while.
    pub reschedule_burst: u32,
    /// How many machines must be unreachable at least before rescheduling stops.
    pub silent_machines_min: u32,
    /// Of the machines that were up, how many may be unreachable before rescheduling stops.
    pub silent_share_max: Share,
    /// How long dead jobs are kept.
    pub dead_jobs_for: Span,
    /// How many dead jobs are kept at most.
    pub dead_jobs_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            poll_interval: Span::from_secs(2),
            poll_spacing: Span::from_millis(5),
            missed_polls_max: 5,
            reschedule_rate: 10,
            reschedule_burst: 100,
            silent_machines_min: 3,
            silent_share_max: Share::THIRD,
            dead_jobs_for: Span::from_secs(24 * 3_600),
            dead_jobs_max: 10_000,
        }
    }
}

/// Something that the master wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Propose an operation.
    Propose(Op),
    /// Poll a machine; an answer or a failure must follow.
    Poll(Poll),
}

/// A poll of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poll {
    /// Which machine.
    pub machine: MachineId,
    /// Its name, which its Borglet's certificate must bear.
    pub name: MachineName,
    /// Where its Borglet answers.
    pub address: Arc<str>,
    /// A new order, if there is one.
    pub order: Option<Order>,
    /// How long the answer may be kept back while there is no news.
    pub hold: Span,
    /// The version of the report that was seen last.
    pub seen: u64,
}

/// What became of a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The machine reported.
    Report {
        /// Its full state.
        report: Arc<Report>,
        /// The version of it.
        version: u64,
    },
    /// It did not answer, or not well.
    Failed,
}

/// How long after one search for dead jobs the next is made.
const FORGET_INTERVAL: Span = Span::from_secs(10);
/// How many dead jobs one operation forgets at most.
const FORGET_BATCH: usize = 1_000;

/// The elected master.
#[derive(Clone, Debug)]
pub struct Master {
    settings: Settings,
    leading: Option<Leading>,
}

/// What a leader knows beside the cell.
#[derive(Clone, Debug)]
struct Leading {
    since: Stamp,
    links: BTreeMap<MachineId, Link>,
    due: BTreeSet<(Time, MachineId)>,
    lost: Lost,
    forget: Time,
}

impl Master {
    /// A master that does not lead.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, leading: None }
    }

    /// It leads from now on: its first entry is committed, so that every order it issues reflects
    /// all that was ever acknowledged (design, section 4).
    pub fn lead(&mut self, now: Time, since: Stamp, cell: &Cell) {
        let mut leading = Leading {
            since,
            links: BTreeMap::new(),
            due: BTreeSet::new(),
            lost: Lost::new(now),
            forget: now + FORGET_INTERVAL,
        };
        for machine in cell.machines() {
            leading.join(now, cell, machine.id, since.index, &self.settings);
        }
        self.leading = Some(leading);
    }

    /// It leads no longer: it wants nothing any more.
    pub fn follow(&mut self) {
        self.leading = None;
    }

    /// Whether it leads.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        self.leading.is_some()
    }

    /// An operation has been applied.
    pub fn applied(
        &mut self,
        now: Time,
        cell: &Cell,
        op: &Op,
        reordered: &[MachineId],
        wishes: &mut Vec<Wish>,
    ) {
        let settings = &self.settings;
        let Some(leading) = &mut self.leading else { return };
        let index = cell.index();
        match op {
            Op::Observe { machine, .. }
            | Op::DescribeMachine { machine, .. }
            | Op::MachineUnreachable { machine }
            | Op::MachineSilent { machine }
            | Op::MachineBack { machine } => {
                leading.settle(cell, *machine, op, settings, wishes);
            }
            Op::StopRescheduling { .. } | Op::AllowRescheduling => leading.lost.settle(),
            _ => {}
        }
        for machine in reordered {
            if let Some(link) = leading.links.get_mut(machine) {
                link.reordered = index;
                link.agrees = false;
                leading.schedule(now, *machine);
            }
        }
        let joins = |mutation: &Mutation| {
            matches!(mutation, Mutation::AddMachine { .. } | Mutation::RemoveMachine { .. })
        };
        if let Op::Request { mutation, .. } = op
            && joins(mutation)
        {
            leading.join_new(now, cell, index, settings);
        }
    }

    /// A poll was answered, or was not.
    pub fn answered(
        &mut self,
        now: Time,
        cell: &Cell,
        machine: MachineId,
        had_order: bool,
        answer: &Answer,
        wishes: &mut Vec<Wish>,
    ) {
        let settings = self.settings;
        let Some(leading) = &mut self.leading else { return };
        let Some(link) = leading.links.get_mut(&machine) else { return };
        link.answered(now, had_order, answer, &settings);
        let state = cell.machine(machine).map(|machine| machine.state);
        let change = match (answer, state) {
            (Answer::Failed, Some(MachineState::Up))
                if link.missed >= settings.missed_polls_max =>
            {
                Some(match cell.level() >= LOST_MACHINES {
                    true => Op::MachineUnreachable { machine },
                    false => Op::MachineSilent { machine },
                })
            }
            (
                Answer::Report { .. },
                Some(MachineState::Unreachable { .. } | MachineState::Down { .. }),
            ) => Some(Op::MachineBack { machine }),
            _ => None,
        };
        if let Some(op) = change
            && !link.state_proposed
        {
            link.state_proposed = true;
            wishes.push(Wish::Propose(op));
        }
        if let Answer::Report { .. } = answer
            && !link.agrees
        {
            observe::compare(cell, machine, link, leading.since, wishes);
        }
        leading.lost.count(machine, link, state, &settings);
        let next = link.next_poll;
        leading.due.insert((next, machine));
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Time, cell: &Cell, wishes: &mut Vec<Wish>) {
        let settings = self.settings;
        let Some(leading) = &mut self.leading else { return };
        while let Some((due, machine)) = leading.due.first().copied()
            && due <= now
        {
            leading.due.pop_first();
            if let Some(link) = leading.links.get_mut(&machine)
                && let Some(poll) = link.poll(now, cell, machine, leading.since, &settings)
            {
                wishes.push(Wish::Poll(poll));
            }
        }
        leading.lose(now, cell, &settings, wishes);
        if leading.forget <= now {
            leading.forget = now + FORGET_INTERVAL;
            let collections = forgettable(&settings, now, cell);
            if !collections.is_empty() {
                wishes.push(Wish::Propose(Op::Forget { collections }));
            }
        }
    }

    /// When [`Master::tick`] has something to do next.
    #[must_use]
    pub fn next_tick(&self) -> Option<Time> {
        let leading = self.leading.as_ref()?;
        let poll = leading.due.first().map(|(due, _)| *due);
        [poll, leading.lost.wake, Some(leading.forget)].into_iter().flatten().min()
    }
}

impl Leading {
    fn join(
        &mut self,
        now: Time,
        cell: &Cell,
        machine: MachineId,
        index: LogIndex,
        settings: &Settings,
    ) {
        let mut link = Link::new(now, index);
        let state = cell.machine(machine).map(|machine| machine.state);
        self.lost.count(machine, &mut link, state, settings);
        self.links.insert(machine, link);
        self.schedule(now, machine);
    }

    /// Marks machines down that are silent for too long, as far as that may be.
    fn lose(&mut self, now: Time, cell: &Cell, settings: &Settings, wishes: &mut Vec<Wish>) {
        let Decided { gone, anew } = self.lost.lose(now, cell, settings, wishes);
        for machine in gone {
            if let Some(link) = self.links.get_mut(&machine) {
                link.state_proposed = true;
            }
        }
        for machine in anew {
            if let Some(link) = self.links.get_mut(&machine) {
                link.missed = 0;
            }
        }
    }

    /// An operation about one machine is applied.
    fn settle(
        &mut self,
        cell: &Cell,
        machine: MachineId,
        op: &Op,
        settings: &Settings,
        wishes: &mut Vec<Wish>,
    ) {
        let Some(link) = self.links.get_mut(&machine) else { return };
        link.settle(op);
        // What it was last seen to report may mean something else now.
        observe::compare(cell, machine, link, self.since, wishes);
        let state = cell.machine(machine).map(|machine| machine.state);
        self.lost.count(machine, link, state, settings);
    }

    /// A machine was added, or removed.
    fn join_new(&mut self, now: Time, cell: &Cell, index: LogIndex, settings: &Settings) {
        let lost = &mut self.lost;
        self.links.retain(|machine, link| {
            let stays = cell.machine(*machine).is_some();
            if !stays {
                lost.count(*machine, link, None, settings);
            }
            stays
        });
        let new: Vec<MachineId> = cell
            .machines()
            .map(|machine| machine.id)
            .filter(|id| !self.links.contains_key(id))
            .collect();
        new.into_iter().for_each(|id| self.join(now, cell, id, index, settings));
    }

    fn schedule(&mut self, at: Time, machine: MachineId) {
        self.due.insert((at, machine));
    }
}

/// Dead jobs that have been kept long enough, or are too many, oldest first.
fn forgettable(settings: &Settings, now: Time, cell: &Cell) -> Vec<CollectionId> {
    let mut dead: Vec<(Time, CollectionId)> = cell
        .jobs()
        .filter_map(|job| match job.state {
            JobState::Dead { at, .. } => Some((at, job.id)),
            _ => None,
        })
        .collect();
    dead.sort_unstable();
    let too_many = dead.len().saturating_sub(settings.dead_jobs_max);
    let old = |(position, (at, _)): &(usize, (Time, CollectionId))| {
        *position < too_many || now.since(*at) >= settings.dead_jobs_for
    };
    dead.into_iter().enumerate().take_while(old).map(|(_, (_, id))| id).take(FORGET_BATCH).collect()
}

#[cfg(test)]
mod tests;
