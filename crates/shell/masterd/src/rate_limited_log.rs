//! Rate-limited logging of events that are so frequent, or so easily caused by a client, that a log
//! line for each would make things worse.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The shortest time between two log lines.
const SAY: Duration = Duration::from_secs(1);

/// How often something has happened, and when that was last logged.
#[derive(Debug, Default)]
pub(super) struct Tally {
    total: AtomicU64,
    /// When it was logged, and the count at that time.
    said: Mutex<Option<(Instant, u64)>>,
}

impl Tally {
    /// Counts one event. Calls `say` with the number of events since its last call, and the total,
    /// at most once a second.
    pub(super) fn count(&self, say: impl FnOnce(u64, u64)) {
        let total = self.total.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match *said {
            Some((at, _)) if at.elapsed() < SAY => return,
            Some((_, before)) => before,
            None => 0,
        };
        *said = Some((Instant::now(), total));
        drop(said);
        say(total.saturating_sub(before), total);
    }

    /// The total.
    #[cfg(test)]
    pub(super) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_times_at_once_are_one_line() {
        let tally = Tally::default();
        let mut lines = Vec::new();
        for _ in 0..1_000 {
            tally.count(|times, total| lines.push((times, total)));
        }
        assert_eq!(lines[0], (1, 1));
        assert!(lines.len() <= 2, "a second may have passed: {lines:?}");
        assert_eq!(tally.total(), 1_000);
    }
}
