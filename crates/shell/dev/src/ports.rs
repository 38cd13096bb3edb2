//! Reserves a range of ports that no other dev cell on this machine uses.

use std::fs::{File, Permissions};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;
use model::{PortRange, Subnet};

/// The number of ports for tasks of a dev cell.
const COUNT: u16 = 256;
/// The start of the first range, the usual one. All ranges are below the kernel's ephemeral ports.
const FIRST: u16 = 31_000;
const OTHERS: std::ops::Range<u16> = 20_000..30_500;
/// The directory of the lock files of the ranges, shared by all users of the machine.
const LOCKS: &str = "/run/lock";

/// A range that is reserved until its lock is closed: by this value, and by each process that
/// inherits it.
#[derive(Debug)]
pub(super) struct Reserved {
    pub(super) range: PortRange,
    lock: File,
}

impl Reserved {
    /// The lock, for a process to inherit.
    pub(super) fn lock(&self) -> anyhow::Result<OwnedFd> {
        Ok(self.lock.try_clone().context("cannot share the lock on a range of ports")?.into())
    }

    /// The addresses that go with the range: a part of 10.64.0.0/16 that no other dev cell uses.
    pub(super) fn task_network(&self) -> Option<Subnet> {
        // Each range of ports has another number.
        let number = u8::try_from(self.range.first.checked_sub(OTHERS.start)? / COUNT).ok()?;
        Subnet::new(Ipv4Addr::new(10, 64, number, 0), 24).ok()
    }
}

/// Reserves the first range that no other cell has locked and no process listens in.
pub(super) fn reserve() -> anyhow::Result<Reserved> {
    let starts = std::iter::once(FIRST).chain(OTHERS.step_by(COUNT.into()));
    for first in starts {
        let range = PortRange { first, last: first + COUNT - 1 };
        if let Some(lock) = lock(first)?
            && (range.first..=range.last).all(|port| TcpListener::bind(("0.0.0.0", port)).is_ok())
        {
            return Ok(Reserved { range, lock });
        }
    }
    anyhow::bail!(
        "no {COUNT} free ports between 20000 and 31255 are left for the tasks of a machine: stop other \
         dev cells, or start this one with fewer machines"
    )
}

fn lock(first: u16) -> anyhow::Result<Option<File>> {
    let shared = match Path::new(LOCKS).is_dir() {
        true => Path::new(LOCKS).to_owned(),
        false => std::env::temp_dir(),
    };
    let shared = shared.join(format!("bourg-ports-{first}.lock"));
    // Without write access, at least separate the cells of this user.
    let uid = nix::unistd::getuid();
    let own = std::env::temp_dir().join(format!("bourg-ports-{uid}-{first}.lock"));
    let file = match open(&shared) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            open(&own).with_context(|| format!("cannot open {}", own.display()))
        }
        result => result.with_context(|| format!("cannot open {}", shared.display())),
    };
    let file = file?;
    Ok(file.try_lock().is_ok().then_some(file))
}

/// Opens the file, and creates it if missing. A lock only needs read access, so the owner does not
/// matter; many kernels reject `O_CREAT` on another user's file.
fn open(path: &Path) -> std::io::Result<File> {
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let made = File::options().create(true).truncate(false).write(true).open(path)?;
            // Regardless of the umask. If another user created the file meanwhile, they have done
            // the same.
            let _another = made.set_permissions(Permissions::from_mode(0o644));
            Ok(made)
        }
        result => result,
    }
}
