//! The init: pid 1 of a task's pid namespace, between the shim and the task.
//!
//! It joins the task's cgroups, builds the jail, starts the task in it, reaps orphans, forwards
//! SIGTERM, as the signal that the task wants instead, and enforces the notice. When it ends, for whatever reason, the kernel kills all other
//! processes in its pid namespace; that is how a task always ends as a whole.
//!
//! It lives and dies with the shim, and keeps no state on disk.

mod program;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{ForkResult, Pid, sethostname, setsid};

pub(crate) use program::{complete_environment, exec, with_secrets};

use crate::record::Launch;
use crate::shim_log::message;
use crate::{confine, jail, network, sys};

/// What the init inherits from the shim; everything else is closed.
pub(crate) struct Pipes {
    /// Only the shim holds the write end, so this closes when the shim dies.
    pub(crate) shim_alive: OwnedFd,
    /// Carries the reason if the task's program cannot be executed; closes when it is.
    pub(crate) trouble: OwnedFd,
    /// Carries one byte when the task has been forked, later its raw wait status.
    pub(crate) status: OwnedFd,
    /// Write end of the task's standard output.
    pub(crate) stdout: OwnedFd,
    /// Write end of the task's standard error.
    pub(crate) stderr: OwnedFd,
    /// Files to which to write `0` to join the task's cgroups; empty without root.
    pub(crate) cgroups: Vec<File>,
    /// The task's own network namespace, if it has one.
    pub(crate) network: Option<OwnedFd>,
}

/// The first byte of a reason on the trouble pipe: whether the machine could not set up the task, or
/// could not execute its program.
pub(crate) const SET_UP: u8 = b'S';
pub(crate) const PROGRAM: u8 = b'P';

/// Why a task does not run.
struct StartFailure {
    /// [`SET_UP`] or [`PROGRAM`].
    whose: u8,
    reason: String,
}

impl From<String> for StartFailure {
    fn from(reason: String) -> Self {
        Self { whose: SET_UP, reason }
    }
}

/// First byte on the status pipe: the task has been forked.
pub(crate) const FORKED: u8 = b'F';

/// Runs the task of `dir` as pid 1 of a new pid namespace, and ends this process.
pub(crate) fn run(launch: &Launch, dir: &Path, pipes: Pipes) -> ! {
    let mut keep: Vec<_> = pipes.cgroups.iter().map(AsRawFd::as_raw_fd).collect();
    keep.extend([&pipes.shim_alive, &pipes.trouble, &pipes.status].map(AsRawFd::as_raw_fd));
    keep.extend([&pipes.stdout, &pipes.stderr].map(AsRawFd::as_raw_fd));
    keep.extend(pipes.network.as_ref().map(AsRawFd::as_raw_fd));
    // Standard error stays the shim's log until the task replaces it.
    keep.extend([0, 1, 2]);
    // Before the jail hides the files.
    let (launch, secrets) = match with_secrets(launch) {
        Ok(launch) => (launch, Ok(())),
        Err(reason) => (launch.clone(), Err(reason)),
    };
    let launch = &launch;
    let result = secrets
        .and_then(|()| {
            sys::close_all_but(&mut keep)
                .map_err(|error| format!("cannot close inherited files: {error}"))
        })
        .and_then(|()| match pipes.network {
            Some(network) => network::enter(&network)
                .map_err(|error| format!("cannot enter the task's network: {error}")),
            None => Ok(()),
        })
        .map_err(StartFailure::from)
        .and_then(|()| prepare(launch, dir, &pipes.shim_alive, pipes.cgroups))
        .and_then(|signals| {
            let task = start(launch, &pipes.stdout, &pipes.stderr, &pipes.trouble)?;
            Ok((signals, task))
        });
    let (signals, task) = match result {
        Ok(ready) => ready,
        Err(StartFailure { whose, reason }) => {
            let reason = [&[whose], reason.as_bytes()].concat();
            let _shim_is_gone = File::from(pipes.trouble).write_all(&reason);
            sys::exit_now(1);
        }
    };
    let mut status = File::from(pipes.status);
    // In this order: when the shim sees the trouble pipe close, the byte is already there.
    let _shim_is_gone = status.write_all(&[FORKED]);
    drop((pipes.trouble, pipes.stdout, pipes.stderr));
    let ended = supervise(&signals, &pipes.shim_alive, task, launch);
    if let Ok(raw) = ended {
        let _shim_is_gone = status.write_all(&raw.to_le_bytes());
    }
    sys::exit_now(0)
}

