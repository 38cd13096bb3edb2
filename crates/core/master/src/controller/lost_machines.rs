//! Machines that do not answer are marked down, and rescheduling stops where very many do not: what is
//! heard of them ([`crate::second_opinion`]) and what follows from it ([`crate::failure_detector`]).

use cell::{Cell, Mutation, Op};
use model::{MachineId, ReplicaId, Time};

use super::{Controller, Turn};
use crate::about;
use crate::failure_detector::Lost;
use crate::joining;
use crate::second_opinion::Opinions;
use crate::{Reachability, Second};

/// What the leader knows of how machines answer.
#[derive(Clone, Debug)]
pub(crate) struct LostMachines {
    pub(crate) lost: Lost,
    opinions: Opinions,
}

impl LostMachines {
    /// Nothing is heard of any machine yet.
    pub(crate) fn new(now: Time, cell: &Cell) -> Self {
        Self { lost: Lost::new(now, cell), opinions: Opinions::default() }
    }

    /// See [`crate::Master::spread`].
    pub(crate) fn spread(&mut self, now: Time, active: &[ReplicaId]) {
        self.opinions.spread(now, active);
    }

    /// See [`crate::Master::seconds`].
    pub(crate) fn seconds(&self) -> impl Iterator<Item = &Second> {
        self.opinions.seconds()
    }

    /// See [`crate::Master::heard`].
    pub(crate) fn heard(
        &mut self,
        now: Time,
        cell: &Cell,
        from: ReplicaId,
        reachabilities: &[(MachineId, Reachability)],
    ) {
        let Self { lost, opinions } = self;
        for (machine, reachability) in reachabilities {
            if cell.machine(*machine).is_none()
                || opinions.is_own(from, *machine) && !lost.has_heard(*machine, *reachability)
            {
                continue;
            }
            if let Some(counts) = opinions.hear(now, from, *machine, *reachability) {
                lost.hear(now, cell, *machine, counts);
            }
        }
    }

    /// See [`crate::Master::reachabilities`].
    pub(crate) fn reachabilities(&self) -> impl Iterator<Item = (MachineId, Reachability)> {
        self.lost.awaited().map(|machine| (machine, self.opinions.own(machine)))
    }
}

impl Controller for LostMachines {
    fn name(&self) -> &'static str {
        "lost-machines"
    }

    fn due(&self) -> Option<Time> {
        [self.lost.next(), self.opinions.next()].into_iter().flatten().min()
    }

    fn run(&mut self, turn: &mut Turn<'_>) {
        let Turn { now, cell, settings, actions } = turn;
        for (machine, counts) in self.opinions.tick(*now) {
            self.lost.hear(*now, cell, machine, counts);
        }
        for machine in self.lost.lose(*now, cell, settings, actions) {
            self.opinions.forget(machine);
        }
    }

    fn applied(&mut self, now: Time, cell: &Cell, op: &Op, reordered: &[MachineId]) {
        let Self { lost, opinions } = self;
        lost.settle(op);
        let here = about(op).into_iter().chain(joining(cell, op));
        here.for_each(|machine| lost.count(now, cell, machine));
        if let Op::Request { mutation: Mutation::RemoveMachine(_), .. } = op {
            for machine in reordered {
                lost.count(now, cell, *machine);
                if cell.machine(*machine).is_none() {
                    opinions.forget(*machine);
                }
            }
        }
    }
}
