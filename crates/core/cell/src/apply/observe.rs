//! What machines report about the instances placed on them. A report about an instance that is not,
//! or no longer, placed on the reporting machine is rejected and changes nothing.

use std::sync::Arc;

use event::{Death, EventKind, EvictionCause, StopReason, Subject};
use model::{End, InstanceId, MachineId, Span, StartLatency, StartPart};
use spec::{RestartPolicy, RestartWhen};

use super::task::{Again, Ending};
use super::{Events, cut, cut_check, start};
use crate::bounds::RESTART_DELAY_MIN;
use crate::lifecycle::{NotAStep, Transition};
use crate::{Cell, Health, Observation, ObservationRefused, Phase, Placement, TaskState};

type Observed = Result<(), ObservationRefused>;

impl Cell {
    /// An end as the cell stores it: truncated to the bounds.
    #[must_use]
    pub fn kept_end(&self, end: &End) -> End {
        match end {
            End::BrokeRule { reason } => End::BrokeRule { reason: cut(reason) },
            End::NotStarted { reason } => End::NotStarted { reason: cut(reason) },
            End::Unhealthy { reason } => End::Unhealthy { reason: cut(reason) },
            End::Lost { reason } => End::Lost { reason: cut(reason) },
            End::OutOfResources { reason } => End::OutOfResources { reason: cut(reason) },
            other => other.clone(),
        }
    }

    pub(super) fn observe(
        &mut self,
        machine: MachineId,
        observation: &Observation,
        events: &mut Events,
    ) -> Observed {
        match observation {
            Observation::Started { instance, latency } => {
                self.started(machine, *instance, *latency, events)
            }
            Observation::Health { instance, healthy, check } => {
                self.health(machine, *instance, *healthy, check, events)
            }
            Observation::NotHealthyYet { instance, check } => {
                self.not_healthy_yet(machine, *instance, check)
            }
            Observation::Unready { instance, check } => {
                self.unready(machine, *instance, check, events)
            }
            Observation::Ended { instance, end, usage } => {
                self.ended(machine, *instance, Ending { end, usage: *usage }, events)
            }
        }
    }

    /// The placement that a report is about; `step` is the reported life-cycle transition, if it is
    /// one.
    fn placed_there(
        &self,
        machine: MachineId,
        instance: InstanceId,
        step: Option<Transition>,
    ) -> Result<&Placement, ObservationRefused> {
        let job = self.jobs.get(instance.collection);
        let task = job.and_then(|job| job.task(instance.index));
        let Some(task) = task.filter(|task| task.generation == instance.generation) else {
            return Err(ObservationRefused::NotPresent(instance));
        };
        let TaskState::Running(placement) = &task.state else {
            let stage = task.state.stage();
            return Err(match step {
                Some(transition) => {
                    let refused = NotAStep { stage, transition };
                    ObservationRefused::NotAStep { instance, refused }
                }
                None => ObservationRefused::NotPlaced { instance, stage },
            });
        };
        let placed = placement.machine;
        if placed != machine {
            let reporting = machine;
            return Err(ObservationRefused::Elsewhere { instance, placed, reporting });
        }
        Ok(placement)
    }

    /// Updates the phase of a placed task.
    fn set_phase(&mut self, instance: InstanceId, phase: Phase) {
        let Some(job) = self.jobs.get_mut(instance.collection) else { return };
        job.change_placement(instance.index, |placement| placement.phase = phase);
    }

    fn started(
        &mut self,
        machine: MachineId,
        instance: InstanceId,
        measured: StartLatency,
        events: &mut Events,
    ) -> Observed {
        let placement = self.placed_there(machine, instance, None)?;
        if placement.phase != Phase::Starting {
            return Err(ObservationRefused::NothingNew(instance));
        }
        let passed = self.time.since(placement.since);
        let latency = start::started(placement.latency, measured, passed);
        let reported = self
            .jobs
            .get(instance.collection)
            .is_some_and(|job| job.has_reported_health(instance.index));
        let health = if reported { Health::Unknown } else { Health::Healthy };
        self.set_phase(instance, Phase::Started { at: self.time, health, since: self.time });
        self.volumes_are_known(instance, machine);
        self.set_latency(instance, latency);
        events.add(Subject::Task(instance), EventKind::Start { machine, latency });
        Ok(())
    }

