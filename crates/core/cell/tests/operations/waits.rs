//! Jobs that run after the end of others in a certain way, and tasks that run after tasks.

use expect_test::expect;

use crate::script::session;

#[test]
fn each_predecessor_has_to_end_in_its_way() {
    session(&expect![[r#"
        > submit ana/extract 1 failures=0
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/report 1 after=extract:ended
        SUBMIT job 2 (new)
        QUEUE job 2
        SUBMIT 2-0-1 (new)
        QUEUE 2-0-1
        job 2
        > submit ana/clean 1 after=extract:failed
        SUBMIT job 3 (new)
        QUEUE job 3
        SUBMIT 3-0-1 (new)
        QUEUE 3-0-1
        job 3
        > submit ana/load 1 after=extract
        SUBMIT job 4 (new)
        QUEUE job 4
        SUBMIT 4-0-1 (new)
        QUEUE 4-0-1
        job 4
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > ended 1-0-1 exit 3
        FAIL 1-0-1 (exit code 3)
        FAIL job 1
        ENABLE job 2
        ENABLE 2-0-1
        ENABLE job 3
        ENABLE 3-0-1
        KILL 4-0-1 (job 1, which it was to run after, did not finish)
        KILL job 4 (job 1, which it was to run after, did not finish)
        > submit ana/late 1 after=extract:failed
        SUBMIT job 5 (new)
        SUBMIT 5-0-1 (new)
        job 5
        > submit ana/later 1 after=extract:ended
        SUBMIT job 6 (new)
        SUBMIT 6-0-1 (new)
        job 6
        > submit ana/never 1 after=extract
        refused: after names ana/extract, which has ended without finishing: run that again first
        > submit ana/extract 1
        SUBMIT job 7 (new)
        SUBMIT 7-0-1 (new)
        job 7
        > submit ana/clean 1 after=extract:failed
        job 3, unchanged
        > submit ana/twice 1 after=extract,extract:failed
        SUBMIT job 8 (new)
        QUEUE job 8
        SUBMIT 8-0-1 (new)
        QUEUE 8-0-1
        job 8
        > assign 8-0-1 m1
        refused: task 8/0 is not pending in that generation
        > ended 8-0-1 exit 0
        refused: 8-0-1: FINISH is not allowed from queued; allowed: ENABLE, FAIL, KILL, LOST, UPDATE_PENDING
        > submit ana/rescue 1 after=extract:failed
        SUBMIT job 9 (new)
        QUEUE job 9
        SUBMIT 9-0-1 (new)
        QUEUE 9-0-1
        job 9
        > show
        0 s
        job 1 ana/extract dead, not the newest of that name
          1-0-1 failed, failures 1, last: exit code 3
        job 2 ana/report pending
          2-0-1 pending (new), not before 0 s
        job 3 ana/clean pending
          3-0-1 pending (new), not before 0 s
        job 4 ana/load dead
          4-0-1 killed job 1, which it was to run after, did not finish
        job 5 ana/late pending
          5-0-1 pending (new), not before 0 s
        job 6 ana/later pending
          6-0-1 pending (new), not before 0 s
        job 7 ana/extract pending
          7-0-1 pending (new), not before 0 s
        job 8 ana/twice queued
          8-0-1 queued
        job 9 ana/rescue queued
          9-0-1 queued
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_kill_is_an_end_that_is_no_finish() {
    session(&expect![[r#"
        > submit ana/extract 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/report 1 after=extract:ended
        SUBMIT job 2 (new)
        QUEUE job 2
        SUBMIT 2-0-1 (new)
        QUEUE 2-0-1
        job 2
        > submit ana/clean 1 after=extract:failed
        SUBMIT job 3 (new)
        QUEUE job 3
        SUBMIT 3-0-1 (new)
        QUEUE 3-0-1
        job 3
        > kill ana/extract
        KILL 1-0-1 (by ana)
        KILL job 1 (by ana)
        ENABLE job 2
        ENABLE 2-0-1
        ENABLE job 3
        ENABLE 3-0-1
        killed 1
        > show
        0 s
        job 1 ana/extract dead
          1-0-1 killed by ana
        job 2 ana/report pending
          2-0-1 pending (new), not before 0 s
        job 3 ana/clean pending
          3-0-1 pending (new), not before 0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn each_task_waits_for_the_task_of_its_index() {
    session(&expect![[r#"
        > submit ana/extract 4 failures=0
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        SUBMIT 1-3-1 (new)
        job 1
        > submit ana/load 3 after=extract:each-task
        refused: after waits for each task of ana/extract, which has 4 tasks, and this job has 3: give both the same number, or wait for the whole job
        > submit ana/load 4 after=extract:each-task
        SUBMIT job 2 (new)
        QUEUE job 2
        SUBMIT 2-0-1 (new)
        QUEUE 2-0-1
        SUBMIT 2-1-1 (new)
        QUEUE 2-1-1
        SUBMIT 2-2-1 (new)
        QUEUE 2-2-1
        SUBMIT 2-3-1 (new)
        QUEUE 2-3-1
        job 2
        > submit ana/sum 4 after=load
        SUBMIT job 3 (new)
        QUEUE job 3
        SUBMIT 3-0-1 (new)
        QUEUE 3-0-1
        SUBMIT 3-1-1 (new)
        QUEUE 3-1-1
        SUBMIT 3-2-1 (new)
        QUEUE 3-2-1
        SUBMIT 3-3-1 (new)
        QUEUE 3-3-1
        job 3
        > assign 1-0-1 m1; 1-1-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        accepted
        accepted
        > ended 1-1-1 exit 0
        FINISH 1-1-1
        ENABLE job 2
        ENABLE 2-1-1
        > assign 2-1-1 m2
        SCHEDULE job 2 on 2
        SCHEDULE 2-1-1 on 2
        accepted
        > ended 1-0-1 exit 1
        FAIL 1-0-1 (exit code 1)
        KILL 2-0-1 (task 1/0, which it was to run after, did not finish)
        > show
        0 s
        job 1 ana/extract running
          1-0-1 failed, failures 1, last: exit code 1
          1-1-1 finished, last: exit code 0
          1-2-1 pending (new), not before 0 s
          1-3-1 pending (new), not before 0 s
        job 2 ana/load running
          2-0-1 killed task 1/0, which it was to run after, did not finish
          2-1-1 starting on 2 []
          2-2-1 queued
          2-3-1 queued
        job 3 ana/sum queued
          3-0-1 queued
          3-1-1 queued
          3-2-1 queued
          3-3-1 queued
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [2-1-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        > kill ana/extract/2
        KILL 1-2-1 (by ana)
        KILL 2-2-1 (task 1/2, which it was to run after, did not finish)
        killed 1
        > assign 1-3-1 m1
        SCHEDULE 1-3-1 on 1
        accepted
        > ended 1-3-1 exit 0
        FINISH 1-3-1
        KILL job 1 (by ana)
        ENABLE 2-3-1
        > show
        0 s
        job 1 ana/extract dead
          1-0-1 failed, failures 1, last: exit code 1
          1-1-1 finished, last: exit code 0
          1-2-1 killed by ana
          1-3-1 finished, last: exit code 0
        job 2 ana/load running
          2-0-1 killed task 1/0, which it was to run after, did not finish
          2-1-1 starting on 2 []
          2-2-1 killed task 1/2, which it was to run after, did not finish
          2-3-1 pending (new), not before 0 s
        job 3 ana/sum queued
          3-0-1 queued
          3-1-1 queued
          3-2-1 queued
          3-3-1 queued
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [2-1-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        > ended 2-1-1 exit 0
        FINISH 2-1-1
    "#]]);
}

#[test]
fn tasks_may_wait_for_a_job_and_for_a_task_of_another() {
    session(&expect![[r#"
        > submit ana/setup 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/rows 2 failures=0
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        SUBMIT 2-1-1 (new)
        job 2
        > submit ana/load 2 after=setup,rows:ended:each-task
        SUBMIT job 3 (new)
        QUEUE job 3
        SUBMIT 3-0-1 (new)
        QUEUE 3-0-1
        SUBMIT 3-1-1 (new)
        QUEUE 3-1-1
        job 3
        > assign 2-0-1 m1; 2-1-1 m1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        SCHEDULE 2-1-1 on 1
        accepted
        accepted
        > ended 2-0-1 exit 1
        FAIL 2-0-1 (exit code 1)
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        FINISH job 1
        ENABLE job 3
        ENABLE 3-0-1
        > show
        0 s
        job 1 ana/setup dead
          1-0-1 finished, last: exit code 0
        job 2 ana/rows running
          2-0-1 failed, failures 1, last: exit code 1
          2-1-1 starting on 1 []
        job 3 ana/load pending
          3-0-1 pending (new), not before 0 s
          3-1-1 queued
        m1 up [2-1-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > ended 2-1-1 exit 0
        FINISH 2-1-1
        FAIL job 2
        ENABLE 3-1-1
    "#]]);
}

#[test]
fn what_has_ended_before_is_seen_at_the_submission() {
    session(&expect![[r#"
        > submit ana/rows 3 failures=0
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > assign 1-0-1 m1; 1-1-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        accepted
        accepted
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        > ended 1-1-1 exit 1
        FAIL 1-1-1 (exit code 1)
        > submit ana/load 3 after=rows:each-task
        SUBMIT job 2 (new)
        QUEUE job 2
        SUBMIT 2-0-1 (new)
        QUEUE 2-0-1
        SUBMIT 2-1-1 (new)
        QUEUE 2-1-1
        SUBMIT 2-2-1 (new)
        QUEUE 2-2-1
        KILL 2-1-1 (task 1/1, which it was to run after, did not finish)
        ENABLE job 2
        ENABLE 2-0-1
        job 2
        > kill ana/rows/2
        KILL 1-2-1 (by ana)
        KILL job 1 (by ana)
        KILL 2-2-1 (task 1/2, which it was to run after, did not finish)
        killed 1
        > submit ana/again 3 after=rows:each-task
        SUBMIT job 3 (new)
        QUEUE job 3
        SUBMIT 3-0-1 (new)
        QUEUE 3-0-1
        SUBMIT 3-1-1 (new)
        QUEUE 3-1-1
        SUBMIT 3-2-1 (new)
        QUEUE 3-2-1
        KILL 3-1-1 (task 1/1, which it was to run after, did not finish)
        KILL 3-2-1 (task 1/2, which it was to run after, did not finish)
        ENABLE job 3
        ENABLE 3-0-1
        job 3
        > submit ana/rescue 3 after=rows:failed:each-task
        SUBMIT job 4 (new)
        QUEUE job 4
        SUBMIT 4-0-1 (new)
        QUEUE 4-0-1
        SUBMIT 4-1-1 (new)
        QUEUE 4-1-1
        SUBMIT 4-2-1 (new)
        QUEUE 4-2-1
        KILL 4-0-1 (task 1/0, for whose failure it waited, has finished)
        ENABLE job 4
        ENABLE 4-1-1
        ENABLE 4-2-1
        job 4
        > show
        0 s
        job 1 ana/rows dead
          1-0-1 finished, last: exit code 0
          1-1-1 failed, failures 1, last: exit code 1
          1-2-1 killed by ana
        job 2 ana/load pending
          2-0-1 pending (new), not before 0 s
          2-1-1 killed task 1/1, which it was to run after, did not finish
          2-2-1 killed task 1/2, which it was to run after, did not finish
        job 3 ana/again pending
          3-0-1 pending (new), not before 0 s
          3-1-1 killed task 1/1, which it was to run after, did not finish
          3-2-1 killed task 1/2, which it was to run after, did not finish
        job 4 ana/rescue pending
          4-0-1 killed task 1/0, for whose failure it waited, has finished
          4-1-1 pending (new), not before 0 s
          4-2-1 pending (new), not before 0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_resize_leaves_tasks_without_a_counterpart_alone() {
    session(&expect![[r#"
        > submit ana/rows 2
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > submit ana/load 2 after=rows:each-task
        SUBMIT job 2 (new)
        QUEUE job 2
        SUBMIT 2-0-1 (new)
        QUEUE 2-0-1
        SUBMIT 2-1-1 (new)
        QUEUE 2-1-1
        job 2
        > submit ana/load 3 after=rows:each-task
        UPDATE_OPEN job 2
        UPDATE_PENDING job 2
        SUBMIT 2-2-1 (new)
        QUEUE 2-2-1
        ENABLE job 2
        ENABLE 2-2-1
        UPDATE_PENDING 2-0-1
        UPDATE_PENDING 2-1-1
        job 2, updated
        > submit ana/rows 1
        UPDATE_OPEN job 1
        UPDATE_PENDING job 1
        UPDATE_PENDING 1-0-1
        job 1, updated
        > show
        0 s
        job 1 ana/rows pending
          update 1 to 2 rolling, changing 0
          1-0-1 pending (new), not before 0 s
          1-1-1 pending (new), not before 0 s, version 1
        job 2 ana/load pending
          update 1 to 2 rolling, changing 0 1 2
          2-0-1 queued
          2-1-1 queued
          2-2-1 pending (new), not before 0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > restart ana/load/1
        0 start
        > show
        0 s
        job 1 ana/rows pending
          update 1 to 2 rolling, changing 0
          1-0-1 pending (new), not before 0 s
          1-1-1 pending (new), not before 0 s, version 1
        job 2 ana/load pending
          update 1 to 2 rolling, changing 0 1 2
          2-0-1 queued
          2-1-1 queued
          2-2-1 pending (new), not before 0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_task_over_its_maximum_has_failed_for_good_unless_it_always_runs() {
    session(&expect![[r#"
        > submit ana/once 1 max-runtime=60
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/ever 1 max-runtime=60 restart=always
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > assign 1-0-1 m1; 2-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > started 2-0-1
        START 2-0-1 on 1
        > ended 1-0-1 over-runtime 60
        FAIL 1-0-1 (it ran longer than maxRuntime (1 m))
        FAIL job 1
        > ended 2-0-1 over-runtime 60
        FAIL 2-0-1 (it ran longer than maxRuntime (1 m))
        SUBMIT 2-0-2 (failed, will be retried)
        > show
        0 s
        job 1 ana/once dead
          1-0-1 failed, failures 1, last: it ran longer than maxRuntime (1 m)
        job 2 ana/ever running
          2-0-2 pending (failed, will be retried), not before 1 s, failures 1, last: it ran longer than maxRuntime (1 m)
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}
