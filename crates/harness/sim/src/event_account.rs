//! A model of machines and instances that is derived from the events alone. The invariant checker
//! keeps it beside the cell, and verifies that every event is consistent with it.

use std::collections::BTreeMap;

use cell::{Cell, Event, EventKind, EvictionCause, MachineState, StopReason, Subject};
use model::{InstanceId, MachineId};

/// A machine's state according to the events.
#[derive(Clone, Copy, Debug, Default)]
struct MachineStatus {
    absence: Absence,
    drained: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Absence {
    #[default]
    No,
    Unreachable,
    Down,
}

/// The model.
#[derive(Debug, Default)]
pub(crate) struct Account {
    machines: BTreeMap<MachineId, MachineStatus>,
    placed: BTreeMap<InstanceId, MachineId>,
    stopping: BTreeMap<InstanceId, StopReason>,
    /// The preemptors of this operation, and the machine that each needs room on.
    preempting: Vec<(InstanceId, MachineId)>,
    /// Incarnations whose end on their machines was reported: none of their processes may run
    /// there.
    ended: Vec<(InstanceId, MachineId)>,
}

impl Account {
    /// The model of a cell's current state.
    pub(crate) fn of(cell: &Cell) -> Self {
        let mut account = Self::default();
        for machine in cell.machines() {
            let absence = match machine.state {
                MachineState::Joining | MachineState::Up => Absence::No,
                MachineState::Unreachable { .. } => Absence::Unreachable,
                MachineState::Down { .. } => Absence::Down,
            };
            let drained = machine.drain.is_some();
            account.machines.insert(machine.id, MachineStatus { absence, drained });
            for id in machine.instances() {
                account.placed.insert(*id, machine.id);
                if let Some(stop) = cell.placement(*id).and_then(|placed| placed.stop.as_deref()) {
                    account.stopping.insert(*id, stop.clone());
                }
            }
        }
        account
    }

    /// Applies the events of an operation.
    ///
    /// # Errors
    /// With the first event that is not possible.
    pub(crate) fn happened(&mut self, events: &[Event]) -> Result<(), String> {
        self.preempting.clear();
        for event in events {
            match event.subject {
                Subject::Machine(id) => self.machine(id, &event.kind)?,
                Subject::Task(id) => self.task(id, &event.kind)?,
                Subject::Cell | Subject::Job(_) => {}
            }
        }
        for (by, machine) in &self.preempting {
            let placed = self.placed.get(by);
            if placed != Some(machine) {
                return Err(format!(
                    "room was made for {by} on {machine}, but it is on {placed:?}"
                ));
            }
        }
        Ok(())
    }

    /// The incarnations that ended since the last call, each with its machine.
    pub(crate) fn take_ended(&mut self) -> Vec<(InstanceId, MachineId)> {
        std::mem::take(&mut self.ended)
    }

    fn machine(&mut self, id: MachineId, kind: &EventKind) -> Result<(), String> {
        let machine = self.machines.entry(id).or_default();
        match kind {
            EventKind::MachineUnreachable => machine.absence = Absence::Unreachable,
            EventKind::MachineDown if machine.absence != Absence::Unreachable => {
                return Err(format!("machine {id} is marked down but was not unreachable"));
            }
            EventKind::MachineDown => machine.absence = Absence::Down,
            EventKind::MachineBack => machine.absence = Absence::No,
            EventKind::MachineDrained { .. } => machine.drained = true,
            EventKind::MachineUndrained => machine.drained = false,
            EventKind::MachineRemoved { .. } => {
                let placed = self.placed.iter().find(|(_, on)| **on == id);
                if let Some((instance, _)) = placed {
                    return Err(format!("machine {id} is removed while {instance} is on it"));
                }
                self.machines.remove(&id);
            }
            _ => {}
        }
        Ok(())
    }

    fn task(&mut self, id: InstanceId, kind: &EventKind) -> Result<(), String> {
        match kind {
            EventKind::Schedule { machine, .. } => self.scheduled(id, *machine)?,
            EventKind::Stop { why } => self.stops(id, why)?,
            EventKind::Evict { cause } => {
                self.evicted(id, *cause)?;
                self.left(id);
            }
            EventKind::Kill { why } => {
                let asked = self
                    .stopping
                    .get(&id)
                    .is_some_and(|stop| matches!(stop, StopReason::Kill(asked) if asked == why));
                if self.placed.contains_key(&id) && !asked {
                    return Err(format!(
                        "{id} was killed {why} but was not being stopped for that"
                    ));
                }
                self.left(id);
            }
            EventKind::Fail { .. } | EventKind::Finish | EventKind::Lost { .. } => self.left(id),
            _ => {}
        }
        Ok(())
    }

