//! The service for the other replicas: their messages, snapshots, and their clients' requests to
//! the leader. The transport of every server lets nobody else in ([`rpc::transport`]).

use std::path::PathBuf;
use std::sync::Arc;

use ::replication::v1::install_request::Part;
use ::replication::v1::replication_server::{Replication, ReplicationServer};
use cell::{Cell, Op, Outcome};
use checkpoint::Origin;
use model::{DirectoryId, MachineId, ReplicaId, RestoreEpoch, Serial, Time, UserName};
use prost::Message as _;
use replica::{Input, Message as ReplicaMessage};
use tokio::sync::Mutex;
use tonic::{Request, Response, Status, Streaming};

use crate::caller::Caller;
use crate::message::Message;
use crate::peers::{PARCEL_BYTES_MAX, SUPERSEDED};
use crate::service::door::Door;
use crate::service::event_transfer::Transfers;
use crate::service::history::History;
use crate::service::usage::{self, Usage};
use crate::service::{Answer, Api, Streamed, malformed, unexpected};
use crate::{agents, bounds, request};

/// The largest cell that is accepted, in bytes of its image.
const IMAGE_BYTES_MAX: usize = 16 << 30;

/// The service.
#[derive(Clone)]
pub(crate) struct BetweenReplicas {
    door: Door,
    agents: agents::Handle,
    usage: Usage,
    history: History,
    /// The directory of the checkpoints.
    checkpoints: PathBuf,
    /// One snapshot is installed at a time.
    installing: Arc<Mutex<()>>,
    transfers: Transfers,
}

impl BetweenReplicas {
    /// The service of a replica with these services, which keeps its checkpoints there.
    pub(super) fn server(services: &Api, checkpoints: PathBuf) -> ReplicationServer<Self> {
        let Api { door, agents, usage, history, .. } = services.clone();
        let (installing, transfers) = (Arc::default(), Transfers::default());
        let service = Self { door, agents, usage, history, checkpoints, installing, transfers };
        ReplicationServer::new(service)
            .max_decoding_message_size(PARCEL_BYTES_MAX)
            .max_encoding_message_size(PARCEL_BYTES_MAX)
    }

    /// Whether the sender is, or may be, a replica of this cell. A replica whose state does not
    /// include the sender yet accepts it.
    fn listens_to(&self, message: &::replication::v1::ReplicaMessage) -> Result<(), Status> {
        let view = self.door.core.view();
        let mine = view.origin.restore_epoch;
        let (counter, random) = (message.restore_epoch, message.restore_random);
        let theirs = RestoreEpoch { counter, random };
        let id = ReplicaId(message.from);
        if theirs < mine {
            return Err(Status::new(
                SUPERSEDED,
                format!("the cell was restored since (restore epoch {mine}, yours is {theirs})"),
            ));
        }
        let known = view.cell.replica(id).map(|known| known.directory).unwrap_or_default();
        if known.differs(DirectoryId(message.directory)) {
            return Err(Status::failed_precondition(format!(
                "replica {id} has data directory {known}, and yours is {}: it was emptied, or is \
                 another replica's. Remove replica {id} (bourg master remove {id}) and add a new \
                 one with an empty directory (bourg master add)",
                DirectoryId(message.directory)
            )));
        }
        let recorded = view.cell.replicas().next().is_some();
        if recorded && view.cell.replica(id).is_none() && id <= view.cell.last_replica() {
            return Err(Status::failed_precondition(format!(
                "replica {id} was removed from the cell: stop it, and add it anew with bourg master \
                 add if it is to come back"
            )));
        }
        Ok(())
    }

    /// The user, or their task, in whose name another replica asks, if the certificate is accepted
    /// here.
    fn accepted(&self, asked: &::replication::v1::ForwardRequest) -> Result<Caller, Status> {
        let invalid = |error: &dyn std::fmt::Display| Status::invalid_argument(error.to_string());
        let user = UserName::new(&asked.user).map_err(|error| invalid(&error))?;
        let serial: Serial = asked.serial.parse().map_err(|error| invalid(&error))?;
        let task = Some(Time(asked.task_issued)).filter(|issued| issued.0 > 0);
        let (caller, view) = (Caller { user, serial, task }, self.door.core.view());
        let accepted = caller.accepted(&view.cell, view.now());
        accepted.map_err(|denied| Status::permission_denied(denied.why))?;
        Ok(caller)
    }

