//! Asking the leader: a question goes to this replica's core where it leads, and else to whoever does.

use std::sync::Arc;
use std::time::Duration;

use cell::{Mutation, Op, Outcome, Reply, RequestId};
use model::{Capability, CollectionId, LogIndex, ReplicaId};
use proto::v1;
use tokio::time::Instant;
use tonic::{Code, Status};

use super::admission::{Asked, Counted};
use super::bounds;
use super::core::{Answered, NotTaken, Request};
use super::rejections::rejected;
use super::service::{SMALL_BYTES, Service, malformed, unexpected};
use super::users::Caller;

/// For how long a leader is looked for, and asked again.
pub(super) const LEADER_PATIENCE: Duration = Duration::from_secs(10);
/// How long a leader that did not answer is left alone.
const LEADER_PAUSE: Duration = Duration::from_millis(20);

impl Service {
    /// Has the leader do what somebody asks, be it this replica or another. While nobody leads, or it
    /// is not known what became of it, it is asked again: a request is done once, however often it is
    /// sent.
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
                    () = self.leads_no_longer(leader) => Err(Status::unavailable(
                        "the leader that was asked leads no longer",
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

    /// Who leads, where it is another.
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
            Ok(Err(_)) => Err(Status::unavailable("the master stops")),
            Err(_) => Err(Status::unavailable(
                "no replica leads the cell: nothing can be changed now, only read",
            )),
        }
    }

    /// Waits until another replica leads. A leader whose machine is gone does not say so.
    async fn leads_no_longer(&self, leader: ReplicaId) {
        let mut views = self.core.watch();
        let gone = views.wait_for(|view| view.leader.is_some_and(|now| now != leader));
        if gone.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Asks the leader elsewhere, and waits until this replica's view has the answer too.
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
        let answer =
            answer.answer.ok_or_else(|| Status::internal("an answer without an answer"))?;
        let answer = answer.try_into().map_err(|error| malformed(&error))?;
        self.seen(index).await;
        Ok((index, Outcome::Request(answer)))
    }

    /// Waits until the view has what was done at an index, for as long as anybody would.
    pub(super) async fn seen(&self, index: LogIndex) {
        let mut views = self.core.watch();
        let seen = views.wait_for(|view| view.cell.index() >= index);
        let _late = tokio::time::timeout(LEADER_PATIENCE, seen).await;
    }

    /// Counts a question by a message of so many bytes, from before anything is waited for until it is
    /// answered.
    pub(super) fn count(&self, ask: &Request, bytes: usize) -> Result<Arc<Counted>, Status> {
        let counted = self.core.count(ask, bytes.max(SMALL_BYTES));
        counted.map_err(|not_taken| self.not_taken(not_taken))
    }

    /// The same for the proposals of a scheduler, before it is known whose turn they are.
    pub(super) fn count_proposals(&self, bytes: usize) -> Result<Arc<Counted>, Status> {
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
            NotTaken::Stopping => Status::unavailable("the master stops"),
        }
    }

    /// Asks this replica's core.
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

    /// Has what a message of so many bytes asks for done.
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

    /// Records that a user acts on another's job by a capability, in a session of the record's own.
    pub(super) async fn record_use(
        &self,
        by: &Caller,
        capability: Capability,
        collection: CollectionId,
    ) -> Result<(), Status> {
        let session = match self.ask(Request::OpenSession(by.clone()), SMALL_BYTES).await?.1 {
            Outcome::Request(Ok(Reply::Session(session))) => session,
            other => return Err(unexpected(&other)),
        };
        let id = Some(RequestId { session, sequence: 1 }.into());
        let used = Mutation::UseCapability { capability, collection };
        self.mutate(id, by.clone(), used, SMALL_BYTES).await.map(drop)
    }
}

/// The id that every request has.
fn given(id: Option<v1::RequestId>) -> Result<RequestId, Status> {
    id.map(RequestId::from).ok_or_else(|| Status::invalid_argument("a request needs its id"))
}

/// Whether another leader may answer, or this one in a moment.
fn may_be_answered(status: &Status) -> bool {
    status.code() == Code::Unavailable || rpc::transport::is_broken(status)
}

#[cfg(test)]
mod tests;
