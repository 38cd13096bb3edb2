//! Admission: what is taken of what users and schedulers ask while much of it waits already (paper,
//! section 3.3: the Borgmaster stays up under overload by admission control).
//!
//! What waits for the core is counted, from when it is taken until it is answered, in number and in
//! bytes. The more waits, the more is refused, the least important first, and with a time after which
//! to ask again. What somebody has waiting counts twice for them: one alone finds half of the room,
//! several find equal parts, and as much as each has stays free for the next who comes (dynamic
//! thresholds; Choudhury and Hahne, 1998). The last part of the core's queue is for machines and for
//! the master itself: however much users ask, a machine's report finds room. Reads are answered from
//! views and never wait here. On a replica that does not lead, what it forwards counts likewise.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cell::{Cell, Mutation, Total};
use model::{Band, Time, UserName};
use spec::JobSpec;
use tonic::Status;

use crate::request::{Principal, Request};
use crate::tally::Tally;
use rpc::metadata::RETRY_AFTER;

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests: as many as the core's queue has places.
    pub(crate) requests: usize,
    /// Bytes of them.
    pub(crate) bytes: usize,
}

/// How much waits.
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

/// What is asked, by how important it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// That a job is submitted or updated, by its band; in the free band where its user has nothing
    /// of what it asks for.
    Submission(Band),
    /// Anything else that changes the cell: kills, sessions, machines, a scheduler's proposals.
    Change,
}

/// In how many parts what may wait is divided.
const PARTS: usize = 8;
/// At least so long it is said to wait, and at most so long.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// Over how long it is measured how much is answered.
const RATE_OVER: Duration = Duration::from_millis(100);

impl Asked {
    /// Everything that can be asked.
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

    /// What a question is, in a cell at a time.
    pub(crate) fn of(ask: &Request, cell: &Cell, now: Time) -> Self {
        match ask {
            Request::Mutate(_, by, Mutation::Submit(spec)) => {
                Self::Submission(covered(cell, now, &by.user, spec))
            }
            Request::Mutate(..)
            | Request::OpenSession(_)
            | Request::Enrolment(_)
            | Request::Propose(_) => Self::Change,
        }
    }

    /// How many parts of what may wait it may find taken: from there on it is refused.
    fn mark(self) -> usize {
        match self {
            Self::Submission(Band::Free) => 2,
            Self::Submission(Band::BestEffortBatch | Band::Mid) => 4,
            Self::Submission(Band::Production | Band::Monitoring) => 6,
            // The last part is the machines'.
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

/// The band of a job, or the free one where its user has no quota at all in it: who claims what the
/// cell will refuse takes no room of those who have it.
fn covered(cell: &Cell, now: Time, user: &UserName, spec: &JobSpec) -> Band {
    let charged = spec.charged_band().filter(|_| cell.metering().on);
    match charged {
        Some(band) if cell.granted(user, band, now) == Total::default() => Band::Free,
        _ => spec.priority.band(),
    }
}

/// How much too much waits for it, in requests; nothing where it is taken.
fn excess(asked: Asked, load: Load, limits: Limits) -> Option<usize> {
    let mark = |limit: usize| limit.saturating_mul(asked.mark()) / PARTS;
    let over = |is: usize, limit: usize| (is + 1).saturating_sub(mark(limit));
    let requests = over(load.requests, limits.requests);
    // Bytes above the mark, as the requests that they are as large as.
    let per_request = (load.bytes / load.requests.max(1)).max(1);
    let bytes = match load.bytes < mark(limits.bytes) {
        true => 0,
        false => over(load.bytes, limits.bytes).div_ceil(per_request),
    };
    Some(requests.max(bytes)).filter(|excess| *excess > 0)
}

/// After how long there may be room, where so many are answered a second.
fn retry_after(excess: usize, answered_per_second: u64) -> Duration {
    let micros = (excess as u64).saturating_mul(1_000_000).checked_div(answered_per_second);
    micros.map_or(RETRY_MAX, Duration::from_micros).clamp(RETRY_MIN, RETRY_MAX)
}

/// A refusal: there is too much to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shed {
    asked: Asked,
    /// How many requests whoever asks has waiting, where it is because of them.
    own: Option<usize>,
    /// After how long to ask again.
    pub(crate) retry_after: Duration,
}

/// What whoever asked is told.
impl std::fmt::Display for Shed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, ms) = (self.asked.words(), self.retry_after.as_millis());
        match self.own {
            None => write!(
                f,
                "the master has too much to do and takes no {what} for a moment, what matters least \
                 first: ask again in {ms} ms"
            ),
            Some(own) => write!(
                f,
                "{own} requests of yours wait already, which is one's part of what may wait, and \
                 the master takes no {what} of yours for a moment: ask again in {ms} ms"
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

/// What waits for the core.
#[derive(Debug)]
pub(crate) struct Admission {
    limits: Limits,
    waiting: Mutex<Waiting>,
    answered: AtomicU64,
    rate: Mutex<Rate>,
    shed: Tally,
    /// The same by what was asked, in the order of [`Asked::ALL`].
    shed_by: [AtomicU64; Asked::ALL.len()],
}

/// What waits, of all and of everybody who has anything waiting.
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

/// How much was answered lately.
#[derive(Debug)]
struct Rate {
    since: Instant,
    answered: u64,
    per_second: u64,
}

impl Admission {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        let rate = Rate { since: Instant::now(), answered: 0, per_second: 0 };
        Arc::new(Self {
            limits,
            waiting: Mutex::default(),
            answered: AtomicU64::new(0),
            rate: Mutex::new(rate),
            shed: Tally::default(),
            shed_by: Default::default(),
        })
    }

    /// Takes a question of somebody, or of a scheduler where there is none, of so many bytes. It counts
    /// as long as what is given lives.
    pub(crate) fn admit(
        self: &Arc<Self>,
        asked: Asked,
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

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many requests wait, and how many bytes of them.
    pub(super) fn waiting(&self) -> (usize, usize) {
        let Load { requests, bytes } = self.lock().all;
        (requests, bytes)
    }

    /// Whether anything would be taken still.
    pub(super) fn has_room(&self) -> bool {
        excess(Asked::Change, self.lock().all, self.limits).is_none()
    }

    /// How many have been refused, by the band of what was submitted, and of all else without one.
    pub(super) fn refused(&self) -> impl Iterator<Item = (Option<Band>, u64)> {
        Asked::ALL.iter().zip(&self.shed_by).map(|(asked, count)| {
            let band = match asked {
                Asked::Submission(band) => Some(*band),
                Asked::Change => None,
            };
            (band, count.load(Ordering::Relaxed))
        })
    }

    /// Refuses; because of how many of their own, where it is that.
    pub(crate) fn shed(&self, asked: Asked, own: Option<usize>, excess: usize) -> Shed {
        let (waiting, _) = self.waiting();
        if let Some((_, count)) = Asked::ALL.iter().zip(&self.shed_by).find(|(of, _)| **of == asked)
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.shed.count(|times, total| {
            let what = asked.words();
            tracing::warn!(
                "overloaded: {waiting} requests wait. Refused: {times} ({total} since the start), the \
                 last of them {what}"
            );
        });
        Shed { asked, own, retry_after: retry_after(excess, self.per_second()) }
    }

    /// How much is answered a second.
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

/// A question that was taken and is not answered yet.
#[derive(Debug)]
pub(crate) struct Counted {
    admission: Arc<Admission>,
    asked: Asked,
    by: Option<Principal>,
    load: Load,
}

impl Counted {
    /// What it counts as.
    pub(super) fn asked(&self) -> Asked {
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
