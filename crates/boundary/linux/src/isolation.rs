//! How tasks are isolated from the machine: with root privileges, or in a user namespace without
//! them.
//!
//! Without root a task gets a user namespace in which its init may build the same jail, and the
//! task itself a second one inside the first. The second one protects the init: outside of it the
//! task has no capability, and so may not trace a process of the same user with more rights.
//!
//! Not here: the jail, which is the same in both cases, and cgroups, which need root.

use std::fs;
use std::io::{self, Write};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};
use serde::{Deserialize, Serialize};

use crate::sys;

/// How tasks are isolated from the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Root builds the jail: a uid for every task, cgroups, limits.
    #[default]
    Jail,
    /// A user namespace of the caller: the same jail without cgroups, and therefore without limits
    /// and usage.
    Rootless,
}

impl Isolation {
    /// The value of a machine's attribute `isolation`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Jail => "jail",
            Self::Rootless => "rootless",
        }
    }
}

/// Moves this process, which must have one thread, into a new user namespace in which its own user
/// and group are mapped to `uid` and `gid` and nothing else is mapped; also into the namespaces
/// `more`.
///
/// It then has every capability in the new namespace, and none outside. Supplementary groups stay,
/// as unmapped groups: only root may drop them.
pub(crate) fn enter_user_namespace(more: CloneFlags, uid: u32, gid: u32) -> io::Result<()> {
    // Read now: without a mapping the ids are those of nobody.
    let (own_uid, own_gid) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | more)?;
    // The kernel requires this for a group mapping by an unprivileged user.
    fs::write("/proc/self/setgroups", "deny")?;
    write_map("/proc/self/uid_map", uid, own_uid.as_raw())?;
    write_map("/proc/self/gid_map", gid, own_gid.as_raw())
}

/// Maps one id. Uses the stack, because a forked child of a process with threads must not allocate.
fn write_map(path: &str, inside: u32, outside: u32) -> io::Result<()> {
    let mut line = [0; 32];
    let mut rest = &mut line[..];
    write!(rest, "{inside} {outside} 1")?;
    let left = rest.len();
    fs::write(path, &line[..line.len() - left])
}

/// What an unprivileged process may not do here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Create a user namespace at all.
    Namespace,
    /// Mount anything in one.
    Mounts,
    /// Mount `/proc` in one.
    Proc,
}

/// Tests what an unprivileged process may not do here; `None` if everything is allowed.
///
/// # Errors
/// When no process can be forked.
pub(crate) fn try_user_namespace() -> io::Result<Option<Refusal>> {
    let namespaces = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
    let refused = sys::in_child(|| {
        if enter_user_namespace(namespaces, 0, 0).is_err() {
            return 1;
        }
        let none: Option<&str> = None;
        let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        if mount(none, "/", none, flags, none).is_err() {
            return 2;
        }
        // Only a process of the new pid namespace may mount it.
        let shown = sys::in_child(|| {
            let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
            mount(Some("proc"), "/proc", Some("proc"), flags, none).is_err().into()
        });
        if matches!(shown, Ok(0)) { 0 } else { 3 }
    })?;
    Ok(match refused {
        0 => None,
        2 => Some(Refusal::Mounts),
        3 => Some(Refusal::Proc),
        _ => Some(Refusal::Namespace),
    })
}

impl Refusal {
    /// What is missing and what to do about it, as the second half of a sentence.
    pub(crate) fn explain(self) -> &'static str {
        let sysctl = |name: &str, value: &str| {
            fs::read_to_string(format!("/proc/sys/{name}")).is_ok_and(|is| is.trim() == value)
        };
        if sysctl("kernel/unprivileged_userns_clone", "0") {
            return "user namespaces are switched off: start it with sudo, or allow them with \
                    `sudo sysctl kernel.unprivileged_userns_clone=1`";
        }
        if sysctl("user/max_user_namespaces", "0") {
            return "user namespaces are switched off: start it with sudo, or allow them with \
                    `sudo sysctl user.max_user_namespaces=15000`";
        }
        if self != Self::Proc && sysctl("kernel/apparmor_restrict_unprivileged_userns", "1") {
            return "AppArmor restricts user namespaces: start it with sudo, or allow them with \
                    `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`";
        }
        match self {
            Self::Namespace => {
                "this kernel or container refuses user namespaces: start it with sudo, or outside of \
                 the container"
            }
            Self::Mounts => {
                "nothing may be mounted in a user namespace here: start it with sudo, or allow it in \
                 the security module"
            }
            Self::Proc => {
                "/proc is partly hidden here, as in a container, so that tasks cannot get their own: \
                 start it with sudo, or outside of the container"
            }
        }
    }
}
