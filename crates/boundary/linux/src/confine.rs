//! Turning a process with root's powers into an unprivileged one, for good, but for what it may keep: the last steps before a program of the
//! user's is entered, by a task's init and by [`crate::enter`] alike.

use std::io;

use nix::sched::CloneFlags;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};

use crate::isolation::enter_user_namespace;
use crate::record::Launch;
use crate::{Isolation, seccomp, sys};

/// Open files that a task may have unless the machine allows less: many, but not so many that
/// programs which close them all one by one at their start take seconds.
const OPEN_FILES_SOFT: u64 = 65_536;
const OPEN_FILES_HARD: u64 = 524_288;

/// A step that failed, and why.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step}: {source}")]
pub(crate) struct ConfineError {
    step: &'static str,
    source: io::Error,
}

/// Does all of it; afterwards only `exec` and little else makes sense.
///
/// The order matters: each step needs what a later one takes away.
pub(crate) fn confine(launch: &Launch) -> Result<(), ConfineError> {
    // Not fatal: the value is a hint to the kernel, and only root outside a container may lower it.
    let _hint = std::fs::write("/proc/self/oom_score_adj", "0");
    limit_files().or_step("limit open files")?;
    umask(Mode::from_bits_truncate(0o022));
    match launch.isolation {
        Isolation::Jail => {
            sys::empty_bounding_set(&launch.capabilities)
                .or_step("empty the capability bounding set")?;
            // What is kept would be gone with root's id.
            prctl::set_keepcaps(!launch.capabilities.is_empty()).or_step("keep capabilities")?;
            let (uid, gid) = (Uid::from_raw(launch.uid), Gid::from_raw(launch.gid));
            setgroups(&[]).or_step("drop supplementary groups")?;
            setresgid(gid, gid, gid).or_step("set the group id")?;
            setresuid(uid, uid, uid).or_step("set the user id")?;
        }
        Isolation::Rootless => {
            enter_user_namespace(CloneFlags::empty(), launch.uid, launch.gid)
                .or_step("make the task's own user namespace")?;
            // Full again in the new namespace.
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
    // A core dump would land in the task's directory, outside every limit.
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