    fn scheduled(&mut self, id: InstanceId, on: MachineId) -> Result<(), String> {
        let Some(machine) = self.machines.get(&on) else {
            return Err(format!("{id} is placed on machine {on}, which does not exist"));
        };
        if machine.drained || machine.absence != Absence::No {
            return Err(format!("{id} is placed on machine {on}, which is {machine:?}"));
        }
        match self.placed.insert(id, on) {
            Some(before) => Err(format!("{id} is placed on {on} but had not left {before}")),
            None => Ok(()),
        }
    }

    fn stops(&mut self, id: InstanceId, why: &StopReason) -> Result<(), String> {
        let Some(on) = self.placed.get(&id).copied() else {
            return Err(format!("{id} is stopped but was not placed"));
        };
        match why {
            StopReason::Evict(EvictionCause::Preempted { by }) => self.preempting.push((*by, on)),
            StopReason::Evict(EvictionCause::MachineShutdown) => {
                if !self.machines.get(&on).is_some_and(|machine| machine.drained) {
                    return Err(format!(
                        "{id} is evicted from {on} for a drain, but {on} is not drained"
                    ));
                }
            }
            StopReason::Evict(EvictionCause::MachineFailure) => {
                return Err(format!("{id} is given notice on {on}, which failed"));
            }
            StopReason::Evict(
                EvictionCause::OutOfResources
                | EvictionCause::Updated
                | EvictionCause::GangRestarts { .. }
                | EvictionCause::Moved { .. }
                | EvictionCause::Other,
            )
            | StopReason::Kill(_) => {}
        }
        self.stopping.insert(id, why.clone());
        Ok(())
    }

    fn evicted(&self, id: InstanceId, cause: EvictionCause) -> Result<(), String> {
        let Some(on) = self.placed.get(&id) else {
            return Err(format!("{id} was evicted but was not placed"));
        };
        let is_so = match cause {
            EvictionCause::MachineFailure => self.is_down(*on),
            // Its machine decides that without notice, or the master with one where the machine
            // stays short.
            EvictionCause::OutOfResources => {
                let out_of_resources = StopReason::Evict(EvictionCause::OutOfResources);
                self.stopping.get(&id).is_none_or(|why| *why == out_of_resources)
            }
            cause => self.stopping.get(&id) == Some(&StopReason::Evict(cause)),
        };
        let stop = self.stopping.get(&id);
        match is_so {
            true => Ok(()),
            false => Err(format!("{id} was evicted ({cause}), but was being stopped for {stop:?}")),
        }
    }

    fn left(&mut self, id: InstanceId) {
        self.stopping.remove(&id);
        if let Some(on) = self.placed.remove(&id)
            && !self.is_down(on)
        {
            self.ended.push((id, on));
        }
    }

