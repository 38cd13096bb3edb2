//! Commands that users run inside tasks: relayed between the master and their processes.
//!
//! Nothing is buffered without bound. Output is read only when the stream to the master has room, and
//! input arrives only as far as it was granted. A command is killed, with all that it started, when its
//! call ends.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use api::v1;
use api::v1::exec_in_task_request::Message;
use api::v1::exec_input::Input;
use api::v1::exec_output::Output;
use linux::child::end_of;
use linux::enter::{Terminal, resize};
use linux::session::{Control, Session, spawn};
use linux::task::Inspection;
use model::{Asker, InstanceId, UserName};
use rpc::transport::{Full, Limiter, Permit};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::readable::readable;
use super::tasks::Files;

/// The commands that run inside the tasks of a machine at once, copies of files included; users share
/// them by who runs them, and the others are rejected.
const SESSIONS_MAX: usize = 64;
/// Those inside one task, by administrators and by others each; more are rejected.
const TASK_SESSIONS_MAX: usize = 8;
/// The maximum size of a command's words.
const ARGV_BYTES_MAX: usize = 128 << 10;
/// The maximum size of an input message, and of what waits for the command in all.
const INPUT_BYTES_MAX: usize = 64 << 10;
const INPUT_WINDOW: u32 = 256 << 10;
/// The size of a piece of output, and how many wait for the master.
const PIECE_BYTES: usize = 32 << 10;
const OUTPUT_QUEUE: usize = 4;
/// What is still read of a stream after the command has ended: a process of the task itself may hold
/// it open.
const REST_BYTES_MAX: usize = 1 << 20;
/// How long the first message may take, and a message with why a task could not be entered.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// The error of a terminal whose other side is closed.
const EIO: i32 = nix::errno::Errno::EIO as i32;
/// The end of input at a terminal, as a keyboard sends it.
const END_OF_INPUT: &[u8] = &[4];

/// The sessions of a Borglet.
#[derive(Clone)]
pub(crate) struct Sessions {
    of_users: Limiter<UserName>,
    of_tasks: Limiter<InTask>,
}

/// A task, and whether an administrator enters it: administrators have sessions of their own in each task.
type InTask = (InstanceId, bool);

/// What a session holds of the bounds.
struct SessionPermits {
    _user: Permit<UserName>,
    _task: Permit<InTask>,
}

pub(crate) type ToMaster = mpsc::Sender<Result<v1::ExecOutput, Status>>;
pub(crate) type Outputs = ReceiverStream<Result<v1::ExecOutput, Status>>;

/// A command with its files.
struct Started {
    session: Session,
    /// The terminal, or the standard input; `None` if the task was not entered.
    input: Option<OwnedFd>,
    permit: SessionPermits,
}

impl Sessions {
    pub(crate) fn new() -> Self {
        let of_tasks = Limiter::new(SESSIONS_MAX, TASK_SESSIONS_MAX);
        Self { of_users: Limiter::shared(SESSIONS_MAX), of_tasks }
    }

    /// Permits for a command of a user inside a task.
    fn hold(
        &self,
        user: UserName,
        asker: Asker,
        instance: InstanceId,
    ) -> Result<SessionPermits, Status> {
        let full = |full: Full<UserName>| {
            Status::resource_exhausted(match full {
                Full::One(user, has) => format!(
                    "{user} runs {has} commands inside tasks of this machine, and gets no more of the \
                     {SESSIONS_MAX} that all share: end one of them"
                ),
                Full::All(all) => format!(
                    "{all} commands run inside tasks of this machine already, as many as may at \
                     once: try again later"
                ),
            })
        };
        let of_task = |_| {
            Status::resource_exhausted(format!(
                "{TASK_SESSIONS_MAX} commands run inside this task already, as many as may at once: \
                 end one of them"
            ))
        };
        Ok(SessionPermits {
            _user: self.of_users.acquire_many(user, 1, asker).map_err(full)?,
            _task: self
                .of_tasks
                .acquire((instance, asker == Asker::Administrator))
                .map_err(of_task)?,
        })
    }

