//! Clients that keep running during faults; their requests and answers are recorded. Each is a
//! thread of the test.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use api::v1;
use client::MasterClient;
use rpc::{Credentials, Expect, Role, Rotating};
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Response, Status};

use super::history::{Answer, Answered, Asked, History, Job, Operation, Seen};
use super::network::Host;
use super::world::endpoint;
use crate::jobs;
use crate::random::Random;

type Client = MasterClient;

/// How long a client waits for one replica, and for any, before the result counts as unknown.
pub(super) const ATTEMPT: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(30);
/// The number of jobs in use at once, and the number of requests for one before it is replaced.
const KEYS: usize = 4;
const OPERATIONS_MAX: usize = 24;
const UNKNOWN_MAX: usize = 3;
/// The number of finished jobs whose state is remembered. Each gets a few dead jobs of its name,
/// and the cell keeps ten thousand.
const SETTLED_MAX: usize = 800;
/// Past states are compared at every index that is a multiple of this.
const LOOK_BACK: u64 = 20;

/// The state that all clients share.
pub(crate) struct Shared {
    pub(crate) began: Instant,
    pub(super) user: Credentials,
    /// The replicas' addresses.
    pub(super) places: Vec<Host>,
    stops: AtomicBool,
    over: AtomicBool,
    /// Whether logs are to grow.
    grows: AtomicBool,
    /// The newest index that any client has seen.
    newest: AtomicU64,
    version: AtomicU64,
    state: Mutex<State>,
}

/// The results.
#[derive(Default)]
pub(crate) struct State {
    /// By the name of a job.
    keys: BTreeMap<String, Key>,
    /// The jobs in use, by number.
    current: BTreeMap<usize, String>,
    /// Violations.
    pub(crate) wrong: Vec<String>,
    /// The numbers of requests by kind and result.
    pub(crate) counts: BTreeMap<(&'static str, &'static str), u64>,
    /// Acknowledged running jobs.
    pub(crate) ran: Vec<String>,
    /// The tasks of finished ones: job name and index.
    pub(crate) finished: Vec<String>,
    pub(crate) probes: Vec<Probe>,
    pub(crate) judged: u64,
    /// Jobs that are no longer used and whose final state is known.
    settled: VecDeque<(String, Job)>,
}

/// A job, and its requests.
#[derive(Default)]
struct Key {
    history: History,
    in_flight: usize,
    unknown: usize,
    retired: bool,
}

/// A change that is attempted every tenth of a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) at: Duration,
    /// The time until it was acknowledged, if it was.
    pub(crate) took: Option<Duration>,
}

