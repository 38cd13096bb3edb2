//! Reads an instance's output, and follows it while it runs.

use std::time::Duration;

use linux::logs::{LogReader, Start, Stream};
use linux::task::{Inspection, TaskDirectory};
use model::InstanceId;
use proto::v1;
use tokio::sync::mpsc;
use tonic::Status;

use super::retained_logs;
use super::tasks::Files;

/// The size of a chunk.
const PIECE_BYTES: usize = 64 << 10;
/// The polling interval of a followed stream.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(50);

type Chunks = mpsc::Sender<Result<v1::LogChunk, Status>>;

/// Starts to read the requested output; the chunks arrive through the channel.
///
/// # Errors
/// If the request is invalid.
pub(crate) fn read(
    files: &Files,
    asked: v1::ReadLogRequest,
    to_master: Chunks,
) -> Result<(), Status> {
    let instance: InstanceId =
        asked.instance.ok_or_else(|| Status::invalid_argument("the instance is missing"))?.into();
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
        return Err(Status::not_found(retained_logs::explained(&retained_logs::at_most(
            &files.directory,
        ))));
    }
    let follow = asked.follow;
    tokio::task::spawn(async move {
        let mut readers: Vec<_> = streams.into_iter().map(|stream| (stream, None)).collect();
        loop {
            // Checked before reading, so that output written before the end is read in this round.
            let ended = !follow || ended(task.clone()).await;
            for (stream, reader) in &mut readers {
                // A task has no log directory before its first output.
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

/// Sends all available output; false if the receiver is gone.
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
