//! Detects a leader whose own disk lags behind those of the other replicas. A majority commits
//! records without it, but it answers for a record only when it has it itself: with a full or stuck
//! disk it would acknowledge nothing for as long as it leads, and it leads as long as its
//! heartbeats arrive.

use model::{LogIndex, Span, Time};

/// After how many ticks of consensus leadership is transferred: soon enough that a change waits for
/// less than a second.
pub(crate) const PATIENCE_TICKS: u64 = 12;

/// A record that the other replicas have and this replica's disk lacks, and since when.
#[derive(Debug, Default)]
pub(crate) struct Behind(Option<(LogIndex, Time)>);

impl Behind {
    /// Compares the commit index with this disk; returns whether the disk has lagged for too long,
    /// at most once per that time.
    pub(crate) fn is_stuck(
        &mut self,
        now: Time,
        committed: LogIndex,
        durable: LogIndex,
        patience: Span,
    ) -> bool {
        let since = match self.0 {
            Some((record, since)) if record > durable => since,
            _ => {
                self.0 = (committed > durable).then_some((committed, now));
                return false;
            }
        };
        let stuck = now.since(since) > patience;
        if stuck {
            self.0 = Some((committed, now));
        }
        stuck
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_stuck_where_one_record_waits_for_too_long() {
        let mut behind = Behind::default();
        // The second, the committed and the durable index, and whether the disk is stuck.
        for (second, committed, durable, expected) in [
            (0, 5, 5, false),
            (1, 9, 5, false),
            (3, 20, 8, false),
            (4, 30, 9, false),
            (6, 40, 25, false),
            (7, 50, 30, false),
            (9, 60, 49, false),
            (10, 60, 49, true),
            (12, 60, 49, false),
            (13, 60, 49, true),
            (20, 60, 60, false),
            (40, 60, 60, false),
        ] {
            let (committed, durable) = (LogIndex(committed), LogIndex(durable));
            let now = Time::ZERO + Span::from_secs(second);
            let stuck = behind.is_stuck(now, committed, durable, Span::from_secs(2));
            assert_eq!(stuck, expected, "at {second} s");
        }
    }
}
