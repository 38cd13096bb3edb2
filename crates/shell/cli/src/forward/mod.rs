//! `bourg port-forward`: connections to ports here go to ports of a task.
//!
//! One end is in the task: this same program, run there as `bourg exec` runs a command, so that the rights,
//! the bounds, the events and the network are those of a command in the task. All connections share its
//! streams ([`frames`]).

mod connections;
mod frames;
mod ports;
pub(super) mod task_end;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::v1;
use clap::Args;
use client::{Connection, Target};
use command::output::{self, one_line};
use command::{Code, Done, Failure, job_address, runtime};
use model::Address;
use process::shutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use self::connections::{BrokenOff, FORWARDED_MAX, OpenConnections, ToOther, carry};
use self::frames::{ForwardFrame, FrameReader, malformed};
use self::ports::{PortPair, TaskPort};
use super::exec::{Errors, ExecSession, OnSignal, Streams, one_task};

/// The command that runs in the task.
pub(super) const TASK_END: &str = "forward-connections";
/// The program as every task sees it.
const PROGRAM: &str = "/usr/bin/bourg";
/// Frames that wait for the connection to the cell.
const QUEUE: usize = 4;
/// Pairs of ports in one command.
const PAIRS_MAX: usize = 16;
/// Sessions in a task that runs that end before they begin; then the command ends.
const FAILED_STARTS_MAX: u32 = 5;
/// The pause before another attempt.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(super) struct ForwardArgs {
    /// A task, as user/job/7 or job/7; of a job with one task also user/job or job.
    task: Address,
    /// Pairs HERE:THERE, such as 8080:http or 8080:80. THERE is the name of a port of the job, or a number. Without HERE
    /// (`:http`) it is a free port, which is printed; a number alone is the same port here and there.
    #[arg(required = true, value_name = "PORTS")]
    ports: Vec<PortPair>,
    /// The address of this computer to listen at. Others than 127.0.0.1 let other computers use the connections.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    address: IpAddr,
}

/// A port here, and where its connections go.
struct Listening {
    listener: Arc<TcpListener>,
    here: SocketAddr,
    there: TaskPort,
}

/// Where the task is now.
enum Whereabouts {
    Runs(Box<v1::TaskStatus>),
    /// It will run, or may: its state as a word.
    Waits(String),
    Gone(Failure),
}

/// Forwards connections until SIGTERM or Ctrl-C, or until the task has ended for good.
pub(super) fn forward(cell: Target<'_>, args: &ForwardArgs) -> Done {
    if args.ports.len() > PAIRS_MAX {
        return Err(Failure::usage(format!(
            "error: {} pairs of ports: one command takes at most {PAIRS_MAX}",
            args.ports.len()
        )));
    }
    let runtime = runtime()?;
    let ended = process::block_on(&runtime, async {
        let stop = shutdown::requested();
        tokio::select! {
            biased;
            () = stop => Ok(()),
            ended = Box::pin(forward_all(cell, args)) => ended,
        }
    });
    // Threads may wait for streams that never end.
    runtime.shutdown_background();
    ended
}

