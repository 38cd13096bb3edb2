//! Retention: a table, and properties that hold for any history.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use store::checkpoint::Checkpoint;
use store::log::SegmentInfo;
use store::retention::{Plan, Retention, plan};

const DAY_US: u64 = 24 * 3600 * 1_000_000;

fn checkpoint(index: u64, day: u64, bytes: u64) -> Checkpoint {
    let path = PathBuf::from(format!("{index}.checkpoint"));
    Checkpoint { path, index, term: 1, time_us: day * DAY_US, bytes }
}

/// Segments that start at these indexes, of 100 bytes each; the last ends with `last`.
fn segments(firsts: &[u64], last: u64) -> Vec<SegmentInfo> {
    let ends = firsts.iter().skip(1).map(|next| next - 1).chain([last]);
    let places = firsts.iter().zip(ends).zip(1..);
    let segment = |((first, last), sequence): ((&u64, u64), u64)| SegmentInfo {
        sequence,
        path: PathBuf::from(format!("{sequence}.log")),
        first_index: *first,
        last_index: (last >= *first).then_some(last),
        replaced_from: None,
        end: 90,
        file_bytes: 100,
    };
    places.map(segment).collect()
}

struct Case {
    name: &'static str,
    /// Index and day; each has 10 bytes.
    checkpoints: &'static [(u64, u64)],
    firsts: &'static [u64],
    last: u64,
    /// Bytes, days and records between.
    keep: (u64, u64, u64),
    needed_from: u64,
    today: u64,
    /// The indexes of the deleted checkpoints, the log's new start, and that of the history.
    goes: (&'static [u64], u64, u64),
}

const ALL: u64 = u64::MAX;

const CASES: [Case; 15] = [
    Case {
        name: "nothing is there",
        checkpoints: &[],
        firsts: &[],
        last: 0,
        keep: (0, 0, 0),
        needed_from: ALL,
        today: 9,
        goes: (&[], 1, 0),
    },
    Case {
        name: "without a checkpoint the log is all there is",
        checkpoints: &[],
        firsts: &[1, 100],
        last: 150,
        keep: (0, 0, 0),
        needed_from: ALL,
        today: 9,
        goes: (&[], 1, 0),
    },
    Case {
        name: "one checkpoint may be damaged, and then the whole log is needed",
        checkpoints: &[(120, 1)],
        firsts: &[1, 100],
        last: 150,
        keep: (0, 0, 0),
        needed_from: ALL,
        today: 9,
        goes: (&[], 1, 0),
    },
    Case {
        name: "one checkpoint and no log from the first record on",
        checkpoints: &[(120, 1)],
        firsts: &[100, 130],
        last: 150,
        keep: (0, 0, 0),
        needed_from: ALL,
        today: 9,
        goes: (&[], 121, 120),
    },
    Case {
        name: "nothing but what recovery needs",
        checkpoints: &[(100, 1), (200, 2), (300, 3), (400, 4)],
        firsts: &[1, 100, 200, 300, 400],
        last: 450,
        keep: (0, 0, 1000),
        needed_from: ALL,
        today: 9,
        goes: (&[100, 200], 301, 300),
    },
    Case {
        name: "somebody needs more of the log",
        checkpoints: &[(100, 1), (200, 2), (300, 3), (400, 4)],
        firsts: &[1, 100, 200, 300, 400],
        last: 450,
        keep: (0, 0, 1000),
        needed_from: 150,
        today: 9,
        goes: (&[100, 200], 150, 300),
    },
    Case {
        name: "all fits, and is thinned",
        checkpoints: &[(100, 1), (200, 2), (300, 3), (400, 4), (500, 5), (600, 6)],
        firsts: &[1, 100, 200, 300, 400],
        last: 650,
        keep: (10_000, 100, 250),
        needed_from: ALL,
        today: 9,
        goes: (&[100, 300], 1, 0),
    },
    Case {
        name: "what is near enough to the newest needs none between",
        checkpoints: &[(100, 1), (200, 2), (300, 3), (400, 4)],
        firsts: &[1, 100, 200, 300, 400],
        last: 450,
        keep: (10_000, 100, 300),
        needed_from: ALL,
        today: 9,
        goes: (&[100, 200], 1, 0),
    },
    Case {
        name: "checkpoints further apart than wanted all stay",
        checkpoints: &[(100, 1), (900, 2), (1700, 3), (2500, 4), (2600, 5)],
        firsts: &[1, 1000, 2000],
        last: 2650,
        keep: (10_000, 100, 250),
        needed_from: ALL,
        today: 9,
        goes: (&[], 1, 0),
    },
    Case {
        name: "the checkpoint before the oldest wanted moment stays",
        checkpoints: &[(100, 1), (200, 2), (300, 4), (400, 6), (500, 8), (600, 9)],
        firsts: &[1, 150, 250, 350, 450, 550],
        last: 650,
        keep: (10_000, 4, 100),
        needed_from: ALL,
        today: 9,
        goes: (&[100, 200], 301, 300),
    },
    Case {
        name: "bytes go before age: five segments and four checkpoints fit",
        checkpoints: &[(100, 1), (200, 2), (300, 3), (400, 4), (500, 5)],
        firsts: &[1, 150, 250, 350, 450, 550],
        last: 650,
        keep: (540, 100, 100),
        needed_from: ALL,
        today: 9,
        goes: (&[100], 201, 200),
    },
    Case {
        name: "one byte less, and one more checkpoint goes with its segment",
        checkpoints: &[(100, 1), (200, 2), (300, 3), (400, 4), (500, 5)],
        firsts: &[1, 150, 250, 350, 450, 550],
        last: 650,
        keep: (539, 100, 100),
        needed_from: ALL,
        today: 9,
        goes: (&[100, 200], 301, 300),
    },
    Case {
        name: "a longer past fits, because it begins without a checkpoint",
        checkpoints: &[(100, 1), (200, 8), (300, 8), (400, 8)],
        firsts: &[1],
        last: 450,
        keep: (120, 4, 300),
        needed_from: ALL,
        today: 9,
        goes: (&[100, 200], 1, 0),
    },
    Case {
        name: "a checkpoint that leads nowhere goes",
        checkpoints: &[(100, 1), (200, 2), (300, 3), (400, 4)],
        firsts: &[150, 250, 350],
        last: 450,
        keep: (10_000, 100, 100),
        needed_from: ALL,
        today: 9,
        goes: (&[100], 201, 200),
    },
    Case {
        name: "a log that a checkpoint from elsewhere overtook",
        checkpoints: &[(100, 1), (5000, 3)],
        firsts: &[50],
        last: 150,
        keep: (0, 0, 100),
        needed_from: ALL,
        today: 9,
        goes: (&[], 101, 100),
    },
];

#[test]
fn retention_deletes_the_expected_segments_and_checkpoints() {
    for case in CASES {
        let checkpoints: Vec<_> =
            case.checkpoints.iter().map(|(index, day)| checkpoint(*index, *day, 10)).collect();
        let (bytes, days, records_between) = case.keep;
        let age = Duration::from_micros(days * DAY_US);
        let retention = Retention { bytes, age, records_between };
        let segments = segments(case.firsts, case.last);
        let now = case.today * DAY_US;
        let plan = plan(&retention, &checkpoints, &segments, case.needed_from, now);
        let gone: Vec<_> = plan.checkpoints.iter().map(|c| c.index).collect();
        let (expected, log_from, begins) = case.goes;
        assert_eq!(
            (&gone[..], plan.log_from, plan.begins),
            (expected, log_from, begins),
            "{}",
            case.name
        );
    }
}

/// A history: checkpoints, segments, the newest record.
#[derive(Debug, Clone)]
struct Past {
    checkpoints: Vec<Checkpoint>,
    segments: Vec<SegmentInfo>,
}

fn past() -> impl Strategy<Value = Past> {
    let steps = || prop::collection::vec((1..400_u64, 0..4_u64, 1..200_u64), 0..30);
    (steps(), steps(), 0..500_u64, 0..300_u64).prop_map(|(checkpoints, rolls, first, more)| {
        let (mut index, mut day) = (0, 0);
        let checkpoints: Vec<_> = checkpoints
            .into_iter()
            .map(|(records, days, bytes)| {
                (index, day) = (index + records, day + days);
                checkpoint(index, day, bytes)
            })
            .collect();
        let mut next = if first < 250 { 1 } else { first };
        let mut firsts = vec![next];
        for (records, _, _) in rolls {
            next += records - 1;
            firsts.push(next);
        }
        // A log extends at least to the newest checkpoint.
        let last = index.max(next.saturating_sub(1)) + more;
        Past { checkpoints, segments: segments(&firsts, last) }
    })
}

/// What remains after a plan was executed.
fn carry_out(past: &Past, plan: &Plan) -> Past {
    let mut left = past.clone();
    left.checkpoints.retain(|c| !plan.checkpoints.contains(c));
    while left.segments.len() > 1 && left.segments[0].last_index.is_none_or(|l| l < plan.log_from) {
        left.segments.remove(0);
    }
    left
}

impl Past {
    fn first_record(&self) -> u64 {
        self.segments[0].first_index
    }

