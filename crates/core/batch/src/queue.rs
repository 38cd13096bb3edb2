//! The queue itself: who waits, what runs, and in which order users have their turn.

use std::collections::{BTreeMap, BTreeSet};

use model::{CollectionId, Dimension, PoorestUser, Resources, ShareWeights, Span, Time, UserName};

use crate::job::PlaceInQueue;
use crate::share::ShareUsage;
use crate::waiting::{Needs, WaitingCounts, WaitingOfUser};
use crate::{BadJob, DominantShare, QueuedJob};

/// How a queue decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePolicy {
    /// What happens when the poorest user's tasks do not fit.
    pub poorest: PoorestUser,
    /// How long the past counts: what was used counts half after that time. `None`: only what is used now counts.
    pub half_life: Option<Span>,
    /// How long a task is assumed to run of which nothing is known.
    pub assumed_runtime: Span,
}

impl Default for QueuePolicy {
    fn default() -> Self {
        Self {
            poorest: PoorestUser::default(),
            half_life: None,
            assumed_runtime: Span::from_secs(3_600),
        }
    }
}

/// A user's place among all: the share, and of equal shares the job that is ahead.
pub(crate) type UserTurn = (DominantShare, PlaceInQueue, UserName);
/// When tasks are expected to end; with a number, because several may at once.
pub(crate) type ExpectedEnd = (Time, u64);

/// The jobs that wait, and the tasks that were enabled and have not ended.
#[derive(Clone, Debug)]
pub struct BatchQueue {
    pub(crate) policy: QueuePolicy,
    capacity: Resources,
    pub(crate) users: BTreeMap<UserName, QueueUser>,
    pub(crate) jobs: BTreeMap<CollectionId, HeldJob>,
    /// The users with waiting jobs.
    pub(crate) turns: BTreeSet<UserTurn>,
    /// The waiting jobs of which more tasks may run.
    pub(crate) waiting: WaitingCounts,
    pub(crate) running: BTreeMap<ExpectedEnd, RunningTasks>,
    next: u64,
    /// The job that has a reservation.
    pub(crate) reserved: Option<CollectionId>,
}

/// A user with jobs in the queue, tasks that run, or weights.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueUser {
    weights: ShareWeights,
    usage: ShareUsage,
    pub(crate) waiting: BTreeSet<PlaceInQueue>,
    /// Those of which more tasks may run.
    pub(crate) index: WaitingOfUser,
    turn: Option<UserTurn>,
}

/// A job of which tasks wait or run.
#[derive(Clone, Debug)]
pub(crate) struct HeldJob {
    /// With the number of tasks that wait.
    pub(crate) job: QueuedJob,
    pub(crate) running: u32,
    ends: BTreeSet<ExpectedEnd>,
    /// As what it is in the indices.
    indexed: Option<(Needs, Span, PlaceInQueue)>,
}

/// Tasks of one job that were enabled at one moment.
#[derive(Clone, Debug)]
pub(crate) struct RunningTasks {
    pub(crate) job: CollectionId,
    pub(crate) tasks: u32,
    pub(crate) request: Resources,
}

impl HeldJob {
    fn new(job: QueuedJob) -> Self {
        Self { job, running: 0, ends: BTreeSet::new(), indexed: None }
    }

    /// As what it has to be in the indices.
    fn to_index(&self, assumed: Span) -> Option<(Needs, Span, PlaceInQueue)> {
        let may = self.job.tasks > 0 && !self.is_throttled();
        let needs = Needs::of(&self.job.needs());
        may.then(|| (needs, self.job.runtime.or(assumed), self.job.place()))
    }

    /// Whether more of its tasks would be more than may run at once.
    pub(crate) fn is_throttled(&self) -> bool {
        self.job.at_once.is_some_and(|most| self.running >= most)
    }
}

impl BatchQueue {
    /// An empty queue. Shares are parts of the capacity.
    #[must_use]
    pub fn new(policy: QueuePolicy, capacity: Resources) -> Self {
        Self {
            policy,
            capacity,
            users: BTreeMap::new(),
            jobs: BTreeMap::new(),
            turns: BTreeSet::new(),
            waiting: WaitingCounts::default(),
            running: BTreeMap::new(),
            next: 0,
            reserved: None,
        }
    }

    /// Changes the capacity: machines come and go.
    pub fn set_capacity(&mut self, now: Time, capacity: Resources) {
        self.capacity = capacity;
        self.refresh(now);
    }

    /// Changes the weights of a user.
    pub fn set_weights(&mut self, now: Time, user: &UserName, weights: ShareWeights) {
        self.users.entry(user.clone()).or_default().weights = weights;
        self.take_turn(now, user);
    }

    /// The share of a user, as it counts now.
    #[must_use]
    pub fn share(&self, now: Time, user: &UserName) -> DominantShare {
        self.users.get(user).map_or_else(DominantShare::default, |user| self.share_of(now, user))
    }

    /// The resource of which the user's share is that, if the user has one.
    #[must_use]
    pub fn dominant(&self, now: Time, user: &UserName) -> Option<Dimension> {
        let user = self.users.get(user)?;
        let counted = user.usage.counted(now, self.policy.half_life);
        DominantShare::dimension(&counted, &self.capacity, &user.weights)
    }

