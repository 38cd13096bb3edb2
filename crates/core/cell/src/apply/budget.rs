//! Disruption budgets: whether a task may be disrupted for a voluntary reason. One check for all who
//! ask: updates, drains, and whatever else stops tasks that could go on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use model::{CollectionId, InstanceId, Span, Time};

use crate::{Cell, Job, UpdateState};

/// The period of the maximum number of disruptions.
const HOUR: Span = Span::from_secs(3_600);

/// Why a disruption budget allows no further disruption now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetExhausted {
    /// Too many tasks would be down at once.
    AtOnce {
        /// The job.
        job: CollectionId,
        /// How many of its tasks are down.
        down: u32,
        /// How many more would be.
        more: u32,
        /// The maximum.
        most: u32,
    },
    /// There were too many disruptions within an hour.
    PerHour {
        /// The job.
        job: CollectionId,
        /// The maximum.
        most: u32,
        /// When the next is allowed; `None`: never.
        next: Option<Time>,
    },
}

/// In words, without the name of the job.
impl fmt::Display for BudgetExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtOnce { down, more, most, .. } => write!(
                f,
                "{down} of its tasks are down, {more} more would be, and its disruption budget allows {most} at once"
            ),
            Self::PerHour { most, .. } => {
                write!(f, "its disruption budget allows {most} disruptions within an hour")
            }
        }
    }
}

impl BudgetExhausted {
    /// The job whose budget it is.
    #[must_use]
    pub fn job(&self) -> CollectionId {
        match self {
            Self::AtOnce { job, .. } | Self::PerHour { job, .. } => *job,
        }
    }
}

impl Cell {
    /// Whether the disruption budgets allow stopping an instance now: of its job, and for an alloc
    /// also of the jobs that run in it. An instance that is down anyway may always be stopped.
    ///
    /// # Errors
    /// The budget that is exhausted.
    pub fn may_disrupt(&self, instance: InstanceId) -> Result<(), BudgetExhausted> {
        self.check_budgets(instance, |job| job.room(self.time))
    }

    /// The same for the open update of the instance's job. While that is being undone, the job's own
    /// maximum within an hour does not count: tasks would keep a failed version for that long. Nor do
    /// tasks that the undo has given up: the others would keep it for ever.
    ///
    /// # Errors
    /// The budget that is exhausted.
    pub fn may_update(&self, instance: InstanceId) -> Result<(), BudgetExhausted> {
        self.check_budgets(instance, |job| match job.id == instance.collection {
            true => job.room_for_update(self.time),
            false => job.room(self.time),
        })
    }

    fn check_budgets(
        &self,
        instance: InstanceId,
        room: impl Fn(&Job) -> Room,
    ) -> Result<(), BudgetExhausted> {
        if let Some(gang) = self.jobs.get(instance.collection).filter(|job| job.is_gang()) {
            return gang.gang_allows(room(gang));
        }
        let mut more: BTreeMap<CollectionId, u32> = BTreeMap::new();
        for id in self.tasks_in(instance).into_iter().chain([instance]) {
            let task = self.task(id.task()).filter(|task| task.generation == id.generation);
            if task.is_some_and(|task| task.up_since().is_some()) {
                *more.entry(id.collection).or_default() += 1;
            }
        }
        for (job, more) in more {
            self.jobs.get(job).map_or(Ok(()), |job| job.allows(more, room(job)))?;
        }
        Ok(())
    }
}

/// How many more tasks of a job may be stopped for voluntary reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// By the number that may be down at once.
    pub at_once: u32,
    /// By the number within an hour.
    pub per_hour: u32,
    /// When there is more room within an hour; `None`: never, or there is no such maximum.
    pub next: Option<Time>,
}

impl Room {
    /// How many more tasks may be stopped now.
    #[must_use]
    pub fn now(&self) -> u32 {
        self.at_once.min(self.per_hour)
    }
}

impl Job {
    /// How many of its tasks that are up may be stopped now.
    #[must_use]
    pub fn room(&self, now: Time) -> Room {
        let up = self.spec.down_max().saturating_add(self.counts().up);
        let at_once = up.saturating_sub(self.wanted());
        let Some(most) = self.spec.disruptions.per_hour else {
            return Room { at_once, per_hour: u32::MAX, next: None };
        };
        let recent = self.disrupted.iter().copied().filter(|at| now.since(*at) < HOUR);
        let (mut count, mut first) = (0u32, None);
        for at in recent {
            count = count.saturating_add(1);
            first = first.or(Some(at));
        }
        let next = first.filter(|_| most > 0).map(|at| at + HOUR);
        Room { at_once, per_hour: most.saturating_sub(count), next }
    }

    /// The same for its open update; see [`Cell::may_update`].
    #[must_use]
    pub fn room_for_update(&self, now: Time) -> Room {
        let room = self.room(now);
        match self.open_update().map(|update| &update.state) {
            Some(UpdateState::Undoing { .. }) => {
                let at_once = match room.at_once {
                    0 => {
                        let up = self.spec.down_max().saturating_add(self.counts().up);
                        let waits = self.given_up(now).max(self.pending_on_every_machine());
                        up.saturating_add(waits).saturating_sub(self.wanted())
                    }
                    some => some,
                };
                Room { at_once, per_hour: u32::MAX, next: None }
            }
            // Tasks that are on every machine wait for a machine that is full, drained or down, and the others do not
            // wait for them.
            _ => {
                let up = self.spec.down_max().saturating_add(self.counts().up);
                let up = up.saturating_add(self.pending_on_every_machine());
                let at_once = up.saturating_sub(self.wanted());
                Room { at_once, ..room }
            }
        }
    }

    /// Number of its pending tasks, if it has one on every machine: no other machine could take them.
    pub(crate) fn pending_on_every_machine(&self) -> u32 {
        if self.spec.is_on_every_machine() { self.counts().pending } else { 0 }
    }

    fn allows(&self, more: u32, room: Room) -> Result<(), BudgetExhausted> {
        let job = self.id;
        if more > room.at_once {
            let (down, most) = (self.down(), self.spec.down_max());
            return Err(BudgetExhausted::AtOnce { job, down, more, most });
        }
        match self.spec.disruptions.per_hour {
            Some(most) if more > room.per_hour => {
                Err(BudgetExhausted::PerHour { job, most, next: room.next })
            }
            _ => Ok(()),
        }
    }

    /// Whether its gang may be stopped. That takes down all of its tasks, and counts as one disruption. A gang of
    /// which a task is not up is down.
    fn gang_allows(&self, room: Room) -> Result<(), BudgetExhausted> {
        if self.counts().up < self.counts().alive() {
            return Ok(());
        }
        let at_once = self.spec.down_max().max(room.at_once);
        self.allows(1, Room { at_once, ..room })
    }

    /// Remembers that a task was disrupted, if the budget has a maximum per hour.
    pub(crate) fn disrupted_at(&mut self, now: Time) {
        let Some(most) = self.spec.disruptions.per_hour else { return };
        let kept = Arc::make_mut(&mut self.disrupted);
        kept.push(now);
        kept.retain(|at| now.since(*at) < HOUR);
        let too_many = kept.len().saturating_sub(most as usize);
        kept.drain(..too_many);
    }
}
