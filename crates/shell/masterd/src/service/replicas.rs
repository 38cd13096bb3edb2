//! The service for the replicas of the master: listing, adding, removing, and choosing the leader.

use std::time::Duration;

use api::v1;
use api::v1::change_replicas_request::Change;
use cell::{AddReplica, Mutation, RemoveReplica, Reply};
use model::ReplicaId;
use prost::Message as _;
use rpc::service::replicas_server;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use crate::message::Message;
use crate::service::Answer;
use crate::service::door::Door;
use crate::view::View;

/// How long to wait for another leader.
const TRANSFER_PATIENCE: Duration = Duration::from_secs(5);

/// The service.
#[derive(Clone)]
pub(super) struct Replicas {
    door: Door,
}

impl Replicas {
    pub(super) fn new(door: Door) -> Self {
        Self { door }
    }
}

#[tonic::async_trait]
impl replicas_server::Replicas for Replicas {
    async fn list(&self, request: Request<v1::ReplicasRequest>) -> Answer<v1::ReplicasResponse> {
        self.door.anyone(&request).await?;
        let view = self.door.core.view();
        let progress = match view.leads_elsewhere() {
            Some(leader) => self.door.peers.progress(leader).await.unwrap_or_default(),
            None => view.progress(),
        };
        let status = |replica: &cell::Replica| v1::ReplicaStatus {
            id: replica.id.0,
            address: replica.address.to_string(),
            member: v1::MemberState::from(replica.member).into(),
            leaving: replica.leaving,
            level: replica.level.0,
            progress: progress.iter().find(|of| of.replica == replica.id.0).copied(),
        };
        Ok(Response::new(v1::ReplicasResponse {
            index: view.cell.index().0,
            time: view.now().0,
            replicas: view.cell.replicas().map(status).collect(),
            leader: view.leader.map_or(0, |leader| leader.0),
            term: view.term.0,
            answers: view.me.0,
        }))
    }

    async fn change(
        &self,
        request: Request<v1::ChangeReplicasRequest>,
    ) -> Answer<v1::ChangeReplicasResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let change = asked.change.ok_or_else(|| Status::invalid_argument("no change is given"))?;
        let (mutation, which) = match change {
            Change::Add(address) => (Mutation::AddReplica(AddReplica { address }), 0),
            Change::Remove(id) => {
                (Mutation::RemoveReplica(RemoveReplica { replica: ReplicaId(id) }), id)
            }
        };
        self.door
            .change(asked.id, by, mutation, bytes, |index, reply| match reply {
                Reply::ReplicaAdded(id) => {
                    Some(v1::ChangeReplicasResponse { index, replica: id.0 })
                }
                Reply::Done => Some(v1::ChangeReplicasResponse { index, replica: which }),
                _ => None,
            })
            .await
    }

    async fn transfer_leader(
        &self,
        request: Request<v1::TransferLeaderRequest>,
    ) -> Answer<v1::TransferLeaderResponse> {
        let by = self.door.caller(&request)?;
        let to = request.into_inner().to;
        let (view, user) = (self.door.core.view(), &by.user);
        if !view.cell.is_administrator(user) {
            return Err(Status::permission_denied(format!(
                "{user} may not choose the leader: an administrator may"
            )));
        }
        let to = Some(ReplicaId(to)).filter(|to| to.0 > 0);
        let voters: Vec<ReplicaId> = view.cell.voters().collect();
        if let Some(to) = to.filter(|to| !voters.contains(to)) {
            return Err(Status::failed_precondition(format!(
                "replica {to} has no vote, so it cannot lead: bourg master list shows the voters"
            )));
        }
        if voters.len() < 2 {
            return Err(Status::failed_precondition("no other replica can lead"));
        }
        let until = Instant::now() + TRANSFER_PATIENCE;
        let elsewhere = self.door.leader(until).await?;
        let before = self.door.core.view().leader;
        tracing::info!("{user} lets {} lead", to.map_or("another".to_owned(), |to| to.to_string()));
        match elsewhere {
            _ if to.is_some() && to == before => {}
            Some(leader) => self.door.peers.yield_to(leader, to).await?,
            None => {
                let told = self.door.core.tell(Message::Input(replica::Input::Transfer(to))).await;
                told.map_err(|()| Status::unavailable("the master is stopping"))?;
            }
        }
        let mut views = self.door.core.watch();
        let leads = |view: &View| match to {
            Some(_) => view.leader == to,
            None => view.leader.is_some() && view.leader != before,
        };
        let view = views.wait_for(|view| leads(view));
        match tokio::time::timeout_at(until, view).await {
            Ok(Ok(view)) => Ok(Response::new(v1::TransferLeaderResponse {
                leader: view.leader.map_or(0, |leader| leader.0),
                term: view.term.0,
            })),
            _ => Err(Status::deadline_exceeded(
                "leadership did not change in time: bourg master list shows the leader",
            )),
        }
    }
}

impl View {
    /// The progress of the replicas, if this one leads.
    pub(crate) fn progress(&self) -> Vec<v1::ReplicaProgress> {
        let progress = self.progress.iter();
        let progress = progress.map(|of| v1::ReplicaProgress {
            replica: of.replica.0,
            answers: of.answers,
            index: of.index.0,
        });
        progress.collect()
    }
}
