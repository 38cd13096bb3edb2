//! The service for names: BNS (paper, section 2.6).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::v1;
use api::v1::past_question::Question;
use bns::Changes;
use cell::{Cell, Job, Service as CellService};
use model::{JobName, LabelQuery, LogIndex, Time, UserName};
use rpc::Identity;
use rpc::service::names_server;
use rpc::transport::Permit;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::caller::Caller;
use crate::names::Names;
use crate::reads::{Reads, job_address, job_has, labels};
use crate::service::door::Door;
use crate::service::event_watch::STALLED;
use crate::service::holding::holding;
use crate::service::{Answer, Streamed, gate};
use crate::streams::{StreamHolder, Streams};
use crate::view::View;

/// The maximum number of jobs in a query by name.
const JOBS_MAX: usize = 10_000;
/// The maximum number of watches of names by users and their tasks, shared by users.
const WATCHES_MAX: usize = 8_192;
/// The time between two messages of a watch: changes meanwhile are combined.
const REST: Duration = Duration::from_millis(100);
/// How often a watch says how far it is, if nothing else is said.
const ALIVE: Duration = Duration::from_secs(5);
/// The maximum number of tasks in a message, but for one large job.
const TASKS_MAX: usize = 5_000;
/// The maximum number of messages that wait for a slow reader.
const QUEUE: usize = 2;

/// Who asks for names.
enum NamesCaller {
    Client(Caller),
    /// A machine, for its tasks.
    Machine,
}

impl NamesCaller {
    fn user(&self) -> Option<&UserName> {
        match self {
            Self::Client(by) => Some(&by.user),
            Self::Machine => None,
        }
    }
}

/// A query, understood.
#[derive(Clone, Debug)]
struct Query {
    /// All jobs if there are none.
    jobs: BTreeSet<(UserName, JobName)>,
    labels: LabelQuery,
}

impl Query {
    /// Without a user, as a machine asks, each job must be given with its own.
    fn of(asked: Option<v1::NameQuery>, me: Option<&UserName>) -> Result<Self, Status> {
        let asked = asked.unwrap_or_default();
        let has = asked.jobs.len();
        if has > JOBS_MAX {
            let text = format!("query: has {has} jobs, at most {JOBS_MAX} are allowed");
            return Err(Status::invalid_argument(text));
        }
        let named = |job: &v1::JobAddress| match me {
            Some(me) => job_address(me, job),
            None => {
                let bad = |error: model::NameError| Status::invalid_argument(error.to_string());
                Ok((UserName::new(&job.user).map_err(bad)?, JobName::new(&job.job).map_err(bad)?))
            }
        };
        let jobs = asked.jobs.iter().map(named).collect::<Result<_, _>>()?;
        Ok(Self { jobs, labels: labels(&asked.labels)? })
    }

    fn is_about(&self, user: &UserName, job: &JobName) -> bool {
        self.jobs.is_empty() || self.jobs.contains(&(user.clone(), job.clone()))
    }

    /// The job, if it has a record and the labels, or the service.
    fn find<'a>(&self, cell: &'a Cell, user: &UserName, name: &JobName) -> Option<Named<'a>> {
        match bns::named(cell, user, name) {
            Some(job) => job_has(job, &self.labels).then_some(Named::Job(job)),
            // Services have no labels of their own.
            None if !self.labels.is_empty() => None,
            None => cell.service(user, name).map(|service| Named::Service(service)),
        }
    }

    /// All jobs and services that it is about.
    fn all<'a>(&'a self, cell: &'a Cell) -> Box<dyn Iterator<Item = Named<'a>> + 'a> {
        if self.jobs.is_empty() {
            let jobs = cell.named_jobs().filter(|job| bns::is_named(job));
            let jobs = jobs.filter(|job| job_has(job, &self.labels)).map(|job| Named::Job(job));
            let services = self
                .labels
                .is_empty()
                .then(|| cell.services().map(|service| Named::Service(service)));
            return Box::new(jobs.chain(services.into_iter().flatten()));
        }
        Box::new(self.jobs.iter().filter_map(|(user, job)| self.find(cell, user, job)))
    }
}

