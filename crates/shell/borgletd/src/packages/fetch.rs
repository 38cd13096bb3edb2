//! Chunks of a layer, from a store and from other machines at once.
//!
//! [`Swarm`] assigns chunks to sources. Each request is a future. A thread checks and writes the chunks that arrive, and
//! reports to the loop here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, bail};
use api::v1;
use borglet::{
    AskId, Bans, ChunkSet, PeerFault, SourceId, SourceKind, Swarm, SwarmAction, SwarmState,
};
use client::packages::{PackageReader, StoreError};
use model::Digest;
use process::clock::Clock;
use prometheus_client::metrics::counter::Counter;
use rpc::service::package_peers_client::PackagePeersClient;
use rpc::{Expect, Identity, Rotating};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::interval;
use tonic::Status;
use tonic::transport::Channel;

use super::lock;
use super::spool::Spool;

/// How often sources are looked at that send nothing.
const TICK: Duration = Duration::from_millis(100);
/// How long a connection to another machine may take.
const CONNECT: Duration = Duration::from_secs(3);
/// How many answers wait to be written: with at most 256 KiB each, 8 MiB.
const WRITTEN_AHEAD: usize = 32;
/// The maximum length of a message of another machine, in bytes: a chunk, or what it has.
const MESSAGE_BYTES_MAX: usize = 2 << 20;

/// Where the chunks of a package are read.
#[derive(Clone)]
pub(super) struct Sources {
    pub(super) store: PackageReader,
    /// Other machines, if they may be asked.
    pub(super) peers: Vec<Peer>,
}

/// Another machine, and what it is shown.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) machine: String,
    pub(super) client: PackagePeersClient<Channel>,
    pub(super) right: v1::Statement,
    /// The encoded manifest of the package.
    pub(super) manifest: Arc<[u8]>,
}

impl Peer {
    /// A machine, connected lazily.
    pub(super) fn new(
        holder: v1::PackageHolder,
        credentials: &Rotating,
        right: &v1::Statement,
        manifest: &Arc<[u8]>,
    ) -> rpc::Result<Self> {
        let v1::PackageHolder { machine, address } = holder;
        let expect = Expect::Identity(Identity::Borglet(machine.clone()));
        let channel = rpc::transport::connect_within(CONNECT, &address, credentials, &expect)?;
        let client = PackagePeersClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        Ok(Self { machine, client, right: right.clone(), manifest: Arc::clone(manifest) })
    }
}

/// What the fetches of a machine share.
#[derive(Debug)]
pub(super) struct Fetching {
    pub(super) clock: Clock,
    pub(super) bans: Mutex<Bans>,
    pub(super) counts: FetchCounts,
    /// What machines begin with differs by this.
    pub(super) seed: u64,
}

/// What was fetched since the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct FetchCounts {
    /// Bytes of chunks from stores.
    pub(crate) from_stores: Counter,
    /// Bytes of chunks from other machines.
    pub(crate) from_machines: Counter,
    /// Machines that were banned.
    pub(crate) banned: Counter,
}

/// What has come of a request.
enum Incoming {
    Holds(Option<ChunkSet>),
    Chunk {
        ask: AskId,
        position: u32,
        bytes: Vec<u8>,
    },
    Lacks {
        ask: AskId,
        position: u32,
    },
    Answered(AskId),
    Failed {
        why: PeerFault,
        error: anyhow::Error,
    },
    /// The thread that writes says that a chunk is there.
    Came {
        ask: AskId,
        position: u32,
        bytes: u64,
    },
}

/// What has come, with where it came from.
type Of = (SourceId, Incoming);

