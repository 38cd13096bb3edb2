//! The jail's `/sys/fs/cgroup`: the task's own cgroup, read-only, where runtimes look for the limits by
//! which they size themselves.
//!
//! The task is at the root of its cgroup namespace, so `/proc/self/cgroup` and these files agree. On v2
//! it is the directory itself; on v1 there is one for each controller, with the name that its tree has
//! on the host. Nothing of other tasks is visible.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

use super::JailError;
use super::mounts::bind_at;
use crate::Isolation;
use crate::cgroup::{Hierarchy, Shown, TaskCgroup};
use crate::error::At;
use crate::record::Launch;

/// Fills `top`, a new directory.
pub(super) fn show(launch: &Launch, top: &Path) -> Result<(), JailError> {
    // Without root it has none.
    if launch.isolation == Isolation::Rootless {
        return Ok(());
    }
    let group = TaskCgroup::open(&Hierarchy::detect()?, &launch.cgroup)?;
    for shown in group.shown() {
        match shown {
            Shown::Directory { source, name } => {
                let target = top.join(name);
                fs::create_dir_all(&target).at("create directory", &target)?;
                bind_at(&source, &target, false)?;
            }
            Shown::File { source, tree, name } => {
                let directory = top.join(tree);
                let target = directory.join(name);
                fs::create_dir_all(&directory).at("create directory", &directory)?;
                File::create_new(&target).at("create", &target)?;
                bind_at(&source, &target, false)?;
            }
            Shown::Link { name, to } => {
                let link = top.join(name);
                symlink(to, &link).at("create link", &link)?;
            }
        }
    }
    Ok(())
}