    /// The weights of a user.
    #[must_use]
    pub fn weights(&self, user: &UserName) -> ShareWeights {
        self.users.get(user).map_or_else(ShareWeights::default, |user| user.weights)
    }

    /// What the enabled tasks of a user request.
    #[must_use]
    pub fn used(&self, user: &UserName) -> Resources {
        self.users.get(user).map_or_else(Resources::default, |user| user.usage.now)
    }

    /// What each task of a job requests; `None` if none of them waits or runs.
    #[must_use]
    pub fn request(&self, job: CollectionId) -> Option<Resources> {
        self.jobs.get(&job).map(|held| held.job.request)
    }

    /// The number of jobs with tasks that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.users.values().map(|user| user.waiting.len()).sum()
    }

    /// Adds a job.
    ///
    /// # Errors
    /// If it is there already, or could never start.
    pub fn submit(&mut self, now: Time, job: QueuedJob) -> Result<(), BadJob> {
        if job.tasks == 0 {
            return Err(BadJob::NoTasks);
        }
        match job.at_once {
            Some(0) => return Err(BadJob::NoneAtOnce),
            Some(at_once) if job.gang && at_once < job.tasks => {
                return Err(BadJob::ThrottledGang { tasks: job.tasks, at_once });
            }
            _ => {}
        }
        if self.jobs.contains_key(&job.id) {
            return Err(BadJob::Twice(job.id));
        }
        let (needs, capacity) = (job.needs(), self.capacity);
        if needs.first_above(&capacity).is_some() {
            return Err(BadJob::TooLarge { needs, capacity });
        }
        let id = job.id;
        self.users.entry(job.user.clone()).or_default();
        self.jobs.insert(id, HeldJob::new(job));
        self.settle(now, id);
        Ok(())
    }

    /// Removes the tasks of a job that wait. Those that run stay until they [end](Self::ended).
    pub fn withdraw(&mut self, now: Time, id: CollectionId) {
        let Some(held) = self.jobs.get_mut(&id) else { return };
        held.job.tasks = 0;
        self.settle(now, id);
    }

    /// Tasks of a job have ended. Those that were expected to end first are taken to be these.
    pub fn ended(&mut self, now: Time, id: CollectionId, tasks: u32) {
        self.stop(now, id, tasks);
        self.settle(now, id);
    }

    /// Tasks of a job were preempted and wait again, in the job's old place.
    pub fn requeued(&mut self, now: Time, id: CollectionId, tasks: u32) {
        let stopped = self.stop(now, id, tasks);
        let Some(held) = self.jobs.get_mut(&id) else { return };
        held.job.tasks = held.job.tasks.saturating_add(stopped);
        self.settle(now, id);
    }

    /// Takes tasks from those that run. Returns how many there were.
    fn stop(&mut self, now: Time, id: CollectionId, tasks: u32) -> u32 {
        let Some(held) = self.jobs.get_mut(&id) else { return 0 };
        let stopped = tasks.min(held.running);
        held.running -= stopped;
        let mut left = stopped;
        while left > 0
            && let Some(end) = held.ends.first().copied()
        {
            let Some(running) = self.running.get_mut(&end) else {
                held.ends.remove(&end);
                continue;
            };
            let of_these = left.min(running.tasks);
            running.tasks -= of_these;
            left -= of_these;
            if running.tasks == 0 {
                self.running.remove(&end);
                held.ends.remove(&end);
            }
        }
        let (freed, half_life) = (held.job.request.times(stopped.into()), self.policy.half_life);
        if let Some(user) = self.users.get_mut(&held.job.user) {
            user.usage.change(now, half_life, |used| used.minus(freed));
        }
        stopped
    }

    /// Moves the next tasks of a job, those that start together, from waiting to running. Returns how many.
    pub(crate) fn enable(&mut self, now: Time, id: CollectionId) -> u32 {
        let Some(held) = self.jobs.get_mut(&id) else { return 0 };
        let together = held.job.together();
        held.job.tasks -= together;
        self.run(now, now, id, together);
        self.settle(now, id);
        together
    }

    /// Adds tasks of a job that run since a moment.
    fn run(&mut self, now: Time, since: Time, id: CollectionId, together: u32) {
        let assumed = self.policy.assumed_runtime;
        let Some(held) = self.jobs.get_mut(&id) else { return };
        let needs = held.job.request.times(together.into());
        held.running += together;
        let end = since + held.job.runtime.or(assumed);
        // Tasks of one job that are enabled in one pass are one entry.
        let last = held.ends.last().filter(|(at, _)| *at == end).copied();
        match last.and_then(|end| self.running.get_mut(&end)) {
            Some(running) => running.tasks += together,
            None => {
                let end = (end, self.next);
                self.next += 1;
                held.ends.insert(end);
                let request = held.job.request;
                self.running.insert(end, RunningTasks { job: id, tasks: together, request });
            }
        }
        let half_life = self.policy.half_life;
        if let Some(user) = self.users.get_mut(&held.job.user) {
            user.usage.change(now, half_life, |used| used.plus(needs));
        }
    }

    /// Makes a job what it is, whatever it was: how many of its tasks wait, and how many run. Of those that are new among
    /// the latter, `begun` says since when they run; of others it is now.
    ///
    /// # Errors
    /// If its next tasks could never start: then none of them waits here.
    pub fn set(
        &mut self,
        now: Time,
        job: QueuedJob,
        running: u32,
        begun: &[(Time, u32)],
    ) -> Result<(), BadJob> {
        let (id, needs, capacity) = (job.id, job.needs(), self.capacity);
        let too_large = job.tasks > 0 && needs.first_above(&capacity).is_some();
        let tasks = if too_large { 0 } else { job.tasks };
        let job = QueuedJob { tasks, ..job };
        if tasks == 0 && running == 0 && !self.jobs.contains_key(&id) {
            return if too_large { Err(BadJob::TooLarge { needs, capacity }) } else { Ok(()) };
        }
        let half_life = self.policy.half_life;
        let user = self.users.entry(job.user.clone()).or_default();
        match self.jobs.get_mut(&id) {
            None => drop(self.jobs.insert(id, HeldJob::new(job))),
            Some(held) => {
                let count = u64::from(held.running);
                let (old, new) = (held.job.request.times(count), job.request.times(count));
                if old != new {
                    user.usage.change(now, half_life, |used| used.minus(old).plus(new));
                }
                user.waiting.remove(&held.job.place());
                held.job = job;
            }
        }
        let had = self.jobs.get(&id).map_or(0, |held| held.running);
        if had > running {
            self.stop(now, id, had - running);
        }
        let mut new = running.saturating_sub(had);
        for (since, tasks) in begun.iter().copied().chain([(now, u32::MAX)]) {
            let of_these = tasks.min(new);
            if of_these > 0 {
                self.run(now, since, id, of_these);
                new -= of_these;
            }
        }
        self.settle(now, id);
        if too_large { Err(BadJob::TooLarge { needs, capacity }) } else { Ok(()) }
    }

    /// Changes how it decides.
    pub fn set_policy(&mut self, now: Time, policy: QueuePolicy) {
        if self.policy == policy {
            return;
        }
        self.policy = policy;
        if policy.poorest == PoorestUser::Skipped {
            self.reserved = None;
        }
        let ids: Vec<CollectionId> = self.jobs.keys().copied().collect();
        ids.into_iter().for_each(|id| self.index(id));
        self.refresh(now);
    }

    /// What shares are parts of.
    #[must_use]
    pub fn capacity(&self) -> Resources {
        self.capacity
    }

    /// Makes the indices agree with a job.
    fn index(&mut self, id: CollectionId) {
        let assumed = self.policy.assumed_runtime;
        let Some(held) = self.jobs.get_mut(&id) else { return };
        let is = held.to_index(assumed);
        let was = std::mem::replace(&mut held.indexed, is);
        if was == is {
            return;
        }
        let Some(user) = self.users.get_mut(&held.job.user) else { return };
        if let Some((needs, runtime, place)) = was {
            self.waiting.remove(needs, runtime);
            user.index.remove(needs, runtime, place);
        }
        if let Some((needs, runtime, place)) = is {
            self.waiting.add(needs, runtime);
            user.index.add(needs, runtime, place);
        }
    }

    /// Makes places and turns agree with a job's tasks, and forgets it when it has none.
    fn settle(&mut self, now: Time, id: CollectionId) {
        self.index(id);
        let Some(HeldJob { job, running, .. }) = self.jobs.get(&id) else { return };
        let (user, place, waits, running) =
            (job.user.clone(), job.place(), job.tasks > 0, *running);
        if let Some(user) = self.users.get_mut(&user) {
            if waits {
                user.waiting.insert(place);
            } else {
                user.waiting.remove(&place);
            }
        }
        if !waits {
            if self.reserved == Some(id) {
                self.reserved = None;
            }
            if running == 0 {
                self.jobs.remove(&id);
            }
        }
        self.take_turn(now, &user);
    }

    /// Puts a user where its share belongs.
    fn take_turn(&mut self, now: Time, name: &UserName) {
        let Some(user) = self.users.get(name) else { return };
        let first = user.waiting.first().copied();
        let turn = first.map(|place| (self.share_of(now, user), place, name.clone()));
        let Some(user) = self.users.get_mut(name) else { return };
        if user.turn == turn {
            return;
        }
        if let Some(old) = std::mem::replace(&mut user.turn, turn.clone()) {
            self.turns.remove(&old);
        }
        self.turns.extend(turn);
    }

    /// Puts all users where their shares belong now.
    pub(crate) fn refresh(&mut self, now: Time) {
        let names: Vec<UserName> = self.turns.iter().map(|(_, _, name)| name.clone()).collect();
        names.iter().for_each(|name| self.take_turn(now, name));
    }

    fn share_of(&self, now: Time, user: &QueueUser) -> DominantShare {
        let counted = user.usage.counted(now, self.policy.half_life);
        DominantShare::of(&counted, &self.capacity, &user.weights)
    }
}
