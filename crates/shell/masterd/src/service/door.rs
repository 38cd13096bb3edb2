//! The door of the API, through which every request to a service passes: it is authenticated and
//! authorised, bounded, forwarded to the leader, and answered.
//!
//! A service has limits for its own calls and says what each call means. Everything that holds for all of
//! them is here.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, UNIX_EPOCH};

use api::v1;
use api::v1::past_answer::Answer as PastAnswer;
use api::v1::past_question::Question;
use cell::{Mutation, Op, Outcome, Rejection, Reply, RequestId, UseCapability};
use model::{Capability, CollectionId, LogIndex, MachineName, ReplicaId, Serial, Time, UserName};
use rpc::Identity;
use rpc::transport::{Cause, Peer, Permit, Turn, Turns};
use tokio::time::Instant;
use tokio_stream::Stream;
use tonic::{Code, Response, Status};

use crate::admission::{Counted, RequestClass};
use crate::bounds;
use crate::caller::Caller;
use crate::caller::tasks::Denied;
use crate::handle::{Core, NotTaken};
use crate::message::Answered;
use crate::metrics::Metrics;
use crate::past::Past;
use crate::peers;
use crate::reads::Reads;
use crate::reads::rejections::rejected;
use crate::request::Request;
use crate::service::{Answer, Streamed, gate, malformed, unexpected};
use crate::streams::{StreamHolder, Streams};
use crate::view::View;

/// For how long a leader is searched and a request is repeated.
pub(super) const LEADER_PATIENCE: Duration = Duration::from_secs(10);
/// The pause before a leader that did not answer is asked again.
const LEADER_PAUSE: Duration = Duration::from_millis(20);
/// The minimum size in bytes that a request counts for: with its message goes its caller's data.
pub(super) const SMALL_BYTES: usize = 256;
/// The maximum number of answers as large as the cell that are made at once, one for each user.
const MUCH_AT_ONCE: usize = 2;
/// The maximum number of such answers that are made or wait for their turn, shared by users.
const ASKERS_MAX: usize = 1_024;

/// The door of a replica. Clones share its limits.
#[derive(Clone)]
pub(crate) struct Door {
    pub(super) core: Core,
    pub(super) peers: peers::Handle,
    /// The cell's name.
    pub(super) cell: Arc<str>,
    pub(super) past: Past,
    pub(super) metrics: Arc<Metrics>,
    /// The clients with a pending read that may be as large as the cell.
    askers: Streams,
    /// Answers as large as the cell; the cell itself (`None`) makes some, too.
    pub(super) much: Turns<Option<UserName>>,
}

impl Door {
    pub(super) fn new(
        core: Core,
        peers: peers::Handle,
        cell: &str,
        past: Past,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            core,
            peers,
            cell: cell.into(),
            past,
            metrics,
            askers: Streams::new("ask-for-much-of-the-cell", ASKERS_MAX),
            much: Turns::new(MUCH_AT_ONCE),
        }
    }

    /// The bounds that users share of this replica, whatever service they call.
    pub(super) fn limits(&self) -> [&Streams; 2] {
        [&self.askers, self.past.waiting()]
    }
}

/// A message, and the request without it.
pub(super) fn split<T>(request: tonic::Request<T>) -> (T, tonic::Request<()>) {
    let (metadata, extensions, message) = request.into_parts();
    (message, tonic::Request::from_parts(metadata, extensions, ()))
}

/// Authentication: who calls, and whether their certificate is accepted.
impl Door {
    /// The calling user, if their certificate is accepted. Requests that tasks may not make use
    /// this.
    pub(super) fn caller<T>(&self, request: &tonic::Request<T>) -> Result<Caller, Status> {
        let peer = rpc::transport::peer(request, &self.cell)?;
        if let Identity::Task { user, .. } = &peer.identity {
            let why = format!(
                "{} may not do that: a task may read its cell, and submit and kill jobs of \
                 {user}; all else needs a user's own certificate",
                peer.identity
            );
            return Err(rpc::transport::refuse(request, Cause::WrongRole, why));
        }
        self.user_or_task(request)
    }

    /// The calling user, or that of the calling task, if the certificate is accepted as far as
    /// known here.
    pub(super) fn user_or_task<T>(&self, request: &tonic::Request<T>) -> Result<Caller, Status> {
        let (caller, view) = (self.claimed(request)?, self.core.view());
        match caller.accepted(&view.cell, view.now()) {
            Ok(()) => Ok(caller),
            Err(Denied { cause, why }) => Err(rpc::transport::refuse(request, cause, why)),
        }
    }

