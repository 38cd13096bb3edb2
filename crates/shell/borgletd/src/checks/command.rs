//! A command that checks a task's health, run inside it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use linux::child::end_of;
use linux::enter::Terminal;
use linux::session::{Session, spawn};
use model::{InstanceId, UserName};
use rpc::transport::Turn;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::{sleep_until, timeout_at};

use super::text;
use crate::readable::readable;
use crate::tasks::Files;

/// The maximum output of a command.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// What is kept of each of its streams, for the first line.
const KEPT_BYTES: usize = 512;
/// How long a killed command is waited for before its check is answered.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// One of the output streams of a command.
struct OutputStream {
    pipe: Option<pipe::Receiver>,
    kept: Vec<u8>,
}

/// Why a command is not waited for any longer.
enum Stop {
    Ended,
    Late,
    TooMuchOutput,
}

/// Runs a command to its end, at most for `timeout`. All that it has started is killed with it, and the
/// turn is held until that is gone.
pub(super) async fn run(
    files: &Files,
    instance: InstanceId,
    argv: Vec<String>,
    timeout: Duration,
    turn: Turn<UserName>,
) -> Result<String, String> {
    let deadline = tokio::time::Instant::now() + timeout;
    let files = files.clone();
    let started = tokio::task::spawn_blocking(move || {
        let task = files.task(instance)?;
        anyhow::Ok(spawn(files.executable(), task.path(), &argv, &Terminal::Pipes)?)
    });
    let started = started.await.map_err(anyhow::Error::from).and_then(|started| started);
    let mut session = started.map_err(|error| format!("not started: {error:#}"))?;
    let (mut out, mut err, ends) = match files_of(&mut session) {
        Ok(files) => files,
        Err(error) => {
            reap(session, turn).await;
            return Err(text(error));
        }
    };
    let stop = {
        let mut ended = std::pin::pin!(readable(ends.command));
        let mut entered = std::pin::pin!(readable(ends.control));
        let (mut seen, mut has_input) = (0, false);
        let (mut some, mut other) = ([0; 4_096], [0; 4_096]);
        loop {
            seen += tokio::select! {
                () = &mut ended => break Stop::Ended,
                () = sleep_until(deadline) => break Stop::Late,
                () = &mut entered, if !has_input => {
                    has_input = true;
                    // Closed at once: it reads an end of file.
                    drop(session.control.receive());
                    0
                }
                bytes = out.read(&mut some), if out.pipe.is_some() => bytes,
                bytes = err.read(&mut other), if err.pipe.is_some() => bytes,
            };
            if seen > OUTPUT_BYTES_MAX {
                break Stop::TooMuchOutput;
            }
        }
    };
    let said = |out: &OutputStream, err: &OutputStream| {
        let line = out.first_line().or_else(|| err.first_line());
        line.map(|line| format!(": {line}")).unwrap_or_default()
    };
    match stop {
        Stop::Ended => {
            out.read_rest();
            err.read_rest();
            let status = session.child.wait().map_err(text)?;
            // `bourg enter` itself is not killed by a signal, but by whoever kills all of a machine.
            let code = status.code().unwrap_or(128);
            let said = format!("exit code {code}{}", said(&out, &err));
            if status.success() { Ok(said) } else { Err(said) }
        }
        Stop::Late => {
            reap(session, turn).await;
            Err(format!("no end within {} ms{}", timeout.as_millis(), said(&out, &err)))
        }
        Stop::TooMuchOutput => {
            reap(session, turn).await;
            Err(format!("printed more than {} KiB{}", OUTPUT_BYTES_MAX >> 10, said(&out, &err)))
        }
    }
}

/// What becomes readable when a command has ended, and when it can have its input.
struct Ends {
    command: OwnedFd,
    control: OwnedFd,
}

fn files_of(session: &mut Session) -> io::Result<(OutputStream, OutputStream, Ends)> {
    let out = session.child.stdout.take().map(OwnedFd::from);
    let err = session.child.stderr.take().map(OwnedFd::from);
    let ends = Ends { command: end_of(&session.child)?, control: session.control.readable()? };
    Ok((OutputStream::new(out)?, OutputStream::new(err)?, ends))
}

/// Kills a command with all that it has started, and waits for its end: briefly here, and beside for as
/// long as it takes.
async fn reap(session: Session, turn: Turn<UserName>) {
    let Session { mut child, control } = session;
    // Without a caller the command is killed.
    drop(control);
    let gone = tokio::spawn(async move {
        if let Ok(end) = end_of(&child) {
            readable(end).await;
        }
        if let Err(error) = child.wait() {
            tracing::warn!("cannot wait for a health check: {error}");
        }
        drop(turn);
    });
    let _late = timeout_at(tokio::time::Instant::now() + KILL_PATIENCE, gone).await;
}

impl OutputStream {
    fn new(pipe: Option<OwnedFd>) -> io::Result<Self> {
        let pipe = pipe.map(pipe::Receiver::from_owned_fd).transpose()?;
        Ok(Self { pipe, kept: Vec::new() })
    }

    /// Reads something, and returns how much; at its end the pipe is closed.
    async fn read(&mut self, buffer: &mut [u8]) -> usize {
        let Some(pipe) = &mut self.pipe else { return 0 };
        let bytes = pipe.read(buffer).await.unwrap_or(0);
        self.keep(&buffer[..bytes]);
        bytes
    }

    /// Reads what is there. Something that the command left running may hold the pipe open.
    fn read_rest(&mut self) {
        let mut buffer = [0; KEPT_BYTES];
        while self.kept.len() < KEPT_BYTES
            && let Some(pipe) = &self.pipe
        {
            let bytes = pipe.try_read(&mut buffer).unwrap_or(0);
            self.keep(&buffer[..bytes]);
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = KEPT_BYTES - self.kept.len();
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.is_empty() {
            self.pipe = None;
        }
    }

    /// Its first line with something in it.
    fn first_line(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.kept);
        text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }
}
