//! What the tables of tasks say in few words, and the sentences below them.

use std::collections::BTreeMap;

use api::{v1, word};
use model::Span;
use present::{lost_starts, start_lost};

/// How many different sentences are shown below a table.
const SAID_SHOWN: usize = 5;
/// A cell has at most so many characters of what a program or a machine said; a longer text is below the table.
const CELL_CHARACTERS: usize = 24;

/// The health of a task: `unhealthy`, with what its check said if that is short or `whole` is wanted.
pub(crate) fn health(task: &v1::TaskStatus, whole: bool) -> String {
    let Some(health) = health_word(task) else {
        return match task.state() {
            v1::TaskState::Running => word::<v1::Health>(task.health).into_owned(),
            _ => String::new(),
        };
    };
    cell(&because(health, task), whole)
}

/// The word for the health of a task that runs; `None` for one that this version does not know.
fn health_word(task: &v1::TaskStatus) -> Option<&'static str> {
    if task.state() != v1::TaskState::Running {
        return None;
    }
    Some(match v1::Health::try_from(task.health).ok()? {
        v1::Health::Healthy => "healthy",
        v1::Health::Unhealthy => "unhealthy",
        v1::Health::Unready => "not ready",
        v1::Health::Unknown => "not yet",
    })
}

/// `unhealthy: HTTP 503`.
fn because(health: &str, task: &v1::TaskStatus) -> String {
    match task.check.as_str() {
        _ if health == "healthy" => health.to_owned(),
        "" => health.to_owned(),
        check => format!("{health}: {}", check.escape_debug()),
    }
}

/// `exit code 1, restarts in 3.2 s`; of a longer text the words before the colon.
pub(crate) fn last_end(task: &v1::TaskStatus, now: u64, whole: bool) -> String {
    if let Some(text) = start_was_lost(task, now) {
        return if whole { text } else { "could not start".to_owned() };
    }
    let ended = cell(&task.last_end_text, whole);
    match task.not_before.checked_sub(now) {
        Some(wait) if wait > 0 && !ended.is_empty() => {
            format!("{ended}, restarts in {}", Span(wait))
        }
        _ => ended,
    }
}

/// `could not start: cannot fetch package ana/app@3: …; tried 4 times, next in 8 s`.
pub(crate) fn start_was_lost(task: &v1::TaskStatus, now: u64) -> Option<String> {
    start_lost(pending_cause(task)?, task.last_end.as_ref(), task.not_before, now)
}

/// How often in a row a task could not be started, if it is pending for that.
pub(crate) fn starts_lost(task: &v1::TaskStatus) -> u32 {
    match pending_cause(task).and_then(|pending| pending.cause.as_ref()) {
        Some(v1::pending_cause::Cause::StartLost(tries)) => *tries,
        _ => 0,
    }
}

fn pending_cause(task: &v1::TaskStatus) -> Option<&v1::PendingCause> {
    match task.state_reason.as_ref()?.reason.as_ref()? {
        v1::state_reason::Reason::Pending(pending) => Some(pending),
        _ => None,
    }
}

fn is_short(text: &str) -> bool {
    text.chars().nth(CELL_CHARACTERS).is_none()
}

/// A text as it stands in a cell: what is too long ends before its first colon.
fn cell(text: &str, whole: bool) -> String {
    match text.split_once(": ") {
        Some((begin, _)) if !whole && !is_short(text) => begin.to_owned(),
        _ => text.to_owned(),
    }
}

