//! What the cell uses, now by band and over time, as two tables, and what has to be said about them.

use std::collections::BTreeMap;

use api::{v1, word};
use command::output;
use model::{Span, Time};
use present::amount;

use super::sparkline::{WINDOW_MICROS, curve};
use super::table::missing;
use crate::moment;

/// How much time a row may stand for, in minutes.
const STEPS: [u64; 9] = [1, 5, 15, 30, 60, 180, 360, 720, 1_440];
/// The most rows, and characters of a curve: a day by hours, which begins and ends within one.
const ROWS_MAX: u64 = 25;

const MINUTE_MICROS: u64 = 60_000_000;

/// The samples of each step, by its number.
struct Steps<'a> {
    /// The length of a step, in microseconds.
    length: u64,
    first: u64,
    last: u64,
    samples: BTreeMap<u64, Vec<&'a v1::CellSample>>,
}

impl<'a> Steps<'a> {
    /// The shortest steps of which there are not too many; `None` without a sample.
    fn of(history: &'a [v1::CellSample]) -> Option<Self> {
        // A sample ends the time in which its evictions happened.
        let number = |sample: &v1::CellSample, length| sample.time.saturating_sub(1) / length;
        let (oldest, newest) = (history.first()?, history.last()?);
        let lengths = STEPS.map(|minutes| minutes * MINUTE_MICROS);
        let ends = |length: &u64| (number(oldest, *length), number(newest, *length));
        let is_few = |length: &&u64| {
            let (first, last) = ends(length);
            last.saturating_sub(first) < ROWS_MAX
        };
        let length = *lengths.iter().find(is_few).or(lengths.last())?;
        let (first, last) = ends(&length);
        let first = first.max(last.saturating_sub(ROWS_MAX - 1));
        let mut samples: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for sample in history {
            samples.entry(number(sample, length)).or_default().push(sample);
        }
        samples.retain(|step, _| (first..=last).contains(step));
        Some(Self { length, first, last, samples })
    }

    /// The average CPU usage of a band in each step, in thousandths of a core; absent where nothing
    /// was measured.
    fn cpu(&self, band: i32) -> Vec<Option<i64>> {
        let of = |sample: &v1::CellSample| {
            sample.bands.iter().find(|known| known.band == band).and_then(|band| band.used)
        };
        let step = |step| {
            let samples = self.samples.get(&step)?;
            average(samples.iter().filter_map(|sample| of(sample))).cpu_milli
        };
        (self.first..=self.last).map(step).collect()
    }
}

/// One resource of an amount.
type Field = fn(&v1::CpuMemory) -> Option<i64>;

/// The same for each resource.
fn each(of: impl Fn(Field) -> Option<i64>) -> v1::CpuMemory {
    v1::CpuMemory {
        cpu_milli: of(|amount| amount.cpu_milli),
        memory_bytes: of(|amount| amount.memory_bytes),
    }
}

/// The averages of what is there.
fn average(amounts: impl Iterator<Item = v1::CpuMemory>) -> v1::CpuMemory {
    let amounts: Vec<_> = amounts.collect();
    each(|field| {
        let there: Vec<i64> = amounts.iter().filter_map(field).collect();
        let sum: i128 = there.iter().copied().map(i128::from).sum();
        i64::try_from(sum.checked_div(there.len() as i128)?).ok()
    })
}

/// The sums, 0 of nothing.
fn total(amounts: impl Iterator<Item = Option<v1::CpuMemory>>) -> v1::CpuMemory {
    let amounts: Vec<_> = amounts.flatten().collect();
    each(|field| amount::sum(amounts.iter().map(field).chain([Some(0)])))
}

/// What may be used, what is reserved of that, and what is used.
#[derive(Clone, Copy, Default)]
struct Amounts {
    limit: v1::CpuMemory,
    reservation: v1::CpuMemory,
    used: v1::CpuMemory,
    /// What a share is of, if one is shown.
    capacity: Option<v1::CpuMemory>,
}

