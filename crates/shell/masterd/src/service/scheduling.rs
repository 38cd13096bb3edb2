//! The service for schedulers: the cell as it changes, and decisions about their proposals (paper,
//! section 3.4).

use std::sync::Arc;
use std::time::Duration;

use api::v1;
use api::v1::followed::What;
use cell::{Cell, Outcome};
use checkpoint::Origin;
use model::{CellCopy, Enabled, LogIndex, SchedulerName, Term, Time};
use prost::Message as _;
use replica::LogEntry;
use rpc::Identity;
use rpc::service::scheduling_server;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::admission::Counted;
use crate::agents;
use crate::handle::Core;
use crate::message::Following;
use crate::request;
use crate::service::door::Door;
use crate::service::{Answer, STREAM_QUEUE, Streamed, malformed, unexpected};

/// The size of the pieces in which a scheduler gets the cell's image.
const IMAGE_PIECE_BYTES: usize = 1 << 20;
/// How long a leader is searched to decide about a proposal.
const PATIENCE: Duration = Duration::from_secs(5);
/// For how long a scheduler may follow a replica that knows no leader.
const LEADERLESS_MAX: Duration = Duration::from_secs(2);

/// The service.
#[derive(Clone)]
pub(super) struct Schedulers {
    door: Door,
    agents: agents::Handle,
}

impl Schedulers {
    pub(super) fn new(door: Door, agents: agents::Handle) -> Self {
        Self { door, agents }
    }
}

#[tonic::async_trait]
impl scheduling_server::Scheduling for Schedulers {
    type FollowStream = Streamed<v1::Followed>;

    async fn follow(&self, request: Request<v1::FollowRequest>) -> Answer<Self::FollowStream> {
        let name = self.door.scheduler(&request)?;
        let has = request.into_inner().has.and_then(|has| {
            let restore_epoch = has.restore_epoch.parse().ok()?;
            Some(CellCopy { index: LogIndex(has.index), term: Term(has.term), restore_epoch })
        });
        self.door.leader(Instant::now() + LEADERLESS_MAX).await?;
        let following = self.door.core.follow(has).await;
        let following = following.ok_or_else(|| Status::unavailable("the master is stopping"))?;
        let (to_scheduler, stream) = mpsc::channel(STREAM_QUEUE);
        let sender = Sender { core: self.door.core.clone(), name, to_scheduler };
        tokio::spawn(sender.run(following, has));
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn list_held_packages(
        &self,
        request: Request<v1::ListHeldPackagesRequest>,
    ) -> Answer<v1::ListHeldPackagesResponse> {
        self.door.scheduler(&request)?;
        Ok(Response::new(self.agents.held().changes(request.get_ref(), std::time::Instant::now())))
    }

    async fn propose(&self, request: Request<v1::ProposeRequest>) -> Answer<v1::ProposeResponse> {
        let by = rpc::transport::peer_identity(&request, &self.door.cell)?;
        // Another replica asks in a scheduler's name.
        let name = match by {
            Identity::Master => request.get_ref().scheduler.clone(),
            _ => self.door.scheduler(&request)?,
        };
        let bytes = request.get_ref().encoded_len();
        let counted = self.door.count_proposals(bytes)?;
        if by != Identity::Master
            && let Some(leader) = self.door.leader(Instant::now() + PATIENCE).await?
        {
            let request = v1::ProposeRequest { scheduler: name, ..request.into_inner() };
            let judged = self.door.peers.propose(leader, request).await?;
            self.door.seen(LogIndex(judged.index)).await;
            return Ok(Response::new(judged));
        }
        let v1::ProposeRequest { assignments, began, enabled, .. } = request.into_inner();
        let assignments: Vec<cell::Assignment> = assignments
            .into_iter()
            .map(TryInto::try_into)
            .collect::<Result<_, _>>()
            .map_err(|error| malformed(&error))?;
        let enabled: Vec<Enabled> = enabled.into_iter().map(Into::into).collect();
        let name = name.parse::<SchedulerName>();
        let name = name.map_err(|error| Status::invalid_argument(error.to_string()))?;
        // Both are on their way at once: tasks that are enabled now are placed later.
        let (enabled, assigned) = tokio::join!(
            self.enable(name.clone(), enabled, Arc::clone(&counted)),
            self.assign(name, assignments, began.map(Time), counted),
        );
        let ((first, enabled_refused), (second, refused)) = (enabled?, assigned?);
        let index = first.max(second).0;
        Ok(Response::new(v1::ProposeResponse { index, refused, enabled_refused }))
    }
}

impl Schedulers {
    /// Why each of these is not enabled; empty for those that are.
    async fn enable(
        &self,
        name: SchedulerName,
        enabled: Vec<Enabled>,
        counted: Arc<Counted>,
    ) -> Result<(LogIndex, Vec<String>), Status> {
        if enabled.is_empty() {
            return Ok((LogIndex(0), Vec::new()));
        }
        let tasks: Vec<u32> = enabled.iter().map(|enabled| enabled.tasks).collect();
        let proposal = request::Request::Enable(name, enabled);
        match self.door.ask_here(proposal, counted).await? {
            (index, Outcome::Enabled(judged)) => {
                let proposals = &self.door.metrics.proposals;
                for (tasks, judged) in tasks.into_iter().zip(&judged) {
                    match judged {
                        Ok(()) => drop(proposals.enabled.inc_by(tasks.into())),
                        Err(_) => drop(proposals.enabled_rejected.inc()),
                    }
                }
                Ok((index, refusals(&judged)))
            }
            (_, other) => Err(unexpected(&other)),
        }
    }

