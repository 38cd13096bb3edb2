//! How tasks share the CPUs and disks of their machine (paper, section 6.2): one cgroup for each kind of
//! task, CPUs of their own, rates of disks.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{CgroupError, Hierarchy, v1, v2, write};
use crate::error::At;

/// The highest weight that the kernel accepts on v1 and v2.
const SHARES_MAX: &str = "262144";
const WEIGHT_MAX: &str = "10000";

/// How a cgroup shares CPUs and disks, beside its limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharing {
    /// Whether it runs only while the others below the same parent leave CPUs idle. Not needed below
    /// [`Tier::Batch`], where all do.
    #[serde(default)]
    pub batch: bool,
    /// The only CPUs on which it runs, by number; empty: those of its parent.
    #[serde(default)]
    pub cpus: Vec<u32>,
    /// The limit of its reads, and of its writes, on a disk; `None`: it is not changed.
    #[serde(default)]
    pub disk_rate: Option<DiskRate>,
}

/// A limit of the bytes read, and of those written, per second on a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskRate {
    /// The device's major number.
    pub major: u32,
    /// Its minor number: of the whole disk, not of a partition.
    pub minor: u32,
    /// Bytes per second; 0 for no limit.
    pub bytes: u64,
}

impl DiskRate {
    /// The name of the device in the files of cgroups.
    pub(super) fn device(&self) -> String {
        format!("{}:{}", self.major, self.minor)
    }
}

/// The kinds of tasks, each with a cgroup of its own below that of all tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Latency-sensitive tasks that share cores, each with a weight by its request.
    LatencySensitive,
    /// Latency-sensitive tasks with whole cores.
    Exclusive,
    /// Batch tasks. Together they have a tiny share; among themselves each has a weight by its request.
    Batch,
}

impl Tier {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::LatencySensitive, Self::Exclusive, Self::Batch];

    /// The name of its cgroup, below that of all tasks.
    #[must_use]
    pub fn group(self) -> &'static str {
        match self {
            Self::LatencySensitive => "ls",
            Self::Exclusive => "exclusive",
            Self::Batch => "batch",
        }
    }
}

/// What the kernel offers for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSharing {
    /// Whether batch tasks run only while latency-sensitive ones leave CPUs idle (`cpu.idle`, Linux
    /// 5.15). Otherwise they have the smallest weight.
    pub idle: bool,
    /// Whether tasks can have CPUs of their own.
    pub cpuset: bool,
}

/// Creates the cgroups of all [`Tier`]s below `parent`, or completes them. Tasks in them are not affected.
///
/// # Errors
/// When a controller is missing or not delegated, or the kernel returns an error.
pub fn make_tiers(hierarchy: &Hierarchy, parent: &str) -> Result<CpuSharing, CgroupError> {
    let mut idle = false;
    for tier in Tier::ALL {
        let name = format!("{parent}/{}", tier.group());
        let (directory, file, highest, lowest) = match hierarchy {
            Hierarchy::V1(mounts) => {
                v1::create(mounts, &name)?;
                (mounts.cpu.join(&name), "cpu.shares", SHARES_MAX, "2")
            }
            Hierarchy::V2 { root } => {
                v2::create_parent(root, &name)?;
                (root.join(&name), "cpu.weight", WEIGHT_MAX, "1")
            }
        };
        match tier {
            Tier::LatencySensitive | Tier::Exclusive => write(&directory.join(file), highest)?,
            Tier::Batch => {
                idle = v1::make_idle(&directory)?;
                if !idle {
                    write(&directory.join(file), lowest)?;
                }
            }
        }
    }
    Ok(CpuSharing { idle, cpuset: has_cpuset(hierarchy, parent) })
}

/// Whether the tasks below `parent` can have CPUs of their own. Creates what that needs.
fn has_cpuset(hierarchy: &Hierarchy, parent: &str) -> bool {
    let made = match hierarchy {
        Hierarchy::V1(mounts) => match &mounts.cpuset {
            Some(tree) => v1::create_cpuset(tree, &shared(parent)).is_ok(),
            None => false,
        },
        Hierarchy::V2 { .. } => true,
    };
    // Also tells whether the kernel accepts them at all: other programs may have taken CPUs away.
    made && shared_cpus(hierarchy, parent)
        .is_some_and(|file| fs::read_to_string(file).is_ok_and(|_| true))
}

fn shared(parent: &str) -> String {
    format!("{parent}/{}", Tier::LatencySensitive.group())
}

/// The file with the CPUs of latency-sensitive tasks that share.
fn shared_cpus(hierarchy: &Hierarchy, parent: &str) -> Option<PathBuf> {
    let tree = match hierarchy {
        Hierarchy::V1(mounts) => mounts.cpuset.as_ref()?,
        Hierarchy::V2 { root } => root,
    };
    Some(tree.join(shared(parent)).join("cpuset.cpus"))
}

/// Sets the CPUs on which the latency-sensitive tasks below `parent` run that share cores. Applies at once
/// to those that run.
///
/// # Errors
/// When there is no such controller, or the kernel returns an error.
pub fn set_shared_cpus(
    hierarchy: &Hierarchy,
    parent: &str,
    cpus: &[u32],
) -> Result<(), CgroupError> {
    let file = shared_cpus(hierarchy, parent);
    let file = file.ok_or(CgroupError::NoController { controller: "cpuset" })?;
    Ok(write(&file, &list(cpus))?)
}

/// Sets a rate in the cgroup `scratch`, which is created and removed again: whether the kernel limits the
/// rates of that disk.
///
/// # Errors
/// When it does not.
pub fn try_disk_rate(
    hierarchy: &Hierarchy,
    scratch: &str,
    rate: DiskRate,
) -> Result<(), CgroupError> {
    let (name, limits) = (scratch, Sharing { disk_rate: Some(rate), ..Sharing::default() });
    let group = super::TaskCgroup::open(hierarchy, name)?;
    let tried = match hierarchy {
        Hierarchy::V1(mounts) => v1::set_sharing(mounts, name, &limits).map(drop),
        Hierarchy::V2 { root } => {
            let file = root.join(name).join("io.max");
            v2::create(root, name).and_then(|()| {
                fs::metadata(&file).at("find", &file)?;
                Ok(write(&file, &format!("{0} rbps={1} wbps={1}", rate.device(), rate.bytes))?)
            })
        }
    };
    tried.and(group.remove())
}

/// CPUs as the kernel reads them: `0,2,3`.
pub(super) fn list(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}
