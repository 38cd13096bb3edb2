//! What came of a job that was waited for: in words, with what a task that failed wrote last, and as an
//! exit status.

use std::time::Duration;

use client::Connection;
use model::{TaskIndex, TaskSelection};
use proto::v1;
use proto::v1::end::How;

use crate::exit::{Code, Failure};
use crate::{run, why};

/// How many lines of a task that failed are shown, of each stream, and how long one may be.
const LINES: u32 = 5;
const LINE_CHARS_MAX: usize = 200;
/// How much of a log is read for them, and for how long that is waited for: they are a help, and not what
/// was asked for.
const LOG_BYTES_MAX: usize = 16 << 10;
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// The exit status of a process that a signal ended, as shells have it, is this and the signal.
const SIGNALLED: u32 = 128;
const SIGKILL: u32 = 9;
/// That of a program that could not be started, as shells have it.
const NOT_STARTED: u8 = 127;

/// How a task that failed ended, as an exit status; nothing where its program is not what failed.
fn exit_status(task: &v1::TaskStatus) -> Option<u8> {
    let status = match task.last_end.as_ref()?.how.as_ref()? {
        How::Exited(code) => *code,
        How::Signalled(signal) => SIGNALLED.saturating_add(*signal),
        How::OutOfMemory(_) => SIGNALLED + SIGKILL,
        How::NotStarted(_) => return Some(NOT_STARTED),
        How::Unhealthy(_) | How::Stopped(_) | How::Lost(_) | How::BrokeRule(_) => return None,
    };
    u8::try_from(status).ok().filter(|status| *status > 0)
}

/// The first task that failed for good.
pub(super) fn failed(job: &v1::JobStatus) -> Option<&v1::TaskStatus> {
    job.tasks.iter().find(|task| task.state == "failed")
}

/// That a job is dead and has not finished, or that none of its tasks runs any more that could be
/// healthy. Where its end was waited for, with the exit status of the first task that failed.
pub(super) fn dead(name: &str, job: &v1::JobStatus, end_was_waited_for: bool) -> Failure {
    let counts = job.counts.unwrap_or_default();
    let failed = failed(job);
    let failure = if !run::is_dead(job) {
        let all = run::count(run::is_alloc_set(job), counts.tasks);
        let (ended, fail) = (counts.failed + counts.killed, "failed or were killed");
        Failure::failed(format!("error: {ended} of {all} of {name} {fail}, for good"))
            .next(format!("bourg status {name} · bourg kill {name}"))
    } else if let Some(task) = failed.filter(|_| job.state == "failed") {
        let (index, end) = (task.index, &task.last_end_text);
        Failure::failed(format!("error: {name} {}: task {index} {end}", job.state))
            .next(format!("bourg logs {name}/{index}"))
    } else {
        // Killed by somebody, or with another job.
        let why = match (job.reason.as_str(), job.reason.starts_with("by ")) {
            ("", _) => String::new(),
            (why, true) => format!(" {why}"),
            (why, false) => format!(": {why}"),
        };
        Failure::failed(format!("error: {name} {}{why}", job.state))
            .next(format!("bourg events {name}"))
    };
    match failed.and_then(exit_status).filter(|_| end_was_waited_for) {
        Some(status) => failure.exit_status(status),
        None => failure,
    }
}

