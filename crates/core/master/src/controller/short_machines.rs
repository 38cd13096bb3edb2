//! Machines that stay short of a resource although their Borglets throttle and evict: tasks that are
//! not production are moved away, one after the other, as the disruption budgets allow (paper,
//! section 6.2).

use std::collections::BTreeMap;

use cell::{Cell, MachineState, Op};
use model::{MachineId, Shortage, Span, Time};

use super::{Controller, Turn};
use crate::Action;

/// Between two tasks that leave a machine: so long it takes until the machine notices whether the
/// first one was enough.
const PACE: Span = Span::from_secs(30);
/// When a machine of which nothing can be moved away is looked at again.
const AGAIN: Span = Span::from_secs(5);

/// The machines that stay short, and when each may lose a task.
#[derive(Clone, Debug)]
pub(crate) struct ShortMachines {
    machines: BTreeMap<MachineId, Time>,
}

impl ShortMachines {
    pub(crate) fn new(now: Time, cell: &Cell) -> Self {
        let short = cell
            .machines()
            .filter(|machine| machine.report.shortage.as_ref().is_some_and(Shortage::persists));
        Self { machines: short.map(|machine| (machine.id, now)).collect() }
    }
}

impl Controller for ShortMachines {
    fn name(&self) -> &'static str {
        "short-machines"
    }

    fn due(&self) -> Option<Time> {
        self.machines.values().copied().min()
    }

    fn run(&mut self, turn: &mut Turn<'_>) {
        let Turn { now, cell, actions, .. } = turn;
        for (id, due) in &mut self.machines {
            if *due > *now {
                continue;
            }
            *due = *now + AGAIN;
            let machine = cell.machine(*id).filter(|machine| machine.state == MachineState::Up);
            if let Some(instance) = machine.and_then(|machine| cell.relief(machine)) {
                *due = *now + PACE;
                actions.push(Action::Propose(Op::RelieveMachine { machine: *id, instance }));
            }
        }
    }

    fn applied(&mut self, now: Time, cell: &Cell, op: &Op, _: &[MachineId]) {
        let Op::DescribeMachine { machine: id, .. } = op else {
            if let Op::Request { .. } = op {
                self.machines.retain(|id, _| cell.machine(*id).is_some());
            }
            return;
        };
        let shortage = cell.machine(*id).and_then(|machine| machine.report.shortage);
        match shortage.is_some_and(|shortage| shortage.persists()) {
            true => drop(self.machines.entry(*id).or_insert(now)),
            false => drop(self.machines.remove(id)),
        }
    }
}
