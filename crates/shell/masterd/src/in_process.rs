//! A cluster of masters in one process, without services and without a network: messages from one
//! replica go directly into another's queue. Cores, logs, event files and checkpoints are those of
//! a real master, each in a directory of its own. For measuring the cost of the network.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use cell::{AddReplica, Kill, Mutation, Outcome, Reply, RequestId};
use model::{CellName, JobName, LogIndex, ReplicaId, Serial, SessionId, TaskSelection, UserName};
use replica::Bootstrap;
use rpc::transport::Refusals;
use rpc::{Authority, Identity, Rotating, Validity};
use spec::JobSpec;
use store::{DataDirectory, Retention};
use tokio::sync::mpsc;

use crate::caller::Caller;
use crate::disk::{checkpointer, events, log};
use crate::handle::Core;
use crate::message::Message;
use crate::metrics::Metrics;
use crate::request::Request;
use crate::{CORE_QUEUE, WAITING_BYTES, admission, agents, core, peers, recover};

/// The replicas, all in this process.
pub struct InProcessCluster(Vec<InProcessReplica>);

struct InProcessReplica {
    core: Core,
    log: JoinHandle<()>,
    keeper: events::Keeper,
    _agents: agents::Agents,
    _peers: peers::Peers,
}

/// A client of the leader.
#[derive(Clone)]
pub struct Client {
    core: Core,
    by: Caller,
    session: SessionId,
    sequence: u64,
}

const NAME: &str = "beside";
const VALIDITY: Duration = Duration::from_secs(86_400);
const LOOK: Duration = Duration::from_millis(5);
const LOOKS: usize = 6_000;
/// The size in bytes with which a waiting request counts.
const BYTES: usize = 256;
/// The limits of the kept history.
const KEPT: (u64, Duration) = (1 << 30, Duration::from_secs(86_400));

impl InProcessCluster {
    /// Starts `replicas` replicas, each in a directory below `place`; returns when all of them
    /// vote.
    pub async fn start(place: &Path, replicas: u8) -> anyhow::Result<Self> {
        let tls = place.join("tls");
        std::fs::create_dir_all(&tls).with_context(|| format!("cannot make {}", tls.display()))?;
        let authority = Authority::create(tls, NAME)?;
        let credentials = authority.issue(&Identity::Master, Validity::lasting(VALIDITY))?;
        let credentials = Rotating::new(credentials)?;
        let ids = (1..=u64::from(replicas)).map(ReplicaId);
        let (queues, mut ends): (BTreeMap<_, _>, BTreeMap<_, _>) = ids
            .map(|id| {
                let (to_core, from_all) = mpsc::channel(CORE_QUEUE);
                ((id, to_core), (id, from_all))
            })
            .unzip();
        let mut all = Vec::new();
        while let Some((id, from_all)) = ends.pop_first() {
            let directory = place.join(id.to_string());
            all.push(InProcessReplica::start(&directory, id, &credentials, &queues, from_all)?);
        }
        let all = Self(all);
        all.form().await?;
        Ok(all)
    }

    /// Makes all of them replicas of the cell.
    async fn form(&self) -> anyhow::Result<()> {
        let mut client = self.client(NAME).await?;
        for id in 2..=self.0.len() {
            let address = format!("{NAME}:{id}");
            client.ask(Mutation::AddReplica(AddReplica { address })).await?;
        }
        for _ in 0..LOOKS {
            if client.core.view().cell.voters().count() == self.0.len() {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        bail!("the replicas do not come together")
    }

    /// A user's client, with a session of its own.
    pub async fn client(&self, user: &str) -> anyhow::Result<Client> {
        let first = self.0.first().context("there is no replica")?;
        let core = first.core.clone();
        // The first replica bootstraps the cell, and leads while nothing fails.
        let leads = core.watch().wait_for(|view| view.leads.is_some()).await.is_ok();
        ensure!(leads, "the core ended");
        let serial = Serial::from_bytes(&[1]).context("a number of one byte")?;
        let by = Caller { user: UserName::new(user)?, serial, task: None };
        let answered = core.ask(Request::OpenSession(by.clone()), BYTES).await;
        match answered.map_err(|why| anyhow::anyhow!("{why:?}"))? {
            Ok((_, Outcome::Request(Ok(Reply::Session(session))))) => {
                Ok(Client { core, by, session, sequence: 0 })
            }
            other => bail!("no session: {other:?}"),
        }
    }

    /// Stops all of them.
    pub fn stop(self) -> anyhow::Result<()> {
        // Each waits for its threads, which may send to another replica's queue.
        let ended = self.0.into_iter().map(|replica| std::thread::spawn(|| replica.stop()));
        let ended: Vec<_> = ended.collect();
        ended.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| anyhow::anyhow!("a replica panicked"))?
        })
    }
}

