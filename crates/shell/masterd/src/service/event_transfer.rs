//! Hands the stored events over to a replica that lacks them.

use std::sync::Arc;
use std::time::Duration;

use ::replication::v1::events_part::Then;
use ::replication::v1::{EventsPart, EventsQuery, StoredEvent};
use api::v1;
use model::RestoreEpoch;
use store::events::{Cursor, Event, Handed, Source as _};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status};

use crate::service::history::History;
use crate::service::holding::holding;
use crate::service::{Answer, Streamed};

/// The maximum number of other replicas to which events are handed over at once; further ones are
/// refused, and ask another replica.
const AT_ONCE_MAX: usize = 2;
/// The maximum number of parts that wait for the other replica.
const QUEUE: usize = 4;
/// How long to wait until the events of what is applied are stored.
const PATIENCE: Duration = Duration::from_secs(5);

/// The permits for handing over.
#[derive(Clone)]
pub(super) struct Transfers(Arc<Semaphore>);

impl Default for Transfers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE_MAX)))
    }
}

impl History {
    /// Streams the events that another replica asks for.
    pub(super) async fn hand_over(
        &self,
        transfers: &Transfers,
        query: EventsQuery,
    ) -> Answer<Streamed<EventsPart>> {
        let permit = Arc::clone(&transfers.0).try_acquire_owned();
        let permit = permit.map_err(|_| {
            Status::resource_exhausted(format!(
                "{AT_ONCE_MAX} replicas are sent events already: ask another"
            ))
        })?;
        let mine = self.door.core.view().origin.restore_epoch;
        let (counter, random) = (query.restore_epoch, query.restore_random);
        let theirs = RestoreEpoch { counter, random };
        if mine != theirs {
            return Err(Status::failed_precondition(format!(
                "this replica has restore epoch {mine}, and yours is {theirs}"
            )));
        }
        let is_whole = self.has_stored_until(query.until).await;
        let mut reader = self.events.reader();
        let (parts, stream) = mpsc::channel(QUEUE);
        tokio::task::spawn_blocking(move || {
            let from = Cursor { index: query.index, sub: query.sub_index };
            let send = |events: &[Event<'_>], then| {
                let events = events.iter().map(stored).collect();
                parts.blocking_send(Ok(EventsPart { events, then })).is_ok()
            };
            let mut is_there = true;
            let handed = reader.hand_over(from, query.until, &mut |events| {
                is_there = is_there && send(events, None);
                Ok(())
            });
            let then = match handed {
                Ok(Handed::Everything) => Some(Then::Everything(true)),
                Ok(Handed::Rest) => is_whole.then_some(Then::Everything(true)),
                Ok(Handed::UntilGap(Cursor { index, sub })) => {
                    Some(Then::Gap(v1::EventCursor { index, sub_index: sub }))
                }
                Err(_) => None,
            };
            let _gone = is_there && send(&[], then);
        });
        Ok(Response::new(holding(permit, ReceiverStream::new(stream))))
    }

    /// Waits until the events of all operations before one are stored here, if those are applied.
    async fn has_stored_until(&self, until: u64) -> bool {
        if self.door.core.view().cell.index().0.saturating_add(1) < until {
            return false;
        }
        let (metrics, mut more) = (&self.door.metrics.events, self.events.more());
        // All of them are on their way, at least.
        let recorded = metrics.recorded.get();
        let stored = async {
            while metrics.kept.get() < recorded {
                if more.changed().await.is_err() {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(PATIENCE, stored).await.unwrap_or_default()
    }
}

fn stored(event: &Event<'_>) -> StoredEvent {
    let Event { index, sub, time_us, payload } = *event;
    StoredEvent { index, sub_index: sub, time: time_us, payload: payload.to_vec() }
}