impl Fetching {
    /// Fetches the chunks of a spool that are not there, and returns when all are.
    pub(super) async fn fetch(
        &self,
        layer: Digest,
        spool: &Arc<Spool>,
        sources: &Sources,
    ) -> anyhow::Result<()> {
        let now = self.clock.now();
        let here = spool.here();
        let length = here.length();
        let here = (0..length).filter(|chunk| here.contains(*chunk));
        let mut swarm = Swarm::new(length, here, self.seed, now);
        let store = swarm.add(SourceKind::Store, now);
        let mut peers = HashMap::new();
        for peer in &sources.peers {
            if !lock(&self.bans).has(&peer.machine, now) {
                peers.insert(swarm.add(SourceKind::Peer, now), peer);
            }
        }
        let (to_writer, mut written) = writer(spool)?;
        let mut requests = JoinSet::new();
        let mut running: Vec<(SourceId, AbortHandle)> = Vec::new();
        let mut ticks = interval(TICK);
        let mut last_error = None;
        loop {
            for action in swarm.next(self.clock.now()) {
                match action {
                    SwarmAction::Ask { ask, source, chunks } => {
                        let to = to_writer.clone();
                        let handle = match peers.get(&source) {
                            Some(peer) => {
                                let request = of_peer((*peer).clone(), layer, chunks, length);
                                requests.spawn(request.send_to(to, ask, source))
                            }
                            None => {
                                let refs = spool.chunks();
                                let digest = |it: &u32| refs.get(*it as usize).map(|it| it.digest);
                                let digests = chunks.iter().filter_map(digest).collect();
                                let request = OfStore { reader: sources.store.clone(), digests };
                                requests.spawn(request.send_to(to, ask, source, chunks))
                            }
                        };
                        running.push((source, handle));
                    }
                    SwarmAction::Drop { source, why } => {
                        self.dropped(&peers, &mut running, source, why);
                    }
                }
            }
            match swarm.state() {
                SwarmState::Done => return Ok(()),
                SwarmState::Fetching => {}
                SwarmState::Stuck => {
                    let error = last_error.unwrap_or_else(|| StoreError::NoStore.into());
                    return Err(error);
                }
            }
            tokio::select! {
                next = written.recv() => {
                    let Some((source, incoming)) = next else {
                        bail!("the thread that writes chunks has ended: see the log of the Borglet");
                    };
                    let now = self.clock.now();
                    match incoming {
                        Incoming::Holds(has) => swarm.holds(source, has, now),
                        Incoming::Lacks { ask, position } => swarm.lacks(ask, source, position, now),
                        Incoming::Answered(ask) => swarm.answered(ask, source, now),
                        Incoming::Came { ask, position, bytes } => {
                            let counts = &self.counts;
                            let of_store = source == store;
                            (if of_store { &counts.from_stores } else { &counts.from_machines }).inc_by(bytes);
                            swarm.came(ask, source, position, now);
                        }
                        // The thread that writes answers with another.
                        Incoming::Chunk { .. } => {}
                        Incoming::Failed { why, error } => {
                            tracing::debug!("layer {layer}: {error:#}");
                            if source == store || last_error.is_none() {
                                last_error = Some(error);
                            }
                            if let Some(SwarmAction::Drop { source, why }) = swarm.failed(source, why, now) {
                                self.dropped(&peers, &mut running, source, why);
                            }
                        }
                    }
                }
                Some(_) = requests.join_next() => running.retain(|(_, handle)| !handle.is_finished()),
                _ = ticks.tick() => {}
            }
        }
    }

    /// Breaks off the requests of a source.
    fn dropped(
        &self,
        peers: &HashMap<SourceId, &Peer>,
        running: &mut Vec<(SourceId, AbortHandle)>,
        source: SourceId,
        why: PeerFault,
    ) {
        running.retain(|(of, handle)| {
            if *of == source {
                handle.abort();
            }
            *of != source
        });
        let Some(peer) = peers.get(&source) else { return };
        if why.is_banned() {
            lock(&self.bans).ban(&peer.machine, self.clock.now());
            self.counts.banned.inc();
            let machine = &peer.machine;
            tracing::warn!("nothing is fetched from machine {machine} for a while: {why:?}");
        }
    }
}