impl Shared {
    pub(crate) fn new(user: Credentials, places: Vec<Host>) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            user,
            places,
            stops: AtomicBool::new(false),
            over: AtomicBool::new(false),
            grows: AtomicBool::new(false),
            newest: AtomicU64::new(0),
            version: AtomicU64::new(0),
            state: Mutex::default(),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no client panicked")
    }

    /// Stops every client except those that check the rest.
    pub(crate) fn stop(&self) {
        self.stops.store(true, Ordering::SeqCst);
    }

    /// Stops those, too, when nothing is left.
    pub(crate) fn is_over(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// Starts or stops the growth of logs.
    pub(crate) fn grow(&self, grows: bool) {
        self.grows.store(grows, Ordering::SeqCst);
    }

    pub(super) fn goes_on(&self) -> bool {
        !self.stops.load(Ordering::SeqCst)
    }

    /// Whether logs are to grow now.
    pub(super) fn is_growing(&self) -> bool {
        self.grows.load(Ordering::SeqCst)
    }

    /// Whether everything stops.
    pub(super) fn ends(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn heard(&self, index: u64) {
        self.newest.fetch_max(index, Ordering::SeqCst);
    }

    pub(super) fn count(&self, what: &'static str, outcome: &'static str) {
        *self.state().counts.entry((what, outcome)).or_default() += 1;
    }

    pub(crate) fn is_wrong(&self, what: String) {
        eprintln!("wrong: {what}");
        self.state().wrong.push(what);
    }
}

/// The result of a request.
pub(super) enum Outcome<T> {
    Done(T),
    Refused(Status),
    Unknown,
}

/// The kind of a request.
#[derive(Clone, Copy)]
pub(super) struct ClientSettings {
    pub(super) consistent: bool,
    pub(super) attempt: Duration,
    pub(super) patience: Duration,
}

pub(super) const USUAL: ClientSettings =
    ClientSettings { consistent: false, attempt: ATTEMPT, patience: PATIENCE };

/// A client's connections to all replicas.
pub(super) struct Caller {
    pub(super) shared: Arc<Shared>,
    clients: Vec<Client>,
    /// The replica that is asked first.
    pub(super) at: usize,
    session: u64,
    sequence: u64,
}

impl Caller {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let credentials = Rotating::new(shared.user.clone()).expect("a certificate");
        let expect = Expect::Role(Role::Master);
        let client = |host| {
            let channel = rpc::transport::connect(&endpoint(host), &credentials, &expect);
            Client::over(channel.expect("an address"))
        };
        let clients = shared.places.iter().copied().map(client).collect();
        Self { shared: Arc::clone(shared), clients, at: 0, session: 0, sequence: 0 }
    }

    /// Another caller with the same connections that asks another replica first.
    pub(super) fn beside(&self, at: usize) -> Self {
        let (shared, clients) = (Arc::clone(&self.shared), self.clients.clone());
        Self { shared, clients, at, session: 0, sequence: 0 }
    }

    /// Switches the replica that is asked first.
    pub(super) fn turns(&mut self) {
        self.at = (self.at + 1) % self.clients.len();
    }

    /// Asks one replica after the other, until there is an answer or a timeout.
    pub(super) async fn ask<M: Clone, T>(
        &mut self,
        how: ClientSettings,
        message: M,
        call: impl AsyncFn(Client, Request<M>) -> Result<Response<T>, Status>,
    ) -> Outcome<T> {
        let until = Instant::now() + how.patience;
        loop {
            let mut request = Request::new(message.clone());
            if how.consistent {
                request.metadata_mut().insert("consistent", MetadataValue::from_static("true"));
            }
            let left = until.saturating_duration_since(Instant::now());
            let asked = Box::pin(call(self.clients[self.at].clone(), request));
            match tokio::time::timeout(how.attempt.min(left), asked).await {
                Ok(Ok(answer)) => return Outcome::Done(answer.into_inner()),
                Ok(Err(status)) if is_refusal(&status) => return Outcome::Refused(status),
                Ok(Err(_)) | Err(_) => self.turns(),
            }
            if Instant::now() >= until {
                return Outcome::Unknown;
            }
            tokio::time::sleep(PAUSE.min(left)).await;
        }
    }

    /// The id of a change: it is executed once, however often it is sent.
    pub(super) async fn request_id(&mut self) -> Option<v1::RequestId> {
        if self.session == 0 {
            let asked = v1::OpenSessionRequest {};
            let opened = self.ask(USUAL, asked, async |mut client, request| {
                client.cell.open_session(request).await
            });
            let Outcome::Done(opened) = opened.await else { return None };
            self.session = opened.session;
        }
        self.sequence += 1;
        Some(v1::RequestId { session: self.session, sequence: self.sequence })
    }

    /// A job's state now or at an index, and that index.
    async fn read(
        &mut self,
        how: ClientSettings,
        job: &str,
        at: Option<u64>,
    ) -> Outcome<(u64, Job)> {
        let labels = format!("key={job}");
        let at = at.map(|index| v1::Moment { at: Some(v1::moment::At::Index(index)) });
        let asked = v1::StatusRequest { labels, dead: true, at, ..v1::StatusRequest::default() };
        let answer = self
            .ask(how, asked, async |mut client, request| client.jobs.status(request).await)
            .await;
        match answer {
            Outcome::Done(found) => Outcome::Done((found.index, found_job(&found.jobs))),
            Outcome::Refused(status) => Outcome::Refused(status),
            Outcome::Unknown => Outcome::Unknown,
        }
    }
}

