//! The data that ended tasks and allocs left for their savers, and what became of it: according to
//! the machines on one side, and to the cell's events on the other.

use std::collections::{BTreeMap, BTreeSet};

use cell::EventKind;
use model::{InstanceId, MachineId, SaverOutcome, Time};

/// The account.
#[derive(Debug, Default)]
pub(crate) struct SaverAccount {
    /// What no event has settled yet.
    left: BTreeMap<InstanceId, Left>,
    /// What an event has settled, and which machine had kept it.
    settled: BTreeMap<InstanceId, MachineId>,
    /// Instances of which the cell may have forgotten something: it was restored from a backup, or
    /// their machine was removed from it.
    excused: BTreeSet<InstanceId>,
    /// When the last fault ended.
    pub(crate) healed: Option<Time>,
    /// Whether two replicas may poll a machine at once. What the later of two reports says may then
    /// reach the log first: an outcome may be told twice, and data as gone before its outcome is.
    pub(crate) several_pollers: bool,
}

/// Data that no event has settled yet.
#[derive(Debug)]
pub(crate) struct Left {
    /// The machine's number.
    pub(crate) machine: usize,
    /// When the instance ended.
    since: Time,
    /// What became of it on its machine.
    outcome: Option<SaverOutcome>,
}

impl SaverAccount {
    /// An instance with a saver has ended on a machine. `excused`: the cell may not know it.
    pub(crate) fn leaves(&mut self, now: Time, machine: usize, id: InstanceId, excused: bool) {
        if excused {
            self.excused.insert(id);
        }
        if !self.excused.contains(&id) {
            self.left.insert(id, Left { machine, since: now, outcome: None });
        }
    }

    /// A machine has deleted data.
    pub(crate) fn settled(&mut self, id: InstanceId, outcome: SaverOutcome) {
        if let Some(left) = self.left.get_mut(&id) {
            left.outcome = Some(outcome);
        }
    }

    /// A machine has forgotten what became of data.
    ///
    /// # Errors
    /// If the cell does not know that.
    pub(crate) fn forgotten(&mut self, id: InstanceId) -> Result<(), String> {
        match self.left.remove(&id) {
            Some(left) if !self.excused.contains(&id) => Err(format!(
                "m{} forgets the data of {id}, of which no event tells what became of it",
                left.machine
            )),
            _ => Ok(()),
        }
    }

    /// An event of an instance.
    ///
    /// # Errors
    /// If it is not what became of the data, or if that was told before.
    pub(crate) fn told(&mut self, id: InstanceId, kind: &EventKind) -> Result<(), String> {
        let (machine, reason) = match kind {
            EventKind::Saved { machine, .. } => (*machine, None),
            EventKind::SaverGivenUp { machine, reason } => (*machine, Some(reason)),
            _ => return Ok(()),
        };
        if self.several_pollers
            && (reason
                .is_some_and(|reason| reason.starts_with("its machine does not have its data"))
                || self.settled.contains_key(&id))
        {
            return Ok(());
        }
        let left = self.left.remove(&id);
        let before = self.settled.insert(id, machine);
        if reason.is_some_and(|reason| reason.ends_with("removed from the cell")) {
            self.excused.insert(id);
        }
        if self.excused.contains(&id) {
            return Ok(());
        }
        let (what, name) = (format!("an event tells of the data of {id}"), kind.name());
        let Some(left) = left else {
            return Err(match before {
                Some(_) => format!("{what} a second time: {name}"),
                None => format!("{what}, which was never kept: {name}"),
            });
        };
        let same = match (&left.outcome, reason) {
            (Some(SaverOutcome::Saved), None) => true,
            (Some(SaverOutcome::GivenUp { reason }), Some(told)) => told == reason,
            _ => false,
        };
        match same {
            true => Ok(()),
            false => Err(format!("{what} {name} {reason:?}, but it is {left:?}")),
        }
    }

    /// A machine was removed from the cell, which forgets what that had kept.
    pub(crate) fn removed(&mut self, machine: MachineId) {
        let there = self.settled.iter().filter(|(_, on)| **on == machine);
        self.excused.extend(there.map(|(id, _)| *id));
    }

    /// The cell was restored from a backup.
    pub(crate) fn restored(&mut self) {
        self.excused.extend(self.left.keys().chain(self.settled.keys()));
    }

    /// What ended before the last fault did, and should be settled soon.
    pub(crate) fn due(&self) -> Option<(InstanceId, &Left)> {
        let healed = self.healed?;
        let mut left = self.left.iter();
        left.find(|(_, left)| left.since <= healed).map(|(id, left)| (*id, left))
    }

    /// Everything that is not settled yet.
    pub(crate) fn left(&self) -> impl Iterator<Item = (InstanceId, &Left)> {
        self.left.iter().map(|(id, left)| (*id, left))
    }
}
