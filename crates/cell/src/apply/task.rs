//! The steps of a task's life, and what they do to its job and its machine. Every change of a
//! task's state goes through here, so that what is derived from it is changed with it.

use std::sync::Arc;

use model::{End, Generation, InstanceId, Span};

use super::Events;
use crate::{
    Cell, Death, EventKind, JobState, LastLife, PendingCause, Placement, Subject, TaskState,
};

impl Cell {
    /// A pending task gets its machine.
    pub(super) fn place(
        &mut self,
        instance: InstanceId,
        placement: Placement,
        events: &mut Events,
    ) {
        let machine = placement.machine;
        let Some(job) = self.jobs.get_mut(instance.collection) else { return };
        let limit = job.limit(instance.index);
        let Some(task) = job.tasks.get_mut(instance.index.0 as usize) else { return };
        if let Some(machine) = self.machines.get_mut(machine) {
            machine.place(instance, limit, &placement.ports);
            if let Some(last) = placement.ports.last() {
                // After the last port of all comes 0, from where the first of the range is taken.
                machine.next_port = last.wrapping_add(1);
            }
        }
        events.reorder(machine);
        task.state = TaskState::Running(placement);
        job.pending -= 1;
        job.running += 1;
        if job.pending == 0 {
            self.pending.remove(&instance.collection);
        }
        if job.state == JobState::Pending {
            job.state = JobState::Running;
            events.add(Subject::Job(instance.collection), EventKind::Schedule { machine });
        }
        events.add(Subject::Task(instance), EventKind::Schedule { machine });
    }

    /// A placed life ends, and the task begins another one, pending. It may be tried again after
    /// `wait`.
    pub(super) fn begin_again(
        &mut self,
        instance: InstanceId,
        cause: PendingCause,
        wait: Span,
        end: &End,
        events: &mut Events,
    ) {
        self.take_off_machine(instance, end, events);
        let now = self.time;
        let Some(job) = self.jobs.get_mut(instance.collection) else { return };
        let Some(task) = job.tasks.get_mut(instance.index.0 as usize) else { return };
        task.generation = Generation(task.generation.0.saturating_add(1));
        task.state = TaskState::Pending { since: now, not_before: now + wait, cause };
        let instance = instance.task().generation(task.generation);
        job.pending += 1;
        self.pending.insert(instance.collection);
        events.add(Subject::Task(instance), EventKind::Submit { cause });
    }

    /// A placed life ends, and its task dies with it.
    pub(super) fn ended_for_good(
        &mut self,
        instance: InstanceId,
        end: &End,
        death: Death,
        events: &mut Events,
    ) {
        self.take_off_machine(instance, end, events);
        self.die(instance, death, events);
    }

    /// A task that is on no machine dies, and with the last of them its job.
    pub(super) fn die(&mut self, instance: InstanceId, death: Death, events: &mut Events) {
        let now = self.time;
        let Some(job) = self.jobs.get_mut(instance.collection) else { return };
        let Some(task) = job.tasks.get_mut(instance.index.0 as usize) else { return };
        if let TaskState::Pending { .. } = task.state {
            job.pending -= 1;
            if job.pending == 0 {
                self.pending.remove(&instance.collection);
            }
        }
        task.state = TaskState::Dead { at: now, death };
        events.add(Subject::Task(instance), EventKind::Dead(death));
        if job.pending == 0 && job.running == 0 {
            job.state = JobState::Dead { at: now };
            let death = job.death();
            events.add(Subject::Job(instance.collection), EventKind::Dead(death));
        }
    }

    /// The machine's part of the end of a placed life: its resources and ports are free again.
    fn take_off_machine(&mut self, instance: InstanceId, end: &End, events: &mut Events) {
        let Some(job) = self.jobs.get_mut(instance.collection) else { return };
        let limit = job.limit(instance.index);
        let Some(task) = job.tasks.get_mut(instance.index.0 as usize) else { return };
        let TaskState::Running(placement) = &task.state else { return };
        if let Some(machine) = self.machines.get_mut(placement.machine) {
            machine.release(instance, limit, &placement.ports);
        }
        events.reorder(placement.machine);
        let (generation, machine) = (instance.generation, placement.machine);
        task.last_life = Some(Arc::new(LastLife { generation, machine, end: end.clone() }));
        job.running -= 1;
    }
}
