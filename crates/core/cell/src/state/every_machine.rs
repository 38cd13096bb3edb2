//! Jobs with one task on every machine: which task is for which machine.
//!
//! A row of the job's tasks belongs to a machine from when the machine first suits the job until the machine
//! has been removed or no longer suits it, and its task has ended. Then the row waits, dead, for another machine.

use imbl::OrdMap;
use model::{MachineId, TaskIndex};

use super::Job;

/// Which task of a job is for which machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineTasks {
    /// The machine of each row that belongs to one.
    machines: OrdMap<TaskIndex, MachineId>,
    /// The same from the other side.
    rows: OrdMap<MachineId, TaskIndex>,
    /// The machines that suit the job and have no task.
    left_out: OrdMap<MachineId, LeftOut>,
}

/// Why a machine that suits a job has no task of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// The quota of the job's owner does not suffice for a further task.
    Quota,
    /// The job, its owner or the cell has as many tasks as may be.
    Tasks,
}

impl MachineTasks {
    /// From its recorded parts; `None` if two rows belong to one machine.
    #[must_use]
    pub fn from_parts(
        machines: impl IntoIterator<Item = (TaskIndex, MachineId)>,
        left_out: impl IntoIterator<Item = (MachineId, LeftOut)>,
    ) -> Option<Self> {
        let mut of = Self { left_out: left_out.into_iter().collect(), ..Self::default() };
        for (index, machine) in machines {
            let twice = of.machines.insert(index, machine).is_some();
            if twice || of.rows.insert(machine, index).is_some() {
                return None;
            }
        }
        Some(of)
    }

    /// The machine of a row.
    #[must_use]
    pub fn machine(&self, index: TaskIndex) -> Option<MachineId> {
        self.machines.get(&index).copied()
    }

    /// The row of a machine.
    #[must_use]
    pub fn row(&self, machine: MachineId) -> Option<TaskIndex> {
        self.rows.get(&machine).copied()
    }

    /// The rows that belong to machines, in order.
    pub fn machines(&self) -> impl Iterator<Item = (TaskIndex, MachineId)> {
        self.machines.iter().map(|(index, machine)| (*index, *machine))
    }

    /// The machines that suit the job and have no task, in the order in which they were added.
    pub fn left_out(&self) -> impl Iterator<Item = (MachineId, LeftOut)> {
        self.left_out.iter().map(|(machine, why)| (*machine, *why))
    }

    pub(crate) fn why_left_out(&self, machine: MachineId) -> Option<LeftOut> {
        self.left_out.get(&machine).copied()
    }

    /// Whether each row is for one machine, and each machine has one row.
    pub(crate) fn is_one_to_one(&self) -> bool {
        self.machines.len() == self.rows.len()
            && self.machines.iter().all(|(index, machine)| self.row(*machine) == Some(*index))
    }

    pub(crate) fn give(&mut self, index: TaskIndex, machine: MachineId) {
        self.machines.insert(index, machine);
        self.rows.insert(machine, index);
        self.left_out.remove(&machine);
    }

    pub(crate) fn take_back(&mut self, machine: MachineId) {
        if let Some(index) = self.rows.remove(&machine) {
            self.machines.remove(&index);
        }
        self.left_out.remove(&machine);
    }

    pub(crate) fn leave_out(&mut self, machine: MachineId, why: LeftOut) {
        self.left_out.insert(machine, why);
    }

    /// No machine waits for a task any more.
    pub(crate) fn clear_left_out(&mut self) {
        self.left_out = OrdMap::new();
    }

    /// Whether one of so many rows belongs to no machine.
    pub(crate) fn has_free_row(&self, rows: u32) -> bool {
        self.machines.len() < rows as usize
    }

    /// The first of so many rows that belongs to no machine. Walks through them.
    pub(crate) fn free_row(&self, rows: u32) -> Option<TaskIndex> {
        if !self.has_free_row(rows) {
            return None;
        }
        (0..rows).map(TaskIndex).find(|index| !self.machines.contains_key(index))
    }
}

impl Job {
    /// Which of its tasks is for which machine; `None` if its description says how many it has.
    #[must_use]
    pub fn machine_tasks(&self) -> Option<&MachineTasks> {
        self.machine_tasks.as_deref()
    }

    /// The only machine on which a task may run, if its job has one task on every machine.
    #[must_use]
    pub fn machine_of(&self, index: TaskIndex) -> Option<MachineId> {
        self.machine_tasks()?.machine(index)
    }

    /// Whether a row waits for a machine: nothing starts its task but another machine.
    #[must_use]
    pub fn is_free_row(&self, index: TaskIndex) -> bool {
        self.machine_tasks().is_some_and(|tasks| tasks.machine(index).is_none())
    }
}
