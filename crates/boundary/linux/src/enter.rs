//! Runs another program in a running task, as health checks do; [`crate::session`] does it for users.
//!
//! The program joins the task's cgroups and namespaces and is confined like the task itself, so it
//! has the same rights and ends with the task. A separate process, `bourg enter`, does the work,
//! because only a process with one thread may change its mount namespace.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::openpty;
use nix::sched::{CloneFlags, setns};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{ForkResult, Pid, chdir, pipe2, setsid};

use crate::cgroup::{CgroupError, Hierarchy, TaskCgroup};
use crate::init::{complete_environment, exec};
use crate::process::open_exact;
use crate::record::{Launch, RecordError, Running};
use crate::{Isolation, confine, sys};

/// The exit status when the program could not be executed, as in shells.
pub(crate) const NOT_FOUND: u8 = 127;

/// The task could not be entered.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    /// There is no such task, or it has ended.
    #[error("the task is not running: check its state first")]
    NotRunning,
    /// Its records could not be used.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Its cgroup could not be joined.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// Another step failed.
    #[error("cannot {step}: {source}")]
    Step {
        /// The attempted step.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

pub(crate) fn step<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> EnterError {
    move |error| EnterError::Step { step, source: error.into() }
}

/// The standard files of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// Three pipes.
    Pipes,
    /// A new terminal.
    New {
        /// The height of the window in characters.
        rows: u16,
        /// The width of the window in characters.
        columns: u16,
        /// The terminal type, the value of `TERM`.
        term: String,
    },
}

/// A program started in a task.
#[derive(Debug)]
pub struct Entered {
    /// The `bourg enter` process, which ends with the program's exit status, or 128 plus the
    /// signal. With [`Terminal::Pipes`] it has the pipes. The caller must wait for it.
    pub child: Child,
    /// With [`Terminal::New`], the master side of the terminal; reading fails with EIO when the
    /// program and all its descendants have ended.
    pub terminal: Option<OwnedFd>,
}

impl Entered {
    /// Kills the program; the caller must still wait for [`child`](Self::child).
    ///
    /// Preferable to `child.kill()`, which also kills the program, but leaves it as a child of the
    /// machine's init: if that does not reap, as in some containers, the task's own end would wait
    /// for it.
    ///
    /// # Errors
    /// When the kernel returns an error.
    pub fn end(&self) -> Result<(), EnterError> {
        let pid = i32::try_from(self.child.id()).map_err(io::Error::other);
        let pid = Pid::from_raw(pid.map_err(step("name the process"))?);
        match kill(pid, Signal::SIGTERM) {
            Ok(()) | Err(nix::Error::ESRCH) => Ok(()),
            Err(error) => Err(step("end the program")(error)),
        }
    }
}

/// Starts `argv` in the running task of `dir`, by running `<bourg_executable> enter DIR tty|plain
/// -- ARGV…`.
///
/// # Errors
/// When no process or terminal can be created. If the task is not running, the exit status is 127
/// with a message on standard error.
pub fn spawn(
    bourg_executable: &Path,
    dir: &Path,
    argv: &[String],
    terminal: &Terminal,
) -> Result<Entered, EnterError> {
    let mut command = Command::new(bourg_executable);
    let word = if *terminal == Terminal::Pipes { "plain" } else { "tty" };
    command.arg("enter").arg(dir).arg(word).arg("--").args(argv).env_clear();
    let ours = match terminal {
        Terminal::Pipes => {
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            None
        }
        Terminal::New { rows, columns, term } => {
            let pty = openpty(None, None).map_err(step("make a terminal"))?;
            sys::set_window_size(pty.master.as_fd(), *rows, *columns)
                .map_err(step("size the terminal"))?;
            // Unlike everything else here, openpty does not set close-on-exec.
            for fd in [&pty.master, &pty.slave] {
                fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))
                    .map_err(step("guard the terminal"))?;
            }
            let copy = || pty.slave.try_clone().map_err(step("copy the terminal"));
            command.env("TERM", term).stdin(copy()?).stdout(copy()?).stderr(copy()?);
            Some(pty.master)
        }
    };
    let child = command.spawn().map_err(step("start bourg enter"))?;
    Ok(Entered { child, terminal: ours })
}

/// Sets the window size of a terminal created by [`spawn`], in characters.
///
/// # Errors
/// When `terminal` is not a terminal.
pub fn resize(terminal: impl AsFd, rows: u16, columns: u16) -> Result<(), EnterError> {
    sys::set_window_size(terminal.as_fd(), rows, columns).map_err(step("size the terminal"))
}

/// The implementation of `bourg enter DIR tty|plain -- ARGV…`; call it before the process has a
/// second thread.
///
/// The program inherits the three standard files; with `tty`, standard input becomes its
/// controlling terminal. Returns the program's exit status, 128 plus the signal that ended it, or
/// 127.
#[must_use]
pub fn run(dir: &Path, argv: &[String], tty: bool) -> ExitCode {
    exit_code(enter(dir, argv, tty))
}

/// The exit status for a program's raw wait status.
pub(crate) fn exit_code(ended: Result<i32, EnterError>) -> ExitCode {
    match ended {
        Ok(status) if libc::WIFSIGNALED(status) => code(128 + libc::WTERMSIG(status)),
        Ok(status) => code(libc::WEXITSTATUS(status)),
        Err(error) => {
            eprintln!("cannot enter the task: {error}");
            ExitCode::from(NOT_FOUND)
        }
    }
}

