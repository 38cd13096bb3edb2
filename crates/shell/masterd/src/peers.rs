//! Communication with the other replicas. Each has a queue of its own and a stream that stays open;
//! messages that do not fit or do not arrive are lost, and consensus repeats them. Snapshots and
//! requests to the leader are separate calls.
//!
//! The replicas' addresses are part of the cell's state. A replica that lags may hear from another
//! that its own state does not contain yet, and has to answer: so each sends its address when it
//! connects.

pub(crate) mod events;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use api::v1;
use model::{MachineId, ReplicaId};
use replica::{Body, Input, Message as ReplicaMessage, Snapshot};
use replication::v1::install_request::Part;
use replication::v1::replication_client::ReplicationClient;
use rpc::service::scheduling_client::SchedulingClient;
use rpc::{Expect, Role, Rotating};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::identity::Dismissed;
use crate::message::Message;

/// The code with which a replica tells one from before a restoration that the cell continues
/// without it. A replica of a live cell does not believe it.
pub(super) const SUPERSEDED: Code = Code::Aborted;
/// The maximum number of messages that wait for a replica.
const QUEUE: usize = 4_096;
/// The maximum number of messages in a parcel, and of bytes of records; exceeded by at most one
/// message.
const TOGETHER: usize = 256;
const TOGETHER_BYTES: usize = 2 << 20;
/// The maximum number of parcels in flight.
const PARCELS: usize = 4;
/// The largest parcel: one record of the largest size and what may accompany it.
pub(super) const PARCEL_BYTES_MAX: usize = 128 << 20;
/// The pause before the next attempt to reach a replica.
const PAUSE: Duration = Duration::from_millis(100);
/// The timeout for connecting, and for a replica to accept a message.
const PATIENCE: Duration = Duration::from_secs(2);
/// The timeout for an answer about usage, which can be large.
const USAGE_PATIENCE: Duration = Duration::from_secs(2);
/// The timeout for sending a snapshot, including its installation.
const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(600);
/// The maximum number of replicas whose self-reported addresses are kept before the cell has them.
const SAID_MAX: usize = 64;
/// The maximum number of snapshot pieces that wait for a slow reader.
const SNAPSHOT_QUEUE: usize = 4;

/// The threads that talk to the others; they end when this is dropped.
pub(crate) struct Peers {
    handle: Handle,
    runtime: Option<Runtime>,
}

/// A handle on them.
#[derive(Clone)]
pub(crate) struct Handle(Arc<Inner>);

struct Inner {
    runtime: tokio::runtime::Handle,
    credentials: Rotating,
    me: ReplicaId,
    to_core: mpsc::Sender<Message>,
    /// The addresses of replicas known when this process started.
    hints: BTreeMap<ReplicaId, Arc<str>>,
    /// Replicas in this process, reached by their queues.
    beside: BTreeMap<ReplicaId, mpsc::Sender<Message>>,
    /// This replica's address.
    own: watch::Sender<Arc<str>>,
    known: Mutex<PeerTable>,
}

/// The addresses of the other replicas, by source.
#[derive(Default)]
struct PeerTable {
    /// From the cell.
    recorded: BTreeMap<ReplicaId, Arc<str>>,
    /// From the replicas themselves, until the cell has them.
    said: BTreeMap<ReplicaId, Arc<str>>,
    peers: BTreeMap<ReplicaId, Peer>,
}

/// Another replica.
struct Peer {
    messages: mpsc::Sender<ReplicaMessage>,
    addresses: watch::Sender<Vec<Arc<str>>>,
    /// A channel for calls, and its address.
    channel: Option<(Arc<str>, Channel)>,
}

/// Starts the threads for a replica with an address; an empty one means the address in the cell.
pub(crate) fn start(
    credentials: &Rotating,
    me: ReplicaId,
    own: &str,
    hints: BTreeMap<ReplicaId, Arc<str>>,
    to_core: mpsc::Sender<Message>,
) -> anyhow::Result<Peers> {
    let others = OtherReplicas { hints, beside: BTreeMap::new() };
    start_with(credentials, me, own, others, to_core)
}

/// The same for replicas that are all in this process, each with a queue.
pub(super) fn start_in_process(
    credentials: &Rotating,
    me: ReplicaId,
    beside: BTreeMap<ReplicaId, mpsc::Sender<Message>>,
    to_core: mpsc::Sender<Message>,
) -> anyhow::Result<Peers> {
    let others = OtherReplicas { hints: BTreeMap::new(), beside };
    start_with(credentials, me, "", others, to_core)
}