    /// Why each of these assignments is rejected; empty for those that are accepted.
    async fn assign(
        &self,
        name: SchedulerName,
        assignments: Vec<cell::Assignment>,
        began: Option<Time>,
        counted: Arc<Counted>,
    ) -> Result<(LogIndex, Vec<String>), Status> {
        if assignments.is_empty() {
            return Ok((LogIndex(0), Vec::new()));
        }
        let proposal = request::Request::Propose(name, assignments, began);
        match self.door.ask_here(proposal, counted).await? {
            (index, Outcome::Assigned(judged)) => {
                let proposals = &self.door.metrics.proposals;
                let accepted = judged.iter().filter(|judged| judged.is_ok()).count();
                proposals.decided.inc();
                proposals.accepted.inc_by(accepted as u64);
                proposals.rejected.inc_by((judged.len() - accepted) as u64);
                Ok((index, refusals(&judged)))
            }
            (_, other) => Err(unexpected(&other)),
        }
    }
}

fn refusals<E: ToString>(judged: &[Result<(), E>]) -> Vec<String> {
    let cause = |judged: &Result<(), E>| match judged {
        Ok(()) => String::new(),
        Err(cause) => cause.to_string(),
    };
    judged.iter().map(cause).collect()
}

/// Sends a scheduler what it follows.
struct Sender {
    core: Core,
    name: String,
    to_scheduler: mpsc::Sender<Result<v1::Followed, Status>>,
}

/// The scheduler is gone.
struct Gone;

impl Sender {
    async fn run(self, following: Following, has: Option<CellCopy>) {
        let Self { core, to_scheduler, .. } = &self;
        let Following { cell, origin, mut records, mut entries } = following;
        let Ok(mut copy) = self.begin(cell, origin, has).await else { return };
        let mut alone = std::pin::pin!(core.without_leader_for(LEADERLESS_MAX));
        let ended = loop {
            for entry in std::mem::take(&mut records) {
                (copy.index, copy.term) = (entry.index, entry.term);
                if self.send(What::Committed(committed(&entry)), None).await.is_err() {
                    return;
                }
            }
            let entry = tokio::select! {
                entry = entries.recv() => entry,
                () = to_scheduler.closed() => return,
                () = &mut alone => {
                    break Status::unavailable("this replica knows no leader: follow another");
                }
            };
            records = match entry {
                Some(entry) => vec![entry],
                None => match core.follow(Some(copy)).await {
                    Some(Following { cell: None, records, entries: more, .. }) => {
                        entries = more;
                        records
                    }
                    Some(_) => break Status::out_of_range("too far behind: start again"),
                    None => break Status::unavailable("the master is stopping"),
                },
            };
        };
        let _gone = to_scheduler.send(Err(ended)).await;
    }

    /// Sends the image, or that none is needed. Returns what the scheduler then has.
    async fn begin(
        &self,
        cell: Option<Cell>,
        origin: Origin,
        has: Option<CellCopy>,
    ) -> Result<CellCopy, Gone> {
        let Some(cell) = cell else {
            let has = has.ok_or(Gone)?;
            tracing::info!("scheduler {} goes on from index {}", self.name, has.index);
            self.send(What::Resumed(true), None).await?;
            return Ok(has);
        };
        let Origin { term, restore_epoch } = origin;
        let copy = CellCopy { index: cell.index(), term, restore_epoch };
        tracing::info!("scheduler {} follows from index {}", self.name, copy.index);
        // The cell of this moment is dropped with its image: a scheduler follows for as long as it runs.
        let pieces = tokio::task::spawn_blocking(move || image_pieces(&cell)).await;
        for piece in pieces.unwrap_or_default() {
            self.send(What::Image(piece), None).await?;
        }
        self.send(What::ImageComplete(true), Some(copy)).await?;
        Ok(copy)
    }

    async fn send(&self, what: What, copy: Option<CellCopy>) -> Result<(), Gone> {
        let time = self.core.view().now().0;
        let copy = copy.map(|copy| v1::CellCopy {
            index: copy.index.0,
            restore_epoch: copy.restore_epoch.to_string(),
            term: copy.term.0,
        });
        let message = v1::Followed { what: Some(what), time, copy };
        self.to_scheduler.send(Ok(message)).await.map_err(|_| Gone)
    }
}

fn committed(entry: &LogEntry) -> v1::Committed {
    let (index, level, term) = (entry.index.0, entry.level.0, entry.term.0);
    v1::Committed { index, level, record: entry.data.to_vec(), term }
}

fn image_pieces(cell: &Cell) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let mut piece = Vec::new();
    formats::image::write_image(&cell.image(), &mut |bytes| {
        piece.extend_from_slice(bytes);
        if piece.len() >= IMAGE_PIECE_BYTES {
            pieces.push(std::mem::take(&mut piece));
        }
    });
    pieces.push(piece);
    pieces
}
