//! The Borgmaster's decisions that are not part of the cell's state machine (paper, sections 3.1
//! and 3.3): when to poll which machine, what to order it, what its report means for the cell, when
//! a machine counts as unreachable or down, and when to forget dead jobs.
//!
//! Every replica has a [`LinkShard`], which polls the machines of its [`Partition`]. The leader
//! also has a [`Master`]: a list of controllers, one for each kind of periodic work, such as marking
//! unresponsive machines down and forgetting dead jobs.
//! [`LinkShard`] documents how a replica drives both.
//!
//! Both are deterministic: time is an argument, and they return [`Action`]s: operations to propose
//! and polls to make. What they know about machines is not part of the cell's state; a new instance
//! starts with only the cell.
//!
//! Deliberately absent: the cell's rules (crate `cell`), consensus and messages between replicas
//! (crate `replica`), sockets and clocks.

mod partition;
mod reachability;
mod reclamation;
mod shard;

mod link;
mod observe;
mod order;
mod proposal;

mod allowance;
mod controller;
mod failure_detector;
mod fraction;
mod holders;
mod rate;
mod second_opinion;

use std::sync::Arc;

pub use borglet::Usage;
use borglet::{Order, Report};
use cell::{Cell, MachineState, Mutation, Op};
use model::{Bytes, InstanceId, MachineId, MachineName, ReplicaId, Span, Time};

use controller::{Controllers, Turn};
pub use fraction::{NoShare, Share};
pub use holders::{HOLDERS_NAMED, Holders};
pub use partition::{Partition, Second, Spread, owner};
pub use reachability::Reachability;
pub use reclaim::{Pace, Rejected, Rejection};
pub use reclamation::{Estimated, RESERVATIONS_MAX, Reclamation, Samples};
pub use shard::LinkShard;

/// The settings of link shards and the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a Borglet may hold an answer without news; then it is polled again.
    pub poll_interval: Span,
    /// The minimum time between an answer and the next poll, which bounds how often a machine with
    /// frequent news is polled.
    pub poll_spacing: Span,
    /// How many consecutive polls must fail before a machine is unreachable.
    pub missed_polls_max: u32,
    /// After this time without being applied, a proposal is considered lost and is repeated. The
    /// time doubles with each repetition, up to eight times.
    pub propose_again: Span,
    /// The rate, in tasks per second, at which tasks of unreachable machines are rescheduled. At 0,
    /// no machine with tasks is marked down.
    pub reschedule_rate: u32,
    /// The maximum burst of rescheduled tasks.
    pub reschedule_burst: u32,
    /// The minimum number of unreachable machines at which rescheduling may stop.
    pub silent_machines_min: u32,
    /// The maximum share of unreachable machines, of those that were up, before rescheduling stops.
    pub silent_share_max: Share,
    /// How long dead jobs are kept.
    pub dead_jobs_for: Span,
    /// The maximum number of dead jobs that are kept. Beyond it the oldest of the user who has most is
    /// forgotten.
    pub dead_jobs_max: usize,
    /// The maximum number of tasks of dead jobs that are kept. Beyond it the oldest job of the user who
    /// has most of them is forgotten.
    pub dead_tasks_max: u64,
    /// The time between two rounds of estimates of reservations.
    pub estimate_interval: Span,
    /// How fast reservations follow the usage.
    pub pace: Pace,
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
            dead_tasks_max: 4_000_000,
            estimate_interval: Span::from_secs(5),
            pace: Pace::default(),
        }
    }
}

/// An action of a link shard or the master, for the replica to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Propose an operation.
    Propose(Op),
    /// Poll a machine; an answer or a failure must follow.
    Poll(Poll),
    /// Tell the link shards that these machines must again miss all their polls before they count
    /// as silent ([`LinkShard::begin_anew`]).
    BeginAnew(Vec<MachineId>),
}