/// What is known of the other replicas at the start.
struct OtherReplicas {
    /// Where they may be, until the cell tells it.
    hints: BTreeMap<ReplicaId, Arc<str>>,
    /// The queues of those in this process.
    beside: BTreeMap<ReplicaId, mpsc::Sender<Message>>,
}

fn start_with(
    credentials: &Rotating,
    me: ReplicaId,
    own: &str,
    others: OtherReplicas,
    to_core: mpsc::Sender<Message>,
) -> anyhow::Result<Peers> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("peers")
        .enable_all()
        .build()
        .context("cannot start the thread that talks to the other replicas")?;
    let inner = Inner {
        runtime: runtime.handle().clone(),
        credentials: credentials.clone(),
        me,
        to_core,
        hints: others.hints,
        beside: others.beside,
        own: watch::Sender::new(own.into()),
        known: Mutex::default(),
    };
    let handle = Handle(Arc::new(inner));
    handle.know(std::iter::empty(), ReplicaId(0));
    Ok(Peers { handle, runtime: Some(runtime) })
}

impl Peers {
    pub(crate) fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Handle {
    /// Sets the replicas of the cell, and the highest id ever used. Those known at the start remain
    /// known: a replica without any log knows of no others.
    pub(crate) fn know<'a>(
        &self,
        recorded: impl Iterator<Item = (ReplicaId, &'a Arc<str>)>,
        last: ReplicaId,
    ) {
        let mut known = self.known();
        known.recorded = recorded.map(|(id, address)| (id, Arc::clone(address))).collect();
        known.said.retain(|id, _| *id > last);
        if let Some(own) = known.recorded.get(&self.0.me) {
            self.0.own.send_if_modified(|said| {
                let unsaid = said.is_empty();
                if unsaid {
                    said.clone_from(own);
                }
                unsaid
            });
        }
        self.meet(&mut known);
    }

    /// A replica reports its address.
    pub(super) fn hear(&self, from: ReplicaId, address: &str) {
        let mut known = self.known();
        let is_known = known.recorded.contains_key(&from) || from == self.0.me;
        let has_room = known.said.len() < SAID_MAX || known.said.contains_key(&from);
        if is_known || !has_room {
            return;
        }
        known.said.insert(from, address.into());
        self.meet(&mut known);
    }

    /// Starts and stops streams according to the known replicas and addresses.
    fn meet(&self, known: &mut PeerTable) {
        if !self.0.beside.is_empty() {
            return;
        }
        let PeerTable { recorded, said, peers } = known;
        let hinted = self.0.hints.keys().filter(|_| recorded.is_empty());
        let ids: BTreeSet<_> = recorded.keys().chain(said.keys()).chain(hinted).copied().collect();
        peers.retain(|id, _| ids.contains(id));
        for id in ids.into_iter().filter(|id| *id != self.0.me) {
            let by_the_cell = recorded.get(&id).filter(|address| !address.is_empty());
            let ways = [by_the_cell, said.get(&id), self.0.hints.get(&id)];
            let mut addresses: Vec<_> = ways.into_iter().flatten().cloned().collect();
            addresses.dedup();
            let peer = peers.entry(id).or_insert_with(|| self.begin(id));
            peer.addresses.send_if_modified(|before| {
                let differs = *before != addresses;
                before.clone_from(&addresses);
                differs
            });
        }
    }

    fn begin(&self, id: ReplicaId) -> Peer {
        let (messages, queued) = mpsc::channel(QUEUE);
        let (addresses, watched) = watch::channel(Vec::new());
        let stream = Stream {
            id,
            credentials: self.0.credentials.clone(),
            to_core: self.0.to_core.clone(),
            addresses: watched,
            own: self.0.own.subscribe(),
            tried: 0,
        };
        self.0.runtime.spawn(stream.run(queued));
        Peer { messages, addresses, channel: None }
    }

    /// Sends a message to another replica, if there is room.
    pub(crate) fn send(&self, message: ReplicaMessage) {
        if let Some(core) = self.0.beside.get(&message.to) {
            let _lost = core.try_send(Message::Input(Input::Received(message)));
            return;
        }
        let snapshot = match &message.body {
            Body::Consensus(consensus) => consensus.snapshot.clone(),
            _ => None,
        };
        if let Some(snapshot) = snapshot {
            let (to, handle) = (message.to, self.clone());
            self.0.runtime.spawn(async move {
                let sent =
                    tokio::time::timeout(SNAPSHOT_PATIENCE, handle.install(message, snapshot));
                let sent =
                    sent.await.unwrap_or_else(|_| Err(Status::deadline_exceeded("too slow")));
                if let Err(status) = &sent {
                    let said = rpc::transport::explain(status);
                    tracing::warn!("replica {to} did not take the snapshot: {said}");
                }
                let input = Input::SnapshotSent(to, sent.is_ok());
                let _gone = handle.0.to_core.send(Message::Input(input)).await;
            });
        } else if let Some(peer) = self.known().peers.get(&message.to) {
            // A message without room counts as lost.
            let _lost = peer.messages.try_send(message);
        }
    }

    /// Sends the cell to a replica that is too far behind.
    async fn install(&self, message: ReplicaMessage, snapshot: Snapshot) -> Result<(), Status> {
        tracing::info!(
            "sending replica {} the cell of index {}",
            message.to,
            snapshot.cell.index()
        );
        // On a connection of its own: it is not closed when the other is busy for a moment.
        let address = self.address(message.to)?;
        let mut client = client(connected(rpc::transport::connect(
            &address,
            &self.0.credentials,
            &Expect::Role(Role::Master),
        ))?);
        let (pieces, stream) = mpsc::channel(SNAPSHOT_QUEUE);
        let head = Part::Message((&message).into());
        let runtime = tokio::runtime::Handle::current();
        let write = move || {
            let send = |part| {
                let request = replication::v1::InstallRequest { part: Some(part) };
                runtime.block_on(pieces.send(request)).map_err(drop)
            };
            send(head)?;
            checkpoint::pieces(&snapshot.cell.image(), |piece| send(Part::Image(piece.to_vec())))
        };
        let _given_up = tokio::task::spawn_blocking(write);
        client.install(ReceiverStream::new(stream)).await.map(drop)
    }

    /// Forwards a user's request to the leader.
    pub(crate) async fn forward(
        &self,
        leader: ReplicaId,
        request: replication::v1::ForwardRequest,
        patience: Duration,
    ) -> Result<replication::v1::ForwardResponse, Status> {
        let mut request = tonic::Request::new(request);
        request.set_timeout(patience);
        self.client(leader)?.forward(request).await.map(tonic::Response::into_inner)
    }

    /// Asks the leader to hand leadership over.
    pub(crate) async fn yield_to(
        &self,
        leader: ReplicaId,
        to: Option<ReplicaId>,
    ) -> Result<(), Status> {
        let mut request =
            tonic::Request::new(replication::v1::YieldRequest { to: to.map_or(0, |to| to.0) });
        request.set_timeout(PATIENCE);
        self.client(leader)?.r#yield(request).await.map(drop)
    }

    /// The leader's knowledge of the replicas' progress.
    pub(crate) async fn progress(
        &self,
        leader: ReplicaId,
    ) -> Result<Vec<v1::ReplicaProgress>, Status> {
        let mut request = tonic::Request::new(replication::v1::ProgressRequest {});
        request.set_timeout(PATIENCE);
        Ok(self.client(leader)?.progress(request).await?.into_inner().replicas)
    }

    /// Why another replica does not reach a machine; empty if it does, or does not poll it.
    pub(crate) async fn trouble(
        &self,
        replica: ReplicaId,
        machine: MachineId,
    ) -> Result<String, Status> {
        let mut request =
            tonic::Request::new(replication::v1::TroubleRequest { machine: machine.0 });
        request.set_timeout(PATIENCE);
        Ok(self.client(replica)?.trouble(request).await?.into_inner().why)
    }

    /// What is used on the machines that another replica polls.
    pub(crate) async fn usage(
        &self,
        replica: ReplicaId,
        query: replication::v1::UsageQuery,
    ) -> Result<replication::v1::UsageAnswer, Status> {
        let mut request = tonic::Request::new(query);
        request.set_timeout(USAGE_PATIENCE);
        let most = rpc::transport::MAX_STREAM_MESSAGE_BYTES;
        let mut client = self.client(replica)?.max_decoding_message_size(most);
        Ok(client.usage(request).await?.into_inner())
    }

    /// Forwards a scheduler's proposals to the leader.
    pub(crate) async fn propose(
        &self,
        leader: ReplicaId,
        request: v1::ProposeRequest,
    ) -> Result<v1::ProposeResponse, Status> {
        let most = rpc::transport::MAX_STREAM_MESSAGE_BYTES;
        let client = SchedulingClient::new(self.channel(leader)?);
        let mut client = client.max_decoding_message_size(most).max_encoding_message_size(most);
        client.propose(request).await.map(tonic::Response::into_inner)
    }

    fn client(&self, id: ReplicaId) -> Result<ReplicationClient<Channel>, Status> {
        Ok(client(self.channel(id)?))
    }

    fn channel(&self, id: ReplicaId) -> Result<Channel, Status> {
        let mut known = self.known();
        let peer = known.peers.get_mut(&id).ok_or_else(|| nowhere(id))?;
        let address = peer.address().ok_or_else(|| nowhere(id))?;
        if let Some((known, channel)) = &peer.channel
            && *known == address
        {
            return Ok(channel.clone());
        }
        let _inside = self.0.runtime.enter();
        let channel = connect(&address, &self.0.credentials)?;
        peer.channel = Some((address, channel.clone()));
        Ok(channel)
    }

    /// The address of another replica, if known.
    fn address(&self, id: ReplicaId) -> Result<Arc<str>, Status> {
        self.known().peers.get(&id).and_then(Peer::address).ok_or_else(|| nowhere(id))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, PeerTable> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peer {
    fn address(&self) -> Option<Arc<str>> {
        self.addresses.borrow().first().cloned()
    }
}

fn nowhere(id: ReplicaId) -> Status {
    Status::unavailable(format!("the address of replica {id} is not known"))
}

fn connect(address: &str, credentials: &Rotating) -> Result<Channel, Status> {
    let expect = Expect::Role(Role::Master);
    connected(rpc::transport::connect_within(PATIENCE, address, credentials, &expect))
}

fn connected(channel: rpc::Result<Channel>) -> Result<Channel, Status> {
    channel.map_err(|error| Status::unavailable(error.to_string()))
}

fn client(channel: Channel) -> ReplicationClient<Channel> {
    ReplicationClient::new(channel)
        .max_decoding_message_size(PARCEL_BYTES_MAX)
        .max_encoding_message_size(PARCEL_BYTES_MAX)
}

/// The stream to one replica.
struct Stream {
    id: ReplicaId,
    credentials: Rotating,
    to_core: mpsc::Sender<Message>,
    addresses: watch::Receiver<Vec<Arc<str>>>,
    /// This replica's address.
    own: watch::Receiver<Arc<str>>,
    /// A counter: if several addresses are known, they are tried in turn.
    tried: usize,
}

impl Stream {
    async fn run(mut self, mut queued: mpsc::Receiver<ReplicaMessage>) {
        while let Some(message) = queued.recv().await {
            let Some(address) = self.next_address() else { continue };
            if let Err(status) = self.talk(&address, message, &mut queued).await {
                let said = rpc::transport::explain(&status);
                tracing::debug!("replica {} at {address}: {said}", self.id);
                let why = format!("replica {} at {address} says: {}", self.id, status.message());
                match status.code() {
                    Code::FailedPrecondition => {
                        let _gone = self.to_core.send(Message::Fail(Dismissed(why).into())).await;
                        return;
                    }
                    SUPERSEDED => {
                        let _gone = self.to_core.send(Message::Superseded(self.id, why)).await;
                    }
                    _ => {}
                }
            }
            self.tried += 1;
            let unreachable = Input::Unreachable(self.id);
            let _gone = self.to_core.send(Message::Input(unreachable)).await;
            tokio::time::sleep(PAUSE).await;
            // What queued meanwhile is outdated.
            while queued.try_recv().is_ok() {}
        }
    }

    fn next_address(&self) -> Option<Arc<str>> {
        let addresses = self.addresses.borrow();
        addresses.get(self.tried.checked_rem(addresses.len())?).cloned()
    }

    /// Sends messages until the other end or the connection fails.
    async fn talk(
        &mut self,
        address: &str,
        first: ReplicaMessage,
        queued: &mut mpsc::Receiver<ReplicaMessage>,
    ) -> Result<(), Status> {
        let mut client = client(connect(address, &self.credentials)?);
        let (parcels, stream) = mpsc::channel(PARCELS);
        let call = async move { client.talk(ReceiverStream::new(stream)).await.map(drop) };
        let mut call = std::pin::pin!(call);
        let mut next = Some(first);
        let mut own = self.own.borrow().to_string();
        loop {
            let Some(message) = next.take() else {
                tokio::select! {
                    ended = &mut call => return ended,
                    message = queued.recv() => next = message,
                    changed = self.addresses.changed() => {
                        if changed.is_err() || !self.addresses.borrow().iter().any(|a| **a == *address) {
                            return Ok(());
                        }
                        continue;
                    }
                }
                if next.is_none() {
                    return Ok(());
                }
                continue;
            };
            let messages = together(message, queued);
            let parcel = replication::v1::Talking { messages, address: std::mem::take(&mut own) };
            let sending = tokio::time::timeout(PATIENCE, parcels.send(parcel));
            tokio::select! {
                ended = &mut call => return ended,
                sent = sending => {
                    if !matches!(sent, Ok(Ok(()))) {
                        return Err(Status::deadline_exceeded("it takes in nothing"));
                    }
                }
            }
        }
    }
}

/// As many waiting messages as go into one parcel.
fn together(
    first: ReplicaMessage,
    queued: &mut mpsc::Receiver<ReplicaMessage>,
) -> Vec<replication::v1::ReplicaMessage> {
    let mut bytes = 0;
    let mut messages = Vec::new();
    let mut next = Some(first);
    while let Some(message) = next {
        bytes += size(&message);
        messages.push((&message).into());
        let full = messages.len() >= TOGETHER || bytes >= TOGETHER_BYTES;
        next = if full { None } else { queued.try_recv().ok() };
    }
    messages
}

fn size(message: &ReplicaMessage) -> usize {
    match &message.body {
        Body::Consensus(consensus) => consensus.entries.iter().map(|entry| entry.data.len()).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use rpc::{Authority, Identity, Validity};

    use super::*;

    fn peers(hints: &[(u64, &str)]) -> Peers {
        let place = tempfile::tempdir().expect("a directory");
        let authority = Authority::create(place.path(), "test").expect("an authority");
        let validity = Validity::lasting(Duration::from_secs(60));
        let credentials = authority.issue(&Identity::Master, validity).expect("a certificate");
        let credentials = Rotating::new(credentials).expect("a certificate");
        let hints = hints.iter().map(|(id, at)| (ReplicaId(*id), Arc::from(*at))).collect();
        start(&credentials, ReplicaId(7), "", hints, mpsc::channel(1).0).expect("a thread")
    }

    impl Handle {
        /// The known addresses of a replica.
        fn at(&self, id: u64) -> Vec<String> {
            let known = self.known();
            let addresses =
                known.peers.get(&ReplicaId(id)).map(|peer| peer.addresses.borrow().clone());
            addresses.unwrap_or_default().iter().map(ToString::to_string).collect()
        }

        fn knows(&self, recorded: &[(u64, &str)], last: u64) {
            let recorded: Vec<(ReplicaId, Arc<str>)> =
                recorded.iter().map(|(id, at)| (ReplicaId(*id), Arc::from(*at))).collect();
            self.know(recorded.iter().map(|(id, at)| (*id, at)), ReplicaId(last));
        }
    }

    #[test]
    fn an_unknown_peer_is_at_the_address_that_it_reports() {
        let peers = peers(&[(6, "f:1")]);
        let handle = peers.handle();
        assert_eq!(handle.at(6), ["f:1"], "as was said at the start");
        // It catches up, and of the first records only the second replica remains.
        handle.knows(&[(1, "a:1"), (2, "b:1")], 2);
        assert_eq!((handle.at(2), handle.at(6)), (vec!["b:1".to_owned()], Vec::new()));
        handle.hear(ReplicaId(6), "f:2");
        handle.hear(ReplicaId(2), "elsewhere:1");
        assert_eq!(
            (handle.at(2), handle.at(6)),
            (vec!["b:1".to_owned()], vec!["f:2".into(), "f:1".into()])
        );
        handle.knows(&[(1, "a:1"), (2, "b:1"), (5, "e:1")], 5);
        assert_eq!(handle.at(6), ["f:2", "f:1"], "still not known");
        // It becomes known, and then it is removed.
        handle.knows(&[(2, "b:1"), (6, "f:3"), (7, "g:1")], 7);
        assert_eq!(handle.at(6), ["f:3", "f:1"]);
        assert_eq!(&**handle.0.own.borrow(), "g:1", "and this replica says where it is itself");
        handle.knows(&[(2, "b:1"), (7, "g:1")], 7);
        assert!(handle.at(6).is_empty());
        // Nobody can fill the memory with addresses.
        (100..300).for_each(|id| handle.hear(ReplicaId(id), "x:1"));
        assert_eq!(handle.known().said.len(), SAID_MAX);
    }
}
