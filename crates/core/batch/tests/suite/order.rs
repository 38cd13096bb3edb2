//! Who starts when: places, gangs, bounds, reservations.

use batch::{BatchQueue, Enabled, QueuePolicy, QueuedJob, Runtime, StartBasis};
use model::{CollectionId, Span};

use crate::made::{amounts, at, job, queue_of};

fn waits(capacity: u64, jobs: Vec<QueuedJob>) -> BatchQueue {
    queue_of(BatchQueue::new(QueuePolicy::default(), amounts(capacity, 0)), jobs)
}

fn runs(mut job: QueuedJob, seconds: u64) -> QueuedJob {
    job.runtime = Runtime::Bounded(Span::from_secs(seconds));
    job
}

/// What a pass enables, as (job, tasks).
fn enabled(queue: &mut BatchQueue, now: u64, room: u64) -> Vec<(u64, u32)> {
    let pass = queue.pass(at(now), amounts(room, 0));
    pass.enabled.into_iter().map(|Enabled { job, tasks }| (job.0, tasks)).collect()
}

#[test]
fn of_one_user_the_higher_priority_and_then_the_earlier_job_is_ahead() {
    let mut high = job(3, "a", 1, amounts(1, 0));
    high.priority = 115;
    let jobs = vec![job(2, "a", 1, amounts(1, 0)), job(1, "a", 1, amounts(1, 0)), high];
    let mut queue = waits(3, jobs);
    assert_eq!(enabled(&mut queue, 10, 3), [(3, 1), (1, 1), (2, 1)]);
}

#[test]
fn a_gang_starts_whole_and_holds_nothing_before() {
    let mut gang = job(1, "a", 4, amounts(1, 0));
    gang.gang = true;
    let mut queue = waits(4, vec![runs(gang, 60), runs(job(2, "b", 9, amounts(1, 0)), 30)]);
    // Only three are free: B has them until the gang can start at some time.
    queue.submit(at(5), runs(job(9, "c", 1, amounts(1, 0)), 100)).expect("fits");
    let mut busy = waits(4, vec![runs(job(7, "z", 1, amounts(1, 0)), 50)]);
    assert_eq!(enabled(&mut busy, 10, 4), [(7, 1)]);
    let mut gang = job(8, "a", 4, amounts(1, 0));
    gang.gang = true;
    busy.submit(at(10), runs(gang, 60)).expect("fits");
    busy.submit(at(10), runs(job(9, "b", 9, amounts(1, 0)), 30)).expect("fits");
    let pass = busy.pass(at(10), amounts(3, 0));
    let reserved = pass.reserved.expect("the gang waits");
    assert_eq!((reserved.job, reserved.at), (CollectionId(8), at(60)));
    assert_eq!(pass.enabled, [Enabled { job: CollectionId(9), tasks: 3 }]);
    assert_eq!(busy.used(&crate::made::user("a")), amounts(0, 0));
    // Everything has ended: the gang starts first, although other users have smaller shares now.
    busy.ended(at(40), CollectionId(9), 3);
    busy.ended(at(41), CollectionId(7), 1);
    assert_eq!(enabled(&mut busy, 41, 4), [(8, 4)]);
    assert_eq!(enabled(&mut queue, 10, 4), [(1, 4)]);
}

#[test]
fn nothing_that_is_backfilled_delays_the_reserved_start() {
    let mut queue = waits(4, vec![runs(job(1, "a", 3, amounts(1, 0)), 100)]);
    assert_eq!(enabled(&mut queue, 10, 4), [(1, 3)]);
    queue.submit(at(11), runs(job(2, "b", 1, amounts(3, 0)), 10)).expect("fits");
    // Until 110 there is one core; after it one is left beside job 2.
    queue.submit(at(12), runs(job(3, "c", 1, amounts(1, 0)), 1_000)).expect("fits");
    queue.submit(at(13), runs(job(4, "d", 1, amounts(1, 0)), 1_000)).expect("fits");
    queue.submit(at(14), runs(job(5, "d", 1, amounts(1, 0)), 90)).expect("fits");
    let pass = queue.pass(at(14), amounts(1, 0));
    let reserved = pass.reserved.expect("job 2 waits");
    assert_eq!((reserved.job, reserved.at), (CollectionId(2), at(110)));
    assert_eq!(pass.enabled, [Enabled { job: CollectionId(3), tasks: 1 }]);
    // The one beside it is taken, so that another long one would delay it, and the short one does not.
    queue.ended(at(15), CollectionId(3), 1);
    assert_eq!(enabled(&mut queue, 15, 1), [(4, 1)]);
    // Even a user who has nothing yet comes after it.
    queue.submit(at(16), runs(job(6, "new", 4, amounts(1, 0)), 1_000)).expect("fits");
    queue.ended(at(110), CollectionId(1), 3);
    assert_eq!(enabled(&mut queue, 110, 3), [(2, 1)]);
}