    /// Starts the command that the first request names, and relays it until it has ended.
    pub(crate) async fn exec(
        &self,
        files: &Files,
        mut requests: Streaming<v1::ExecInTaskRequest>,
    ) -> Result<Outputs, Status> {
        let first = tokio::time::timeout(START_PATIENCE, requests.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("no start was sent"))??;
        let Some(Message::Start(start)) = first.and_then(|first| first.message) else {
            return Err(Status::invalid_argument("the first message is not a start"));
        };
        let started = self.start(files, start).await?;
        let (to_master, stream) = mpsc::channel(OUTPUT_QUEUE);
        tokio::spawn(relay(started, requests, to_master));
        Ok(ReceiverStream::new(stream))
    }

    async fn start(&self, files: &Files, start: v1::ExecInTaskStart) -> Result<Started, Status> {
        let instance = start.instance.ok_or_else(|| Status::invalid_argument("no instance"))?;
        let instance = InstanceId::from(instance);
        let v1::Execution { argv, terminal } =
            start.execution.ok_or_else(|| Status::invalid_argument("no command"))?;
        if argv.iter().map(|word| word.len() + 1).sum::<usize>() > ARGV_BYTES_MAX {
            return Err(Status::invalid_argument(format!(
                "the command is longer than {} KiB: put it into a file of the task",
                ARGV_BYTES_MAX >> 10
            )));
        }
        let terminal = match terminal {
            None => Terminal::Pipes,
            Some(v1::ExecTerminal { window, term }) => {
                let (rows, columns) = size(window.unwrap_or_default());
                Terminal::New { rows, columns, term: term.replace('\0', "") }
            }
        };
        let user = UserName::new(&start.user)
            .map_err(|_| Status::invalid_argument("the user who runs it is not named"))?;
        let asker = match start.administrator {
            true => Asker::Administrator,
            false => Asker::User,
        };
        let permit = self.hold(user, asker, instance)?;
        let files = files.clone();
        let started = tokio::task::spawn_blocking(move || {
            let failed = |error: &dyn std::fmt::Display| Status::internal(error.to_string());
            let task = files.task(instance).map_err(|error| failed(&error))?;
            let state = match task.path().exists() {
                false => Some("has ended"),
                true => match task.inspect().map_err(|error| failed(&error))? {
                    Inspection::Running(_) => None,
                    Inspection::Starting => Some("is starting"),
                    Inspection::Ended(_) | Inspection::Lost { .. } => Some("has ended"),
                },
            };
            if let Some(state) = state {
                return Err(Status::failed_precondition(format!("the task {state}")));
            }
            spawn(files.executable(), task.path(), &argv, &terminal).map_err(|error| failed(&error))
        });
        let session = started.await.map_err(|error| Status::internal(error.to_string()))??;
        let mut started = Started { session, input: None, permit };
        let received = async {
            readable(started.session.control.readable()?).await;
            started.session.control.receive().map_err(io::Error::other)
        };
        match received.await {
            Ok(input) => started.input = input,
            Err(error) => {
                if let Err(error) = reap(started.session, started.permit).await {
                    tracing::warn!("cannot wait for a command: {error}");
                }
                return Err(Status::internal(format!("cannot start the command: {error}")));
            }
        }
        Ok(started)
    }
}

/// Relays a command until it has ended or its call has.
async fn relay(started: Started, requests: Streaming<v1::ExecInTaskRequest>, to_master: ToMaster) {
    let Started { mut session, input, permit } = started;
    let relayed = tokio::select! {
        relayed = pump(&mut session, input, requests, &to_master) => relayed,
        () = to_master.closed() => Ok(()),
    };
    let status = reap(session, permit).await;
    let last = match (relayed, status) {
        (Ok(()), Ok(status)) => Ok(output(Output::Exited(status.into()))),
        (Err(status), _) => Err(status),
        (_, Err(error)) => Err(Status::internal(error.to_string())),
    };
    let _gone = to_master.send(last).await;
}

