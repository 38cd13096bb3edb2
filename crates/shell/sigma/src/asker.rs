//! Asks the cell for one user.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::v1;
use api::v1::events_request::From;
use api::v1::moment::At;
use api::v1::usage_request::{self, Of};
use client::{Connection, MasterClient};
use model::{Capability, Time};
use process::clock::wall_clock;
use process::moment::Moment;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};

use crate::address::{Address, Place};
use crate::cached::{Cached, CachedBy};
use crate::fleet::Fleet;
use crate::problem::Problem;

/// How old the problems of the cell may be on a page. Those of a large cell take longer to ask, and are older.
const PROBLEMS_AGE: Duration = Duration::from_millis(200);
/// The beginning of a cell does not change; one that was restored may have another.
const BEGINNING_AGE: Duration = Duration::from_secs(3_600);
/// How old the list of all machines or jobs may be on a page.
const OVERVIEW_AGE: Duration = Duration::from_secs(2);
/// The attributes of machines change rarely.
const ATTRIBUTES_AGE: Duration = Duration::from_secs(5);
/// Why the jobs of the cell are pending: each answer is a look at all machines.
const WHY_AGE: Duration = Duration::from_secs(10);
/// A sample of the cell is recorded once a minute.
const HISTORY_AGE: Duration = Duration::from_secs(10);
/// What is drawn of the whole cell, for all viewers of the same.
const DRAWN_AGE: Duration = Duration::from_millis(200);
/// The newest events of something.
const EVENTS_AGE: Duration = Duration::from_secs(1);
/// How long a page waits for a part of it: there may be millions of events, of which few are wanted.
pub(crate) const PATIENCE_OF_A_PART: Duration = Duration::from_millis(5);
/// Longer lists of events are not shared: they would take much memory.
const SHARED_EVENTS_MAX: u32 = 200;
/// How many searches among all events go on at once.
const SEARCHES_MAX: usize = 1;
/// How many of the best-scored machines are shown.
const SCORES: u32 = 5;
/// How long a page waits for a replica.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks the cell for something.
pub(crate) type Fetch<T> = Pin<Box<dyn Future<Output = Result<T, Problem>> + Send>>;