/// What has a name.
enum Named<'a> {
    Job(&'a Job),
    Service(&'a CellService),
}

fn record(names: Names<'_>, named: &Named<'_>) -> v1::NameRecord {
    match named {
        Named::Job(job) => job_record(names, job),
        Named::Service(service) => service_record(names, service),
    }
}

/// The record of a service.
pub(crate) fn service_record(names: Names<'_>, service: &CellService) -> v1::NameRecord {
    let changed = names.changes.changed(&service.owner, &service.name);
    let tasks = bns::service_tasks(names.cell, names.changes, service);
    let task = |(job, task): (&Arc<Job>, bns::TaskRecord<'_>)| v1::NameTask {
        user: job.owner.to_string(),
        job: job.spec.name.to_string(),
        ..formats::name_task(&task)
    };
    v1::NameRecord {
        user: service.owner.to_string(),
        job: service.name.to_string(),
        changed: changed.unwrap_or(names.cell.index()).0,
        tasks: tasks.map(task).collect(),
        service: Some(service.into()),
        ..v1::NameRecord::default()
    }
}

fn job_record(names: Names<'_>, job: &Job) -> v1::NameRecord {
    let changed = names.changes.changed(&job.owner, &job.spec.name);
    v1::NameRecord {
        user: job.owner.to_string(),
        job: job.spec.name.to_string(),
        collection: job.id.0,
        size: job.spec.tasks,
        labels: job.spec.labels.clone().into_iter().collect(),
        changed: changed.unwrap_or(names.cell.index()).0,
        tasks: bns::tasks(names.cell, job).map(|task| formats::name_task(&task)).collect(),
        service: None,
    }
}

/// The records of a query.
fn found(names: Names<'_>, query: &Query, now: Time) -> v1::GetNamesResponse {
    let records = query.all(names.cell).map(|named| record(names, &named)).collect();
    v1::GetNamesResponse { index: names.cell.index().0, time: now.0, records }
}

impl Reads<'_> {
    /// The same for a user, of a cell that is not followed, such as one of the past.
    pub(crate) fn names(&self, asked: v1::GetNamesRequest) -> Result<v1::GetNamesResponse, Status> {
        let query = Query::of(asked.query, Some(self.me))?;
        let changes = Changes::of(self.cell);
        Ok(found(Names { cell: self.cell, changes: &changes }, &query, self.now))
    }
}

/// The service.
#[derive(Clone)]
pub(super) struct NameService {
    door: Door,
    watches: Streams,
}

impl NameService {
    pub(super) fn new(door: Door) -> Self {
        Self { door, watches: Streams::new("watch-names", WATCHES_MAX) }
    }

    /// The limits on watches of names.
    pub(super) fn watches(&self) -> &Streams {
        &self.watches
    }

    /// Who asks, if their certificate is accepted.
    async fn reader<T: Sync>(&self, request: &Request<T>) -> Result<NamesCaller, Status> {
        match rpc::transport::peer_identity(request, &self.door.cell)? {
            Identity::Borglet(_) => self.door.machine(request).map(|_| NamesCaller::Machine),
            _ => self.door.anyone(request).await.map(NamesCaller::Client),
        }
    }
}

#[tonic::async_trait]
impl names_server::Names for NameService {
    type WatchStream = Streamed<v1::NamesChange>;

    async fn get(&self, request: Request<v1::GetNamesRequest>) -> Answer<v1::GetNamesResponse> {
        let (reader, asked) = (self.reader(&request).await?, request.into_inner());
        let query = Query::of(asked.query.clone(), reader.user())?;
        match (asked.at, &reader) {
            (None, _) => {}
            (Some(at), NamesCaller::Client(by)) => {
                return self.door.past(by, at, Question::Names(asked)).await;
            }
            (Some(_), NamesCaller::Machine) => {
                return Err(Status::permission_denied("machines get the present names only"));
            }
        }
        let core = self.door.core.clone();
        let answer = move || {
            let view = core.view();
            Ok(found(view.names(), &query, view.now()))
        };
        match reader {
            NamesCaller::Client(by) => self.door.read_much(&by, move |_| answer()).await,
            NamesCaller::Machine => answer().map(Response::new),
        }
    }

    async fn watch(&self, request: Request<v1::WatchNamesRequest>) -> Answer<Self::WatchStream> {
        let reader = self.reader(&request).await?;
        let v1::WatchNamesRequest { query, after } = request.into_inner();
        let query = Query::of(query, reader.user())?;
        gate::reached(&self.door.core, LogIndex(after)).await?;
        let place: Option<Permit<UserName>> = match &reader {
            NamesCaller::Client(by) => {
                let holder =
                    StreamHolder { user: &by.user, asker: by.asker(&self.door.core.view().cell) };
                Some(self.watches.begin(holder)?)
            }
            // As many as machines may have connections.
            NamesCaller::Machine => None,
        };
        let (to_client, stream) = mpsc::channel(QUEUE + 1);
        let no_room = |_| Status::internal("a queue that is new has no room: report this");
        let end = to_client.clone().try_reserve_owned().map_err(no_room)?;
        let watch = Watch { views: self.door.core.watch(), query, to_client };
        tokio::spawn(async move {
            if let Err(status) = watch.run(LogIndex(after)).await {
                end.send(Err(status));
            }
        });
        let stream = Response::new(holding(place, ReceiverStream::new(stream)));
        Ok(match reader {
            NamesCaller::Client(by) => self.door.while_accepted(by, stream),
            NamesCaller::Machine => stream,
        })
    }
}

