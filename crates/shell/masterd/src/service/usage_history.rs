//! Records the history of what the cell uses: at each replica, from the answers of all of them.

use api::v1;
use model::{Span, Time};

use crate::metrics::Evictions;
use crate::reads::usage::cell_used;
use crate::service::usage::Usage;
use crate::usage::Query;
use crate::usage_history::{due, sample};

/// What the last sample has counted, since this replica and all of them started.
#[derive(Clone, Copy, Debug, Default)]
struct CountedTotals {
    evictions: Evictions,
    /// `None` if not all replicas answered.
    work: Option<v1::MasterWork>,
}

impl Usage {
    /// Records a sample at each multiple of an interval of the cell's clock. Never ends.
    pub(crate) async fn record(self, interval: Span) {
        let mut counted = CountedTotals::default();
        loop {
            let clock = self.door.core.view().clock;
            let at = due(clock.now(), interval);
            tokio::time::sleep_until(clock.instant(at)).await;
            if let Some(newest) = self.record_at(at, counted).await {
                counted = newest;
            }
        }
    }

    /// Records a sample, unless this replica does not know how the cell is. Returns what has been
    /// recorded with it.
    async fn record_at(&self, at: Time, counted: CountedTotals) -> Option<CountedTotals> {
        let knows = {
            let view = self.door.core.view();
            view.caught_up && view.leader.is_some()
        };
        if !knows {
            return None;
        }
        let query = Query::default();
        let (others, missing) = self.used_elsewhere(&query).await;
        let missing: Vec<u64> = missing.into_iter().map(|replica| replica.0).collect();
        let usage = self.clone();
        // As large as the cell, so not on the threads that serve.
        let recorded = tokio::task::spawn_blocking(move || {
            let mut used = usage.used_here(&query);
            others.into_iter().for_each(|other| used.merge(other));
            let evictions = usage.door.metrics.evictions.total();
            let cell = cell_used(&usage.door.core.view().cell, &used);
            let work = missing.is_empty().then_some(used.work);
            let done = work.zip(counted.work).and_then(|(work, before)| work.since(&before));
            let sample = sample(at, &cell, evictions.since(counted.evictions), done, missing);
            usage.history.record(&sample).then_some(CountedTotals { evictions, work })
        });
        // If it panicked, its message is in the log.
        recorded.await.ok().flatten()
    }
}