/// A part of a page as it was drawn: its id, class and markup.
pub(crate) type Drawn = (String, Option<&'static str>, String);

/// What a machine uses, and what the tasks on it do, by user and job.
#[derive(Debug)]
pub(crate) struct MachineUsed {
    pub(crate) machine: Option<v1::MachineUsage>,
    pub(crate) tasks: Vec<(String, String, v1::TaskUsage)>,
}

/// The newest events of something.
#[derive(Debug)]
pub(crate) struct RecentEvents {
    /// The oldest first.
    pub(crate) events: Vec<v1::EventRecord>,
    /// Where newer ones begin.
    next: Option<v1::EventCursor>,
}

/// What pages share.
#[derive(Debug)]
pub(crate) struct PageCache {
    pub(crate) machines: Cached<v1::MachinesResponse>,
    pub(crate) machines_used: Cached<v1::UsageResponse>,
    pub(crate) jobs: Cached<v1::StatusResponse>,
    pub(crate) jobs_used: Cached<v1::UsageResponse>,
    pub(crate) users: Cached<v1::UsersResponse>,
    pub(crate) quota: Cached<v1::QuotaResponse>,
    pub(crate) capabilities: Cached<v1::CapabilitiesResponse>,
    pub(crate) services: Cached<v1::ServicesResponse>,
    pub(crate) status: Cached<v1::CellStatusResponse>,
    /// When the cell was bootstrapped, if that is known.
    beginning: Cached<Option<Time>>,
    pub(crate) replicas: Cached<v1::ReplicasResponse>,
    /// By the hours that they reach back.
    pub(crate) histories: CachedBy<u64, v1::UsageResponse>,
    fleet: Mutex<Option<Arc<Fleet>>>,
    /// By the name of the machine.
    pub(crate) machine_used: CachedBy<String, MachineUsed>,
    /// By the address of the page.
    pub(crate) drawn: CachedBy<String, Vec<Drawn>>,
    /// By what is asked.
    events: CachedBy<String, RecentEvents>,
    /// Searches among all events.
    searches: Semaphore,
    /// By job: why its tasks are pending, and the same with scores.
    why: CachedBy<String, v1::WhyResponse>,
    scores: CachedBy<String, v1::WhyResponse>,
    /// Of the jobs with most pending tasks.
    pub(crate) whys: Cached<Vec<v1::WhyResponse>>,
    pub(crate) queue: Cached<v1::QueueResponse>,
}

impl Default for PageCache {
    fn default() -> Self {
        Self {
            machines: Cached::new(ATTRIBUTES_AGE),
            machines_used: Cached::new(OVERVIEW_AGE),
            jobs: Cached::new(OVERVIEW_AGE),
            jobs_used: Cached::new(OVERVIEW_AGE),
            users: Cached::new(OVERVIEW_AGE),
            quota: Cached::new(OVERVIEW_AGE),
            capabilities: Cached::new(OVERVIEW_AGE),
            services: Cached::new(OVERVIEW_AGE),
            status: Cached::new(PROBLEMS_AGE),
            beginning: Cached::new(BEGINNING_AGE),
            replicas: Cached::new(OVERVIEW_AGE),
            histories: CachedBy::new(HISTORY_AGE),
            fleet: Mutex::default(),
            machine_used: CachedBy::new(OVERVIEW_AGE),
            drawn: CachedBy::new(DRAWN_AGE),
            events: CachedBy::new(EVENTS_AGE),
            searches: Semaphore::new(SEARCHES_MAX),
            why: CachedBy::new(OVERVIEW_AGE),
            scores: CachedBy::new(WHY_AGE),
            whys: Cached::new(WHY_AGE),
            queue: Cached::new(OVERVIEW_AGE),
        }
    }
}

/// What a user may do. The master decides; this only keeps a page from offering what it would reject.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rights {
    pub(crate) user: String,
    administrator: bool,
    capabilities: BTreeSet<String>,
}

impl Rights {
    pub(crate) fn has(&self, capability: Capability) -> bool {
        self.administrator || self.capabilities.contains(capability.name())
    }

    /// Whether the user may change the jobs of an owner.
    pub(crate) fn may_change_jobs_of(&self, owner: &str) -> bool {
        self.user == owner || self.has(Capability::AdministerJobs)
    }

    /// Whether the user may run commands in the tasks of an owner.
    pub(crate) fn may_run_in_tasks_of(&self, owner: &str) -> bool {
        self.user == owner || self.has(Capability::ExecTasks)
    }

    /// Whether the user may drain machines.
    pub(crate) fn may_drain(&self) -> bool {
        self.has(Capability::DrainMachines)
    }
}

/// Asks for one user, about one page.
#[derive(Clone)]
pub(crate) struct PageClient {
    connection: Connection,
    pub(crate) shared: Arc<PageCache>,
    pub(crate) address: Address,
    pub(crate) rights: Rights,
    /// What forms of the session contain.
    pub(crate) csrf: String,
    /// The moment that is shown; none is now.
    pub(crate) at: Option<v1::Moment>,
    pub(crate) now: Time,
    /// When the cell was bootstrapped, if that is known.
    pub(crate) beginning: Option<Time>,
}

impl PageClient {
    /// For a page.
    pub(crate) async fn new(
        mut connection: Connection,
        shared: Arc<PageCache>,
        address: Address,
        csrf: String,
    ) -> Result<Self, Problem> {
        connection.set_patience(PATIENCE);
        connection.set_unanswered_patience(PATIENCE);
        let now = wall_clock();
        let at = address.at.as_deref().map(|at| Moment::parse(at, now));
        let at = at.transpose().map_err(Problem::bad)?.map(Moment::message);
        // Ages are as of the moment that is shown.
        let now = match at.and_then(|moment| moment.at) {
            Some(At::Time(time)) if time > now.0 => {
                return Err(Problem::bad(
                    "this moment is in the future: there is nothing to show yet",
                ));
            }
            Some(At::Time(time)) => Time(time),
            Some(At::Index(_)) | None => now,
        };
        let rights = Rights::default();
        let mut asker =
            Self { connection, shared, address, rights, csrf, at, now, beginning: None };
        asker.ask_rights().await?;
        asker.beginning = asker.ask_beginning().await.unwrap_or_default();
        Ok(asker)
    }

