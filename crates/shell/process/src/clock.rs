//! The clock that supplies the moments for every decision.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use model::Time;

/// A clock that starts at a given time and advances with the machine's monotonic clock: wall-clock
/// jumps do not affect timers.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: Time,
    at: Instant,
}

impl Clock {
    /// A clock that starts at the current wall-clock time.
    pub fn start() -> Self {
        Self::showing(wall_clock())
    }

    /// A clock that starts at `time`.
    pub fn showing(time: Time) -> Self {
        Self { began: time, at: Instant::now() }
    }

    /// Advances the clock to `time`, unless that is in the past.
    pub fn advance_to(&mut self, time: Time) {
        if self.now() < time {
            *self = Self::showing(time);
        }
    }

    /// The current time.
    pub fn now(&self) -> Time {
        self.began + model::Span(u64::try_from(self.at.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// Converts a time to an instant for the runtime's timers.
    pub fn instant(&self, time: Time) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.at + time.since(self.began).to_std())
    }
}

/// The current wall-clock time.
pub fn wall_clock() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Span;

    #[test]
    fn the_clock_moves_forward_and_never_back() {
        let mut clock = Clock::showing(Time(5_000_000));
        let later = Time::ZERO + Span::from_secs(5 * 3_600);
        clock.advance_to(later);
        assert!(later <= clock.now() && clock.now() < later + Span::from_secs(3_600));
        clock.advance_to(Time::ZERO);
        assert!(later <= clock.now());
        // The distance of a timer does not change.
        let wait = clock.instant(clock.now() + Span::from_secs(60)) - tokio::time::Instant::now();
        assert!(wait.as_secs() < 61, "{wait:?}");
    }
}
