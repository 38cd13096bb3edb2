//! The last output of a task, shown where it has failed.

use std::time::Duration;

use api::v1;
use client::Connection;
use model::{TaskIndex, TaskSelection};

/// How many lines of a failed task are shown, of each stream.
const LINES: u32 = 5;
const LINE_CHARS_MAX: usize = 200;
/// How much of a log is read for them, and for how long: the lines are a courtesy, not the
/// requested result.
const LOG_BYTES_MAX: usize = 16 << 10;
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// The last output of a task, of a version or the newest, each line marked; empty if it is not available quickly.
pub(crate) async fn last_lines(
    connection: &mut Connection,
    job: v1::JobAddress,
    task: u32,
    version: Option<u32>,
) -> String {
    let read = tokio::time::timeout(LOG_PATIENCE, read(connection, job, task, version));
    shown(&read.await.unwrap_or_default())
}

async fn read(
    connection: &mut Connection,
    job: v1::JobAddress,
    task: u32,
    version: Option<u32>,
) -> Vec<u8> {
    let only = TaskSelection::Some(vec![(TaskIndex(task), TaskIndex(task))]);
    let request = v1::LogsRequest {
        job: Some(job),
        tasks: Some((&only).into()),
        stream: v1::LogStream::StdoutAndStderr.into(),
        start: Some(v1::LogStart { from: Some(v1::log_start::From::TailLines(LINES)) }),
        follow: false,
        version,
        ..v1::LogsRequest::default()
    };
    let mut bytes = Vec::new();
    let chunks = connection
        .stream(request, async |mut client, request| client.tasks.logs(request).await)
        .await;
    let Ok(mut chunks) = chunks else { return bytes };
    while let Ok(Some(chunk)) = chunks.message().await {
        bytes.extend_from_slice(&chunk.data);
        if bytes.len() >= LOG_BYTES_MAX {
            break;
        }
    }
    bytes
}

fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = |line: &str| {
        let short: String = line.chars().take(LINE_CHARS_MAX).collect();
        let more = if short.len() < line.len() { "…" } else { "" };
        format!("  | {short}{more}\n")
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_marked_and_bounded() {
        let long = "x".repeat(LINE_CHARS_MAX);
        let text = format!("one\ntwo {long}\nthree");
        let cut: String = format!("two {long}").chars().take(LINE_CHARS_MAX).collect();
        assert_eq!(shown(text.as_bytes()), format!("  | one\n  | {cut}…\n  | three\n"));
        assert_eq!(shown(b""), "");
    }
}
