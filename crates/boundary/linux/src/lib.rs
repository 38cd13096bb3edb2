//! Linux: everything of a task on a machine that is below the Borglet's decisions.
//!
//! ```text
//! Borglet ── task::TaskDirectory::start ──▶ shim (own session, outside the task's cgroup)
//!                                             └─ init (pid 1 of a new pid namespace, in the cgroup)
//!                                                  └─ the task (own uid, no capabilities, jailed)
//! ```
//!
//! A task's *directory* is the whole truth about it: `launch.json` says what to run, a lock held by
//! the shim says that it is being looked after, `running.json` says that it runs, `exit.json` says
//! how it ended. Whoever opens the directory later, after any crash, reads the same answer.
//!
//! What is deliberately absent: no async, no threads, no decisions about what should run or when to
//! restart it, no types of the other crates (plain integers with their units in their names), no
//! network set-up (tasks share the host's network).
//!
//! Everything here needs a kernel of at least 5.12, and root or the right to make user namespaces, with
//! which tasks have the same jail but no limits; [`machine::preflight`] says what is missing.

pub mod alloc;
pub mod cgroup;
mod confine;
pub mod disk;
pub mod enter;
mod error;
mod init;
mod isolation;
mod jail;
pub mod logs;
pub mod machine;
pub mod ports;
mod process;
pub mod record;
mod seccomp;
pub mod shim;
mod shim_log;
mod sys;
pub mod task;
pub mod tree;
pub mod uid;

/// The capabilities of Linux that a task can keep, by their numbers (capabilities(7)):
/// `NET_BIND_SERVICE`, `NET_ADMIN`, `NET_RAW`, `IPC_LOCK`, `SYS_PTRACE`, `SYS_NICE` and `PERFMON`.
/// None lets it out of its jail.
pub const CAPABILITIES: [u8; 7] = [10, 12, 13, 14, 19, 23, 38];

pub use error::FileError;
pub use isolation::Isolation;
