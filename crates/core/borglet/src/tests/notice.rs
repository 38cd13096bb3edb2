//! What a task is told before it is killed, and whether it had its time.

use model::{NoticeDelivery, NoticeReason};
use poll::{Notice, Stop};

use super::*;

const OWN: u64 = 10_000;

impl World {
    /// A world with one task that runs and has ten seconds of notice.
    fn with_a_task() -> Self {
        let mut world = Self::new();
        world.obey(5, vec![sized(0, 64)]);
        world.input(Input::Started(instance(0)));
        world
    }

    /// The notice with which an order stops it.
    fn stop(&mut self, reason: NoticeReason, notice_max: Option<Span>) -> Notice {
        let cause = "because".to_owned();
        let stop = Stop { instance: instance(0), reason, cause, notice_max };
        let mut effects = Vec::new();
        let order = Order { stops: vec![stop], ..order(6, Vec::new()) };
        self.borglet.obey(self.now, order, &mut effects).expect("a newer order");
        let told = effects.into_iter().find_map(|effect| match effect {
            Effect::Terminate(_, notice) => Some(notice),
            _ => None,
        });
        told.expect("it is told")
    }

    fn ends(&mut self) -> Option<NoticeDelivery> {
        let end = End::Signalled { signal: 15 };
        self.input(Input::Ended(instance(0), end, FinalUsage::UNMEASURED));
        match &self.borglet.report().tasks[0].status {
            TaskStatus::Ended(_, usage) => usage.notice,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_notice_is_the_tasks_own_bounded_by_whoever_preempts_it() {
    let table = [
        (NoticeReason::Killed, None, OWN),
        (NoticeReason::Preempted, None, OWN),
        (NoticeReason::Preempted, Some(2_000), 2_000),
        (NoticeReason::Preempted, Some(60_000), OWN),
        (NoticeReason::Preempted, Some(0), 0),
        (NoticeReason::MachineShutdown, None, OWN),
    ];
    for (reason, most, length) in table {
        let mut world = World::with_a_task();
        let notice = world.stop(reason, most.map(Span::from_millis));
        let (cause, length) = ("because".to_owned(), Span::from_millis(length));
        assert_eq!(notice, Notice { reason, cause, length });
        if length > Span::ZERO {
            assert_eq!(world.after(length.as_millis() - 1), "", "{reason} {most:?}");
        }
        assert_eq!(world.after(1), "kill 1-0-1", "{reason} {most:?}");
    }
}

/// The operator's maximum, a kill without notice, and the end of a forced drain concern tasks that are being
/// stopped already, too.
#[test]
fn a_notice_becomes_shorter_while_it_lasts_and_never_longer() {
    // The first maximum, what has passed, the second maximum, and how long until it is killed.
    for (first, passed, second, left) in [
        (None, 1_000, Some(4_000), 3_000),
        (None, 5_000, Some(4_000), 0),
        (None, 1_000, Some(0), 0),
        (None, 1_000, Some(60_000), OWN - 1_000),
        (None, 1_000, None, OWN - 1_000),
        (Some(4_000), 1_000, Some(2_000), 1_000),
        (Some(4_000), 1_000, Some(8_000), 3_000),
        (Some(4_000), 1_000, None, 3_000),
    ] {
        let case = format!("{first:?} {passed} {second:?}");
        let mut world = World::with_a_task();
        world.stop(NoticeReason::Killed, first.map(Span::from_millis));
        assert_eq!(world.after(passed), "", "{case}");
        let stop = Stop {
            instance: instance(0),
            reason: NoticeReason::Killed,
            cause: "because".to_owned(),
            notice_max: second.map(Span::from_millis),
        };
        let mut effects = Vec::new();
        let order = Order { stops: vec![stop], ..order(7, Vec::new()) };
        world.borglet.obey(world.now, order, &mut effects).expect("a newer order");
        let told = effects.iter().any(|effect| matches!(effect, Effect::Terminate(..)));
        assert!(!told, "{case}: once");
        if left > 0 {
            assert_eq!(world.after(left - 1), "", "{case}");
            assert_eq!(world.after(1), "kill 1-0-1", "{case}");
        } else {
            let killed = effects.iter().any(|effect| matches!(effect, Effect::Kill(_)));
            assert!(killed || world.after(0) == "kill 1-0-1", "{case}");
        }
    }
}

#[test]
fn a_notice_is_delivered_after_its_full_time_or_a_voluntary_end() {
    type Happens = fn(&mut World);
    let table: [(&str, Happens, Option<NoticeDelivery>); 5] = [
        ("it ends by itself", |world| drop(world.after(1)), Some(NoticeDelivery::Full)),
        (
            "it is killed at its deadline",
            |world| drop(world.after(OWN)),
            Some(NoticeDelivery::Full),
        ),
        (
            "it could not be told",
            |world| drop(world.input(Input::NoticeFailed(instance(0)))),
            Some(NoticeDelivery::NotGiven),
        ),
        (
            "nor could one that is killed later",
            |world| {
                world.input(Input::NoticeFailed(instance(0)));
                world.after(OWN);
            },
            Some(NoticeDelivery::NotGiven),
        ),
        (
            "it is killed earlier, because it holds what belongs to others",
            |world| {
                let bytes = Bytes(1 << 30);
                let amount = crate::DiskAmount { bytes, files: 1 };
                let used = crate::DiskUse { amount, more: false };
                let full = crate::DiskReport {
                    size: crate::DiskAmount { bytes: Bytes(1 << 40), files: 0 },
                    reserve: crate::DiskAmount { bytes: Bytes(1 << 28), files: 0 },
                    used: [(instance(0), used)].into(),
                    ..crate::DiskReport::default()
                };
                world.input(Input::Disk(full));
            },
            Some(NoticeDelivery::Partial),
        ),
    ];
    for (what, happens, expected) in table {
        let mut world = World::with_a_task();
        world.stop(NoticeReason::Killed, None);
        happens(&mut world);
        assert_eq!(world.ends(), expected, "{what}");
    }
}

#[test]
fn no_notice_is_due_to_a_task_that_ended_or_never_ran() {
    assert_eq!(World::with_a_task().ends(), None, "it ends by itself");
    let mut world = World::new();
    world.obey(5, vec![sized(0, 64)]);
    world.stop(NoticeReason::Killed, None);
    assert_eq!(world.ends(), None, "its program has never run");
    let mut world = World::new();
    world.obey(5, vec![sized(0, 64)]);
    world.stop(NoticeReason::Killed, None);
    world.input(Input::Started(instance(0)));
    assert_eq!(world.ends(), Some(NoticeDelivery::Partial), "it ran only after its time began");
}

#[test]
fn an_unlisted_task_is_stopped_for_an_unknown_reason() {
    let mut world = World::with_a_task();
    let mut effects = Vec::new();
    world.borglet.obey(world.now, order(6, Vec::new()), &mut effects).expect("a newer order");
    let length = Span::from_millis(OWN);
    let notice = Notice { reason: NoticeReason::Other, cause: String::new(), length };
    assert_eq!(effects.last(), Some(&Effect::Terminate(instance(0), notice)));
}

/// The order was made before the cell could know of the end, and must not lose it.
#[test]
fn the_end_of_a_task_is_kept_while_orders_stop_it() {
    let mut world = World::with_a_task();
    world.stop(NoticeReason::Killed, None);
    let full = world.ends();
    assert_eq!(full, Some(NoticeDelivery::Full));
    let stops = |stamp, stops| Order { stops, ..order(stamp, Vec::new()) };
    let cause = "because".to_owned();
    let (reason, notice_max) = (NoticeReason::Killed, None);
    let stop = Stop { instance: instance(0), reason, cause, notice_max };
    for (stamp, stop, left) in [(7, vec![stop], 1), (8, vec![], 0)] {
        world.borglet.obey(world.now, stops(stamp, stop), &mut Vec::new()).expect("a newer order");
        assert_eq!(world.borglet.report().tasks.len(), left, "order {stamp}");
    }
}
