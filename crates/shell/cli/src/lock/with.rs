//! `bourg lock with`: holds a lock while a command runs.

use std::io::IsTerminal as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use clap::Args;
use client::{Connection, Target};
use clientd::{Held, Lost};
use command::{Code, Failure, runtime};
use model::FilePath;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use process::arguments::duration;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::failure;
use super::guard::Guard;

/// The time between SIGTERM and SIGKILL for a command that has lost its lock.
const NOTICE: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(crate) struct WithArgs {
    /// The path of the lock, as /USER/NAME.
    path: FilePath,
    /// Share the lock with others who hold it shared.
    #[arg(long)]
    shared: bool,
    /// How long to wait for the lock, such as 10s; 0s: try once. Default: without limit. The exit code
    /// is 4 if it was not acquired in time.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,
    /// How long others wait for the lock after this process or its machine is dead: 5s to 60s.
    #[arg(long, value_name = "TIME", default_value = "12s", value_parser = duration)]
    lease: Duration,
    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub(super) fn with(cell: Target<'_>, args: &WithArgs) -> Result<ExitCode, Failure> {
    process::block_on(&runtime()?, async { hold(Connection::open(cell)?, args).await })
}

async fn hold(connection: Connection, args: &WithArgs) -> Result<ExitCode, Failure> {
    let path = args.path.as_str();
    let until = args.wait.map(|wait| Instant::now() + wait);
    let mut held = Held::open(connection.clone(), args.lease).await.map_err(failure)?;
    let acquiring = acquire(&mut held, &connection, args);
    let acquired = match until {
        Some(until) if until > Instant::now() => {
            tokio::time::timeout_at(until, acquiring).await.unwrap_or(Ok(None))
        }
        _ => acquiring.await,
    };
    let sequencer = match acquired {
        Ok(sequencer) => sequencer,
        Err(error) => {
            held.close().await;
            return Err(error);
        }
    };
    let Some(sequencer) = sequencer else {
        held.close().await;
        let text = format!("error: the lock of {path} was not acquired in time: others hold it");
        return Err(Failure::new(Code::NotPlaced, text)
            .next(format!("`bourg lock show {path}` shows who holds it")));
    };
    let mut running = match Running::start(&args.command, &sequencer) {
        Ok(running) => running,
        Err(error) => {
            held.close().await;
            return Err(error);
        }
    };
    let outcome = running.watch(&mut held).await;
    match outcome {
        Ok(status) => {
            running.guard.dismiss();
            held.close().await;
            Ok(status_code(status))
        }
        Err(Lost(why)) => {
            running.end().await;
            running.guard.dismiss();
            let text = format!("error: the lock of {path} is lost: {why}; the command was ended");
            Err(Failure::new(Code::Changed, text))
        }
    }
}

/// Acquires the lock; its sequencer, or nothing if it is held by others and there is no time to wait. A
/// session that is lost meanwhile is replaced.
async fn acquire(
    held: &mut Held,
    connection: &Connection,
    args: &WithArgs,
) -> Result<Option<String>, Failure> {
    let path = args.path.as_str();
    loop {
        if Instant::now() >= held.due() && held.renew().await.is_err() {
            *held = Held::open(connection.clone(), args.lease).await.map_err(failure)?;
        }
        if let Some(sequencer) = held.acquire(path, args.shared).await.map_err(failure)? {
            return Ok(Some(sequencer));
        }
        if args.wait == Some(Duration::ZERO) {
            return Ok(None);
        }
        if let Err(Lost(_)) = held.wait_until_free(path, args.shared).await? {
            *held = Held::open(connection.clone(), args.lease).await.map_err(failure)?;
        }
    }
}

/// The command that runs while the lock is held.
struct Running {
    child: Child,
    /// Its process, which leads a process group unless it shares a terminal with this one.
    pid: Option<Pid>,
    leads_group: bool,
    guard: Guard,
}

impl Running {
    fn start(command: &[String], sequencer: &str) -> Result<Self, Failure> {
        let (program, arguments) =
            command.split_first().map_or(("", command), |(first, rest)| (first.as_str(), rest));
        let mut command = Command::new(program);
        command.args(arguments).env("BOURG_LOCK_SEQUENCER", sequencer);
        // In another group it could not read from the terminal.
        let leads_group = !std::io::stdin().is_terminal();
        if leads_group {
            command.process_group(0);
        }
        let unguarded = |error: std::io::Error| {
            let why = "the process that ends the command with this one";
            Failure::failed(format!("error: cannot start {why}: {error}"))
        };
        let mut guard = Guard::start().map_err(unguarded)?;
        let child = command.spawn().map_err(|error| {
            Failure::usage(format!("error: cannot run {}: {error}", program.escape_debug()))
        })?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
        if let Some(pid) = pid.map(Pid::as_raw) {
            guard.watch(if leads_group { -pid } else { pid }).map_err(unguarded)?;
        }
        Ok(Self { child, pid, leads_group, guard })
    }

    /// Waits until the command has ended, or the session is lost. Signals go to the command.
    async fn watch(&mut self, held: &mut Held) -> Result<ExitStatus, Lost> {
        let listen = |kind| signal(kind).map_err(|error| Lost(error.to_string()));
        let mut interrupts = listen(SignalKind::interrupt())?;
        let mut terminations = listen(SignalKind::terminate())?;
        let mut hangups = listen(SignalKind::hangup())?;
        loop {
            let due = held.due();
            tokio::select! {
                biased;
                status = self.child.wait() => {
                    return status.map_err(|error| Lost(error.to_string()));
                }
                () = tokio::time::sleep_until(due) => held.renew().await?,
                _ = interrupts.recv() => if self.leads_group { self.signal(Signal::SIGINT) },
                _ = terminations.recv() => self.signal(Signal::SIGTERM),
                _ = hangups.recv() => self.signal(Signal::SIGHUP),
            }
        }
    }

    fn signal(&self, which: Signal) {
        let Some(pid) = self.pid else { return };
        let sent = if self.leads_group { killpg(pid, which) } else { kill(pid, which) };
        // It may have ended already.
        let _ = sent;
    }

    /// Ends the command: SIGTERM, and SIGKILL if it goes on.
    async fn end(&mut self) {
        self.signal(Signal::SIGTERM);
        if tokio::time::timeout(NOTICE, self.child.wait()).await.is_err() {
            self.signal(Signal::SIGKILL);
            drop(self.child.wait().await);
        }
    }
}

/// The exit status of a command, or 128 plus the signal that killed it.
fn status_code(status: ExitStatus) -> ExitCode {
    let signal = status.signal().map(|signal| signal.saturating_add(128));
    let code = status.code().or(signal).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
