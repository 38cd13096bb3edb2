//! What machines report of the instances placed on them. A report about an instance that is not,
//! or no longer, placed on the machine that reports it changes nothing.

use model::{End, InstanceId, MachineId};

use super::Events;
use crate::state::bounds::REASON_CHARACTERS_MAX;
use crate::{
    Cell, Death, EventKind, Health, Observation, PendingCause, Phase, Placement, Subject, TaskState,
};

impl Cell {
    pub(super) fn observe(
        &mut self,
        machine: MachineId,
        observation: &Observation,
        events: &mut Events,
    ) {
        match observation {
            Observation::Started { instance } => self.started(machine, *instance, events),
            Observation::Health { instance, healthy } => {
                self.health(machine, *instance, *healthy, events);
            }
            Observation::Ended { instance, end } => self.ended(machine, *instance, end, events),
        }
    }

    fn placed_there(&mut self, machine: MachineId, instance: InstanceId) -> Option<&mut Placement> {
        let job = self.jobs.get_mut(instance.collection)?;
        let task = job.tasks.get_mut(instance.index.0 as usize)?;
        match &mut task.state {
            TaskState::Running(placement)
                if task.generation == instance.generation && placement.machine == machine =>
            {
                Some(placement)
            }
            _ => None,
        }
    }

    fn started(&mut self, machine: MachineId, instance: InstanceId, events: &mut Events) {
        let at = self.time;
        let Some(job) = self.jobs.get(instance.collection) else { return };
        let health = match job.spec.task.health_check {
            Some(_) => Health::Unknown,
            None => Health::Healthy,
        };
        let Some(placement) = self.placed_there(machine, instance) else { return };
        if placement.phase == Phase::Starting {
            placement.phase = Phase::Started { at, health };
            events.add(Subject::Task(instance), EventKind::Start { machine });
        }
    }

    fn health(
        &mut self,
        machine: MachineId,
        instance: InstanceId,
        healthy: bool,
        events: &mut Events,
    ) {
        let Some(placement) = self.placed_there(machine, instance) else { return };
        let Phase::Started { health, .. } = &mut placement.phase else { return };
        let new = if healthy { Health::Healthy } else { Health::Unhealthy };
        if *health != new {
            *health = new;
            events.add(Subject::Task(instance), EventKind::Health { healthy });
        }
    }

    fn ended(&mut self, machine: MachineId, instance: InstanceId, end: &End, events: &mut Events) {
        let Some(placement) = self.placed_there(machine, instance) else { return };
        let killed = placement.killed_by.is_some();
        let end = &bounded(end);
        match end {
            _ if killed => self.ended_for_good(instance, end, Death::Killed, events),
            End::Exited { code: 0 } => {
                self.ended_for_good(instance, end, Death::Finished, events);
            }
            End::Lost { .. } | End::Stopped => {
                // It is nobody's failure, but what is lost again and again must not spin.
                let wait = self.jobs.get(instance.collection).map(|job| job.spec.restart.delay);
                let (cause, wait) = (PendingCause::Lost, wait.unwrap_or_default());
                self.begin_again(instance, cause, wait, end, events);
            }
            _ => self.failed(instance, end, events),
        }
    }

    fn failed(&mut self, instance: InstanceId, end: &End, events: &mut Events) {
        let Some(job) = self.jobs.get_mut(instance.collection) else { return };
        let policy = job.spec.restart;
        let Some(task) = job.tasks.get_mut(instance.index.0 as usize) else { return };
        task.failures = task.failures.saturating_add(1);
        let failures = task.failures;
        if policy.allows(failures) {
            let wait = policy.delay_after(failures);
            self.begin_again(instance, PendingCause::Failed, wait, end, events);
        } else {
            self.ended_for_good(instance, end, Death::Failed, events);
        }
    }
}

/// The same, with a reason of bounded length.
fn bounded(end: &End) -> End {
    let cut = |reason: &str| reason.chars().take(REASON_CHARACTERS_MAX).collect();
    match end {
        End::NotStarted { reason } => End::NotStarted { reason: cut(reason) },
        End::Unhealthy { reason } => End::Unhealthy { reason: cut(reason) },
        End::Lost { reason } => End::Lost { reason: cut(reason) },
        other => other.clone(),
    }
}