/// Relays both directions until all output has been sent.
async fn pump(
    session: &mut Session,
    input: Option<OwnedFd>,
    requests: Streaming<v1::ExecInTaskRequest>,
    to_master: &ToMaster,
) -> Result<(), Status> {
    let broken = |error: io::Error| Status::internal(format!("cannot relay the command: {error}"));
    let (ended, at_end) = watch::channel(false);
    let end = end_of(&session.child).map_err(broken)?;
    let stdout = session.child.stdout.take().map(OwnedFd::from);
    let stderr = session.child.stderr.take().map(OwnedFd::from);
    // A terminal is both: the standard input and all output.
    let terminal = match (&stdout, &input) {
        (None, Some(terminal)) => Some(terminal.try_clone().map_err(broken)?),
        _ => None,
    };
    let resized = terminal.as_ref().map(OwnedFd::try_clone).transpose().map_err(broken)?;
    let is_terminal = terminal.is_some();
    let out = async {
        match stdout.or(terminal) {
            Some(file) => send_output(file, Output::Stdout, to_master, at_end.clone()).await,
            None => Ok(()),
        }
    };
    let err = async {
        match stderr {
            Some(file) => send_output(file, Output::Stderr, to_master, at_end.clone()).await,
            None => Ok(()),
        }
    };
    // It cannot grow beyond what was granted.
    let (to_input, pieces) = mpsc::unbounded_channel();
    let write = async {
        if let Some(file) = input {
            write_input(file, pieces, to_master, is_terminal).await?;
        }
        std::future::pending::<io::Result<()>>().await
    };
    let control = &session.control;
    let watched = async {
        readable(end).await;
        let _none = ended.send(true);
        std::future::pending::<()>().await;
    };
    let outputs = async { tokio::try_join!(out, err).map(|_| ()) };
    tokio::select! {
        sent = outputs => sent.map_err(broken),
        written = write => written.map_err(broken),
        asked = take_requests(requests, control, to_input, resized) => asked,
        () = watched => Ok(()),
    }
}

/// Takes requests until the call ends, which is an error here: the command still runs.
async fn take_requests(
    mut requests: Streaming<v1::ExecInTaskRequest>,
    control: &Control,
    to_input: mpsc::UnboundedSender<Piece>,
    terminal: Option<OwnedFd>,
) -> Result<(), Status> {
    let mut to_input = Some(to_input);
    while let Some(request) = requests.message().await? {
        let Some(Message::Input(v1::ExecInput { input: Some(input) })) = request.message else {
            return Err(Status::invalid_argument("a message is not an input"));
        };
        match input {
            Input::Stdin(bytes) => {
                if bytes.len() > INPUT_BYTES_MAX {
                    return Err(Status::invalid_argument("a piece of input is too large"));
                }
                let Some(to) = &to_input else {
                    return Err(Status::invalid_argument("input after its end"));
                };
                // The writer is gone if the command has closed its input.
                let _ignored = to.send(Piece::Bytes(bytes));
            }
            Input::StdinEnd(_) => {
                if let Some(to) = to_input.take() {
                    let _ignored = to.send(Piece::End);
                }
            }
            Input::Window(window) => {
                if let Some(terminal) = &terminal {
                    let (rows, columns) = size(window);
                    let _ended = resize(terminal, rows, columns);
                }
            }
            Input::Signal(number) => {
                let number = u8::try_from(number)
                    .map_err(|_| Status::invalid_argument("there is no such signal"))?;
                control.signal(number);
            }
        }
    }
    Err(Status::cancelled("the call has ended"))
}

/// Input for a command.
enum Piece {
    Bytes(Vec<u8>),
    End,
}

