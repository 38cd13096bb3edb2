//! A replica's data directory: its layout, its format version, and the lock that excludes other
//! processes.
//!
//! ```text
//! DIRECTORY/            0700
//!   format              "bourg data directory, format 1"
//!   lock                held for the process's life; its content is the holder's pid
//!   directory-id        which directory this is, and where it lies: a copy is told by it
//!   log/                segments, see `log`
//!   checkpoints/        see `checkpoint`
//!   events/             see `events`
//!   tls/ tasks/ packages/      kept by others
//! ```
//!
//! The lock is an open-file-description lock: it is released however the process ends, is not lost
//! when another descriptor of the file is closed, and a stale pid in the file has no effect. A
//! forked child that does not exec keeps holding it; one that execs does not.

mod identity;

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use self::identity::Identity;
use crate::{Error, Result, checkpoint, disk};

/// The version of the layout that this build writes, and the highest that it reads.
pub const FORMAT_VERSION: u32 = 1;

const FORMAT_FILE: &str = "format";
const FORMAT_PREFIX: &str = "bourg data directory, format ";
const LOCK_FILE: &str = "lock";
pub(crate) const LOG: &str = "log";
pub(crate) const CHECKPOINTS: &str = "checkpoints";
pub(crate) const EVENTS: &str = "events";
const DIRECTORIES: [&str; 6] = [LOG, CHECKPOINTS, EVENTS, "tls", "tasks", "packages"];
const PRIVATE: u32 = 0o700;

/// An open, locked data directory. The lock is held until this value is dropped.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    identity: Identity,
    /// Never read: its descriptor holds the lock.
    _lock: File,
}

impl DataDirectory {
    /// Creates and locks a new data directory at a path that is missing or empty.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] if there is one, [`Error::NotADataDirectory`] if the path contains
    /// anything else, [`Error::Locked`], [`Error::NoRoom`] and [`Error::Io`].
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        make_directory(path)?;
        for name in disk::names(path)? {
            if name == FORMAT_FILE {
                return Err(Error::AlreadyExists { path: path.to_owned() });
            }
            // An interrupted creation may have left these files.
            let known = [LOCK_FILE, identity::FILE, "format.tmp", "directory-id.tmp"];
            let known = known.contains(&name.as_str());
            if !known && !DIRECTORIES.contains(&name.as_str()) {
                let why = format!("it contains {name:?} and has no {FORMAT_FILE} file");
                return Err(Error::NotADataDirectory { path: path.to_owned(), why });
            }
        }
        let lock = lock(path)?;
        for name in DIRECTORIES {
            make_directory(&path.join(name))?;
        }
        let identity = Identity::draw(path, &path.join(LOG), false)?;
        // Last, so that a directory with a format file is complete.
        let content = format!("{FORMAT_PREFIX}{FORMAT_VERSION}\n");
        disk::write_atomic(&path.join(FORMAT_FILE), content.as_bytes())?;
        disk::sync_directory(disk::parent(path))?;
        Ok(Self { path: path.to_owned(), identity, _lock: lock })
    }

    /// Opens and locks an existing data directory, and removes unfinished checkpoints that a crash
    /// left behind.
    ///
    /// # Errors
    /// [`Error::NotADataDirectory`], [`Error::NewerFormat`], [`Error::Locked`] and [`Error::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        check_format(path)?;
        let lock = lock(path)?;
        // A newer program may have converted the directory while this one waited for the lock: only
        // what is read under the lock counts.
        check_format(path)?;
        // Before a missing log directory is created again: that must not look like a copy.
        let identity = Identity::open(path, &path.join(LOG))?;
        for name in DIRECTORIES {
            make_directory(&path.join(name))?;
        }
        let directory = Self { path: path.to_owned(), identity, _lock: lock };
        checkpoint::remove_unfinished(&directory.checkpoints())?;
        Ok(directory)
    }

    /// Opens the data directory at `path`, or creates it if there is nothing.
    ///
    /// # Errors
    /// Those of [`Self::open`] and [`Self::create`].
    pub fn open_or_create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        match fs::symlink_metadata(path.join(FORMAT_FILE)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Self::create(path),
            _ => Self::open(path),
        }
    }

    /// The path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The random id drawn at creation: a directory that was emptied has another one. 0 if the disk
    /// had no room to store it, or the stored id is damaged.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.identity.id
    }

    /// Why this may not be the directory that was last used under its id: it may lack data written
    /// since, and there may be two of it. `None` if nothing indicates that.
    #[must_use]
    pub fn doubt(&self) -> Option<&str> {
        self.identity.doubt
    }

    /// Whether it is recorded that the log has had a record.
    #[must_use]
    pub fn log_begun(&self) -> bool {
        self.identity.log_begun
    }

    /// The means to record that the log has a record, once it has one; `None` if that is recorded
    /// already.
    #[must_use]
    pub fn log_begins(&self) -> Option<LogBegins> {
        let begins = !self.identity.log_begun && self.identity.id > 0;
        begins.then(|| LogBegins { path: self.path.clone(), id: self.identity.id })
    }

    /// Gives the directory a new id, for an operator who continues from the existing data as a new
    /// replica.
    ///
    /// # Errors
    /// [`Error::NoRoom`] and [`Error::Io`].
    pub fn renew_id(&mut self) -> Result<()> {
        self.identity = Identity::draw(&self.path, &self.log(), self.identity.log_begun)?;
        Ok(())
    }

    /// The directory in which [`crate::log::Log`] keeps its segments.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// The directory of checkpoints.
    #[must_use]
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join(CHECKPOINTS)
    }

    /// The directory in which [`crate::events::Events`] keeps its segments.
    #[must_use]
    pub fn events(&self) -> PathBuf {
        self.path.join(EVENTS)
    }

    /// The directory of the certificate authority and credentials.
    #[must_use]
    pub fn tls(&self) -> PathBuf {
        self.path.join("tls")
    }

    /// The directory in which a Borglet keeps its tasks.
    #[must_use]
    pub fn tasks(&self) -> PathBuf {
        self.path.join("tasks")
    }

    /// The directory in which a Borglet keeps packages.
    #[must_use]
    pub fn packages(&self) -> PathBuf {
        self.path.join("packages")
    }
}

