//! Counting what happens so often under load, or by somebody's will, that a line in the log for each
//! would be the next trouble.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often it is said at most.
const SAY: Duration = Duration::from_secs(1);

/// How often something has happened, and when that was last said.
#[derive(Debug, Default)]
pub(super) struct Tally {
    total: AtomicU64,
    /// When it was said, and how often it had happened by then.
    said: Mutex<Option<(Instant, u64)>>,
}

impl Tally {
    /// Counts it once more. `say` is given how often it has happened since it last said so, and in
    /// all; it is left out where it did so within the last second.
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

    /// How often it has happened.
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