/// A poll of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poll {
    /// The machine.
    pub machine: MachineId,
    /// Its name, which its Borglet's certificate must contain.
    pub name: MachineName,
    /// The address of its Borglet.
    pub address: Arc<str>,
    /// A new order, if any.
    pub order: Option<Order>,
    /// How long the answer may be held without news.
    pub hold: Span,
    /// The version of the last report seen.
    pub seen: u64,
    /// The memory reserved for each of the machine's tasks that has less than its limit. They are
    /// not part of the order: a change of them alone makes no order and ends no hold.
    pub reservations: Vec<(InstanceId, Bytes)>,
}

/// The outcome of a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The machine reported.
    Report {
        /// Its full state.
        report: Arc<Report>,
        /// The version of the report.
        version: u64,
        /// What instances use: no news, and of no consequence for the cell.
        usage: Arc<Usage>,
    },
    /// It did not answer, or the answer was invalid.
    Failed,
}

/// The elected master: what the leader decides in addition to its link shard.
#[derive(Clone, Debug)]
pub struct Master {
    settings: Settings,
    /// Where it leads.
    leading: Option<Controllers>,
}

impl Master {
    /// Creates a master that does not lead.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, leading: None }
    }

    /// Starts to lead, once the first operation of the term is applied. Nothing has been heard of
    /// any machine yet.
    pub fn lead(&mut self, now: Time, cell: &Cell) {
        self.leading = Some(Controllers::new(now, cell));
    }

    /// Stops leading: no more actions follow.
    pub fn follow(&mut self) {
        self.leading = None;
    }

    /// Whether it leads.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        self.leading.is_some()
    }

    /// An operation was applied; `reordered` as for [`LinkShard::applied`].
    pub fn applied(&mut self, now: Time, cell: &Cell, op: &Op, reordered: &[MachineId]) {
        let Some(controllers) = &mut self.leading else { return };
        for controller in controllers.all_mut() {
            controller.applied(now, cell, op, reordered);
        }
    }

    /// Spreads the machines over these active replicas. Idempotent.
    pub fn spread(&mut self, now: Time, active: &[ReplicaId]) {
        if let Some(controllers) = &mut self.leading {
            controllers.lost_machines.spread(now, active);
        }
    }

    /// Machines that are also polled by other replicas because their own cannot reach them; sorted
    /// by machine.
    pub fn seconds(&self) -> impl Iterator<Item = &Second> {
        self.leading.iter().flat_map(|controllers| controllers.lost_machines.seconds())
    }

    /// Takes in changed reachabilities from the link shard of a replica. Those of machines that the
    /// replica does not poll are ignored.
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

    /// The last reachability of each expected machine at its own replica; empty if not leading.
    pub fn reachabilities(&self) -> impl Iterator<Item = (MachineId, Reachability)> {
        self.leading.iter().flat_map(|controllers| controllers.lost_machines.reachabilities())
    }

    /// Whether an operation from a link shard may be proposed: a machine becomes unreachable only
    /// if no replica that polls it can reach it.
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

    /// The number of machines that are up and answer, as their link shards last reported; 0 if not
    /// leading.
    #[must_use]
    pub fn machines_heard(&self) -> u32 {
        let leading = self.leading.as_ref();
        leading.map_or(0, |controllers| controllers.lost_machines.lost.answering())
    }

    /// Whether all machines that are up answer, as their link shards last reported; `false` if not
    /// leading.
    #[must_use]
    pub fn are_all_machines_heard(&self) -> bool {
        let leading = self.leading.as_ref();
        leading.is_some_and(|controllers| controllers.lost_machines.lost.all_answer())
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

    /// When [`Master::tick`] is due next, unless something is heard or applied before.
    #[must_use]
    pub fn next_tick(&self) -> Option<Time> {
        self.controllers().filter_map(|(_, due)| due).min()
    }
}

/// The machine of an operation proposed by shards or the master.
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

/// The machine that joined by an operation.
fn joining(cell: &Cell, op: &Op) -> Option<MachineId> {
    let name = match op {
        Op::Request { mutation: Mutation::AddMachine(cell::AddMachine { name, .. }), .. } => name,
        Op::Enrol { token, machine, .. } => cell.token(*token)?.joins(machine.as_ref()),
        _ => return None,
    };
    let machine = cell.machine_named(name)?;
    (machine.state == MachineState::Joining).then_some(machine.id)
}

#[cfg(test)]
mod tests;
