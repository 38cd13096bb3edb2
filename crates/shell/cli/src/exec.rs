//! `bourg exec`: a command inside a task, with the files or the terminal of this one.
//! [`super::copy`] runs its other end in the same way.

use std::collections::VecDeque;
use std::io::{IsTerminal as _, Read, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;

use api::v1;
use api::v1::exec_input::Input;
use api::v1::exec_output::Output;
use api::v1::exec_request::Message;
use clap::Args;
use client::{Connection, Target};
use command::output::for_terminal;
use command::{Failure, job_address, runtime};
use model::{Address, TaskSelection};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use ratatui::crossterm::terminal::window_size;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Streaming};

/// The size of a piece of input, and how many were read ahead.
const PIECE_BYTES: usize = 32 << 10;
const PIECES: usize = 2;
/// Requests that wait for the connection.
const QUEUE: usize = 4;
/// A session without a terminal ends at this signal, however it takes the ones before.
const SIGNALS_MAX: u32 = 3;

#[derive(Debug, Args)]
pub(super) struct ExecArgs {
    /// Pass the standard input to the command. Without it, the command's input is empty.
    #[arg(long, short)]
    interactive: bool,
    /// Give the command a terminal, which this one shows: for shells and editors. A shell alone gets it with -i
    /// by itself, if the standard input and output are a terminal.
    #[arg(long, short)]
    tty: bool,
    /// A task, as user/job/7 or job/7; of a job with one task also user/job or job.
    task: Address,
    /// The command and its arguments; everything after its first word belongs to it, also flags. `--` may precede it.
    /// Default: a shell.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The shells that are used as a terminal when they are named alone.
const SHELLS: [&str; 8] = ["sh", "ash", "bash", "csh", "dash", "fish", "ksh", "zsh"];

impl ExecArgs {
    /// A shell alone, at a terminal, gets the terminal: without it, it would end at once.
    fn at_a_terminal(self, is_terminal: bool) -> Self {
        let is_shell = match self.command.as_slice() {
            [] => true,
            [program, flags @ ..] => {
                let name = program.rsplit('/').next().unwrap_or_default();
                let is_for_people =
                    |flag: &String| matches!(flag.as_str(), "-l" | "-i" | "--login");
                SHELLS.contains(&name) && flags.iter().all(is_for_people)
            }
        };
        match is_terminal && is_shell && !self.interactive && !self.tty {
            true => Self { interactive: true, tty: true, ..self },
            false => self,
        }
    }
}

/// Runs the command and returns its exit status.
pub(super) fn exec(cell: Target<'_>, args: ExecArgs) -> Result<ExitCode, Failure> {
    let args =
        args.at_a_terminal(std::io::stdin().is_terminal() && std::io::stdout().is_terminal());
    if args.tty && !std::io::stdin().is_terminal() {
        return Err(Failure::usage("error: -t needs a terminal as the standard input")
            .next("leave out -t, or run the command at a terminal"));
    }
    let terminal = args.tty.then(|| v1::ExecTerminal {
        window: Some(window()),
        term: std::env::var("TERM").unwrap_or_else(|_| "xterm".to_owned()),
    });
    let session = ExecSession { task: &args.task, usage: "exec", command: args.command, terminal };
    let signals = if args.tty { OnSignal::Resize } else { OnSignal::Forward };
    let runtime = runtime()?;
    let ended = process::block_on(&runtime, async {
        let input = args.interactive.then(|| read_input(std::io::stdin()));
        let streams =
            Streams { input, output: std::io::stdout, errors: Errors::AsTheyAre, signals };
        session.run(Connection::open(cell)?, streams).await
    });
    // A write to a standard output that nobody reads may never end.
    runtime.shutdown_background();
    ended.map(ExitCode::from)
}

/// A command to run in a task.
pub(super) struct ExecSession<'a> {
    pub(super) task: &'a Address,
    /// The command of `bourg` that this is for, in advice.
    pub(super) usage: &'static str,
    /// A shell if it is empty.
    pub(super) command: Vec<String>,
    pub(super) terminal: Option<v1::ExecTerminal>,
}

/// The files of a command in a task; its standard error goes to that of this process.
pub(super) struct Streams<F> {
    /// Its standard input, see [`read_input`]; empty if there is none.
    pub(super) input: Option<mpsc::Receiver<Vec<u8>>>,
    /// Where its standard output is written: called for each piece.
    pub(super) output: F,
    pub(super) errors: Errors,
    pub(super) signals: OnSignal,
}

/// How the standard error of a command is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errors {
    /// Unchanged: it may draw on the terminal.
    AsTheyAre,
    /// Escaped for a terminal: it is a message, and the task is not trusted.
    Escaped,
}

/// What a signal to this process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnSignal {
    /// It goes to the command; the third one ends the session.
    Forward,
    /// It ends the session; a change of the window's size goes to the command's terminal. Keys never raise
    /// signals here, so a signal is meant for this process.
    Resize,
    /// It ends the session.
    End,
}

