//! Log messages about leadership, and whether this replica's cell is alive: a live cell does not
//! yield to a replica that somebody restored from a checkpoint beside it.

use std::time::{Duration, Instant};

use cell::Cell;
use model::{LogIndex, ReplicaId, Term};

use super::Metrics;
use crate::identity::Dismissed;

/// A cell is alive if it had a leader at least this long ago, in this process, ...
const LED_FOR: Duration = Duration::from_secs(10);
/// ... and has one now or had one within this time.
const LED_LATELY: Duration = Duration::from_secs(10);
/// How often the rejection of another replica is logged.
const SAY_EVERY: Duration = Duration::from_secs(30);

/// When this replica first and last knew a leader.
#[derive(Debug, Default)]
pub(super) struct LeadershipHistory {
    first_led: Option<Instant>,
    last_led: Option<Instant>,
    said: Option<Instant>,
}

impl LeadershipHistory {
    /// The leader has changed.
    pub(super) fn led_by(&mut self, now: Instant, leader: Option<ReplicaId>, term: Term) {
        match leader {
            Some(leader) => tracing::info!("replica {leader} leads in term {term}"),
            None => tracing::warn!("no replica leads in term {term}"),
        }
        if leader.is_some() {
            self.first_led.get_or_insert(now);
        }
        self.last_led = Some(now);
    }

    /// A replica says that the cell was restored and continues without this one. Rejected and
    /// logged if this replica's cell is alive.
    pub(super) fn superseded(
        &mut self,
        now: Instant,
        by: ReplicaId,
        why: &str,
        leader: Option<ReplicaId>,
        metrics: &Metrics,
    ) -> anyhow::Result<()> {
        if !self.is_alive(now, leader) {
            let anew = "remove this replica's directory and add it anew with bourg master add";
            return Err(Dismissed(format!("{why}: {anew}")).into());
        }
        metrics.core.restored_refused.inc();
        if self.said.is_none_or(|said| now.duration_since(said) >= SAY_EVERY) {
            self.said = Some(now);
            tracing::error!(
                "replica {by} continues from a restored checkpoint while this cell is alive, and \
                 was rejected ({why}). Machines that it reaches obey it. Stop it, and bring \
                 replica {by} back as a new one, with an empty directory: bourg master remove \
                 {by}, bourg master add"
            );
        }
        Ok(())
    }

    fn is_alive(&self, now: Instant, leader: Option<ReplicaId>) -> bool {
        let since = |at: Option<Instant>| at.map(|at| now.duration_since(at));
        let lately = leader.is_some() || since(self.last_led).is_some_and(|ago| ago < LED_LATELY);
        since(self.first_led).is_some_and(|ago| ago >= LED_FOR) && lately
    }
}

/// Logs that this replica leads, and the digest of its state: computed on another thread, since it
/// takes long for a large cell.
pub(super) fn say_leads(term: Term, cell: &Cell) {
    let cell = cell.clone();
    let say = move || {
        let (index, hash) = (cell.index(), formats::image::state_hash(&cell));
        tracing::info!("leads in term {term} at index {index}, state {}", hash.short());
    };
    // Without a thread, nothing is logged.
    let _unsaid = std::thread::Builder::new().name("says".to_owned()).spawn(say);
}

/// Logs that records of this replica were replaced.
pub(super) fn say_replaced(from: LogIndex, records: usize) {
    tracing::warn!(
        "{records} records from {from} on are replaced by the leader's: they were not committed, \
         unless a replica lost what it had acknowledged"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_lives_gives_way_to_nobody() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let leader = Some(ReplicaId(1));
        // When a leader appeared and disappeared, and whether the cell is alive a moment later.
        for (led, ceased, now, lives) in [
            (None, None, 100, false),
            (Some(1), None, 5, false),
            (Some(1), None, 11, true),
            (Some(1), None, 1_000, true),
            (Some(1), Some(50), 55, true),
            (Some(1), Some(50), 61, false),
            (Some(1), Some(2), 8, false),
        ] {
            let mut standing = LeadershipHistory::default();
            if let Some(led) = led {
                standing.led_by(at(led), leader, Term(1));
            }
            if let Some(ceased) = ceased {
                standing.led_by(at(ceased), None, Term(2));
            }
            let leads = leader.filter(|_| led.is_some() && ceased.is_none());
            assert_eq!(standing.is_alive(at(now), leads), lives, "{led:?} {ceased:?} {now}");
            let metrics = Metrics::default();
            let why = "replica 3 says so";
            let refused = standing.superseded(at(now), ReplicaId(3), why, leads, &metrics);
            assert_eq!(refused.is_ok(), lives);
            assert_eq!(metrics.core.restored_refused.get(), u64::from(lives));
        }
    }
}
