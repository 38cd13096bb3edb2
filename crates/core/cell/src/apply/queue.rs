//! The batch queue: what is enabled, and its settings (paper, section 3.4; the events QUEUE and ENABLE of the trace).
//!
//! A job waits as a whole until the first of its tasks is enabled. A task that has lost its machine for a reason outside
//! itself waits again; one that failed does not.

use event::{EventKind, EvictionCause, PendingCause, Subject};
use model::{Enabled, End, InstanceId, QueueSettings, ShareWeights, Time, UserName};

use super::task::Again;
use super::{Events, full};
use crate::apply::mutation::Change;
use crate::bounds::{RESTART_DELAY_MIN, USERS_MAX};
use crate::lifecycle::Transition;
use crate::state::{EnableRefused, Tallied};
use crate::{
    Cell, CellPermission, Countable, Job, JobState, OutOfBounds, Permission, Rejection, Reply,
    TaskState,
};

/// Set how the batch queue decides, and whether there is one. Tasks that wait when it is switched off are enabled by
/// the next passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetQueuePolicy(pub QueueSettings);

impl Change for SetQueuePolicy {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_administrators(by, || Permission::OfCell(CellPermission::SetQueue))
    }

    fn within_bounds(&self) -> Result<(), Rejection> {
        let QueueSettings { half_life, assumed_runtime, .. } = self.0;
        let mut spans = half_life.into_iter().chain([assumed_runtime]);
        match spans.find(|span| !QueueSettings::SPANS.contains(span)) {
            Some(span) => Err(Rejection::OutOfBounds(OutOfBounds::QueueTime(span))),
            None => Ok(()),
        }
    }

    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        self.within_bounds()?;
        cell.set_queue(self.0, events);
        Ok(Reply::Done)
    }
}

/// Set the weights of a user in the batch queue; 1 in every dimension is what users have who were given none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetQueueWeight {
    /// The user.
    pub user: UserName,
    /// The weights.
    pub weights: ShareWeights,
}

impl Change for SetQueueWeight {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_administrators(by, || Permission::OfCell(CellPermission::SetQueue))
    }

    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Self { user, weights } = self;
        if cell.share_weights(user) == *weights {
            return Ok(Reply::Done);
        }
        let kept = &mut cell.queue.weights;
        if *weights == ShareWeights::default() {
            kept.remove(user);
        } else {
            if !kept.contains_key(user) {
                full(Countable::Users, kept.len() as u64, USERS_MAX as u64)?;
            }
            kept.insert(user.clone(), *weights);
        }
        let (user, weights) = (user.clone(), *weights);
        events.add(Subject::Cell, EventKind::QueueWeights { user, weights });
        Ok(Reply::Done)
    }
}

impl Cell {
    /// Switches the queue on, as part of bootstrapping a cell.
    pub(super) fn switch_queue_on(&mut self, events: &mut Events) {
        self.set_queue(QueueSettings { on: true, ..self.queue.settings }, events);
    }

    fn set_queue(&mut self, settings: QueueSettings, events: &mut Events) {
        if self.queue.settings != settings {
            self.queue.settings = settings;
            events.add(Subject::Cell, EventKind::QueueSettings(settings));
        }
    }

    /// The next tasks of a job that wait in the queue become pending.
    pub(super) fn enable(
        &mut self,
        enabled: Enabled,
        events: &mut Events,
    ) -> Result<(), EnableRefused> {
        self.can_be_enabled(enabled)?;
        let (now, id) = (self.time, enabled.job);
        let Some(job) = self.jobs.get_mut(id) else { return Err(EnableRefused::NoSuchJob(id)) };
        // Only with the first of its tasks.
        if job.state == JobState::Queued
            && job.advance(Transition::Enable, JobState::Pending).is_ok()
        {
            events.add(Subject::Job(id), EventKind::Enable);
        }
        let before = Tallied::of(job);
        let delay = job.spec.restart.delay.max(RESTART_DELAY_MIN);
        for _ in 0..enabled.tasks {
            let index = job.first_queued();
            let Some(task) = job.task(index) else { break };
            // Where it was, it could not stay: it is not tried again at once.
            let waits = task.last_incarnation.as_ref().is_some_and(|last| {
                matches!(last.end, End::Lost { .. } | End::OutOfResources { .. })
            });
            let not_before = if waits { now + delay } else { now };
            let cause = PendingCause::Submitted;
            let state = TaskState::Pending { since: now, not_before, cause };
            if job.step(index, Transition::Enable, state).is_err() {
                break;
            }
            if let Some(instance) = job.instance(index) {
                events.add(Subject::Task(instance), EventKind::Enable);
            }
        }
        self.tally.replace(&job.owner, before, Tallied::of(job));
        self.pending.insert(id);
        Ok(())
    }

    /// Since when a task waits that begins again, if it waits in the queue for that: since its job was submitted if that
    /// asks for it.
    pub(super) fn queues_again(&self, instance: InstanceId, how: Again) -> Option<Time> {
        let outside = match how {
            Again::Lost => true,
            // A task that is moved has room already, on the machine that its cause names.
            Again::Evicted(EvictionCause::Updated | EvictionCause::Moved { .. }) => false,
            Again::Evicted(_) => true,
            Again::Failed | Again::StartLost { .. } | Again::Finished => false,
        };
        let job = self.jobs.get(instance.collection)?;
        // The tasks of a gang start together again as soon as there is room.
        let queues =
            outside && !job.is_gang() && self.queue.settings.on && job.spec.waits_in_queue();
        queues.then_some(if job.spec.batch.requeue { job.submitted } else { self.time })
    }

    /// Remembers how long a task of a best-effort batch job took that finishes now.
    pub(super) fn remember_runtime(&mut self, instance: InstanceId) {
        let Some(job) = self.jobs.get(instance.collection) else { return };
        if !job.spec.waits_in_queue() {
            return;
        }
        let Some(crate::Phase::Started { at, .. }) =
            self.placement(instance).map(|placed| placed.phase)
        else {
            return;
        };
        let (now, owner, name) = (self.time, job.owner.clone(), job.spec.name.clone());
        self.queue.runtimes.ended(&owner, &name, now.since(at), now);
    }
}

impl Job {
    /// A new task, or one that begins again, waits to be enabled. Returns whether it does.
    pub(super) fn queue_task(&mut self, index: model::TaskIndex, since: Time) -> bool {
        self.step(index, Transition::Queue, TaskState::Queued { since }).is_ok()
    }
}