    fn is_down(&self, id: MachineId) -> bool {
        self.machines.get(&id).is_some_and(|machine| machine.absence == Absence::Down)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cell::{KillReason, PendingCause};
    use model::{CollectionId, End, Generation, TaskIndex, UserName};

    fn incarnation(collection: u64) -> InstanceId {
        let collection = CollectionId(collection);
        InstanceId { collection, index: TaskIndex(0), generation: Generation(1) }
    }

    fn task(id: u64, kind: EventKind) -> Event {
        Event {
            subject: Subject::Task(incarnation(id)),
            kind,
            usage: model::FinalUsage::UNMEASURED,
        }
    }

    fn on(id: u64, kind: EventKind) -> Event {
        Event {
            subject: Subject::Machine(MachineId(id)),
            kind,
            usage: model::FinalUsage::UNMEASURED,
        }
    }

    fn placed(id: u64, machine: u64) -> Event {
        task(id, EventKind::Schedule { machine: MachineId(machine), alloc: None })
    }

    fn evict(id: u64, cause: EvictionCause) -> [Event; 2] {
        let why = StopReason::Evict(cause);
        [task(id, EventKind::Stop { why }), task(id, EventKind::Evict { cause })]
    }

    #[test]
    fn impossible_event_sequences_are_reported() {
        use EvictionCause::{MachineFailure, MachineShutdown, Preempted};
        let drained = EventKind::MachineDrained { reason: String::new() };
        let by_ana = KillReason::User(UserName::new("ana").expect("a name"));
        let [notice, leaves] = evict(1, Preempted { by: incarnation(2) });
        let [shutdown, shut] = evict(1, MachineShutdown);
        let kill = StopReason::Kill(by_ana.clone());
        // The events of consecutive operations, and whether the last of them is possible.
        let table: Vec<(&str, Vec<Vec<Event>>, bool)> = vec![
            ("placed", vec![vec![placed(1, 1)]], true),
            ("placed nowhere", vec![vec![placed(1, 9)]], false),
            ("placed twice", vec![vec![placed(1, 1)], vec![placed(1, 2)]], false),
            (
                "placed on a drained one",
                vec![vec![on(1, drained.clone())], vec![placed(1, 1)]],
                false,
            ),
            (
                "placed on a silent one",
                vec![vec![on(1, EventKind::MachineUnreachable)], vec![placed(1, 1)]],
                false,
            ),
            (
                "room for another one",
                vec![vec![placed(1, 1)], vec![notice.clone(), placed(2, 1)], vec![leaves.clone()]],
                true,
            ),
            ("room for one elsewhere", vec![vec![placed(1, 1)], vec![notice, placed(2, 2)]], false),
            ("left without notice", vec![vec![placed(1, 1)], vec![leaves]], false),
            ("not drained", vec![vec![placed(1, 1)], vec![shutdown.clone()]], false),
            ("drained", vec![vec![placed(1, 1)], vec![on(1, drained), shutdown], vec![shut]], true),
            (
                "its machine did not fail",
                vec![vec![placed(1, 1)], vec![task(1, EventKind::Evict { cause: MachineFailure })]],
                false,
            ),
            ("down at once", vec![vec![on(1, EventKind::MachineDown)]], false),
            (
                "its machine failed",
                vec![
                    vec![placed(1, 1), on(1, EventKind::MachineUnreachable)],
                    vec![
                        on(1, EventKind::MachineDown),
                        task(1, EventKind::Evict { cause: MachineFailure }),
                    ],
                ],
                true,
            ),
            (
                "killed where nobody had said so",
                vec![vec![placed(1, 1)], vec![task(1, EventKind::Kill { why: by_ana.clone() })]],
                false,
            ),
            (
                "killed",
                vec![
                    vec![placed(1, 1)],
                    vec![task(1, EventKind::Stop { why: kill })],
                    vec![task(1, EventKind::Kill { why: by_ana.clone() })],
                ],
                true,
            ),
            ("killed while it waited", vec![vec![task(1, EventKind::Kill { why: by_ana })]], true),
        ];
        for (what, operations, can_be) in table {
            let mut account = Account::default();
            for machine in 1..=2 {
                account.happened(&[on(machine, EventKind::MachineAdded)]).expect("two machines");
            }
            let (last, before) = operations.split_last().expect("an operation");
            for operation in before {
                account.happened(operation).expect(what);
            }
            assert_eq!(account.happened(last).is_ok(), can_be, "{what}");
        }
    }

    #[test]
    fn an_ended_task_may_run_only_on_a_machine_that_is_down() {
        let mut account = Account::default();
        account.happened(&[on(1, EventKind::MachineAdded), placed(1, 1)]).expect("placed");
        let lost = End::Lost { reason: String::new() };
        account.happened(&[task(1, EventKind::Lost { end: lost })]).expect("lost");
        account.happened(&[task(1, EventKind::Submit { cause: PendingCause::Lost })]).expect("so");
        assert_eq!(account.take_ended(), [(incarnation(1), MachineId(1))]);
        let cause = EvictionCause::MachineFailure;
        let silent = [placed(2, 1), on(1, EventKind::MachineUnreachable)];
        account.happened(&silent).expect("placed");
        let down = [on(1, EventKind::MachineDown), task(2, EventKind::Evict { cause })];
        account.happened(&down).expect("down");
        assert_eq!(account.take_ended(), []);
    }
}