/// The sentences about tasks: why they could not start, how they ended, what their checks say, and what is said of
/// those that run, such as that they have an older secret. A line for each text, the first few.
pub(crate) fn said_of(what: &str, job: &v1::JobStatus, now: u64) -> String {
    // Tasks with the same text are one line, though they wait for different times.
    let mut said: BTreeMap<String, (String, Vec<u32>)> = BTreeMap::new();
    let mut say = |key: String, text: String, task: &v1::TaskStatus| {
        said.entry(key).or_insert((text, Vec::new())).1.push(task.index);
    };
    for task in &job.tasks {
        if let Some(text) = start_was_lost(task, now) {
            let key = lost_starts(0, task.last_end.as_ref()).unwrap_or_default();
            say(key, text, task);
        } else if cell(&task.last_end_text, false) != task.last_end_text {
            let text = format!("last end: {}", task.last_end_text);
            say(text.clone(), text, task);
        }
        if let Some(health) = health_word(task) {
            let text = because(health, task);
            if cell(&text, false) != text {
                say(text.clone(), text, task);
            }
            if !task.reason.is_empty() {
                say(task.reason.clone(), task.reason.clone(), task);
            }
        }
    }
    let mut text = String::new();
    for (said, tasks) in said.values().take(SAID_SHOWN) {
        let more = match tasks.len().saturating_sub(1) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let first = tasks.first().copied().unwrap_or_default();
        text.push_str(&format!("{what} {first}{more}: {said}\n"));
    }
    if let Some(left) = said.len().checked_sub(SAID_SHOWN).filter(|left| *left > 0) {
        text.push_str(&format!("and {left} other texts, which -o wide shows\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(index: u32, tries: u32, not_before: u64) -> v1::TaskStatus {
        let cause = v1::PendingCause { cause: Some(v1::pending_cause::Cause::StartLost(tries)) };
        let reason = "cannot fetch package ana/app@3: no store";
        v1::TaskStatus {
            index,
            state: v1::TaskState::Pending.into(),
            state_reason: Some(v1::StateReason {
                reason: Some(v1::state_reason::Reason::Pending(cause)),
            }),
            last_end: Some(v1::End { how: Some(v1::end::How::Lost(reason.to_owned())) }),
            last_end_text: format!("lost: {reason}"),
            not_before,
            ..v1::TaskStatus::default()
        }
    }

    #[test]
    fn a_start_that_is_lost_is_a_word_in_the_table_and_a_sentence_below_it() {
        let sentence = "could not start: cannot fetch package ana/app@3: no store; tried 4 times, next in 32 s";
        let task = lost(0, 4, 40_000_000);
        assert_eq!(last_end(&task, 8_000_000, false), "could not start");
        assert_eq!(last_end(&task, 8_000_000, true), sentence);
        assert_eq!(starts_lost(&task), 4);
        let tasks = vec![task, lost(1, 3, 30_000_000), lost(2, 5, 50_000_000)];
        let job = v1::JobStatus { tasks, ..v1::JobStatus::default() };
        assert_eq!(said_of("task", &job, 8_000_000), format!("task 0 and 2 more: {sentence}\n"));
    }

    #[test]
    fn long_texts_are_below_the_table() {
        use v1::Health::{Healthy, Unhealthy, Unknown, Unready};
        use v1::TaskState::{Failed, Pending, Running};
        let oom = "out of memory: it used 64 MiB of its limit of 32 MiB";
        // The state and the health; the check, and the last end; the cells; the line below.
        for (state, health_is, check, end, cells, below) in [
            (Running, Healthy, "HTTP 200", "", ["healthy", ""], ""),
            (
                Running,
                Unhealthy,
                "HTTP 503",
                "exit code 1",
                ["unhealthy: HTTP 503", "exit code 1"],
                "",
            ),
            (
                Running,
                Unready,
                "exit code 1: no database",
                "",
                ["not ready", ""],
                "task 0: not ready: exit code 1: no database\n",
            ),
            (Running, Unknown, "", "signal 9", ["not yet", "signal 9"], ""),
            (
                Failed,
                Unknown,
                "",
                oom,
                ["", "out of memory"],
                &format!("task 0: last end: {oom}\n"),
            ),
            (Pending, Unknown, "", "exit code 1", ["", "exit code 1, restarts in 3 s"], ""),
        ] {
            let task = v1::TaskStatus {
                state: state.into(),
                health: health_is.into(),
                check: check.to_owned(),
                last_end_text: end.to_owned(),
                not_before: if state == Pending { 5_000_000 } else { 0 },
                ..v1::TaskStatus::default()
            };
            assert_eq!([health(&task, false), last_end(&task, 2_000_000, false)], cells);
            let job = v1::JobStatus { tasks: vec![task], ..v1::JobStatus::default() };
            assert_eq!(said_of("task", &job, 2_000_000), below, "{state:?} {health_is:?}");
        }
    }
}
