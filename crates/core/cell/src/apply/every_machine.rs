//! Jobs with one task on every machine grow and shrink with the cell: at the end of each operation, every machine
//! that suits such a job has a task of it, or there is a reason why not ([`LeftOut`]).
//!
//! A task begins in the operation that adds its machine or makes it suit, and is placed as any other; only its own
//! machine fits it. The number of tasks in the job's descriptions follows.

use std::sync::Arc;

use event::{Death, KillReason};
use model::{
    Band, CollectionId, Dimension, InstanceId, MachineId, MachineName, Resources, TaskIndex,
    UserName,
};
use spec::{JobSpec, limits};

use super::Events;
use super::quota::charged_bands;
use crate::feasibility::{Offer, VariantsOfPackage, is_available, suits, suits_with};
use crate::{Cell, Job, LeftOut, MachineTasks, TaskState, Total};

impl Cell {
    /// A description as the cell stores it: the number of tasks of one that wants a task on every machine is that of the
    /// live job of its name, or of the machines that suit it now.
    pub(super) fn as_sized(&self, owner: &UserName, spec: Arc<JobSpec>) -> Arc<JobSpec> {
        if !spec.is_on_every_machine() {
            return spec;
        }
        let live = self.job_named(owner, &spec.name).filter(|job| job.is_alive());
        let tasks = match live {
            Some(job) => job.spec.tasks,
            None => u32::try_from(self.suited(owner, &spec).len()).unwrap_or(u32::MAX),
        };
        match spec.tasks == tasks {
            true => spec,
            false => Arc::new(JobSpec { tasks, ..JobSpec::clone(&spec) }),
        }
    }

    /// The machines that suit a description, in the order in which they were added.
    #[must_use]
    pub fn suited(&self, owner: &UserName, spec: &JobSpec) -> Vec<MachineId> {
        let variants = VariantsOfPackage::of(self, owner, spec);
        let suited = self.machines.iter().filter(|machine| suits_with(&variants, spec, machine));
        suited.map(|machine| machine.id).collect()
    }

    /// The rows of a new job with one task on every machine: one for each machine that suits it.
    pub(super) fn machine_tasks(&self, owner: &UserName, spec: &JobSpec) -> Option<MachineTasks> {
        let suited = spec.is_on_every_machine().then(|| self.suited(owner, spec))?;
        MachineTasks::from_parts((0..spec.tasks).map(TaskIndex).zip(suited), [])
    }

    /// Brings the jobs with one task on every machine in step with what an operation changed.
    pub(super) fn keep_every_machine(&mut self, events: &mut Events) {
        let machines = std::mem::take(&mut events.described);
        let left = std::mem::take(&mut events.left);
        let whole = std::mem::take(&mut events.respread);
        if !machines.is_empty() || !left.is_empty() {
            for id in self.every_machine.clone() {
                for (machine, name) in &left {
                    self.machine_leaves(id, *machine, name, events);
                }
                for machine in &machines {
                    self.look_at_machine(id, *machine, events);
                }
            }
        }
        for id in whole {
            self.look_at_all_machines(id, events);
        }
        while let Some((id, machine)) = events.vacated.pop_first() {
            self.look_at_machine(id, machine, events);
        }
        for id in self.lacking.clone() {
            self.take_up_left_out(id, events);
        }
    }

    fn look_at_all_machines(&mut self, id: CollectionId, events: &mut Events) {
        let Some(tasks) = self.jobs.get(id).and_then(|job| job.machine_tasks()) else { return };
        // A job that was dead when they were removed.
        let gone = |machine: &MachineId| self.machines.get(*machine).is_none();
        let gone: Vec<_> = tasks.machines().map(|(_, machine)| machine).filter(gone).collect();
        gone.into_iter().for_each(|machine| self.take_back(id, machine));
        let all: Vec<_> = self.machines.iter().map(|machine| machine.id).collect();
        for machine in all {
            self.look_at_machine(id, machine, events);
        }
    }

