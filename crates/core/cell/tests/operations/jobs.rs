//! Submitting, killing and forgetting jobs.

use expect_test::expect;

use crate::script::session;

#[test]
fn a_submitted_job_is_pending_and_resubmission_changes_nothing() {
    session(&expect![[r#"
        > submit ana/web 2
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > submit ana/web 2
        job 1, unchanged
        > submit ana/web 3
        UPDATE_OPEN job 1
        UPDATE_PENDING job 1
        SUBMIT 1-2-1 (new)
        UPDATE_PENDING 1-0-1
        UPDATE_PENDING 1-1-1
        job 1, updated
        > submit ana/web 2 cpu=101
        UPDATE_OPEN job 1
        UPDATE_PENDING job 1
        UPDATE_PENDING 1-0-1
        UPDATE_PENDING 1-1-1
        job 1, updated
        > submit bob/web 3
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        SUBMIT 2-1-1 (new)
        SUBMIT 2-2-1 (new)
        job 2
        > show
        0 s
        job 1 ana/web pending
          update 1 to 3 rolling, changing 0 1
          1-0-1 pending (new), not before 0 s
          1-1-1 pending (new), not before 0 s
          1-2-1 pending (new), not before 0 s, version 2
        job 2 bob/web pending
          2-0-1 pending (new), not before 0 s
          2-1-1 pending (new), not before 0 s
          2-2-1 pending (new), not before 0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn the_name_of_a_dead_job_is_free_and_denotes_the_newest() {
    session(&expect![[r#"
        > submit ana/web 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > kill ana/web
        KILL 1-0-1 (by ana)
        KILL job 1 (by ana)
        killed 1
        > submit ana/web 1
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > kill ana/web
        KILL 2-0-1 (by ana)
        KILL job 2 (by ana)
        killed 1
        > show
        0 s
        job 1 ana/web dead, not the newest of that name
          1-0-1 killed by ana
        job 2 ana/web dead
          2-0-1 killed by ana
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > forget 2
        (nothing)
        > show
        0 s
        job 1 ana/web dead
          1-0-1 killed by ana
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > submit ana/web 1
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > forget 1 2 3 99
        (nothing)
        > show
        0 s
        job 3 ana/web pending
          3-0-1 pending (new), not before 0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_description_that_cannot_be_is_refused() {
    session(&expect![[r#"
        > submit ana/web 0
        refused: the job description is not valid: tasks: must be 1 to 100000, is 0
        > submit ana/web 4294967295
        refused: the job description is not valid: tasks: must be 1 to 100000, is 4294967295
        > submit ana/web 1 cpu=0
        refused: the job description is not valid: cpu: must be 0.001 cores to 1099511627.776 cores, is 0 cores
        > submit ana/web 1 cmd=${port.UPPER}
        refused: the job description is not valid: cmd[0]: '${port.UPPER}' refers to nothing: there are ${port.NAME} and ${task.index}, ${task.job}, ${task.user}, ${task.cell}, ${task.cpu}, ${task.ram}, ${task.tasks}
        > submit ana/web 1 big=1:5
        refused: the job description is not valid: overrides["1"]: there is no task 1: the job has tasks 0 to 0
        > submit ana/web 100000 ram=1099511627776
        refused: the job description is not valid: ram: must be 0 B to 1024 PiB, is 16383.9 PiB
        > show
        0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_kill_ends_pending_tasks_at_once_and_running_ones_when_reported() {
    session(&expect![[r#"
        > submit ana/web 3
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > kill ana/web/0-1
        STOP 1-0-1 (kill, by ana)
        KILL 1-1-1 (by ana)
        killed 2
        > kill ana/web/0-1
        killed 0
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 [], stopping (kill, by ana)
          1-1-1 killed by ana
          1-2-1 pending (new), not before 0 s
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > kill ana/web
        KILL 1-2-1 (by ana)
        killed 1
        > ended 1-0-1 exit 0
        KILL 1-0-1 (by ana)
        KILL job 1 (by ana)
        > show
        0 s
        job 1 ana/web dead
          1-0-1 killed by ana, last: exit code 0
          1-1-1 killed by ana
          1-2-1 killed by ana
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > kill ana/web
        killed 0
    "#]]);
}

#[test]
fn a_dying_task_counts_as_killed_however_it_ends() {
    session(&expect![[r#"
        > submit ana/web 4
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        SUBMIT 1-3-1 (new)
        job 1
        > assign 1-0-1 m1 ; 1-1-1 m1 ; 1-2-1 m1 ; 1-3-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        SCHEDULE 1-2-1 on 1
        SCHEDULE 1-3-1 on 1
        accepted
        accepted
        accepted
        accepted
        > kill ana/web
        STOP 1-0-1 (kill, by ana)
        STOP 1-1-1 (kill, by ana)
        STOP 1-2-1 (kill, by ana)
        STOP 1-3-1 (kill, by ana)
        killed 4
        > started 1-0-1
        START 1-0-1 on 1
        > ended 1-0-1 exit 3
        KILL 1-0-1 (by ana)
        > ended 1-1-1 lost rebooted
        KILL 1-1-1 (by ana)
        > ended 1-2-1 stopped
        KILL 1-2-1 (by ana)
        > ended 1-3-1 signal 9
        KILL 1-3-1 (by ana)
        KILL job 1 (by ana)
        > show
        0 s
        job 1 ana/web dead
          1-0-1 killed by ana, last: exit code 3
          1-1-1 killed by ana, last: lost: rebooted
          1-2-1 killed by ana, last: stopped
          1-3-1 killed by ana, last: signal 9
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn owners_and_administrators_may_kill_and_nobody_else() {
    session(&expect![[r#"
        > submit ana/web 2
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > as bob kill ana/web
        refused: bob may not kill ana/web: ana, an administrator or a user with the capability administer-jobs may
        > as bob kill ana/web/7
        refused: bob may not kill ana/web: ana, an administrator or a user with the capability administer-jobs may
        > as root kill ana/web/0
        USE_CAPABILITY job 1 administer-jobs
        KILL 1-0-1 (by root)
        killed 1
        > as ana kill web/1
        KILL 1-1-1 (by ana)
        KILL job 1 (by root)
        killed 1
        > as root kill ana/web
        killed 0
        > as bob kill ana/web
        refused: bob may not kill ana/web: ana, an administrator or a user with the capability administer-jobs may
    "#]]);
}

#[test]
fn a_kill_of_what_is_not_there_is_refused_and_changes_nothing() {
    session(&expect![[r#"
        > submit ana/web 2
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > kill ana/web/2
        refused: the job has tasks 0 to 1 only
        > kill ana/web/0,1-2
        refused: the job has tasks 0 to 1 only
        > kill ana/web/0-4294967295
        refused: the job has tasks 0 to 1 only
        > as ana kill other
        refused: there is no job ana/other
        > as ana kill bob/web
        refused: there is no job bob/web
        > show
        0 s
        job 1 ana/web pending
          1-0-1 pending (new), not before 0 s
          1-1-1 pending (new), not before 0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn only_the_dead_are_forgotten() {
    session(&expect![[r#"
        > submit ana/pending 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/dying 1
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > submit ana/dead 1
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > assign 2-0-1 m1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        > kill ana/dying
        STOP 2-0-1 (kill, by ana)
        killed 1
        > kill ana/dead
        KILL 3-0-1 (by ana)
        KILL job 3 (by ana)
        killed 1
        > forget 1 2 3 3 0 18446744073709551615
        (nothing)
        > show
        0 s
        job 1 ana/pending pending
          1-0-1 pending (new), not before 0 s
        job 2 ana/dying running
          2-0-1 starting on 1 [], stopping (kill, by ana)
        m1 up [2-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > as ana kill dead
        refused: there is no job ana/dead
        > submit ana/dead 1
        SUBMIT job 4 (new)
        SUBMIT 4-0-1 (new)
        job 4
    "#]]);
}
