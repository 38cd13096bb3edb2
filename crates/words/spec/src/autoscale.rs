//! Vertical autoscaling: whether the limit of a job's tasks follows their usage, because users request
//! more than their tasks use (paper, section 5.5; trace v3, `vertical_scaling`).

use std::fmt;

use model::{Bytes, Dimension, MilliCores, Resources};

/// Whether an autoscaler may change the CPU and RAM of a job's limit. Limits in overrides stay as
/// they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Autoscale {
    /// It may not: the limit is the user's.
    #[default]
    Off,
    /// It may, within these bounds, both included.
    Constrained {
        /// The minimum.
        min: CpuRam,
        /// The maximum.
        max: CpuRam,
    },
    /// It may, from [`CpuRam::FLOOR`] to what the owner's quota allows.
    Full,
}

/// The part of a limit that an autoscaler sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuRam {
    /// CPU in the cell's normalised milli-cores.
    pub cpu: MilliCores,
    /// Memory in bytes.
    pub ram: Bytes,
}

impl CpuRam {
    /// The least that an autoscaler gives a task: 10 milli-cores, and 16 MiB.
    pub const FLOOR: Self = Self { cpu: MilliCores(10), ram: Bytes(16 << 20) };
    /// More than any task can have.
    const CEILING: Self = Self {
        cpu: MilliCores(crate::limits::CPU_MILLI_MAX),
        ram: Bytes(crate::limits::BYTES_MAX),
    };

    /// CPU and RAM of a limit.
    #[must_use]
    pub fn of(limit: Resources) -> Self {
        Self { cpu: limit.cpu, ram: limit.ram }
    }

    /// The limit with this CPU and RAM; its disk space and disk rate stay.
    #[must_use]
    pub fn over(self, limit: Resources) -> Resources {
        Resources { cpu: self.cpu, ram: self.ram, ..limit }
    }

    /// The nearest value within bounds, both included.
    #[must_use]
    pub fn within(self, (min, max): (Self, Self)) -> Self {
        Self {
            cpu: self.cpu.max(min.cpu).min(max.cpu.max(min.cpu)),
            ram: self.ram.max(min.ram).min(max.ram.max(min.ram)),
        }
    }

    /// Whether either part is more than the other's.
    #[must_use]
    pub fn exceeds(self, other: Self) -> bool {
        self.cpu > other.cpu || self.ram > other.ram
    }
}

/// `0.25 cores, 64 MiB`.
impl fmt::Display for CpuRam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cpu, ram) = (Dimension::Cpu.show(self.cpu.0), Dimension::Ram.show(self.ram.0));
        write!(f, "{cpu}, {ram}")
    }
}

impl Autoscale {
    /// The names of the modes.
    pub const NAMES: [&'static str; 3] = ["off", "constrained", "full"];

    /// Its name in descriptions.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Constrained { .. } => "constrained",
            Self::Full => "full",
        }
    }

    /// Whether an autoscaler may change the limit.
    #[must_use]
    pub fn is_on(self) -> bool {
        self != Self::Off
    }

    /// The least and the most that an autoscaler may set; `None` if it may set nothing.
    #[must_use]
    pub fn bounds(self) -> Option<(CpuRam, CpuRam)> {
        match self {
            Self::Off => None,
            Self::Constrained { min, max } => Some((min, max)),
            Self::Full => Some((CpuRam::FLOOR, CpuRam::CEILING)),
        }
    }
}

impl Autoscale {
    /// The same with at least so much memory, as a task needs whose scratch may take that.
    #[must_use]
    pub fn with_ram_from(self, least: Bytes) -> Self {
        match self.bounds() {
            Some((min, max)) if min.ram < least => Self::Constrained {
                min: CpuRam { ram: least, ..min },
                max: CpuRam { ram: max.ram.max(least), ..max },
            },
            _ => self,
        }
    }
}

/// `off`, `full`, or `constrained to 0.1 cores, 64 MiB … 2 cores, 1 GiB`.
impl fmt::Display for Autoscale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constrained { min, max } => write!(f, "constrained to {min} … {max}"),
            other => f.pad(other.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(cpu: u64, ram: u64) -> CpuRam {
        CpuRam { cpu: MilliCores(cpu), ram: Bytes(ram) }
    }

    #[test]
    fn the_nearest_amount_within_bounds_is_taken_by_each_part() {
        let bounds = (amount(100, 10), amount(200, 20));
        for (is, becomes) in [
            (amount(150, 15), amount(150, 15)),
            (amount(1, 99), amount(100, 20)),
            (amount(999, 0), amount(200, 10)),
        ] {
            assert_eq!(is.within(bounds), becomes);
        }
    }

    #[test]
    fn only_an_autoscaled_job_has_bounds() {
        assert_eq!(Autoscale::Off.bounds(), None);
        let (min, max) = (amount(1, 2), amount(3, 4));
        assert_eq!(Autoscale::Constrained { min, max }.bounds(), Some((min, max)));
        let (floor, ceiling) = Autoscale::Full.bounds().expect("bounds");
        assert!(floor == CpuRam::FLOOR && ceiling.exceeds(floor));
    }
}