    /// A machine may suit a job now, or no longer, or its task has ended.
    fn look_at_machine(&mut self, id: CollectionId, machine: MachineId, events: &mut Events) {
        let Some(job) = self.jobs.get(id).filter(|job| job.is_alive()) else { return };
        let (Some(tasks), Some(found)) = (job.machine_tasks(), self.machines.get(machine)) else {
            return;
        };
        let name = found.name.clone();
        match (tasks.row(machine), suits(self, &job.owner, &job.spec, found)) {
            (Some(index), true) => {
                let left = job.task(index).is_some_and(|task| {
                    let why = KillReason::MachineLeft(name);
                    task.state.death() == Some(&Death::Killed(why))
                });
                // It suits again, before its task had ended.
                if left {
                    self.take_back(id, machine);
                    self.add_for_machine(id, machine, events);
                }
            }
            (None, true) => self.add_for_machine(id, machine, events),
            (_, false) => self.machine_leaves(id, machine, &name, events),
        }
    }

    /// The task of a machine ends, and with it the machine's claim on the row.
    fn machine_leaves(
        &mut self,
        id: CollectionId,
        machine: MachineId,
        name: &MachineName,
        events: &mut Events,
    ) {
        let Some(tasks) = self.jobs.get(id).and_then(|job| job.machine_tasks()) else { return };
        if let Some(index) = tasks.row(machine) {
            self.kill_task(id, index, &KillReason::MachineLeft(name.clone()), events);
            let task = self.jobs.get(id).and_then(|job| job.task(index));
            if task.is_some_and(|task| task.state.death().is_none()) {
                return;
            }
        }
        self.take_back(id, machine);
    }

    /// A machine that suits a job gets a task, if there is room for one.
    fn add_for_machine(&mut self, id: CollectionId, machine: MachineId, events: &mut Events) {
        let Some(job) = self.jobs.get(id) else { return };
        if job.is_being_killed() || self.lives_with(job).is_err() {
            return;
        }
        let Some(tasks) = job.machine_tasks() else { return };
        let new_row = !tasks.has_free_row(job.rows());
        if let Err(why) = self.room_for_machine(job, new_row) {
            if tasks.why_left_out(machine) != Some(why) {
                self.edit_machine_tasks(id, |tasks| tasks.leave_out(machine, why));
                self.lacking.insert(id);
            }
            return;
        }
        let free = tasks.free_row(job.rows());
        let index = free.unwrap_or(TaskIndex(job.rows()));
        self.edit_machine_tasks(id, |tasks| tasks.give(index, machine));
        self.lacks_less(id);
        match free {
            Some(_) => drop(self.revive(id, index, events)),
            None => {
                self.add_row(id);
                self.add_task(id, events);
            }
        }
    }

    /// Whether a job may have a task for one more machine, in a row that it has already or in a new one.
    pub(crate) fn room_for_machine(&self, job: &Job, new_row: bool) -> Result<(), LeftOut> {
        let rows = job.rows().saturating_add(u32::from(new_row));
        let limit = job.spec.limit(TaskIndex(0));
        let all = |one: u64| one.saturating_mul(rows.into());
        let bytes = [limit.ram, limit.disk, limit.disk_rate];
        let large = all(limit.cpu.0) > limits::CPU_MILLI_MAX
            || bytes.iter().any(|bytes| all(bytes.0) > limits::BYTES_MAX);
        let room = || self.room_for_tasks(&job.owner, &job.owner, new_row.into(), 1);
        if rows > limits::TASKS_MAX || large || room().is_err() {
            return Err(LeftOut::Tasks);
        }
        if self.quota_lacking_for_machine(job).is_some() {
            return Err(LeftOut::Quota);
        }
        Ok(())
    }

