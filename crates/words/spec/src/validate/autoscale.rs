//! The bounds of vertical autoscaling.

use model::{Bytes, MilliCores};

use thiserror::Error;

use super::{Problems, limits};
use crate::path::Location;
use crate::{Autoscale, CpuRam, JobSpec};

/// A problem of autoscaling that only descriptions have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AutoscaleProblem {
    /// It is constrained, and has no bounds.
    #[error(
        "needs bounds: {{ mode: 'constrained', min: {{ cpu: 0.1, ram: '64 MiB' }}, max: {{ cpu: 2, ram: '1 GiB' \
         }} }}, or use 'full'"
    )]
    NoBounds,
    /// It has bounds, and is not constrained.
    #[error("applies only to mode: 'constrained': leave it out, or change the mode")]
    BoundsUnused,
    /// The limit of a user's description, which only an autoscaler's change leaves behind.
    #[error("is added by the cell, for jobs that are autoscaled: leave it out")]
    OwnLimit,
}

impl Problems {
    pub(super) fn autoscale(&mut self, job: &JobSpec) {
        let at = Location::TOP.field("autoscale");
        if job.own_limit.is_some() && !job.autoscale.is_on() {
            self.add(&at.field("own"), AutoscaleProblem::OwnLimit.into());
        }
        if job.kind.is_alloc_set() {
            return self.of_a_task(&at, job.autoscale.is_on());
        }
        let Autoscale::Constrained { min, max } = job.autoscale else { return };
        let least = CpuRam { cpu: MilliCores(1), ram: Bytes(limits::RAM_BYTES_MIN) };
        let most = CpuRam { cpu: MilliCores(limits::CPU_MILLI_MAX), ram: Bytes(limits::BYTES_MAX) };
        let before = self.problems.len();
        self.amount(&at.field("min"), min, least, most);
        if self.problems.len() == before {
            self.amount(&at.field("max"), max, min, most);
        }
        // A limit out of bounds would change before anything was measured.
        if self.problems.len() == before {
            self.amount(&Location::TOP, CpuRam::of(job.task.limit), min, max);
        }
    }

    fn amount(&mut self, at: &Location<'_>, is: CpuRam, least: CpuRam, most: CpuRam) {
        self.range(&at.field("cpu"), is.cpu, least.cpu, most.cpu);
        self.range(&at.field("ram"), is.ram, least.ram, most.ram);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::testing::job;

    fn amount(cpu: u64, mib: u64) -> CpuRam {
        CpuRam { cpu: MilliCores(cpu), ram: Bytes(mib << 20) }
    }

    fn problems(min: CpuRam, max: CpuRam, change: fn(&mut JobSpec)) -> Vec<String> {
        let mut job = JobSpec { autoscale: Autoscale::Constrained { min, max }, ..job() };
        change(&mut job);
        job.problems().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn bounds_are_ordered_and_hold_the_limit() {
        let (none, as_is) = ([""; 0], |_: &mut JobSpec| {});
        let (min, max) = (amount(100, 64), amount(200, 128));
        assert_eq!(problems(min, max, as_is), none);
        assert_eq!(problems(min, min, as_is), none);
        assert_eq!(
            problems(amount(0, 0), max, as_is),
            [
                "autoscale.min.cpu: must be 0.001 cores to 1099511627.776 cores, is 0 cores",
                "autoscale.min.ram: must be 4 MiB to 1024 PiB, is 0 B",
            ]
        );
        assert_eq!(
            problems(max, min, as_is),
            [
                "autoscale.max.cpu: must be 0.2 cores to 1099511627.776 cores, is 0.1 cores",
                "autoscale.max.ram: must be 128 MiB to 1024 PiB, is 64 MiB",
            ]
        );
        assert_eq!(
            problems(min, max, |job| job.task.limit.ram = Bytes(1 << 30)),
            ["ram: must be 64 MiB to 128 MiB, is 1 GiB"]
        );
    }

    #[test]
    fn an_alloc_set_is_not_autoscaled() {
        let (min, max) = (amount(100, 64), amount(200, 128));
        let of_set = problems(min, max, |job| {
            job.kind = Kind::AllocSet { users: [].into() };
            job.task.cmd.clear();
        });
        let says = "autoscale: applies to tasks only, and an alloc runs no program: leave it out";
        assert_eq!(of_set, [says]);
    }
}
