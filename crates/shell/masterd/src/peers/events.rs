//! The events that another replica has, for a replica that lacks them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::{ReplicaId, RestoreEpoch};
use replication::v1::events_part::Then;
use replication::v1::{EventsPart, EventsQuery};
use store::events::{Cursor, Event, Handed, Source, Take};
use tonic::Status;

use super::Handle;

/// How long to wait for the next part.
const PATIENCE: Duration = Duration::from_secs(10);

/// The events of another replica of the same cell.
pub(crate) struct OfPeer<'a> {
    pub(crate) peers: &'a Handle,
    pub(crate) replica: ReplicaId,
    /// The restoration that the history continues from.
    pub(crate) epoch: RestoreEpoch,
    /// Whether there is no time any more.
    pub(crate) stopping: &'a AtomicBool,
}

impl Handle {
    /// The other replicas that are known.
    pub(crate) fn others(&self) -> Vec<ReplicaId> {
        self.known().peers.keys().copied().collect()
    }
}

impl Source for OfPeer<'_> {
    fn hand_over(
        &mut self,
        from: Cursor,
        until: u64,
        take: &mut Take<'_>,
    ) -> store::Result<Handed> {
        let query = EventsQuery {
            index: from.index,
            sub_index: from.sub,
            until,
            restore_epoch: self.epoch.counter,
            restore_random: self.epoch.random,
        };
        let runtime = self.peers.0.runtime.clone();
        let mut taken = Ok(());
        let read = runtime.block_on(self.read(query, &mut |part| {
            taken = take(&part.events.iter().map(event).collect::<Vec<_>>());
            taken.is_ok() && !self.stopping.load(Ordering::Relaxed)
        }));
        taken?;
        Ok(read.unwrap_or_else(|status| {
            let (replica, why) = (self.replica, rpc::transport::explain(&status));
            tracing::warn!(
                "replica {replica} does not send the events that are missing here: {why}"
            );
            Handed::Rest
        }))
    }
}

impl OfPeer<'_> {
    /// Reads parts as long as they are taken.
    async fn read(
        &self,
        query: EventsQuery,
        take: &mut dyn FnMut(&EventsPart) -> bool,
    ) -> Result<Handed, Status> {
        let late = |_| Status::deadline_exceeded("no answer");
        let mut client = self.peers.client(self.replica)?;
        let opened = tokio::time::timeout(PATIENCE, client.events(query));
        let mut parts = opened.await.map_err(late)??.into_inner();
        while let Some(part) =
            tokio::time::timeout(PATIENCE, parts.message()).await.map_err(late)??
        {
            if !take(&part) {
                break;
            }
            match part.then {
                None => {}
                Some(Then::Everything(_)) => return Ok(Handed::Everything),
                Some(Then::Gap(next)) => {
                    let (index, sub) = (next.index, next.sub_index);
                    return Ok(Handed::UntilGap(Cursor { index, sub }));
                }
            }
        }
        Ok(Handed::Rest)
    }
}

fn event(stored: &replication::v1::StoredEvent) -> Event<'_> {
    let replication::v1::StoredEvent { index, sub_index, time, payload } = stored;
    Event { index: *index, sub: *sub_index, time_us: *time, payload }
}