    /// What the quota of a job's owner lacks for a task on one more machine.
    #[must_use]
    pub fn quota_lacking_for_machine(&self, job: &Job) -> Option<(Band, Dimension)> {
        let index = TaskIndex(0);
        let back = job.undo_description().map_or(Resources::default(), |spec| spec.limit(index));
        let more: Total = job.spec.limit(index).most(back).into();
        let lacks = |band: Band| {
            let before = self.quota.charged(&job.owner, band);
            let granted = self.quota.granted(&job.owner, band, self.time);
            let after = before.plus(more);
            let beyond = |dimension: &Dimension| {
                after.get(*dimension) > granted.get(*dimension)
                    && after.get(*dimension) > before.get(*dimension)
            };
            Dimension::ALL.into_iter().find(beyond).map(|dimension| (band, dimension))
        };
        let bands = self.quota.metering.on.then(|| charged_bands(job));
        bands.into_iter().flatten().find_map(lacks)
    }

    /// Machines without a task get theirs, as far as there is room now.
    fn take_up_left_out(&mut self, id: CollectionId, events: &mut Events) {
        loop {
            let Some(job) = self.jobs.get(id).filter(|job| job.is_alive()) else {
                self.lacking.remove(&id);
                return;
            };
            let Some(tasks) = job.machine_tasks() else { return };
            let Some((machine, _)) = tasks.left_out().next() else {
                self.lacking.remove(&id);
                return;
            };
            self.add_for_machine(id, machine, events);
            let tasks = self.jobs.get(id).and_then(|job| job.machine_tasks());
            if tasks.is_none_or(|tasks| tasks.row(machine).is_none()) {
                return;
            }
        }
    }

    pub(super) fn edit_machine_tasks(
        &mut self,
        id: CollectionId,
        edit: impl FnOnce(&mut MachineTasks),
    ) {
        if let Some(tasks) = self.jobs.get_mut(id).and_then(|job| job.machine_tasks.as_mut()) {
            edit(tasks);
        }
    }

    fn take_back(&mut self, id: CollectionId, machine: MachineId) {
        let tasks = self.jobs.get(id).and_then(|job| job.machine_tasks());
        let known = tasks.is_some_and(|tasks| {
            tasks.row(machine).is_some() || tasks.why_left_out(machine).is_some()
        });
        if known {
            self.edit_machine_tasks(id, |tasks| tasks.take_back(machine));
            self.lacks_less(id);
        }
    }

    fn lacks_less(&mut self, id: CollectionId) {
        let tasks = self.jobs.get(id).and_then(|job| job.machine_tasks());
        if tasks.is_none_or(|tasks| tasks.left_out().next().is_none()) {
            self.lacking.remove(&id);
        }
    }

    /// Each description of a job has room for one more task.
    fn add_row(&mut self, id: CollectionId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let tasks = job.rows().saturating_add(1);
        Arc::make_mut(&mut job.spec).tasks = tasks;
        for (_, spec) in &mut job.others {
            Arc::make_mut(spec).tasks = tasks;
        }
    }

    /// Whether a row of a job with one task on every machine is for no machine that there is.
    pub(super) fn lacks_machine(&self, job: &Job, index: TaskIndex) -> bool {
        let exists = |machine| self.machines.get(machine).is_some();
        job.machine_tasks().is_some_and(|tasks| !tasks.machine(index).is_some_and(exists))
    }

    /// Whether an instance may leave its machine for a drain now: tasks that are on every machine leave when nothing else
    /// is left.
    #[must_use]
    pub fn may_leave_now(&self, instance: InstanceId) -> bool {
        let is_on_every = |id: &InstanceId| {
            self.jobs.get(id.collection).is_some_and(|job| job.spec.is_on_every_machine())
        };
        if !is_on_every(&instance) {
            return true;
        }
        let placed = self.placement(instance);
        let machine = placed.and_then(|placed| self.machines.get(placed.machine));
        machine.is_none_or(|machine| machine.instances().iter().all(is_on_every))
    }

    /// Whether a pending task waits for its only machine, which takes no tasks now: an update does not wait for it.
    #[must_use]
    pub fn waits_for_its_machine(&self, job: &Job, index: TaskIndex) -> bool {
        let pending = |task: &crate::Task| matches!(task.state, TaskState::Pending { .. });
        let machine = job.machine_of(index).and_then(|machine| self.machines.get(machine));
        job.task(index).is_some_and(pending)
            && machine.is_some_and(|machine| !is_available(&Offer::of(machine)))
    }
}
