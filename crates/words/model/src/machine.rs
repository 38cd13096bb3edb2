//! What a machine says of itself, and what happened to the tasks it ran: the words that Borglet and
//! cell share.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::{Bytes, Resources, Span};

/// What a machine says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineReport {
    /// What tasks can have of it.
    pub capacity: Resources,
    /// The ports that tasks can have.
    pub ports: PortRange,
    /// What it is: kernel, platform, cores, …
    pub attributes: BTreeMap<String, String>,
    /// Ports of its range that something holds which they were not given to, in order; no task can
    /// have them. From level 3 of the state machine on.
    pub held_ports: Vec<HeldPorts>,
}

impl MachineReport {
    /// The holder of a port that it was not given; none where there is none.
    #[must_use]
    pub fn holder_of(&self, port: u16) -> Option<&str> {
        let held = self.held_ports.iter().find(|held| held.ports.contains(port));
        held.map(|held| &*held.by)
    }
}

/// Neighbouring ports that something holds which they were not given to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldPorts {
    /// Which ports.
    pub ports: PortRange,
    /// What holds them, as people read it: its control group and its program.
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

/// The ports of a machine that tasks can have, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortRange {
    /// The first; 0 where there are none.
    pub first: u16,
    /// The last.
    pub last: u16,
}

impl PortRange {
    /// How many ports it has.
    #[must_use]
    pub fn len(self) -> usize {
        match self.first {
            0 => 0,
            first => usize::from(self.last.saturating_sub(first)) + usize::from(self.last >= first),
        }
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether a port is in it.
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
    /// Its program exited; with 0 it has finished.
    Exited {
        /// The exit code.
        code: u8,
    },
    /// A signal ended it.
    Signalled {
        /// The signal's number.
        signal: u8,
    },
    /// It wanted more memory than its limit.
    OutOfMemory {
        /// Its limit.
        limit: Bytes,
        /// The most it had used.
        peak: Bytes,
    },
    /// Its program could not be started.
    NotStarted {
        /// Why.
        reason: String,
    },
    /// Its health check failed too often, and it was stopped.
    Unhealthy {
        /// What the last check said.
        reason: String,
    },
    /// It broke a rule of its machine, and was ended for it. From level 3 of the state machine on.
    BrokeRule {
        /// Which rule, and how.
        reason: String,
    },
    /// It was ended because an order no longer named it.
    Stopped,
    /// It is gone, and nobody saw how: its shim died or its machine was rebooted.
    Lost {
        /// What is known.
        reason: String,
    },
}

/// What an instance used from its start to its end, as far as it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FinalUsage {
    /// CPU time of all its processes; none where it was not measured.
    pub cpu_time: Option<Span>,
    /// The most memory that it had at any time; none where it was not measured.
    pub memory_peak: Option<Bytes>,
}

impl FinalUsage {
    /// Nothing was measured.
    pub const UNMEASURED: Self = Self { cpu_time: None, memory_peak: None };
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

/// What happened, as people read it: `exit code 3`, `signal 9`, `out of memory: …`.
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
