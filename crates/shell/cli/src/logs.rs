//! `bourg logs`: the output of tasks, line by line, with the task in front of each line if there
//! are several.

use std::collections::BTreeMap;
use std::sync::Arc;

use client::Target;
use process::clock::wall_clock;
use proto::v1;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic::{Code, Status, Streaming};

use super::exit::{Done, Failure};
use super::selection::{Among, choose};
use super::{LogsArgs, output, with_cell};

/// The maximum length of a line, in bytes. Longer ones are split; with prefixes, each piece becomes
/// a line.
const LINE_BYTES_MAX: usize = 64 << 10;
/// The maximum number of jobs read at once, each in a stream on one connection.
const JOBS_MAX: usize = 100;
/// The capacity of the queue of chunks to print.
const QUEUE: usize = 64;

pub(super) fn logs(cell: Target<'_>, args: &LogsArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let from = match (args.since, args.tail) {
            (Some(since), _) => {
                let since = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
                Some(v1::log_start::From::Since(wall_clock().0.saturating_sub(since)))
            }
            (None, Some(lines)) => Some(v1::log_start::From::TailLines(lines)),
            (None, None) => None,
        };
        let stream = match args.stream.as_deref() {
            Some("stdout") => v1::LogStream::Stdout,
            Some("stderr") => v1::LogStream::Stderr,
            _ => v1::LogStream::StdoutAndStderr,
        };
        let named = args.job.as_slice();
        let chosen = choose(&mut connection, named, args.labels.as_ref(), &Among::Mine).await?;
        if chosen.len() > JOBS_MAX {
            let many = chosen.len();
            return Err(Failure::usage(format!(
                "error: {many} jobs match these labels; at most {JOBS_MAX} can be read at once"
            ))
            .next("narrow the selection with more labels"));
        }
        let single = args.job.as_ref().is_some_and(|address| single(&address.tasks));
        let (to_us, mut from_jobs) = mpsc::channel(QUEUE);
        for job in chosen {
            let name: Arc<str> = job.job.job.as_str().into();
            let request = v1::LogsRequest {
                job: Some(job.job),
                tasks: Some((&job.tasks).into()),
                stream: stream.into(),
                start: from.map(|from| v1::LogStart { from: Some(from) }),
                follow: args.follow,
                version: args.version,
            };
            let chunks = connection
                .stream(request, async |mut client, request| client.logs(request).await)
                .await?;
            tokio::spawn(forward(name, chunks, to_us.clone()));
        }
        drop(to_us);
        let mut lines = Lines { prefixed: !single, open: BTreeMap::new() };
        while let Some((job, chunk)) = from_jobs.recv().await {
            lines.take(&job, &chunk.map_err(|status| failure(&job, status))?)?;
        }
        lines.end()
    })
}

/// The failure for a stream that ended with an error. The job exists: its logs do not.
fn failure(job: &str, status: Status) -> Failure {
    match status.code() {
        Code::NotFound => Failure::failed(format!("error: {}", status.message()))
            .next(format!("bourg events {job} shows how its tasks ended")),
        _ => status.into(),
    }
}

/// Forwards the output of one job's tasks.
async fn forward(
    job: Arc<str>,
    mut chunks: Streaming<v1::LogChunk>,
    to_us: mpsc::Sender<(Arc<str>, Result<v1::LogChunk, Status>)>,
) {
    while let Some(chunk) = chunks.next().await {
        if to_us.send((Arc::clone(&job), chunk)).await.is_err() {
            break;
        }
    }
}

fn single(tasks: &model::TaskSelection) -> bool {
    matches!(tasks, model::TaskSelection::Some(ranges)
        if matches!(ranges.as_slice(), [(first, last)] if first == last))
}

/// Reassembles chunks of several streams into whole lines.
struct Lines {
    prefixed: bool,
    /// Incomplete lines, by job, task index and stream.
    open: BTreeMap<(Arc<str>, u32, i32), Vec<u8>>,
}

impl Lines {
    fn take(&mut self, job: &Arc<str>, chunk: &v1::LogChunk) -> Done {
        let index = chunk.instance.map_or(0, |instance| instance.index);
        if chunk.lost_bytes > 0 {
            eprintln!("{job}/{index}: {} bytes before this were discarded", chunk.lost_bytes);
        }
        let key = (Arc::clone(job), index, chunk.stream);
        let mut open = self.open.remove(&key).unwrap_or_default();
        for byte in &chunk.data {
            open.push(*byte);
            if *byte == b'\n' || open.len() >= LINE_BYTES_MAX {
                self.write(job, index, &open)?;
                open.clear();
            }
        }
        if !open.is_empty() {
            self.open.insert(key, open);
        }
        Ok(())
    }

    fn write(&self, job: &str, index: u32, line: &[u8]) -> Done {
        let mut bytes = match self.prefixed {
            true => format!("{job}/{index}  ").into_bytes(),
            false => Vec::new(),
        };
        bytes.extend_from_slice(line);
        // Terminate a partial line, since another task's output may follow.
        if self.prefixed && !line.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        output::print_from_outside(&bytes)
    }

    /// Prints incomplete last lines.
    fn end(mut self) -> Done {
        for ((job, index, _), mut line) in std::mem::take(&mut self.open) {
            line.push(b'\n');
            self.write(&job, index, &line)?;
        }
        Ok(())
    }
}