fn code(status: i32) -> ExitCode {
    ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX))
}

/// What is needed to enter a task, opened while the host's files are still visible.
pub(crate) struct Opened {
    pub(crate) launch: Launch,
    pub(crate) alone: sys::SingleThread,
    pub(crate) cgroups: Vec<File>,
    init: OwnedFd,
    user: CloneFlags,
}

/// Opens the running task of a directory.
pub(crate) fn open(dir: &Path) -> Result<Opened, EnterError> {
    let launch = Launch::read(dir)?.ok_or(EnterError::NotRunning)?;
    let running = Running::read(dir)?.ok_or(EnterError::NotRunning)?;
    // Checked now, because later /proc is the task's, which does not contain this process.
    let alone = sys::SingleThread::check().map_err(step("fork"))?;
    let init = open_exact(running.init_pid, running.init_start_ticks, &running.boot_id)
        .map_err(step("open the task's init"))?
        .ok_or(EnterError::NotRunning)?;
    let (cgroups, user) = match launch.isolation {
        Isolation::Jail => {
            let cgroup = TaskCgroup::open(&Hierarchy::detect()?, &launch.cgroup)?;
            (cgroup.join_files()?, CloneFlags::empty())
        }
        // Those of the init, which the other namespaces belong to.
        Isolation::Rootless => (Vec::new(), CloneFlags::CLONE_NEWUSER),
    };
    Ok(Opened { launch, alone, cgroups, init, user })
}

impl Opened {
    /// Joins the namespaces of the task; the pid namespace holds for later children.
    pub(crate) fn join_namespaces(&self) -> Result<(), EnterError> {
        let namespaces = CloneFlags::CLONE_NEWPID
            | CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWIPC
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWCGROUP;
        let own = self.launch.network.is_some();
        let network = if own { CloneFlags::CLONE_NEWNET } else { CloneFlags::empty() };
        setns(&self.init, self.user | namespaces | network)
            .map_err(step("join the task's namespaces"))
    }
}

/// Runs the program in the task and returns its raw wait status.
fn enter(dir: &Path, argv: &[String], tty: bool) -> Result<i32, EnterError> {
    let opened = open(dir)?;
    let (alive_read, alive_write) = pipe2(OFlag::O_CLOEXEC).map_err(step("make a pipe"))?;
    opened.join_namespaces()?;
    let Opened { launch, alone, cgroups, .. } = opened;
    let mut mask = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        mask.add(signal);
    }
    mask.thread_block().map_err(step("block signals"))?;
    let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC);
    let signals = signals.map_err(step("watch signals"))?;
    match sys::fork(alone).map_err(step("fork"))? {
        ForkResult::Parent { child } => {
            let program = sys::pidfd_open(child.as_raw()).map_err(step("watch the program"))?;
            wait_or_kill(&signals, &program).map_err(step("wait for the program"))?;
            let status = sys::wait(child.as_raw()).map_err(step("wait for the program"));
            drop(alive_write);
            status
        }
        ForkResult::Child => {
            drop(alive_write);
            let reason = become_program(&launch, argv, tty, cgroups, &alive_read);
            eprintln!("cannot run in the task: {reason}");
            sys::exit_now(NOT_FOUND.into())
        }
    }
}

/// Waits for the program's end, and kills it at the first signal.
fn wait_or_kill(signals: &SignalFd, program: &OwnedFd) -> io::Result<()> {
    loop {
        let mut fds = [
            PollFd::new(program.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        if fds[0].any() == Some(true) {
            return Ok(());
        }
        if fds[1].any() == Some(true) {
            signals.read_signal()?;
            sys::pidfd_send_signal(program.as_fd(), libc::SIGKILL)?;
        }
    }
}

/// Executes the program; returns only on failure, with the reason.
fn become_program(
    launch: &Launch,
    argv: &[String],
    tty: bool,
    cgroups: Vec<File>,
    parent_alive: &OwnedFd,
) -> String {
    let prepared = || -> io::Result<()> {
        for mut file in cgroups {
            file.write_all(b"0")?;
        }
        if tty {
            setsid()?;
            sys::take_terminal(io::stdin().as_fd())?;
            if launch.isolation == Isolation::Jail {
                // So that the task's user may also open it by name.
                let owner = (Some(launch.uid), None);
                std::os::unix::fs::fchown(io::stdin(), owner.0, owner.1)?;
            }
        }
        chdir("/home/task")?;
        sys::close_all_but(&mut [0, 1, 2, parent_alive.as_raw_fd()])
    };
    if let Err(error) = prepared() {
        return error.to_string();
    }
    if let Err(error) = confine::confine(launch) {
        return error.to_string();
    }
    // After the change of user, which clears it.
    if let Err(error) = prctl::set_pdeathsig(Signal::SIGKILL) {
        return error.to_string();
    }
    let mut alive = [PollFd::new(parent_alive.as_fd(), PollFlags::POLLIN)];
    if poll(&mut alive, PollTimeout::ZERO) != Ok(0) {
        return "the caller has ended".to_owned();
    }
    sys::reset_signals();
    let mut environment = complete_environment(launch);
    if let (true, Ok(term)) = (tty, std::env::var("TERM")) {
        environment.retain(|(name, _)| name != "TERM");
        environment.push(("TERM".to_owned(), term));
    }
    exec(argv, &environment)
}