#[test]
fn what_runs_longer_than_expected_moves_the_reserved_start() {
    let mut queue = waits(1, vec![runs(job(1, "a", 1, amounts(1, 0)), 10)]);
    assert_eq!(enabled(&mut queue, 0, 1), [(1, 1)]);
    queue.submit(at(1), runs(job(2, "b", 1, amounts(1, 0)), 10)).expect("fits");
    let reserved = |queue: &mut BatchQueue, now| {
        queue.pass(at(now), amounts(0, 0)).reserved.map(|reserved| reserved.at)
    };
    assert_eq!(reserved(&mut queue, 1), Some(at(10)));
    assert_eq!(reserved(&mut queue, 10), Some(at(11)));
    assert_eq!(reserved(&mut queue, 40), Some(at(70)));
}

#[test]
fn a_bound_of_tasks_at_once_holds_and_what_was_preempted_keeps_its_place() {
    let mut array = job(1, "a", 10, amounts(1, 0));
    array.at_once = Some(2);
    let mut queue = waits(10, vec![array, job(2, "a", 3, amounts(1, 0))]);
    assert_eq!(enabled(&mut queue, 10, 10), [(1, 2), (2, 3)]);
    queue.ended(at(11), CollectionId(1), 1);
    assert_eq!(enabled(&mut queue, 11, 6), [(1, 1)]);
    queue.submit(at(12), job(3, "a", 1, amounts(1, 0))).expect("fits");
    queue.requeued(at(12), CollectionId(2), 2);
    assert_eq!(enabled(&mut queue, 12, 2), [(2, 2)]);
    queue.withdraw(at(13), CollectionId(1));
    queue.ended(at(13), CollectionId(1), 2);
    assert_eq!(queue.waiting(), 1);
}

#[test]
fn jobs_that_could_never_start_are_rejected() {
    let mut queue = waits(4, vec![job(1, "a", 1, amounts(1, 0))]);
    let mut says = |job: QueuedJob| queue.submit(at(0), job).expect_err("no such job").to_string();
    let of = |change: &dyn Fn(&mut QueuedJob)| {
        let mut job = job(2, "a", 5, amounts(1, 0));
        change(&mut job);
        job
    };
    assert_eq!(says(of(&|job| job.tasks = 0)), "it has no tasks that could wait");
    assert_eq!(says(job(1, "a", 1, amounts(1, 0))), "job 1 is in the queue already");
    assert_eq!(
        says(of(&|job| job.gang = true)),
        "its next tasks need 0.005 cores, 0 B, and all machines together have 0.004 cores, 0 B"
    );
    assert_eq!(
        says(of(&|job| (job.gang, job.at_once) = (true, Some(2)))),
        "it is a gang of 5 tasks of which 2 may run at once: no gang could start"
    );
    assert_eq!(
        says(of(&|job| job.at_once = Some(0))),
        "none of its tasks may run: at least one at once is needed"
    );
}

#[test]
fn starts_are_foretold() {
    let jobs = vec![
        runs(job(1, "a", 1, amounts(2, 0)), 100),
        runs(job(2, "a", 1, amounts(2, 0)), 50),
        runs(job(3, "a", 1, amounts(1, 0)), 500),
    ];
    let queue = waits(2, jobs);
    let starts = queue.forecast(at(10), amounts(2, 0), 10);
    let starts: Vec<(u64, model::Time, StartBasis)> =
        starts.into_iter().map(|(id, start)| (id.0, start.at, start.by)).collect();
    let by = StartBasis::Bounds;
    assert_eq!(starts, [(1, at(10), StartBasis::NoEnd), (2, at(110), by), (3, at(160), by)]);
}
