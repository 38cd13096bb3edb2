//! Irrevocably turns a root process into an unprivileged one, except for capabilities it may keep:
//! the last steps before a user's program is executed, used by a task's init and by
//! [`crate::enter`].

use std::io;

use nix::sched::CloneFlags;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};

use crate::isolation::enter_user_namespace;
use crate::record::Launch;
use crate::{Isolation, seccomp, sys};

/// The open file limits of a task, unless the machine allows fewer: high, but not so high that
/// programs that close all possible descriptors at their start take seconds.
const OPEN_FILES_SOFT: u64 = 65_536;
const OPEN_FILES_HARD: u64 = 524_288;

/// A failed step with its error.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step}: {source}")]
pub(crate) struct ConfineError {
    step: &'static str,
    source: io::Error,
}

/// Executes all steps; afterwards the process should only `exec`.
///
/// The order matters: each step needs privileges that a later one drops.
pub(crate) fn confine(launch: &Launch) -> Result<(), ConfineError> {
    // Not fatal: the value is a hint to the kernel, and only root outside a container may lower it.
    let order = launch.oom_score_adj.min(1_000).to_string();
    let _hint = std::fs::write("/proc/self/oom_score_adj", order);
    limit_files().or_step("limit open files")?;
    umask(Mode::from_bits_truncate(0o022));
    match launch.isolation {
        Isolation::Jail => {
            sys::empty_bounding_set(&launch.capabilities)
                .or_step("empty the capability bounding set")?;
            // Otherwise changing the user id would drop all capabilities.
            prctl::set_keepcaps(!launch.capabilities.is_empty()).or_step("keep capabilities")?;
            let (uid, gid) = (Uid::from_raw(launch.uid), Gid::from_raw(launch.gid));
            setgroups(&[]).or_step("drop supplementary groups")?;
            setresgid(gid, gid, gid).or_step("set the group id")?;
            setresuid(uid, uid, uid).or_step("set the user id")?;
        }
        Isolation::Rootless => {
            enter_user_namespace(CloneFlags::empty(), launch.uid, launch.gid)
                .or_step("make the task's own user namespace")?;
            // The new namespace has a full set again.
            sys::empty_bounding_set(&[]).or_step("empty the capability bounding set")?;
        }
    }
    sys::drop_capabilities(&launch.capabilities).or_step("drop capabilities")?;
    prctl::set_no_new_privs().or_step("set no_new_privs")?;
    sys::install_seccomp(&mut seccomp::filter(&launch.capabilities))
        .or_step("install the seccomp filter")
}

fn limit_files() -> nix::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let hard = hard.min(OPEN_FILES_HARD);
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(OPEN_FILES_SOFT), hard)?;
    // A core dump would be written to the task's directory, outside every limit.
    setrlimit(Resource::RLIMIT_CORE, 0, 0)
}

trait OrStep<T> {
    fn or_step(self, step: &'static str) -> Result<T, ConfineError>;
}

impl<T, E: Into<io::Error>> OrStep<T> for Result<T, E> {
    fn or_step(self, step: &'static str) -> Result<T, ConfineError> {
        self.map_err(|error| ConfineError { step, source: error.into() })
    }
}