/// Writes the input, and grants as much as was written. Returns at its end.
async fn write_input(
    file: OwnedFd,
    mut pieces: mpsc::UnboundedReceiver<Piece>,
    to_master: &ToMaster,
    is_terminal: bool,
) -> io::Result<()> {
    let grant = async |bytes| {
        let _gone = to_master.send(Ok(output(Output::Granted(bytes)))).await;
    };
    grant(INPUT_WINDOW).await;
    let file = registered(file)?;
    let mut is_closed = false;
    while let Some(piece) = pieces.recv().await {
        let bytes = match piece {
            Piece::Bytes(bytes) => bytes,
            Piece::End if is_terminal => END_OF_INPUT.to_vec(),
            Piece::End => return Ok(()),
        };
        let mut rest = bytes.as_slice();
        while !rest.is_empty() && !is_closed {
            let mut guard = file.writable().await?;
            match guard.try_io(|file| Ok(nix::unistd::write(file.get_ref(), rest)?)) {
                Err(_would_block) => {}
                Ok(Ok(written)) => rest = rest.get(written..).unwrap_or_default(),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                // The command does not read any more: the rest is read and thrown away.
                Ok(Err(_)) => is_closed = true,
            }
        }
        grant(u32::try_from(bytes.len()).unwrap_or(u32::MAX)).await;
    }
    Ok(())
}

/// Sends all output, read only when there is room for it.
async fn send_output(
    file: OwnedFd,
    wrap: fn(Vec<u8>) -> Output,
    to_master: &ToMaster,
    mut at_end: watch::Receiver<bool>,
) -> io::Result<()> {
    let file = registered(file)?;
    let mut buffer = vec![0; PIECE_BYTES];
    let (mut has_ended, mut rest) = (false, REST_BYTES_MAX);
    loop {
        let Ok(room) = to_master.reserve().await else { return Ok(()) };
        let read = loop {
            let now = tokio::select! {
                ready = file.readable(), if !has_ended => {
                    match ready?.try_io(|file| Ok(nix::unistd::read(file, &mut buffer)?)) {
                        Ok(now) => now,
                        Err(_would_block) => continue,
                    }
                }
                () = is_true(&mut at_end), if !has_ended => {
                    has_ended = true;
                    continue;
                }
                else => nix::unistd::read(file.get_ref(), &mut buffer).map_err(io::Error::from),
            };
            match now {
                Ok(bytes) => break bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break 0,
                // A terminal whose processes have ended.
                Err(error) if error.raw_os_error() == Some(EIO) => break 0,
                Err(error) => return Err(error),
            }
        };
        if has_ended {
            rest = rest.saturating_sub(read);
        }
        if read == 0 || rest == 0 {
            return Ok(());
        }
        room.send(Ok(output(wrap(buffer[..read].to_vec()))));
    }
}

/// Waits until a watched value is true, or for ever.
async fn is_true(watched: &mut watch::Receiver<bool>) {
    if watched.wait_for(|now| *now).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn output(output: Output) -> v1::ExecOutput {
    v1::ExecOutput { output: Some(output) }
}

/// Rows and columns as the kernel has them.
fn size(window: v1::ExecWindow) -> (u16, u16) {
    let number = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
    (number(window.rows), number(window.columns))
}

/// A descriptor that can be waited for and does not block.
#[expect(unsafe_code, reason = "registering a descriptor with the runtime")]
fn registered(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    let flags = OFlag::from_bits_retain(fcntl(&descriptor, FcntlArg::F_GETFL)?);
    fcntl(&descriptor, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    let interest = Interest::READABLE | Interest::WRITABLE;
    // SAFETY: the registered value owns the descriptor, which always names the same open file.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, interest) }?)
}

/// Ends a command, with all that it started, and returns its exit status.
async fn reap(session: Session, permit: SessionPermits) -> io::Result<u8> {
    let Session { mut child, control } = session;
    drop(control);
    let end = end_of(&child)?;
    readable(end).await;
    let status = child.wait()?;
    drop(permit);
    // `bourg enter` itself is only killed with all of a machine.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(137))
}
