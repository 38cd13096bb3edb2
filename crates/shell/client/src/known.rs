//! The registry of cells on this machine: links, by name, to client directories. `bourg dev`
//! registers its cell while it runs. Users can put other client directories here, too.

use std::fs::File;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};

use crate::masters::Masters;
use crate::{CELL_FILE, CellFile, Error};

/// The timeout of the connection that checks whether a master listens.
const ANSWER: Duration = Duration::from_millis(500);
/// The file in a cell's directory that is locked while its `bourg dev` runs.
const RUNS: &str = "run/lock";
/// The maximum number of names tried for a cell, its own name first.
const NAMES_MAX: u32 = 100;

/// The directory of the registry.
fn directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let config = variable("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".config")));
    config.map(|config| config.join("bourg").join("cells"))
}

/// The client directory registered under a name, if any.
fn named(name: &str) -> Option<PathBuf> {
    let path = directory()?.join(name);
    path.join(CELL_FILE).exists().then_some(path)
}

/// All registered client directories.
fn all() -> Vec<PathBuf> {
    let mut known = places();
    known.retain(|path| path.join(CELL_FILE).exists());
    known
}

/// All entries, including dangling links.
#[must_use]
pub fn places() -> Vec<PathBuf> {
    let entries = directory().and_then(|cells| std::fs::read_dir(cells).ok());
    let entries = entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut places: Vec<PathBuf> =
        entries.filter(|path| path.is_symlink() || path.join(CELL_FILE).exists()).collect();
    places.sort_unstable();
    places
}

/// The name under which a client directory is registered.
#[must_use]
pub fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The cell file of a client directory; `None` if it cannot be read.
#[must_use]
pub fn file_of(directory: &Path) -> Option<CellFile> {
    toml::from_str(&std::fs::read_to_string(directory.join(CELL_FILE)).ok()?).ok()
}

/// The addresses of the masters that a client directory lists or has learned.
#[must_use]
pub fn masters_of(directory: &Path) -> Vec<String> {
    let file = file_of(directory);
    file.map(|file| Masters::read(directory, &file).in_order()).unwrap_or_default()
}

/// Whether a cell may be running. If `bourg dev` registered it, checks whether that process runs.
/// This does not connect to a master unless an earlier release registered the cell: masters log
/// connections that send no request.
pub fn is_there(path: &Path) -> bool {
    !path.is_symlink() || runs(path).unwrap_or_else(|| listens(path))
}

/// Whether the `bourg dev` that registered the cell runs; `None` for one of an earlier release.
fn runs(path: &Path) -> Option<bool> {
    let client = std::fs::read_link(path).ok()?;
    let file = File::open(client.parent()?.join(RUNS)).ok()?;
    Some(Flock::lock(file, FlockArg::LockSharedNonblock).is_err())
}

/// Whether any address of its masters accepts connections.
fn listens(directory: &Path) -> bool {
    let masters = file_of(directory).map(|file| file.masters).unwrap_or_default();
    let addresses = masters.iter().filter_map(|master| master.to_socket_addrs().ok()).flatten();
    addresses.into_iter().any(|address| TcpStream::connect_timeout(&address, ANSWER).is_ok())
}

/// The registration of one of our cells; it ends with [`end`](Self::end).
#[derive(Debug)]
pub struct Registration {
    link: PathBuf,
    client: PathBuf,
    _runs: Option<Flock<File>>,
}

impl Registration {
    /// Registers a cell under its name, so that commands find it; if the name is taken, appends a
    /// number. Names of cells that do not run any more are reused.
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

    /// The registered name.
    pub fn name(&self) -> String {
        name_of(&self.link)
    }

    /// Removes the registration, unless another cell has taken the name over.
    pub fn end(&self) {
        if std::fs::read_link(&self.link).is_ok_and(|client| client == self.client) {
            let _absent = std::fs::remove_file(&self.link);
        }
    }
}

/// The client directory of a cell, given by path or name, or of the only registered cell.
///
/// # Errors
/// If there is none, or several.
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
        // A cell that was killed is still registered.
        known.retain(|path| is_there(path));
    }
    match known.as_slice() {
        [] if before.is_empty() => Err(Error::NoneKnown),
        [] => Err(Error::NoneRuns(before)),
        [only] => Ok(only.clone()),
        several => Err(Error::Several(names(several))),
    }
}
