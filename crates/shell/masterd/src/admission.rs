//! Admission control: which requests of users and schedulers are accepted while many are already
//! waiting (paper, section 3.3: the Borgmaster stays up under overload by admission control).
//!
//! Requests count from acceptance until their answer, in number and in bytes. The more requests
//! wait, the more are rejected, the least important first, each with a time after which to retry. A
//! principal's own waiting requests count twice against it: a single principal can use half of the
//! room, several get equal parts, and as much as each has stays free for the next one (dynamic
//! thresholds; Choudhury and Hahne, 1998). The last part of the core's queue is reserved for
//! machines and the master itself: however much users request, a machine's report finds room. Reads
//! are answered from views and never wait here. A follower counts the requests that it forwards in
//! the same way.
//!
//! Beside that, the tasks that a user changes are bounded: see [`changed_tasks`].

pub(crate) mod changed_tasks;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cell::{Cell, Mutation, Total};
use model::{Band, Beyond, Time, UserName};
use spec::JobSpec;
use tonic::Status;

use self::changed_tasks::{ChangedTasks, Wait};
use crate::rate_limited_log::Tally;
use crate::request::{Principal, Request};
use rpc::metadata::RETRY_AFTER;

/// The limits on waiting requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionLimits {
    /// Number of requests: the capacity of the core's queue.
    pub(crate) requests: usize,
    /// Their size in bytes.
    pub(crate) bytes: usize,
}

/// The number and size of waiting requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    requests: usize,
    bytes: usize,
}

impl Load {
    fn plus(self, more: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(more.requests),
            bytes: self.bytes.saturating_add(more.bytes),
        }
    }

    fn minus(self, less: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(less.requests),
            bytes: self.bytes.saturating_sub(less.bytes),
        }
    }
}

/// What a request asks for, by importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestClass {
    /// Submitting or updating a job, by its band; the free band if the user has no quota at all for
    /// it.
    Submission(Band),
    /// Any other change to the cell: kills, sessions, machines, a scheduler's proposals.
    Change,
}

/// The number of parts into which the limits are divided.
const PARTS: usize = 8;
/// The shortest and the longest time after which clients are told to retry.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// The period over which the rate of answers is measured.
const RATE_OVER: Duration = Duration::from_millis(100);

impl RequestClass {
    /// All classes.
    const ALL: [Self; 6] = {
        let [free, batch, mid, production, monitoring] = Band::ALL;
        [
            Self::Submission(free),
            Self::Submission(batch),
            Self::Submission(mid),
            Self::Submission(production),
            Self::Submission(monitoring),
            Self::Change,
        ]
    };

    /// The class of a request, in a cell at a time.
    pub(crate) fn of(ask: &Request, cell: &Cell, now: Time) -> Self {
        match ask {
            Request::Mutate(_, by, Mutation::Submit(spec)) => {
                Self::Submission(covered(cell, now, &by.user, spec))
            }
            Request::Mutate(..)
            | Request::OpenSession(_)
            | Request::Enrolment(_)
            | Request::Propose(..)
            | Request::Enable(..) => Self::Change,
        }
    }

    /// The number of parts in use from which requests of this class are rejected.
    fn mark(self) -> usize {
        match self {
            Self::Submission(Band::Free) => 2,
            Self::Submission(Band::BestEffortBatch | Band::Mid) => 4,
            Self::Submission(Band::Production | Band::Monitoring) => 6,
            // The last part is reserved for machines.
            Self::Change => 7,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Submission(Band::Free) => "jobs in the free band",
            Self::Submission(Band::BestEffortBatch | Band::Mid) => "jobs below production",
            Self::Submission(Band::Production | Band::Monitoring) => "jobs",
            Self::Change => "changes",
        }
    }
}

/// The band of a job, or the free band if its user has no quota at all in it: a claim that the cell
/// will reject takes no room from users with quota.
fn covered(cell: &Cell, now: Time, user: &UserName, spec: &JobSpec) -> Band {
    let charged = spec.charged_band().filter(|_| cell.metering().on);
    match charged {
        Some(band) if cell.granted(user, band, now) == Total::default() => Band::Free,
        _ => spec.priority.band(),
    }
}

