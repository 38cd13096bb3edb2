//! Moves of running tasks to other machines.

use expect_test::expect;

use crate::script::session;

#[test]
fn a_task_moves_within_its_budget_and_by_who_may() {
    session(&expect![[r#"
        > submit ana/web 3 cpu=300 at-once=1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > submit bob/big 1 cpu=700 ram=64
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > assign 1-0-1 m1 ; 1-1-1 m1 ; 1-2-1 m2
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
        > as eva move 1-0-1 m2 for 2-0-1
        refused: eva may not move tasks of ana/web: ana, an administrator or a user with the capability move-tasks may
        > as eva move 7-0-1 m2
        refused: there is no job 7
        > allow-to eva move-tasks
        GRANT_CAPABILITY eva move-tasks
        done
        > as eva move 1-2-1 m2
        refused: ana/web/2 cannot be moved now: that incarnation is not running and healthy, or is being stopped
        > as eva move 1-0-1 m9
        refused: there is no machine m9
        > as eva move 1-0-2 m2
        refused: ana/web/0 cannot be moved now: that incarnation is not running and healthy, or is being stopped
        > as eva move 1-2-1 m1
        refused: ana/web/2 cannot be moved now: that incarnation is not running and healthy, or is being stopped
        > started 1-2-1
        START 1-2-1 on 2
        > as eva move 1-0-1 m2 for 2-0-1
        USE_CAPABILITY job 1 move-tasks
        STOP 1-0-1 (evict, moved so that 2-0-1 fits)
        done
        > as eva move 1-0-1 m2 for 2-0-1
        refused: ana/web/0 cannot be moved now: that incarnation is not running and healthy, or is being stopped
        > as eva move 1-1-1 m2 for 2-0-1
        refused: ana/web/1 cannot be moved now: its disruption budget allows no disruption now
        > ended 1-0-1 stopped
        EVICT 1-0-1 (moved so that 2-0-1 fits)
        SUBMIT 1-0-2 (evicted: moved so that 2-0-1 fits)
        > assign 2-0-1 m1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        > assign 1-0-2 m2
        SCHEDULE 1-0-2 on 2
        accepted
        > started 1-0-2
        START 1-0-2 on 2
        > as ana move 1-0-2 m2
        refused: ana/web/0 cannot be moved now: it is on that machine
        > show
        0 s
        job 1 ana/web running
          1-0-2 healthy on 2 [], last: stopped
          1-1-1 healthy on 1 []
          1-2-1 healthy on 2 []
        job 2 bob/big running
          2-0-1 starting on 1 []
        m1 up [1-1-1 2-0-1] takes 1 core, 128 MiB, ports [], 4 free
        m2 up [1-0-2 1-2-1] takes 0.6 cores, 128 MiB, ports [], 4 free
        > as ana move 1-0-2 m1
        refused: ana/web/0 cannot be moved now: it does not fit on that machine now
        > assign 2-0-1 m1
        refused: task 2/0 is not pending in that generation
        > as ana move 1-1-1 m2
        STOP 1-1-1 (evict, moved to empty its machine)
        done
        > ended 1-0-2 stopped
        LOST 1-0-2 (stopped)
        SUBMIT 1-0-3 (was lost)
        > show
        0 s
        job 1 ana/web running
          1-0-3 pending (was lost), not before 1 s, last: stopped
          1-1-1 healthy on 1 [], stopping (evict, moved to empty its machine)
          1-2-1 healthy on 2 []
        job 2 bob/big running
          2-0-1 starting on 1 []
        m1 up [1-1-1 2-0-1] takes 1 core, 128 MiB, ports [], 4 free
        m2 up [1-2-1] takes 0.3 cores, 64 MiB, ports [], 4 free
    "#]]);
}

#[test]
fn what_belongs_to_its_machine_or_is_in_other_hands_stays() {
    session(&expect![[r#"
        > submit ana/set 1 cpu=400 allocs=none
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/in 1 cpu=100 in=set
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > submit ana/every 1 cpu=50 everywhere=yes
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        SUBMIT 3-1-1 (new)
        job 3
        > submit ana/web 2 cpu=100
        SUBMIT job 4 (new)
        SUBMIT 4-0-1 (new)
        SUBMIT 4-1-1 (new)
        job 4
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > assign 2-0-1 m1 in 1-0-1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1 in 1-0-1
        accepted
        > assign 3-0-1 m1 ; 3-1-1 m2
        SCHEDULE job 3 on 1
        SCHEDULE 3-0-1 on 1
        SCHEDULE 3-1-1 on 2
        accepted
        accepted
        > assign 4-0-1 m1 ; 4-1-1 m1
        SCHEDULE job 4 on 1
        SCHEDULE 4-0-1 on 1
        SCHEDULE 4-1-1 on 1
        accepted
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > started 2-0-1
        START 2-0-1 on 1
        > started 3-0-1
        START 3-0-1 on 1
        > started 4-0-1
        START 4-0-1 on 1
        > started 4-1-1
        START 4-1-1 on 1
        > move 1-0-1 m2
        refused: ana/set/0 cannot be moved now: what runs in an alloc moves with it, and allocs are not moved
        > move 2-0-1 m2
        refused: ana/in/0 cannot be moved now: what runs in an alloc moves with it, and allocs are not moved
        > move 3-0-1 m2
        refused: ana/every/0 cannot be moved now: its job has a task on every machine
        > update ana/web 2 cpu=100 cmd=new
        UPDATE_OPEN job 4
        UPDATE_RUNNING job 4
        version 2
        > move 4-0-1 m2
        refused: ana/web/0 cannot be moved now: its job has an open update: wait until it has ended, or close it (bourg update close)
        > control undo ana/web
        UPDATE_UNDO job 4
        UPDATE_UNDONE job 4
        version 2
        > drain m2
        DRAIN machine 2 ()
        STOP 3-1-1 (evict, machine shutdown)
        1 leave
        > move 4-0-1 m2
        refused: ana/web/0 cannot be moved now: it does not fit on that machine now
        > undrain m2
        UNDRAIN machine 2
        done
        > drain m1
        DRAIN machine 1 ()
        STOP 2-0-1 (evict, machine shutdown)
        STOP 1-0-1 (evict, machine shutdown)
        STOP 4-0-1 (evict, machine shutdown)
        STOP 4-1-1 (evict, machine shutdown)
        4 leave
        > move 4-0-1 m2
        refused: ana/web/0 cannot be moved now: that incarnation is not running and healthy, or is being stopped
    "#]]);
}
