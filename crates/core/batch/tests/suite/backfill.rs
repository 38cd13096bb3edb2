//! A published log of jobs, replayed: what is waited for, beside values of an independent EASY scheduler.

use std::collections::BTreeMap;
use std::path::Path;

use batch::{BatchQueue, PoorestUser, QueuePolicy, Runtime};
use model::{CollectionId, Span};
use trace::swf::{self, SwfJob};

use crate::made::{amounts, at, job};

/// The processors of the machine of the log.
const PROCESSORS: u64 = 256;
/// The independent scheduler's mean and worst wait, in seconds.
const EASY: (u64, u64) = (58_778, 583_688);

fn log() -> Vec<SwfJob> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lublin_256.swf");
    let file = std::fs::read(path).expect("the log");
    swf::read(file.as_slice()).expect("a log").jobs
}

/// The mean and the worst wait when all jobs are of one user and run as long as they say.
fn waited(jobs: &[SwfJob], poorest: PoorestUser) -> (u64, u64) {
    let policy = QueuePolicy { poorest, ..QueuePolicy::default() };
    let mut queue = BatchQueue::new(policy, amounts(PROCESSORS, 0));
    let mut ends: BTreeMap<u64, Vec<&SwfJob>> = BTreeMap::new();
    let by_number: BTreeMap<u64, &SwfJob> = jobs.iter().map(|job| (job.number, job)).collect();
    let mut coming = jobs.iter().peekable();
    let (mut free, mut waits) = (PROCESSORS, Vec::new());
    loop {
        let submission = coming.peek().map(|job| job.submitted);
        let end = ends.first_key_value().map(|(end, _)| *end);
        let Some(now) = submission.into_iter().chain(end).min() else { break };
        for ended in ends.remove(&now).unwrap_or_default() {
            free += u64::from(ended.processors);
            queue.ended(at(now), CollectionId(ended.number), 1);
        }
        while let Some(next) = coming.next_if(|job| job.submitted == now) {
            let mut queued = job(next.number, "one", 1, amounts(next.processors.into(), 0));
            queued.since = at(next.submitted);
            queued.runtime = Runtime::Bounded(Span::from_secs(next.runtime));
            queue.submit(at(now), queued).expect("it fits");
        }
        for enabled in queue.pass(at(now), amounts(free, 0)).enabled {
            let started = by_number[&enabled.job.0];
            free -= u64::from(started.processors);
            waits.push(now - started.submitted);
            ends.entry(now + started.runtime).or_default().push(started);
        }
    }
    assert_eq!(waits.len(), jobs.len(), "every job has started");
    (
        waits.iter().sum::<u64>() / waits.len() as u64,
        waits.iter().copied().max().unwrap_or_default(),
    )
}

#[test]
fn waits_are_those_of_easy_backfill() {
    let jobs = log();
    assert_eq!(jobs.len(), 6_000);
    let (mean, worst) = waited(&jobs, PoorestUser::WaitedFor);
    println!("mean {mean} s, worst {worst} s; EASY: mean {} s, worst {} s", EASY.0, EASY.1);
    assert!(mean * 10 <= EASY.0 * 11, "mean {mean} s");
    assert!(worst <= EASY.1, "worst {worst} s");
}

#[test]
fn without_reservations_somebody_waits_much_longer() {
    let (mean, worst) = waited(&log(), PoorestUser::Skipped);
    println!("mean {mean} s, worst {worst} s");
    assert!(worst > 2 * EASY.1, "worst {worst} s");
}