    fn health(
        &mut self,
        machine: MachineId,
        instance: InstanceId,
        healthy: bool,
        check: &str,
        events: &mut Events,
    ) -> Observed {
        let new = if healthy { Health::Healthy } else { Health::Unhealthy };
        let is_checked = self.jobs.get(instance.collection).is_some_and(|job| {
            let spec = job.described(instance.index);
            spec.health_check(instance.index).is_some() || spec.task.readiness.is_some()
        });
        let placement = self.placed_there(machine, instance, None)?;
        let (known, mut first) = (placement.latency, StartLatency::UNKNOWN);
        match placement.phase {
            Phase::Started { at, health, since } if health != new => {
                if is_checked && healthy && health == Health::Unknown {
                    first = first.with(StartPart::Healthy, self.time.since(at));
                }
                // Without a check it has served since it began, which is known now that it goes on.
                let known_late = !is_checked && health == Health::Unknown && healthy;
                let since = if known_late { since } else { self.time };
                self.set_phase(instance, Phase::Started { at, health: new, since });
            }
            _ => return Err(ObservationRefused::NothingNew(instance)),
        }
        let check = cut_check(check);
        self.set_check(instance, check.clone());
        self.set_latency(instance, known.with_part_of(StartPart::Healthy, first));
        events.add(Subject::Task(instance), EventKind::Health { healthy, check, latency: first });
        Ok(())
    }

    fn unready(
        &mut self,
        machine: MachineId,
        instance: InstanceId,
        check: &str,
        events: &mut Events,
    ) -> Observed {
        match self.placed_there(machine, instance, None)?.phase {
            Phase::Started { at, health, .. } if health != Health::Unready => {
                let phase = Phase::Started { at, health: Health::Unready, since: self.time };
                self.set_phase(instance, phase);
            }
            _ => return Err(ObservationRefused::NothingNew(instance)),
        }
        let check = cut_check(check);
        self.set_check(instance, check.clone());
        events.add(Subject::Task(instance), EventKind::Unready { check });
        Ok(())
    }

    /// At most once in an incarnation: every further text would be a record in the log.
    fn not_healthy_yet(
        &mut self,
        machine: MachineId,
        instance: InstanceId,
        check: &str,
    ) -> Observed {
        let placement = self.placed_there(machine, instance, None)?;
        let unknown = matches!(placement.phase, Phase::Started { health: Health::Unknown, .. });
        let check = cut_check(check);
        if !unknown || placement.check.is_some() || check.is_none() {
            return Err(ObservationRefused::NothingNew(instance));
        }
        self.set_check(instance, check);
        Ok(())
    }

    fn set_latency(&mut self, instance: InstanceId, latency: StartLatency) {
        let Some(job) = self.jobs.get_mut(instance.collection) else { return };
        job.change_placement(instance.index, |placement| placement.latency = latency);
    }

    fn set_check(&mut self, instance: InstanceId, check: Option<Arc<str>>) {
        let Some(job) = self.jobs.get_mut(instance.collection) else { return };
        job.change_placement(instance.index, |placement| placement.check = check);
    }

    fn ended(
        &mut self,
        machine: MachineId,
        instance: InstanceId,
        ending: Ending<'_>,
        events: &mut Events,
    ) -> Observed {
        let step = match ending.end {
            End::Exited { code: 0 } => Transition::Finish,
            End::Lost { .. } | End::Stopped => Transition::Lost,
            End::OutOfResources { .. } => Transition::Evict,
            _ => Transition::Fail,
        };
        let stop = self.placed_there(machine, instance, Some(step))?.stop.clone();
        let end = Ending { end: &self.kept_end(ending.end), ..ending };
        match (stop.as_deref(), step) {
            (Some(StopReason::Kill(why)), _) => {
                self.ended_for_good(instance, end, Death::Killed(why.clone()), events);
            }
            // It finished before it was given notice: later ends are reported as stopped.
            (Some(StopReason::Evict(_)), Transition::Finish) if !self.restarts_always(instance) => {
                self.ended_for_good(instance, end, Death::Finished, events);
            }
            (Some(StopReason::Evict(cause)), _) => {
                let wait = Span::ZERO;
                self.begin_again(instance, Again::Evicted(*cause), wait, end, events);
            }
            (None, Transition::Finish) if self.restarts_always(instance) => {
                self.finished(instance, end, events);
            }
            (None, Transition::Finish) => {
                self.ended_for_good(instance, end, Death::Finished, events);
            }
            (None, Transition::Lost) => self.lost(instance, end, events),
            (None, Transition::Evict) => {
                // Nobody's failure either, and its machine may be short again at once.
                let policy = self.restart_policy(instance);
                let cause = EvictionCause::OutOfResources;
                self.begin_again(instance, Again::Evicted(cause), policy.delay, end, events);
            }
            (None, _) => self.failed(machine, instance, end, events),
        }
        Ok(())
    }

    /// How an instance is retried: never at once, to avoid a busy loop.
    fn restart_policy(&self, instance: InstanceId) -> RestartPolicy {
        let job = self.jobs.get(instance.collection);
        let policy = job.map(|job| job.spec.restart).unwrap_or_default();
        policy.at_least(RESTART_DELAY_MIN)
    }

