//! Reads of the batch queue: what waits in which order, for what, and when it is expected to start. The queue is made
//! from the cell, so every replica can answer, also about the past.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::v1;
use api::v1::queue_wait::{Jobs, Lacking, Pass, What};
use batch::{QueueAdmission, StartBasis, WaitingJob, WaitsFor};
use cell::{Cell, Job};
use model::{CollectionId, Resources, TaskSelection, Time, UserName};
use tonic::Status;

use super::{Reads, views, waits};

/// The maximum number of jobs of the queue in an answer.
const PLACES_MAX: u32 = 1_000;
/// The number of jobs of the queue in an answer if none is asked for.
const PLACES: u32 = 100;
/// The maximum number of jobs with pending tasks in an answer: each is a look at all machines.
const PENDING_MAX: u32 = 100;
/// How many users that are ahead of a job are shown.
const AHEAD_SHOWN: usize = 5;
/// At how many ends of tasks it is looked for starts.
const ENDS: usize = 1_000;

impl Reads<'_> {
    pub(crate) fn queue(&self, asked: &v1::QueueRequest) -> Result<v1::QueueResponse, Status> {
        let found = match asked.job.as_str() {
            "" => None,
            job => {
                let address = v1::JobAddress { user: asked.user.clone(), job: job.to_owned() };
                Some(self.find(&address)?.id)
            }
        };
        let user = match asked.user.as_str() {
            "" => None,
            user => Some(
                UserName::new(user).map_err(|error| Status::invalid_argument(error.to_string()))?,
            ),
        };
        for (what, is, most) in
            [("most", asked.most, PLACES_MAX), ("pending", asked.pending, PENDING_MAX)]
        {
            if is > most {
                let text = format!("{what}: {is} jobs, and at most {most} are shown at once");
                return Err(Status::invalid_argument(text));
            }
        }
        let is_wanted = |id: CollectionId, owner: &UserName| {
            found.is_none_or(|found| found == id) && user.as_ref().is_none_or(|user| user == owner)
        };
        let order = QueueOrder::of(self.cell, self.now);
        let wanted = |(_, waiting): &(u32, &WaitingJob)| is_wanted(waiting.job, &waiting.user);
        let jobs: Vec<(u32, &WaitingJob)> = order.numbered().into_iter().filter(wanted).collect();
        let skip = usize::try_from(asked.skip).unwrap_or(usize::MAX);
        let most = if asked.most == 0 { PLACES } else { asked.most };
        let page = jobs.iter().skip(skip).take(usize::try_from(most).unwrap_or(usize::MAX));
        let page: Vec<_> = page.copied().collect();
        let owners: BTreeSet<&UserName> = page.iter().map(|(_, waiting)| &waiting.user).collect();
        let mut pending: Vec<&Arc<Job>> = self
            .cell
            .jobs_with_pending_tasks()
            .filter(|job| is_wanted(job.id, &job.owner))
            .collect();
        // Stable: of equal priority, the oldest first.
        pending.sort_by_key(|job| Reverse(job.spec.priority.number()));
        let explained = pending.iter().take(usize::try_from(asked.pending).unwrap_or(usize::MAX));
        Ok(v1::QueueResponse {
            index: self.cell.index().0,
            time: self.now.0,
            settings: Some((&self.cell.queue_settings()).into()),
            all_jobs: count(jobs.len()),
            all_tasks: jobs.iter().map(|(_, waiting)| u64::from(waiting.tasks)).sum(),
            jobs: page.iter().map(|(place, waiting)| order.place(*place, waiting)).collect(),
            users: order.shares(|user| owners.contains(user)),
            pending: explained.map(|job| self.pending_job(job)).collect(),
            all_pending_jobs: count(pending.len()),
        })
    }

    fn pending_job(&self, job: &Job) -> v1::PendingJob {
        let why = placement::why(self.cell, job, &TaskSelection::All, self.now);
        let first = why.groups.first().map(|group| views::group(self.cell, job, group, self.now));
        let first = first.unwrap_or_default();
        let reason = first.unschedulable_reasons.into_iter().next().filter(|_| first.fits == 0);
        let reason = reason.unwrap_or_default();
        v1::PendingJob {
            user: job.owner.to_string(),
            job: job.spec.name.to_string(),
            priority: job.spec.priority.number().into(),
            pending: job.pending(),
            since: first.since,
            reason: reason.reason,
            reason_machines: reason.machines,
            machines: first.machines,
        }
    }
}

/// Adds the place of a job in the batch queue to why its tasks wait.
pub(super) fn explain(cell: &Cell, job: &Job, now: Time, answer: &mut v1::WhyResponse) {
    let order = QueueOrder::of(cell, now);
    let numbered = order.numbered();
    let Some((place, waiting)) = numbered.into_iter().find(|(_, waiting)| waiting.job == job.id)
    else {
        return;
    };
    answer.queue_place = Some(order.place(place, waiting));
    if waiting.ahead.is_some() {
        let before = order.waiting.iter().take_while(|other| other.user != waiting.user);
        let users: BTreeSet<&UserName> = before.map(|other| &other.user).collect();
        answer.users_ahead_count = count(users.len());
        answer.users_ahead = order.shares(|user| users.contains(user));
        answer.users_ahead.truncate(AHEAD_SHOWN);
    }
}