/// Does everything before the task exists; returns the reason on failure.
fn prepare(
    launch: &Launch,
    dir: &Path,
    shim_alive: &OwnedFd,
    cgroups: Vec<File>,
) -> Result<SignalFd, StartFailure> {
    let say = |what: &'static str| move |error: io::Error| format!("cannot {what}: {error}");
    let nix = |what: &'static str| move |error: nix::Error| format!("cannot {what}: {error}");
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(nix("tie the init to its shim"))?;
    // The shim may have died before the line above, without any notification.
    let mut alive = [PollFd::new(shim_alive.as_fd(), PollFlags::POLLIN)];
    if poll(&mut alive, PollTimeout::ZERO) != Ok(0) {
        return Err("the shim has died".to_owned().into());
    }
    let _cosmetic = prctl::set_name(c"bourg-init");
    sys::rename_arguments(b"bourg-init");
    // Blocked before the first child exists, so that no SIGCHLD is missed. Pid 1 receives a signal
    // without a handler only if it is blocked: an unblocked SIGTERM would be discarded.
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.add(Signal::SIGTERM);
    mask.add(Signal::SIGHUP);
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&mask), None).map_err(nix("block signals"))?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let signals = SignalFd::with_flags(&mask, flags).map_err(nix("watch signals"))?;
    setsid().map_err(nix("begin a session"))?;
    for mut file in cgroups {
        file.write_all(b"0").map_err(say("join the task's cgroup"))?;
    }
    // The cgroup namespace last, so that the task's own cgroup becomes its root.
    let namespaces = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    unshare(namespaces).map_err(nix("make the task's namespaces"))?;
    sethostname(&launch.hostname).map_err(nix("set the hostname"))?;
    let built = jail::build(launch, dir).map_err(|error| {
        let whose = if error.is_of_task(&launch.jail.root) { PROGRAM } else { SET_UP };
        StartFailure { whose, reason: error.to_string() }
    })?;
    for remark in built {
        message(&format_args!("{}: {remark}", launch.label));
    }
    Ok(signals)
}

/// Forks the task.
fn start(
    launch: &Launch,
    stdout: &OwnedFd,
    stderr: &OwnedFd,
    trouble: &OwnedFd,
) -> Result<Pid, String> {
    match sys::SingleThread::check()
        .and_then(sys::fork)
        .map_err(|error| format!("cannot fork the task: {error}"))?
    {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            let (whose, reason) = become_task(launch, stdout, stderr, trouble);
            let reason = [&[whose], reason.as_bytes()].concat();
            let _init_is_gone = nix::unistd::write(trouble, &reason);
            sys::exit_now(127)
        }
    }
}

/// Executes the task's program; returns only on failure, with what failed and the reason.
fn become_task(
    launch: &Launch,
    stdout: &OwnedFd,
    stderr: &OwnedFd,
    trouble: &OwnedFd,
) -> (u8, String) {
    let prepared = || -> io::Result<()> {
        setsid()?;
        nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
        nix::unistd::dup2_stdout(stdout)?;
        nix::unistd::dup2_stderr(stderr)?;
        sys::close_all_but(&mut [0, 1, 2, trouble.as_raw_fd()])
    };
    if let Err(error) = prepared() {
        return (SET_UP, format!("cannot set up the task's files: {error}"));
    }
    if let Err(error) = confine::confine(launch) {
        return (SET_UP, error.to_string());
    }
    sys::reset_signals();
    let environment = complete_environment(launch);
    (PROGRAM, exec(&launch.argv, &environment))
}

/// Manages the namespace until the task's main process has ended; returns its raw wait status.
fn supervise(
    signals: &SignalFd,
    shim_alive: &OwnedFd,
    task: Pid,
    launch: &Launch,
) -> io::Result<i32> {
    let notice = Duration::from_millis(launch.notice_ms);
    let stop = launch.stop_signal.map_or(libc::SIGTERM, i32::from);
    let mut kill_at: Option<Instant> = None;
    loop {
        let timeout = match kill_at {
            None => PollTimeout::NONE,
            Some(at) => {
                // Rounded up, because otherwise the last millisecond would be spent spinning.
                let left = at.saturating_duration_since(Instant::now()).as_millis() + 1;
                PollTimeout::try_from(left.min(60_000)).unwrap_or(PollTimeout::MAX)
            }
        };
        let mut fds = [
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(shim_alive.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        if fds[1].any() == Some(true) {
            return Err(io::Error::other("the shim has died"));
        }
        while let Some(signal) = signals.read_signal()? {
            if signal.ssi_signo == Signal::SIGTERM as u32 {
                // Before the task has its own process group, it is a single process.
                let _gone = sys::signal_group(task.as_raw(), stop)
                    .or_else(|_| sys::signal_process(task.as_raw(), stop));
                kill_at.get_or_insert(Instant::now() + notice);
            }
            if signal.ssi_signo == Signal::SIGHUP as u32 {
                // The program has changed files, and nobody else has.
                let _gone = sys::signal_process(task.as_raw(), libc::SIGHUP);
            }
        }
        if kill_at.is_some_and(|at| at <= Instant::now()) {
            // Everything in this namespace except this process.
            let _nobody_left = kill(Pid::from_raw(-1), Signal::SIGKILL);
        }
        while let Some((pid, status)) = sys::reap()? {
            if pid == task.as_raw() {
                return Ok(status);
            }
        }
    }
}
