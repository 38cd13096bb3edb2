//! The service for schedulers: the cell as it changes, and decisions about their proposals (paper,
//! section 3.4).

use std::time::Duration;

use cell::Outcome;
use model::LogIndex;
use prost::Message as _;
use proto::v1;
use rpc::Identity;
use rpc::service::scheduling_server::Scheduling;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::message::Following;
use crate::request;
use crate::service::{Answer, STREAM_QUEUE, Service, Streamed, malformed, unexpected};

/// The size of the pieces in which a scheduler gets the cell's image.
const IMAGE_PIECE_BYTES: usize = 1 << 20;
/// How long a leader is searched to decide about a proposal.
const PATIENCE: Duration = Duration::from_secs(5);
/// For how long a scheduler may follow a replica that knows no leader.
const LEADERLESS_MAX: Duration = Duration::from_secs(2);

#[tonic::async_trait]
impl Scheduling for Service {
    type FollowStream = Streamed<v1::Followed>;

    async fn follow(&self, request: Request<v1::FollowRequest>) -> Answer<Self::FollowStream> {
        let name = self.scheduler(&request)?;
        self.leader(Instant::now() + LEADERLESS_MAX).await?;
        let following = self.core.follow().await;
        let following = following.ok_or_else(|| Status::unavailable("the master is stopping"))?;
        let Following { cell, mut entries } = following;
        tracing::info!("scheduler {name} follows from index {}", cell.index());
        let (to_scheduler, stream) = mpsc::channel(STREAM_QUEUE);
        let core = self.core.clone();
        tokio::spawn(async move {
            use v1::followed::What;
            // The cell of this moment is dropped with its image: a scheduler follows for as long as
            // it runs.
            let pieces = tokio::task::spawn_blocking(move || image_pieces(&cell)).await;
            let pieces = pieces.unwrap_or_default().into_iter().map(What::Image);
            for what in pieces.chain([What::ImageComplete(true)]) {
                let message = v1::Followed { what: Some(what), time: core.view().now().0 };
                if to_scheduler.send(Ok(message)).await.is_err() {
                    return;
                }
            }
            let mut alone = std::pin::pin!(core.without_leader_for(LEADERLESS_MAX));
            let ended = loop {
                let entry = tokio::select! {
                    entry = entries.recv() => entry,
                    () = to_scheduler.closed() => return,
                    () = &mut alone => {
                        break Status::unavailable("this replica knows no leader: follow another");
                    }
                };
                let Some(entry) = entry else {
                    break Status::out_of_range(
                        "too far behind, or the master is stopping: start again",
                    );
                };
                let committed = v1::Committed {
                    index: entry.index.0,
                    level: entry.level.0,
                    record: entry.data.to_vec(),
                };
                let (what, time) = (Some(What::Committed(committed)), core.view().now().0);
                let message = v1::Followed { what, time };
                if to_scheduler.send(Ok(message)).await.is_err() {
                    return;
                }
            };
            let _gone = to_scheduler.send(Err(ended)).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn propose(&self, request: Request<v1::ProposeRequest>) -> Answer<v1::ProposeResponse> {
        let by = rpc::transport::peer_identity(&request, &self.cell)?;
        // Another replica asks in a scheduler's name.
        if by != Identity::Master {
            self.scheduler(&request)?;
        }
        let bytes = request.get_ref().encoded_len();
        let counted = self.count_proposals(bytes)?;
        if by != Identity::Master
            && let Some(leader) = self.leader(Instant::now() + PATIENCE).await?
        {
            let judged = self.peers.propose(leader, request.into_inner()).await?;
            self.seen(LogIndex(judged.index)).await;
            return Ok(Response::new(judged));
        }
        let assignments = request.into_inner().assignments;
        let assignments: Vec<cell::Assignment> = assignments
            .into_iter()
            .map(TryInto::try_into)
            .collect::<Result<_, _>>()
            .map_err(|error| malformed(&error))?;
        match self.ask_here(request::Request::Propose(assignments), counted).await? {
            (index, Outcome::Assigned(judged)) => {
                let proposals = &self.metrics.proposals;
                let accepted = judged.iter().filter(|judged| judged.is_ok()).count();
                proposals.decided.inc();
                proposals.accepted.inc_by(accepted as u64);
                proposals.rejected.inc_by((judged.len() - accepted) as u64);
                let refused = judged.iter().map(|judged| match judged {
                    Ok(()) => String::new(),
                    Err(cause) => cause.to_string(),
                });
                let refused = refused.collect();
                Ok(Response::new(v1::ProposeResponse { index: index.0, refused }))
            }
            (_, other) => Err(unexpected(&other)),
        }
    }
}

fn image_pieces(cell: &cell::Cell) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let mut piece = Vec::new();
    proto::image::write_image(&cell.image(), &mut |bytes| {
        piece.extend_from_slice(bytes);
        if piece.len() >= IMAGE_PIECE_BYTES {
            pieces.push(std::mem::take(&mut piece));
        }
    });
    pieces.push(piece);
    pieces
}
