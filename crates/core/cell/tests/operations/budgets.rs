//! Disruption budgets, for updates and drains alike.

use expect_test::expect;

use crate::script::session;

#[test]
fn updates_drains_and_crashes_share_one_budget() {
    session(&expect![[r#"
        > submit ana/web 4 at-once=1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        SUBMIT 1-3-1 (new)
        job 1
        > assign 1-0-1 m1 ; 1-1-1 m1 ; 1-2-1 m2 ; 1-3-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        SCHEDULE 1-2-1 on 2
        SCHEDULE 1-3-1 on 2
        accepted
        accepted
        accepted
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > started 1-1-1
        START 1-1-1 on 1
        > started 1-2-1
        START 1-2-1 on 2
        > started 1-3-1
        START 1-3-1 on 2
        > update ana/web 4 at-once=1 cmd=new
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        version 2
        > drain m2 by=60
        DRAIN machine 2 ()
        STOP 1-2-1 (evict, machine shutdown)
        1 leave
        > step 1 2 change=0 change=1
        (nothing)
        > evict m2 1-2-1 1-3-1
        (nothing)
        > ended 1-1-1 signal 11
        FAIL 1-1-1 (signal 11)
        SUBMIT 1-1-2 (failed, will be retried)
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 rolling
          1-0-1 healthy on 1 [], version 1
          1-1-2 pending (failed, will be retried), not before 1 s, failures 1, last: signal 11, version 1
          1-2-1 healthy on 2 [], stopping (evict, machine shutdown), version 1
          1-3-1 healthy on 2 [], version 1
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up, draining [1-2-1 1-3-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        > expire m2
        (nothing)
    "#]]);
}

#[test]
fn the_hourly_budget_blocks_changes_but_not_an_undo() {
    session(&expect![[r#"
        > submit ana/web 2 per-hour=1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1 ; 1-1-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        accepted
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > started 1-1-1
        START 1-1-1 on 1
        > update ana/web 2 per-hour=1 cmd=new
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        version 2
        > step 1 2 change=0 change=1
        UPDATE_RUNNING 1-0-1
        STOP 1-0-1 (evict, update)
        > ended 1-0-1 stopped
        EVICT 1-0-1 (update)
        SUBMIT 1-0-2 (evicted: update)
        SCHEDULE 1-0-2 on 1
        > started 1-0-2
        START 1-0-2 on 1
        > at 5
        > step 1 2 passed=0 change=1
        (nothing)
        > show
        5 s
        job 1 ana/web running
          update 1 to 2 rolling, 1 disrupted
          1-0-2 healthy on 1 [], last: stopped
          1-1-1 healthy on 1 [], version 1
        m1 up [1-0-2 1-1-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > control undo ana/web
        UPDATE_UNDO job 1
        version 2
        > step 1 2 change=0
        UPDATE_RUNNING 1-0-2
        STOP 1-0-2 (evict, update)
        > show
        5 s
        job 1 ana/web running
          update 1 to 2 undoing, changing 0, 1 disrupted
          1-0-2 healthy on 1 [], stopping (evict, update), last: stopped, version 2
          1-1-1 healthy on 1 []
        m1 up [1-0-2 1-1-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_budget_of_zero_starts_a_further_task_first() {
    session(&expect![[r#"
        > submit ana/web 1 at-once=0
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > update ana/web 1 at-once=0 cmd=new
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        version 2
        > step 1 2 change=0
        (nothing)
        > replace 1
        SUBMIT 1-1-1 (new)
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 rolling, changing 1
          1-0-1 healthy on 1 [], version 1
          1-1-1 pending (new), not before 0 s
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > assign 1-1-1 m2
        SCHEDULE 1-1-1 on 2
        accepted
        > started 1-1-1
        START 1-1-1 on 2
        > at 5
        > step 1 2 passed=1 change=0
        UPDATE_RUNNING 1-0-1
        STOP 1-0-1 (evict, update)
        > ended 1-0-1 stopped
        EVICT 1-0-1 (update)
        SUBMIT 1-0-2 (evicted: update)
        SCHEDULE 1-0-2 on 1
        > started 1-0-2
        START 1-0-2 on 1
        > at 10
        > step 1 2 passed=0 finish
        UPDATE_SUCCEED job 1
        STOP 1-1-1 (kill, removed: its job needs it no more)
        > show
        10 s
        job 1 ana/web running
          update 1 to 2 succeeded, 1 disrupted
          1-0-2 healthy on 1 [], last: stopped
          1-1-1 healthy on 2 [], stopping (kill, removed: its job needs it no more)
        m1 up [1-0-2] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [1-1-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        > ended 1-1-1 stopped
        KILL 1-1-1 (removed: its job needs it no more)
        > show
        10 s
        job 1 ana/web running
          update 1 to 2 succeeded, 1 disrupted
          1-0-2 healthy on 1 [], last: stopped
          1-1-1 killed removed: its job needs it no more, last: stopped
        m1 up [1-0-2] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_drained_machine_says_so_and_takes_tasks_again_after_undrain() {
    session(&expect![[r#"
        > submit ana/web 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > drain m1 by=60 new disk
        DRAIN machine 1 (new disk)
        STOP 1-0-1 (evict, machine shutdown)
        1 leave
        > drain m1
        DRAIN machine 1 (new disk)
        0 leave
        > evict m1 1-0-1
        (nothing)
        > ended 1-0-1 stopped
        DRAINED machine 1
        EVICT 1-0-1 (machine shutdown)
        SUBMIT 1-0-2 (evicted: machine shutdown)
        > show
        0 s
        job 1 ana/web running
          1-0-2 pending (evicted: machine shutdown), not before 0 s, last: stopped
        m1 up, draining [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > assign 1-0-2 m1
        refused: it does not fit on machine 1: is draining
        > undrain m1
        UNDRAIN machine 1
        done
        > undrain m1
        done
        > assign 1-0-2 m1
        SCHEDULE 1-0-2 on 1
        accepted
        > at 100
        > expire m1
        (nothing)
    "#]]);
}

#[test]
fn the_undo_of_a_removal_takes_no_task_down() {
    session(&expect![[r#"
        > submit ana/web 2 at-once=1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1 ; 1-1-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        accepted
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > started 1-1-1
        START 1-1-1 on 1
        > update ana/web 1 at-once=1
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_RUNNING 1-0-1
        UPDATE_SUCCEED job 1
        STOP 1-1-1 (kill, removed: its job needs it no more)
        version 2
        > ended 1-0-1 signal 11
        FAIL 1-0-1 (signal 11)
        SUBMIT 1-0-2 (failed, will be retried)
        > control undo ana/web
        UPDATE_UNDO job 1
        STOP 1-1-1 (evict, update)
        UPDATE_PENDING 1-0-2
        version 2
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 undoing, changing 0 1
          1-0-2 pending (failed, will be retried), not before 0 s, last: signal 11
          1-1-1 healthy on 1 [], stopping (evict, update)
        m1 up [1-1-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

/// A replacement that has the only room for a task makes place for it, as far as the budget allows.
#[test]
fn a_replacement_makes_room_for_a_task_that_stays_pending() {
    session(&expect![[r#"
        > submit ana/web 3 at-once=1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > assign 1-1-1 m1
        SCHEDULE 1-1-1 on 1
        accepted
        > assign 1-2-1 m1
        SCHEDULE 1-2-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > started 1-1-1
        START 1-1-1 on 1
        > started 1-2-1
        START 1-2-1 on 1
        > replace 1
        SUBMIT 1-3-1 (new)
        > assign 1-3-1 m2
        SCHEDULE 1-3-1 on 2
        accepted
        > started 1-3-1
        START 1-3-1 on 2
        > replace 1
        SUBMIT 1-4-1 (new)
        > assign 1-4-1 m2
        SCHEDULE 1-4-1 on 2
        accepted
        > started 1-4-1
        START 1-4-1 on 2
        > ended 1-0-1 lost gone
        LOST 1-0-1 (lost: gone)
        SUBMIT 1-0-2 (was lost)
        > ended 1-1-1 lost gone
        LOST 1-1-1 (lost: gone)
        SUBMIT 1-1-2 (was lost)
        > at 10
        > unreplace 1
        (nothing)
        > at 11
        > unreplace 1
        STOP 1-3-1 (kill, removed: its job needs it no more)
        > unreplace 1
        (nothing)
        > ended 1-3-1 stopped
        KILL 1-3-1 (removed: its job needs it no more)
        > assign 1-0-2 m2
        SCHEDULE 1-0-2 on 2
        accepted
        > started 1-0-2
        START 1-0-2 on 2
        > unreplace 1
        STOP 1-4-1 (kill, removed: its job needs it no more)
        > ended 1-4-1 stopped
        KILL 1-4-1 (removed: its job needs it no more)
        > assign 1-1-2 m2
        SCHEDULE 1-1-2 on 2
        accepted
        > started 1-1-2
        START 1-1-2 on 2
        > unreplace 1
        (nothing)
        > show
        11 s
        job 1 ana/web running
          1-0-2 healthy on 2 [], last: lost: gone
          1-1-2 healthy on 2 [], last: lost: gone
          1-2-1 healthy on 1 []
          1-3-1 killed removed: its job needs it no more, last: stopped
          1-4-1 killed removed: its job needs it no more, last: stopped
        m1 up [1-2-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [1-0-2 1-1-2] takes 0.2 cores, 128 MiB, ports [], 4 free
    "#]]);
}

/// A replacement that ends by itself would be started again and again, and stand in for nothing.
#[test]
fn a_job_whose_replacement_has_ended_by_itself_gets_no_other() {
    session(&expect![[r#"
        > submit ana/web 1 at-once=0
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > drain m1
        DRAIN machine 1 ()
        0 leave
        > replace 1
        SUBMIT 1-1-1 (new)
        > assign 1-1-1 m2
        SCHEDULE 1-1-1 on 2
        accepted
        > started 1-1-1
        START 1-1-1 on 2
        > ended 1-1-1 exit 0
        FINISH 1-1-1
        > replace 1
        (nothing)
        > show
        0 s
        job 1 ana/web running
          1-0-1 healthy on 1 []
          1-1-1 finished, last: exit code 0
        m1 up, draining [1-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}
