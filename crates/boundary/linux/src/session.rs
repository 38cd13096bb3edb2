//! A command that runs in a running task: a user's (`bourg exec`), or a health check.
//!
//! It joins the task ([`crate::enter`]), can get signals, and nothing that it starts outlives it: all of
//! it is killed when the command ends and when the caller is gone. Three processes take part:
//!
//! - The outer one, `bourg enter`, has the rights of the caller and stays outside of the task. Its
//!   standard input is a socket to the caller: a byte is the number of a signal, and its end is the
//!   end of the session. It sends one file: the caller's end of the standard input or terminal.
//! - The reaper runs in the task with the task's rights. Every process that the command leaves behind
//!   becomes its child, so none can hide.
//! - The command is a child of the reaper, and the leader of its session.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::fchown;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::dir::Dir;
use nix::fcntl::{OFlag, open, openat};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair,
};
use nix::sys::stat::Mode;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, pipe2, setsid};

use crate::enter::{self, EnterError, NOT_FOUND, Opened, Terminal, step};
use crate::init::{complete_environment, exec, with_secrets};
use crate::record::Launch;
use crate::{Isolation, confine, jail, sys};

/// The signals that a caller may send.
const SIGNALS: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];
/// The words of `bourg enter` for a session, the second one followed by its rows and columns.
const PIPES: &str = "session";
const TERMINAL: &str = "session-tty";
/// How long processes are killed that keep creating others.
const KILL_PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two looks at what is left.
const KILL_PAUSE: Duration = Duration::from_millis(2);

/// A command that runs in a task. It ends when [`control`](Self::control) is closed.
#[derive(Debug)]
pub struct Session {
    /// The `bourg enter` process, which ends with the command's exit status, 128 plus the signal,
    /// or 127. With [`Terminal::Pipes`] it has the command's standard output and error; with a
    /// terminal its standard error has the reason if the task could not be entered. The caller must
    /// wait for it.
    pub child: Child,
    /// The socket to it.
    pub control: Control,
}

/// The socket to a session.
#[derive(Debug)]
pub struct Control(OwnedFd);

impl Control {
    /// Receives the write end of the command's standard input, or the master side of its terminal;
    /// `None` if the task could not be entered. Blocks until the socket is readable.
    ///
    /// # Errors
    /// When the kernel returns an error.
    pub fn receive(&self) -> Result<Option<OwnedFd>, EnterError> {
        let mut buffer = [0; 1];
        let (_, mut files) = sys::receive_files(self.0.as_fd(), &mut buffer)
            .map_err(step("receive the command's files"))?;
        Ok(files.pop())
    }

