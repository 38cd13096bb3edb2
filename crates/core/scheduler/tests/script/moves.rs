//! Where moved tasks are placed.

use expect_test::expect;

use super::plan;

/// Two machines with tasks of 0.3 and 0.2 cores; one of the latter has been moved away from m1, so that a task of 0.7
/// cores fits there. The third machine is the fullest that fits.
const MOVED: &str = "submit ana/small 2 priority=100 cpu=200 ram=10
    submit ana/large 2 priority=100 cpu=300 ram=10
    assign 1-0-1 m1 ; 1-1-1 m2 ; 2-0-1 m1 ; 2-1-1 m2
    started 1-0-1
    started 1-1-1
    started 2-0-1
    started 2-1-1
    submit bob/train 1 priority=110 cpu=700 ram=10
    move 1-0-1 m2 for 3-0-1
    ended 1-0-1 stopped";

const MACHINES: &str = "machine m1 ports=none\nmachine m2 ports=none";

#[test]
fn a_moved_task_goes_where_it_was_moved_to_and_the_other_takes_its_room() {
    let expected = "bob/train/0 -> m1\nana/small/0 -> m2\nunplaced 0\n";
    let moved = |train: &str| MOVED.replace("priority=110", train);
    assert_eq!(text(MACHINES, &moved("priority=110")), expected);
    // Also where it is placed before the task for which it was moved.
    let first = "ana/small/0 -> m2\nbob/train/0 -> m1\nunplaced 0\n";
    for train in ["priority=100", "priority=99", "priority=0"] {
        assert_eq!(text(MACHINES, &moved(train)), first, "{train}");
    }
}

#[test]
fn a_moved_task_goes_elsewhere_if_its_room_is_taken() {
    let taken =
        MOVED.to_owned() + "\nsubmit eve/quick 1 priority=115 cpu=450 ram=10\nassign 4-0-1 m2";
    let machines = MACHINES.to_owned() + "\nmachine m3 cpu=300 ports=none";
    plan(
        &machines,
        &taken,
        &expect![[r#"
        bob/train/0 -> m1
        ana/small/0 -> m3
        unplaced 0
    "#]],
    );
    plan(
        MACHINES,
        &taken,
        &expect![[r#"
        bob/train/0 -> m1
        unplaced 1
    "#]],
    );
    let gone = MOVED.replace("ended 1-0-1", "drain m2\n    ended 1-0-1");
    plan(
        &machines,
        &gone,
        &expect![[r#"
        bob/train/0 -> m1
        ana/small/0 -> m3
        unplaced 0
    "#]],
    );
}

/// The plan of a pass.
fn text(machines: &str, jobs: &str) -> String {
    let cell = super::cell(machines, jobs);
    let plan = scheduler::Scheduler::new(cell.clone()).pass(model::Time(1_000_000));
    format!("{}unplaced {}\n", super::shown(&cell, &plan.assignments), plan.unplaced)
}