    fn bytes(&self) -> u64 {
        self.bytes_from(0)
    }

    /// The bytes of the whole log and of every checkpoint from this index on.
    fn bytes_from(&self, index: u64) -> u64 {
        let log: u64 = self.segments.iter().map(|s| s.file_bytes).sum();
        let checkpoints = self.checkpoints.iter().filter(|c| c.index >= index);
        log + checkpoints.map(|c| c.bytes).sum::<u64>()
    }

    /// The index of the older of the newest two states.
    fn older(&self) -> u64 {
        match &self.checkpoints[..] {
            [.., older, _] => older.index,
            [only] if self.first_record() > 1 => only.index,
            _ => 0,
        }
    }

    /// The indexes from which all records follow, and their times.
    fn usable(&self) -> Vec<(u64, u64)> {
        let first = self.first_record();
        let usable = self.checkpoints.iter().filter(|c| c.index + 1 >= first);
        let empty = (first == 1).then_some((0, 0));
        empty.into_iter().chain(usable.map(|c| (c.index, c.time_us))).collect()
    }
}

/// Plans, checks the properties, and returns what remains.
fn check(past: &Past, retention: &Retention, needed: u64, now: u64) -> Result<Past, TestCaseError> {
    let decide = |past: &Past| plan(retention, &past.checkpoints, &past.segments, needed, now);
    let planned = decide(past);
    let left = carry_out(past, &planned);
    let &Retention { bytes, age, records_between } = retention;

    // What recovery needs: the newest two, and all records after the older.
    let newest = past.checkpoints.len().saturating_sub(2);
    prop_assert!(left.checkpoints.ends_with(&past.checkpoints[newest..]));
    let older = past.older();
    let from = needed.min(older + 1);
    prop_assert!(left.first_record() <= from.max(past.first_record()));

    // Every state since then can be rebuilt.
    let begins = planned.begins;
    prop_assert!(begins <= older);
    prop_assert!(left.first_record() <= (begins + 1).max(past.first_record()));
    if past.first_record() <= older + 1 {
        prop_assert!(left.usable().iter().any(|(index, _)| *index == begins));
    }

    // Neither too many nor too few checkpoints, as far as there were any.
    let after = left.checkpoints.iter().map(|c| c.index).filter(|index| *index > begins);
    let kept: Vec<u64> = [begins].into_iter().chain(after).collect();
    for pair in kept.windows(2) {
        let between = |c: &Checkpoint| pair[0] < c.index && c.index < pair[1];
        let near = pair[1] - pair[0] <= records_between;
        prop_assert!(near || !past.checkpoints.iter().any(between), "too far apart: {pair:?}");
    }
    for three in kept.windows(3).filter(|three| three[2] <= older) {
        prop_assert!(three[2] - three[0] > records_between, "one of {three:?} is not needed");
    }

    // Not more than wanted, unless it is needed; and not less.
    prop_assert!(left.bytes() <= bytes || begins == older);
    let limit = now.saturating_sub(u64::try_from(age.as_micros()).unwrap());
    let usable = past.usable();
    let newest_old = usable.iter().rfind(|(index, time)| *index <= older && *time <= limit);
    let fits = |index| past.bytes_from(index) <= bytes;
    prop_assert!(
        newest_old.is_none_or(|(index, _)| begins >= *index || !fits(*index)),
        "older than wanted, and what is wanted fits"
    );
    if past.bytes() <= bytes && past.first_record() <= older + 1 {
        let wanted = newest_old.or(usable.first()).map(|(index, _)| *index);
        prop_assert_eq!(Some(begins), wanted);
    }

    // A second plan deletes nothing more.
    let again = decide(&left);
    prop_assert_eq!(&again.checkpoints, &[]);
    prop_assert_eq!(carry_out(&left, &again).segments.len(), left.segments.len());
    Ok(left)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn the_rules_hold(
        past in past(),
        bytes in 0..6000_u64,
        days in 0..60_u64,
        records_between in 1..2000_u64,
        needed in prop_oneof![Just(u64::MAX), 1..5000_u64],
        today in 0..120_u64,
    ) {
        let age = Duration::from_micros(days * DAY_US);
        let retention = Retention { bytes, age, records_between };
        let now = today * DAY_US;
        let left = check(&past, &retention, needed, now)?;

        // Whatever the order of execution, and wherever a crash happens in between, the result is a
        // history for which the same holds.
        for done in 0..past.segments.len() - left.segments.len() {
            let segments = past.segments[done..].to_vec();
            let half = Past { checkpoints: past.checkpoints.clone(), segments };
            prop_assert_eq!(half.older(), past.older());
            check(&half, &retention, needed, now)?;
        }
        let gone: Vec<_> =
            past.checkpoints.iter().filter(|c| !left.checkpoints.contains(c)).collect();
        for done in 0..gone.len() {
            let mut half = past.clone();
            half.checkpoints.retain(|c| !gone[..done].contains(&c));
            check(&half, &retention, needed, now)?;
        }
    }
}
