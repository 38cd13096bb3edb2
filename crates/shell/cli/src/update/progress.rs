//! An update as it proceeds: a bar and a line that say what it waits for, and how it ended.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use api::v1;
use client::Connection;
use command::{Code, Done, Failure, output};
use model::Span;

use super::current;
use crate::last_lines::last_lines;

/// The polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The intervals of lines if stderr is not a terminal: where tasks are through, and where they are not.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
const IDLE_INTERVAL: Duration = Duration::from_secs(10);
/// The width of the bar, in characters.
const BAR: u32 = 20;
/// The maximum number of tasks that are named because an undo left them unhealthy.
const UNHEALTHY_MAX: usize = 5;
/// The maximum number of tasks with a mark of their own.
const MARKS_MAX: usize = 40;

/// What the command that follows an update waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// That every task is updated.
    Updated,
    /// That every task is back.
    Undone,
    /// That every task is restarted.
    Restarted,
}

/// Shows the progress of an update until it has succeeded or is undone.
///
/// # Errors
/// If the update failed, another user paused, superseded or undid it, or it does not end in time.
pub(crate) async fn watch(
    connection: &mut Connection,
    job: &v1::JobAddress,
    version: u32,
    awaited: Awaited,
    timeout: Option<Duration>,
) -> Done {
    let (begun, name) = (Instant::now(), format!("{}/{}", job.user, job.job));
    let mut progress = Progress { live: std::io::stderr().is_terminal(), said: None };
    let mut undoing: Option<(Instant, bool)> = None;
    loop {
        let (status, _) = current(connection, job).await?;
        let over = |text: &str| {
            Failure::new(Code::Changed, format!("error: {name}: {text}"))
                .next(format!("bourg update status {name} · bourg events {name}"))
        };
        let Some(update) = status.update.as_ref().filter(|update| update.to == version) else {
            progress.end();
            return Err(over(&format!("another update followed that to version {version}")));
        };
        let all = update.tasks;
        progress.say(&status, update);
        match update.state() {
            v1::UpdateState::Succeeded | v1::UpdateState::Closed => {
                progress.end();
                if status.state().is_dead() && status.state() != v1::JobState::Finished {
                    return Err(over("the job ended"));
                }
                let skipped = match update.skipped.len() {
                    0 => String::new(),
                    some => format!(", {some} skipped (bourg update status {name})"),
                };
                let (done, took) = (update.done, shown(begun.elapsed()));
                match awaited {
                    _ if all == 0 && update.skipped.is_empty() => {
                        eprintln!("updated: {name} has no tasks on version {version}");
                    }
                    Awaited::Restarted => {
                        eprintln!("restarted: {done}/{all} tasks in {took}{skipped}");
                    }
                    _ => eprintln!(
                        "updated: {done}/{all} tasks on version {version} in {took}{skipped}"
                    ),
                }
                return Ok(());
            }
            v1::UpdateState::Paused => {
                progress.end();
                if !update.failure_text.is_empty() {
                    explain(connection, job, &name, update).await;
                    let what = if awaited == Awaited::Restarted { "restart" } else { "update" };
                    let text = format!("error: the {what} of {name} failed and is paused");
                    return Err(Failure::failed(text)
                        .next(format!("bourg update undo {name} · bourg update resume {name}")));
                }
                return Err(over(&format!("the update was paused by {}", update.state_by))
                    .next(format!("bourg update resume {name} · bourg update undo {name}")));
            }
            v1::UpdateState::Undoing | v1::UpdateState::Undone => {
                let failed = awaited != Awaited::Undone && update.state_by.is_empty();
                if undoing.is_none() {
                    undoing = Some((Instant::now(), failed));
                    if failed {
                        progress.end();
                        explain(connection, job, &name, update).await;
                    }
                }
                if update.state() == v1::UpdateState::Undone {
                    progress.end();
                    let took = undoing.map_or(Duration::ZERO, |(since, _)| since.elapsed());
                    let text = format!(
                        "undone: {}/{all} tasks back on version {} in {}",
                        update.done,
                        update.from,
                        shown(took)
                    );
                    let text = text + &unhealthy(update);
                    if failed {
                        return Err(Failure::new(Code::Undone, text)
                            .next(format!("bourg update status {name}")));
                    }
                    if awaited == Awaited::Undone && !update.unhealthy.is_empty() {
                        return Err(Failure::failed(text)
                            .next(format!("bourg update status {name} · bourg why {name}")));
                    }
                    eprintln!("{text}");
                    return match awaited {
                        Awaited::Undone => Ok(()),
                        Awaited::Updated | Awaited::Restarted => {
                            let by = &update.state_by;
                            Err(over(&format!("the update was undone by {by}")))
                        }
                    };
                }
            }
            _ => {}
        }
        if timeout.is_some_and(|timeout| begun.elapsed() >= timeout) {
            progress.end();
            let (done, waits) = (update.done, &update.waits_for);
            return Err(Failure::failed(format!(
                "error: {done} of {all} tasks of {name} are updated after {}: {waits}; the update goes on",
                shown(timeout.unwrap_or_default())
            ))
            .next(format!("bourg update status {name}")));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The tasks that an undo left unhealthy, one a line.
fn unhealthy(update: &v1::UpdateStatus) -> String {
    let all = update.unhealthy.iter().take(UNHEALTHY_MAX);
    let text = |task: &v1::UnhealthyTask| {
        format!("\n ✗ task {} is not healthy: {}", task.index, output::one_line(&task.text))
    };
    let mut lines: String = all.map(text).collect();
    if update.unhealthy.len() > UNHEALTHY_MAX {
        lines += &format!("\n ✗ {} more", update.unhealthy.len() - UNHEALTHY_MAX);
    }
    lines
}

/// Says why an update failed, with the last output of the task.
async fn explain(
    connection: &mut Connection,
    job: &v1::JobAddress,
    name: &str,
    update: &v1::UpdateStatus,
) {
    output::say(&format!(" ✗ {}\n", output::one_line(&update.failure_text)));
    let instance = update.failure.as_ref().and_then(|failure| failure.instance.as_ref());
    if let Some(instance) = instance {
        output::say(&last_lines(connection, job.clone(), instance.index, Some(update.to)).await);
        let (index, version) = (instance.index, update.to);
        eprintln!(" why: bourg logs {name}/{index} --version {version}");
    }
}

fn shown(time: Duration) -> Span {
    Span(u64::try_from(time.as_millis()).unwrap_or(u64::MAX).saturating_mul(1_000))
}

/// The line that shows the progress.
struct Progress {
    live: bool,
    /// The last line, the number of tasks that were through and the state then, and when.
    said: Option<(String, (u32, i32), Instant)>,
}

impl Progress {
    fn say(&mut self, job: &v1::JobStatus, update: &v1::UpdateStatus) {
        let line = line(job, update);
        let state = (update.done, update.state);
        match (&self.said, self.live) {
            (Some((before, ..)), _) if *before == line => return,
            (Some((_, known, at)), false)
                if at.elapsed() < REPORT_INTERVAL
                    || *known == state && at.elapsed() < IDLE_INTERVAL =>
            {
                return;
            }
            (_, true) => eprint!("\r\x1b[K{line}"),
            (_, false) => eprintln!("{line}"),
        }
        self.said = Some((line, state, Instant::now()));
    }

    /// Ends the line before other output.
    fn end(&self) {
        if self.live && self.said.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}

/// For example ` 0 ✓  1 ✓  2 …  [#####   ] 2/3  task 2 starts`; without marks for many tasks.
fn line(job: &v1::JobStatus, update: &v1::UpdateStatus) -> String {
    let undoing = matches!(update.state(), v1::UpdateState::Undoing | v1::UpdateState::Undone);
    let target = if undoing { update.from } else { update.to };
    let mark = |task: &v1::TaskStatus| {
        let changing = update.changing.iter().any(|changing| changing.index == task.index);
        let skipped = update.skipped.iter().any(|skipped| skipped.index == task.index);
        match (changing, task.version == target) {
            _ if skipped => "-",
            (true, _) => "…",
            (false, true) => "✓",
            (false, false) => "·",
        }
    };
    // Tasks that are being removed and replacements are no tasks of the update.
    let size = job.spec.as_ref().map_or(u32::MAX, |spec| spec.tasks);
    let counts = |task: &&v1::TaskStatus| !task.state().is_dead() && task.index < size;
    let tasks: Vec<_> = job.tasks.iter().filter(counts).collect();
    let marks = match tasks.len() <= MARKS_MAX {
        true => tasks.iter().map(|task| format!(" {} {} ", task.index, mark(task))).collect(),
        false => " ".to_owned(),
    };
    let full = update.done.saturating_mul(BAR).checked_div(update.tasks).unwrap_or(BAR).min(BAR);
    let bar: String = (0..BAR).map(|place| if place < full { '#' } else { ' ' }).collect();
    let undo = if undoing { " undoing" } else { "" };
    let waits = match update.waits_for.as_str() {
        "" => String::new(),
        text => format!("  {}", output::one_line(text)),
    };
    let done = match update.tasks {
        0 => "no tasks".to_owned(),
        all => format!("{}/{all}", update.done),
    };
    format!("{marks}[{bar}] {done}{undo}{waits}")
}
