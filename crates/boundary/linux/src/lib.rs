//! Linux: the mechanisms that run a task on a machine, below the Borglet's decisions.
//!
//! ```text
//! Borglet ── task::ShimServer ──▶ server of shims (one for each Borglet, ends with it)
//!               forks for each task └─ shim (own session, outside the task's cgroup, lives on)
//!                                        └─ init (pid 1 of a new pid namespace, in the cgroup)
//!                                             └─ the task (own uid, no capabilities, jailed)
//! ```
//!
//! A task's *directory* is the single source of truth about it: `launch.json` specifies what to
//! run, a lock held by the shim shows that it is being supervised, `running.json` that it runs,
//! `exit.json` how it ended. Every reader of the directory, after any crash, finds the same state.
//!
//! Deliberately absent: async, threads, decisions about what should run or when to restart it,
//! types of other crates (plain integers with units in their names).
//!
//! Requires kernel 5.12 or later, and root or the right to create user namespaces, with which tasks
//! have the same jail but no limits; [`machine::preflight`] reports what is missing.

pub mod alloc;
pub mod bind;
pub mod cgroup;
pub mod child;
mod confine;
pub mod cpus;
pub mod disk;
pub mod enter;
mod error;
mod init;
mod isolation;
mod jail;
pub mod logs;
pub mod machine;
pub mod mark;
mod netlink;
pub mod network;
pub mod peers;
pub mod ports;
mod process;
pub mod record;
mod seccomp;
pub mod session;
pub mod shim;
mod shim_log;
mod sock_diag;
mod sys;
pub mod task;
pub mod tree;
pub mod uid;
pub mod usage;

/// The Linux capabilities that a task can keep, by number (capabilities(7)): `NET_BIND_SERVICE`,
/// `NET_ADMIN`, `NET_RAW`, `IPC_LOCK`, `SYS_PTRACE`, `SYS_NICE` and `PERFMON`. None allows an
/// escape from the jail.
pub const CAPABILITIES: [u8; 7] = [NET_BIND_SERVICE, 12, 13, 14, 19, 23, 38];

/// The number of the capability to bind ports below 1024.
const NET_BIND_SERVICE: u8 = 10;

pub use error::FileError;
pub use isolation::Isolation;