impl Amounts {
    /// Those of a band now.
    fn of_total(total: &v1::UsageTotal) -> Self {
        let amount = |resources: Option<v1::Resources>| v1::CpuMemory {
            cpu_milli: resources.map(|resources| resources.cpu_milli),
            memory_bytes: resources.map(|resources| resources.ram_bytes),
        };
        let used = total.used.unwrap_or_default();
        Self {
            limit: amount(total.limit),
            reservation: amount(total.reservation),
            used: v1::CpuMemory { cpu_milli: used.cpu_milli, memory_bytes: used.memory_bytes },
            capacity: None,
        }
    }

    /// The averages over all bands of some samples. What is used is what the machines use, with what
    /// is no task.
    fn of_samples(samples: &[&v1::CellSample]) -> Self {
        let all = |field: fn(&v1::cell_sample::Band) -> Option<v1::CpuMemory>| {
            average(samples.iter().map(move |sample| total(sample.bands.iter().map(field))))
        };
        Self {
            limit: all(|band| band.limit),
            reservation: all(|band| band.reservation),
            used: average(samples.iter().filter_map(|sample| sample.used)),
            capacity: Some(average(samples.iter().filter_map(|sample| sample.capacity))),
        }
    }

    /// The cells of a row, in the order of [`headings`].
    fn cells(&self) -> Vec<String> {
        let mut cells = Vec::new();
        let cpu: Field = |amount| amount.cpu_milli;
        let memory: Field = |amount| amount.memory_bytes;
        let resources = [(cpu, amount::cpu as fn(Option<i64>) -> String), (memory, amount::bytes)];
        for (of, show) in resources {
            let (limit, reservation) = (of(&self.limit), of(&self.reservation));
            let reclaimed = limit.zip(reservation).map(|(limit, kept)| limit.saturating_sub(kept));
            let used = of(&self.used);
            cells.push(show(used));
            if let Some(capacity) = &self.capacity {
                cells.push(amount::percent(amount::share(used, of(capacity))));
            }
            cells.extend([show(limit), show(reservation), show(reclaimed)]);
        }
        cells
    }
}