/// That a job has not come so far in time.
pub(super) fn late(name: &str, job: Option<&v1::JobStatus>, wait: Duration, far: &str) -> Failure {
    let Some(job) = job else {
        return Failure::failed(format!("error: nothing is known of {name}"));
    };
    let (counts, wait) = (job.counts.unwrap_or_default(), wait.as_secs());
    if counts.queued > 0 {
        let until = why::until(&job.waits_for);
        let text = format!("error: not placed within {wait} s: {name} is queued {until}");
        let first = job.waits_for.first().map(String::as_str).unwrap_or_default();
        return Failure::new(Code::NotPlaced, text)
            .next(format!("bourg status {first} · bourg kill {name}"));
    }
    let is_alloc_set = run::is_alloc_set(job);
    if counts.pending > 0
        && job.tasks.iter().all(|task| task.state != "pending" || task.failures == 0)
    {
        let text = format!(
            "error: not placed within {wait} s: {} of the {} of {name}; it stays pending",
            counts.pending,
            run::count(is_alloc_set, counts.tasks)
        );
        return Failure::new(Code::NotPlaced, text)
            .next(format!("bourg why {name} · bourg kill {name}"));
    }
    let is_far = |task: &v1::TaskStatus| match far {
        "healthy" => task.state == "finished" || task.health() == v1::Health::Healthy,
        far => task.state == far,
    };
    let sick = job.tasks.iter().find(|task| !is_far(task)).map(|task| {
        let last = match task.last_end_text.as_str() {
            "" => String::new(),
            end => format!(", its last life ended with {end}"),
        };
        format!(": task {} is {}{last}", task.index, task.state)
    });
    let text = format!(
        "error: {} of {} tasks of {name} are {far} after {wait} s{}",
        job.tasks.iter().filter(|task| is_far(task)).count(),
        counts.tasks,
        sick.unwrap_or_default()
    );
    let next = match is_alloc_set {
        true => format!("bourg why {name} · bourg status {name}"),
        false => format!("bourg logs {name} · bourg status {name}"),
    };
    Failure::failed(text).next(next)
}

/// What a task wrote last, each line with a mark in front; empty where that is not to be had at once.
pub(super) async fn last_lines(
    connection: &mut Connection,
    job: v1::JobAddress,
    task: u32,
) -> String {
    let read = tokio::time::timeout(LOG_PATIENCE, read(connection, job, task));
    shown(&read.await.unwrap_or_default())
}

async fn read(connection: &mut Connection, job: v1::JobAddress, task: u32) -> Vec<u8> {
    let only = TaskSelection::Some(vec![(TaskIndex(task), TaskIndex(task))]);
    let request = v1::LogsRequest {
        job: Some(job),
        tasks: Some((&only).into()),
        stream: v1::LogStream::StdoutAndStderr.into(),
        start: Some(v1::LogStart { from: Some(v1::log_start::From::TailLines(LINES)) }),
        follow: false,
    };
    let mut bytes = Vec::new();
    let chunks =
        connection.stream(request, async |mut client, request| client.logs(request).await).await;
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

    fn ended(how: How) -> v1::TaskStatus {
        let last_end = Some(v1::End { how: Some(how) });
        v1::TaskStatus { state: "failed".to_owned(), last_end, ..v1::TaskStatus::default() }
    }

    #[test]
    fn a_tasks_end_is_an_exit_status_as_shells_have_it() {
        for (how, status) in [
            (How::Exited(3), Some(3)),
            (How::Exited(255), Some(255)),
            (How::Exited(256), None),
            (How::Signalled(15), Some(143)),
            (How::OutOfMemory(v1::OutOfMemory::default()), Some(137)),
            (How::NotStarted("no such file".to_owned()), Some(127)),
            (How::Unhealthy("GET / → 500".to_owned()), None),
            (How::Lost("rebooted".to_owned()), None),
        ] {
            let text = format!("{how:?}");
            assert_eq!(exit_status(&ended(how)), status, "{text}");
        }
        assert_eq!(exit_status(&v1::TaskStatus::default()), None);
    }

    #[test]
    fn lines_are_marked_and_bounded() {
        let long = "x".repeat(LINE_CHARS_MAX);
        let text = format!("one\ntwo {long}\nthree");
        let cut: String = format!("two {long}").chars().take(LINE_CHARS_MAX).collect();
        assert_eq!(shown(text.as_bytes()), format!("  | one\n  | {cut}…\n  | three\n"));
        assert_eq!(shown(b""), "");
    }
}