    /// Asks what the user may do now. An error if the user is not accepted any more.
    pub(crate) async fn ask_rights(&mut self) -> Result<(), Problem> {
        let user = self.connection.user().unwrap_or_default().to_owned();
        let request = v1::CapabilitiesRequest { user: user.clone(), at: None };
        let answer = self.ask(request, async |mut c, r| c.access.capabilities(r).await).await?;
        let administrator = answer.administrators.contains(&user);
        let held = answer.users.into_iter().filter(|held| held.user == user);
        let capabilities = held.flat_map(|held| held.capabilities).collect();
        self.rights = Rights { user, administrator, capabilities };
        Ok(())
    }

    /// Asks when the cell was bootstrapped, once for all viewers.
    async fn ask_beginning(&self) -> Result<Option<Time>, Problem> {
        let mut own = self.clone();
        let request = v1::CellStatusRequest { at: None, state_hash: false };
        let fetch = Box::pin(async move {
            let status = own.ask(request, async |mut c, r| c.cell.status(r).await).await?;
            Ok::<_, Problem>(Some(Time(status.bootstrapped)).filter(|at| at.0 > 0))
        });
        Ok(*self.shared.beginning.get_soon(fetch).await?)
    }

    /// Asks once, or again while no replica answers.
    pub(crate) async fn ask<M: Clone, T>(
        &mut self,
        message: M,
        call: impl AsyncFn(MasterClient, Request<M>) -> Result<Response<T>, Status>,
    ) -> Result<T, Problem> {
        // A page has many calls, and its future would be as large as all of them.
        Ok(Box::pin(self.connection.ask(message, call)).await?)
    }

    /// Opens a stream.
    pub(crate) async fn stream<M: Clone, T>(
        &mut self,
        message: M,
        call: impl AsyncFn(MasterClient, Request<M>) -> Result<Response<T>, Status>,
    ) -> Result<T, Problem> {
        Ok(Box::pin(self.connection.stream(message, call)).await?)
    }

    /// The name of the cell.
    pub(crate) fn cell(&self) -> String {
        self.connection.cell_file().0.cell
    }

    /// The id of the next mutation.
    pub(crate) async fn request_id(&mut self) -> Result<v1::RequestId, Problem> {
        Ok(self.connection.request_id().await?)
    }

    /// The connection, for a terminal.
    pub(crate) fn into_connection(self) -> Connection {
        self.connection
    }

    /// A link to another page at the same moment.
    pub(crate) fn to(&self, place: Place) -> String {
        self.address.to(place)
    }

    pub(crate) fn to_job(&self, user: &str, job: &str) -> String {
        self.to(Place::Job { user: user.to_owned(), job: job.to_owned() })
    }

    pub(crate) fn to_task(&self, user: &str, job: &str, index: u32) -> String {
        self.to(Place::Task { user: user.to_owned(), job: job.to_owned(), index })
    }

    pub(crate) fn to_machine(&self, name: &str) -> String {
        self.to(Place::Machine { name: name.to_owned() })
    }

    pub(crate) async fn cell_status(&mut self) -> Result<v1::CellStatusResponse, Problem> {
        let request = v1::CellStatusRequest { at: self.at, state_hash: true };
        self.ask(request, async |mut c, r| c.cell.status(r).await).await
    }

    /// Why tasks of a job are pending, without scores.
    pub(crate) async fn why(
        &mut self,
        job: &v1::JobAddress,
    ) -> Result<Arc<v1::WhyResponse>, Problem> {
        let (name, fetch) = self.asks_why(job, 0);
        match self.at {
            Some(_) => fetch.await.map(Arc::new),
            None => self.shared.why.of(name).get_soon(fetch).await,
        }
    }