    async fn received(&self, message: ReplicaMessage) -> Result<(), Status> {
        let sent = self.door.core.tell(Message::Input(Input::Received(message))).await;
        sent.map_err(|()| Status::unavailable("the master is stopping"))
    }
}

#[tonic::async_trait]
impl Replication for BetweenReplicas {
    async fn talk(
        &self,
        request: Request<Streaming<::replication::v1::Talking>>,
    ) -> Answer<::replication::v1::Talked> {
        let mut parcels = request.into_inner();
        while let Some(::replication::v1::Talking { messages, address }) = parcels.message().await?
        {
            if let Some(first) = messages.first().filter(|_| !address.is_empty()) {
                self.listens_to(first)?;
                bounds::check_address(&address).map_err(Status::invalid_argument)?;
                self.door.peers.hear(ReplicaId(first.from), &address);
            }
            for message in messages {
                self.listens_to(&message)?;
                self.received(message.try_into().map_err(|error| malformed(&error))?).await?;
            }
        }
        Ok(Response::new(::replication::v1::Talked {}))
    }

    async fn install(
        &self,
        request: Request<Streaming<::replication::v1::InstallRequest>>,
    ) -> Answer<::replication::v1::InstallResponse> {
        let _one = self.installing.lock().await;
        let mut parts = request.into_inner();
        let Some(Part::Message(message)) = parts.message().await?.and_then(|part| part.part) else {
            return Err(Status::invalid_argument(
                "the first item of a snapshot must be its message",
            ));
        };
        self.listens_to(&message)?;
        meant_for(self.door.core.view().me, ReplicaId(message.to))?;
        let mut image = Vec::new();
        while let Some(part) = parts.message().await? {
            let Some(Part::Image(piece)) = part.part else {
                return Err(Status::invalid_argument("a piece of the image was expected"));
            };
            if image.len() + piece.len() > IMAGE_BYTES_MAX {
                return Err(Status::resource_exhausted("the image is too large"));
            }
            image.extend_from_slice(&piece);
        }
        let directory = self.checkpoints.clone();
        let taken = tokio::task::spawn_blocking(move || take_in(&directory, message, &image));
        let message = taken.await.map_err(|error| Status::internal(error.to_string()))??;
        self.received(message).await?;
        Ok(Response::new(::replication::v1::InstallResponse {}))
    }

    async fn forward(
        &self,
        request: Request<::replication::v1::ForwardRequest>,
    ) -> Answer<::replication::v1::ForwardResponse> {
        let bytes = request.get_ref().encoded_len();
        let mut asked = request.into_inner();
        let op =
            asked.op.take().ok_or_else(|| Status::invalid_argument("no operation is given"))?;
        let ask = match op.try_into().map_err(|error| malformed(&error))? {
            Op::OpenSession { .. } => request::Request::OpenSession(self.accepted(&asked)?),
            Op::Request { id, mutation, .. } => {
                request::Request::Mutate(id, self.accepted(&asked)?, mutation)
            }
            // The certificate is checked when the operation is applied.
            op @ (Op::Enrol { .. }
            | Op::RenewMachine { .. }
            | Op::JoinReplica { .. }
            | Op::ReadSecrets { .. }
            | Op::AddOutputs { .. }) => request::Request::Enrolment(op),
            _ => return Err(Status::invalid_argument("nobody may request that operation")),
        };
        let counted = self.door.count(&ask, bytes)?;
        match self.door.ask_here(ask, counted).await? {
            (index, Outcome::Request(answer)) => {
                let answer = Some((&answer).into());
                Ok(Response::new(::replication::v1::ForwardResponse { index: index.0, answer }))
            }
            (_, other) => Err(unexpected(&other)),
        }
    }

