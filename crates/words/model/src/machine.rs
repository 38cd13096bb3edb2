//! A machine's description of itself and the ways in which an instance ends: types shared by
//! Borglet and cell.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::{Bytes, NoticeDelivery, Resources, Saving, Shortage, Span, Subnet, VolumeFill};

/// A machine's description of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineReport {
    /// The resources available to tasks.
    pub capacity: Resources,
    /// The ports available to tasks.
    pub ports: PortRange,
    /// The addresses available to tasks with a network of their own; `None` if it runs none.
    pub task_network: Option<Subnet>,
    /// The machine's attributes: kernel, platform, cores, …
    pub attributes: BTreeMap<String, String>,
    /// Ports of the range that are in use by something they were not assigned to, in ascending
    /// order; they are not available to tasks.
    pub held_ports: Vec<HeldPorts>,
    /// The data of ended instances that savers are to save, by instance.
    pub saving: Vec<Saving>,
    /// The resource that it is short of, or was lately.
    pub shortage: Option<Shortage>,
    /// Why it can run no tasks; `None` if it can.
    pub not_ready: Option<String>,
    /// How full its volumes are that tasks have had since its Borglet started, by name.
    pub volumes: Vec<VolumeFill>,
}

impl MachineReport {
    /// The foreign holder of a port, if there is one.
    #[must_use]
    pub fn holder_of(&self, port: u16) -> Option<&str> {
        let held = self.held_ports.iter().find(|held| held.ports.contains(port));
        held.map(|held| &*held.by)
    }
}

/// Consecutive ports in use by something they were not assigned to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldPorts {
    /// The ports.
    pub ports: PortRange,
    /// The holder for display: its control group and its program.
    pub by: String,
}

/// `31000-31002 by /system.slice/web.service (nginx)`, `31000 by …`.
impl fmt::Display for HeldPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PortRange { first, last } = self.ports;
        let by = self.by.escape_debug();
        if first == last {
            write!(f, "{first} by {by}")
        } else {
            write!(f, "{first}-{last} by {by}")
        }
    }
}

/// The range of ports that tasks may be assigned, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortRange {
    /// The first port; 0 for an empty range.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

impl PortRange {
    /// The number of ports.
    #[must_use]
    pub fn len(self) -> usize {
        match self.first {
            0 => 0,
            first => usize::from(self.last.saturating_sub(first)) + usize::from(self.last >= first),
        }
    }

    /// Whether the range is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether the range contains a port.
    #[must_use]
    pub fn contains(self, port: u16) -> bool {
        self.first != 0 && (self.first..=self.last).contains(&port)
    }
}

/// `31000-31255`.
impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = text.split_once('-').and_then(|(first, last)| {
            Some(Self { first: first.parse().ok()?, last: last.parse().ok()? })
        });
        match range {
            Some(range) if !range.is_empty() => Ok(range),
            _ => Err(format!(
                "'{}' is not a range of ports such as 31000-31255",
                text.escape_debug()
            )),
        }
    }
}

/// How an instance ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The program exited. Exit code 0 means that the task finished.
    Exited {
        /// The exit code.
        code: u8,
    },
    /// A signal killed it.
    Signalled {
        /// The signal's number.
        signal: u8,
    },
    /// It exceeded its memory limit.
    OutOfMemory {
        /// The limit.
        limit: Bytes,
        /// The peak usage.
        peak: Bytes,
    },
    /// The program could not be started.
    NotStarted {
        /// The cause.
        reason: String,
    },
    /// It was stopped because its health check failed too often.
    Unhealthy {
        /// The result of the last check.
        reason: String,
    },
    /// It was stopped because it violated a rule of the machine.
    BrokeRule {
        /// The rule and the violation.
        reason: String,
    },
    /// It was ended because the machine ran out of a resource, memory for instance. It is an
    /// eviction and no failure of the task.
    OutOfResources {
        /// The rule by which it was chosen, with its usage and what the machine had.
        reason: String,
    },
    /// It was stopped because it ran longer than its job allows.
    OverRuntime {
        /// The maximum.
        most: Span,
    },
    /// It was stopped because the order no longer contained it.
    Stopped,
    /// It is gone and its end was not observed: its shim died or the machine rebooted.
    Lost {
        /// What is known about it.
        reason: String,
    },
}

/// What an instance used from its start to its end, as far as it was measured, and whether it had
/// its notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FinalUsage {
    /// CPU time of all its processes; none where it was not measured.
    pub cpu_time: Option<Span>,
    /// The most memory that it had at any time; none where it was not measured.
    pub memory_peak: Option<Bytes>,
    /// Whether it had its notice; none if it was not stopped, or that is not known.
    pub notice: Option<NoticeDelivery>,
}

impl FinalUsage {
    /// Nothing was measured, and there was no notice.
    pub const UNMEASURED: Self = Self { cpu_time: None, memory_peak: None, notice: None };
}

/// `210 ms of CPU time, 52 MiB of memory at most`; empty where nothing was measured.
impl fmt::Display for FinalUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu = self.cpu_time.map(|time| format!("{time} of CPU time"));
        let memory = self.memory_peak.map(|peak| format!("{peak} of memory at most"));
        let parts: Vec<String> = cpu.into_iter().chain(memory).collect();
        f.write_str(&parts.join(", "))
    }
}

/// Displayed for people: `exit code 3`, `signal 9`, `out of memory: …`.
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exit code {code}"),
            Self::Signalled { signal } => write!(f, "signal {signal}"),
            Self::OutOfMemory { limit, peak } => {
                write!(f, "out of memory: it used {peak} of its limit of {limit}")
            }
            Self::NotStarted { reason } => write!(f, "not started: {}", reason.escape_debug()),
            Self::Unhealthy { reason } => write!(f, "unhealthy: {}", reason.escape_debug()),
            Self::BrokeRule { reason } => write!(f, "ended by rule: {}", reason.escape_debug()),
            Self::OutOfResources { reason } => {
                write!(f, "out of resources: {}", reason.escape_debug())
            }
            Self::OverRuntime { most } => write!(f, "it ran longer than maxRuntime ({most})"),
            Self::Stopped => f.write_str("stopped"),
            Self::Lost { reason } => write!(f, "lost: {}", reason.escape_debug()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ports_are_read_and_counted() {
        assert!("14-10".parse::<PortRange>().is_err() && "0-9".parse::<PortRange>().is_err());
        assert_eq!("10-14".parse::<PortRange>().map(PortRange::len), Ok(5));
        assert!(PortRange::default().is_empty() && !PortRange::default().contains(0));
    }
}
