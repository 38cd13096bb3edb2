//! Jobs that were resized to no tasks.

use expect_test::expect;

use crate::script::session;

#[test]
fn a_job_that_is_resized_to_no_tasks_lives_on_until_it_is_killed() {
    session(&expect![[r#"
        > submit ana/web 2
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
        > resize ana/web 0
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_SUCCEED job 1
        STOP 1-0-1 (kill, removed: its job needs it no more)
        KILL 1-1-1 (removed: its job needs it no more)
        version 2
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 succeeded
          1-0-1 healthy on 1 [], stopping (kill, removed: its job needs it no more), version 1
          1-1-1 killed removed: its job needs it no more, version 1
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > ended 1-0-1 stopped
        KILL 1-0-1 (removed: its job needs it no more)
        > show
        0 s
        job 1 ana/web running
          update 1 to 2 succeeded
          1-0-1 killed removed: its job needs it no more, last: stopped, version 1
          1-1-1 killed removed: its job needs it no more, version 1
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > charges
        ana production 0.2 cores and 128 MiB of nothing
        > resize ana/web 0
        unchanged, version 2
        > restart ana/web
        0 start
        > resize ana/web 2
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        SUBMIT 1-0-2 (new)
        SUBMIT 1-1-2 (new)
        version 3
        > show
        0 s
        job 1 ana/web running
          update 2 to 3 rolling, changing 0 1
          1-0-2 pending (new), not before 0 s, last: stopped
          1-1-2 pending (new), not before 0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > resize ana/web 0
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_SUCCEED job 1
        KILL 1-0-2 (removed: its job needs it no more)
        KILL 1-1-2 (removed: its job needs it no more)
        version 4
        > kill ana/web
        KILL job 1 (by ana)
        killed 0
        > submit ana/web 1
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > resize ana/web 0
        UPDATE_OPEN job 2
        UPDATE_PENDING job 2
        UPDATE_SUCCEED job 2
        KILL 2-0-1 (removed: its job needs it no more)
        version 2
        > submit ana/web 1
        UPDATE_OPEN job 2
        UPDATE_PENDING job 2
        SUBMIT 2-0-2 (new)
        job 2, updated
        > show
        0 s
        job 1 ana/web dead, not the newest of that name
          update 2 to 4 closed
          1-0-2 killed removed: its job needs it no more, last: stopped, version 3
          1-1-2 killed removed: its job needs it no more, version 3
        job 2 ana/web pending
          update 2 to 3 rolling, changing 0
          2-0-2 pending (new), not before 0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn what_waits_for_a_job_without_tasks_ends_when_it_is_killed() {
    session(&expect![[r#"
        > submit ana/first 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/second 1 after=first
        SUBMIT job 2 (new)
        QUEUE job 2
        SUBMIT 2-0-1 (new)
        QUEUE 2-0-1
        job 2
        > submit ana/child 1 parent=first
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > resize ana/second 0
        UPDATE_OPEN job 2
        UPDATE_PENDING job 2
        UPDATE_SUCCEED job 2
        KILL 2-0-1 (removed: its job needs it no more)
        version 2
        > resize ana/child 0
        UPDATE_OPEN job 3
        UPDATE_PENDING job 3
        UPDATE_SUCCEED job 3
        KILL 3-0-1 (removed: its job needs it no more)
        version 2
        > resize ana/first 0
        UPDATE_OPEN job 1
        UPDATE_PENDING job 1
        UPDATE_SUCCEED job 1
        KILL 1-0-1 (removed: its job needs it no more)
        version 2
        > show
        0 s
        job 1 ana/first pending
          update 1 to 2 succeeded
          1-0-1 killed removed: its job needs it no more, version 1
        job 2 ana/second queued
          update 1 to 2 succeeded
          2-0-1 killed removed: its job needs it no more, version 1
        job 3 ana/child pending
          update 1 to 2 succeeded
          3-0-1 killed removed: its job needs it no more, version 1
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > kill ana/first
        KILL job 1 (by ana)
        KILL job 3 (its parent, job 1, ended)
        KILL job 2 (job 1, which it was to run after, did not finish)
        killed 0
        > show
        0 s
        job 1 ana/first dead
          update 1 to 2 closed
          1-0-1 killed removed: its job needs it no more, version 1
        job 2 ana/second dead
          update 1 to 2 closed
          2-0-1 killed removed: its job needs it no more, version 1
        job 3 ana/child dead
          update 1 to 2 closed
          3-0-1 killed removed: its job needs it no more, version 1
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}
