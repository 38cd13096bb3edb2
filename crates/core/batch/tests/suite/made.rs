//! Queues and jobs for tests.

use batch::{BatchQueue, PoorestUser, QueuePolicy, QueuedJob, Runtime};
use model::{Bytes, CollectionId, MilliCores, Resources, Span, Time, UserName};

pub(crate) fn amounts(cpu: u64, ram: u64) -> Resources {
    Resources { cpu: MilliCores(cpu), ram: Bytes(ram), ..Resources::default() }
}

pub(crate) fn user(name: &str) -> UserName {
    name.parse().expect("a name")
}

pub(crate) fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

/// A job that waits since its number in seconds.
pub(crate) fn job(number: u64, name: &str, tasks: u32, request: Resources) -> QueuedJob {
    QueuedJob {
        id: CollectionId(number),
        user: user(name),
        priority: 110,
        since: at(number),
        tasks,
        request,
        gang: false,
        at_once: None,
        runtime: Runtime::Unknown,
    }
}

/// A queue that skips what does not fit.
pub(crate) fn skipping(capacity: Resources) -> BatchQueue {
    let policy = QueuePolicy { poorest: PoorestUser::Skipped, ..QueuePolicy::default() };
    BatchQueue::new(policy, capacity)
}

/// A queue of jobs, in their order.
pub(crate) fn queue_of(mut queue: BatchQueue, jobs: Vec<QueuedJob>) -> BatchQueue {
    for job in jobs {
        queue.submit(at(0), job).expect("a job that fits");
    }
    queue
}
