//! The first steps of a shim: detached, alone, and known to its starter.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::prctl;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{ForkResult, chdir, dup2_stdin, dup2_stdout, setsid};

use crate::FileError;
use crate::error::At;
use crate::record::{EXIT_FILE, LOCK_FILE};
use crate::sys;

/// A shim could not start.
#[derive(Debug, thiserror::Error)]
pub(super) enum BeginError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot detach from the starter: {0}")]
    Detach(io::Error),
    #[error("another shim, process {pid}, looks after this task already")]
    Locked { pid: i32 },
    #[error("this task has ended already; a task directory is used once")]
    Ended,
}

/// Which of the two processes this is.
pub(super) enum Begun {
    /// The process that was started: it is done.
    Starter,
    /// The process that stays.
    Shim(Shim),
}

/// What a shim holds during its lifetime.
pub(super) struct Shim {
    /// The task's directory, absolute.
    pub(super) dir: PathBuf,
    /// Closes when the task runs, or with everything else at the end.
    pub(super) ready: Option<File>,
    /// Locked: when it is closed, by whatever death, others see that the shim is gone.
    _lock: File,
    /// A file of the Borglet's that is open as long as a shim is.
    _held: Option<OwnedFd>,
}

pub(super) fn begin(task_dir: &Path) -> Result<Begun, BeginError> {
    sys::close_from(3).map_err(BeginError::Detach)?;
    let dir = fs::canonicalize(task_dir).at("find the task directory", task_dir)?;
    // Already here, so that killing the starter's session never hits the shim. Fails for the leader
    // of a process group, which only a shell makes of this process; the child can always do it.
    let _leader = setsid();
    if let ForkResult::Parent { .. } =
        sys::SingleThread::check().and_then(sys::fork).map_err(BeginError::Detach)?
    {
        return Ok(Begun::Starter);
    }
    become_shim(dir, None).map(Begun::Shim)
}

/// Makes this process, which is not the leader of a process group, the shim of the task in `dir`.
/// Its standard input, output and error are those of [`super::run`], and nothing else is open but
/// what it holds.
pub(super) fn become_shim(dir: PathBuf, held: Option<OwnedFd>) -> Result<Shim, BeginError> {
    let mut ready = detach().map_err(BeginError::Detach)?;
    match lock(&dir) {
        Ok(lock) => {
            let hello = format!("pid {}\n", std::process::id());
            let _starter_is_gone = ready.write_all(hello.as_bytes());
            wait_for_go_ahead().map_err(BeginError::Detach)?;
            Ok(Shim { dir, ready: Some(ready), _lock: lock, _held: held })
        }
        Err(error) => {
            let _starter_is_gone = ready.write_all(format!("error {error}\n").as_bytes());
            Err(error)
        }
    }
}

/// Leaves the starter's session and directory; returns the ready pipe.
fn detach() -> io::Result<File> {
    setsid()?;
    // A service manager that stops the Borglet may signal all its descendants.
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGPIPE] {
        sys::ignore_signal(signal);
    }
    umask(Mode::from_bits_truncate(0o022));
    chdir("/")?;
    let _cosmetic = prctl::set_name(c"bourg-shim");
    // The last process to kill when the machine runs out of memory. Not fatal: containers forbid
    // it.
    let _hint = fs::write("/proc/self/oom_score_adj", "-999");
    let ready = io::stdout().as_fd().try_clone_to_owned()?;
    dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(ready.into())
}

/// Takes the lock of the task's directory, for the lifetime of this process.
fn lock(dir: &Path) -> Result<File, BeginError> {
    let path = dir.join(LOCK_FILE);
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&path).at("open", &path)?;
    // Not flock, which a forked child would keep holding.
    match fcntl(&file, FcntlArg::F_SETLK(&whole_file(libc::F_WRLCK))) {
        Ok(_) => {}
        Err(Errno::EACCES | Errno::EAGAIN) => {
            let pid = lock_holder(&file).at("ask who locks", &path)?.unwrap_or(0);
            return Err(BeginError::Locked { pid });
        }
        Err(error) => return Err(FileError::new("lock", &path, error.into()).into()),
    }
    if dir.join(EXIT_FILE).exists() {
        return Err(BeginError::Ended);
    }
    Ok(file)
}

/// The process that holds the lock on `file`, if any.
pub(crate) fn lock_holder(file: &File) -> nix::Result<Option<i32>> {
    let mut lock = whole_file(libc::F_WRLCK);
    fcntl(file, FcntlArg::F_GETLK(&mut lock))?;
    Ok((i32::from(lock.l_type) != libc::F_UNLCK).then_some(lock.l_pid))
}

fn whole_file(kind: i32) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(kind).unwrap_or_default(),
        l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// Waits until the starter closes standard input, by which time it has a descriptor for this
/// process.
fn wait_for_go_ahead() -> io::Result<()> {
    let mut go_ahead = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    while go_ahead.read(&mut [0; 64])? > 0 {}
    dup2_stdin(File::open("/dev/null")?)?;
    Ok(())
}