impl InProcessReplica {
    fn start(
        directory: &Path,
        id: ReplicaId,
        credentials: &Rotating,
        queues: &BTreeMap<ReplicaId, mpsc::Sender<Message>>,
        from_all: mpsc::Receiver<Message>,
    ) -> anyhow::Result<Self> {
        let data = DataDirectory::create(directory)?;
        let (written, recovered) = recover::recover(&data)?;
        let to_core = queues.get(&id).context("it has a queue")?.clone();
        let metrics = Arc::<Metrics>::default();
        let (to_log, log) = log::start(written, None, to_core.clone(), Arc::clone(&metrics))?;
        let agents =
            agents::start(credentials, Refusals::default(), to_core.clone(), Arc::clone(&metrics))?;
        let peers = peers::start_in_process(credentials, id, queues.clone(), to_core.clone())?;
        let settings =
            replica::Settings { id, waiting_max: CORE_QUEUE, ..replica::Settings::default() };
        let bootstrap = (id == ReplicaId(1)).then(|| {
            Ok::<_, anyhow::Error>(Bootstrap {
                name: CellName::new(NAME)?,
                administrator: UserName::new(NAME)?,
                quota: true,
                queue: true,
            })
        });
        let kept = Retention::new(KEPT.0, KEPT.1);
        let (recorder, keeper) = events::start(
            &data.events(),
            events::HistoryStart { next: LogIndex(1), epoch: recovered.restore_epoch },
            peers.handle(),
            kept,
            to_core.clone(),
            Arc::clone(&metrics),
        )?;
        let checkpoints = checkpointer::Checkpoints::new(
            data.checkpoints(),
            data.log(),
            kept,
            to_core.clone(),
            Arc::clone(&metrics),
        );
        let limits = admission::AdmissionLimits { requests: CORE_QUEUE, bytes: WAITING_BYTES };
        let core = core::start(core::Components {
            settings,
            recovered,
            bootstrap: bootstrap.transpose()?,
            from_all,
            to_core,
            to_log,
            agents: agents.handle(),
            peers: peers.handle(),
            checkpoints,
            recorder,
            admission: admission::Admission::new(limits),
            metrics,
        })?;
        Ok(Self { core, log, keeper, _agents: agents, _peers: peers })
    }

    fn stop(self) -> anyhow::Result<()> {
        let Self { core, log, keeper, _agents: agents, _peers: peers } = self;
        drop((agents, peers));
        let ended = core.stop();
        log.join().map_err(|_| anyhow::anyhow!("the thread that writes the log panicked"))?;
        keeper.join()?;
        ended
    }
}

impl Client {
    /// Submits a job and waits until that is durable on a majority.
    pub async fn submit(&mut self, spec: JobSpec) -> anyhow::Result<model::CollectionId> {
        match self.ask(Mutation::Submit(Arc::new(spec))).await? {
            Reply::Submitted { collection, .. } => Ok(collection),
            other => bail!("an unexpected answer: {other:?}"),
        }
    }

    /// Kills a job.
    pub async fn kill(&mut self, job: JobName) -> anyhow::Result<()> {
        let owner = self.by.user.clone();
        let kill = Kill { owner, job, tasks: TaskSelection::All, now: false };
        self.ask(Mutation::Kill(kill)).await.map(drop)
    }

    async fn ask(&mut self, mutation: Mutation) -> anyhow::Result<Reply> {
        self.sequence += 1;
        let id = RequestId { session: self.session, sequence: self.sequence };
        let answered = self.core.ask(Request::Mutate(id, self.by.clone(), mutation), BYTES).await;
        match answered.map_err(|why| anyhow::anyhow!("{why:?}"))? {
            Ok((_, Outcome::Request(Ok(reply)))) => Ok(reply),
            other => bail!("it was refused: {other:?}"),
        }
    }
}