    fn restarts_always(&self, instance: InstanceId) -> bool {
        self.restart_policy(instance).when == RestartWhen::Always
    }

    /// How long an instance has run.
    fn ran(&self, instance: InstanceId) -> Span {
        match self.placement(instance).map(|placed| placed.phase) {
            Some(Phase::Started { at, .. }) => self.time.since(at),
            _ => Span::ZERO,
        }
    }

    /// A task that is restarted always exited with 0. A run as long as the maximum delay is no busy
    /// loop: the next one begins after the first delay.
    fn finished(&mut self, instance: InstanceId, ending: Ending<'_>, events: &mut Events) {
        let (policy, ran) = (self.restart_policy(instance), self.ran(instance));
        let Some(job) = self.jobs.get_mut(instance.collection) else { return };
        let Some(task) = job.task_mut(instance.index) else { return };
        task.finishes = task.finishes.saturating_add(1);
        let policy =
            RestartPolicy { reset_after: policy.reset_after.min(policy.delay_max), ..policy };
        task.ends_in_row = policy.ends_in_row(task.ends_in_row, ran);
        let wait = policy.delay_after(task.ends_in_row);
        self.begin_again(instance, Again::Finished, wait, ending, events);
    }

    /// A task that was lost is retried, and that is nobody's failure. One that had not started waits longer
    /// each time, as after failures: what it lacks, such as a package, may be missing for long. One that ran well until
    /// it was lost begins with the first delay.
    fn lost(&mut self, instance: InstanceId, ending: Ending<'_>, events: &mut Events) {
        let policy = self.restart_policy(instance);
        let starting = |placed: &Placement| placed.phase == Phase::Starting;
        let (ran, never_started) =
            (self.ran(instance), self.placement(instance).is_some_and(starting));
        let Some(job) = self.jobs.get_mut(instance.collection) else { return };
        let Some(task) = job.task_mut(instance.index) else { return };
        if !never_started {
            if ran >= policy.reset_after {
                task.ends_in_row = 0;
            }
            self.begin_again(instance, Again::Lost, policy.delay, ending, events);
            return;
        }
        task.ends_in_row = policy.ends_in_row(task.ends_in_row, Span::ZERO);
        let tries = task.ends_in_row;
        let wait = policy.delay_after(tries);
        self.begin_again(instance, Again::StartLost { tries }, wait, ending, events);
    }

    fn failed(
        &mut self,
        machine: MachineId,
        instance: InstanceId,
        ending: Ending<'_>,
        events: &mut Events,
    ) {
        let (now, policy) = (self.time, self.restart_policy(instance));
        let ran = self.ran(instance);
        self.task_fails(instance);
        let Some(job) = self.jobs.get_mut(instance.collection) else { return };
        let user = job.owner.clone();
        let Some(task) = job.task_mut(instance.index) else { return };
        task.failures = task.failures.saturating_add(1);
        task.ends_in_row = policy.ends_in_row(task.ends_in_row, ran);
        let (own, ends) = (task.failures, task.ends_in_row);
        // A task that exceeds its memory limit, or breaks a rule, does so everywhere; and a missing
        // program is not the machine's fault.
        let crashed = !matches!(
            ending.end,
            End::OutOfMemory { .. } | End::BrokeRule { .. } | End::OverRuntime { .. }
        );
        let has_run = !matches!(ending.end, End::NotStarted { .. });
        let was_suspect = task.is_suspect(now);
        if crashed {
            task.crashed_on(machine, now);
        }
        let suspect = task.is_suspect(now);
        // Each is a failure of the whole gang.
        let failures = match job.is_gang() {
            true => job.tasks().fold(0u32, |sum, (_, task)| sum.saturating_add(task.failures)),
            false => own,
        };
        // While an update changes a task, it is the update that fails: an undo needs the task alive.
        let again = match ending.end {
            // It would run too long again: only a job that is to run for ever begins again.
            End::OverRuntime { .. } => policy.when == RestartWhen::Always,
            _ => true,
        };
        if (again && policy.allows(failures)) || self.is_changing(instance) {
            let wait = policy.delay_after(ends);
            self.begin_again(instance, Again::Failed, wait, ending, events);
        } else {
            self.ended_for_good(instance, ending, Death::Failed, events);
            self.gang_fails(instance.task(), events);
        }
        if suspect && !was_suspect {
            events.add(Subject::Task(instance), EventKind::Suspect);
        }
        if suspect || !crashed || !has_run {
            return;
        }
        if let Some(machine) = self.machines.get_mut(machine) {
            let was_suspect = machine.is_suspect(now);
            machine.saw_crash(instance.task(), user, now);
            if machine.is_suspect(now) && !was_suspect {
                events.add(Subject::Machine(machine.id), EventKind::Suspect);
            }
        }
    }
}
