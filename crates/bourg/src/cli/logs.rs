//! `bourg logs`: what tasks write, line by line, each line with its task where there are several.

use std::collections::BTreeMap;

use proto::v1;
use tokio_stream::StreamExt;

use super::exit::Done;
use super::{LogsArgs, job_address, output, with_cell};
use crate::clock::wall_clock;

/// How long a line may be before it is written in pieces, each a line of its own where lines bear
/// their task.
const LINE_BYTES_MAX: usize = 64 << 10;

pub(super) fn logs(cell: Option<&str>, args: &LogsArgs) -> Done {
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
        let request = v1::LogsRequest {
            job: Some(job_address(&args.job)),
            tasks: Some((&args.job.tasks).into()),
            stream: stream.into(),
            start: from.map(|from| v1::LogStart { from: Some(from) }),
            follow: args.follow,
        };
        let mut chunks = connection
            .stream(request, async |mut client, request| client.logs(request).await)
            .await?;
        let single = single(&args.job.tasks);
        let mut lines =
            Lines { prefixed: !single, job: args.job.job.to_string(), open: BTreeMap::new() };
        while let Some(chunk) = chunks.next().await {
            lines.take(&chunk?)?;
        }
        lines.end()
    })
}

fn single(tasks: &model::TaskSelection) -> bool {
    matches!(tasks, model::TaskSelection::Some(ranges)
        if matches!(ranges.as_slice(), [(first, last)] if first == last))
}

/// Puts pieces of several streams together into whole lines.
struct Lines {
    prefixed: bool,
    job: String,
    open: BTreeMap<(u32, i32), Vec<u8>>,
}

impl Lines {
    fn take(&mut self, chunk: &v1::LogChunk) -> Done {
        let index = chunk.instance.map_or(0, |instance| instance.index);
        if chunk.lost_bytes > 0 {
            eprintln!("{}/{index}: {} bytes before this are not kept", self.job, chunk.lost_bytes);
        }
        let mut open = self.open.remove(&(index, chunk.stream)).unwrap_or_default();
        for byte in &chunk.data {
            open.push(*byte);
            if *byte == b'\n' || open.len() >= LINE_BYTES_MAX {
                self.write(index, &open)?;
                open.clear();
            }
        }
        if !open.is_empty() {
            self.open.insert((index, chunk.stream), open);
        }
        Ok(())
    }

    fn write(&self, index: u32, line: &[u8]) -> Done {
        let mut bytes = match self.prefixed {
            true => format!("{}/{index}  ", self.job).into_bytes(),
            false => Vec::new(),
        };
        bytes.extend_from_slice(line);
        // A piece of a line is followed by whatever another task writes.
        if self.prefixed && !line.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        output::print_from_outside(&bytes)
    }

    /// What was never ended with a new line.
    fn end(mut self) -> Done {
        for ((index, _), mut line) in std::mem::take(&mut self.open) {
            line.push(b'\n');
            self.write(index, &line)?;
        }
        Ok(())
    }
}