    /// The same. This replica may not know a task that was placed a moment ago yet: it then asks
    /// the others.
    pub(super) async fn anyone<T: Sync>(
        &self,
        request: &tonic::Request<T>,
    ) -> Result<Caller, Status> {
        let (caller, view) = (self.claimed(request)?, self.core.view());
        let mut accepted = caller.accepted(&view.cell, view.now());
        if accepted.as_ref().is_err_and(|denied| denied.cause == Cause::Ended) {
            let view = gate::newest(&self.core).await?;
            accepted = caller.accepted(&view.cell, view.now());
        }
        match accepted {
            Ok(()) => Ok(caller),
            Err(Denied { cause, why }) => Err(rpc::transport::refuse(request, cause, why)),
        }
    }

    /// The caller by its certificate, accepted or not.
    fn claimed<T>(&self, request: &tonic::Request<T>) -> Result<Caller, Status> {
        let peer = rpc::transport::peer(request, &self.cell)?;
        let serial = serial(&peer);
        let (name, task) = match peer.identity {
            Identity::User(name) => (name, None),
            Identity::Task { user, .. } => {
                let issued = peer.issued.duration_since(UNIX_EPOCH).unwrap_or_default();
                (user, Some(Time(u64::try_from(issued.as_micros()).unwrap_or(u64::MAX))))
            }
            other => {
                let why = format!("{other} may not do that: only users and their tasks may");
                return Err(rpc::transport::refuse(request, Cause::WrongRole, why));
            }
        };
        let user =
            UserName::new(&name).map_err(|error| Status::unauthenticated(error.to_string()))?;
        Ok(Caller { user, serial: serial?, task })
    }

    /// The machine of the calling Borglet, if its certificate is accepted.
    pub(super) fn machine<T>(&self, request: &tonic::Request<T>) -> Result<MachineName, Status> {
        let peer = rpc::transport::peer(request, &self.cell)?;
        let Identity::Borglet(name) = &peer.identity else {
            let why = format!("{} may not do that: only Borglets may", peer.identity);
            return Err(rpc::transport::refuse(request, Cause::WrongRole, why));
        };
        let name =
            MachineName::new(name).map_err(|error| Status::unauthenticated(error.to_string()))?;
        if self.core.view().cell.accepts_machine(&name, &serial(&peer)?) {
            return Ok(name);
        }
        let why = diagnostics::sentence(&Rejection::MachineRevoked(name));
        Err(rpc::transport::refuse(request, Cause::Revoked, why))
    }

    /// The name of the calling scheduler.
    pub(super) fn scheduler<T>(&self, request: &tonic::Request<T>) -> Result<String, Status> {
        match rpc::transport::peer_identity(request, &self.cell)? {
            Identity::Scheduler(name) => Ok(name),
            other => {
                let why = format!("{other} is not a scheduler");
                Err(rpc::transport::refuse(request, Cause::WrongRole, why))
            }
        }
    }
}

/// The serial number of the certificate of a caller.
pub(super) fn serial(peer: &Peer) -> Result<Serial, Status> {
    Serial::from_bytes(&peer.serial).ok_or_else(|| {
        Status::unauthenticated("the certificate's serial number is too long: get a new one")
    })
}

/// Authorisation: what a task may not do although its user may.
impl Door {
    /// Rejects tasks in requests that need the user's own certificate.
    pub(super) fn own(
        &self,
        by: &Caller,
        asked: &tonic::Request<()>,
        may: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), Status> {
        if by.task.is_none() {
            return Ok(());
        }
        may().map_err(|why| rpc::transport::refuse(asked, Cause::WrongRole, why))
    }
}

