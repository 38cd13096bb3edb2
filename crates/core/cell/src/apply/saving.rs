//! What became of the data that machines keep of ended tasks and allocs, for their savers. A machine
//! reports each outcome until an order confirms that the cell has recorded it.

use model::{MachineId, MachineReport, SaverOutcome, Saving};

use super::{Events, cut};
use crate::bounds::SAVING_MAX;
use crate::{Cell, EventKind, Subject};

/// What a machine keeps, bounded, by instance.
pub(super) fn bounded(said: &[Saving]) -> Vec<Saving> {
    let mut kept: Vec<Saving> = Vec::new();
    for saving in said.iter().take(SAVING_MAX) {
        let in_order = kept.last().is_none_or(|last| last.instance < saving.instance);
        if in_order {
            let outcome = saving.outcome.as_ref().map(|outcome| match outcome {
                SaverOutcome::Saved => SaverOutcome::Saved,
                SaverOutcome::GivenUp { reason } => SaverOutcome::GivenUp { reason: cut(reason) },
            });
            kept.push(Saving { outcome, ..*saving });
        }
    }
    kept
}

impl Cell {
    /// A machine reports other data than before: emits an event for each new outcome, and for data
    /// that is gone without one.
    pub(super) fn saving_changes(
        &mut self,
        machine: MachineId,
        before: &MachineReport,
        after: &MachineReport,
        events: &mut Events,
    ) {
        let find = |report: &'_ MachineReport, saving: &Saving| {
            let place = report.saving.binary_search_by_key(&saving.instance, |one| one.instance);
            place.ok().and_then(|place| report.saving.get(place).cloned())
        };
        for saving in &after.saving {
            let Some(outcome) = &saving.outcome else { continue };
            if find(before, saving).is_some_and(|known| known.outcome.is_some()) {
                continue;
            }
            let kind = match outcome {
                SaverOutcome::Saved => EventKind::Saved { machine, attempts: saving.attempts },
                SaverOutcome::GivenUp { reason } => {
                    EventKind::SaverGivenUp { machine, reason: reason.clone() }
                }
            };
            events.add(Subject::Task(saving.instance), kind);
            // The order confirms it.
            events.reorder(machine);
        }
        for saving in before.saving.iter().filter(|saving| saving.outcome.is_none()) {
            if find(after, saving).is_none() {
                let reason = "its machine does not have its data any more".to_owned();
                let kind = EventKind::SaverGivenUp { machine, reason };
                events.add(Subject::Task(saving.instance), kind);
            }
        }
    }

    /// A machine is removed, with the data that it keeps.
    pub(super) fn saving_ends(&mut self, machine: MachineId, events: &mut Events) {
        let Some(report) = self.machines.get(machine).map(|machine| machine.report.clone()) else {
            return;
        };
        for saving in report.saving.iter().filter(|saving| saving.outcome.is_none()) {
            let reason = "its machine was removed from the cell".to_owned();
            let kind = EventKind::SaverGivenUp { machine, reason };
            events.add(Subject::Task(saving.instance), kind);
        }
    }
}
