//! What became of the data that machines keep of ended tasks and allocs, for their savers. A machine
//! reports each outcome until an order confirms that the cell has recorded it.

use std::collections::BTreeMap;
use std::sync::Arc;

use event::{EventKind, Subject};
use model::{InstanceId, MachineId, MachineName, MachineReport, SaverOutcome, Saving, UserName};

use super::mutation::Change;
use super::{Events, cut};
use crate::bounds::SAVING_MAX;
use crate::{Cell, CellPermission, Permission, Rejection, Reply, UserPermission};

/// Ends the saver of a task or an alloc that has ended, and gives its data up: for its owner and
/// administrators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndSaver {
    /// The machine that keeps the data.
    pub machine: MachineName,
    /// The instance that has ended.
    pub instance: InstanceId,
}

impl Change for EndSaver {
    /// Requires the job, which is looked up when it is applied.
    fn allowed(&self, _: &Cell, _: &UserName) -> Result<(), Rejection> {
        Ok(())
    }

    /// The machine's order says it; the event comes when the machine has done it.
    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let owner = cell.jobs.get(self.instance.collection).map(|job| &job.owner);
        if owner != Some(by) {
            cell.only_administrators(by, || match owner {
                Some(user) => {
                    let (user, what) = (user.clone(), UserPermission::EndSavers);
                    Permission::OfUser { user, what }
                }
                None => Permission::OfCell(CellPermission::EndSaversOfForgottenJobs),
            })?;
        }
        let id = cell.machine_id(&self.machine)?;
        let Some(machine) = cell.machines.get_mut(id) else {
            return Err(Rejection::NoSuchMachine(self.machine.clone()));
        };
        if !is_kept(&machine.report, self.instance) {
            let (machine, instance) = (self.machine.clone(), self.instance);
            return Err(Rejection::NoDataKept { machine, instance });
        }
        if machine.saver_ends.get(&self.instance) != Some(by) {
            Arc::make_mut(&mut machine.saver_ends).insert(self.instance, by.clone());
            events.reorder(id);
        }
        Ok(Reply::Done)
    }
}

/// Whether a machine reports that it keeps the data of an instance, and that nothing became of it yet.
fn is_kept(report: &MachineReport, instance: InstanceId) -> bool {
    let place = report.saving.binary_search_by_key(&instance, |one| one.instance);
    let saving = place.ok().and_then(|place| report.saving.get(place));
    saving.is_some_and(|saving| saving.outcome.is_none())
}

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
        if let Some(machine) = self.machines.get_mut(machine)
            && !machine.saver_ends.is_empty()
        {
            let mut ends: BTreeMap<_, _> = machine.saver_ends.as_ref().clone();
            ends.retain(|instance, _| is_kept(after, *instance));
            machine.saver_ends = Arc::new(ends);
        }
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
