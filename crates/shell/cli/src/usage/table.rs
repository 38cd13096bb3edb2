//! The usage of a job's tasks as a table, and what has to be said about it.

use api::{v1, word};
use command::output;
use model::Time;
use present::amount;

use super::sparkline::{Slots, WINDOW_MICROS, curve};
use crate::moment;

/// One line for each task, and one for all of them if there are several.
pub(super) fn table(answer: &v1::UsageResponse, since: Time) -> String {
    let tasks = &answer.tasks;
    let windows = tasks.iter().flat_map(|task| &task.windows);
    let slots = Slots::of(windows, since.0, answer.time);
    let curves: Vec<_> = tasks.iter().map(|task| slots.cpu(&task.windows)).collect();
    let most = curves.iter().flatten().flatten().copied().max();
    let is_pressed = tasks
        .iter()
        .filter_map(|task| task.used.as_ref())
        .any(|used| amount::pressure(used) != amount::UNMEASURED);

    let mut headings = vec![
        "TASK",
        "STATE",
        "MACHINE",
        "CPU",
        "OF LIMIT",
        "MEMORY",
        "OF LIMIT",
        "PEAK",
        "PAGE CACHE",
        "DISK",
        "DISK RATE",
        "THROTTLED",
    ];
    if is_pressed {
        headings.push("PRESSURE");
    }
    // The scale is the same for all tasks.
    let heading = most.map(|most| format!("CPU EVERY 5 m (█ = {})", amount::cpu(Some(most))));
    headings.extend(heading.as_deref());

    let mut rows: Vec<Vec<String>> = tasks
        .iter()
        .map(|task| {
            let used = task.used.unwrap_or_default();
            let first = [
                task.index.to_string(),
                word::<v1::TaskState>(task.state).into_owned(),
                output::one_line(&task.machine),
            ];
            row(first, &used, task.limit, is_pressed)
        })
        .collect();
    if let Some(most) = most {
        for (row, values) in rows.iter_mut().zip(&curves) {
            row.push(curve(values, most));
        }
    }
    if tasks.len() > 1 {
        let (used, limit) = total(tasks);
        let measured = tasks.iter().filter(|task| task.used.is_some()).count();
        let of = format!("{measured} of {} measured", tasks.len());
        rows.push(row(["total".to_owned(), of, String::new()], &used, limit, is_pressed));
    }
    output::table(&headings, rows)
}

fn row(
    first: [String; 3],
    used: &v1::Measured,
    limit: Option<v1::Resources>,
    is_pressed: bool,
) -> Vec<String> {
    let cpu = amount::share(used.cpu_milli, limit.map(|limit| limit.cpu_milli));
    let memory = amount::share(used.memory_bytes, limit.map(|limit| limit.ram_bytes));
    let mut row = Vec::from(first);
    row.extend([
        amount::cpu(used.cpu_milli),
        amount::percent(cpu),
        amount::bytes(used.memory_bytes),
        amount::percent(memory),
        amount::bytes(used.memory_peak_bytes),
        amount::bytes(used.page_cache_bytes),
        amount::bytes(used.disk_bytes),
        amount::rate(used.disk_rate_bytes),
        amount::permille(used.throttled_permille),
    ]);
    if is_pressed {
        row.push(amount::pressure(used));
    }
    row
}