/// Records in a locked data directory that its log has had a record. From then on, a log without
/// one is known to be lost.
#[derive(Debug)]
pub struct LogBegins {
    path: PathBuf,
    id: u64,
}

impl LogBegins {
    /// Writes the record durably.
    ///
    /// # Errors
    /// [`Error::NoRoom`] and [`Error::Io`].
    pub fn note(self) -> Result<()> {
        let identity = Identity { id: self.id, log_begun: true, doubt: None };
        identity.write(&self.path, &self.path.join(LOG)).map(drop)
    }
}

/// A subdirectory of the data directory at `path`, which another process may hold: it is neither
/// locked nor changed.
pub(crate) fn look(path: &Path, name: &str) -> Result<PathBuf> {
    check_format(path)?;
    Ok(path.join(name))
}

/// Creates a private directory, or makes an existing one private: it contains keys and users' data.
fn make_directory(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(PRIVATE).create(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Error::io("create the directory", path, 4096)(e));
        }
        _ => {}
    }
    let found = fs::metadata(path).map_err(Error::io("look at", path, 0))?;
    if !found.is_dir() {
        let why = "it is not a directory".to_owned();
        return Err(Error::NotADataDirectory { path: path.to_owned(), why });
    }
    if found.permissions().mode() & 0o777 != PRIVATE {
        fs::set_permissions(path, Permissions::from_mode(PRIVATE)).map_err(Error::io(
            "make private (0700)",
            path,
            0,
        ))?;
    }
    Ok(())
}

fn check_format(directory: &Path) -> Result<()> {
    let path = directory.join(FORMAT_FILE);
    let refuse = |why: String| Error::NotADataDirectory { path: directory.to_owned(), why };
    let content = match fs::read_to_string(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(refuse(format!("it has no {FORMAT_FILE} file")));
        }
        other => other.map_err(Error::io("read", &path, 0))?,
    };
    let version = content.trim_end().strip_prefix(FORMAT_PREFIX).and_then(|v| v.parse().ok());
    match version {
        None => Err(refuse(format!("its {FORMAT_FILE} file says {:?}", content.trim_end()))),
        Some(found) if found > FORMAT_VERSION => {
            Err(Error::NewerFormat { path, found, known: FORMAT_VERSION })
        }
        Some(_) => Ok(()),
    }
}

fn lock(directory: &Path) -> Result<File> {
    let path = directory.join(LOCK_FILE);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(Error::io("open", &path, 0))?;
    // The constants are 0, 1 and 2 and `int` in C; the fields are `short`.
    #[expect(clippy::cast_possible_truncation, reason = "0 and 1 fit")]
    let request = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    match fcntl(&file, FcntlArg::F_OFD_SETLK(&request)) {
        Ok(_) => {}
        Err(Errno::EAGAIN | Errno::EACCES) => {
            let mut content = String::new();
            let pid = match file.read_to_string(&mut content) {
                Ok(_) => content.trim().parse().ok(),
                Err(_) => None,
            };
            return Err(Error::Locked { path: directory.to_owned(), pid });
        }
        Err(errno) => return Err(Error::io("lock", &path, 0)(errno.into())),
    }
    // Only names the holder: a full disk must not keep a replica from opening.
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}
