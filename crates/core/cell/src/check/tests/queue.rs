//! A cell with a batch queue, corrupted; and the bounds of what it remembers of runtimes.

use model::Span;

use super::*;
use crate::KeptRuntimes;
use crate::bounds::{RUNTIMES_KEPT_MAX, RUNTIMES_OF_A_USER_MAX};

const QUEUED: CollectionId = CollectionId(2);

/// The valid cell with a queue, in which a job of three tasks waits, and runtimes of ana's.
fn with_a_queue() -> Cell {
    let mut cell = valid_cell();
    cell.apply(Time::ZERO, &Op::SwitchQueueOn);
    let name = JobName::new("load").expect("a name");
    let task = TaskSpec::of(vec!["load".to_owned()]);
    let spec = JobSpec::of(name.clone(), Band::BestEffortBatch.usual(), 3, task);
    let id = RequestId { session: SessionId(1), sequence: 3 };
    let mutation = Mutation::Submit(Arc::new(spec));
    cell.apply(Time::ZERO, &Op::Request { id, by: user("ana"), mutation });
    assert!(cell.queue_settings().on && job(&mut cell).state == JobState::Queued);
    cell.queue.runtimes.ended(&user("ana"), &name, Span(7), Time::ZERO);
    assert_eq!(cell.check(), []);
    cell
}

fn job(cell: &mut Cell) -> &mut Job {
    cell.jobs.get_mut(QUEUED).expect("the job")
}

#[test]
fn every_corruption_of_the_queue_is_named() {
    type Corrupt = fn(&mut Cell);
    let cases: &[(Corrupt, &str)] = &[
        (|cell| job(cell).first_queued = TaskIndex(1), "tasks before the first queued one"),
        (
            |cell| {
                job(cell).state = JobState::Dead { at: Time::ZERO, death: crate::Death::Finished }
            },
            "3 tasks queued",
        ),
        (|cell| cell.queue.settings.assumed_runtime = Span::ZERO, "the batch queue has a time of"),
        (
            |cell| drop(cell.queue.weights.insert(user("ana"), <_>::default())),
            "weights of 1 are kept",
        ),
        (|cell| drop(cell.queue.runtimes.of_users.insert(user("ana"), 2)), "names with runtimes"),
        (
            |cell| drop(cell.queue.runtimes.by_number.insert((7, user("ben")))),
            "users with runtimes",
        ),
    ];
    for (corrupt, expected) in cases {
        let mut cell = with_a_queue();
        corrupt(&mut cell);
        let found: Vec<_> = cell.check().iter().map(ToString::to_string).collect();
        assert!(
            found.iter().any(|one| one.contains(expected)),
            "'{expected}' is not in {found:#?}"
        );
    }
}

#[test]
fn runtimes_are_bounded_by_name_and_by_user() {
    let mut cell = with_a_queue();
    let runtimes = &mut cell.queue.runtimes;
    let named = |number: u64| JobName::new(&format!("job-{number}")).expect("a name");
    for (number, took) in (0..RUNTIMES_KEPT_MAX as u64 + 4).enumerate() {
        runtimes.ended(&user("ben"), &named(0), Span(took), Time(number as u64));
    }
    let kept = |cell: &Cell, number| -> Option<Arc<KeptRuntimes>> {
        cell.runtimes(&user("ben"), &named(number)).cloned()
    };
    let of_first = kept(&cell, 0).expect("runtimes");
    assert_eq!(of_first.spans.len(), RUNTIMES_KEPT_MAX);
    assert_eq!((of_first.spans.first(), of_first.spans.last()), (Some(&Span(4)), Some(&Span(19))));
    for number in 1..=RUNTIMES_OF_A_USER_MAX {
        let at = Time(100 + number);
        cell.queue.runtimes.ended(&user("ben"), &named(number), Span(1), at);
    }
    // The oldest is forgotten, and nobody else's.
    assert_eq!(kept(&cell, 0), None);
    assert!(kept(&cell, 1).is_some() && kept(&cell, RUNTIMES_OF_A_USER_MAX).is_some());
    assert!(cell.runtimes(&user("ana"), &JobName::new("load").expect("a name")).is_some());
    cell.time = Time(10_000);
    assert_eq!(cell.check(), []);
}
