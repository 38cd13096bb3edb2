//! What machines report about the incarnations placed on them.

use expect_test::expect;

use crate::script::session;

#[test]
fn a_job_finishes_with_the_last_of_its_tasks() {
    session(&expect![[r#"
        > submit ana/web 2
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
        > started 1-0-1
        refused: 1-0-1: nothing new
        > show
        0 s
        job 1 ana/web running
          1-0-1 healthy on 1 []
          1-1-1 starting on 2 []
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [1-1-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        > ended 1-1-1 exit 0 on m2
        FINISH 1-1-1
        FINISH job 1
        > show
        0 s
        job 1 ana/web dead
          1-0-1 finished, last: exit code 0
          1-1-1 finished, last: exit code 0
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn health_is_unknown_until_the_first_check_where_there_is_one() {
    session(&expect![[r#"
        > submit ana/web 1 check=http
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1 31000
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > health 1-0-1 good
        refused: 1-0-1: nothing new
        > started 1-0-1
        START 1-0-1 on 1
        > show
        0 s
        job 1 ana/web running
          1-0-1 unknown on 1 [31000]
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [31000], 3 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > health 1-0-1 bad
        UNHEALTHY 1-0-1
        > health 1-0-1 bad
        refused: 1-0-1: nothing new
        > health 1-0-1 good
        HEALTHY 1-0-1
        > health 1-0-1 good
        refused: 1-0-1: nothing new
        > show
        0 s
        job 1 ana/web running
          1-0-1 healthy on 1 [31000]
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [31000], 3 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn usage_of_an_instance_is_kept_with_its_end() {
    session(&expect![[r#"
        > submit ana/web 3 delay=0
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > assign 1-0-1 m1; 1-1-1 m1; 1-2-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        SCHEDULE 1-2-1 on 1
        accepted
        accepted
        accepted
        > ended 1-0-1 exit 0 using 210 52
        FINISH 1-0-1 used 210 ms of CPU time, 52 MiB of memory at most
        > ended 1-1-1 exit 1 using 3000 64
        FAIL 1-1-1 (exit code 1) used 3 s of CPU time, 64 MiB of memory at most
        SUBMIT 1-1-2 (failed, will be retried)
        > kill ana/web/2
        STOP 1-2-1 (kill, by ana)
        killed 1
        > ended 1-2-1 stopped using 5 1
        KILL 1-2-1 (by ana) used 5 ms of CPU time, 1 MiB of memory at most
        > show
        0 s
        job 1 ana/web running
          1-0-1 finished, last: exit code 0 (210 ms of CPU time, 52 MiB of memory at most)
          1-1-2 pending (failed, will be retried), not before 1 s, failures 1, last: exit code 1 (3 s of CPU time, 64 MiB of memory at most)
          1-2-1 killed by ana, last: stopped (5 ms of CPU time, 1 MiB of memory at most)
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn reports_from_elsewhere_or_about_other_incarnations_are_ignored() {
    session(&expect![[r#"
        > submit ana/web 2 delay=0
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > started 1-0-1
        refused: 1-0-1 is pending and on no machine
        > ended 1-0-1 exit 0
        refused: 1-0-1: FINISH is not allowed from pending; allowed: QUEUE, SCHEDULE, FAIL, KILL, LOST, UPDATE_PENDING
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1 on m2
        refused: 1-0-1 is placed on machine 1, not on 2
        > started 1-0-1 on m9
        refused: 1-0-1 is placed on machine 1, not on 99
        > health 1-0-1 bad on m2
        refused: 1-0-1 is placed on machine 1, not on 2
        > ended 1-0-1 exit 0 on m2
        refused: 1-0-1 is placed on machine 1, not on 2
        > started 1-0-0
        refused: 1-0-0 is not the current incarnation of a task
        > started 1-0-2
        refused: 1-0-2 is not the current incarnation of a task
        > started 1-2-1
        refused: 1-2-1 is not the current incarnation of a task
        > started 2-0-1
        refused: 2-0-1 is not the current incarnation of a task
        > ended 1-0-1 exit 1
        FAIL 1-0-1 (exit code 1)
        SUBMIT 1-0-2 (failed, will be retried)
        > at 1
        > assign 1-0-2 m2
        SCHEDULE 1-0-2 on 2
        accepted
        > started 1-0-1
        refused: 1-0-1 is not the current incarnation of a task
        > started 1-0-2 on m1
        refused: 1-0-2 is placed on machine 2, not on 1
        > ended 1-0-1 exit 0
        refused: 1-0-1 is not the current incarnation of a task
        > ended 1-0-2 exit 0 on m1
        refused: 1-0-2 is placed on machine 2, not on 1
        > show
        1 s
        job 1 ana/web running
          1-0-2 starting on 2 [], failures 1, last: exit code 1
          1-1-1 pending (new), not before 0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [1-0-2] takes 0.1 cores, 64 MiB, ports [], 4 free
        > ended 1-0-2 exit 0 on m2
        FINISH 1-0-2
        > started 1-0-2 on m2
        refused: 1-0-2 is dead and on no machine
        > ended 1-0-2 exit 3 on m2
        refused: 1-0-2: FAIL is not allowed from dead; allowed: SUBMIT
        > show
        1 s
        job 1 ana/web running
          1-0-2 finished, failures 1, last: exit code 0
          1-1-1 pending (new), not before 0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_task_fails_with_growing_waits_until_its_policy_allows_no_more() {
    session(&expect![[r#"
        > submit ana/web 1 failures=3 delay=2
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > ended 1-0-1 exit 3
        FAIL 1-0-1 (exit code 3)
        SUBMIT 1-0-2 (failed, will be retried)
        > show
        0 s
        job 1 ana/web running
          1-0-2 pending (failed, will be retried), not before 2 s, failures 1, last: exit code 3
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > at 2
        > assign 1-0-2 m1
        SCHEDULE 1-0-2 on 1
        accepted
        > started 1-0-2
        START 1-0-2 on 1
        > ended 1-0-2 signal 11
        FAIL 1-0-2 (signal 11)
        SUBMIT 1-0-3 (failed, will be retried)
        > show
        2 s
        job 1 ana/web running
          1-0-3 pending (failed, will be retried), not before 6 s, failures 2, last: signal 11
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > at 6
        > assign 1-0-3 m2
        SCHEDULE 1-0-3 on 2
        accepted
        > ended 1-0-3 oom on m2
        FAIL 1-0-3 (out of memory: it used 65 MiB of its limit of 64 MiB)
        SUBMIT 1-0-4 (failed, will be retried)
        > show
        6 s
        job 1 ana/web running
          1-0-4 pending (failed, will be retried), not before 14 s, failures 3, last: out of memory: it used 65 MiB of its limit of 64 MiB
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > at 14
        > assign 1-0-4 m1
        SCHEDULE 1-0-4 on 1
        accepted
        > ended 1-0-4 not-started no such file
        FAIL 1-0-4 (not started: no such file)
        FAIL job 1
        > show
        14 s
        job 1 ana/web dead
          1-0-4 failed, failures 4, last: not started: no such file
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn the_first_failure_is_the_last_without_tolerance() {
    session(&expect![[r#"
        > submit ana/web 2 failures=0
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
        > ended 1-0-1 unhealthy status 500
        FAIL 1-0-1 (unhealthy: status 500)
        > ended 1-1-1 exit 0
        FINISH 1-1-1
        FAIL job 1
    "#]]);
}

#[test]
fn lost_or_stopped_tasks_are_no_failures_and_wait_the_first_delay() {
    session(&expect![[r#"
        > submit ana/web 2 failures=0
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
        > ended 1-0-1 lost rebooted
        LOST 1-0-1 (lost: rebooted)
        SUBMIT 1-0-2 (could not start, tried once)
        > ended 1-1-1 stopped
        LOST 1-1-1 (stopped)
        SUBMIT 1-1-2 (could not start, tried once)
        > show
        0 s
        job 1 ana/web running
          1-0-2 pending (could not start, tried once), not before 1 s, last: lost: rebooted
          1-1-2 pending (could not start, tried once), not before 1 s, last: stopped
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > assign 1-0-2 m1 ; 1-1-2 m1
        refused: task 1/0 waits for its next retry
        refused: task 1/1 waits for its next retry
        > show
        0 s
        job 1 ana/web running
          1-0-2 pending (could not start, tried once), not before 1 s, last: lost: rebooted
          1-1-2 pending (could not start, tried once), not before 1 s, last: stopped
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_job_dies_as_its_worst_task_did() {
    session(&expect![[r#"
        > submit ana/web 3 failures=0
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > assign 1-0-1 m1 ; 1-1-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        accepted
        accepted
        > kill ana/web/2
        KILL 1-2-1 (by ana)
        killed 1
        > ended 1-1-1 exit 1
        FAIL 1-1-1 (exit code 1)
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        KILL job 1 (by ana)
        > submit ana/job 2 failures=0
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        SUBMIT 2-1-1 (new)
        job 2
        > assign 2-0-1 m1 ; 2-1-1 m1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        SCHEDULE 2-1-1 on 1
        accepted
        accepted
        > ended 2-1-1 exit 1
        FAIL 2-1-1 (exit code 1)
        > ended 2-0-1 exit 0
        FINISH 2-0-1
        FAIL job 2
    "#]]);
}

#[test]
fn time_never_runs_backwards() {
    session(&expect![[r#"
        > at 100
        > submit ana/web 1 delay=10
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > at 50
        > ended 1-0-1 exit 1
        FAIL 1-0-1 (exit code 1)
        SUBMIT 1-0-2 (failed, will be retried)
        > show
        100 s
        job 1 ana/web running
          1-0-2 pending (failed, will be retried), not before 110 s, failures 1, last: exit code 1
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > at 109
        > assign 1-0-2 m1
        refused: task 1/0 waits for its next retry
        > at 0
        > assign 1-0-2 m1
        refused: task 1/0 waits for its next retry
        > at 110
        > assign 1-0-2 m1
        SCHEDULE 1-0-2 on 1
        accepted
        > at 0
        > show
        110 s
        job 1 ana/web running
          1-0-2 starting on 1 [], failures 1, last: exit code 1
        m1 up [1-0-2] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_task_ended_by_rule_has_failed_without_blaming_its_machine() {
    session(&expect![[r#"
        > submit ana/web 1 failures=2
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > ended 1-0-1 rule it held port 31000
        FAIL 1-0-1 (ended by rule: it held port 31000)
        SUBMIT 1-0-2 (failed, will be retried)
        > at 100
        > assign 1-0-2 m1
        SCHEDULE 1-0-2 on 1
        accepted
        > ended 1-0-2 rule it held port 31000
        FAIL 1-0-2 (ended by rule: it held port 31000)
        SUBMIT 1-0-3 (failed, will be retried)
        > at 200
        > assign 1-0-3 m1
        SCHEDULE 1-0-3 on 1
        accepted
        > ended 1-0-3 rule it held port 31000
        FAIL 1-0-3 (ended by rule: it held port 31000)
        FAIL job 1
        > show
        200 s
        job 1 ana/web dead
          1-0-3 failed, failures 3, last: ended by rule: it held port 31000
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_failed_or_lost_task_waits_at_least_a_second() {
    session(&expect![[r#"
        > submit ana/web 2 failures=9 delay=0
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
        > ended 1-0-1 exit 1
        FAIL 1-0-1 (exit code 1)
        SUBMIT 1-0-2 (failed, will be retried)
        > ended 1-1-1 lost port 31000 is taken
        LOST 1-1-1 (lost: port 31000 is taken)
        SUBMIT 1-1-2 (could not start, tried once)
        > show
        0 s
        job 1 ana/web running
          1-0-2 pending (failed, will be retried), not before 1 s, failures 1, last: exit code 1
          1-1-2 pending (could not start, tried once), not before 1 s, last: lost: port 31000 is taken
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > assign 1-0-2 m1
        refused: task 1/0 waits for its next retry
        > at 1
        > assign 1-0-2 m1
        SCHEDULE 1-0-2 on 1
        accepted
    "#]]);
}

/// A start that never was is no failure, however often it is tried: the task waits as after failures, and a good run
/// ends that.
#[test]
fn a_start_that_is_lost_waits_longer_each_time_and_is_no_failure() {
    session(&expect![[r#"
        > submit ana/web 1 restart=on-failure failures=1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > ended 1-0-1 lost cannot fetch package ana/app@3
        LOST 1-0-1 (lost: cannot fetch package ana/app@3)
        SUBMIT 1-0-2 (could not start, tried once)
        > show
        0 s
        job 1 ana/web running
          1-0-2 pending (could not start, tried once), not before 1 s, last: lost: cannot fetch package ana/app@3
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > at 1
        > assign 1-0-2 m1
        SCHEDULE 1-0-2 on 1
        accepted
        > ended 1-0-2 lost cannot fetch package ana/app@3
        LOST 1-0-2 (lost: cannot fetch package ana/app@3)
        SUBMIT 1-0-3 (could not start, tried 2 times)
        > at 3
        > assign 1-0-3 m1
        SCHEDULE 1-0-3 on 1
        accepted
        > ended 1-0-3 lost cannot fetch package ana/app@3
        LOST 1-0-3 (lost: cannot fetch package ana/app@3)
        SUBMIT 1-0-4 (could not start, tried 3 times)
        > show
        3 s
        job 1 ana/web running
          1-0-4 pending (could not start, tried 3 times), not before 7 s, last: lost: cannot fetch package ana/app@3
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > at 7
        > assign 1-0-4 m1
        SCHEDULE 1-0-4 on 1
        accepted
        > ended 1-0-4 lost cannot fetch package ana/app@3
        LOST 1-0-4 (lost: cannot fetch package ana/app@3)
        SUBMIT 1-0-5 (could not start, tried 4 times)
        > at 15
        > assign 1-0-5 m1
        SCHEDULE 1-0-5 on 1
        accepted
        > started 1-0-5
        START 1-0-5 on 1
        > at 20
        > ended 1-0-5 exit 1
        FAIL 1-0-5 (exit code 1)
        SUBMIT 1-0-6 (failed, will be retried)
        > show
        20 s
        job 1 ana/web running
          1-0-6 pending (failed, will be retried), not before 36 s, failures 1, last: exit code 1
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > at 36
        > assign 1-0-6 m1
        SCHEDULE 1-0-6 on 1
        accepted
        > started 1-0-6
        START 1-0-6 on 1
        > at 700
        > ended 1-0-6 lost rebooted
        LOST 1-0-6 (lost: rebooted)
        SUBMIT 1-0-7 (was lost)
        > at 701
        > assign 1-0-7 m1
        SCHEDULE 1-0-7 on 1
        accepted
        > ended 1-0-7 lost cannot fetch package ana/app@3
        LOST 1-0-7 (lost: cannot fetch package ana/app@3)
        SUBMIT 1-0-8 (could not start, tried once)
        > show
        701 s
        job 1 ana/web running
          1-0-8 pending (could not start, tried once), not before 702 s, failures 1, last: lost: cannot fetch package ana/app@3
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}
