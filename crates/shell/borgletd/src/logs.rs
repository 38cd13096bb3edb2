//! Reading an instance's output, and following it while it runs.

use std::time::Duration;

use linux::logs::{LogReader, Start, Stream};
use linux::task::{Inspection, TaskDirectory};
use model::InstanceId;
use proto::v1;
use tokio::sync::mpsc;
use tonic::Status;

use super::kept;
use super::tasks::Files;

/// The size of a piece.
const PIECE_BYTES: usize = 64 << 10;
/// How often a stream that is followed is looked at.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(50);

type Chunks = mpsc::Sender<Result<v1::LogChunk, Status>>;

/// Begins to read what is asked for; the pieces come through the channel.
///
/// # Errors
/// Where the request is not a good one.
pub(crate) fn read(
    files: &Files,
    asked: v1::ReadLogRequest,
    to_master: Chunks,
) -> Result<(), Status> {
    let instance: InstanceId =
        asked.instance.ok_or_else(|| Status::invalid_argument("which instance?"))?.into();
    let streams = match asked.stream() {
        v1::LogStream::StdoutAndStderr => vec![Stream::Stdout, Stream::Stderr],
        v1::LogStream::Stdout => vec![Stream::Stdout],
        v1::LogStream::Stderr => vec![Stream::Stderr],
    };
    let start = match asked.start.and_then(|start| start.from) {
        None => Start::Beginning,
        Some(v1::log_start::From::TailLines(lines)) => Start::Tail(lines.into()),
        Some(v1::log_start::From::Since(at)) => Start::Since(at),
    };
    let broken = |error: &dyn std::fmt::Display| Status::internal(error.to_string());
    let directory = files.logs(instance).map_err(|error| broken(&error))?;
    let task = files.task(instance).map_err(|error| broken(&error))?;
    if !task.path().exists() {
        return Err(Status::not_found(kept::explained(&kept::at_most(&files.directory))));
    }
    let follow = asked.follow;
    tokio::task::spawn(async move {
        let mut readers: Vec<_> = streams.into_iter().map(|stream| (stream, None)).collect();
        loop {
            // Looked at before reading: what is written before its end is read in this round.
            let ended = !follow || ended(task.clone()).await;
            for (stream, reader) in &mut readers {
                // Before its first output a task has no log directory.
                if reader.is_none() && directory.exists() {
                    match LogReader::open(&directory, *stream, start) {
                        Ok(opened) => *reader = Some(opened),
                        Err(error) => {
                            let failed = Status::internal(error.to_string());
                            return drop(to_master.send(Err(failed)).await);
                        }
                    }
                }
                if let Some(reader) = reader
                    && !drain(instance, *stream, reader, &to_master).await
                {
                    return;
                }
            }
            if ended {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(FOLLOW_INTERVAL) => {}
                () = to_master.closed() => return,
            }
        }
    });
    Ok(())
}

/// Sends all that there is; false where nobody wants it any more.
async fn drain(
    instance: InstanceId,
    stream: Stream,
    reader: &mut LogReader,
    to_master: &Chunks,
) -> bool {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        // A read of at most 64 KiB from the page cache: not worth another thread.
        let read = match reader.read(&mut buffer) {
            Ok(read) => read,
            Err(error) => {
                let _gone = to_master.send(Err(Status::internal(error.to_string()))).await;
                return false;
            }
        };
        if read.bytes == 0 {
            return true;
        }
        let stream = match stream {
            Stream::Stdout => v1::LogStream::Stdout,
            Stream::Stderr => v1::LogStream::Stderr,
        };
        let chunk = v1::LogChunk {
            instance: Some(instance.into()),
            stream: stream.into(),
            data: buffer[..read.bytes].to_vec(),
            at: read.unix_us,
            lost_bytes: read.lost_bytes,
        };
        if to_master.send(Ok(chunk)).await.is_err() {
            return false;
        }
    }
}

async fn ended(task: TaskDirectory) -> bool {
    let inspected = tokio::task::spawn_blocking(move || task.inspect()).await;
    let alive = matches!(inspected, Ok(Ok(Inspection::Starting | Inspection::Running(_))));
    !alive
}