/// Bounds: how long a stream lasts, and where an answer is made.
impl Door {
    /// A stream that ends when its caller's certificate is not accepted any more, or when this
    /// replica has known no leader for a while: the reader then asks another.
    pub(super) fn while_accepted<T: 'static>(
        &self,
        caller: Caller,
        stream: Response<Streamed<T>>,
    ) -> Response<Streamed<T>> {
        let (core, mut views) = (self.core.clone(), self.core.watch());
        let refused = Box::pin(async move {
            let revoked = async {
                let denied = |view: &View| caller.accepted(&view.cell, view.now()).err();
                let view = views.wait_for(|view| denied(view).is_some()).await;
                match view.map(|view| denied(&view)) {
                    Ok(Some(Denied { why, .. })) => Status::permission_denied(why),
                    // The master ends, and the stream ends by itself.
                    Ok(None) | Err(_) => std::future::pending().await,
                }
            };
            tokio::select! {
                revoked = revoked => revoked,
                () = core.without_leader_for(LEADER_PATIENCE) => {
                    Status::unavailable("this replica knows no leader: ask another")
                }
            }
        });
        stream.map(|stream| {
            let stream: Streamed<T> = Box::pin(WhileAccepted { stream: Some(stream), refused });
            stream
        })
    }

    /// Answers from the newest view.
    pub(super) fn read<T>(
        &self,
        by: &Caller,
        answer: impl FnOnce(&Reads<'_>) -> Result<T, Status>,
    ) -> Answer<T> {
        answer(&Reads::of(&self.core.view(), by)).map(Response::new)
    }

    /// The same for answers that may be as large as the cell: a few at a time, on separate threads,
    /// because those that serve also receive messages of other replicas.
    pub(super) async fn read_much<T: Send + 'static>(
        &self,
        by: &Caller,
        answer: impl FnOnce(&Reads<'_>) -> Result<T, Status> + Send + 'static,
    ) -> Answer<T> {
        // Who waits for a turn counts, too.
        let place = self
            .askers
            .begin(StreamHolder { user: &by.user, asker: by.asker(&self.core.view().cell) })?;
        let turn = self.much.of(&Some(by.user.clone())).await;
        self.read_on_a_thread(by, place, Some(turn), answer).await
    }

    /// The same for answers that take longer than a thread that serves may be blocked, but not much: they need
    /// no turn.
    pub(super) async fn read_some<T: Send + 'static>(
        &self,
        by: &Caller,
        answer: impl FnOnce(&Reads<'_>) -> Result<T, Status> + Send + 'static,
    ) -> Answer<T> {
        let place = self
            .askers
            .begin(StreamHolder { user: &by.user, asker: by.asker(&self.core.view().cell) })?;
        self.read_on_a_thread(by, place, None, answer).await
    }

    async fn read_on_a_thread<T: Send + 'static>(
        &self,
        by: &Caller,
        place: Permit<UserName>,
        turn: Option<Turn<Option<UserName>>>,
        answer: impl FnOnce(&Reads<'_>) -> Result<T, Status> + Send + 'static,
    ) -> Answer<T> {
        let (view, by) = (self.core.view(), by.clone());
        let answered = tokio::task::spawn_blocking(move || {
            // Held even if the client is gone.
            let _held = (turn, place);
            answer(&Reads::of(&view, &by))
        });
        answered.await.map_err(|error| Status::internal(error.to_string()))?.map(Response::new)
    }

    /// Answers from a moment of the past.
    pub(super) async fn past<T: OfPast>(
        &self,
        by: &Caller,
        at: v1::Moment,
        question: Question,
    ) -> Answer<T> {
        let (asked, asker) = {
            let view = self.core.view();
            let asked = v1::PastQuestion {
                user: by.user.to_string(),
                administers_jobs: by.administers_jobs(&view.cell),
                at: Some(at),
                newest: view.cell.index().0,
                question: Some(question),
            };
            (asked, by.asker(&view.cell))
        };
        let turn = self.past.turn(StreamHolder { user: &by.user, asker }).await?;
        T::of(self.past.ask(turn, asked).await?).map(Response::new)
    }
}

/// Forwarding: requests go to this replica's core if it leads, else to the replica that does.
impl Door {
    /// Has the leader, this replica or another, execute a request. While there is no leader, or the
    /// result is unknown, the request is repeated: it is executed once, however often it is sent.
    pub(super) async fn ask(
        &self,
        ask: Request,
        bytes: usize,
    ) -> Result<(LogIndex, Outcome), Status> {
        let counted = self.count(&ask, bytes)?;
        let until = Instant::now() + LEADER_PATIENCE;
        loop {
            let asked = match self.leader(until).await? {
                None => self.ask_here(ask.clone(), Arc::clone(&counted)).await,
                Some(leader) => tokio::select! {
                    answer = self.forward(leader, &ask) => answer,
                    () = self.wait_for_other_leader(leader) => Err(Status::unavailable(
                        "the former leader no longer leads",
                    )),
                },
            };
            match asked {
                Err(status) if may_be_answered(&status) && Instant::now() < until => {
                    tokio::time::sleep(LEADER_PAUSE).await;
                }
                asked => return asked,
            }
        }
    }