/// By how many requests the load exceeds the class's limit; `None` if the request is accepted.
fn excess(asked: RequestClass, load: Load, limits: AdmissionLimits) -> Option<usize> {
    let mark = |limit: usize| limit.saturating_mul(asked.mark()) / PARTS;
    let over = |is: usize, limit: usize| (is + 1).saturating_sub(mark(limit));
    let requests = over(load.requests, limits.requests);
    // Bytes above the limit count as requests of average size.
    let per_request = (load.bytes / load.requests.max(1)).max(1);
    let bytes = match load.bytes < mark(limits.bytes) {
        true => 0,
        false => over(load.bytes, limits.bytes).div_ceil(per_request),
    };
    Some(requests.max(bytes)).filter(|excess| *excess > 0)
}

/// The time until there may be room, at this rate of answers.
fn retry_after(excess: usize, answered_per_second: u64) -> Duration {
    let micros = (excess as u64).saturating_mul(1_000_000).checked_div(answered_per_second);
    micros.map_or(RETRY_MAX, Duration::from_micros).clamp(RETRY_MIN, RETRY_MAX)
}

/// A rejection because of overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shed {
    asked: RequestClass,
    /// The number of the caller's own waiting requests, if they are the cause.
    own: Option<usize>,
    /// That the caller has changed many tasks, if that is the cause.
    changed: Option<Beyond>,
    /// When to retry.
    pub(crate) retry_after: Duration,
}

/// The message to the client.
impl std::fmt::Display for Shed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, ms) = (self.asked.words(), self.retry_after.as_millis());
        if let Some(changed) = self.changed {
            return write!(
                f,
                "too many tasks are changed at once, and the last changes have to be worked off first: \
                 {changed}; try again in {ms} ms"
            );
        }
        match self.own {
            None => write!(
                f,
                "the master is overloaded and rejects {what} for a moment, the least important \
                 requests first: try again in {ms} ms"
            ),
            Some(own) => write!(
                f,
                "{own} requests of yours are waiting already, which is one user's share, and the \
                 master rejects {what} of yours for a moment: try again in {ms} ms"
            ),
        }
    }
}

impl From<Shed> for Status {
    fn from(shed: Shed) -> Self {
        let mut status = Self::resource_exhausted(shed.to_string());
        let ms = u64::try_from(shed.retry_after.as_millis()).unwrap_or(u64::MAX);
        status.metadata_mut().insert(RETRY_AFTER, ms.into());
        status
    }
}

/// The requests that wait for the core.
#[derive(Debug)]
pub(crate) struct Admission {
    limits: AdmissionLimits,
    waiting: Mutex<Waiting>,
    changed: Mutex<ChangedTasks>,
    answered: AtomicU64,
    rate: Mutex<Rate>,
    shed: Tally,
    /// The same by class, in the order of [`RequestClass::ALL`].
    shed_by: [AtomicU64; RequestClass::ALL.len()],
}

/// The waiting requests: all of them, and per principal.
#[derive(Debug, Default)]
struct Waiting {
    all: Load,
    of_parties: BTreeMap<Principal, Load>,
}

impl Waiting {
    fn of(&self, principal: Option<&Principal>) -> Load {
        principal.and_then(|principal| self.of_parties.get(principal)).copied().unwrap_or_default()
    }

    fn add(&mut self, principal: Option<&Principal>, load: Load) {
        self.all = self.all.plus(load);
        if let Some(principal) = principal {
            let own = self.of_parties.entry(principal.clone()).or_default();
            *own = own.plus(load);
        }
    }

    fn remove(&mut self, principal: Option<&Principal>, load: Load) {
        self.all = self.all.minus(load);
        let Some(principal) = principal else { return };
        let rest = self.of(Some(principal)).minus(load);
        match self.of_parties.get_mut(principal) {
            Some(own) if rest.requests > 0 => *own = rest,
            _ => drop(self.of_parties.remove(principal)),
        }
    }
}

/// The recent rate of answers.
#[derive(Debug)]
struct Rate {
    since: Instant,
    answered: u64,
    per_second: u64,
}

