//! The moments that are given to everything that decides.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use model::Time;

/// A clock that starts at the wall clock's time and then only goes forward, at the pace of the
/// machine's monotonic clock: a wall clock that is set back or forth changes no timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Time,
    at: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { began: wall_clock(), at: Instant::now() }
    }

    pub(crate) fn now(&self) -> Time {
        self.began + model::Span(u64::try_from(self.at.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// The moment of a time as the runtime's timers know it.
    pub(crate) fn instant(&self, time: Time) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.at + time.since(self.began).to_std())
    }
}

/// What the wall clock says.
pub(crate) fn wall_clock() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}