    async fn progress(
        &self,
        _: Request<::replication::v1::ProgressRequest>,
    ) -> Answer<::replication::v1::ProgressResponse> {
        let view = self.door.core.view();
        Ok(Response::new(::replication::v1::ProgressResponse {
            replicas: view.progress(),
            restore_epoch: view.origin.restore_epoch.counter,
            restore_random: view.origin.restore_epoch.random,
            leader: view.leader.map_or(0, |leader| leader.0),
            term: view.term.0,
            index: view.cell.index().0,
        }))
    }

    async fn trouble(
        &self,
        request: Request<::replication::v1::TroubleRequest>,
    ) -> Answer<::replication::v1::TroubleResponse> {
        let machine = MachineId(request.into_inner().machine);
        let view = self.door.core.view();
        // Another replica knows the machines that were handed over.
        let part = master::Partition { me: view.me, spread: Arc::clone(&view.spread) };
        let why = part.has(machine).then(|| self.agents.trouble(machine)).flatten();
        Ok(Response::new(::replication::v1::TroubleResponse { why: why.unwrap_or_default() }))
    }

    async fn usage(
        &self,
        request: Request<::replication::v1::UsageQuery>,
    ) -> Answer<::replication::v1::UsageAnswer> {
        let (here, asked) = (self.usage.clone(), request.into_inner());
        let used = tokio::task::spawn_blocking(move || match asked.without_sums {
            true => usage::chosen_of(asked).map(|chosen| here.chosen_here(chosen)),
            false => Ok(here.used_here(&usage::query_of(&asked))),
        });
        let used = used.await.map_err(|error| Status::internal(error.to_string()))??;
        Ok(Response::new(usage::answer(used)))
    }

    type EventsStream = Streamed<::replication::v1::EventsPart>;

    async fn events(
        &self,
        request: Request<::replication::v1::EventsQuery>,
    ) -> Answer<Self::EventsStream> {
        self.history.hand_over(&self.transfers, request.into_inner()).await
    }

    async fn r#yield(
        &self,
        request: Request<::replication::v1::YieldRequest>,
    ) -> Answer<::replication::v1::YieldResponse> {
        let to = Some(ReplicaId(request.into_inner().to)).filter(|to| to.0 > 0);
        let told = self.door.core.tell(Message::Input(Input::Transfer(to))).await;
        told.map_err(|()| Status::unavailable("the master is stopping"))?;
        Ok(Response::new(::replication::v1::YieldResponse {}))
    }
}

/// Rejects a snapshot for another replica, as happens when this one answers at that one's former
/// address: it would replace this one's own checkpoints.
fn meant_for(me: ReplicaId, to: ReplicaId) -> Result<(), Status> {
    if to != me {
        return Err(Status::invalid_argument(format!(
            "the snapshot is for replica {to}, and this is replica {me}: bourg master list says \
             where each is expected"
        )));
    }
    Ok(())
}

/// Reads the cell of a snapshot and makes it durable as a checkpoint, before consensus is told.
fn take_in(
    directory: &std::path::Path,
    message: ::replication::v1::ReplicaMessage,
    image: &[u8],
) -> Result<ReplicaMessage, Status> {
    let bad = |error: &dyn std::fmt::Display| Status::invalid_argument(error.to_string());
    let image = formats::image::read_image(image).map_err(|error| bad(&error))?;
    let cell = Cell::from_image(image.clone()).map_err(|error| bad(&error))?;
    let message = ::replication::message(message, Some(cell)).map_err(|e| malformed(&e))?;
    let restore_epoch = message.restore_epoch;
    if let replica::Body::Consensus(consensus) = &message.body
        && let Some(snapshot) = &consensus.snapshot
    {
        let origin = Origin { term: snapshot.term, restore_epoch };
        checkpoint::write_in(directory, &image, origin)
            .map_err(|error| Status::resource_exhausted(format!("{error:#}")))?;
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_for_another_replica_is_refused() {
        assert!(meant_for(ReplicaId(2), ReplicaId(2)).is_ok());
        let refused = meant_for(ReplicaId(2), ReplicaId(3)).expect_err("it is for another");
        assert_eq!(
            refused.message(),
            "the snapshot is for replica 3, and this is replica 2: bourg master list says where each \
             is expected"
        );
    }
}
