//! A range of ports for a dev cell that no other dev cell on this machine has.

use std::fs::File;
use std::net::TcpListener;
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
/// Where the locks are that say which range is taken.
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
    let directory = match Path::new(LOCKS).is_dir() {
        true => Path::new(LOCKS).to_owned(),
        false => std::env::temp_dir(),
    };
    let path = directory.join(format!("bourg-ports-{first}.lock"));
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    Ok(Flock::lock(file, FlockArg::LockExclusiveNonblock).ok())
}
