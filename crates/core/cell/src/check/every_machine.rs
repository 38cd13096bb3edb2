//! Jobs with one task on every machine: each machine that suits such a job has exactly one task of it, or a reason why
//! not, and no task is without its machine.

use imbl::OrdSet;
use model::{CollectionId, MachineId};
use thiserror::Error;

use super::Violations;
use crate::feasibility::suits;
use crate::{Cell, Job, LeftOut, MachineTasks, TaskState};

/// What is wrong with a job that has one task on every machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EveryMachineViolation {
    /// A machine and the job do not agree.
    #[error("job {job} has one task on every machine, and {machine} {why}")]
    Machine {
        /// The job.
        job: CollectionId,
        /// The machine.
        machine: MachineId,
        /// What is wrong.
        why: &'static str,
    },
    /// The rows of the job are wrong.
    #[error("job {job}: {why}")]
    Rows {
        /// The job.
        job: CollectionId,
        /// What is wrong.
        why: &'static str,
    },
    /// The lists of such jobs are wrong.
    #[error("the lists of jobs with one task on every machine are wrong")]
    Lists,
}

impl Cell {
    pub(super) fn check_every_machine(&self, found: &mut Violations) {
        let (mut live, mut lacking) = (OrdSet::new(), OrdSet::new());
        for job in self.jobs.iter() {
            let mut wrong =
                |why| found.add(EveryMachineViolation::Rows { job: job.id, why }.into());
            let Some(tasks) = job.machine_tasks() else {
                if job.spec.is_on_every_machine() {
                    wrong("it has one task on every machine, and none is for a machine");
                }
                continue;
            };
            if !job.spec.is_on_every_machine() {
                wrong("its description has a number of tasks, and its tasks are for machines");
            }
            let all = job.other_descriptions().map(|(_, spec)| spec).chain([&job.spec]);
            if all.into_iter().any(|spec| spec.tasks != job.rows()) {
                wrong("a description has another number of tasks than there are rows");
            }
            if !job.is_alive() {
                continue;
            }
            live.insert(job.id);
            if tasks.left_out().next().is_some() {
                lacking.insert(job.id);
            }
            self.check_rows(job, tasks, found);
            self.check_suited(job, tasks, found);
        }
        if live != self.every_machine || lacking != self.lacking {
            found.add(EveryMachineViolation::Lists.into());
        }
    }

    /// Each live task has a machine, and is nowhere else.
    fn check_rows(&self, job: &Job, tasks: &MachineTasks, found: &mut Violations) {
        for (index, task) in job.tasks() {
            let (machine, alive) = (tasks.machine(index), task.state.death().is_none());
            let wrong = match (&task.state, machine) {
                (_, None) if alive => "a task lives without a machine",
                (TaskState::Running(placed), Some(machine)) if placed.machine != machine => {
                    "a task runs on the machine of another"
                }
                _ => continue,
            };
            found.add(EveryMachineViolation::Rows { job: job.id, why: wrong }.into());
        }
        if !tasks.is_one_to_one() {
            let why = "two rows are for one machine";
            found.add(EveryMachineViolation::Rows { job: job.id, why }.into());
        }
    }

    fn check_suited(&self, job: &Job, tasks: &MachineTasks, found: &mut Violations) {
        let grows = !job.is_being_killed() && self.lives_with(job).is_ok();
        for machine in self.machines.iter() {
            let (row, left_out) = (tasks.row(machine.id), tasks.why_left_out(machine.id));
            let task = row.and_then(|index| job.task(index));
            let ends = task.is_some_and(|task| matches!(task.state, TaskState::Running(_)));
            let suits = suits(self, &job.owner, &job.spec, machine);
            let why = match (suits, row, left_out) {
                (true, None, None) if grows => "suits it and has neither a task nor a reason",
                (_, Some(_), Some(_)) => "has a task and is left out",
                (false, Some(_), _) if !ends => "does not suit it and has a task",
                (false, None, Some(_)) => "does not suit it and is left out",
                (true, None, Some(LeftOut::Quota)) if grows && self.has_room(job, tasks) => {
                    "is left out for quota that suffices"
                }
                _ => continue,
            };
            let (job, machine) = (job.id, machine.id);
            found.add(EveryMachineViolation::Machine { job, machine, why }.into());
        }
        for (_, machine) in tasks.machines() {
            if self.machines.get(machine).is_none() {
                let (job, why) = (job.id, "does not exist");
                found.add(EveryMachineViolation::Machine { job, machine, why }.into());
            }
        }
    }

    fn has_room(&self, job: &Job, tasks: &MachineTasks) -> bool {
        self.room_for_machine(job, !tasks.has_free_row(job.rows())).is_ok()
    }
}