fn is_refusal(status: &Status) -> bool {
    use Code::{AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, PermissionDenied};
    [AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, PermissionDenied]
        .contains(&status.code())
}

fn found_job(jobs: &[v1::JobStatus]) -> Job {
    let Some(job) = jobs.first() else { return Job::Absent };
    let spec = job.spec.as_ref().expect("a job has a description");
    let version = spec.labels["version"].parse().expect("a number");
    if job.state().is_dead() { Job::Dead(version) } else { Job::Alive(version) }
}

/// A job of this name and version.
pub(super) fn description(job: &str, version: u64) -> v1::JobSpec {
    let labels = [("key", job.to_owned()), ("version", version.to_string())];
    let labels = labels.map(|(label, value)| (label.to_owned(), value)).into();
    v1::JobSpec { labels, ..jobs::that_fits_nowhere(job) }
}

/// Starts a client's thread.
pub(crate) fn start<F>(
    shared: &Arc<Shared>,
    client: impl FnOnce(Arc<Shared>) -> F + Send + 'static,
) -> std::thread::JoinHandle<()>
where
    F: Future<Output = ()>,
{
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("a runtime");
        tokio::task::LocalSet::new().block_on(&runtime, client(shared));
    })
}

/// A client that submits, updates, kills and reads, through all replicas.
pub(crate) async fn people(shared: Arc<Shared>, mut random: Random) {
    let mut caller = Caller::new(&shared);
    let mut newest = vec![0; shared.places.len()];
    while shared.goes_on() {
        tokio::time::sleep(Duration::from_millis(random.below(40))).await;
        caller.at = random.below_usize(shared.places.len());
        let slot = random.below_usize(KEYS);
        let what = random.below(20);
        if what < 4 {
            look(&shared, &mut caller, slot, &mut newest).await;
            continue;
        }
        let id = match what {
            4..11 => None,
            _ => match caller.request_id().await {
                None => continue,
                id => id,
            },
        };
        let asked = match what {
            4..11 => Asked::Read,
            11..14 => Asked::Kill,
            _ => Asked::Submit(shared.version.fetch_add(1, Ordering::SeqCst) + 1),
        };
        let job = shared.state().current_key(slot);
        let patience = Duration::from_millis(200 + random.below(2_000));
        do_it(&shared, &mut caller, &job, (asked, id), patience).await;
    }
}

impl State {
    /// The job in this slot, which a request is about to use.
    fn current_key(&mut self, slot: usize) -> String {
        let name = self.current.entry(slot).or_insert_with(|| format!("key-{slot}-0"));
        let key = self.keys.entry(name.clone()).or_default();
        if key.history.operations.len() >= OPERATIONS_MAX || key.unknown >= UNKNOWN_MAX {
            key.retired = true;
            let number = name.rsplit('-').next().and_then(|number| number.parse::<u64>().ok());
            *name = format!("key-{slot}-{}", number.unwrap_or_default() + 1);
        }
        let name = name.clone();
        self.keys.entry(name.clone()).or_default().in_flight += 1;
        name
    }
}

