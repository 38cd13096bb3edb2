//! What is said of a start that was lost before the program of the task ran: always in the same words.

use api::v1;
use model::Span;

/// Why a task could not be started, and when it is tried again: `could not start: cannot fetch package ana/app@3: …;
/// tried 4 times, next in 8 s`. `None` if it is pending for another reason.
#[must_use]
pub fn start_lost(
    cause: &v1::PendingCause,
    last_end: Option<&v1::End>,
    not_before: u64,
    now: u64,
) -> Option<String> {
    let Some(v1::pending_cause::Cause::StartLost(tries)) = cause.cause else { return None };
    let next = match not_before.checked_sub(now) {
        Some(wait) if wait > 0 => format!(", next in {}", Span(wait)),
        _ => String::new(),
    };
    Some(format!("{}{next}", lost_starts(tries, last_end)?))
}

/// The same without the next start: it is being tried again.
#[must_use]
pub fn lost_starts(tries: u32, last_end: Option<&v1::End>) -> Option<String> {
    let v1::end::How::Lost(reason) = last_end?.how.as_ref()? else { return None };
    let times = if tries <= 1 { "once".to_owned() } else { format!("{tries} times") };
    Some(format!("could not start: {}; tried {times}", reason.escape_debug()))
}

/// Why tasks that have a machine do not run yet: the name for which they wait, or why their last start was lost.
#[must_use]
pub fn not_started(group: &v1::StartingGroup) -> Option<String> {
    let lost = lost_starts(group.tries, group.last_end.as_ref());
    match (group.waits_for.as_str(), lost) {
        ("", lost) => lost,
        // The last start was lost because it waited for the same.
        (awaited, Some(lost)) if lost.contains(awaited) => Some(lost),
        (awaited, Some(lost)) => Some(format!("{awaited}; {lost}")),
        (awaited, None) => Some(awaited.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_task_waits_for_is_shown_once() {
        let end = |reason: &str| v1::End { how: Some(v1::end::How::Lost(reason.to_owned())) };
        let awaited = "it waits for ${bns.db.host}: no job ana/db runs";
        let lost = format!("no names: {awaited}");
        for (waits_for, tries, last_end, shown) in [
            ("", 0, None, None),
            (awaited, 0, None, Some(awaited.to_owned())),
            (awaited, 2, Some(end(&lost)), Some(format!("could not start: {lost}; tried 2 times"))),
            (
                awaited,
                1,
                Some(end("no image")),
                Some(format!("{awaited}; could not start: no image; tried once")),
            ),
        ] {
            let waits_for = waits_for.to_owned();
            let group = v1::StartingGroup { tasks: Vec::new(), tries, last_end, waits_for };
            assert_eq!(not_started(&group), shown);
        }
    }

    #[test]
    fn a_start_that_is_lost_is_shown_with_its_tries() {
        let cause =
            |tries| v1::PendingCause { cause: Some(v1::pending_cause::Cause::StartLost(tries)) };
        let reason = "cannot fetch package ana/app@3: no store";
        let end = v1::End { how: Some(v1::end::How::Lost(reason.to_owned())) };
        for (tries, not_before, now, expected) in [
            (1, 2_000_000, 1_000_000, "tried once, next in 1 s"),
            (4, 40_000_000, 8_000_000, "tried 4 times, next in 32 s"),
            (4, 40_000_000, 41_000_000, "tried 4 times"),
            (4, 0, 41_000_000, "tried 4 times"),
        ] {
            let shown = start_lost(&cause(tries), Some(&end), not_before, now);
            assert_eq!(shown, Some(format!("could not start: {reason}; {expected}")));
        }
        let lost = v1::PendingCause { cause: Some(v1::pending_cause::Cause::Lost(v1::Nothing {})) };
        assert_eq!(start_lost(&lost, Some(&end), 2, 1), None);
        assert_eq!(lost_starts(2, None), None);
    }
}
