//! The rules by which a Borglet ends tasks.

/// A rule by which a task is ended, without notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The machine ran out of memory, and the task used more than its limit.
    MemoryAboveLimit,
    /// The machine ran out of memory, and no task with a lower priority was left.
    MemoryPriority,
    /// The disk was nearly full, and the task used more than its request.
    DiskFull,
    /// The task's files took more than its request.
    DiskAboveRequest,
    /// The task held a port that it was not given.
    Port,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 5] = [
        Self::MemoryAboveLimit,
        Self::MemoryPriority,
        Self::DiskFull,
        Self::DiskAboveRequest,
        Self::Port,
    ];

    /// Its name in metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MemoryAboveLimit => "memory-above-limit",
            Self::MemoryPriority => "memory-priority",
            Self::DiskFull => "disk-full",
            Self::DiskAboveRequest => "disk-above-request",
            Self::Port => "port",
        }
    }
}
