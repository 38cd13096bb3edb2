//! A round over the tasks of a large cell allocates nothing once its buffers have grown.
#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};

use model::{
    Bytes, CollectionId, Generation, InstanceId, MilliCores, Reclamation, Resources, Span,
    TaskIndex, Time,
};
use reclaim::{Estimator, Pace, Sample, Task};

/// The system's allocator, with the number of allocations.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TASKS: u32 = 150_000;
const BEGINNING: u64 = 1_000_000;

fn task(index: u32, round: u64) -> Task {
    let limit = Resources { cpu: MilliCores(1_000), ram: Bytes(1 << 30), ..Resources::default() };
    // Every other task doubles its usage in every other round, so batches are full.
    let busy = (u64::from(index) + round).is_multiple_of(2);
    let sample = Sample {
        at: Time::ZERO + Span::from_secs(BEGINNING + 5 * round),
        cpu: Some(MilliCores(if busy { 800 } else { 400 })),
        ram: Some(Bytes(if busy { 800 << 20 } else { 400 << 20 })),
    };
    let collection = CollectionId(u64::from(index / 1_000));
    Task {
        instance: InstanceId { collection, index: TaskIndex(index), generation: Generation(1) },
        limit,
        started: Some(Time::ZERO + Span::from_secs(BEGINNING - 1_000)),
        reservation: Resources { cpu: MilliCores(500), ram: Bytes(500 << 20), ..limit },
        newest_sample: None,
        sample: Some(sample),
    }
}

#[test]
fn a_round_over_150_000_tasks_allocates_nothing() {
    let mut estimator =
        Estimator::new(Pace::default(), NonZeroUsize::new(10_000).expect("not zero"));
    let mut round = |number: u64| {
        let now = Time::ZERO + Span::from_secs(BEGINNING + 5 * number);
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        let tasks = (0..TASKS).map(|index| task(index, number));
        let round = estimator.round(Reclamation::Medium, now, tasks);
        let (changes, left) = (round.changes.len(), round.left);
        let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
        (changes, left, allocated)
    };
    // Buffers grow twice as large each time: of the estimates, one in each of two rounds.
    let grown: u64 = (0..4).map(|number| round(number).2).sum();
    assert!(grown < 200, "{grown} allocations while buffers grow");
    for number in 4..10 {
        let (changes, left, allocated) = round(number);
        assert_eq!(changes, 10_000);
        assert!(left > 100_000, "{left} changes are left");
        assert_eq!(allocated, 0, "allocations in round {number}");
    }
}
