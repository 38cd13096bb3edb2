//! Reads an instance's output, its streams in the order of writing, and follows it while it runs.

mod grep;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use api::v1;
use linux::logs::{LogReader, ReadOutcome, Start, Stream};
use linux::task::{Inspection, TaskDirectory};
use model::{InstanceId, UserName};
use rpc::transport::{Limiter, Permit};
use tokio::sync::{Semaphore, mpsc};
use tonic::Status;

use self::grep::Grep;
use super::retained_logs;
use super::tasks::Files;

/// The size of a chunk.
const PIECE_BYTES: usize = 16 << 10;
/// The polling interval of a followed stream.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(50);
/// The maximum time between two chunks while nothing is found: whoever waits for them sees that the
/// search goes on.
const SEARCH_SILENCE: Duration = Duration::from_secs(1);
/// How many chunks are searched at once, of all readers: searching takes CPU time, which the tasks
/// have paid for.
static SEARCHES: Semaphore = Semaphore::const_new(1);

type Chunks = mpsc::Sender<Result<v1::LogChunk, Status>>;

/// The readers of output that a machine serves at once; users share them by the owners of the tasks, and
/// the others are rejected.
const READERS_MAX: usize = 2_048;

/// The readers of a Borglet. Clones share the bound.
#[derive(Clone, Debug)]
pub(crate) struct Readers(Limiter<UserName>);

impl Readers {
    pub(crate) fn new() -> Self {
        Self(Limiter::shared(READERS_MAX))
    }

    fn begin(
        &self,
        files: &Files,
        instance: InstanceId,
    ) -> Result<Option<Permit<UserName>>, Status> {
        let permit = files.owner(instance).map(|owner| self.0.acquire(owner));
        permit.transpose().map_err(|_| {
            Status::resource_exhausted(
                "its machine serves as many readers of its owner's tasks as it may already: end some \
                 of them, or try again later",
            )
        })
    }
}

/// Starts to read the requested output; the chunks arrive through the channel.
///
/// # Errors
/// If the request is invalid, the output is not kept, or too much is read.
pub(crate) fn read(
    files: &Files,
    readers: &Readers,
    asked: &v1::ReadLogRequest,
    to_master: Chunks,
) -> Result<(), Status> {
    let instance: InstanceId =
        asked.instance.ok_or_else(|| Status::invalid_argument("the instance is missing"))?.into();
    let grep = || match asked.grep.as_str() {
        "" => Ok(None),
        expression => Grep::new(expression).map(Some).map_err(Status::invalid_argument),
    };
    let from = asked.start.as_ref().and_then(|start| start.from);
    let start = |stream| match (from, stream) {
        (None, _) => Start::Beginning,
        (Some(v1::log_start::From::TailLines(lines)), _) => Start::Tail(lines.into()),
        (Some(v1::log_start::From::Since(at)), _) => Start::Since(at),
        (Some(v1::log_start::From::Positions(at)), Stream::Stdout) => Start::Position(at.stdout),
        (Some(v1::log_start::From::Positions(at)), Stream::Stderr) => Start::Position(at.stderr),
    };
    let instance = match asked.previous {
        false => instance,
        true => retained_logs::before(files, instance)?,
    };
    let broken = |error: &dyn std::fmt::Display| Status::internal(error.to_string());
    let directory = files.logs(instance).map_err(|error| broken(&error))?;
    let task = files.task(instance).map_err(|error| broken(&error))?;
    if !task.path().exists() {
        return Err(Status::not_found(retained_logs::why_not_kept(files, instance)));
    }
    let permit = readers.begin(files, instance)?;
    let mut outputs = Vec::new();
    let streams: &[Stream] = match asked.stream() {
        v1::LogStream::StdoutAndStderr => &[Stream::Stdout, Stream::Stderr],
        v1::LogStream::Stdout => &[Stream::Stdout],
        v1::LogStream::Stderr => &[Stream::Stderr],
    };
    for stream in streams {
        let (stream, start) = (*stream, start(*stream));
        let grep = grep()?;
        outputs.push(Output { stream, start, reader: None, next: None, at: 0, end: 0, grep });
    }
    let until = Some(asked.until).filter(|until| *until > 0).unwrap_or(u64::MAX);
    let reading = Reading {
        instance,
        directory,
        until,
        outputs,
        to_master,
        sent: Instant::now(),
        _permit: permit,
    };
    tokio::task::spawn(reading.run(task, asked.follow));
    Ok(())
}

/// The output of one instance, being read.
struct Reading {
    instance: InstanceId,
    directory: PathBuf,
    /// Output from this time on is not wanted, in microseconds since 1970.
    until: u64,
    outputs: Vec<Output>,
    to_master: Chunks,
    /// When the last chunk was sent.
    sent: Instant,
    _permit: Option<Permit<UserName>>,
}

/// One stream of it.
struct Output {
    stream: Stream,
    start: Start,
    /// None before its first output.
    reader: Option<LogReader>,
    /// What was read and not yet sent.
    next: Option<(ReadOutcome, Vec<u8>)>,
    /// When what was read last was written, in microseconds since 1970.
    at: u64,
    /// The number of bytes of the stream up to the end of what was read last.
    end: u64,
    grep: Option<Grep>,
}

