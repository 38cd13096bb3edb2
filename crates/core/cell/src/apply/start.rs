//! Where the time of a task's start goes: what the cell sees itself, and what it keeps of what schedulers
//! and machines measured.

use model::{Span, StartLatency, StartPart, Time};

/// What is known of a start when the task is placed. `ready` is since when it could be placed: a delay
/// before a restart does not count. The scheduler's pass cannot have begun before that, nor after `now`.
pub(super) fn placed(ready: Time, began: Option<Time>, now: Time) -> StartLatency {
    let Some(began) = began else { return StartLatency::UNKNOWN };
    let began = began.max(ready).min(now);
    StartLatency::UNKNOWN
        .with(StartPart::Queue, began.since(ready))
        .with(StartPart::Decide, now.since(began))
}

/// The same when its program runs. The machine measured by its own clock: together its parts never count
/// for more than the time that passed for the cell since the task was placed.
pub(super) fn started(known: StartLatency, measured: StartLatency, passed: Span) -> StartLatency {
    let mut left = passed;
    let mut latency = known;
    for part in [StartPart::Fetch, StartPart::Start] {
        if let Some(took) = measured.part(part) {
            let took = took.min(left);
            left = Span(left.0.saturating_sub(took.0));
            latency = latency.with(part, took);
        }
    }
    latency
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn the_queue_ends_when_the_pass_begins() {
        // Ready, the pass began, placed: what is known, in seconds.
        let cases = [
            (10, Some(14), 15, "queue 4 s, decide 1 s"),
            (10, Some(10), 10, "queue 0 s, decide 0 s"),
            (10, Some(8), 15, "queue 0 s, decide 5 s"),
            (10, Some(99), 15, "queue 5 s, decide 0 s"),
            (10, None, 15, ""),
        ];
        for (ready, began, now, expected) in cases {
            let latency = placed(time(ready), began.map(time), time(now));
            assert_eq!(latency.to_string(), expected, "ready {ready}, began {began:?}");
        }
    }

    #[test]
    fn a_machine_cannot_have_taken_longer_than_the_cell_waited() {
        let measured = |fetch: Option<u64>, start: Option<u64>| {
            let parts = [(StartPart::Fetch, fetch), (StartPart::Start, start)];
            let known = parts.into_iter().filter_map(|(part, took)| Some((part, took?)));
            known.fold(StartLatency::UNKNOWN, |latency, (part, took)| {
                latency.with(part, Span::from_secs(took))
            })
        };
        // Fetch and start as measured, the time that passed: what is known.
        let cases = [
            (Some(20), Some(2), 30, "queue 1 s, fetch 20 s, start 2 s"),
            (Some(0), Some(2), 30, "queue 1 s, fetch 0 s, start 2 s"),
            (Some(20), Some(2), 21, "queue 1 s, fetch 20 s, start 1 s"),
            (Some(20), Some(2), 5, "queue 1 s, fetch 5 s, start 0 s"),
            (None, Some(2), 30, "queue 1 s, start 2 s"),
            (None, None, 30, "queue 1 s"),
        ];
        let known = StartLatency::UNKNOWN.with(StartPart::Queue, Span::from_secs(1));
        for (fetch, start, passed, expected) in cases {
            // What is no part of a machine's counts for nothing.
            let said = measured(fetch, start).with(StartPart::Healthy, Span::from_secs(9));
            let latency = started(known, said, Span::from_secs(passed));
            assert_eq!(latency.to_string(), expected, "{fetch:?} {start:?} of {passed} s");
        }
    }
}
