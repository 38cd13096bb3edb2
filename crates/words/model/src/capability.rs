//! Capabilities of users beyond their own jobs, and the kernel privileges that a task may request.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A privilege that a user holds beyond their own jobs (paper, section 2.5). The list is closed:
/// configuration cannot add capabilities. Administrators have all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// Act on any job as its owner may: kill it, read its logs.
    AdministerJobs,
    /// Grant and revoke quota, set a band's overselling factor and turn metering on or off.
    GrantQuota,
    /// Drain machines and return them to service.
    DrainMachines,
    /// Submit jobs that opt out of resource estimation, so that their reservations stay at their
    /// limits.
    NoEstimation,
    /// Submit jobs whose tasks request [`KernelFeature`]s.
    KernelFeatures,
    /// Run commands inside other users' tasks.
    ExecTasks,
    /// Set the limits of other users' jobs, where their descriptions let an autoscaler do so.
    Autoscale,
    /// Be an administrator: do everything in the cell, and make others administrators.
    AdministerCell,
    /// Save checkpoints, which contain all data of all users, for backups.
    SaveCheckpoints,
    /// Submit jobs whose tasks ask for ports with fixed numbers on the addresses of their machines.
    StaticPorts,
    /// Move other users' running tasks to other machines, within their disruption budgets.
    MoveTasks,
}

/// A Linux capability that a task keeps, by its kernel name (capabilities(7)). Capabilities that
/// would let a task escape its jail are not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KernelFeature {
    /// Lock memory.
    IpcLock,
    /// Change the machine's network: interfaces, routes, filters.
    NetAdmin,
    /// Listen on ports below 1024.
    NetBindService,
    /// Send and receive raw packets.
    NetRaw,
    /// Read performance counters.
    Perfmon,
    /// Raise the task's own scheduling priority on the machine.
    SysNice,
    /// Trace other processes of the same task.
    SysPtrace,
}

/// The text is not a member of a closed list.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{}' is not a {what}: use one of {}", .text.escape_debug(), .known.join(", "))]
pub struct NotListed {
    /// The text that was given.
    pub text: String,
    /// The kind of word that was expected.
    pub what: &'static str,
    /// The valid words.
    pub known: Vec<&'static str>,
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Self; 11] = [
        Self::AdministerJobs,
        Self::GrantQuota,
        Self::DrainMachines,
        Self::NoEstimation,
        Self::KernelFeatures,
        Self::ExecTasks,
        Self::Autoscale,
        Self::AdministerCell,
        Self::SaveCheckpoints,
        Self::StaticPorts,
        Self::MoveTasks,
    ];

    /// The name used in commands and answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AdministerJobs => "administer-jobs",
            Self::GrantQuota => "grant-quota",
            Self::DrainMachines => "drain-machines",
            Self::NoEstimation => "no-estimation",
            Self::KernelFeatures => "kernel-features",
            Self::ExecTasks => "exec-tasks",
            Self::Autoscale => "autoscale",
            Self::AdministerCell => "administer-cell",
            Self::SaveCheckpoints => "save-checkpoints",
            Self::StaticPorts => "static-ports",
            Self::MoveTasks => "move-tasks",
        }
    }
}

impl KernelFeature {
    /// All kernel features.
    pub const ALL: [Self; 7] = [
        Self::IpcLock,
        Self::NetAdmin,
        Self::NetBindService,
        Self::NetRaw,
        Self::Perfmon,
        Self::SysNice,
        Self::SysPtrace,
    ];

    /// The names, in the order of [`Self::ALL`].
    pub const NAMES: [&str; 7] = [
        Self::IpcLock.name(),
        Self::NetAdmin.name(),
        Self::NetBindService.name(),
        Self::NetRaw.name(),
        Self::Perfmon.name(),
        Self::SysNice.name(),
        Self::SysPtrace.name(),
    ];

    /// The name used in files: the kernel's, without `CAP_`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::IpcLock => "ipc-lock",
            Self::NetAdmin => "net-admin",
            Self::NetBindService => "net-bind-service",
            Self::NetRaw => "net-raw",
            Self::Perfmon => "perfmon",
            Self::SysNice => "sys-nice",
            Self::SysPtrace => "sys-ptrace",
        }
    }
}

impl KernelFeature {
    /// The kernel's number for the capability.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::NetBindService => 10,
            Self::NetAdmin => 12,
            Self::NetRaw => 13,
            Self::IpcLock => 14,
            Self::SysPtrace => 19,
            Self::SysNice => 23,
            Self::Perfmon => 38,
        }
    }
}

impl FromStr for Capability {
    type Err = NotListed;

    fn from_str(text: &str) -> Result<Self, NotListed> {
        Self::ALL.into_iter().find(|capability| capability.name() == text).ok_or_else(|| {
            let known = Self::ALL.into_iter().map(Self::name).collect();
            NotListed { text: text.to_owned(), what: "capability", known }
        })
    }
}

impl FromStr for KernelFeature {
    type Err = NotListed;

    fn from_str(text: &str) -> Result<Self, NotListed> {
        Self::ALL.into_iter().find(|feature| feature.name() == text).ok_or_else(|| {
            let known = Self::NAMES.into();
            NotListed { text: text.to_owned(), what: "kernel feature", known }
        })
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for KernelFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back_and_another_is_answered_with_the_list() {
        for capability in Capability::ALL {
            assert_eq!(capability.name().parse(), Ok(capability));
        }
        for feature in KernelFeature::ALL {
            assert_eq!(feature.name().parse(), Ok(feature));
        }
        assert_eq!(
            "root".parse::<Capability>().expect_err("none").to_string(),
            "'root' is not a capability: use one of administer-jobs, grant-quota, drain-machines, \
             no-estimation, kernel-features, exec-tasks, autoscale, administer-cell, save-checkpoints, \
             static-ports, move-tasks"
        );
        assert!("sys-admin".parse::<KernelFeature>().is_err(), "a way out of the jail");
    }
}