    /// The leader, if it is another replica.
    pub(super) async fn leader(&self, until: Instant) -> Result<Option<ReplicaId>, Status> {
        let view = self.core.view();
        if view.leader.is_some() {
            return Ok(view.leads_elsewhere());
        }
        drop(view);
        let mut views = self.core.watch();
        let known = views.wait_for(|view| view.leader.is_some());
        match tokio::time::timeout_at(until, known).await {
            Ok(Ok(view)) => Ok(view.leads_elsewhere()),
            Ok(Err(_)) => Err(Status::unavailable("the master is stopping")),
            Err(_) => Err(Status::unavailable(
                "no replica leads the cell: nothing can be changed now, only read",
            )),
        }
    }

    /// Waits until another replica leads. A leader whose machine is gone cannot announce it.
    async fn wait_for_other_leader(&self, leader: ReplicaId) {
        let mut views = self.core.watch();
        let gone = views.wait_for(|view| view.leader.is_some_and(|now| now != leader));
        if gone.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Forwards a request to the leader, and waits until this replica's view includes the result.
    async fn forward(
        &self,
        leader: ReplicaId,
        ask: &Request,
    ) -> Result<(LogIndex, Outcome), Status> {
        bounds::check(ask).map_err(Status::invalid_argument)?;
        let (by, op) = match ask {
            Request::OpenSession(by) => (Some(by), Op::OpenSession { user: by.user.clone() }),
            Request::Mutate(id, by, mutation) => {
                let mutation = mutation.clone();
                (Some(by), Op::Request { id: *id, by: by.user.clone(), mutation })
            }
            Request::Enrolment(op) => (None, op.clone()),
            Request::Propose(..) | Request::Enable(..) => {
                return Err(unexpected(&"a scheduler's proposal"));
            }
        };
        let by = by.map(|by| {
            let task_issued = by.task.map_or(0, |issued| issued.0);
            (by.user.to_string(), by.serial.to_string(), task_issued)
        });
        let (user, serial, task_issued) = by.unwrap_or_default();
        let request =
            replication::v1::ForwardRequest { user, serial, op: Some((&op).into()), task_issued };
        let forwarded = self.peers.forward(leader, request, LEADER_PATIENCE);
        let answer = Box::pin(forwarded).await?;
        let index = LogIndex(answer.index);
        let answer = answer.answer.ok_or_else(|| Status::internal("an answer without content"))?;
        let answer = answer.try_into().map_err(|error| malformed(&error))?;
        self.seen(index).await;
        Ok((index, Outcome::Request(answer)))
    }

    /// Waits until the view includes an index, up to the usual timeout.
    pub(super) async fn seen(&self, index: LogIndex) {
        let mut views = self.core.watch();
        let seen = views.wait_for(|view| view.cell.index() >= index);
        let _late = tokio::time::timeout(LEADER_PATIENCE, seen).await;
    }

    /// Counts a request with a message of so many bytes, from before any waiting until its answer.
    pub(super) fn count(&self, ask: &Request, bytes: usize) -> Result<Arc<Counted>, Status> {
        let counted = self.core.count(ask, bytes.max(SMALL_BYTES));
        counted.map_err(|not_taken| self.not_taken(not_taken))
    }

    /// The same for a scheduler's proposals, before it is known where they are decided.
    pub(super) fn count_proposals(&self, bytes: usize) -> Result<Arc<Counted>, Status> {
        let counted = self.core.count_as(RequestClass::Change, None, bytes.max(SMALL_BYTES));
        counted.map_err(|not_taken| self.not_taken(not_taken))
    }

    fn not_taken(&self, not_taken: NotTaken) -> Status {
        match not_taken {
            NotTaken::Overloaded(shed) => shed.into(),
            NotTaken::NoRoom(why) => {
                self.metrics.no_room.inc();
                Status::resource_exhausted(format!("nothing can be changed now, only read: {why}"))
            }
            NotTaken::Invalid(why) => Status::invalid_argument(why),
            NotTaken::Stopping => Status::unavailable("the master is stopping"),
        }
    }

    /// Sends a request to this replica's core.
    pub(super) async fn ask_here(
        &self,
        ask: Request,
        counted: Arc<Counted>,
    ) -> Result<(LogIndex, Outcome), Status> {
        let answered = self.core.ask_counted(ask, counted).await;
        let answered: Answered = answered.map_err(|not_taken| self.not_taken(not_taken))?;
        answered.map_err(|refusal| match refusal {
            replica::Refusal::Overloaded => Status::resource_exhausted(refusal.to_string()),
            replica::Refusal::Level { .. } => Status::failed_precondition(refusal.to_string()),
            _ => Status::unavailable(refusal.to_string()),
        })
    }

    /// Executes the mutation of a message of so many bytes.
    pub(super) async fn mutate(
        &self,
        id: Option<v1::RequestId>,
        by: Caller,
        mutation: Mutation,
        bytes: usize,
    ) -> Result<(LogIndex, Reply), Status> {
        let answered = self.ask(Request::Mutate(given(id)?, by, mutation), bytes).await?;
        self.replied(answered)
    }

    /// Answers a request that is just a mutation: `answer` makes the response from the index and
    /// the replies that the mutation can have.
    pub(super) async fn change<T>(
        &self,
        id: Option<v1::RequestId>,
        by: Caller,
        mutation: impl Into<Mutation>,
        bytes: usize,
        answer: impl FnOnce(u64, &Reply) -> Option<T>,
    ) -> Answer<T> {
        let (index, reply) = self.mutate(id, by, mutation.into(), bytes).await?;
        answer(index.0, &reply).map(Response::new).ok_or_else(|| unexpected(&reply))
    }

    /// The reply to a request, or why it was rejected.
    fn replied(&self, answered: (LogIndex, Outcome)) -> Result<(LogIndex, Reply), Status> {
        match answered {
            (index, Outcome::Request(Ok(reply))) => Ok((index, reply)),
            (_, Outcome::Request(Err(rejection))) => {
                Err(rejected(&self.core.view().cell, &rejection))
            }
            (_, other) => Err(unexpected(&other)),
        }
    }

    /// Records that a user acts on another user's job by a capability.
    pub(super) async fn record_use(
        &self,
        by: &Caller,
        capability: Capability,
        collection: CollectionId,
    ) -> Result<(), Status> {
        self.record(by, UseCapability { capability, collection }.into()).await
    }

    /// Executes a mutation that only adds an event, in a session made for it. No client can send such
    /// mutations.
    pub(super) async fn record(&self, by: &Caller, mutation: Mutation) -> Result<(), Status> {
        let session = match self.ask(Request::OpenSession(by.clone()), SMALL_BYTES).await?.1 {
            Outcome::Request(Ok(Reply::Session(session))) => session,
            other => return Err(unexpected(&other)),
        };
        let id = Some(RequestId { session, sequence: 1 }.into());
        self.mutate(id, by.clone(), mutation, SMALL_BYTES).await.map(drop)
    }
}

/// The id that every request needs.
fn given(id: Option<v1::RequestId>) -> Result<RequestId, Status> {
    id.map(RequestId::from).ok_or_else(|| Status::invalid_argument("a request needs its id"))
}

/// Whether another leader, or this one a moment later, may answer.
fn may_be_answered(status: &Status) -> bool {
    status.code() == Code::Unavailable || rpc::transport::is_broken(status)
}

/// A response of one kind to a question about the past.
pub(super) trait OfPast: Sized {
    /// The response; an answer of another kind is an error.
    fn of(answer: PastAnswer) -> Result<Self, Status>;
}

macro_rules! of_past {
    ($($kind:ident: $response:ident,)*) => {$(
        impl OfPast for v1::$response {
            fn of(answer: PastAnswer) -> Result<Self, Status> {
                match answer {
                    PastAnswer::$kind(response) => Ok(response),
                    other => Err(unexpected(&other)),
                }
            }
        }
    )*};
}

of_past! {
    Status: StatusResponse,
    Why: WhyResponse,
    Queue: QueueResponse,
    Machines: MachinesResponse,
    Cell: CellStatusResponse,
    Users: UsersResponse,
    Quota: QuotaResponse,
    Capabilities: CapabilitiesResponse,
    Services: ServicesResponse,
    Packages: PackagesResponse,
    Secrets: SecretsResponse,
    Names: GetNamesResponse,
}

/// A stream, until its caller is rejected.
struct WhileAccepted<T> {
    stream: Option<Streamed<T>>,
    refused: Pin<Box<dyn Future<Output = Status> + Send>>,
}

impl<T> Stream for WhileAccepted<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(stream) = &mut this.stream else { return Poll::Ready(None) };
        if let Poll::Ready(status) = this.refused.as_mut().poll(context) {
            this.stream = None;
            return Poll::Ready(Some(Err(status)));
        }
        let next = stream.as_mut().poll_next(context);
        if let Poll::Ready(None) = next {
            this.stream = None;
        }
        next
    }
}

#[cfg(test)]
mod tests;
