//! When what waits is expected to start, and what it waits for.

use std::collections::BTreeMap;

use cell::Cell;
use model::{CollectionId, Resources, Time, UserName};

use crate::{BatchQueue, DominantShare, QueueAdmission, Runtime};

/// When a job gets its first tasks, as far as that can be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedStart {
    /// The moment.
    pub at: Time,
    /// How certain it is.
    pub by: StartBasis,
}

/// What an expected start is taken from: of the tasks that end before, the least certain runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StartBasis {
    /// No task has to end.
    NoEnd,
    /// They are ended then.
    Bounds,
    /// Their jobs say so.
    Expectations,
    /// Earlier jobs took so long.
    EarlierJobs,
    /// Of some nothing is known.
    Assumption,
}

impl From<Runtime> for StartBasis {
    fn from(runtime: Runtime) -> Self {
        match runtime {
            Runtime::Bounded(_) => Self::Bounds,
            Runtime::Expected(_) => Self::Expectations,
            Runtime::Earlier(_) => Self::EarlierJobs,
            Runtime::Unknown => Self::Assumption,
        }
    }
}

/// What a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// Other jobs, which it runs after.
    Jobs,
    /// The end of tasks of its own: only some may run at once.
    OwnTasks {
        /// How many.
        at_once: u32,
    },
    /// Machines: all together are too small.
    Machines {
        /// What its next tasks need.
        needs: Resources,
        /// What all machines have.
        capacity: Resources,
    },
    /// The next pass: it is its turn and there is room.
    Pass,
    /// Room, which is reserved for it.
    Reservation {
        /// From when on it is expected.
        at: Time,
    },
    /// Room: its next tasks do not fit.
    Room {
        /// What they need.
        needs: Resources,
    },
    /// Its turn: what it needs is there, and would delay the job that has the reservation.
    Turn {
        /// That job.
        behind: CollectionId,
    },
}

/// A job in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingJob {
    /// The job.
    pub job: CollectionId,
    /// Its owner.
    pub user: UserName,
    /// The number of its tasks that wait.
    pub tasks: u32,
    /// Since when the first of them waits.
    pub since: Time,
    /// Its owner's share now.
    pub share: DominantShare,
    /// How many jobs are ahead of it in the order of turns; `None` if it cannot have a turn yet.
    pub ahead: Option<u32>,
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// When it is expected to start, if that is known.
    pub starts: Option<ExpectedStart>,
    /// What its own runtime is taken from.
    pub runtime: Runtime,
}

impl BatchQueue {
    /// The moments at which waiting jobs get their first tasks, if every task runs as long as expected, nothing is
    /// submitted, and the room of others stays as it is. Looks at up to `ends_max` ends of tasks; a job that does not
    /// start until then is not in it.
    #[must_use]
    pub fn forecast(
        &self,
        now: Time,
        room: Resources,
        ends_max: usize,
    ) -> BTreeMap<CollectionId, ExpectedStart> {
        let (mut queue, mut at, mut room) = (self.clone(), now, room);
        let (mut starts, mut by) = (BTreeMap::new(), StartBasis::NoEnd);
        for _ in 0..=ends_max {
            for enabled in queue.pass(at, room).enabled {
                starts.entry(enabled.job).or_insert(ExpectedStart { at, by });
                let held = queue.jobs.get(&enabled.job);
                let request = held.map_or_else(Resources::default, |held| held.job.request);
                room = room.minus(request.times(enabled.tasks.into()));
            }
            if queue.turns.is_empty() {
                break;
            }
            let Some(((end, _), running)) = queue.running.first_key_value() else { break };
            let (job, tasks) = (running.job, running.tasks);
            let runtime = queue.jobs.get(&job).map_or(Runtime::Unknown, |held| held.job.runtime);
            by = by.max(runtime.into());
            at = at.max(*end);
            room = room.plus(running.request.times(tasks.into()));
            queue.ended(at, job, tasks);
        }
        starts
    }
}

impl QueueAdmission {
    /// The jobs that wait, in the order of turns: by the shares of their owners now, and of each owner those ahead first;
    /// then those that cannot have a turn yet, the oldest first. Starts are looked for among the next `ends_max` ends of
    /// tasks.
    #[must_use]
    pub fn waiting(&self, cell: &Cell, now: Time, ends_max: usize) -> Vec<WaitingJob> {
        let starts = self.queue().forecast(now, self.room(), ends_max);
        let mut jobs = Vec::new();
        let mut ahead = 0;
        for (share, _, user) in &self.queue().turns {
            let Some(of_user) = self.queue().users.get(user) else { continue };
            for place in &of_user.waiting {
                let Some(held) = self.queue().jobs.get(&place.2) else { continue };
                let throttled = held.job.at_once.filter(|_| held.is_throttled());
                let waits_for = match throttled {
                    Some(at_once) => WaitsFor::OwnTasks { at_once },
                    None => self.waits_for(place.2, held.job.needs()),
                };
                jobs.push(WaitingJob {
                    job: place.2,
                    user: user.clone(),
                    tasks: held.job.tasks,
                    since: held.job.since,
                    share: *share,
                    ahead: throttled.is_none().then_some(ahead),
                    waits_for,
                    starts: starts.get(&place.2).copied(),
                    runtime: held.job.runtime,
                });
                ahead += u32::from(throttled.is_none());
            }
        }
        for id in self.without_turn() {
            let Some(job) = cell.job(id) else { continue };
            let queued = self.as_queued(cell, job);
            let (needs, capacity) = (queued.needs(), self.queue().capacity());
            let waits_for = match job.waits_for.is_empty() {
                true => WaitsFor::Machines { needs, capacity },
                false => WaitsFor::Jobs,
            };
            jobs.push(WaitingJob {
                job: id,
                user: queued.user.clone(),
                tasks: queued.tasks,
                since: queued.since,
                share: self.queue().share(now, &queued.user),
                ahead: None,
                waits_for,
                starts: None,
                runtime: queued.runtime,
            });
        }
        jobs
    }

    fn waits_for(&self, job: CollectionId, needs: Resources) -> WaitsFor {
        let capacity = self.queue().capacity();
        if needs.first_above(&capacity).is_some() {
            return WaitsFor::Machines { needs, capacity };
        }
        let fits = needs.first_above(&self.room()).is_none();
        match self.reserved() {
            Some(reserved) if reserved.job == job => WaitsFor::Reservation { at: reserved.at },
            _ if !fits => WaitsFor::Room { needs },
            Some(reserved) => WaitsFor::Turn { behind: reserved.job },
            None => WaitsFor::Pass,
        }
    }
}