/// A thread that checks and writes chunks, and passes on what else has come. It ends with the senders.
fn writer(spool: &Arc<Spool>) -> anyhow::Result<(mpsc::Sender<Of>, mpsc::Receiver<Of>)> {
    let (to_writer, mut incoming) = mpsc::channel::<Of>(WRITTEN_AHEAD);
    let (done, written) = mpsc::channel::<Of>(WRITTEN_AHEAD);
    let spool = Arc::clone(spool);
    let write = move || {
        while let Some((source, next)) = incoming.blocking_recv() {
            let next = match next {
                Incoming::Chunk { ask, position, bytes } => match spool.put(position, &bytes) {
                    Ok(true) => Incoming::Came { ask, position, bytes: bytes.len() as u64 },
                    Ok(false) => {
                        let error =
                            anyhow::anyhow!("chunk {position} has other bytes than it should");
                        Incoming::Failed { why: PeerFault::WrongBytes, error }
                    }
                    Err(error) => {
                        tracing::error!("cannot write a chunk: {error}");
                        return;
                    }
                },
                other => other,
            };
            if done.blocking_send((source, next)).is_err() {
                return;
            }
        }
    };
    let started = std::thread::Builder::new().name("chunks".to_owned()).spawn(write);
    started.context("cannot start a thread that writes chunks")?;
    Ok((to_writer, written))
}

/// A request to a store.
struct OfStore {
    reader: PackageReader,
    digests: Vec<Digest>,
}

impl OfStore {
    async fn send_to(
        self,
        to: mpsc::Sender<Of>,
        ask: AskId,
        source: SourceId,
        positions: Vec<u32>,
    ) {
        let mut reading = self.reader.read(self.digests);
        let mut positions = positions.into_iter();
        let last = loop {
            match reading.next().await {
                Ok(Some(bytes)) => {
                    let Some(position) = positions.next() else { break Incoming::Answered(ask) };
                    if to.send((source, Incoming::Chunk { ask, position, bytes })).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break Incoming::Answered(ask),
                Err(error) => {
                    break Incoming::Failed { why: PeerFault::Failed, error: error.into() };
                }
            }
        };
        // Nobody waits for it when the start was prevented.
        let _ = to.send((source, last)).await;
    }
}

/// A request to another machine.
struct OfPeer {
    peer: Peer,
    layer: Digest,
    positions: Vec<u32>,
    length: u32,
}

fn of_peer(peer: Peer, layer: Digest, positions: Vec<u32>, length: u32) -> OfPeer {
    OfPeer { peer, layer, positions, length }
}

impl OfPeer {
    async fn send_to(self, to: mpsc::Sender<Of>, ask: AskId, source: SourceId) {
        let machine = self.peer.machine.clone();
        let last = match self.read(&to, ask, source).await {
            Ok(()) => Incoming::Answered(ask),
            Err(status) => {
                let why = rpc::transport::explain(&status);
                let error = anyhow::anyhow!("machine {machine}: {why}");
                Incoming::Failed { why: PeerFault::Failed, error }
            }
        };
        // Nobody waits for it when the start was prevented.
        let _ = to.send((source, last)).await;
    }

    async fn read(self, to: &mpsc::Sender<Of>, ask: AskId, source: SourceId) -> Result<(), Status> {
        let Self { mut peer, layer, positions, length } = self;
        let request = v1::ReadChunksRequest {
            right: Some(peer.right),
            manifest: peer.manifest.to_vec(),
            layer: layer.as_bytes().to_vec(),
            chunks: positions.clone(),
        };
        let mut answers = peer.client.read_chunks(request).await?.into_inner();
        let mut positions = positions.into_iter();
        while let Some(answer) = answers.message().await? {
            let incoming = match answer.what {
                Some(v1::read_chunks_response::What::Holding(holding)) => {
                    let some = !holding.bits.is_empty();
                    Incoming::Holds(some.then(|| ChunkSet::from_bits(length, &holding.bits)))
                }
                Some(v1::read_chunks_response::What::Chunk(bytes)) => {
                    let next = positions.next();
                    let position = next.ok_or_else(|| {
                        Status::data_loss("it sent more chunks than it was asked for")
                    })?;
                    match bytes.is_empty() {
                        true => Incoming::Lacks { ask, position },
                        false => Incoming::Chunk { ask, position, bytes },
                    }
                }
                None => continue,
            };
            if to.send((source, incoming)).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}
