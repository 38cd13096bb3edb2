//! Dominant resource fairness, with values of an independent program.

use batch::{BatchQueue, DominantShare, ShareWeights};
use model::{Dimension, Resources, Span};

use crate::made::{amounts, at, job, queue_of, skipping, user};

const DOUBLE: u32 = 2_000;

/// How many tasks A and B have when both want many.
fn shared(
    capacity: (u64, u64),
    a: (u64, u64),
    b: (u64, u64),
    weights: &[(&str, Dimension)],
) -> (u64, u64) {
    let capacity = amounts(capacity.0, capacity.1);
    // Ties go to B, who waits longer.
    let jobs = vec![job(1, "b", 1_000, amounts(b.0, b.1)), job(2, "a", 1_000, amounts(a.0, a.1))];
    let mut queue = queue_of(skipping(capacity), jobs);
    for name in ["a", "b"] {
        let own = weights.iter().filter(|(other, _)| *other == name);
        let weights = own.fold(ShareWeights::default(), |weights, (_, dimension)| {
            weights.with(*dimension, DOUBLE).expect("a weight")
        });
        queue.set_weights(at(10), &user(name), weights);
    }
    queue.pass(at(10), capacity);
    let tasks = |name: &str, each: u64| queue.used(&user(name)).cpu.0 / each;
    (tasks("a", a.0), tasks("b", b.0))
}

#[test]
fn the_worked_example_has_its_order() {
    let capacity = amounts(9, 18);
    let jobs = vec![job(1, "b", 10, amounts(3, 1)), job(2, "a", 10, amounts(1, 4))];
    let mut queue = queue_of(skipping(capacity), jobs);
    let enabled = queue.pass(at(10), capacity).enabled;
    let order: String = enabled
        .iter()
        .flat_map(|enabled| {
            vec![if enabled.job.0 == 1 { 'B' } else { 'A' }; enabled.tasks as usize]
        })
        .collect();
    assert_eq!(order, "BAABA");
    let share = |name: &str| queue.share(at(10), &user(name));
    assert_eq!((share("a"), share("b")), (DominantShare(666_666_666), DominantShare(666_666_666)));
    assert_eq!(queue.used(&user("a")).plus(queue.used(&user("b"))), amounts(9, 14));
}

#[test]
fn weights_and_sizes_have_the_values_of_an_independent_program() {
    let (a, b) = ((1, 4), (3, 1));
    let (cpu, ram) = (Dimension::Cpu, Dimension::Ram);
    assert_eq!(shared((90, 180), a, b, &[]), (30, 20));
    assert_eq!(shared((90, 180), a, b, &[("a", cpu), ("a", ram)]), (41, 16));
    assert_eq!(shared((90, 180), a, b, &[("b", cpu)]), (18, 24));
    // More of a resource may take from a user: this is known of dominant shares.
    assert_eq!(shared((4, 4), (1, 3), (1, 2), &[]), (0, 2));
    assert_eq!(shared((4, 5), (1, 3), (1, 2), &[]), (1, 1));
    // One resource: equal shares.
    assert_eq!(shared((12, 0), (1, 0), (2, 0), &[]), (6, 3));
}

#[test]
fn a_user_who_wants_little_leaves_the_rest_to_others() {
    let capacity = amounts(90, 180);
    let jobs = vec![job(1, "b", 1_000, amounts(3, 1)), job(2, "a", 5, amounts(1, 4))];
    let mut queue = queue_of(skipping(capacity), jobs);
    queue.pass(at(10), capacity);
    assert_eq!(queue.used(&user("a")).cpu.0, 5);
    assert_eq!(queue.used(&user("b")).cpu.0 / 3, 28);
}

#[test]
fn what_ends_lowers_the_share_and_what_was_used_counts_by_its_half_life() {
    let capacity = amounts(10, 0);
    let hour = Span::from_secs(3_600);
    let run = |half_life: Option<Span>| {
        let mut queue = skipping(capacity);
        let policy = batch::QueuePolicy {
            half_life,
            poorest: batch::PoorestUser::Skipped,
            ..batch::QueuePolicy::default()
        };
        if half_life.is_some() {
            queue = BatchQueue::new(policy, capacity);
        }
        queue.submit(at(0), job(1, "a", 10, amounts(1, 0))).expect("fits");
        queue.pass(at(0), capacity);
        // After two hours all tasks of A end, and both want everything.
        let now = at(7_200);
        queue.ended(now, model::CollectionId(1), 10);
        queue.submit(now, job(2, "a", 10, amounts(1, 0))).expect("fits");
        queue.submit(now, job(3, "b", 10, amounts(1, 0))).expect("fits");
        queue.pass(now, capacity);
        let used = |name: &str| -> Resources { queue.used(&user(name)) };
        (used("a").cpu.0, used("b").cpu.0)
    };
    assert_eq!(run(None), (5, 5));
    // The average of A's past is three quarters of everything: B comes first until it has as much.
    assert_eq!(run(Some(hour)), (2, 8));
}
