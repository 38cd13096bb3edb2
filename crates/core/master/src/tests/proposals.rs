//! Proposals of a link shard: repeated if lost, and none from what it cannot judge yet.

use super::*;
use cell::DrainMachine;

impl World {
    /// The proposals so far as text; all of them are lost.
    fn lost(&mut self) -> String {
        let word = |action| match action {
            Action::Propose(op) => Some(in_words(&op)),
            Action::Poll(_) | Action::BeginAnew(_) => None,
        };
        self.actions.drain(..).filter_map(word).collect::<Vec<_>>().join(", ")
    }

    /// The proposals this many milliseconds after a moment, all lost.
    fn lost_at(&mut self, since: Time, ms: u64) -> String {
        self.now = since + Span::from_millis(ms);
        self.shard.tick(self.now, &self.cell, &mut self.actions);
        self.lost()
    }

    /// A term begins, with an operation of its own.
    pub(super) fn term(&mut self, term: u64) {
        self.apply(&Op::Nothing);
        let since = Stamp {
            restore_epoch: RestoreEpoch::NEVER,
            term: Term(term),
            index: self.cell.index(),
        };
        self.shard.term_began(self.now, &self.cell, since);
    }

    /// A machine that runs its only task, both known to the cell.
    fn running() -> Self {
        let mut world = Self::new();
        world.apply(&Op::Nothing);
        world.tick();
        world.answer(true, 3, &[]);
        world.submit(1);
        world.assign(0);
        world.tick();
        world.answer(true, 7, &RUNNING);
        assert_eq!(world.cell.index(), LogIndex(8), "the end of it is that it was observed");
        world
    }
}

const RUNNING: [(u32, TaskStatus); 1] = [(0, TaskStatus::Running { healthy: None })];
const KILLED: [(u32, TaskStatus); 1] =
    [(0, TaskStatus::Ended(End::Signalled { signal: 9 }, model::FinalUsage::UNMEASURED))];

type Begin = fn() -> World;

/// How a shard comes to propose each kind.
const KINDS: [(&str, Begin); 4] = [
    ("describe", || {
        let mut world = World::new();
        world.tick();
        world.reported(true, 3, &[]);
        world
    }),
    ("Ended", || {
        let mut world = World::running();
        world.reported(false, 7, &KILLED);
        world
    }),
    ("MachineUnreachable", || {
        let mut world = World::running();
        (0..5).for_each(|_| world.failed());
        world
    }),
    ("MachineBack", || {
        let mut world = World::running();
        (0..5).for_each(|_| world.failed());
        world.said();
        world.reported(false, 7, &RUNNING);
        world
    }),
];

#[test]
fn a_lost_proposal_is_repeated_after_a_growing_wait() {
    for (kind, begin) in KINDS {
        let mut world = begin();
        let begun = world.now;
        let first = world.lost();
        assert!(first.contains(kind), "{kind}: {first}");
        // Each wait is twice the previous one, up to eight times the first.
        for again in [2_000, 6_000, 14_000, 30_000, 46_000, 62_000] {
            assert_eq!(world.lost_at(begun, again - 1), "", "{kind} before {again} ms");
            assert_eq!(world.shard.next_tick(), Some(begun + Span::from_millis(again)), "{kind}");
            assert_eq!(world.lost_at(begun, again), first, "{kind} after {again} ms");
        }
    }
}

#[test]
fn an_applied_proposal_is_not_repeated() {
    for (kind, begin) in KINDS {
        let mut world = begin();
        world.said();
        let begun = world.now;
        for ms in [1, 2_000, 6_000, 60_000] {
            assert_eq!(world.lost_at(begun, ms), "", "{kind} after {ms} ms");
        }
    }
}

#[test]
fn a_new_term_repeats_unapplied_proposals_at_once() {
    for (kind, begin) in KINDS {
        let mut world = begin();
        let first = world.lost();
        let begun = world.now;
        world.lost_at(begun, 2_000);
        world.term(4);
        assert_eq!(world.lost_at(begun, 2_001), first, "{kind}");
        assert_eq!(world.lost_at(begun, 4_000), "", "{kind}");
        assert_eq!(world.lost_at(begun, 4_001), first, "{kind}: the first wait again");
    }
}

#[test]
fn an_obsolete_proposal_is_not_repeated() {
    let mut world = World::running();
    (0..5).for_each(|_| world.failed());
    let begun = world.now;
    assert!(world.lost().contains("MachineUnreachable"));
    world.reported(false, 7, &RUNNING);
    assert_eq!(world.lost_at(begun, 2_000), "", "it answers");
    (0..5).for_each(|_| world.failed());
    assert!(world.lost().contains("MachineUnreachable"), "at once, the next time");
}