impl Admission {
    pub(crate) fn new(limits: AdmissionLimits) -> Arc<Self> {
        let rate = Rate { since: Instant::now(), answered: 0, per_second: 0 };
        Arc::new(Self {
            limits,
            waiting: Mutex::default(),
            changed: Mutex::default(),
            answered: AtomicU64::new(0),
            rate: Mutex::new(rate),
            shed: Tally::default(),
            shed_by: Default::default(),
        })
    }

    /// Accepts a request of so many bytes from a principal (`None`: a scheduler). It counts until
    /// the returned value is dropped.
    pub(crate) fn admit(
        self: &Arc<Self>,
        asked: RequestClass,
        by: Option<Principal>,
        bytes: usize,
    ) -> Result<Counted, Shed> {
        let mut waiting = self.lock();
        let (all, own) = (waiting.all, waiting.of(by.as_ref()));
        if let Some(excess) = excess(asked, all.plus(own), self.limits) {
            drop(waiting);
            let too_much_of_all = self::excess(asked, all, self.limits).is_some();
            return Err(self.shed(asked, (!too_much_of_all).then_some(own.requests), excess));
        }
        let load = Load { requests: 1, bytes };
        waiting.add(by.as_ref(), load);
        drop(waiting);
        Ok(Counted { admission: Arc::clone(self), asked, by, load })
    }

    /// Takes in a user's change to so many tasks.
    pub(crate) fn change_tasks(
        &self,
        asked: RequestClass,
        now: Time,
        user: &UserName,
        tasks: u64,
    ) -> Result<(), Shed> {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = changed.take(now, user, tasks);
        drop(changed);
        taken.map_err(|Wait { why, retry_after }| {
            let shed = self.shed(asked, None, 1);
            Shed { changed: Some(why), retry_after, ..shed }
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of waiting requests, and their bytes.
    pub(super) fn waiting(&self) -> (usize, usize) {
        let Load { requests, bytes } = self.lock().all;
        (requests, bytes)
    }

    /// Whether any request would still be accepted.
    pub(super) fn has_room(&self) -> bool {
        excess(RequestClass::Change, self.lock().all, self.limits).is_none()
    }

    /// The numbers of rejected requests: submissions by band, all others as `None`.
    pub(super) fn refused(&self) -> impl Iterator<Item = (Option<Band>, u64)> {
        RequestClass::ALL.iter().zip(&self.shed_by).map(|(asked, count)| {
            let band = match asked {
                RequestClass::Submission(band) => Some(*band),
                RequestClass::Change => None,
            };
            (band, count.load(Ordering::Relaxed))
        })
    }

    /// Makes the rejection; `own` is the number of the principal's own requests, if they are the
    /// cause.
    pub(crate) fn shed(&self, asked: RequestClass, own: Option<usize>, excess: usize) -> Shed {
        let (waiting, _) = self.waiting();
        if let Some((_, count)) =
            RequestClass::ALL.iter().zip(&self.shed_by).find(|(of, _)| **of == asked)
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.shed.count(|times, total| {
            let what = asked.words();
            tracing::warn!(
                "overloaded: {waiting} requests wait. Refused: {times} ({total} since the start), \
                 the last of them {what}"
            );
        });
        Shed { asked, own, changed: None, retry_after: retry_after(excess, self.per_second()) }
    }

    /// Answers per second.
    fn per_second(&self) -> u64 {
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = rate.since.elapsed();
        if elapsed >= RATE_OVER {
            let answered = self.answered.load(Ordering::Relaxed);
            let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
            rate.per_second = answered.saturating_sub(rate.answered).saturating_mul(1_000) / millis;
            (rate.since, rate.answered) = (Instant::now(), answered);
        }
        rate.per_second
    }
}

/// A request that was accepted and not answered yet.
#[derive(Debug)]
pub(crate) struct Counted {
    admission: Arc<Admission>,
    asked: RequestClass,
    by: Option<Principal>,
    load: Load,
}

impl Counted {
    /// Its class.
    pub(super) fn asked(&self) -> RequestClass {
        self.asked
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.admission.lock().remove(self.by.as_ref(), self.load);
        self.admission.answered.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