/// The sums of what the measured tasks use and of their limits. Peaks and shares of time cannot be
/// added.
fn total(tasks: &[v1::TaskUsage]) -> (v1::Measured, Option<v1::Resources>) {
    let used = |of: fn(&v1::Measured) -> Option<i64>| {
        amount::sum(tasks.iter().map(|task| task.used.as_ref().and_then(of)))
    };
    let measured = tasks.iter().filter(|task| task.used.is_some());
    let limits: Vec<_> = measured.map(|task| task.limit).collect();
    let limit = |of: fn(&v1::Resources) -> i64| {
        let known: Option<Vec<i64>> = limits.iter().map(|limit| limit.as_ref().map(of)).collect();
        // A task without a known limit: the sum is not known, either.
        known.and_then(|known| amount::sum(known.into_iter().map(Some))).unwrap_or_default()
    };
    let sum = v1::Measured {
        cpu_milli: used(|used| used.cpu_milli),
        memory_bytes: used(|used| used.memory_bytes),
        page_cache_bytes: used(|used| used.page_cache_bytes),
        disk_bytes: used(|used| used.disk_bytes),
        disk_rate_bytes: used(|used| used.disk_rate_bytes),
        ..v1::Measured::default()
    };
    let limit = v1::Resources {
        cpu_milli: limit(|limit| limit.cpu_milli),
        ram_bytes: limit(|limit| limit.ram_bytes),
        ..v1::Resources::default()
    };
    (sum, Some(limit))
}

/// What the table does not say: where the curves begin, and what is missing.
pub(super) fn notes(answer: &v1::UsageResponse, since: Time) -> Vec<String> {
    let starts = answer.tasks.iter().flat_map(|task| &task.windows);
    let starts = starts.filter_map(|window| Some(window.window.as_ref()?.start));
    let mut notes = Vec::new();
    match starts.min() {
        None if answer.tasks.is_empty() => {}
        None => {
            let at = moment::shown(since);
            notes.push(format!("no window of 5 m has been measured completely since {at}"));
        }
        Some(first) if first > since.0.saturating_add(WINDOW_MICROS) => {
            let (at, ago) = (moment::shown(Time(first)), Time(answer.time).since(Time(first)));
            notes.push(format!(
                "the master has windows of these tasks from {at} on ({ago} ago): it keeps them in memory"
            ));
        }
        Some(_) => {}
    }
    notes.extend(missing(answer));
    notes
}

