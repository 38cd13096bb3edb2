//! Cells of any size that resemble those of 2019. They are **calibrated synthetic** and must be
//! called so.
//!
//! Real are, for each of the eight cells of the 2019 trace, the machine shapes with their counts,
//! and pairs of CPU and memory requests of instances (`data/google2019`). The rest is drawn,
//! calibrated where published or measured figures exist:
//!
//! | what | how |
//! |---|---|
//! | tasks of a job | 75 % have one (measured in the 2011 trace); of the others, Pareto with α 0.69 as the published one of CPU by jobs, in steps of powers of two |
//! | requests | a job draws one of the cell's pairs for its tasks; one job in four a second one for half of them (2011: 937 of 3,981 jobs have several) |
//! | bands and scheduling classes | as the tasks of the 2011 cell have them at time 0, and 2 % of the jobs mid, a band that 2011 did not have |
//! | different machines | 15 % of the jobs (2011: 596 of 3,981) |
//! | racks, switches, power | chosen: 40 machines a rack, of one shape but at its borders; 5 racks a switch; a power domain has 5 racks, of different switches |
//! | constraints | chosen: 4 % of the jobs want a platform, 2 % prefer one, 1 % avoid one |
//! | disk | every machine has the largest's, and nobody asks for any: the trace has none |
//!
//! All tasks are pending. Everything is derived from shape, sizes and seed, in integers, and is the
//! same in every build.

mod generate;
mod tables;

pub use generate::generate;

use model::{Bytes, MilliCores, Resources};

use crate::google2011::Scale;

/// The distributions of one cell's machines and requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    name: &'static str,
    /// Machine capacities, each with its count in the real cell.
    machines: Vec<(Units, u64)>,
    /// Requests of instances, each with the cumulative count in the sample.
    requests: Vec<(Units, u64)>,
}

/// Shares of the largest machine, in units of 1/65,536.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Units {
    cpu: u32,
    ram: u32,
}

impl Shape {
    /// The shape of a cell by name, `2019-a` to `2019-h`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let tables = tables::TABLES.iter().find(|tables| tables.name == name)?;
        Some(Self {
            name: tables.name,
            machines: tables::machines(tables.machines),
            requests: tables::requests(tables.requests),
        })
    }

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        tables::TABLES.iter().map(|tables| tables.name)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The number of machines of the real cell.
    #[must_use]
    pub fn machines(&self) -> u64 {
        self.machines.iter().map(|(_, count)| count).sum()
    }
}

impl Units {
    const ONE: u32 = 1 << 16;

    /// Scaled with the same largest machine as for 2011. It is a different machine with different
    /// cores: never combine requests of one trace with machines of the other.
    fn resources(self) -> Resources {
        let largest = Scale::default().largest;
        let part = |units: u32, whole: u64| u64::from(units) * whole / u64::from(Self::ONE);
        Resources {
            cpu: MilliCores(part(self.cpu, largest.cpu.0)),
            ram: Bytes(part(self.ram, largest.ram.0)),
            ..Resources::default()
        }
    }
}
