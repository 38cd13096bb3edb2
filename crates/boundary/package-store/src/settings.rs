//! Bounds and timeouts of a store.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::{SharedBound, Span, Time};

/// How old what nothing refers to becomes before it is collected: one day.
pub const GRACE: Span = Span::from_secs(86_400);

/// The chunks in the index of a process; one in two packs counts twice.
pub const CHUNKS_MAX: SharedBound = SharedBound::new(1 << 24);

/// The packs in the index of a process.
pub const PACKS_MAX: usize = 1 << 20;

/// The source of the moments in packs.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Time + Send + Sync>);

impl Clock {
    /// A clock that calls a function.
    pub fn new(now: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The current moment.
    #[must_use]
    pub fn now(&self) -> Time {
        (self.0)()
    }
}

impl Default for Clock {
    /// The machine's clock.
    fn default() -> Self {
        Self::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Time(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
        })
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// How a process uses a store. Its processes may differ in everything except [`Self::grace`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// The maximum number of chunks in the index, of all packs; users share it. Each takes up to 64 bytes of memory.
    pub chunks_max: SharedBound,
    /// The maximum number of packs in the index.
    pub packs_max: usize,
    /// How old a pack becomes before it can be collected, and how long an entry without bytes protects a chunk. An upload
    /// must be complete within half of it.
    pub grace: Span,
    /// The timeout of each operation on an object: a pack of at most 32 MiB written or read.
    pub timeout: Duration,
    /// The clock whose moments are written into packs.
    pub clock: Clock,
}

impl Default for Settings {
    /// 16,777,216 chunks (at most 1 GiB of memory), 1,048,576 packs, a grace of a day, a timeout of a minute.
    fn default() -> Self {
        Self {
            chunks_max: CHUNKS_MAX,
            packs_max: PACKS_MAX,
            grace: GRACE,
            timeout: Duration::from_secs(60),
            clock: Clock::default(),
        }
    }
}