    /// The same with the best machines for a task; none yet if that takes longer than a page should: there is
    /// a score for each machine.
    pub(crate) async fn scores(
        &mut self,
        job: &v1::JobAddress,
    ) -> Result<Option<Arc<v1::WhyResponse>>, Problem> {
        let (name, fetch) = self.asks_why(job, SCORES);
        match self.at {
            Some(_) => fetch.await.map(Arc::new).map(Some),
            None => self.shared.scores.of(name).get_within(PATIENCE_OF_A_PART, fetch).await,
        }
    }

    fn asks_why(&self, job: &v1::JobAddress, scores: u32) -> (String, Fetch<v1::WhyResponse>) {
        let (mut own, at) = (self.clone(), self.at);
        let request =
            v1::WhyRequest { job: Some(job.clone()), at, scores, ..v1::WhyRequest::default() };
        let fetch = async move { own.ask(request, async |mut c, r| c.jobs.why(r).await).await };
        (format!("{}/{}", job.user, job.job), Box::pin(fetch))
    }

    /// The status of one job, with its tasks.
    pub(crate) async fn job(
        &mut self,
        user: &str,
        job: &str,
    ) -> Result<(u64, v1::JobStatus), Problem> {
        let address = v1::JobAddress { user: user.to_owned(), job: job.to_owned() };
        let request = v1::StatusRequest {
            jobs: vec![address],
            tasks: true,
            at: self.at,
            ..v1::StatusRequest::default()
        };
        let answer = self.ask(request, async |mut c, r| c.jobs.status(r).await).await?;
        let index = answer.index;
        let found = answer.jobs.into_iter().next();
        let none = || Problem::not_found(format!("there is no job {user}/{job}"));
        Ok((index, found.ok_or_else(none)?))
    }

    /// All jobs, without their tasks and their environments: as of a moment ago, or of the past.
    pub(crate) async fn jobs(&mut self) -> Result<Arc<v1::StatusResponse>, Problem> {
        let request = v1::StatusRequest { dead: true, at: self.at, ..v1::StatusRequest::default() };
        let mut own = self.clone();
        let fetch = Box::pin(async move {
            let mut answer = own.ask(request, async |mut c, r| c.jobs.status(r).await).await?;
            // The list is shared, and who may see an environment is decided for each user.
            for spec in answer.jobs.iter_mut().filter_map(|job| job.spec.as_mut()) {
                spec.env.clear();
                spec.overrides.clear();
            }
            Ok(answer)
        });
        match self.at {
            Some(_) => fetch.await.map(Arc::new),
            None => self.shared.jobs.get_soon(fetch).await,
        }
    }

    /// All machines with their attributes, without their tasks.
    pub(crate) async fn machines(&mut self) -> Result<Arc<v1::MachinesResponse>, Problem> {
        let request = v1::MachinesRequest { at: self.at, ..v1::MachinesRequest::default() };
        let mut own = self.clone();
        let fetch =
            Box::pin(
                async move { own.ask(request, async |mut c, r| c.machines.list(r).await).await },
            );
        match self.at {
            Some(_) => fetch.await.map(Arc::new),
            None => self.shared.machines.get_soon(fetch).await,
        }
    }

