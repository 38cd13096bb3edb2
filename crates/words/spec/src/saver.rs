//! Savers (paper, section 2.4): what runs after a task's or an alloc's end, in its directory.

use model::Span;

/// A command that runs after a task's or an alloc's end, in its directory, again until it exits with
/// 0 or its time is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saver {
    /// The program and its arguments; may contain references such as `${task.index}`.
    pub cmd: Vec<String>,
    /// How long after the end it is tried; then the directory is deleted.
    pub time_limit: Span,
    /// The time from the end of an attempt to the next one.
    pub interval: Span,
}

impl Saver {
    /// The minimum of [`Self::interval`], and of [`Self::time_limit`].
    pub const INTERVAL_MIN: Span = Span::from_secs(1);

    /// A command that is tried for ten minutes, every ten seconds.
    #[must_use]
    pub fn of(cmd: Vec<String>) -> Self {
        Self { cmd, time_limit: Span::from_secs(600), interval: Span::from_secs(10) }
    }
}
