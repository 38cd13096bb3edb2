//! The cells that are known on this machine by a name: `bourg dev` makes its own known while it runs, as a
//! link to its client directory; whoever gets a client directory from somebody can put it here.

use std::fs::File;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use nix::fcntl::{Flock, FlockArg};
use serde::Serialize;

use super::cells::{CELL_FILE, CellFile, Connection, Target};
use super::exit::{Done, Failure};
use super::output::{self, Format, Listing};

/// How long a connection may take to see whether somebody listens.
const ANSWER: Duration = Duration::from_millis(500);
/// How long a cell may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(2);
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
pub(super) fn named(name: &str) -> Option<PathBuf> {
    let path = directory()?.join(name);
    path.join(CELL_FILE).exists().then_some(path)
}

/// All client directories that are known.
pub(super) fn all() -> Vec<PathBuf> {
    let mut known = places();
    known.retain(|path| path.join(CELL_FILE).exists());
    known
}

/// All there is of them, also what leads nowhere any more.
fn places() -> Vec<PathBuf> {
    let entries = directory().and_then(|cells| std::fs::read_dir(cells).ok());
    let entries = entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut places: Vec<PathBuf> =
        entries.filter(|path| path.is_symlink() || path.join(CELL_FILE).exists()).collect();
    places.sort_unstable();
    places
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn file_of(directory: &Path) -> Option<CellFile> {
    toml::from_str(&std::fs::read_to_string(directory.join(CELL_FILE)).ok()?).ok()
}

/// Whether a cell may be there: of one that `bourg dev` has made known, whether that still runs. No master
/// is bothered: it would report whoever connects and says nothing.
pub(super) fn is_there(path: &Path) -> bool {
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
pub(super) struct Registration {
    link: PathBuf,
    client: PathBuf,
    _runs: Option<Flock<File>>,
}

impl Registration {
    /// Makes a cell known under its name, so that commands elsewhere find it; where another cell has that
    /// name, under the name with a number. One that is dead gives its name up.
    pub(super) fn new(name: &str, client: &Path) -> Option<Self> {
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
    pub(super) fn name(&self) -> String {
        name_of(&self.link)
    }

    /// It is known no longer; whoever has the name by now keeps it.
    pub(super) fn end(&self) {
        if std::fs::read_link(&self.link).is_ok_and(|client| client == self.client) {
            let _absent = std::fs::remove_file(&self.link);
        }
    }
}

/// A cell that is known, as it is shown.
#[derive(Debug, Serialize)]
struct Shown {
    /// For `--cell`.
    name: String,
    /// What it calls itself.
    cell: String,
    answers: bool,
    /// Why not.
    trouble: String,
    /// Its client directory.
    directory: PathBuf,
    /// `bourg dev` made it known.
    by_dev: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CellsArgs {
    /// Forget those that do not answer, of those that `bourg dev` has made known. Client directories
    /// that were put here stay.
    #[arg(long)]
    prune: bool,
    /// table, wide, json, yaml, name, or a field by its path.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

/// `bourg cells`: which are known here, and whether they answer.
pub(super) fn cells(args: &CellsArgs) -> Done {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("error: {error}")))?;
    let places = places();
    let mut shown: Vec<Shown> = places.iter().map(|path| runtime.block_on(look(path))).collect();
    if args.prune {
        for (path, _) in places.iter().zip(&shown).filter(|(_, of)| of.by_dev && !of.answers) {
            std::fs::remove_file(path).map_err(|error| {
                Failure::failed(format!("error: cannot remove {}: {error}", path.display()))
            })?;
            output::say(&format!("{} is forgotten\n", name_of(path)));
        }
        shown.retain(|of| !of.by_dev || of.answers);
    }
    if shown.is_empty() {
        eprintln!("no cell is known here: bourg dev starts one");
    }
    let listing = Listing {
        items: &shown,
        name: |of: &Shown| of.name.clone(),
        headings: &["NAME", "CELL", "STATE", "DIRECTORY"],
        wide: 0,
        row: |of: &Shown| {
            let state = match (of.answers, of.trouble.as_str()) {
                (true, _) => "answers".to_owned(),
                (false, trouble) => format!("does not answer: {trouble}"),
            };
            vec![of.name.clone(), of.cell.clone(), state, of.directory.display().to_string()]
        },
    };
    output::list(&args.output, &listing)
}

async fn look(path: &Path) -> Shown {
    let directory = std::fs::read_link(path).unwrap_or_else(|_| path.to_owned());
    let cell = file_of(path).map(|file| file.cell).unwrap_or_default();
    let trouble = match () {
        () if !path.join(CELL_FILE).exists() => "its directory is gone".to_owned(),
        () if !is_there(path) => "it is not running".to_owned(),
        () => asked(path).await.err().unwrap_or_default(),
    };
    let answers = trouble.is_empty();
    Shown { name: name_of(path), cell, answers, trouble, directory, by_dev: path.is_symlink() }
}

/// Asks a cell how it is; why it does not say.
async fn asked(path: &Path) -> Result<(), String> {
    let cell = path.to_string_lossy();
    let target = Target { cell: Some(&cell), consistent: false };
    let ask = async { Connection::open(target)?.cell_status().await };
    match tokio::time::timeout(PATIENCE, ask).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(failure)) => Err(failure.text().to_owned()),
        Err(_) => Err(format!("not within {} s", PATIENCE.as_secs())),
    }
}