fn headings(first: &[&'static str], with_capacity: bool) -> Vec<&'static str> {
    let mut headings = first.to_vec();
    for resource in ["CPU", "MEMORY"] {
        headings.push(resource);
        headings.extend(with_capacity.then_some("OF CAPACITY"));
        headings.extend(["LIMIT", "RESERVED", "RECLAIMED"]);
    }
    headings
}

/// The bands now, with the usage of CPU as curves, and the cell over time.
pub(super) fn shown(answer: &v1::UsageResponse) -> String {
    let steps = Steps::of(&answer.history);
    let mut text = bands(answer, steps.as_ref());
    if let Some(steps) = steps {
        text.push('\n');
        text += &over_time(&steps);
    }
    text
}

/// One line for each band.
fn bands(answer: &v1::UsageResponse, steps: Option<&Steps<'_>>) -> String {
    let bands = answer.cell.iter().flat_map(|cell| &cell.bands);
    let curves: Vec<_> =
        bands.clone().map(|band| steps.map(|steps| steps.cpu(band.band))).collect();
    let most = curves.iter().flatten().flatten().flatten().copied().max();
    let mut headings = headings(&["BAND", "RUNNING"], false);
    // The scale is the same for all bands.
    let heading = most.zip(steps).map(|(most, steps)| {
        format!("CPU EVERY {} (█ = {})", Span(steps.length), amount::cpu(Some(most)))
    });
    headings.extend(heading.as_deref());
    let row = |(band, values): (&v1::cell_usage::Band, &Option<Vec<Option<i64>>>)| {
        let total = band.total.unwrap_or_default();
        let mut row = vec![word::<v1::Band>(band.band).into_owned(), total.running.to_string()];
        row.extend(Amounts::of_total(&total).cells());
        row.extend(most.zip(values.as_ref()).map(|(most, values)| curve(values, most)));
        row
    };
    output::table(&headings, bands.zip(&curves).map(row).collect())
}

/// One line for each step that has a sample.
fn over_time(steps: &Steps<'_>) -> String {
    let mut headings = headings(&["SINCE", "MACHINES", "PENDING"], true);
    headings.push("EVICTIONS");
    let row = |(step, samples): (&u64, &Vec<&v1::CellSample>)| {
        let at = moment::shown(Time(step.saturating_mul(steps.length)));
        let machines = samples.iter().map(|sample| sample.machines_up).min().unwrap_or_default();
        let pending = samples.iter().map(|sample| sample.pending).max().unwrap_or_default();
        // To the minute.
        let at = at.chars().take("2026-11-19 03:10".len()).collect();
        let mut row = vec![at, machines.to_string(), pending.to_string()];
        row.extend(Amounts::of_samples(samples).cells());
        row.push(evictions(samples.iter().filter_map(|sample| sample.evictions)));
        row
    };
    output::table(&headings, steps.samples.iter().map(row).collect())
}

/// The sums by cause: `3 preempted, 1 machine failure`; `0` without any.
fn evictions(all: impl Iterator<Item = v1::EvictionCounts>) -> String {
    let causes = [
        "preempted",
        "machine failure",
        "machine shutdown",
        "out of resources",
        "updated",
        "moved",
        "restarted with its gang",
        "other",
    ];
    let mut sums = [0_u64; 8];
    for of in all {
        let counts = [
            of.preempted,
            of.machine_failure,
            of.machine_shutdown,
            of.out_of_resources,
            of.updated,
            of.moved,
            of.gang_restarts,
            of.other,
        ];
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += u64::from(count));
    }
    let there = sums.iter().zip(causes).filter(|(count, _)| **count > 0);
    let there: Vec<String> = there.map(|(count, cause)| format!("{count} {cause}")).collect();
    if there.is_empty() { "0".to_owned() } else { there.join(", ") }
}

/// What the replicas of the master have done, as far as the newest sample says it.
fn work(history: &[v1::CellSample]) -> Option<String> {
    let (newest, before) = (history.last()?, history.iter().nth_back(1)?);
    let (work, span) = (newest.work?, newest.time.saturating_sub(before.time));
    let mut text = match work.polls {
        0 => "polls of machines: none".to_owned(),
        polls => format!(
            "polls of machines: {polls}, {} failed, one of each machine every {}",
            work.polls_failed,
            Span(span.saturating_mul(newest.machines_up.into()) / polls)
        ),
    };
    text += &format!(
        "; passes of schedulers with a proposal: {}, {} assignments accepted, {} rejected; in {}",
        work.proposals,
        work.accepted,
        work.rejected,
        Span(span)
    );
    Some(text)
}

/// What the tables do not say: what the master has done, where the history begins, and what is missing.
pub(super) fn notes(answer: &v1::UsageResponse, since: Time) -> Vec<String> {
    let mut notes = Vec::new();
    match answer.history.first() {
        None => notes.push(format!(
            "the replica that answered has recorded nothing since {}: it keeps samples in memory, by \
             default one a minute",
            moment::shown(since)
        )),
        Some(first) if first.time > since.0.saturating_add(WINDOW_MICROS) => {
            let first = Time(first.time);
            let (at, ago) = (moment::shown(first), Time(answer.time).since(first));
            notes.push(format!(
                "the replica that answered has samples from {at} on ({ago} ago): it keeps them in memory"
            ));
        }
        Some(_) => {}
    }
    notes.extend(work(&answer.history));
    let partial = answer.history.iter().filter(|sample| !sample.missing.is_empty()).count();
    if partial > 0 {
        notes.push(format!(
            "{partial} of {} samples lack the usage of some machines: not all replicas of the master \
             answered",
            answer.history.len()
        ));
    }
    notes.extend(missing(answer));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: i64 = 1 << 30;

    fn both(cpu: i64, gib: i64) -> Option<v1::CpuMemory> {
        Some(v1::CpuMemory { cpu_milli: Some(cpu), memory_bytes: Some(gib * GIB) })
    }

    fn of_band(band: v1::Band, cpu: i64) -> v1::cell_sample::Band {
        v1::cell_sample::Band {
            band: band.into(),
            running: 2,
            measured: 2,
            limit: both(4_000, 8),
            reservation: both(1_500, 6),
            used: both(cpu, 2),
        }
    }

    /// The sample at the end of a minute.
    fn sample(minute: u64, cpu: i64) -> v1::CellSample {
        v1::CellSample {
            time: minute * MINUTE_MICROS,
            machines_up: 2,
            capacity: both(16_000, 64),
            used: both(2 * cpu, 16),
            pending: u32::try_from(minute % 3).expect("few"),
            bands: vec![of_band(v1::Band::Production, cpu), of_band(v1::Band::Free, cpu / 2)],
            evictions: Some(v1::EvictionCounts::default()),
            missing: Vec::new(),
            work: None,
        }
    }

    fn answer(history: Vec<v1::CellSample>) -> v1::UsageResponse {
        let resources = |cpu_milli, gib: i64| {
            Some(v1::Resources { cpu_milli, ram_bytes: gib * GIB, ..v1::Resources::default() })
        };
        let band = |band: v1::Band, used| v1::cell_usage::Band {
            band: band.into(),
            total: Some(v1::UsageTotal {
                running: 2,
                measured: 2,
                limit: resources(4_000, 8),
                reservation: resources(1_500, 6),
                used,
            }),
        };
        let used = v1::Measured {
            cpu_milli: Some(500),
            memory_bytes: Some(2 * GIB),
            ..v1::Measured::default()
        };
        let bands = vec![band(v1::Band::Production, Some(used)), band(v1::Band::Free, None)];
        let cell = v1::CellUsage { bands, ..v1::CellUsage::default() };
        let time = history.last().map_or(0, |sample| sample.time) + 7;
        v1::UsageResponse { time, cell: Some(cell), history, ..v1::UsageResponse::default() }
    }

    #[track_caller]
    fn check(answer: &v1::UsageResponse, expected: &str) {
        let text = shown(answer);
        assert_eq!(text.trim_end(), expected.trim_matches('\n'), "\n{text}");
    }

    #[test]
    fn each_band_and_each_step_have_a_line() {
        let mut history = vec![sample(1, 1_000), sample(2, 500), sample(4, 0)];
        history[1].evictions =
            Some(v1::EvictionCounts { preempted: 3, machine_failure: 1, ..Default::default() });
        // Nothing runs any more, and nothing was measured.
        (history[2].used, history[2].bands) = (None, Vec::new());
        check(
            &answer(history),
            "
BAND        RUNNING  CPU  LIMIT  RESERVED  RECLAIMED  MEMORY  LIMIT  RESERVED  RECLAIMED  CPU EVERY 1 m (█ = 1)
production  2        0.5  4      1.5       2.5        2 GiB   8 GiB  6 GiB     2 GiB      █▅
free        2        -    4      1.5       2.5        -       8 GiB  6 GiB     2 GiB      ▅▃

SINCE             MACHINES  PENDING  CPU  OF CAPACITY  LIMIT  RESERVED  RECLAIMED  MEMORY  OF CAPACITY  LIMIT   RESERVED  RECLAIMED  EVICTIONS
1970-01-01 00:00  2         1        2    12 %         8      3         5          16 GiB  25 %         16 GiB  12 GiB    4 GiB      0
1970-01-01 00:01  2         2        1    6.2 %        8      3         5          16 GiB  25 %         16 GiB  12 GiB    4 GiB      3 preempted, 1 machine failure
1970-01-01 00:03  2         1        -    -            0      0         0          -       -            0 B     0 B       0 B        0
",
        );
    }

    #[test]
    fn a_history_without_samples_shows_only_the_bands() {
        check(
            &answer(Vec::new()),
            "
BAND        RUNNING  CPU  LIMIT  RESERVED  RECLAIMED  MEMORY  LIMIT  RESERVED  RECLAIMED
production  2        0.5  4      1.5       2.5        2 GiB   8 GiB  6 GiB     2 GiB
free        2        -    4      1.5       2.5        -       8 GiB  6 GiB     2 GiB
",
        );
    }

    #[test]
    fn the_newest_sample_says_what_the_master_has_done() {
        let done = |polls, polls_failed| v1::MasterWork {
            polls,
            polls_failed,
            proposals: 3,
            accepted: 120,
            rejected: 2,
        };
        let said = |first, last| {
            work(&[
                v1::CellSample { work: first, ..sample(7, 0) },
                v1::CellSample { work: last, machines_up: 100, ..sample(8, 0) },
            ])
        };
        for (first, last, expected) in [
            (None, None, None),
            (Some(done(1, 0)), None, None),
            (None, Some(done(1_200, 4)), Some("1200, 4 failed, one of each machine every 5 s; ")),
            (None, Some(done(0, 0)), Some("none; ")),
        ] {
            let expected = expected.map(|polls| {
                format!(
                    "polls of machines: {polls}passes of schedulers with a proposal: 3, 120 \
                     assignments accepted, 2 rejected; in 1 m"
                )
            });
            assert_eq!(said(first, last), expected);
        }
        assert_eq!(work(&[v1::CellSample { work: Some(done(1, 0)), ..sample(8, 0) }]), None);
    }

    #[test]
    fn steps_are_as_short_as_their_number_allows() {
        let of = |minutes: &[u64]| {
            let history: Vec<_> = minutes.iter().map(|minute| sample(*minute, 1)).collect();
            let steps = Steps::of(&history)?;
            let rows: Vec<_> = steps.samples.values().map(Vec::len).collect();
            Some((steps.length / MINUTE_MICROS, steps.first, steps.last, rows))
        };
        assert_eq!(of(&[]), None);
        for (minutes, expected) in [
            (&[7][..], (1, 6, 6, vec![1])),
            (&[1, 25], (1, 0, 24, vec![1, 1])),
            // A sample belongs to the time that it ends.
            (&[1, 5, 6, 26], (5, 0, 5, vec![2, 1, 1])),
            (&[1, 360], (15, 0, 23, vec![1, 1])),
            (&[31, 1_470], (60, 0, 24, vec![1, 1])),
            // More than fit: the newest.
            (&[1, 2, 30 * 1_440], (1_440, 5, 29, vec![1])),
        ] {
            assert_eq!(of(minutes), Some(expected), "{minutes:?}");
        }
    }

    #[test]
    fn averages_are_of_what_was_measured() {
        let of = |cpu| v1::CpuMemory { cpu_milli: cpu, memory_bytes: None };
        for (cpu, expected) in [
            (&[][..], None),
            (&[None], None),
            (&[Some(3), None, Some(4)], Some(3)),
            (&[Some(i64::MAX), Some(i64::MAX)], Some(i64::MAX)),
        ] {
            assert_eq!(average(cpu.iter().map(|cpu| of(*cpu))), of(expected), "{cpu:?}");
        }
    }

    #[test]
    fn evictions_are_added_by_cause() {
        let one = v1::EvictionCounts { updated: 1, preempted: 2, ..Default::default() };
        let other = v1::EvictionCounts { preempted: u32::MAX, other: 1, ..Default::default() };
        assert_eq!(evictions([one, other].into_iter()), "4294967297 preempted, 1 updated, 1 other");
        assert_eq!(evictions([].into_iter()), "0");
    }

    #[test]
    fn notes_say_where_the_history_begins_and_what_is_missing() {
        let since = Time(60 * MINUTE_MICROS);
        let of = |history| notes(&answer(history), since).join("; ");
        assert!(of(Vec::new()).contains("recorded nothing since 1970-01-01 01:00:00.000: "));
        assert_eq!(of(vec![sample(61, 1)]), "");
        let late = of(vec![sample(90, 1), sample(120, 1)]);
        let expected = "has samples from 1970-01-01 01:30:00.000 on (30 m ago): ";
        assert!(late.contains(expected), "{late}");
        let mut partial = vec![sample(61, 1), sample(62, 1)];
        partial[1].missing = vec![3];
        assert!(of(partial).starts_with("1 of 2 samples lack "));
        let lacks = v1::UsageResponse { missing: vec![2], ..answer(vec![sample(61, 1)]) };
        assert!(notes(&lacks, since).join("").starts_with("no answer from replica 2 "));
    }
}
