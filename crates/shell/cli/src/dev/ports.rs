//! A range of ports for a dev cell that no other dev cell on this machine has.

use std::fs::{File, Permissions};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;
use model::PortRange;
use nix::fcntl::{Flock, FlockArg};

/// How many ports a dev cell has for its tasks.
const COUNT: u16 = 256;
/// The ranges begin here, first the usual one; all lie below the ports that the kernel gives to
/// outgoing connections.
const FIRST: u16 = 31_000;
const OTHERS: std::ops::Range<u16> = 20_000..30_500;
/// Where the locks are that say which range is taken, for all users of the machine.
const LOCKS: &str = "/run/lock";

/// A range that is ours as long as this lives.
#[derive(Debug)]
pub(super) struct Reserved {
    pub(super) range: PortRange,
    _lock: Flock<File>,
}

/// Takes the first range that no other cell has and no process listens in.
pub(super) fn reserve() -> anyhow::Result<Reserved> {
    let starts = std::iter::once(FIRST).chain(OTHERS.step_by(COUNT.into()));
    for first in starts {
        let range = PortRange { first, last: first + COUNT - 1 };
        if let Some(lock) = lock(first)?
            && (range.first..=range.last).all(|port| TcpListener::bind(("0.0.0.0", port)).is_ok())
        {
            return Ok(Reserved { range, _lock: lock });
        }
    }
    anyhow::bail!(
        "no {COUNT} free ports between 20000 and 31255 are left for tasks: stop other dev cells"
    )
}

fn lock(first: u16) -> anyhow::Result<Option<Flock<File>>> {
    let shared = match Path::new(LOCKS).is_dir() {
        true => Path::new(LOCKS).to_owned(),
        false => std::env::temp_dir(),
    };
    let shared = shared.join(format!("bourg-ports-{first}.lock"));
    // Where that is not for us, at least our own cells keep out of each other's way.
    let uid = nix::unistd::getuid();
    let own = std::env::temp_dir().join(format!("bourg-ports-{uid}-{first}.lock"));
    let file = match open(&shared) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            open(&own).with_context(|| format!("cannot open {}", own.display()))
        }
        result => result.with_context(|| format!("cannot open {}", shared.display())),
    };
    Ok(Flock::lock(file?, FlockArg::LockExclusiveNonblock).ok())
}

/// Opens the file, and makes it where it is not. To be locked it need only be readable, so it does
/// not matter whose it is; and many kernels refuse to open another's file with the wish to make it.
fn open(path: &Path) -> std::io::Result<File> {
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let made = File::options().create(true).truncate(false).write(true).open(path)?;
            // Whatever our umask; where it is another's meanwhile, he has done the same.
            let _another = made.set_permissions(Permissions::from_mode(0o644));
            Ok(made)
        }
        result => result,
    }
}
