//! The decisions of the Borglet (paper, section 3.3): orders and observations in, effects and a
//! report out.
//!
//! [`Borglet::step`] is deterministic and has no side effects: it returns [`Effect`]s, which a thin
//! shell carries out on real processes and the simulator on simulated ones. The Borglet obeys
//! orders and never requests them: it does not know who sends them, never initiates communication,
//! and keeps every task running when no orders arrive.
//!
//! Deliberately absent: processes, cgroups and files (crate `linux`), sockets and clocks.

mod capacity;
mod cores;
mod health;
mod launch;
mod limit;
mod log_retention;
mod shortage;
mod starvation;
mod state;
mod swarm;
mod usage;
mod volume_mark;

pub use cores::Topology;
pub use health::CheckKind;
pub use launch::{
    ALLOC_DIRECTORY, CLIENT_DIRECTORY, ImageDefaults, Launch, LaunchFile, NOTICE_DIRECTORY,
    NOTICE_FILE, PACKAGES_DIRECTORY, environment,
};
pub use log_retention::{Exceeded, KeepAtMost, KeptLog, outdated};
pub use poll::{
    CpuDistribution, Desired, DesiredAlloc, Measured, Notice, Order, OrderRefused, Report,
    SAMPLES_MAX, Stop, TaskReport, TaskStatus, Usage, UsageSample, UsageSubject, UsageWindow,
    VolumeDirectory, WINDOW, WINDOWS_MAX,
};
pub use shortage::{EASED_AFTER, INTERRUPTED_AFTER, PERSISTS_AFTER, REMEMBERED_FOR};
pub use starvation::{CpuCap, Greed};
pub use state::{
    ATTEMPT_TIME_MAX, Borglet, CpuReading, CpuRound, DiskAmount, DiskReport, DiskUse, Effect,
    HeldPort, Holder, Input, KEPT_DATA_MAX, KeptData, MemoryReport, Probe, Recovered,
    RecoveredAlloc, RecoveredAttempt, RecoveredData, RecoveredStatus, Rule, SAVERS_MAX,
    SaverLaunch, Settings, memory_reserve,
};
pub use swarm::{
    AskId, BANNED_FOR, Bans, ChunkSet, PEER_PAUSE, PeerFault, STALLED, SendPace, SourceId,
    SourceKind, Swarm, SwarmAction, SwarmState,
};
pub use usage::{Counters, Reading, Recorder, Round, TaskReading};
pub use volume_mark::{DirectoryMark, FoundDirectory, NotAMark, WrongDirectory, judge_directory};

#[cfg(test)]
mod tests;