/// The note about replicas that did not answer.
pub(crate) fn missing(answer: &v1::UsageResponse) -> Option<String> {
    let all: Vec<String> = answer.missing.iter().map(ToString::to_string).collect();
    let which = match all.as_slice() {
        [] => return None,
        [one] => format!("replica {one}"),
        several => format!("replicas {}", several.join(", ")),
    };
    Some(format!(
        "no answer from {which} of the master: the usage of the machines polled there is missing"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::sparkline::tests::window;
    use super::missing as missing_note;
    use super::*;

    const MIB: i64 = 1 << 20;
    /// The number of the window that is open.
    const NOW: u64 = 1_000;

    fn task(index: u32, used: Option<v1::Measured>) -> v1::TaskUsage {
        v1::TaskUsage {
            index,
            state: v1::TaskState::Running.into(),
            machine: format!("m{index}"),
            limit: Some(v1::Resources {
                cpu_milli: 1_000,
                ram_bytes: 128 * MIB,
                ..v1::Resources::default()
            }),
            used,
            ..v1::TaskUsage::default()
        }
    }

    fn used(cpu: i64, mib: i64) -> v1::Measured {
        v1::Measured {
            cpu_milli: Some(cpu),
            memory_bytes: Some(mib * MIB),
            memory_peak_bytes: Some(2 * mib * MIB),
            page_cache_bytes: Some(MIB),
            ..v1::Measured::default()
        }
    }

    fn answer(tasks: Vec<v1::TaskUsage>) -> v1::UsageResponse {
        v1::UsageResponse { time: NOW * WINDOW_MICROS + 7, tasks, ..v1::UsageResponse::default() }
    }

    #[track_caller]
    fn check(answer: &v1::UsageResponse, expected: &str) {
        let shown = table(answer, Time((NOW - 12) * WINDOW_MICROS));
        assert_eq!(shown.trim_end(), expected.trim_matches('\n'), "\n{shown}");
    }

    #[test]
    fn each_task_has_a_line_and_all_have_a_total() {
        let mut first = task(0, Some(used(250, 32)));
        first.windows =
            vec![window(NOW - 4, Some(500)), window(NOW - 3, Some(250)), window(NOW - 1, Some(0))];
        let mut last = task(2, Some(used(25, 16)));
        last.used = last.used.map(|used| v1::Measured {
            disk_bytes: Some(3 * MIB),
            disk_rate_bytes: Some(MIB / 2),
            throttled_permille: Some(15),
            ..used
        });
        last.windows = vec![window(NOW - 2, Some(125))];
        check(
            &answer(vec![first, task(1, None), last]),
            "
TASK   STATE            MACHINE  CPU    OF LIMIT  MEMORY  OF LIMIT  PEAK    PAGE CACHE  DISK   DISK RATE  THROTTLED  CPU EVERY 5 m (█ = 0.5)
0      running          m0       0.25   25 %      32 MiB  25 %      64 MiB  1 MiB       -      -          -          █▅ ▁
1      running          m1       -      -         -       -         -       -           -      -          -
2      running          m2       0.025  2.5 %     16 MiB  12 %      32 MiB  1 MiB       3 MiB  512 KiB/s  1.5 %        ▃
total  2 of 3 measured           0.275  13 %      48 MiB  18 %      -       2 MiB       3 MiB  512 KiB/s  -",
        );
    }

    #[test]
    fn an_unmeasured_task_shows_no_zero_and_no_curve() {
        check(
            &answer(vec![task(0, None), task(1, Some(v1::Measured::default()))]),
            "
TASK   STATE            MACHINE  CPU  OF LIMIT  MEMORY  OF LIMIT  PEAK  PAGE CACHE  DISK  DISK RATE  THROTTLED
0      running          m0       -    -         -       -         -     -           -     -          -
1      running          m1       -    -         -       -         -     -           -     -          -
total  1 of 2 measured           -    -         -       -         -     -           -     -          -",
        );
        assert!(!table(&answer(vec![]), Time(0)).contains("total"));
    }

    #[test]
    fn pressure_has_a_column_where_it_was_measured_and_texts_are_escaped() {
        let mut one = task(0, Some(used(1, 1)));
        one.used = one.used.map(|used| v1::Measured { io_pressure_permille: Some(5), ..used });
        one.machine = "m\x1b[31m\n".to_owned();
        let shown = table(&answer(vec![one]), Time(0));
        assert!(shown.contains("  PRESSURE") && shown.contains("  io 0.5 %"), "{shown}");
        assert!(shown.contains(r"m\u{1b}[31m\n"), "{shown}");
        assert_eq!(shown.lines().count(), 2, "one task needs no total:\n{shown}");
    }

    #[test]
    fn notes_say_where_the_curves_begin_and_what_is_missing() {
        let since = Time((NOW - 12) * WINDOW_MICROS);
        let with = |slots: &[u64]| {
            let mut task = task(0, None);
            task.windows = slots.iter().map(|slot| window(*slot, Some(1))).collect();
            notes(&answer(vec![task]), since).join("; ")
        };
        assert_eq!(with(&[NOW - 12, NOW - 1]), "");
        assert_eq!(
            with(&[NOW - 3]),
            "the master has windows of these tasks from 1970-01-04 11:05:00.000 on (15 m ago): it keeps \
             them in memory"
        );
        assert!(with(&[]).starts_with("no window of 5 m has been measured completely since 1970-"));
        assert!(notes(&answer(vec![]), since).is_empty());
        let lacks = |missing: &[u64]| {
            let missing = missing.to_vec();
            let answer = v1::UsageResponse { missing, ..answer(vec![]) };
            missing_note(&answer).unwrap_or_default()
        };
        assert_eq!(lacks(&[]), "");
        assert!(lacks(&[2]).starts_with("no answer from replica 2 of the master: "));
        assert!(lacks(&[1, 3]).starts_with("no answer from replicas 1, 3 of the master: "));
    }
}
