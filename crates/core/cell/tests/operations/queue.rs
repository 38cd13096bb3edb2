//! The batch queue of a cell: what waits in it, and what is enabled.

use expect_test::expect;

use crate::script::session;

#[test]
fn best_effort_batch_jobs_wait_until_their_tasks_are_enabled() {
    session(&expect![[r#"
        > queueing
        SET_QUEUE the cell
        > submit ana/load 3 priority=110 appclass=batch
        SUBMIT job 1 (new)
        QUEUE job 1
        SUBMIT 1-0-1 (new)
        QUEUE 1-0-1
        SUBMIT 1-1-1 (new)
        QUEUE 1-1-1
        SUBMIT 1-2-1 (new)
        QUEUE 1-2-1
        job 1
        > submit ana/web 1 priority=200
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > assign 1-0-1 m1
        refused: task 1/0 is not pending in that generation
        > enable 1=2
        ENABLE job 1
        ENABLE 1-0-1
        ENABLE 1-1-1
        accepted
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > enable 1=2 7=1 2=1
        refused: only 1 of its tasks wait in the queue
        refused: there is no job 7
        refused: only 0 of its tasks wait in the queue
        > enable 1=1
        ENABLE 1-2-1
        accepted
        > enable 1=0
        refused: only 0 of its tasks wait in the queue
        > show
        0 s
        job 1 ana/load running
          1-0-1 starting on 1 []
          1-1-1 pending (new), not before 0 s
          1-2-1 pending (new), not before 0 s
        job 2 ana/web pending
          2-0-1 pending (new), not before 0 s
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn what_loses_its_machine_waits_again_and_what_fails_does_not() {
    session(&expect![[r#"
        > queueing
        SET_QUEUE the cell
        > submit ana/load 2 priority=110 appclass=batch delay=1
        SUBMIT job 1 (new)
        QUEUE job 1
        SUBMIT 1-0-1 (new)
        QUEUE 1-0-1
        SUBMIT 1-1-1 (new)
        QUEUE 1-1-1
        job 1
        > submit ben/load 1 priority=110 appclass=batch requeue=yes
        SUBMIT job 2 (new)
        QUEUE job 2
        SUBMIT 2-0-1 (new)
        QUEUE 2-0-1
        job 2
        > enable 1=2 2=1
        ENABLE job 1
        ENABLE 1-0-1
        ENABLE 1-1-1
        ENABLE job 2
        ENABLE 2-0-1
        accepted
        accepted
        > assign 1-0-1 m1; 1-1-1 m1; 2-0-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        SCHEDULE job 2 on 2
        SCHEDULE 2-0-1 on 2
        accepted
        accepted
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > started 1-1-1
        START 1-1-1 on 1
        > started 2-0-1
        START 2-0-1 on 2
        > at 60
        > ended 1-0-1 exit 1
        FAIL 1-0-1 (exit code 1)
        SUBMIT 1-0-2 (failed, will be retried)
        > silent m2
        DOWN machine 2
        EVICT 2-0-1 (machine failure)
        SUBMIT 2-0-2 (evicted: machine failure)
        QUEUE 2-0-2
        > show
        60 s
        job 1 ana/load running
          1-0-2 pending (failed, will be retried), not before 61 s, failures 1, last: exit code 1
          1-1-1 healthy on 1 []
        job 2 ben/load running
          2-0-2 queued, last: lost: machine m2 went silent
        m1 up [1-1-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 down [] takes 0 cores, 0 B, ports [], 4 free
        > enable 2=1
        ENABLE 2-0-2
        accepted
        > ended 1-1-1 lost
        LOST 1-1-1 (lost: )
        SUBMIT 1-1-2 (was lost)
        QUEUE 1-1-2
        > show
        60 s
        job 1 ana/load running
          1-0-2 pending (failed, will be retried), not before 61 s, failures 1, last: exit code 1
          1-1-2 queued, last: lost: 
        job 2 ben/load running
          2-0-2 pending (new), not before 61 s, last: lost: machine m2 went silent
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 down [] takes 0 cores, 0 B, ports [], 4 free
        > kill ana/load
        KILL 1-0-2 (by ana)
        KILL 1-1-2 (by ana)
        KILL job 1 (by ana)
        killed 2
        > show
        60 s
        job 1 ana/load dead
          1-0-2 killed by ana, failures 1, last: exit code 1
          1-1-2 killed by ana, last: lost: 
        job 2 ben/load running
          2-0-2 pending (new), not before 61 s, last: lost: machine m2 went silent
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 down [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_job_after_others_waits_for_its_turn_then() {
    session(&expect![[r#"
        > queueing
        SET_QUEUE the cell
        > submit ana/first 1 priority=200
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/then 2 priority=110 appclass=batch after=first
        SUBMIT job 2 (new)
        QUEUE job 2
        SUBMIT 2-0-1 (new)
        QUEUE 2-0-1
        SUBMIT 2-1-1 (new)
        QUEUE 2-1-1
        job 2
        > enable 2=1
        refused: it runs after other jobs, which have not finished
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        FINISH job 1
        > enable 2=1
        ENABLE job 2
        ENABLE 2-0-1
        accepted
        > show
        0 s
        job 1 ana/first dead
          1-0-1 finished, last: exit code 0
        job 2 ana/then pending
          2-0-1 pending (new), not before 0 s
          2-1-1 queued
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_gang_is_enabled_whole_and_a_throttled_job_in_part() {
    session(&expect![[r#"
        > queueing
        SET_QUEUE the cell
        > submit ana/gang 3 priority=110 appclass=batch gang=yes
        SUBMIT job 1 (new)
        QUEUE job 1
        SUBMIT 1-0-1 (new)
        QUEUE 1-0-1
        SUBMIT 1-1-1 (new)
        QUEUE 1-1-1
        SUBMIT 1-2-1 (new)
        QUEUE 1-2-1
        job 1
        > submit ana/array 5 priority=200 appclass=batch running-at-once=2
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
        SUBMIT 2-4-1 (new)
        QUEUE 2-4-1
        job 2
        > enable 1=2
        refused: it is a gang, and 3 of its tasks have to be enabled together
        > enable 1=3
        ENABLE job 1
        ENABLE 1-0-1
        ENABLE 1-1-1
        ENABLE 1-2-1
        accepted
        > enable 2=3
        refused: 0 of its tasks are enabled, and at most 2 may be at once
        > enable 2=2
        ENABLE job 2
        ENABLE 2-0-1
        ENABLE 2-1-1
        accepted
        > enable 2=1
        refused: 2 of its tasks are enabled, and at most 2 may be at once
        > assign 2-0-1 m1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        > started 2-0-1
        START 2-0-1 on 1
        > ended 2-0-1 exit 0
        FINISH 2-0-1
        > enable 2=1
        ENABLE 2-2-1
        accepted
        > show
        0 s
        job 1 ana/gang pending
          1-0-1 pending (new), not before 0 s
          1-1-1 pending (new), not before 0 s
          1-2-1 pending (new), not before 0 s
        job 2 ana/array running
          2-0-1 finished, last: exit code 0
          2-1-1 pending (new), not before 0 s
          2-2-1 pending (new), not before 0 s
          2-3-1 queued
          2-4-1 queued
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_queued_job_is_updated_resized_killed_and_restarted_like_a_pending_one() {
    session(&expect![[r#"
        > queueing
        SET_QUEUE the cell
        > submit ana/load 2 priority=110 appclass=batch
        SUBMIT job 1 (new)
        QUEUE job 1
        SUBMIT 1-0-1 (new)
        QUEUE 1-0-1
        SUBMIT 1-1-1 (new)
        QUEUE 1-1-1
        job 1
        > submit ana/load 2 priority=111 appclass=batch
        UPDATE_OPEN job 1
        UPDATE_PENDING job 1
        UPDATE_PENDING 1-0-1
        UPDATE_PENDING 1-1-1
        job 1, updated
        > resize ana/load 3
        UPDATE_OPEN job 1
        UPDATE_PENDING job 1
        SUBMIT 1-2-1 (new)
        QUEUE 1-2-1
        UPDATE_PENDING 1-0-1
        UPDATE_PENDING 1-1-1
        version 3
        > resize ana/load 1
        UPDATE_OPEN job 1
        UPDATE_PENDING job 1
        UPDATE_PENDING 1-0-1
        version 4
        > enable 1=1
        ENABLE job 1
        ENABLE 1-0-1
        accepted
        > resize ana/load 2
        UPDATE_OPEN job 1
        UPDATE_PENDING job 1
        UPDATE_PENDING 1-0-1
        UPDATE_PENDING 1-1-1
        version 5
        > show
        0 s
        job 1 ana/load pending
          update 1 to 5 rolling, changing 0 1
          1-0-1 pending (new), not before 0 s
          1-1-1 queued
          1-2-1 queued, version 3
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > kill ana/load
        KILL 1-0-1 (by ana)
        KILL 1-1-1 (by ana)
        KILL 1-2-1 (by ana)
        KILL job 1 (by ana)
        killed 3
        > restart ana/load
        SUBMIT job 1 (new)
        QUEUE job 1
        SUBMIT 1-0-2 (new)
        QUEUE 1-0-2
        SUBMIT 1-1-2 (new)
        QUEUE 1-1-2
        2 start
        > show
        0 s
        job 1 ana/load queued
          update 1 to 5 closed, changing 0 1
          1-0-2 queued
          1-1-2 queued
          1-2-1 killed by ana, version 3
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > submit ana/load 2 priority=200 appclass=batch
        UPDATE_OPEN job 1
        UPDATE_PENDING job 1
        UPDATE_PENDING 1-0-2
        UPDATE_PENDING 1-1-2
        job 1, updated
        > enable 1=2
        ENABLE job 1
        ENABLE 1-0-2
        ENABLE 1-1-2
        accepted
        > show
        0 s
        job 1 ana/load pending
          update 5 to 6 rolling, changing 0 1
          1-0-2 pending (new), not before 0 s
          1-1-2 pending (new), not before 0 s
          1-2-1 killed by ana, version 3
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn settings_and_weights_are_for_administrators_and_have_bounds() {
    session(&expect![[r#"
        > queue on skipped half-life=3600 assumed=60
        SET_QUEUE the cell
        done
        > queue on skipped half-life=3600 assumed=60
        done
        > queue on half-life=0
        refused: a half-life and an assumed runtime are from 1 s to 366 d, not 0 s
        > queue on assumed=0
        refused: a half-life and an assumed runtime are from 1 s to 366 d, not 0 s
        > queue on assumed=31622401
        refused: a half-life and an assumed runtime are from 1 s to 366 d, not 366 d
        > as ana queue off
        refused: ana may not set how the batch queue decides: an administrator may
        > as ana weight ben cpu=2000
        refused: ana may not set how the batch queue decides: an administrator may
        > weight ben cpu=2000 ram=500
        SET_WEIGHTS the cell
        done
        > weight ben cpu=2000 ram=500
        done
        > weight ben
        SET_WEIGHTS the cell
        done
        > queue off
        SET_QUEUE the cell
        done
        > submit ana/load 1 priority=110 appclass=batch
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
    "#]]);
}

#[test]
fn what_is_moved_keeps_its_room() {
    session(&expect![[r#"
        > queueing
        SET_QUEUE the cell
        > submit ana/load 1 priority=110 appclass=batch
        SUBMIT job 1 (new)
        QUEUE job 1
        SUBMIT 1-0-1 (new)
        QUEUE 1-0-1
        job 1
        > enable 1=1
        ENABLE job 1
        ENABLE 1-0-1
        accepted
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > move 1-0-1 m2
        USE_CAPABILITY job 1 move-tasks
        STOP 1-0-1 (evict, moved to empty its machine)
        done
        > ended 1-0-1 stopped
        EVICT 1-0-1 (moved to empty its machine)
        SUBMIT 1-0-2 (evicted: moved to empty its machine)
    "#]]);
}