    /// A copy of the descriptor, to wait until it is readable.
    ///
    /// # Errors
    /// When the process has no more descriptors.
    pub fn readable(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// Sends the command's process group a signal, one of HUP, INT, QUIT and TERM; others are
    /// ignored. A command that has just ended gets none.
    pub fn signal(&self, number: u8) {
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        let _ended = nix::sys::socket::send(self.0.as_raw_fd(), &[number], flags);
    }
}

/// Starts `argv` in the running task of `dir`, by running `<bourg_executable> enter DIR WORD --
/// ARGV…`.
///
/// # Errors
/// When no process can be created. If the task is not running, the exit status is 127 with a message
/// on standard error.
pub fn spawn(
    bourg_executable: &Path,
    dir: &Path,
    argv: &[String],
    terminal: &Terminal,
) -> Result<Session, EnterError> {
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
            .map_err(step("make a socket"))?;
    let mut command = Command::new(bourg_executable);
    command.env_clear().arg("enter").arg(dir);
    match terminal {
        Terminal::Pipes => {
            command.arg(PIPES).stdout(Stdio::piped());
        }
        Terminal::New { rows, columns, term } => {
            let word = format!("{TERMINAL}:{rows}:{columns}");
            command.arg(word).env("TERM", term).stdout(Stdio::null());
        }
    }
    command.arg("--").args(argv).stdin(theirs).stderr(Stdio::piped());
    let child = command.spawn().map_err(step("start bourg enter"))?;
    Ok(Session { child, control: Control(ours) })
}

/// The implementation of `bourg enter DIR WORD -- ARGV…` if the word is one of a session; call it
/// before the process has a second thread.
#[must_use]
pub fn run(dir: &Path, word: &str, argv: &[String]) -> Option<ExitCode> {
    let size = if word == PIPES {
        None
    } else {
        let (rows, columns) = word.strip_prefix(TERMINAL)?.strip_prefix(':')?.split_once(':')?;
        Some((rows.parse().ok()?, columns.parse().ok()?))
    };
    Some(enter::exit_code(session(dir, argv, size)))
}

/// Runs the command and returns its raw wait status.
fn session(dir: &Path, argv: &[String], size: Option<(u16, u16)>) -> Result<i32, EnterError> {
    let mut opened = enter::open(dir)?;
    // Before the task's root hides the files.
    let launch = with_secrets(&opened.launch).map_err(io::Error::other);
    opened.launch = launch.map_err(step("read the task's secrets"))?;
    // The host's, in which all processes can be found.
    let processes = open("/proc", OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(step("open /proc"))?;
    let control = io::stdin().as_fd().try_clone_to_owned().map_err(step("keep the socket"))?;
    let (alive_read, alive_write) = pipe2(OFlag::O_CLOEXEC).map_err(step("make a pipe"))?;
    let (reports, report) = pipe2(OFlag::O_CLOEXEC).map_err(step("make a pipe"))?;
    opened.join_namespaces()?;
    let (input, callers) = match size {
        None => pipe2(OFlag::O_CLOEXEC).map_err(step("make a pipe"))?,
        Some((rows, columns)) => terminal(rows, columns).map_err(step("make a terminal"))?,
    };
    send_file(&control, &callers).map_err(step("send the command's input"))?;
    drop(callers);
    let mut mask = SigSet::empty();
    SIGNALS.into_iter().chain([Signal::SIGCHLD]).for_each(|signal| mask.add(signal));
    mask.thread_block().map_err(step("block signals"))?;
    let Opened { launch, alone, cgroups, .. } = opened;
    match sys::fork(alone).map_err(step("fork"))? {
        ForkResult::Parent { child: reaper } => {
            drop((alive_read, report, input));
            let watched = sys::pidfd_open(reaper.as_raw()).map_err(step("watch the command"))?;
            let status = wait(&watched, &reports, &control).map_err(step("wait for the command"));
            let killed = match status {
                // It left nothing behind.
                Ok(Some(ExitReport { alone: true, .. })) => Ok(()),
                _ => kill_below(&processes, reaper.as_raw()),
            };
            let _ended = sys::pidfd_send_signal(watched.as_fd(), libc::SIGKILL);
            sys::wait(reaper.as_raw()).map_err(step("wait for the command"))?;
            drop(alive_write);
            killed.map_err(step("kill what the command started"))?;
            Ok(status?.map_or(libc::SIGKILL, |report| report.status))
        }
        ForkResult::Child => {
            drop((alive_write, reports, control, processes));
            let tty = size.is_some();
            let ends = Ends { input, alive: alive_read, report };
            let reason = reap(&launch, argv, tty, cgroups, &mask, ends);
            eprintln!("cannot run in the task: {reason}");
            sys::exit_now(NOT_FOUND.into())
        }
    }
}

/// A terminal of the task, which has its own: both sides of it.
fn terminal(rows: u16, columns: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    sys::set_window_size(master.as_fd(), rows, columns)?;
    let name = ptsname_r(&master)?;
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let slave = open(name.as_str(), flags, Mode::empty())?;
    Ok((slave, master.as_fd().try_clone_to_owned()?))
}

fn send_file(control: &OwnedFd, file: &OwnedFd) -> io::Result<()> {
    let files = [file.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&files)];
    let packet = [IoSlice::new(&[0])];
    sendmsg::<()>(control.as_raw_fd(), &packet, &rights, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

/// How the command ended, as the reaper reports it.
#[derive(Clone, Copy)]
struct ExitReport {
    /// The raw wait status.
    status: i32,
    /// Whether nothing that it started is left.
    alone: bool,
}

impl ExitReport {
    fn to_bytes(self) -> [u8; 5] {
        let [a, b, c, d] = self.status.to_ne_bytes();
        [a, b, c, d, self.alone.into()]
    }

    fn from_bytes([a, b, c, d, alone]: [u8; 5]) -> Self {
        Self { status: i32::from_ne_bytes([a, b, c, d]), alone: alone == 1 }
    }
}

/// Waits for the end of the command, and forwards signals. `None` if the caller is gone or the reaper
/// was killed, as at the end of the task.
fn wait(reaper: &OwnedFd, reports: &OwnedFd, control: &OwnedFd) -> io::Result<Option<ExitReport>> {
    let mut reports_file = File::from(reports.try_clone()?);
    loop {
        let mut fds = [
            PollFd::new(reports.as_fd(), PollFlags::POLLIN),
            PollFd::new(reaper.as_fd(), PollFlags::POLLIN),
            PollFd::new(control.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => {}
            Err(nix::Error::EINTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let [reported, ended, asked] = fds.each_ref().map(|fd| fd.any() == Some(true));
        if reported {
            let mut bytes = [0; 5];
            let read = reports_file.read_exact(&mut bytes);
            return Ok(read.is_ok().then(|| ExitReport::from_bytes(bytes)));
        }
        if ended {
            return Ok(None);
        }
        if asked {
            let mut bytes = [0; 1];
            match nix::unistd::read(control, &mut bytes) {
                Ok(1..) => {
                    let number = i32::from(bytes[0]);
                    if SIGNALS.iter().any(|signal| *signal as i32 == number) {
                        sys::pidfd_send_signal(reaper.as_fd(), number)?;
                    }
                }
                Err(nix::Error::EINTR) => {}
                Ok(0) | Err(_) => return Ok(None),
            }
        }
    }
}

/// What the reaper has from outside.
struct Ends {
    /// The standard input, or the terminal.
    input: OwnedFd,
    /// Readable when the outer process is gone.
    alive: OwnedFd,
    report: OwnedFd,
}

/// Becomes the reaper, starts the command, and reports its end; returns only on failure, with the
/// reason.
fn reap(
    launch: &Launch,
    argv: &[String],
    tty: bool,
    cgroups: Vec<File>,
    mask: &SigSet,
    ends: Ends,
) -> String {
    let Ends { input, alive, report } = ends;
    let prepared = || -> io::Result<()> {
        for mut file in cgroups {
            file.write_all(b"0")?;
        }
        dup2_stdin(&input)?;
        if tty {
            dup2_stdout(&input)?;
            dup2_stderr(&input)?;
        }
        drop(input);
        if launch.isolation == Isolation::Jail {
            // So that the task's user may also open them by name, as /dev/stdout.
            let owner = Some(launch.uid);
            fchown(io::stdin(), owner, None)?;
            fchown(io::stdout(), owner, None)?;
            fchown(io::stderr(), owner, None)?;
        }
        jail::enter_working_directory(launch).map_err(io::Error::other)?;
        sys::close_all_but(&mut [0, 1, 2, alive.as_raw_fd(), report.as_raw_fd()])?;
        prctl::set_child_subreaper(true)?;
        Ok(())
    };
    if let Err(error) = prepared() {
        return error.to_string();
    }
    if let Err(error) = confine::confine(launch) {
        return error.to_string();
    }
    let reaped = || -> io::Result<std::convert::Infallible> {
        // After the change of user, which clears it.
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        let mut fds = [PollFd::new(alive.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::ZERO)? != 0 {
            return Err(io::Error::other("the caller has ended"));
        }
        let signals = SignalFd::with_flags(mask, SfdFlags::SFD_CLOEXEC)?;
        match sys::fork(sys::SingleThread::check()?)? {
            ForkResult::Child => {
                drop((alive, report, signals));
                let reason = become_command(launch, argv, tty);
                eprintln!("cannot run in the task: {reason}");
                sys::exit_now(NOT_FOUND.into())
            }
            ForkResult::Parent { child } => watch(child, &signals, report),
        }
    };
    let Err(error) = reaped();
    error.to_string()
}

/// Executes the command; returns only on failure, with the reason.
fn become_command(launch: &Launch, argv: &[String], tty: bool) -> String {
    let prepared = || -> io::Result<()> {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        setsid()?;
        if tty {
            sys::take_terminal(io::stdin().as_fd())?;
        }
        Ok(())
    };
    if let Err(error) = prepared() {
        return error.to_string();
    }
    sys::reset_signals();
    let mut environment = complete_environment(launch);
    if let (true, Ok(term)) = (tty, std::env::var("TERM")) {
        environment.retain(|(name, _)| name != "TERM");
        environment.push(("TERM".to_owned(), term));
    }
    if argv.is_empty() {
        let shell = |path: &str| exec(&[path.to_owned()], &environment);
        shell("/bin/bash");
        return shell("/bin/sh");
    }
    exec(argv, &environment)
}

/// Forwards signals to the command and reaps until it has ended, reports that, and reaps on until it
/// is killed itself.
fn watch(
    command: Pid,
    signals: &SignalFd,
    report: OwnedFd,
) -> io::Result<std::convert::Infallible> {
    // The command alone has its files: their other ends see when it closes them.
    sys::close_standard_files();
    let mut report = Some(File::from(report));
    loop {
        let Some(signal) = signals.read_signal()? else { continue };
        if signal.ssi_signo != libc::SIGCHLD as u32 {
            if report.is_some()
                && let Ok(number) = i32::try_from(signal.ssi_signo)
                && let Ok(signal) = Signal::try_from(number)
            {
                // Before it has become a leader of its own group, it has no group.
                let _none = killpg(command, signal);
            }
            continue;
        }
        let mut ended = None;
        while let Some((pid, status)) = sys::reap()? {
            if pid == command.as_raw() {
                ended = Some(status);
            }
        }
        if let Some(status) = ended
            && let Some(mut file) = report.take()
        {
            let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            let alone = waitid(Id::All, flags) == Err(nix::Error::ECHILD);
            file.write_all(&ExitReport { status, alone }.to_bytes())?;
        }
    }
}

/// A process, by what a reused number would not have.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ProcessStat {
    parent: i32,
    begun: u64,
    is_dead: bool,
}

/// Kills all processes below one, until none is left.
fn kill_below(processes: &OwnedFd, reaper: i32) -> io::Result<()> {
    let until = Instant::now() + KILL_PATIENCE;
    loop {
        let all = all_processes(processes)?;
        let is_below = |mut pid: i32| {
            // The depth is bounded, since processes may change while they are read.
            for _ in 0..1_024 {
                match all.get(&pid) {
                    Some(known) if known.parent == reaper => return true,
                    Some(known) => pid = known.parent,
                    None => return false,
                }
            }
            false
        };
        let left: Vec<_> =
            all.iter().filter(|(pid, known)| !known.is_dead && is_below(**pid)).collect();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(io::Error::other(format!(
                "{} processes are left after {} s of killing",
                left.len(),
                KILL_PATIENCE.as_secs()
            )));
        }
        for (pid, known) in left {
            // The number may have been reused since.
            if let Ok(process) = sys::pidfd_open(*pid)
                && process_of(processes.as_fd(), *pid).is_some_and(|now| now.begun == known.begun)
            {
                let _ended = sys::pidfd_send_signal(process.as_fd(), libc::SIGKILL);
            }
        }
        std::thread::sleep(KILL_PAUSE);
    }
}

fn all_processes(processes: &OwnedFd) -> io::Result<HashMap<i32, ProcessStat>> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut directory = Dir::openat(processes, ".", flags, Mode::empty())?;
    let entries = directory.iter().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok());
    Ok(pids.filter_map(|pid| Some((pid, process_of(processes.as_fd(), pid)?))).collect())
}

fn process_of(processes: BorrowedFd<'_>, pid: i32) -> Option<ProcessStat> {
    let path = format!("{pid}/stat");
    let file = openat(processes, path.as_str(), OFlag::O_CLOEXEC, Mode::empty()).ok()?;
    let mut text = Vec::new();
    File::from(file).take(4_096).read_to_end(&mut text).ok()?;
    known(&String::from_utf8_lossy(&text))
}

/// Reads `/proc/PID/stat`. The name, in parentheses, may contain anything.
fn known(stat: &str) -> Option<ProcessStat> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let is_dead = matches!(fields.next()?, "Z" | "X" | "x");
    let parent = fields.next()?.parse().ok()?;
    // Field 22; the state is field 3.
    let begun = fields.nth(17)?.parse().ok()?;
    Some(ProcessStat { parent, begun, is_dead })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_may_look_like_its_fields() {
        let rest = "S 7 8 9 0 -1 4 0 0 0 0 1 2 3 4 20 0 1 0 5021 100 200";
        let known = known(&format!("12 (a) Z 1 (b) {rest}")).expect("a process");
        assert!(known == ProcessStat { parent: 7, begun: 5021, is_dead: false });
        assert!(super::known("12 (a").is_none());
    }
}