/// The batch queue of a cell at a time, in the order of turns.
struct QueueOrder<'a> {
    cell: &'a Cell,
    now: Time,
    admission: QueueAdmission,
    waiting: Vec<WaitingJob>,
}

impl<'a> QueueOrder<'a> {
    fn of(cell: &'a Cell, now: Time) -> Self {
        let admission = QueueAdmission::of(cell).with_next_reservation(cell, now);
        let waiting = admission.waiting(cell, now, ENDS);
        Self { cell, now, admission, waiting }
    }

    /// The jobs, each with its place among those of its owner; 0 if it cannot have a turn.
    fn numbered(&self) -> Vec<(u32, &WaitingJob)> {
        let mut of_users: BTreeMap<&UserName, u32> = BTreeMap::new();
        let number = |waiting: &'_ WaitingJob, places: &mut u32| match waiting.ahead {
            Some(_) => {
                *places += 1;
                *places
            }
            None => 0,
        };
        let each = self.waiting.iter().map(|waiting| {
            let places = of_users.entry(&waiting.user).or_default();
            (number(waiting, places), waiting)
        });
        each.collect()
    }

    fn place(&self, place_of_user: u32, waiting: &WaitingJob) -> v1::QueuePlace {
        let job = self.cell.job(waiting.job);
        let counts = job.map(|job| job.counts()).unwrap_or_default();
        let settings = self.cell.queue_settings();
        v1::QueuePlace {
            user: waiting.user.to_string(),
            job: job.map(|job| job.spec.name.to_string()).unwrap_or_default(),
            collection: waiting.job.0,
            priority: job.map_or(0, |job| job.spec.priority.number().into()),
            queued: waiting.tasks,
            pending: counts.pending,
            running: counts.running,
            since: waiting.since.0,
            place: waiting.ahead.map_or(0, |ahead| ahead.saturating_add(1)),
            place_of_user,
            share: waiting.share.0,
            dimension: self.dimension(&waiting.user),
            waits_for: Some(v1::QueueWait { what: Some(self.what(waiting)) }),
            starts: waiting.starts.map_or(0, |starts| starts.at.0),
            starts_by: waiting.starts.map(|starts| basis(starts.by)).unwrap_or_default().to_owned(),
            runtime: Some(api::duration(waiting.runtime.or(settings.assumed_runtime))),
            runtime_by: basis(waiting.runtime.into()).to_owned(),
        }
    }

    fn dimension(&self, user: &UserName) -> String {
        let dimension = self.admission.queue().dominant(self.now, user);
        dimension.map(|dimension| dimension.to_string()).unwrap_or_default()
    }

    fn what(&self, waiting: &WaitingJob) -> What {
        let lacking = |needs: &Resources, has: &Resources| Lacking {
            needs: Some(needs.into()),
            has: Some(has.into()),
        };
        match &waiting.waits_for {
            WaitsFor::Jobs => {
                let job = self.cell.job(waiting.job);
                let jobs = job.map(|job| waits::waits_for(self.cell, job)).unwrap_or_default();
                What::Jobs(Jobs { jobs })
            }
            WaitsFor::OwnTasks { at_once } => What::AtOnce(*at_once),
            WaitsFor::Machines { needs, capacity } => What::Machines(lacking(needs, capacity)),
            WaitsFor::Pass => What::Pass(Pass {}),
            WaitsFor::Reservation { at } => What::Reservation(at.0),
            WaitsFor::Room { needs } => What::Room(lacking(needs, &self.admission.room())),
            WaitsFor::Turn { behind } => What::Turn(views::job_name(self.cell, *behind)),
        }
    }

    /// The shares of those users with waiting jobs that are wanted, the smallest first.
    fn shares(&self, is_wanted: impl Fn(&UserName) -> bool) -> Vec<v1::UserShare> {
        let mut places: BTreeMap<&UserName, usize> = BTreeMap::new();
        let mut shares: Vec<v1::UserShare> = Vec::new();
        let queue = self.admission.queue();
        for waiting in self.waiting.iter().filter(|waiting| is_wanted(&waiting.user)) {
            let user = &waiting.user;
            let place = *places.entry(user).or_insert_with(|| {
                shares.push(v1::UserShare {
                    user: user.to_string(),
                    share: waiting.share.0,
                    dimension: self.dimension(user),
                    weights: Some((&queue.weights(user)).into()),
                    used: Some((&queue.used(user)).into()),
                    jobs: 0,
                });
                shares.len() - 1
            });
            if let Some(share) = shares.get_mut(place).filter(|_| waiting.ahead.is_some()) {
                share.jobs = share.jobs.saturating_add(1);
            }
        }
        shares.sort_by_key(|share| share.share);
        shares
    }
}

/// What a runtime or a start is taken from, as in descriptions of jobs.
fn basis(basis: StartBasis) -> &'static str {
    match basis {
        StartBasis::NoEnd => "nothing",
        StartBasis::Bounds => "maxRuntime",
        StartBasis::Expectations => "expectedRuntime",
        StartBasis::EarlierJobs => "earlier",
        StartBasis::Assumption => "assumed",
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