/// The settings of the terminal, restored when this is dropped.
struct Raw {
    terminal: OwnedFd,
    before: Termios,
}

impl Raw {
    fn begin() -> Result<Self, Failure> {
        let failed = |why: &dyn std::fmt::Display| {
            Failure::failed(format!("error: cannot use the terminal: {why}"))
        };
        let stdin = std::io::stdin();
        let terminal = stdin.as_fd().try_clone_to_owned().map_err(|error| failed(&error))?;
        let before = tcgetattr(&terminal).map_err(|error| failed(&error))?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        let set = Self { terminal, before };
        tcsetattr(&set.terminal, SetArg::TCSADRAIN, &raw).map_err(|error| failed(&error))?;
        Ok(set)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _gone = tcsetattr(&self.terminal, SetArg::TCSADRAIN, &self.before);
    }
}

/// The size of this terminal.
fn window() -> v1::ExecWindow {
    let (rows, columns) = window_size().map(|size| (size.rows, size.columns)).unwrap_or_default();
    v1::ExecWindow { rows: rows.into(), columns: columns.into() }
}

impl ExecSession<'_> {
    /// Runs the command; returns its exit status.
    pub(super) async fn run<W: Write + Send + 'static>(
        self,
        mut connection: Connection,
        streams: Streams<impl Fn() -> W>,
    ) -> Result<u8, Failure> {
        let task = one_task(&mut connection, self.task, self.usage).await?;
        let has_terminal = self.terminal.is_some();
        let start = v1::ExecStart {
            job: Some(job_address(self.task)),
            task,
            execution: Some(v1::Execution { argv: self.command, terminal: self.terminal }),
        };
        // Nothing is sent before the call is accepted: it can be tried at another replica, and the command
        // is never executed twice.
        let (to_master, outputs) = connection
            .stream((), async |mut client, request| {
                let (to_master, requests) = mpsc::channel(QUEUE);
                let response =
                    client.tasks.exec(request.map(|()| ReceiverStream::new(requests))).await?;
                let (metadata, outputs, extensions) = response.into_parts();
                Ok(Response::from_parts(metadata, (to_master, outputs), extensions))
            })
            .await?;
        let _gone = to_master.send(v1::ExecRequest { message: Some(Message::Start(start)) }).await;
        let signals = Signals::listen()?;
        let raw = has_terminal.then(Raw::begin).transpose()?;
        let (granted, grants) = mpsc::unbounded_channel();
        let ended = tokio::select! {
            ended = show(outputs, streams.output, streams.errors, granted) => ended,
            () = send_input(streams.input, grants, to_master.clone()) => {
                unreachable!("it waits for ever at the end")
            }
            status = signals.forward(streams.signals, to_master) => Ok(status),
        };
        drop(raw);
        ended
    }
}

/// Shows the output until the command has ended.
async fn show<W: Write + Send + 'static>(
    mut outputs: Streaming<v1::ExecOutput>,
    stdout: impl Fn() -> W,
    errors: Errors,
    granted: mpsc::UnboundedSender<u32>,
) -> Result<u8, Failure> {
    while let Some(message) = outputs.message().await? {
        let written = match message.output {
            Some(Output::Stdout(bytes)) => write(stdout(), bytes).await,
            Some(Output::Stderr(bytes)) => {
                let bytes = match errors {
                    Errors::AsTheyAre => bytes,
                    Errors::Escaped => for_terminal(bytes),
                };
                write(std::io::stderr(), bytes).await
            }
            Some(Output::Granted(bytes)) => {
                // Without input nobody takes it.
                let _unused = granted.send(bytes);
                Ok(())
            }
            Some(Output::Exited(status)) => return Ok(u8::try_from(status).unwrap_or(u8::MAX)),
            None => Ok(()),
        };
        match written {
            // As a local command would end.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(141),
            written => {
                written
                    .map_err(|error| Failure::failed(format!("error: cannot write: {error}")))?;
            }
        }
    }
    Err(Failure::failed("error: the connection ended before the command")
        .next("everything that the command started is killed: run it again if that is safe"))
}

/// Writes in another thread, so that signals are heard meanwhile.
async fn write(mut file: impl Write + Send + 'static, bytes: Vec<u8>) -> std::io::Result<()> {
    let written = tokio::task::spawn_blocking(move || {
        file.write_all(&bytes)?;
        file.flush()
    });
    written.await.map_err(std::io::Error::other)?
}

