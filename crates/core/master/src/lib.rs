//! The Borgmaster's decisions beside the cell (paper, sections 3.1 and 3.3): which machine to poll
//! when, what to order it, what its report means for the cell, when it counts as unreachable and
//! when as down, and when dead jobs are forgotten.
//!
//! A [`LinkShard`] is what every replica has: it polls the machines of its [`Partition`]. A [`Master`] is what the
//! leader has beside: a list of controllers, one for each kind of periodic work: machines that do not
//! answer are marked down, dead jobs are forgotten. How a replica drives both is with [`LinkShard`].
//!
//! Both are deterministic: moments are arguments, and what they want is returned as [`Action`]es:
//! operations to propose and polls to make. What they remember about machines is not part of the
//! cell's state; a new one begins with nothing but the cell.
//!
//! What is deliberately absent: the cell's rules (crate `cell`), consensus and what replicas say to
//! each other (crate `replica`), sockets and clocks.

mod partition;
mod reachability;
mod shard;

mod link;
mod observe;
mod order;
mod proposal;

mod controller;
mod lost;
mod opinion;
mod rate;
mod share;

use std::sync::Arc;

pub use borglet::Usage;
use borglet::{Order, Report};
use cell::{Cell, MachineState, Mutation, Op};
use model::{MachineId, MachineName, ReplicaId, Span, Time};

use controller::{Controllers, Turn};
pub use partition::{Partition, Second, Spread, owner};
pub use reachability::Reachability;
pub use shard::LinkShard;
pub use share::{NoShare, Share};

/// What link shards and the master are set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a Borglet may keep an answer back while it has no news; then it is polled again.
    pub poll_interval: Span,
    /// The shortest time between an answer and the next poll, which bounds how often a machine
    /// with much news is asked.
    pub poll_spacing: Span,
    /// How many polls in a row must fail before a machine is unreachable.
    pub missed_polls_max: u32,
    /// How long after something was proposed and not applied it is taken to be lost, and proposed
    /// again; the next time twice as long, and so on up to eight times.
    pub propose_again: Span,
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
            propose_again: Span::from_secs(2),
            reschedule_rate: 10,
            reschedule_burst: 100,
            silent_machines_min: 3,
            silent_share_max: Share::THIRD,
            dead_jobs_for: Span::from_secs(24 * 3_600),
            dead_jobs_max: 10_000,
        }
    }
}

/// Something that a link shard or the master wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Propose an operation.
    Propose(Op),
    /// Poll a machine; an answer or a failure must follow.
    Poll(Poll),
    /// Tell the link shards that these machines have to miss all their polls once more before they
    /// are silent ([`LinkShard::begin_anew`]).
    BeginAnew(Vec<MachineId>),
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
        /// What instances use: no news, and of no consequence for the cell.
        usage: Usage,
    },
    /// It did not answer, or not well.
    Failed,
}

/// The elected master: what the leader decides beside its link shard.
#[derive(Clone, Debug)]
pub struct Master {
    settings: Settings,
    /// Where it leads.
    leading: Option<Controllers>,
}

impl Master {
    /// A master that does not lead.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, leading: None }
    }

    /// It leads from now on: its first operation is applied. It has heard of no machine yet.
    pub fn lead(&mut self, now: Time, cell: &Cell) {
        self.leading = Some(Controllers::new(now, cell));
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

    /// An operation has been applied; `reordered` as [`LinkShard::applied`] gets it.
    pub fn applied(&mut self, now: Time, cell: &Cell, op: &Op, reordered: &[MachineId]) {
        let Some(controllers) = &mut self.leading else { return };
        for controller in controllers.all_mut() {
            controller.applied(now, cell, op, reordered);
        }
    }

    /// These replicas are active from now on: machines are spread over them. To hear the same again
    /// costs nothing.
    pub fn spread(&mut self, now: Time, active: &[ReplicaId]) {
        if let Some(controllers) = &mut self.leading {
            controllers.lost_machines.spread(now, active);
        }
    }

    /// The machines that others poll as well, as their own replicas do not reach them; by machine.
    pub fn seconds(&self) -> impl Iterator<Item = &Second> {
        self.leading.iter().flat_map(|controllers| controllers.lost_machines.seconds())
    }

    /// How machines answer the link shard of a replica, as that says: each that is new. Of machines
    /// that the replica does not poll it says nothing that counts.
    pub fn heard(
        &mut self,
        now: Time,
        cell: &Cell,
        from: ReplicaId,
        reachabilities: &[(MachineId, Reachability)],
    ) {
        if let Some(controllers) = &mut self.leading {
            controllers.lost_machines.heard(now, cell, from, reachabilities);
        }
    }

    /// How machines that should answer do answer their own replicas, as those said last; nothing where
    /// it does not lead.
    pub fn reachabilities(&self) -> impl Iterator<Item = (MachineId, Reachability)> {
        self.leading.iter().flat_map(|controllers| controllers.lost_machines.reachabilities())
    }

    /// Whether an operation that a link shard wants may be proposed: that a machine is unreachable only
    /// where none that was asked reaches it.
    #[must_use]
    pub fn may_propose(&self, op: &Op) -> bool {
        match (op, &self.leading) {
            (Op::MachineUnreachable { machine }, Some(controllers)) => {
                let lost = &controllers.lost_machines.lost;
                lost.reachability(*machine) == Reachability::Silent
            }
            _ => true,
        }
    }

    /// How many machines that are up have answered, by what their link shards said last; none where it
    /// does not lead.
    #[must_use]
    pub fn machines_heard(&self) -> u32 {
        let leading = self.leading.as_ref();
        leading.map_or(0, |controllers| controllers.lost_machines.lost.answering())
    }

    /// Does what is due: every controller has its turn.
    pub fn tick(&mut self, now: Time, cell: &Cell, actions: &mut Vec<Action>) {
        let Some(controllers) = &mut self.leading else { return };
        let mut turn = Turn { now, cell, settings: &self.settings, actions };
        for controller in controllers.all_mut() {
            controller.run(&mut turn);
        }
    }

    /// The names of its controllers and when each is due, in the order in which they run; none where
    /// it does not lead.
    pub fn controllers(&self) -> impl Iterator<Item = (&'static str, Option<Time>)> {
        let all = self.leading.iter().flat_map(Controllers::all);
        all.map(|controller| (controller.name(), controller.due()))
    }

    /// When [`Master::tick`] has something to do next, if nothing is heard or applied before.
    #[must_use]
    pub fn next_tick(&self) -> Option<Time> {
        self.controllers().filter_map(|(_, due)| due).min()
    }
}

/// The machine that an operation is about, of those operations that shards and the master propose.
fn about(op: &Op) -> Option<MachineId> {
    match op {
        Op::Observe { machine, .. }
        | Op::DescribeMachine { machine, .. }
        | Op::MachineUnreachable { machine }
        | Op::MachineSilent { machine }
        | Op::MachineBack { machine } => Some(*machine),
        _ => None,
    }
}

/// The machine that has come by an operation.
fn joining(cell: &Cell, op: &Op) -> Option<MachineId> {
    let name = match op {
        Op::Request { mutation: Mutation::AddMachine { name, .. }, .. } => name,
        Op::Enrol { token, .. } => &cell.token(*token)?.machine,
        _ => return None,
    };
    let machine = cell.machine_named(name)?;
    (machine.state == MachineState::Joining).then_some(machine.id)
}

#[cfg(test)]
mod tests;
