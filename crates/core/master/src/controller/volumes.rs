//! Lets pending tasks go elsewhere that have waited long enough for the machines of their volumes.

use cell::{Cell, Op};
use model::{MachineId, Span, Time};

use super::{Controller, Turn};
use crate::Action;

/// How often the pending tasks are looked at.
const EVERY: Span = Span::from_secs(5);

/// The controller.
#[derive(Clone, Debug)]
pub(crate) struct Volumes {
    next: Time,
    /// Whether a proposal is under way.
    proposed: bool,
}

impl Volumes {
    pub(crate) fn new(now: Time) -> Self {
        Self { next: now, proposed: false }
    }
}

impl Controller for Volumes {
    fn name(&self) -> &'static str {
        "volumes"
    }

    fn due(&self) -> Option<Time> {
        Some(self.next)
    }

    fn run(&mut self, turn: &mut Turn<'_>) {
        let Turn { now, cell, actions, .. } = turn;
        if *now < self.next {
            return;
        }
        self.next = *now + EVERY;
        // A proposal that got lost is made again the time after.
        if std::mem::take(&mut self.proposed) {
            return;
        }
        let tasks = cell.tasks_due_elsewhere(*now, cell::bounds::SENT_ELSEWHERE_MAX);
        if !tasks.is_empty() {
            self.proposed = true;
            actions.push(Action::Propose(Op::SendElsewhere { tasks }));
        }
    }

    fn applied(&mut self, _: Time, _: &Cell, op: &Op, _: &[MachineId]) {
        if let Op::SendElsewhere { .. } = op {
            self.proposed = false;
        }
    }
}