/// A plain read of one replica, which never goes back. Now and then another replica is asked for
/// that past state.
async fn look(shared: &Arc<Shared>, caller: &mut Caller, slot: usize, newest: &mut [u64]) {
    let job = shared.state().current_key(slot);
    let at = caller.at;
    // Only one replica is asked.
    let how = ClientSettings { patience: ATTEMPT, ..USUAL };
    let read = caller.read(how, &job, None).await;
    let mut seen = Vec::new();
    if let Outcome::Done((index, found)) = read {
        shared.count("plain read", "answered");
        shared.heard(index);
        let before = std::mem::replace(&mut newest[at], index);
        if caller.at == at && index < before {
            let host = shared.places[at];
            shared.is_wrong(format!("a client of {host} reads {index} after {before}"));
        }
        seen.push(Seen { index, job: found });
        if index.is_multiple_of(LOOK_BACK) {
            seen.extend(look_back(shared, caller, &job, index).await);
        }
    } else {
        shared.count("plain read", "not answered");
    }
    let mut state = shared.state();
    let key = state.keys.get_mut(&job).expect("it is asked about");
    key.in_flight -= 1;
    key.history.seen.extend(seen);
}

/// A job's state at an index, from another replica's history.
async fn look_back(
    shared: &Arc<Shared>,
    caller: &mut Caller,
    job: &str,
    index: u64,
) -> Option<Seen> {
    caller.turns();
    match caller.read(USUAL, job, Some(index)).await {
        Outcome::Done((_, job)) => {
            shared.count("read of the past", "answered");
            Some(Seen { index, job })
        }
        // It may not have existed then, or not any more.
        Outcome::Refused(_) | Outcome::Unknown => {
            shared.count("read of the past", "not answered");
            None
        }
    }
}

/// Makes a request whose history is checked.
async fn do_it(
    shared: &Arc<Shared>,
    caller: &mut Caller,
    job: &str,
    (asked, id): (Asked, Option<v1::RequestId>),
    patience: Duration,
) {
    let after = shared.newest.load(Ordering::SeqCst);
    let called = shared.began.elapsed();
    let how = ClientSettings { patience, ..USUAL };
    let outcome = perform(caller, how, job, asked, id).await;
    let at = shared.began.elapsed();
    let (what, mut how) = (name(asked), "not known");
    let answered = match outcome {
        Outcome::Done((index, answer)) => {
            shared.heard(index);
            how = "acknowledged";
            Some(Answered { at, answer, index })
        }
        Outcome::Refused(status) => {
            shared.is_wrong(format!("{job}: {asked:?} is refused: {}", status.message()));
            None
        }
        Outcome::Unknown => None,
    };
    shared.count(what, how);
    let mut state = shared.state();
    let key = state.keys.get_mut(job).expect("it is asked about");
    key.in_flight -= 1;
    // An unanswered read has no effect.
    if asked != Asked::Read || answered.is_some() {
        key.unknown += usize::from(answered.is_none());
        key.history.operations.push(Operation { asked, called, after, answered });
    }
}

fn name(asked: Asked) -> &'static str {
    match asked {
        Asked::Submit(_) => "submit or update",
        Asked::Kill => "kill",
        Asked::Read => "consistent read",
    }
}

async fn perform(
    caller: &mut Caller,
    how: ClientSettings,
    job: &str,
    asked: Asked,
    id: Option<v1::RequestId>,
) -> Outcome<(u64, Answer)> {
    match asked {
        Asked::Read => {
            match caller.read(ClientSettings { consistent: true, ..how }, job, None).await {
                Outcome::Done((index, found)) => Outcome::Done((index, Answer::Found(found))),
                Outcome::Refused(status) => Outcome::Refused(status),
                Outcome::Unknown => Outcome::Unknown,
            }
        }
        Asked::Submit(version) => {
            let request = v1::SubmitRequest { id, spec: Some(description(job, version)) };
            let done = caller
                .ask(how, request, async |mut client, request| client.jobs.submit(request).await);
            match done.await {
                Outcome::Done(v1::SubmitResponse { index, updated, .. }) => {
                    let answer = if updated { Answer::Updated } else { Answer::Created };
                    Outcome::Done((index, answer))
                }
                Outcome::Refused(status) => Outcome::Refused(status),
                Outcome::Unknown => Outcome::Unknown,
            }
        }
        Asked::Kill => {
            let address = v1::JobAddress { user: String::new(), job: job.to_owned() };
            let request = v1::KillRequest { id, job: Some(address), tasks: None, now: false };
            let done = caller
                .ask(how, request, async |mut client, request| client.jobs.kill(request).await);
            match done.await {
                Outcome::Done(killed) => {
                    Outcome::Done((killed.index, Answer::Killed(killed.killed > 0)))
                }
                // There was no operation, so no index.
                Outcome::Refused(status) if status.code() == Code::NotFound => {
                    Outcome::Done((0, Answer::NoSuchJob))
                }
                Outcome::Refused(status) => Outcome::Refused(status),
                Outcome::Unknown => Outcome::Unknown,
            }
        }
    }
}

