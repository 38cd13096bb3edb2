//! Cells of any size that look like those of 2019: **calibrated synthetic**, and to be called so.
//!
//! Of each of the eight cells of the 2019 trace, real are the machines' shapes and how many there
//! are of each, and pairs of CPU and memory that its instances asked for (`data/google2019`). The
//! rest is drawn, calibrated where there are published or measured figures:
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
//! All tasks are pending. Everything follows from shape, sizes and seed, in integers, and is the same
//! on every build.

mod generate;
mod tables;

pub use generate::generate;

use model::{Bytes, MilliCores, Resources};

use crate::google2011::Scale;

/// What the machines and requests of one cell look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    name: &'static str,
    /// What machines have, and how many of the real cell have it.
    machines: Vec<(Units, u64)>,
    /// What instances ask for, each with how many of the sample asked for it or one before it.
    requests: Vec<(Units, u64)>,
}

/// Shares of the largest machine, in 65,536ths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Units {
    cpu: u32,
    ram: u32,
}

impl Shape {
    /// The shape of a cell by its name, `2019-a` to `2019-h`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let tables = tables::TABLES.iter().find(|tables| tables.name == name)?;
        Some(Self {
            name: tables.name,
            machines: tables::machines(tables.machines),
            requests: tables::requests(tables.requests),
        })
    }

    /// The names that there are.
    pub fn names() -> impl Iterator<Item = &'static str> {
        tables::TABLES.iter().map(|tables| tables.name)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How many machines the real cell has.
    #[must_use]
    pub fn machines(&self) -> u64 {
        self.machines.iter().map(|(_, count)| count).sum()
    }
}

impl Units {
    const ONE: u32 = 1 << 16;

    /// With the largest machine as large as that of 2011 is taken to be. It is another machine, and a
    /// core another core: what one trace has never goes to the other's machines.
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
