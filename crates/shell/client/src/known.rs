//! The cells that are known on this machine by a name: `bourg dev` makes its own known while it runs, as a
//! link to its client directory. A client directory from elsewhere can be put here, too.

use std::fs::File;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};

use crate::{CELL_FILE, CellFile, Error};

/// How long a connection may take to see whether somebody listens.
const ANSWER: Duration = Duration::from_millis(500);
/// The file in a cell's directory that is locked as long as its `bourg dev` runs.
const RUNS: &str = "run/lock";
/// How many names are tried for a cell, the first of which is its own.
const NAMES_MAX: u32 = 100;

/// The directory in which client directories are known by name.
fn directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let config = variable("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".config")));
    config.map(|config| config.join("bourg").join("cells"))
}

/// The client directory that is known by a name; none where there is none.
fn named(name: &str) -> Option<PathBuf> {
    let path = directory()?.join(name);
    path.join(CELL_FILE).exists().then_some(path)
}

/// All client directories that are known.
fn all() -> Vec<PathBuf> {
    let mut known = places();
    known.retain(|path| path.join(CELL_FILE).exists());
    known
}

/// All there is of them, also what leads nowhere any more.
#[must_use]
pub fn places() -> Vec<PathBuf> {
    let entries = directory().and_then(|cells| std::fs::read_dir(cells).ok());
    let entries = entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut places: Vec<PathBuf> =
        entries.filter(|path| path.is_symlink() || path.join(CELL_FILE).exists()).collect();
    places.sort_unstable();
    places
}

/// The name under which a client directory is known.
#[must_use]
pub fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Where the cell of a client directory answers; none where that cannot be read.
#[must_use]
pub fn file_of(directory: &Path) -> Option<CellFile> {
    toml::from_str(&std::fs::read_to_string(directory.join(CELL_FILE)).ok()?).ok()
}

/// Whether a cell may be there: of one that `bourg dev` has made known, whether that still runs. No master
/// is bothered: it would report whoever connects and says nothing.
pub fn is_there(path: &Path) -> bool {
    !path.is_symlink() || runs(path).unwrap_or_else(|| listens(path))
}

/// Whether the `bourg dev` runs that made a cell known; none where an earlier release did.
fn runs(path: &Path) -> Option<bool> {
    let client = std::fs::read_link(path).ok()?;
    let file = File::open(client.parent()?.join(RUNS)).ok()?;
    Some(Flock::lock(file, FlockArg::LockSharedNonblock).is_err())
}

/// Whether somebody listens where one of its masters does.
fn listens(directory: &Path) -> bool {
    let masters = file_of(directory).map(|file| file.masters).unwrap_or_default();
    let addresses = masters.iter().filter_map(|master| master.to_socket_addrs().ok()).flatten();
    addresses.into_iter().any(|address| TcpStream::connect_timeout(&address, ANSWER).is_ok())
}

/// A cell of ours that is known, until this is given up.
#[derive(Debug)]
pub struct Registration {
    link: PathBuf,
    client: PathBuf,
    _runs: Option<Flock<File>>,
}

impl Registration {
    /// Makes a cell known under its name, so that commands elsewhere find it; where another cell has that
    /// name, under the name with a number. One that is dead gives its name up.
    pub fn new(name: &str, client: &Path) -> Option<Self> {
        let cells = directory()?;
        std::fs::create_dir_all(&cells).ok()?;
        let lock = File::create(client.parent()?.join(RUNS)).ok();
        let _runs = lock.and_then(|file| Flock::lock(file, FlockArg::LockExclusiveNonblock).ok());
        for number in 1..=NAMES_MAX {
            let link = match number {
                1 => cells.join(name),
                number => cells.join(format!("{name}-{number}")),
            };
            let is_ours = std::fs::read_link(&link).is_ok_and(|before| before == client);
            if link.is_symlink() && (is_ours || !is_there(&link)) {
                let _absent = std::fs::remove_file(&link);
            }
            match symlink(client, &link) {
                Ok(()) => return Some(Self { link, client: client.to_owned(), _runs }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// The name under which it is known.
    pub fn name(&self) -> String {
        name_of(&self.link)
    }

    /// Removes the registration, unless another cell has taken the name.
    pub fn end(&self) {
        if std::fs::read_link(&self.link).is_ok_and(|client| client == self.client) {
            let _absent = std::fs::remove_file(&self.link);
        }
    }
}

/// The client directory of a cell that is given by its path or name, or of the only one that is known.
///
/// # Errors
/// Where there is none, or several.
pub fn find(cell: Option<&str>) -> Result<PathBuf, Error> {
    if let Some(cell) = cell {
        let path = PathBuf::from(cell);
        if path.join(CELL_FILE).exists() {
            return Ok(path);
        }
        return named(cell).ok_or_else(|| Error::NoSuchCell(cell.to_owned()));
    }
    let mut known = all();
    let names = |of: &[PathBuf]| of.iter().map(|path| name_of(path)).collect::<Vec<_>>();
    let before = names(&known);
    if known.len() > 1 {
        // One that was killed is known still.
        known.retain(|path| is_there(path));
    }
    match known.as_slice() {
        [] if before.is_empty() => Err(Error::NoneKnown),
        [] => Err(Error::NoneRuns(before)),
        [only] => Ok(only.clone()),
        several => Err(Error::Several(names(several))),
    }
}
