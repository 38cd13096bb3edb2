//! Has the kernel reject a bind to a port that a task was not given: a BPF program on the task's
//! cgroup, of type `CGROUP_SOCK_ADDR`, which the kernel runs for each `bind(2)`.
//!
//! The cgroup holds the program, so it needs no process, no file and no removal: it holds for
//! everything that joins the cgroup, until the cgroup is removed. A cgroup2 tree is required, with or
//! without controllers.
//!
//! Not here: which ports a task is given, and who holds a port already ([`crate::ports`]). A socket
//! that a process outside of the cgroup created is not checked.

mod program;

use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, socket};

use crate::cgroup::{CgroupError, Hierarchy, Limits, Sharing, TaskCgroup};
use crate::error::At;
use crate::machine::ephemeral_ports;
use crate::{FileError, sys};
pub(crate) use program::Rule;
pub use program::UNPRIVILEGED;

/// The kernel cannot check which ports are bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// There is no cgroup2 tree, which alone holds such programs.
    #[error(
        "no cgroup2 file system is mounted, which BPF programs need: mount one with \
         `mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified`"
    )]
    NoTree,
    /// The kernel rejected the program.
    #[error("the kernel rejects the BPF program that checks ports: {source}{}", quoted(log))]
    Load {
        /// The kernel's error.
        source: io::Error,
        /// What its verifier says, if it got that far.
        log: String,
    },
    /// The kernel rejected it on this cgroup.
    #[error(
        "the kernel does not attach a BPF program to cgroup {}: {source}; a program of a cgroup above it may \
         forbid that", path.display()
    )]
    Attach {
        /// The cgroup's directory.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The program is attached, and a bind that it rejects succeeds.
    #[error(
        "the kernel attached a BPF program that checks ports, and ignores it: the v1 controllers net_cls and \
         net_prio may be in use"
    )]
    Ignored,
    /// A process could not be forked to try it, or could not try it.
    #[error("cannot try a BPF program that checks ports: {0}")]
    Try(io::Error),
    /// A cgroup could not be used.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// A file could not be used.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A verifier's log as the end of a sentence.
fn quoted(log: &str) -> String {
    if log.is_empty() {
        String::new()
    } else {
        format!("; its verifier says: {}", log.escape_debug())
    }
}

/// From now on sockets created in a cgroup can be bound to `given` alone, to port 0, and to what
/// [`Rule`] allows everybody.
///
/// # Errors
/// When the machine has no cgroup2 tree, or the kernel rejects the program.
pub(crate) fn enforce(
    cgroup: &TaskCgroup,
    given: &[u16],
    privileged: bool,
) -> Result<(), BindError> {
    let path = cgroup.unified_directory().ok_or(BindError::NoTree)?;
    let directory = File::open(&path).at("open", &path)?;
    let instructions = Rule { given, privileged, ephemeral: ephemeral_ports()? }.program();
    for hook in sys::BindHook::ALL {
        let program = sys::load_bind_program(hook, &instructions)
            .map_err(|(source, log)| BindError::Load { source, log })?;
        sys::attach_bind_program(hook, directory.as_fd(), program.as_fd())
            .map_err(|source| BindError::Attach { path: path.clone(), source })?;
    }
    Ok(())
}

/// Whether this machine can enforce it: tried in a cgroup named `scratch`, which is removed again.
///
/// # Errors
/// The reason why not.
pub fn probe(hierarchy: &Hierarchy, scratch: &str) -> Result<(), BindError> {
    let limits = Limits {
        cpu_milli: 100,
        cpu_hard_cap: false,
        memory_bytes: 64 << 20,
        pids_max: 8,
        sharing: Sharing::default(),
    };
    let cgroup = TaskCgroup::create(hierarchy, scratch, &limits)?;
    let tried = enforce(&cgroup, &[], true).and_then(|()| try_in(&cgroup));
    cgroup.kill_all()?;
    cgroup.remove()?;
    tried
}

/// Has a process in the cgroup bind ports.
fn try_in(cgroup: &TaskCgroup) -> Result<(), BindError> {
    /// No range for outgoing connections begins as low, and none for tasks.
    const DENIED: u16 = 1_024;
    let path = cgroup.unified_directory().ok_or(BindError::NoTree)?.join("cgroup.procs");
    let mut join = File::options().write(true).open(&path).at("open", &path)?;
    let binds = |port| {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
        let address = SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
        bind(socket.as_raw_fd(), &address)
    };
    let code = sys::in_child(|| {
        if join.write_all(b"0").is_err() {
            return 1;
        }
        match (binds(0), binds(DENIED)) {
            (Ok(()), Err(nix::Error::EPERM)) => 0,
            (Ok(()), _) => 2,
            (Err(_), _) => 3,
        }
    });
    match code.map_err(BindError::Try)? {
        0 => Ok(()),
        2 => Err(BindError::Ignored),
        1 => Err(BindError::Try(io::Error::other("a process did not get into the cgroup"))),
        _ => Err(BindError::Try(io::Error::other("port 0 could not be bound"))),
    }
}