/// The receiver is gone, or an error was sent to it.
struct Stopped;

impl Reading {
    async fn run(mut self, task: TaskDirectory, follow: bool) {
        if let Err(Stopped) = self.send_all(task, follow).await {
            tracing::trace!("a reader of {} has left", self.instance);
        }
    }

    async fn send_all(&mut self, task: TaskDirectory, follow: bool) -> Result<(), Stopped> {
        let mut told = false;
        loop {
            // Checked before reading, so that output written before the end is read in this round.
            let ended = !follow || ended(task.clone()).await;
            let more = self.drain().await?;
            if ended || !more {
                for index in 0..self.outputs.len() {
                    let open = self.outputs[index].grep.as_mut().map(Grep::finish);
                    self.send(index, 0, open.unwrap_or_default()).await?;
                }
                return Ok(());
            }
            if !told {
                told = true;
                let instance = Some(self.instance.into());
                let chunk = v1::LogChunk { instance, caught_up: true, ..v1::LogChunk::default() };
                self.to_master.send(Ok(chunk)).await.map_err(|_| Stopped)?;
            }
            tokio::select! {
                () = tokio::time::sleep(FOLLOW_INTERVAL) => {}
                () = self.to_master.closed() => return Err(Stopped),
            }
        }
    }

    /// Sends everything that is there, the stream that was written first first; false if nothing
    /// later is wanted.
    async fn drain(&mut self) -> Result<bool, Stopped> {
        loop {
            for output in &mut self.outputs {
                if let Err(error) = output.look(&self.directory) {
                    let _gone = self.to_master.send(Err(Status::internal(error))).await;
                    return Err(Stopped);
                }
            }
            let time = |output: &Output| output.next.as_ref().map(|(read, _)| read.unix_us);
            let heads = self.outputs.iter().enumerate().filter_map(|(i, o)| Some((time(o)?, i)));
            let Some((at, first)) = heads.min() else { return Ok(true) };
            if at >= self.until {
                return Ok(false);
            }
            let Some((read, bytes)) = self.outputs[first].next.take() else { return Ok(true) };
            let output = &mut self.outputs[first];
            (output.at, output.end) = (read.unix_us, read.next_position());
            let bytes = match output.grep.take() {
                None => bytes,
                Some(mut grep) => {
                    let search = move || {
                        let mut found = Vec::new();
                        if read.lost_bytes > 0 {
                            found = grep.finish();
                        }
                        found.append(&mut grep.matching(&bytes));
                        (grep, found)
                    };
                    let _turn = SEARCHES.acquire().await;
                    let searched = tokio::task::spawn_blocking(search).await;
                    let (grep, found) = searched.map_err(|_| Stopped)?;
                    output.grep = Some(grep);
                    found
                }
            };
            self.send(first, read.lost_bytes, bytes).await?;
        }
    }

    /// Sends what was read last of a stream, or what was found in it.
    async fn send(&mut self, index: usize, lost_bytes: u64, data: Vec<u8>) -> Result<(), Stopped> {
        if data.is_empty() && lost_bytes == 0 && self.sent.elapsed() < SEARCH_SILENCE {
            // A search for a reader that has left stops.
            return if self.to_master.is_closed() { Err(Stopped) } else { Ok(()) };
        }
        let output = &self.outputs[index];
        let stream = match output.stream {
            Stream::Stdout => v1::LogStream::Stdout,
            Stream::Stderr => v1::LogStream::Stderr,
        };
        // Whoever continues here searches the whole of a line that is not complete.
        let open = output.grep.as_ref().map_or(0, Grep::open_bytes);
        let chunk = v1::LogChunk {
            instance: Some(self.instance.into()),
            stream: stream.into(),
            data,
            at: output.at,
            lost_bytes,
            position: output.end.saturating_sub(open),
            ..v1::LogChunk::default()
        };
        self.to_master.send(Ok(chunk)).await.map_err(|_| Stopped)?;
        self.sent = Instant::now();
        Ok(())
    }
}

impl Output {
    /// Reads what is next, unless it is read already.
    fn look(&mut self, directory: &Path) -> Result<(), String> {
        if self.next.is_some() {
            return Ok(());
        }
        // A task has no log directory before its first output.
        if self.reader.is_none() && directory.exists() {
            let opened = LogReader::open(directory, self.stream, self.start);
            self.reader = Some(opened.map_err(|error| error.to_string())?);
        }
        let Some(reader) = &mut self.reader else { return Ok(()) };
        let mut bytes = vec![0; PIECE_BYTES];
        // A read of at most 16 KiB from the page cache: not worth another thread.
        let read = reader.read(&mut bytes).map_err(|error| error.to_string())?;
        if read.bytes > 0 {
            bytes.truncate(read.bytes);
            self.next = Some((read, bytes));
        }
        Ok(())
    }
}

async fn ended(task: TaskDirectory) -> bool {
    let inspected = tokio::task::spawn_blocking(move || task.inspect()).await;
    let alive = matches!(inspected, Ok(Ok(Inspection::Starting | Inspection::Running(_))));
    !alive
}
