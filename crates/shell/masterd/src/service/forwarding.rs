//! Sending requests to the leader: to this replica's core if it leads, else to the replica that
//! does.

use std::sync::Arc;
use std::time::Duration;

use cell::{Mutation, Op, Outcome, Reply, RequestId, UseCapability};
use model::{Capability, CollectionId, LogIndex, ReplicaId};
use proto::v1;
use tokio::time::Instant;
use tonic::{Code, Response, Status};

use crate::admission::{Asked, Counted};
use crate::bounds;
use crate::caller::Caller;
use crate::handle::NotTaken;
use crate::message::Answered;
use crate::reads::rejections::rejected;
use crate::request::Request;
use crate::service::{Answer, SMALL_BYTES, Service, malformed, unexpected};

/// For how long a leader is searched and a request is repeated.
pub(crate) const LEADER_PATIENCE: Duration = Duration::from_secs(10);
/// The pause before a leader that did not answer is asked again.
const LEADER_PAUSE: Duration = Duration::from_millis(20);

impl Service {
    /// Has the leader, this replica or another, execute a request. While there is no leader, or the
    /// result is unknown, the request is repeated: it is executed once, however often it is sent.
    pub(crate) async fn ask(
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
    pub(crate) async fn leader(&self, until: Instant) -> Result<Option<ReplicaId>, Status> {
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
            Request::Propose(_) => return Err(unexpected(&"a scheduler's proposal")),
        };
        let by = by.map(|by| {
            let task_issued = by.task.map_or(0, |issued| issued.0);
            (by.user.to_string(), by.serial.to_string(), task_issued)
        });
        let (user, serial, task_issued) = by.unwrap_or_default();
        let request =
            replication::v1::ForwardRequest { user, serial, op: Some((&op).into()), task_issued };
        let answer = self.peers.forward(leader, request, LEADER_PATIENCE).await?;
        let index = LogIndex(answer.index);
        let answer = answer.answer.ok_or_else(|| Status::internal("an answer without content"))?;
        let answer = answer.try_into().map_err(|error| malformed(&error))?;
        self.seen(index).await;
        Ok((index, Outcome::Request(answer)))
    }

    /// Waits until the view includes an index, up to the usual timeout.
    pub(crate) async fn seen(&self, index: LogIndex) {
        let mut views = self.core.watch();
        let seen = views.wait_for(|view| view.cell.index() >= index);
        let _late = tokio::time::timeout(LEADER_PATIENCE, seen).await;
    }

    /// Counts a request with a message of so many bytes, from before any waiting until its answer.
    pub(crate) fn count(&self, ask: &Request, bytes: usize) -> Result<Arc<Counted>, Status> {
        let counted = self.core.count(ask, bytes.max(SMALL_BYTES));
        counted.map_err(|not_taken| self.not_taken(not_taken))
    }

    /// The same for a scheduler's proposals, before it is known where they are decided.
    pub(crate) fn count_proposals(&self, bytes: usize) -> Result<Arc<Counted>, Status> {
        let counted = self.core.count_as(Asked::Change, None, bytes.max(SMALL_BYTES));
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
    pub(crate) async fn ask_here(
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
    pub(crate) async fn mutate(
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
        (id, by, bytes): (Option<v1::RequestId>, Caller, usize),
        mutation: impl Into<Mutation>,
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
    pub(crate) async fn record_use(
        &self,
        by: &Caller,
        capability: Capability,
        collection: CollectionId,
    ) -> Result<(), Status> {
        self.record(by, UseCapability { capability, collection }.into()).await
    }

    /// Executes a mutation that only adds an event, in a session made for it. No client can send such
    /// mutations.
    pub(crate) async fn record(&self, by: &Caller, mutation: Mutation) -> Result<(), Status> {
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

#[cfg(test)]
mod tests;
