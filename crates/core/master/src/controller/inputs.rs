//! Tells running tasks of secrets and addresses that have changed since they have read them.

use std::collections::BTreeMap;

use cell::{Cell, Op};
use model::{CollectionId, MachineId, Span, Time};

use super::{Controller, Turn};
use crate::Action;

/// How often jobs are looked at: what changes several times meanwhile is told once.
const EVERY: Span = Span::from_secs(5);
/// After that a proposal counts as lost.
const LOST_AFTER: Span = Span::from_secs(15);
/// The maximum number of jobs in a turn; the others follow in the next one.
const JOBS_AT_ONCE_MAX: usize = 32;

/// The controller.
#[derive(Clone, Debug)]
pub(crate) struct ChangedInputs {
    next: Time,
    /// The jobs for which it has proposed something, and when.
    proposed: BTreeMap<CollectionId, Time>,
}

impl ChangedInputs {
    pub(crate) fn new(now: Time) -> Self {
        Self { next: now, proposed: BTreeMap::new() }
    }
}

impl Controller for ChangedInputs {
    fn name(&self) -> &'static str {
        "changed-inputs"
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
        self.proposed.retain(|_, at| *at + LOST_AFTER > *now);
        let awaited = |id: &CollectionId| self.proposed.contains_key(id);
        let due = cell.jobs().filter(|job| !awaited(&job.id) && cell.has_input_changes(job, *now));
        let due: Vec<CollectionId> = due.take(JOBS_AT_ONCE_MAX).map(|job| job.id).collect();
        for job in due {
            self.proposed.insert(job, *now);
            actions.push(Action::Propose(Op::TellInputs { job }));
        }
    }

    fn applied(&mut self, _: Time, _: &Cell, op: &Op, _: &[MachineId]) {
        if let Op::TellInputs { job } = op {
            self.proposed.remove(job);
        }
    }
}
