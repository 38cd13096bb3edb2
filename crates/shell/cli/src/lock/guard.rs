//! A process beside the command of `bourg lock with`, which ends the command if its client ends first,
//! even by SIGKILL: without a client nobody renews the session, and others get the lock.

use std::io::{BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The name of the hidden command that the process runs.
pub(crate) const COMMAND: &str = "end-command-with-client";
/// What the client says when the command has ended, or it has ended the command itself.
const DONE: &str = "done";

/// The process, as its client has it. If this is dropped, the command is ended.
pub(super) struct Guard {
    to_guard: ChildStdin,
    process: Child,
}

impl Guard {
    /// Starts the process, before the command.
    pub(super) fn start() -> std::io::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals of the terminal are for the command.
            .process_group(0)
            .spawn()?;
        let to_guard = process.stdin.take();
        let to_guard = to_guard.ok_or_else(|| std::io::Error::other("it has no standard input"))?;
        Ok(Self { to_guard, process })
    }

    /// The command runs: its process, or with a minus its process group.
    pub(super) fn watch(&mut self, command: i32) -> std::io::Result<()> {
        writeln!(self.to_guard, "{command}")
    }

    /// Nothing is left to end.
    pub(super) fn dismiss(mut self) {
        let told = writeln!(self.to_guard, "{DONE}");
        drop(self.to_guard);
        if told.is_ok() {
            let _ended = self.process.wait();
        }
    }
}

/// The process itself: reads what its client says, and ends the command if the client is gone before it
/// has said that nothing is left to end.
pub(crate) fn run() {
    let mut command = None;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match line.as_str() {
            DONE => return,
            number => command = number.parse().ok().or(command),
        }
    }
    if let Some(command) = command {
        // It may have ended already.
        let _gone = kill(Pid::from_raw(command), Signal::SIGKILL);
    }
}
