//! The rate at which tasks of lost machines are rescheduled: a token bucket with tasks as tokens.
//!
//! A machine costs as many tokens as it has tasks. One with more tasks than the bucket holds is
//! marked down when the bucket is full, and the following ones wait until the debt is paid. So the
//! rate holds however tasks are spread over machines.

use model::{Span, Time};

use crate::Settings;

/// Millionths of a token, so that the refill per microsecond is an integer.
const TOKEN: i64 = 1_000_000;

/// The bucket. It starts empty and fills while a new leader waits for its own polls, so that an
/// election does not allow another burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// Millionths of tokens; negative after a machine with more tasks than the bucket holds.
    tokens: i64,
    /// When it was last filled.
    at: Time,
}

impl Bucket {
    pub(crate) fn empty(now: Time) -> Self {
        Self { tokens: 0, at: now }
    }

    /// Adds the tokens that have accrued.
    pub(crate) fn fill(&mut self, now: Time, settings: &Settings) {
        let elapsed = i64::try_from(now.since(self.at).0).unwrap_or(i64::MAX);
        let new = elapsed.saturating_mul(settings.reschedule_rate.into());
        let most = i64::from(settings.reschedule_burst).saturating_mul(TOKEN);
        self.tokens = self.tokens.saturating_add(new).min(most);
        self.at = self.at.max(now);
    }

    /// Takes the tokens for a machine with this number of tasks. The error is when there will be
    /// enough, if ever.
    pub(crate) fn take(&mut self, tasks: usize, settings: &Settings) -> Result<(), Option<Time>> {
        let tasks = i64::try_from(tasks).unwrap_or(i64::MAX);
        if tasks == 0 {
            return Ok(());
        }
        let needed = tasks.min(settings.reschedule_burst.into()).saturating_mul(TOKEN);
        let missing = needed.saturating_sub(self.tokens);
        if missing <= 0 {
            self.tokens = self.tokens.saturating_sub(tasks.saturating_mul(TOKEN));
            return Ok(());
        }
        let rate = u64::from(settings.reschedule_rate);
        let wait = (rate > 0).then(|| Span(missing.unsigned_abs().div_ceil(rate)));
        Err(wait.map(|wait| self.at + wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers of a bucket with 10 tasks per second and at most 100 to machines, each with a
    /// moment in milliseconds and a number of tasks: success, or when there would be enough.
    fn said(wanted: &[(u64, usize)]) -> Vec<Result<(), Option<u64>>> {
        let settings = Settings::default();
        let mut bucket = Bucket::empty(Time::ZERO);
        let mut take = |(at, tasks): &(u64, usize)| {
            bucket.fill(Time(at * 1_000), &settings);
            let taken = bucket.take(*tasks, &settings);
            taken.map_err(|at| at.map(|at| at.0.div_ceil(1_000)))
        };
        wanted.iter().map(&mut take).collect()
    }

    #[test]
    fn a_machine_goes_when_there_are_tokens_for_its_tasks() {
        let at = |at| Err(Some(at));
        for (wanted, expected) in [
            // It starts empty, and a machine without tasks costs nothing.
            (
                &[(0, 1), (0, 0), (99, 1), (100, 1), (100, 1)][..],
                &[at(100), Ok(()), at(100), Ok(()), at(200)][..],
            ),
            // It is full after ten seconds, and does not overflow.
            (&[(99_000, 60), (99_000, 40), (99_000, 1)], &[Ok(()), Ok(()), at(99_100)]),
            // More tasks than it holds: taken when it is full, and the debt delays the next.
            (&[(9_000, 250), (10_000, 250), (10_000, 1)], &[at(10_000), Ok(()), at(25_100)]),
            // Meanwhile machines without tasks still cost nothing.
            (&[(10_000, 250), (10_000, 0)], &[Ok(()), Ok(())]),
            // A clock that is set back adds nothing.
            (&[(10_000, 100), (5_000, 1)], &[Ok(()), at(10_100)]),
        ] {
            assert_eq!(said(wanted), expected, "{wanted:?}");
        }
    }

    #[test]
    fn a_zero_rate_keeps_machines_with_tasks_and_zero_burst_spaces_them() {
        let mut bucket = Bucket::empty(Time::ZERO);
        let mut settings = Settings { reschedule_rate: 0, ..Settings::default() };
        bucket.fill(Time(u64::MAX), &settings);
        assert_eq!(bucket.take(1, &settings), Err(None));
        assert_eq!(bucket.take(0, &settings), Ok(()));
        settings = Settings { reschedule_rate: 1, reschedule_burst: 0, ..settings };
        bucket = Bucket::empty(Time::ZERO);
        assert_eq!(bucket.take(2, &settings), Ok(()));
        assert_eq!(bucket.take(2, &settings), Err(Some(Time(2_000_000))));
    }
}