#[test]
fn a_lost_mark_of_a_machine_as_down_is_repeated() {
    let mut world = World::running();
    (0..5).for_each(|_| world.failed());
    world.said();
    // Until there are tokens for its task.
    world.now = world.now + Span::from_millis(100);
    world.lead();
    let begun = world.now;
    assert_eq!(world.lost(), "MachineSilent { machine: MachineId(1) }");
    for (ms, expected) in [(1_999, ""), (2_000, "MachineSilent { machine: MachineId(1) }")] {
        world.now = begun + Span::from_millis(ms);
        world.lead();
        assert_eq!(world.lost(), expected, "after {ms} ms");
    }
}

/// A machine with a running task has obeyed an order that the shard's cell has not reached yet, and
/// reports the effect of that order.
#[test]
fn a_shard_ignores_a_report_that_is_ahead_of_its_cell() {
    let kill = kill("web", TaskSelection::All);
    let drain = || {
        let name = MachineName::new("m1").expect("a name");
        Mutation::DrainMachine(DrainMachine::of(name, ""))
    };
    let more = {
        let mut report = MachineReport::clone(&machine());
        report.attributes.insert("gpu".to_owned(), "H200".to_owned());
        Arc::new(report)
    };
    let stamp = |term, index| Stamp {
        restore_epoch: RestoreEpoch::NEVER,
        term: Term(term),
        index: LogIndex(index),
    };
    type Rows<'a> =
        [(&'a str, Stamp, Mutation, Arc<MachineReport>, &'a [(u32, TaskStatus)], &'a str)];
    let rows: &Rows<'_> = &[
        ("a task that was killed is gone", stamp(3, 9), kill.clone(), machine(), &[], "Stopped"),
        ("a task that was to leave is gone", stamp(3, 9), drain(), machine(), &[], "Stopped"),
        ("it ended before", stamp(3, 9), kill, machine(), &KILLED, "Signalled"),
        ("it says something else of itself", stamp(3, 9), drain(), more, &RUNNING, "describe"),
    ];
    for (what, stamp, mutation, says, tasks, expected) in rows {
        let mut world = World::running();
        world.reported_of(false, *stamp, Arc::clone(says), tasks);
        assert_eq!(world.lost(), "", "{what}");
        assert!(!world.shard.agrees(M1), "{what}");
        world.request(mutation.clone());
        assert_eq!(world.cell.index(), LogIndex(9), "{what}");
        let said = world.lost();
        assert!(said.contains(expected) && !said.contains("Lost"), "{what}: {said}");
    }
}

#[test]
fn a_report_waits_for_its_term_and_never_for_a_later_epoch() {
    let stamp = |counter, term, index| Stamp {
        restore_epoch: RestoreEpoch { counter, random: 0 },
        term: Term(term),
        index: LogIndex(index),
    };
    let mut world = World::running();
    world.reported_of(false, stamp(0, 4, 9), machine(), &KILLED);
    assert_eq!(world.lost(), "");
    let begun = world.now;
    assert_eq!(world.lost_at(begun, 60_000), "");
    world.term(4);
    let said = world.lost_at(begun, 60_001);
    assert!(said.contains("Signalled"), "{said}");

    let mut world = World::running();
    world.reported_of(false, stamp(1, 1, 1), machine(), &KILLED);
    (4..10).for_each(|term| world.term(term));
    assert_eq!(world.lost_at(begun, 120_000), "", "the cell was restored, and this is the old one");

    // Two restorations that knew nothing of each other: nothing of the other is taken for known.
    let mut world = World::running();
    let other = RestoreEpoch { counter: 0, random: 5 };
    world.reported_of(false, Stamp { restore_epoch: other, ..stamp(0, 1, 1) }, machine(), &KILLED);
    (4..10).for_each(|term| world.term(term));
    assert_eq!(world.lost_at(begun, 120_000), "", "another restoration");
    // But that it rejects orders.
    let name = model::attribute::REJECTS_ORDERS.to_owned();
    let rejects = MachineReport {
        attributes: [(name, "0-0000000000000005/1/1".to_owned())].into(),
        ..MachineReport::clone(&machine())
    };
    let stamp = Stamp { restore_epoch: other, ..stamp(0, 1, 1) };
    world.reported_of(false, stamp, Arc::new(rejects), &KILLED);
    let said = world.lost();
    assert!(said.contains("describe") && !said.contains("Signalled"), "{said}");
}

/// A later report replaces one that waits.
#[test]
fn the_last_waiting_report_counts() {
    let mut world = World::running();
    world.reported(false, 10, &[]);
    world.reported(false, 9, &RUNNING);
    world.request(kill("web", TaskSelection::All));
    assert_eq!(world.lost(), "", "it runs on, and will be told to stop");
    world.apply(&Op::Nothing);
    assert_eq!(world.lost(), "");
}

/// A proposal of another shard is not contradicted before the machine does something.
#[test]
fn a_machines_state_follows_from_its_polls_not_from_other_proposals() {
    let mut world = World::running();
    world.apply(&Op::MachineUnreachable { machine: M1 });
    let begun = world.now;
    assert_eq!(world.lost_at(begun, 1_000), "");
    world.reported(false, 7, &RUNNING);
    assert!(world.lost().contains("MachineBack"));
    world.apply(&Op::MachineBack { machine: M1 });
    (0..5).for_each(|_| world.failed());
    assert!(world.lost().contains("MachineUnreachable"));
    world.apply(&Op::MachineUnreachable { machine: M1 });
    world.apply(&Op::MachineBack { machine: M1 });
    assert_eq!(world.lost_at(begun, 2_000), "");
    world.failed();
    assert!(world.lost().contains("MachineUnreachable"));
}

#[test]
fn an_older_answer_that_arrives_after_a_newer_one_changes_nothing() {
    let mut world = World::running();
    world.said();
    // A poll without an order is held, and meanwhile one with an order is sent.
    world.now = world.now + Span::from_secs(3);
    world.tick();
    world.request(kill("web", TaskSelection::All));
    world.tick();
    let stamp =
        |index| Stamp { restore_epoch: RestoreEpoch::NEVER, term: Term(3), index: LogIndex(index) };
    let mut more = MachineReport::clone(&machine());
    more.capacity.ram = Bytes(1 << 40);
    world.version = 3;
    world.reported_of(true, stamp(9), Arc::new(more), &KILLED);
    let said = world.said();
    assert!(said.contains("describe") && said.contains("Signalled"), "{said}");
    world.version = 2;
    world.reported_of(false, stamp(7), machine(), &RUNNING);
    assert_eq!(world.lost(), "");
}

/// A machine whose attributes flap does not fill the log, says so, and is believed again when it is calm.
#[test]
fn a_machine_that_changes_all_the_time_is_described_now_and_then() {
    let held = model::attribute::CHANGES_HELD_BACK;
    let mut world = World::running();
    world.said();
    let describes = |world: &mut World, number: u32| {
        let mut flaps = MachineReport::clone(&machine());
        flaps.attributes.insert("load".to_owned(), number.to_string());
        world.version += 1;
        let stamp = Stamp { restore_epoch: RestoreEpoch::NEVER, term: Term(3), index: LogIndex(7) };
        world.reported_of(false, stamp, Arc::new(flaps), &RUNNING);
        world.said().matches("describe").count()
    };
    let mut all = 0;
    for number in 0..800 {
        world.now = world.now + Span::from_millis(10);
        all += describes(&mut world, number);
    }
    assert!((30..=40).contains(&all), "{all} descriptions in 8 s");
    let attributes =
        |world: &World| world.cell.machine(M1).expect("it is there").attributes().clone();
    // What it says last is not lost, and it is no longer marked when it has been calm.
    assert!(attributes(&world).contains_key(held), "{:?}", attributes(&world));
    (0..60).for_each(|_| drop(world.after(1_000)));
    assert_eq!(attributes(&world)["load"], "799");
    assert!(!attributes(&world).contains_key(held), "{:?}", attributes(&world));
}

/// Each replica would otherwise repeat its own last report, and the log would be full of them.
#[test]
fn a_description_by_another_replica_stands_until_the_machine_reports_again() {
    let mut world = World::running();
    world.said();
    let begun = world.now;
    let mut more = MachineReport::clone(&machine());
    more.capacity.ram = Bytes(1 << 40);
    world.apply(&Op::DescribeMachine { machine: M1, report: Arc::new(more) });
    (0..5).for_each(|_| world.failed());
    let said = world.lost_at(begun, 1);
    assert!(said.contains("MachineUnreachable") && !said.contains("describe"), "{said}");
    world.reported(false, 7, &RUNNING);
    assert!(world.lost().contains("describe"), "it still says the same");
}