    /// All machines with what they use: now, or without that in the past and if nobody can say it.
    pub(crate) async fn fleet(&mut self) -> Result<Arc<Fleet>, Problem> {
        let machines = self.machines().await?;
        if self.at.is_some() {
            return Ok(Arc::new(Fleet::new(machines, None, None)));
        }
        let used = match self.machines_used().await {
            Ok(used) => Some(used),
            Err(problem) if problem.is_sign_out() => return Err(problem),
            Err(_) => None,
        };
        let mut newest = self.shared.fleet.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fleet) = newest.as_ref().filter(|fleet| fleet.is_of(&machines, used.as_ref())) {
            return Ok(Arc::clone(fleet));
        }
        let fleet = Arc::new(Fleet::new(machines, used, newest.as_deref()));
        *newest = Some(Arc::clone(&fleet));
        Ok(fleet)
    }

    /// The cell: as of a moment ago, or of the past.
    pub(crate) async fn status(&mut self) -> Result<Arc<v1::CellStatusResponse>, Problem> {
        let mut own = self.clone();
        let fetch = Box::pin(async move { own.cell_status().await });
        match self.at {
            Some(_) => fetch.await.map(Arc::new),
            // What is drawn from it is drawn while a viewer sees what was drawn before.
            None => self.shared.status.get(fetch).await,
        }
    }

    /// The replicas of the master, now: there is no past of them.
    pub(crate) async fn replicas(&mut self) -> Result<Arc<v1::ReplicasResponse>, Problem> {
        let mut own = self.clone();
        let request = v1::ReplicasRequest {};
        let fetch =
            Box::pin(
                async move { own.ask(request, async |mut c, r| c.replicas.list(r).await).await },
            );
        self.shared.replicas.get_soon(fetch).await
    }

    /// What the cell has used in the last hours, as far as a replica has recorded it.
    pub(crate) async fn history(&mut self, hours: u64) -> Result<Arc<v1::UsageResponse>, Problem> {
        let mut own = self.clone();
        let since = Some(self.now.0.saturating_sub(hours.saturating_mul(3_600_000_000)));
        let of = Of::Cell(usage_request::Cell { since });
        let fetch = Box::pin(async move { own.usage(of).await });
        self.shared.histories.of(hours).get_soon(fetch).await
    }

    /// Users and their certificates.
    pub(crate) async fn users(&mut self) -> Result<Arc<v1::UsersResponse>, Problem> {
        let mut own = self.clone();
        let request = v1::UsersRequest { at: self.at };
        let fetch =
            Box::pin(
                async move { own.ask(request, async |mut c, r| c.access.users(r).await).await },
            );
        match self.at {
            Some(_) => fetch.await.map(Arc::new),
            None => self.shared.users.get_soon(fetch).await,
        }
    }

    /// The quota of all users.
    pub(crate) async fn quota(&mut self) -> Result<Arc<v1::QuotaResponse>, Problem> {
        let mut own = self.clone();
        let request = v1::QuotaRequest { at: self.at, ..v1::QuotaRequest::default() };
        let fetch =
            Box::pin(async move { own.ask(request, async |mut c, r| c.quota.get(r).await).await });
        match self.at {
            Some(_) => fetch.await.map(Arc::new),
            None => self.shared.quota.get_soon(fetch).await,
        }
    }

    /// The capabilities of all users.
    pub(crate) async fn capabilities(&mut self) -> Result<Arc<v1::CapabilitiesResponse>, Problem> {
        let mut own = self.clone();
        let request = v1::CapabilitiesRequest { at: self.at, ..v1::CapabilitiesRequest::default() };
        let fetch = Box::pin(async move {
            own.ask(request, async |mut c, r| c.access.capabilities(r).await).await
        });
        match self.at {
            Some(_) => fetch.await.map(Arc::new),
            None => self.shared.capabilities.get_soon(fetch).await,
        }
    }

    /// All services, without the jobs behind them.
    pub(crate) async fn services(&mut self) -> Result<Arc<v1::ServicesResponse>, Problem> {
        let mut own = self.clone();
        let request = v1::ServicesRequest { at: self.at, ..v1::ServicesRequest::default() };
        let fetch =
            Box::pin(
                async move { own.ask(request, async |mut c, r| c.services.list(r).await).await },
            );
        match self.at {
            Some(_) => fetch.await.map(Arc::new),
            None => self.shared.services.get_soon(fetch).await,
        }
    }

    /// What all machines use now.
    pub(crate) async fn machines_used(&mut self) -> Result<Arc<v1::UsageResponse>, Problem> {
        let of = Of::Machines(usage_request::Machines { names: Vec::new() });
        let mut own = self.clone();
        let fetch = Box::pin(async move { own.usage(of).await });
        self.shared.machines_used.get_soon(fetch).await
    }

    /// What all jobs use now.
    pub(crate) async fn jobs_used(&mut self) -> Result<Arc<v1::UsageResponse>, Problem> {
        let of = Of::Jobs(usage_request::Jobs { user: String::new() });
        let mut own = self.clone();
        let fetch = Box::pin(async move { own.usage(of).await });
        self.shared.jobs_used.get_soon(fetch).await
    }

    /// What something uses now, and has used lately. There is none in the past.
    pub(crate) async fn usage(&mut self, of: Of) -> Result<v1::UsageResponse, Problem> {
        // The totals are asked for the page of the cell, for all viewers at once.
        let without_totals = match &of {
            Of::Tasks(_) => true,
            Of::Machines(machines) => !machines.names.is_empty(),
            Of::Cell(_) | Of::Jobs(_) => false,
        };
        let request = v1::UsageRequest { of: Some(of), without_totals };
        self.ask(request, async |mut c, r| c.usage.get(r).await).await
    }

    /// The newest events that match, as of a moment ago.
    pub(crate) async fn events(
        &mut self,
        request: v1::EventsRequest,
    ) -> Result<Arc<RecentEvents>, Problem> {
        let all = self.events_within(request, None).await?;
        all.ok_or_else(|| Problem::bad("the events could not be read"))
    }

    /// The same, or none yet if they have to be searched among so many that it takes longer than a page should,
    /// or cannot be read now: the rest of the page does not depend on them.
    pub(crate) async fn recent_events(
        &mut self,
        request: v1::EventsRequest,
    ) -> Result<Option<Arc<RecentEvents>>, Problem> {
        match self.events_within(request, Some(PATIENCE_OF_A_PART)).await {
            Err(problem) if !problem.is_sign_out() => Ok(None),
            events => events,
        }
    }

    async fn events_within(
        &mut self,
        request: v1::EventsRequest,
        patience: Option<Duration>,
    ) -> Result<Option<Arc<RecentEvents>>, Problem> {
        let request = v1::EventsRequest { until: self.at, follow: false, ..request };
        let is_small = match request.from {
            Some(From::Last(most)) => most <= SHARED_EVENTS_MAX,
            _ => false,
        };
        if self.at.is_some() || !is_small {
            return Ok(Some(Arc::new(self.read_events(request).await?)));
        }
        // A job without an owner is the caller's: the same request is another one for another user.
        let key = format!("{} {request:?}", self.rights.user);
        let cached = self.shared.events.of(key);
        let (mut own, before) = (self.clone(), cached.last());
        let fetch = Box::pin(async move { own.newest_events(request, before.as_deref()).await });
        match patience {
            Some(patience) => cached.get_within(patience, fetch).await,
            None => cached.get_soon(fetch).await.map(Some),
        }
    }

    /// The newest events, if some of them are known: only newer ones are read.
    async fn newest_events(
        &mut self,
        request: v1::EventsRequest,
        before: Option<&RecentEvents>,
    ) -> Result<RecentEvents, Problem> {
        if let Some(RecentEvents { events, next: Some(next) }) = before {
            let from = Some(From::Cursor(*next));
            let newer = self.read_events(v1::EventsRequest { from, ..request.clone() }).await;
            // Otherwise these are not kept any more.
            if let Ok(newer) = newer {
                let most = match request.from {
                    Some(From::Last(most)) => usize::try_from(most).unwrap_or(usize::MAX),
                    _ => usize::MAX,
                };
                let mut events: Vec<_> = events.iter().cloned().chain(newer.events).collect();
                events.drain(..events.len().saturating_sub(most));
                return Ok(RecentEvents { events, next: newer.next.or(Some(*next)) });
            }
        }
        // All that wait have a turn, and pages have processors meanwhile. It is never closed.
        let shared = Arc::clone(&self.shared);
        let _turn = shared.searches.acquire().await;
        self.read_events(request).await
    }

    async fn read_events(&mut self, request: v1::EventsRequest) -> Result<RecentEvents, Problem> {
        let mut stream = self.stream(request, async |mut c, r| c.history.events(r).await).await?;
        let mut history = RecentEvents { events: Vec::new(), next: None };
        while let Some(answer) = stream.message().await.map_err(client::Error::Answer)? {
            history.events.extend(answer.events);
            history.next = answer.next.or(history.next);
        }
        Ok(history)
    }
}
