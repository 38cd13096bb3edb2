//! Restart policies, and what health checks said.

use expect_test::expect;

use crate::script::session;

#[test]
fn a_task_that_is_restarted_always_runs_again_after_exit_code_0_with_growing_delays() {
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
fn a_task_that_is_never_restarted_is_dead_at_its_first_failure_and_moves_when_it_is_lost() {
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
        SUBMIT 1-1-2 (was lost)
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
          1-1-2 pending (was lost), not before 1 s, last: lost: no record of it
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
fn what_a_health_check_said_is_kept_when_the_health_changes_and_not_with_every_check() {
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