/// Sends the input as far as it is granted, and its end; then waits for ever.
async fn send_input(
    pieces: Option<mpsc::Receiver<Vec<u8>>>,
    mut grants: mpsc::UnboundedReceiver<u32>,
    to_master: mpsc::Sender<v1::ExecRequest>,
) {
    let send = async |input| {
        let message = Some(Message::Input(v1::ExecInput { input: Some(input) }));
        let _gone = to_master.send(v1::ExecRequest { message }).await;
    };
    if let Some(mut pieces) = pieces {
        let (mut waiting, mut credit) = (VecDeque::new(), 0_u64);
        loop {
            if waiting.is_empty() {
                match pieces.recv().await {
                    Some(piece) => waiting.extend(piece),
                    None => break,
                }
                continue;
            }
            if credit == 0 {
                match grants.recv().await {
                    Some(more) => credit += u64::from(more),
                    None => break,
                }
                continue;
            }
            let fits = usize::try_from(credit).unwrap_or(usize::MAX).min(waiting.len());
            let bytes: Vec<u8> = waiting.drain(..fits).collect();
            credit -= bytes.len() as u64;
            send(Input::Stdin(bytes)).await;
        }
    }
    send(Input::StdinEnd(v1::Nothing {})).await;
    std::future::pending::<()>().await;
}

/// Reads an input in a thread of its own, which may wait for it longer than this process lives.
pub(super) fn read_input(mut from: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (to_us, pieces) = mpsc::channel(PIECES);
    std::thread::spawn(move || {
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            match from.read(&mut buffer) {
                Ok(bytes @ 1..) => {
                    if to_us.blocking_send(buffer[..bytes].to_vec()).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
            }
        }
    });
    pieces
}

/// The signals that this process may get.
struct Signals {
    hang_up: Signal,
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    window: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::failed(format!("error: no signals: {error}")))
        };
        Ok(Self {
            hang_up: listen(SignalKind::hangup())?,
            interrupt: listen(SignalKind::interrupt())?,
            quit: listen(SignalKind::quit())?,
            terminate: listen(SignalKind::terminate())?,
            window: listen(SignalKind::window_change())?,
        })
    }

    /// Forwards signals until one ends the session; returns the exit status then.
    async fn forward(mut self, on: OnSignal, to_master: mpsc::Sender<v1::ExecRequest>) -> u8 {
        let mut seen = 0;
        loop {
            let kind = tokio::select! {
                _ = self.hang_up.recv() => SignalKind::hangup(),
                _ = self.interrupt.recv() => SignalKind::interrupt(),
                _ = self.quit.recv() => SignalKind::quit(),
                _ = self.terminate.recv() => SignalKind::terminate(),
                _ = self.window.recv() => SignalKind::window_change(),
            };
            let number = u8::try_from(kind.as_raw_value()).unwrap_or_default();
            let input = match kind == SignalKind::window_change() {
                true if on == OnSignal::Resize => Input::Window(window()),
                true => continue,
                false => {
                    seen += 1;
                    if on != OnSignal::Forward || seen == SIGNALS_MAX {
                        return 128 + number;
                    }
                    Input::Signal(number.into())
                }
            };
            let message = Some(Message::Input(v1::ExecInput { input: Some(input) }));
            // The connection may hang.
            tokio::select! {
                _gone = to_master.send(v1::ExecRequest { message }) => {}
                _ = self.interrupt.recv() => return 130,
                _ = self.terminate.recv() => return 143,
            }
        }
    }
}

/// The index of the task that an address names. `command` is for advice.
pub(super) async fn one_task(
    connection: &mut Connection,
    address: &Address,
    command: &str,
) -> Result<u32, Failure> {
    let wrong = || {
        let job = &address.job;
        let path = if command == "cp" { ":PATH" } else { "" };
        Failure::usage(format!("error: name one task of {job}"))
            .next(format!("bourg {command} {job}/0{path}"))
    };
    match &address.tasks {
        TaskSelection::Some(ranges) => match ranges.as_slice() {
            [(first, last)] if first == last => Ok(first.0),
            _ => Err(wrong()),
        },
        TaskSelection::All => {
            let jobs = vec![job_address(address)];
            let request = v1::StatusRequest { jobs, ..Default::default() };
            let answer = connection
                .ask(request, async |mut client, request| client.jobs.status(request).await)
                .await?;
            match answer.jobs.iter().any(|job| job.counts.unwrap_or_default().tasks != 1) {
                true => Err(wrong()),
                false => Ok(0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_at_a_terminal_gets_the_terminal() {
        for (flags, command, is_terminal, expected) in [
            ("", "", true, true),
            ("", "sh", true, true),
            ("", "/bin/bash -l", true, true),
            ("", "sh -c ls", true, false),
            ("", "top", true, false),
            ("", "sh", false, false),
            ("i", "sh", true, false),
        ] {
            let args = ExecArgs {
                interactive: flags.contains('i'),
                tty: false,
                task: "web/0".parse().expect("an address"),
                command: command.split_whitespace().map(str::to_owned).collect(),
            };
            let args = args.at_a_terminal(is_terminal);
            let seen = (args.tty, args.interactive);
            assert_eq!(seen, (expected, expected || flags == "i"), "{flags} {command}");
        }
    }
}