/// Reads every job for the last time, and checks its history.
pub(crate) async fn judge(shared: Arc<Shared>) {
    let mut caller = Caller::new(&shared);
    loop {
        let ends = shared.ends();
        let over: Vec<String> = {
            let state = shared.state();
            let over = state.keys.iter().filter(|(_, key)| key.in_flight == 0);
            over.filter(|(_, key)| ends || key.retired).map(|(name, _)| name.clone()).collect()
        };
        for job in over {
            judge_one(&shared, &mut caller, &job).await;
        }
        if ends && shared.state().keys.is_empty() {
            return look_again(&shared, &mut caller, 0).await;
        }
        look_again(&shared, &mut caller, SETTLED_MAX).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// Reads jobs again that were checked before, until this many are left: each must be unchanged,
/// whatever has happened since.
async fn look_again(shared: &Arc<Shared>, caller: &mut Caller, left: usize) {
    loop {
        let oldest = {
            let settled = &mut shared.state().settled;
            if settled.len() > left { settled.pop_front() } else { None }
        };
        let Some((job, settled)) = oldest else { return };
        let how = ClientSettings { consistent: true, patience: Duration::from_secs(30), ..USUAL };
        match caller.read(how, &job, None).await {
            Outcome::Done((_, found)) if found == settled => {
                shared.count("job that was judged before", "is what it was");
            }
            Outcome::Done((_, found)) => {
                shared.is_wrong(format!("{job} was {settled:?}, and is {found:?} much later"));
            }
            Outcome::Refused(_) | Outcome::Unknown => {
                shared.is_wrong(format!("{job} was {settled:?}, and cannot be read much later"));
            }
        }
    }
}

async fn judge_one(shared: &Arc<Shared>, caller: &mut Caller, job: &str) {
    let after = shared.newest.load(Ordering::SeqCst);
    let called = shared.began.elapsed();
    let how = ClientSettings { consistent: true, ..USUAL };
    let Outcome::Done((index, found)) = caller.read(how, job, None).await else { return };
    let at = shared.began.elapsed();
    let answered = Some(Answered { at, answer: Answer::Found(found), index });
    let Some(mut key) = shared.state().keys.remove(job) else { return };
    let last = Operation { asked: Asked::Read, called, after, answered };
    key.history.operations.push(last);
    if let Some(wrong) = key.history.wrong() {
        shared.is_wrong(format!("{job}: {wrong}: {:#?}", key.history));
    }
    shared.state().judged += 1;
    let settled = match found {
        Job::Alive(version) => kill(caller, job).await.then_some(Job::Dead(version)),
        found => Some(found),
    };
    // Unanswered requests may still take effect.
    if let Some(settled) = settled.filter(|_| key.unknown == 0) {
        shared.state().settled.push_back((job.to_owned(), settled));
    }
}

/// Whether a job is dead now.
async fn kill(caller: &mut Caller, job: &str) -> bool {
    let Some(id) = caller.request_id().await else { return false };
    let killed = perform(caller, USUAL, job, Asked::Kill, Some(id)).await;
    matches!(killed, Outcome::Done(_))
}
