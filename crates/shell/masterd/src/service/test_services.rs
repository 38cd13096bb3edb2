//! The services of a replica for tests, whose core never reads its queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cell::Cell;
use model::ReplicaId;
use rpc::transport::Refusals;
use rpc::{Authority, Identity, Rotating, Validity};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};

use crate::handle::Core;
use crate::message::Message;
use crate::metrics::Metrics;
use crate::past::Past;
use crate::secret_keys::SecretKeys;
use crate::service::door::Door;
use crate::service::event_watch::EventSource;
use crate::service::health::Monitoring;
use crate::service::history::History;
use crate::service::{Api, Components};
use crate::view::View;
use crate::{agents, peers};

const HOUR: Duration = Duration::from_secs(3_600);

/// The services.
pub(super) struct TestServices {
    pub(super) door: Door,
    pub(super) history: History,
    pub(super) monitoring: Monitoring,
    pub(crate) from_all: mpsc::Receiver<Message>,
    pub(crate) views: watch::Sender<Arc<View>>,
    _threads: (agents::Agents, peers::Peers),
    /// Where its events are.
    pub(crate) directory: TempDir,
}

impl TestServices {
    /// With a queue of this capacity.
    pub(crate) fn new(queue: usize) -> Self {
        let directory = TempDir::new().expect("a directory");
        let path = directory.path();
        let authority = Authority::create(path, "lab").expect("an authority");
        let credentials = authority.issue(&Identity::Master, Validity::lasting(HOUR));
        let credentials = Rotating::new(credentials.expect("issued")).expect("credentials");
        let (views, seen) = watch::channel(Arc::new(View::of(Cell::empty())));
        let (core, from_all) = Core::stalled_at(queue, seen);
        let (to_core, metrics) = (core.to_core().clone(), Arc::<Metrics>::default());
        let refusals = Refusals::default();
        let agents =
            agents::start(&credentials, refusals.clone(), to_core.clone(), Arc::clone(&metrics))
                .expect("the agents");
        let peers = peers::start(&credentials, ReplicaId(1), "", BTreeMap::new(), to_core);
        let peers = peers.expect("the peers");
        let Api { door, history, monitoring, .. } = Api::new(Components {
            core,
            agents: agents.handle(),
            peers: peers.handle(),
            authority: Arc::new(authority),
            credentials: credentials.clone(),
            secret_keys: SecretKeys::open(path, credentials.clone()).expect("no keys"),
            validity: HOUR,
            past: Past::of(path),
            events: EventSource::new(path, watch::channel(0).1),
            refusals,
            metrics,
            task_metrics: false,
            dns: None,
            sigma: None,
        });
        let _threads = (agents, peers);
        Self { door, history, monitoring, from_all, views, _threads, directory }
    }

    /// Sets the leader.
    pub(crate) fn elect(&self, leader: Option<ReplicaId>) {
        let view = View { leader, ..View::of(Cell::empty()) };
        self.views.send_replace(Arc::new(view));
    }
}
