//! Updates: from one version of a description to the next and back.

use expect_test::expect;

use crate::script::session;

#[test]
fn an_update_changes_single_tasks_and_can_be_undone_until_closed() {
    session(&expect![[r#"
        > submit ana/web 2 appclass=latency-sensitive
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1 ; 1-1-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 2
        accepted
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > health 1-0-1 good
        HEALTHY 1-0-1
        > started 1-1-1
        START 1-1-1 on 2
        > health 1-1-1 good
        HEALTHY 1-1-1
        > update ana/web 2 cmd=new appclass=latency-sensitive healthy=5
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        version 2
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 rolling
          1-0-1 healthy on 1 [], version 1
          1-1-1 healthy on 2 [], version 1
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [1-1-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        > step 1 2 change=0
        UPDATE_RUNNING 1-0-1
        STOP 1-0-1 (evict, update)
        > step 1 2 change=1
        (nothing)
        > ended 1-0-1 stopped
        EVICT 1-0-1 (update)
        SUBMIT 1-0-2 (evicted: update)
        SCHEDULE 1-0-2 on 1
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 rolling, changing 0, 1 disrupted
          1-0-2 starting on 1 [], last: stopped
          1-1-1 healthy on 2 [], version 1
        m1 up [1-0-2] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [1-1-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        > started 1-0-2
        START 1-0-2 on 1
        > health 1-0-2 good
        HEALTHY 1-0-2
        > step 1 2 passed=0 change=1
        UPDATE_RUNNING 1-1-1
        STOP 1-1-1 (evict, update)
        > at 5
        > step 1 2 passed=0 change=1
        (nothing)
        > ended 1-1-1 stopped
        EVICT 1-1-1 (update)
        SUBMIT 1-1-2 (evicted: update)
        SCHEDULE 1-1-2 on 2
        > started 1-1-2
        START 1-1-2 on 2
        > health 1-1-2 good
        HEALTHY 1-1-2
        > at 10
        > step 1 2 passed=1 finish
        UPDATE_SUCCEED job 1
        > show
        10 s
        job 1 ana/web running
          update 1 to 2 succeeded, 2 disrupted
          1-0-2 healthy on 1 [], last: stopped
          1-1-2 healthy on 2 [], last: stopped
        m1 up [1-0-2] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [1-1-2] takes 0.1 cores, 64 MiB, ports [], 4 free
        > control undo ana/web 2
        UPDATE_UNDO job 1
        version 2
        > step 1 2 change=0
        UPDATE_RUNNING 1-0-2
        STOP 1-0-2 (evict, update)
        > ended 1-0-2 stopped
        EVICT 1-0-2 (update)
        SUBMIT 1-0-3 (evicted: update)
        SCHEDULE 1-0-3 on 1
        > started 1-0-3
        START 1-0-3 on 1
        > health 1-0-3 good
        HEALTHY 1-0-3
        > step 1 2 passed=0 change=1
        UPDATE_RUNNING 1-1-2
        STOP 1-1-2 (evict, update)
        > ended 1-1-2 stopped
        EVICT 1-1-2 (update)
        SUBMIT 1-1-3 (evicted: update)
        SCHEDULE 1-1-3 on 2
        > started 1-1-3
        START 1-1-3 on 2
        > health 1-1-3 good
        HEALTHY 1-1-3
        > step 1 2 passed=1 finish
        UPDATE_UNDONE job 1
        > show
        10 s
        job 1 ana/web running
          update 1 to 2 undone, 2 disrupted
          1-0-3 healthy on 1 [], last: stopped
          1-1-3 healthy on 2 [], last: stopped
        m1 up [1-0-3] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [1-1-3] takes 0.1 cores, 64 MiB, ports [], 4 free
        > control close ana/web
        refused: cannot close the update of ana/web: it was undone by ana: open another one
    "#]]);
}

#[test]
fn a_description_that_needs_no_restart_is_applied_at_once() {
    session(&expect![[r#"
        > submit ana/web 2 cpu=200
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > update ana/web 2 cpu=400 priority=300 label=tier:front close=0
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_RUNNING 1-0-1
        UPDATE_PENDING 1-1-1
        version 2
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 rolling, changing 0 1
          1-0-1 healthy on 1 []
          1-1-1 pending (new), not before 0 s
        m1 up [1-0-1] takes 0.4 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > update ana/web 2 cpu=400 priority=300 label=tier:front
        unchanged, version 2
        > update ana/web 2 cpu=2000
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_PENDING 1-1-1
        version 3
    "#]]);
}

#[test]
fn a_task_that_fails_during_its_update_is_kept_for_the_undo() {
    session(&expect![[r#"
        > submit ana/web 1 failures=0
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > update ana/web 1 cmd=bad failures=0
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        version 2
        > step 1 2 change=0
        UPDATE_RUNNING 1-0-1
        STOP 1-0-1 (evict, update)
        > ended 1-0-1 stopped
        EVICT 1-0-1 (update)
        SUBMIT 1-0-2 (evicted: update)
        SCHEDULE 1-0-2 on 1
        > started 1-0-2
        START 1-0-2 on 1
        > ended 1-0-2 exit 3
        FAIL 1-0-2 (exit code 3)
        SUBMIT 1-0-3 (failed, will be retried)
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 rolling, changing 0, 1 disrupted
          1-0-3 pending (failed, will be retried), not before 1 s, failures 1, last: exit code 3
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > step 1 2 fail=1-0-2
        UPDATE_FAIL 1-0-2
        UPDATE_UNDO job 1
        UPDATE_PENDING 1-0-3
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 undoing, changing 0, 1 disrupted
          1-0-3 pending (failed, will be retried), not before 0 s, last: exit code 3
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > assign 1-0-3 m1
        SCHEDULE 1-0-3 on 1
        accepted
        > started 1-0-3
        START 1-0-3 on 1
        > step 1 2 passed=0 finish
        UPDATE_UNDONE job 1
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 undone, 1 disrupted
          1-0-3 healthy on 1 [], last: exit code 3
        m1 up [1-0-3] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > ended 1-0-3 exit 3
        FAIL 1-0-3 (exit code 3)
        FAIL job 1
        > show
        0 s
        job 1 ana/web dead
          update 1 to 2 undone, 1 disrupted
          1-0-3 failed, failures 1, last: exit code 3
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn failures_belong_to_a_version() {
    session(&expect![[r#"
        > submit ana/web 1 failures=2
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > ended 1-0-1 exit 1
        FAIL 1-0-1 (exit code 1)
        SUBMIT 1-0-2 (failed, will be retried)
        > at 1
        > assign 1-0-2 m1
        SCHEDULE 1-0-2 on 1
        accepted
        > started 1-0-2
        START 1-0-2 on 1
        > show
        1 s
        job 1 ana/web running
          1-0-2 healthy on 1 [], failures 1, last: exit code 1
        m1 up [1-0-2] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > update ana/web 1 cmd=new failures=2
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        version 2
        > step 1 2 change=0
        UPDATE_RUNNING 1-0-2
        STOP 1-0-2 (evict, update)
        > ended 1-0-2 stopped
        EVICT 1-0-2 (update)
        SUBMIT 1-0-3 (evicted: update)
        SCHEDULE 1-0-3 on 1
        > show
        1 s
        job 1 ana/web running
          update 1 to 2 rolling, changing 0, 1 disrupted
          1-0-3 starting on 1 [], last: stopped
        m1 up [1-0-3] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > started 1-0-3
        START 1-0-3 on 1
        > ended 1-0-3 exit 3
        FAIL 1-0-3 (exit code 3)
        SUBMIT 1-0-4 (failed, will be retried)
        > show
        1 s
        job 1 ana/web running
          update 1 to 2 rolling, changing 0, 1 disrupted
          1-0-4 pending (failed, will be retried), not before 2 s, failures 1, last: exit code 3
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > control undo ana/web
        UPDATE_UNDO job 1
        UPDATE_PENDING 1-0-4
        version 2
        > show
        1 s
        job 1 ana/web running
          update 1 to 2 undoing, changing 0, 1 disrupted
          1-0-4 pending (failed, will be retried), not before 1 s, last: exit code 3
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_task_under_removal_comes_back_when_wanted_again() {
    session(&expect![[r#"
        > submit ana/web 2
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
        > resize ana/web 1
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_RUNNING 1-0-1
        UPDATE_SUCCEED job 1
        STOP 1-1-1 (kill, removed: its job needs it no more)
        version 2
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 succeeded
          1-0-1 healthy on 1 []
          1-1-1 healthy on 1 [], stopping (kill, removed: its job needs it no more), version 1
        m1 up [1-0-1 1-1-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > control undo ana/web
        UPDATE_UNDO job 1
        STOP 1-1-1 (evict, update)
        UPDATE_RUNNING 1-0-1
        version 2
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 undoing, changing 1
          1-0-1 healthy on 1 []
          1-1-1 healthy on 1 [], stopping (evict, update)
        m1 up [1-0-1 1-1-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > ended 1-1-1 stopped
        EVICT 1-1-1 (update)
        SUBMIT 1-1-2 (evicted: update)
        SCHEDULE 1-1-2 on 1
        > started 1-1-2
        START 1-1-2 on 1
        > step 1 2 passed=1 finish
        UPDATE_UNDONE job 1
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 undone
          1-0-1 healthy on 1 []
          1-1-2 healthy on 1 [], last: stopped
        m1 up [1-0-1 1-1-2] takes 0.2 cores, 128 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn an_update_can_change_some_tasks_first() {
    session(&expect![[r#"
        > submit ana/web 2
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
        > update ana/web/0 2 cmd=new healthy=0
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        version 2
        > update ana/web/0 2 cmd=new
        unchanged, version 2
        > step 1 2 change=0
        UPDATE_RUNNING 1-0-1
        STOP 1-0-1 (evict, update)
        > ended 1-0-1 stopped
        EVICT 1-0-1 (update)
        SUBMIT 1-0-2 (evicted: update)
        SCHEDULE 1-0-2 on 1
        > started 1-0-2
        START 1-0-2 on 1
        > step 1 2 passed=0 finish
        UPDATE_SUCCEED job 1
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 succeeded, 1 disrupted
          1-0-2 healthy on 1 [], last: stopped
          1-1-1 healthy on 1 [], version 1
        m1 up [1-0-2 1-1-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > update ana/web/0 2 cmd=new
        unchanged, version 2
        > update ana/web 2 cmd=new
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_RUNNING 1-0-2
        version 3
        > show
        0 s
        job 1 ana/web running
          update 1 to 3 rolling
          1-0-2 healthy on 1 [], last: stopped
          1-1-1 healthy on 1 [], version 1
        m1 up [1-0-2 1-1-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > step 1 3 change=1
        UPDATE_RUNNING 1-1-1
        STOP 1-1-1 (evict, update)
    "#]]);
}

#[test]
fn an_update_follows_an_open_one_and_undoes_to_the_closed_version() {
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
        > update ana/web 1 cmd=second
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        version 2
        > update ana/web 1 cmd=third expected=1
        refused: ana/web has changed meanwhile, from version 1 to 2: ana opened the update to version 2, which is rolling; look at it (bourg update status ana/web) and decide again
        > update ana/web 1 cmd=third expected=2
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        version 3
        > show
        0 s
        job 1 ana/web running
          update 1 to 3 rolling
          1-0-1 healthy on 1 [], version 1
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > step 1 2 change=0
        (nothing)
        > control undo ana/web
        UPDATE_UNDO job 1
        UPDATE_UNDONE job 1
        version 3
        > show
        0 s
        job 1 ana/web running
          update 1 to 3 undone
          1-0-1 healthy on 1 []
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_second_failure_fails_an_update_even_after_a_healthy_phase() {
    session(&expect![[r#"
        > submit ana/web 1 failures=unlimited
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > update ana/web 1 cmd=new failures=unlimited batch=1
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        version 2
        > submit ana/web 2 failures=unlimited cmd=new
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        SUBMIT 1-1-1 (new)
        job 1, updated
        > show
        0 s
        job 1 ana/web running
          update 1 to 3 rolling, changing 1
          1-0-1 healthy on 1 [], version 1
          1-1-1 pending (new), not before 0 s
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > step 1 3 change=0
        UPDATE_RUNNING 1-0-1
        STOP 1-0-1 (evict, update)
        > ended 1-0-1 stopped
        EVICT 1-0-1 (update)
        SUBMIT 1-0-2 (evicted: update)
        SCHEDULE 1-0-2 on 1
        > started 1-0-2
        START 1-0-2 on 1
        > at 5
        > step 1 3 passed=0
        (nothing)
        > ended 1-0-2 exit 3
        FAIL 1-0-2 (exit code 3)
        SUBMIT 1-0-3 (failed, will be retried)
        > step 1 3 fail=1-0-2
        (nothing)
        > show
        5 s
        job 1 ana/web running
          update 1 to 3 rolling, changing 0 1, 1 disrupted
          1-0-3 pending (failed, will be retried), not before 6 s, failures 1, last: exit code 3
          1-1-1 pending (new), not before 0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > at 6
        > assign 1-0-3 m1
        SCHEDULE 1-0-3 on 1
        accepted
        > started 1-0-3
        START 1-0-3 on 1
        > ended 1-0-3 exit 3
        FAIL 1-0-3 (exit code 3)
        SUBMIT 1-0-4 (failed, will be retried)
        > step 1 3 fail=1-0-3
        UPDATE_FAIL 1-0-3
        UPDATE_UNDO job 1
        KILL 1-1-1 (removed: its job needs it no more)
        UPDATE_PENDING 1-0-4
        > show
        6 s
        job 1 ana/web running
          update 1 to 3 undoing, changing 0, 1 disrupted
          1-0-4 pending (failed, will be retried), not before 6 s, last: exit code 3
          1-1-1 killed removed: its job needs it no more, version 3
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}
