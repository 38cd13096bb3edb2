//! Notices: what a task is told before it is killed (paper, section 2.3), and whether it had the
//! time that it was promised.

use std::fmt;

/// Why a task is given notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeReason {
    /// Its job is being killed.
    Killed,
    /// A task of higher priority needs its resources.
    Preempted,
    /// Its machine is being drained.
    MachineShutdown,
    /// It is restarted with another description.
    Updated,
    /// Its health check failed too often.
    Unhealthy,
    /// It ran longer than its job allows.
    OverRuntime,
    /// Anything else.
    #[default]
    Other,
}

impl NoticeReason {
    /// Every reason, in the order of its number.
    pub const ALL: [Self; 7] = [
        Self::Killed,
        Self::Preempted,
        Self::MachineShutdown,
        Self::Updated,
        Self::Unhealthy,
        Self::OverRuntime,
        Self::Other,
    ];

    /// Its word in the file that `BOURG_NOTICE` names, and in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Preempted => "preempted",
            Self::MachineShutdown => "drained",
            Self::Updated => "updated",
            Self::Unhealthy => "unhealthy",
            Self::OverRuntime => "over-runtime",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for NoticeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a task that was stopped had its notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeDelivery {
    /// In full: it had all of its time, or ended by itself before the deadline.
    Full,
    /// In part: it was killed before its deadline.
    Partial,
    /// It was not told.
    NotGiven,
}

impl NoticeDelivery {
    /// Every delivery.
    pub const ALL: [Self; 3] = [Self::Full, Self::Partial, Self::NotGiven];

    /// Its word in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial => "partial",
            Self::NotGiven => "none",
        }
    }
}

/// `notice in full`, `notice in part`, `no notice`.
impl fmt::Display for NoticeDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "notice in full",
            Self::Partial => "notice in part",
            Self::NotGiven => "no notice",
        })
    }
}
