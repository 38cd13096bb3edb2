//! Restart policies, and what health checks said.

use expect_test::expect;

use crate::script::session;

#[test]
fn a_task_with_policy_always_restarts_after_success_with_growing_delays() {
    session(&expect![[r#"
        > submit ana/web 1 restart=always failures=unlimited
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        SUBMIT 1-0-2 (finished, will be restarted)
        > at 1
        > assign 1-0-2 m1
        SCHEDULE 1-0-2 on 1
        accepted
        > ended 1-0-2 exit 1
        FAIL 1-0-2 (exit code 1)
        SUBMIT 1-0-3 (failed, will be retried)
        > show
        1 s
        job 1 ana/web running
          1-0-3 pending (failed, will be retried), not before 3 s, failures 1, finishes 1, last: exit code 1
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > at 3
        > assign 1-0-3 m1
        SCHEDULE 1-0-3 on 1
        accepted
        > started 1-0-3
        START 1-0-3 on 1
        > at 400
        > ended 1-0-3 exit 0
        FINISH 1-0-3
        SUBMIT 1-0-4 (finished, will be restarted)
        > show
        400 s
        job 1 ana/web running
          1-0-4 pending (finished, will be restarted), not before 401 s, failures 1, finishes 2, last: exit code 0
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_task_with_policy_never_dies_of_failure_and_moves_when_lost() {
    session(&expect![[r#"
        > submit ana/web 3 restart=never failures=9
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > assign 1-0-1 m1; 1-1-1 m1; 1-2-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        SCHEDULE 1-2-1 on 2
        accepted
        accepted
        accepted
        > ended 1-0-1 exit 1
        FAIL 1-0-1 (exit code 1)
        > ended 1-1-1 lost no record of it
        LOST 1-1-1 (lost: no record of it)
        SUBMIT 1-1-2 (could not start, tried once)
        > drain m2
        DRAIN machine 2 ()
        STOP 1-2-1 (evict, machine shutdown)
        1 leave
        > evict m2 1-2-1
        (nothing)
        > ended 1-2-1 stopped
        DRAINED machine 2
        EVICT 1-2-1 (machine shutdown)
        SUBMIT 1-2-2 (evicted: machine shutdown)
        > show
        0 s
        job 1 ana/web running
          1-0-1 failed, failures 1, last: exit code 1
          1-1-2 pending (could not start, tried once), not before 1 s, last: lost: no record of it
          1-2-2 pending (evicted: machine shutdown), not before 0 s, last: stopped
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up, draining [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn an_evicted_task_that_is_restarted_always_runs_again_although_it_finished() {
    session(&expect![[r#"
        > submit ana/web 1 restart=always
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > drain m1
        DRAIN machine 1 ()
        STOP 1-0-1 (evict, machine shutdown)
        1 leave
        > evict m1 1-0-1
        (nothing)
        > ended 1-0-1 exit 0
        DRAINED machine 1
        EVICT 1-0-1 (machine shutdown)
        SUBMIT 1-0-2 (evicted: machine shutdown)
    "#]]);
}

#[test]
fn the_text_of_a_health_check_is_recorded_when_health_changes() {
    session(&expect![[r#"
        > submit ana/web 1 ports=http check=http
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1 31000
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > unready 1-0-1 not started
        refused: 1-0-1: nothing new
        > started 1-0-1
        START 1-0-1 on 1
        > unready 1-0-1
        refused: 1-0-1: nothing new
        > unready 1-0-1 connection refused
        > show
        0 s
        job 1 ana/web running
          1-0-1 unknown (connection refused) on 1 [31000]
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [31000], 3 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > unready 1-0-1 another text
        refused: 1-0-1: nothing new
        > health 1-0-1 good HTTP 200
        HEALTHY 1-0-1
        > unready 1-0-1 too late
        refused: 1-0-1: nothing new
        > health 1-0-1 good HTTP 204
        refused: 1-0-1: nothing new
        > health 1-0-1 bad HTTP 503
        UNHEALTHY 1-0-1
        > show
        0 s
        job 1 ana/web running
          1-0-1 unhealthy (HTTP 503) on 1 [31000]
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [31000], 3 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

/// The number of failures stays, the delay falls back.
#[test]
fn a_run_of_ten_minutes_resets_the_delay() {
    session(&expect![[r#"
        > submit ana/web 1 failures=unlimited
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > ended 1-0-1 exit 1
        FAIL 1-0-1 (exit code 1)
        SUBMIT 1-0-2 (failed, will be retried)
        > at 1
        > assign 1-0-2 m1
        SCHEDULE 1-0-2 on 1
        accepted
        > ended 1-0-2 exit 1
        FAIL 1-0-2 (exit code 1)
        SUBMIT 1-0-3 (failed, will be retried)
        > at 3
        > assign 1-0-3 m1
        SCHEDULE 1-0-3 on 1
        accepted
        > started 1-0-3
        START 1-0-3 on 1
        > at 602
        > ended 1-0-3 exit 1
        FAIL 1-0-3 (exit code 1)
        SUBMIT 1-0-4 (failed, will be retried)
        > show
        602 s
        job 1 ana/web running
          1-0-4 pending (failed, will be retried), not before 606 s, failures 3, last: exit code 1
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > at 606
        > assign 1-0-4 m1
        SCHEDULE 1-0-4 on 1
        accepted
        > started 1-0-4
        START 1-0-4 on 1
        > at 1206
        > ended 1-0-4 exit 1
        FAIL 1-0-4 (exit code 1)
        SUBMIT 1-0-5 (failed, will be retried)
        > show
        1206 s
        job 1 ana/web running
          1-0-5 pending (failed, will be retried), not before 1207 s, failures 4, last: exit code 1
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > at 1207
        > assign 1-0-5 m1
        SCHEDULE 1-0-5 on 1
        accepted
        > ended 1-0-5 exit 1
        FAIL 1-0-5 (exit code 1)
        SUBMIT 1-0-6 (failed, will be retried)
        > show
        1207 s
        job 1 ana/web running
          1-0-6 pending (failed, will be retried), not before 1209 s, failures 5, last: exit code 1
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_restart_changes_no_description_and_keeps_to_the_budget() {
    session(&expect![[r#"
        > submit ana/web 3 at-once=1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > assign 1-0-1 m1; 1-1-1 m1; 1-2-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        SCHEDULE 1-2-1 on 2
        accepted
        accepted
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > started 1-1-1
        START 1-1-1 on 1
        > started 1-2-1
        START 1-2-1 on 2
        > restart ana/web
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        0 start, version 2
        > step 1 2 change=0 change=1
        UPDATE_RUNNING 1-0-1
        STOP 1-0-1 (evict, update)
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 rolling, changing 0, 1 disrupted
          1-0-1 healthy on 1 [], stopping (evict, update), version 1
          1-1-1 healthy on 1 [], version 1
          1-2-1 healthy on 2 [], version 1
        m1 up [1-0-1 1-1-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        m2 up [1-2-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        > ended 1-0-1 stopped
        EVICT 1-0-1 (update)
        SUBMIT 1-0-2 (evicted: update)
        SCHEDULE 1-0-2 on 1
        > started 1-0-2
        START 1-0-2 on 1
        > step 1 2 passed=0
        (nothing)
        > step 1 2 change=1
        UPDATE_RUNNING 1-1-1
        STOP 1-1-1 (evict, update)
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 rolling, changing 0 1, 2 disrupted
          1-0-2 healthy on 1 [], last: stopped
          1-1-1 healthy on 1 [], stopping (evict, update), version 1
          1-2-1 healthy on 2 [], version 1
        m1 up [1-0-2 1-1-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        m2 up [1-2-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        > restart ana/web/0
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        0 start, version 3
        > control undo ana/web
        UPDATE_UNDO job 1
        UPDATE_RUNNING 1-0-2
        UPDATE_UNDONE job 1
        version 3
        > show
        0 s
        job 1 ana/web running
          update 1 to 3 undone
          1-0-2 healthy on 1 [], last: stopped
          1-1-1 healthy on 1 [], stopping (evict, update)
          1-2-1 healthy on 2 []
        m1 up [1-0-2 1-1-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        m2 up [1-2-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        > submit ana/web 3 at-once=1
        job 1, unchanged
    "#]]);
}

#[test]
fn a_restart_starts_what_has_ended_and_retries_what_waits() {
    session(&expect![[r#"
        > submit ana/web 4 restart=never
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        SUBMIT 1-3-1 (new)
        job 1
        > assign 1-0-1 m1; 1-1-1 m1; 1-2-1 m2; 1-3-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        SCHEDULE 1-2-1 on 2
        SCHEDULE 1-3-1 on 2
        accepted
        accepted
        accepted
        accepted
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        > ended 1-1-1 exit 1
        FAIL 1-1-1 (exit code 1)
        > kill ana/web/2
        STOP 1-2-1 (kill, by ana)
        killed 1
        > ended 1-2-1 stopped
        KILL 1-2-1 (by ana)
        > restart ana/web/0-2 failed
        SUBMIT 1-1-2 (new)
        1 start
        > restart ana/web/1 failed
        0 start
        > restart ana/web/0,2
        SUBMIT 1-0-2 (new)
        SUBMIT 1-2-2 (new)
        2 start
        > restart ana/web/7
        refused: the job has tasks 0 to 3 only
        > as eve restart ana/web
        refused: eve may not restart ana/web: ana, an administrator or a user with the capability administer-jobs may
        > restart ana/web batch=0
        refused: a batch has 1 to 100000 tasks, not 0
        > kill ana/web/3
        STOP 1-3-1 (kill, by ana)
        killed 1
        > restart ana/web/3
        refused: task 3 of ana/web is being killed: restart it when it has ended
        > show
        0 s
        job 1 ana/web running
          1-0-2 pending (new), not before 0 s, last: exit code 0
          1-1-2 pending (new), not before 0 s, last: exit code 1
          1-2-2 pending (new), not before 0 s, last: stopped
          1-3-1 starting on 2 [], stopping (kill, by ana)
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [1-3-1] takes 0.1 cores, 64 MiB, ports [], 4 free
    "#]]);
}

#[test]
fn a_dead_job_lives_again_when_its_tasks_are_restarted() {
    session(&expect![[r#"
        > submit ana/pi 3 restart=never
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > submit ana/child 1 parent=pi
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > assign 1-0-1 m1; 1-1-1 m1; 1-2-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        SCHEDULE 1-2-1 on 2
        accepted
        accepted
        accepted
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        > ended 1-1-1 exit 1
        FAIL 1-1-1 (exit code 1)
        > ended 1-2-1 exit 2
        FAIL 1-2-1 (exit code 2)
        FAIL job 1
        KILL 2-0-1 (its parent, job 1, ended)
        KILL job 2 (its parent, job 1, ended)
        > restart ana/child
        refused: ana/child ends with its parent, job 1, which has ended
        > restart ana/pi failed
        SUBMIT job 1 (new)
        SUBMIT 1-1-2 (new)
        SUBMIT 1-2-2 (new)
        2 start
        > restart ana/pi failed
        0 start
        > assign 1-1-2 m1; 1-2-2 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-1-2 on 1
        SCHEDULE 1-2-2 on 1
        accepted
        accepted
        > ended 1-1-2 exit 0
        FINISH 1-1-2
        > ended 1-2-2 exit 0
        FINISH 1-2-2
        FINISH job 1
        > restart ana/pi failed
        0 start
        > restart ana/child
        refused: ana/child ends with its parent, job 1, which has ended
        > show
        0 s
        job 1 ana/pi dead
          1-0-1 finished, last: exit code 0
          1-1-2 finished, last: exit code 0
          1-2-2 finished, last: exit code 0
        job 2 ana/child dead
          2-0-1 killed its parent, job 1, ended
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > kill ana/child
        killed 0
        > restart ana/pi
        SUBMIT job 1 (new)
        SUBMIT 1-0-2 (new)
        SUBMIT 1-1-3 (new)
        SUBMIT 1-2-3 (new)
        3 start
        > show
        0 s
        job 1 ana/pi pending
          1-0-2 pending (new), not before 0 s, last: exit code 0
          1-1-3 pending (new), not before 0 s, last: exit code 0
          1-2-3 pending (new), not before 0 s, last: exit code 0
        job 2 ana/child dead
          2-0-1 killed its parent, job 1, ended
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_restart_waits_for_an_update_and_pauses_at_failing_tasks() {
    session(&expect![[r#"
        > submit ana/web 2 at-once=1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1; 1-1-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        accepted
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > started 1-1-1
        START 1-1-1 on 1
        > update ana/web 2 cmd=new at-once=1
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        version 2
        > restart ana/web
        refused: ana/web is being updated to version 2: wait until that has succeeded, or undo it (bourg update undo)
        > control undo ana/web
        UPDATE_UNDO job 1
        UPDATE_UNDONE job 1
        version 2
        > restart ana/web batch=1
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        0 start, version 3
        > step 1 3 change=0
        UPDATE_RUNNING 1-0-1
        STOP 1-0-1 (evict, update)
        > ended 1-0-1 stopped
        EVICT 1-0-1 (update)
        SUBMIT 1-0-2 (evicted: update)
        SCHEDULE 1-0-2 on 1
        > ended 1-0-2 exit 1
        FAIL 1-0-2 (exit code 1)
        SUBMIT 1-0-3 (failed, will be retried)
        > step 1 3 fail=1-0-2
        UPDATE_FAIL 1-0-2
        UPDATE_PAUSE job 1
        > show
        0 s
        job 1 ana/web running
          update 1 to 3 paused, changing 0, 1 disrupted
          1-0-3 pending (failed, will be retried), not before 1 s, failures 1, last: exit code 1
          1-1-1 healthy on 1 [], version 1
        m1 up [1-1-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > restart ana/web
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_PENDING 1-0-3
        0 start, version 4
    "#]]);
}