struct Watch {
    views: watch::Receiver<Arc<View>>,
    query: Query,
    to_client: mpsc::Sender<Result<v1::NamesChange, Status>>,
}

impl Watch {
    async fn run(mut self, mut after: LogIndex) -> Result<(), Status> {
        let mut told = None;
        let mut is_first = true;
        loop {
            // No cell is held while a reader takes its time.
            let messages = {
                let view = Arc::clone(&self.views.borrow_and_update());
                let messages = self.changes(&view, after, is_first);
                (after, is_first) = (view.cell.index(), false);
                messages
            };
            for message in messages {
                told = Some(tokio::time::Instant::now());
                match self.to_client.send_timeout(Ok(message), STALLED).await {
                    Ok(()) => {}
                    Err(SendTimeoutError::Closed(_)) => return Ok(()),
                    Err(SendTimeoutError::Timeout(_)) => {
                        return Err(Status::deadline_exceeded(format!(
                            "the reader read nothing for {} seconds: watch again, after index {after}",
                            STALLED.as_secs()
                        )));
                    }
                }
            }
            let alive = told.unwrap_or_else(tokio::time::Instant::now) + ALIVE;
            let rest = tokio::time::sleep(REST);
            let changed = async {
                rest.await;
                self.views.changed().await
            };
            tokio::select! {
                changed = changed => if changed.is_err() { return Ok(()) },
                () = tokio::time::sleep_until(alive) => {
                    let progress = v1::NamesChange {
                        // What is newer has not been looked at.
                        index: after.0,
                        time: self.views.borrow().now().0,
                        ..v1::NamesChange::default()
                    };
                    told = Some(tokio::time::Instant::now());
                    if self.to_client.try_send(Ok(progress)).is_err() && self.to_client.is_closed() {
                        return Ok(());
                    }
                }
                () = self.to_client.closed() => return Ok(()),
            }
        }
    }

    /// What to send of the changes after an index: nothing if none is of interest, except at the
    /// beginning.
    fn changes(&self, view: &View, after: LogIndex, is_first: bool) -> Vec<v1::NamesChange> {
        let (names, index, time) = (view.names(), view.cell.index().0, view.now().0);
        let empty = v1::NamesChange { index, time, more: true, ..v1::NamesChange::default() };
        let mut pages = Pages { messages: Vec::new(), page: empty.clone(), empty, tasks: 0 };
        let known = names.changes.after(after).ok().filter(|_| after > LogIndex(0));
        match known {
            Some(keys) => {
                for key in keys.filter(|key| self.query.is_about(&key.0, &key.1)) {
                    match self.query.find(names.cell, &key.0, &key.1) {
                        Some(named) => pages.add(record(names, &named)),
                        None => pages.page.gone.push(v1::JobAddress {
                            user: key.0.to_string(),
                            job: key.1.to_string(),
                        }),
                    }
                }
            }
            None => {
                pages.page.complete = true;
                pages.empty.complete = true;
                self.query.all(names.cell).for_each(|named| pages.add(record(names, &named)));
            }
        }
        pages.end(is_first)
    }
}

/// Messages of a bounded size.
struct Pages {
    messages: Vec<v1::NamesChange>,
    page: v1::NamesChange,
    empty: v1::NamesChange,
    tasks: usize,
}

impl Pages {
    fn add(&mut self, record: v1::NameRecord) {
        if self.tasks > 0 && self.tasks + record.tasks.len() > TASKS_MAX {
            self.messages.push(std::mem::replace(&mut self.page, self.empty.clone()));
            self.tasks = 0;
        }
        // A job without tasks takes room, too.
        self.tasks += record.tasks.len() + 1;
        self.page.records.push(record);
    }

    fn end(mut self, is_first: bool) -> Vec<v1::NamesChange> {
        let is_empty = self.page.records.is_empty() && self.page.gone.is_empty();
        if is_empty && self.messages.is_empty() && !is_first {
            return Vec::new();
        }
        self.page.more = false;
        self.messages.push(self.page);
        self.messages
    }
}