/// Sessions, one after the other, as the task's incarnations come and go.
async fn forward_all(cell: Target<'_>, args: &ForwardArgs) -> Done {
    let mut connection = Connection::open(cell)?;
    let index = one_task(&mut connection, &args.task, "port-forward").await?;
    let mut listening = Vec::new();
    for pair in &args.ports {
        listening.push(listen(args.address, pair, &args.task).await?);
    }
    let (mut is_first, mut failed_starts, mut said) = (true, 0, String::new());
    loop {
        let task = match whereabouts(&mut connection, &args.task, index).await? {
            Whereabouts::Runs(task) => task,
            Whereabouts::Gone(failure) => return Err(failure),
            Whereabouts::Waits(state) if is_first => {
                return Err(Failure::new(
                    Code::Refused,
                    format!("error: {}/{index} does not run, it is {state}", args.task.job),
                )
                .next(format!("bourg wait {} --for running", args.task.job)));
            }
            Whereabouts::Waits(state) => {
                let now = format!("{}/{index} is {state}: waiting until it runs\n", args.task.job);
                if said != now {
                    output::say(&now);
                    said = now;
                }
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let (begun, ended) = session(cell, args, &listening, index, *task, is_first).await;
        let why = match ended {
            Ok(127) => return Err(Failure::failed(format!("error: the task has no {PROGRAM}"))),
            Ok(137) => "the session was killed: the task ended, or its memory was full".to_owned(),
            Ok(status) => format!("the session ended with status {status}"),
            Err(failure) if is_first && !begun => return Err(failure),
            Err(failure) if !begun && failed_starts + 1 >= FAILED_STARTS_MAX => {
                return Err(failure);
            }
            Err(failure) => failure.to_string(),
        };
        failed_starts = if begun { 0 } else { failed_starts + 1 };
        if !begun && failed_starts >= FAILED_STARTS_MAX {
            return Err(Failure::failed(format!("error: {why}")));
        }
        is_first = false;
        said.clear();
        output::say(&format!("{why}: its connections are closed; connecting again\n"));
        tokio::time::sleep(PAUSE).await;
    }
}

/// Listens at the port here of a pair.
async fn listen(address: IpAddr, pair: &PortPair, task: &Address) -> Result<Listening, Failure> {
    let at = SocketAddr::new(address, pair.here);
    let failed = |error: io::Error| {
        let text = format!("error: cannot listen at {at}: {error}");
        let there = &pair.there;
        Failure::failed(text)
            .next(format!("bourg port-forward {task} :{there} takes a free port, and prints it"))
    };
    let listener = TcpListener::bind(at).await.map_err(failed)?;
    let here = listener.local_addr().map_err(failed)?;
    Ok(Listening { listener: Arc::new(listener), here, there: pair.there.clone() })
}

/// Asks where the task is.
async fn whereabouts(
    connection: &mut Connection,
    address: &Address,
    index: u32,
) -> Result<Whereabouts, Failure> {
    let name = format!("{}/{index}", address.job);
    let request = v1::StatusRequest {
        jobs: vec![job_address(address)],
        tasks: true,
        dead: true,
        ..v1::StatusRequest::default()
    };
    let answer = connection
        .ask(request, async |mut client, request| client.jobs.status(request).await)
        .await?;
    let job = answer.jobs.into_iter().next();
    let task = job.and_then(|job| job.tasks.into_iter().find(|task| task.index == index));
    let Some(task) = task else {
        return Ok(Whereabouts::Gone(
            Failure::usage(format!("error: there is no task {name}"))
                .next(format!("bourg status {}", address.job)),
        ));
    };
    let gone = |how: &str| {
        Whereabouts::Gone(
            Failure::failed(format!("error: {name} has {how}"))
                .next(format!("bourg logs {name} shows its last output")),
        )
    };
    let waits = |state: &str| Whereabouts::Waits(state.to_owned());
    Ok(match task.state() {
        v1::TaskState::Running => Whereabouts::Runs(Box::new(task)),
        v1::TaskState::Finished => gone("finished"),
        v1::TaskState::Failed => gone("failed"),
        v1::TaskState::Killed => gone("been killed"),
        v1::TaskState::Queued => waits("queued"),
        v1::TaskState::Starting => waits("starting"),
        v1::TaskState::Stopping => waits("being stopped"),
        v1::TaskState::Pending | v1::TaskState::Unspecified => waits("pending"),
    })
}

/// Forwards through one incarnation of the task. Returns whether the end in the task was ready, and how
/// the session ended.
async fn session(
    cell: Target<'_>,
    args: &ForwardArgs,
    listening: &[Listening],
    index: u32,
    task: v1::TaskStatus,
    is_first: bool,
) -> (bool, Result<u8, Failure>) {
    let numbers = listening.iter().map(|listening| listening.there.number(&task));
    let numbers: Vec<u16> = match numbers.collect() {
        Ok(numbers) => numbers,
        Err(failure) => return (false, Err(failure)),
    };
    let connection = match Connection::open(cell) {
        Ok(connection) => connection,
        Err(error) => return (false, Err(error.into())),
    };
    let mut command = vec![PROGRAM.to_owned(), TASK_END.to_owned()];
    if let Ok(host) = task.host.parse::<IpAddr>() {
        command.push(format!("--host={host}"));
    }
    let mut distinct = numbers.clone();
    distinct.sort_unstable();
    distinct.dedup();
    command.extend(distinct.iter().map(ToString::to_string));
    let (to_other, frames) = mpsc::channel(QUEUE);
    let (ready, is_ready) = watch::channel(false);
    let connections = OpenConnections::default();
    let received = Arc::new(Received {
        reader: Mutex::new(FrameReader::greeted()),
        connections: connections.clone(),
        ready,
    });
    let exec = ExecSession { task: &args.task, usage: "port-forward", command, terminal: None };
    let streams = Streams {
        input: Some(frames),
        output: move || ReceivedFrames(Arc::clone(&received)),
        errors: Errors::Escaped,
        // The command itself ends at a signal.
        signals: OnSignal::End,
    };
    let accepts = async {
        let mut at_ready = is_ready.clone();
        if at_ready.wait_for(|ready| *ready).await.is_err() {
            return std::future::pending().await;
        }
        for (listening, number) in listening.iter().zip(&numbers) {
            let (here, there) = (listening.here, &listening.there);
            let line = format!("forwarding {here} to {}/{index} {there}", args.task.job);
            let line = match there.is_named() {
                true => format!("{line} ({number})\n"),
                false => format!("{line}\n"),
            };
            match is_first {
                true => output::print(&line)?,
                false => output::say(&line),
            }
        }
        let open = Arc::new(Opener {
            slots: Arc::new(Semaphore::new(FORWARDED_MAX)),
            next: AtomicU32::new(0),
            connections: connections.clone(),
            to_other,
        });
        let mut loops = JoinSet::new();
        for (listening, number) in listening.iter().zip(&numbers) {
            let listener = Arc::clone(&listening.listener);
            let name = format!("{}/{index} {}", args.task.job, listening.there);
            loops.spawn(accept(listener, *number, name, Arc::clone(&open)));
        }
        while loops.join_next().await.is_some() {}
        std::future::pending::<Done>().await
    };
    let ended = tokio::select! {
        ended = Box::pin(exec.run(connection, streams)) => ended,
        failed = Box::pin(accepts) => failed.map(|()| 0),
    };
    connections.break_off("the session has ended");
    let begun = *is_ready.borrow();
    (begun, ended)
}

/// What opens the connections of a session.
struct Opener {
    slots: Arc<Semaphore>,
    /// The number of the next connection.
    next: AtomicU32,
    connections: OpenConnections,
    to_other: ToOther,
}

/// Accepts connections to a port of the task, as many as may be open at once. The others wait in the
/// system's queue, also while there is no session.
async fn accept(listener: Arc<TcpListener>, port: u16, name: String, open: Arc<Opener>) {
    loop {
        let Ok(slot) = Arc::clone(&open.slots).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((socket, _)) => {
                tokio::spawn(carry_one(Arc::clone(&open), socket, port, name.clone(), slot));
            }
            // Such as too many open files; the connection waits.
            Err(error) => {
                output::say(&format!("cannot accept a connection to {name}: {error}\n"));
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Carries a connection, and says why it was broken off.
async fn carry_one(
    open: Arc<Opener>,
    socket: TcpStream,
    port: u16,
    name: String,
    _slot: OwnedSemaphorePermit,
) {
    let number = open.next.fetch_add(1, Ordering::Relaxed);
    // There is a slot, and the number is new.
    let Some(end) = open.connections.open(number, open.to_other.clone()) else { return };
    end.begin(port).await;
    if let Err(BrokenOff::There(why) | BrokenOff::Here(why)) = carry(end, socket).await {
        output::say(&format!("a connection to {name} was broken off: {}\n", one_line(&why)));
    }
}

/// The frames that arrive from the task.
struct Received {
    reader: Mutex<FrameReader>,
    connections: OpenConnections,
    ready: watch::Sender<bool>,
}

/// Takes the standard output of the end in the task. It never waits for a connection.
struct ReceivedFrames(Arc<Received>);

impl Write for ReceivedFrames {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut reader = self.0.reader.lock().unwrap_or_else(PoisonError::into_inner);
        reader.push(bytes);
        if reader.take_greeting()? {
            self.0.ready.send_if_modified(|ready| !std::mem::replace(ready, true));
            for (number, frame) in reader.take_frames()? {
                if matches!(frame, ForwardFrame::Open(_)) {
                    return Err(malformed("a task opens no connections"));
                }
                self.0.connections.deliver(number, frame)?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
