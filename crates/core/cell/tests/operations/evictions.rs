//! Evictions: which tasks have to leave their machines, and for whom.

use expect_test::expect;

use crate::script::session;

#[test]
fn a_task_of_higher_priority_takes_the_place_of_a_lower_one() {
    session(&expect![[r#"
        > submit ana/train 1 priority=free cpu=700
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit bob/web 1 cpu=500
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > assign 2-0-1 m1
        refused: it does not fit on machine 1: lacks CPU: 0.5 cores asked, 0.3 cores free
        > assign 2-0-1 m1 evicting 1-0-1
        STOP 1-0-1 (evict, preempted by 2-0-1)
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        > show
        0 s
        job 1 ana/train running
          1-0-1 healthy on 1 [], stopping (evict, preempted by 2-0-1)
        job 2 bob/web running
          2-0-1 starting on 1 []
        m1 up [1-0-1 2-0-1] takes 1.2 cores, 128 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > assign 1-0-2 m2
        refused: task 1/0 is not pending in that generation
        > ended 1-0-1 signal 15
        EVICT 1-0-1 (preempted by 2-0-1)
        SUBMIT 1-0-2 (evicted: preempted by 2-0-1)
        > show
        0 s
        job 1 ana/train running
          1-0-2 pending (evicted: preempted by 2-0-1), not before 0 s, last: signal 15
        job 2 bob/web running
          2-0-1 starting on 1 []
        m1 up [2-0-1] takes 0.5 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > assign 1-0-2 m1
        refused: it does not fit on machine 1: lacks CPU: 0.7 cores asked, 0.5 cores free
        > assign 1-0-2 m2
        SCHEDULE 1-0-2 on 2
        accepted
    "#]]);
}

#[test]
fn an_evicted_task_is_pending_again_however_it_ends() {
    session(&expect![[r#"
        > submit ana/train 3 priority=free cpu=300
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > submit bob/web 3 cpu=300
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        SUBMIT 2-1-1 (new)
        SUBMIT 2-2-1 (new)
        job 2
        > assign 1-0-1 m1; 1-1-1 m1; 1-2-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        SCHEDULE 1-2-1 on 1
        accepted
        accepted
        accepted
        > assign 2-0-1 m1 evicting 1-0-1; 2-1-1 m1 evicting 1-1-1; 2-2-1 m1 evicting 1-2-1
        STOP 1-0-1 (evict, preempted by 2-0-1)
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        STOP 1-1-1 (evict, preempted by 2-1-1)
        SCHEDULE 2-1-1 on 1
        STOP 1-2-1 (evict, preempted by 2-2-1)
        SCHEDULE 2-2-1 on 1
        accepted
        accepted
        accepted
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        > ended 1-1-1 exit 1
        EVICT 1-1-1 (preempted by 2-1-1)
        SUBMIT 1-1-2 (evicted: preempted by 2-1-1)
        > ended 1-2-1 lost gone
        EVICT 1-2-1 (preempted by 2-2-1)
        SUBMIT 1-2-2 (evicted: preempted by 2-2-1)
        > show
        0 s
        job 1 ana/train running
          1-0-1 finished, last: exit code 0
          1-1-2 pending (evicted: preempted by 2-1-1), not before 0 s, last: exit code 1
          1-2-2 pending (evicted: preempted by 2-2-1), not before 0 s, last: lost: gone
        job 2 bob/web running
          2-0-1 starting on 1 []
          2-1-1 starting on 1 []
          2-2-1 starting on 1 []
        m1 up [2-0-1 2-1-1 2-2-1] takes 0.9 cores, 192 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn an_evicted_task_can_be_killed_and_a_silent_machine_ends_both() {
    session(&expect![[r#"
        > submit ana/train 2 priority=free cpu=400
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > submit bob/web 2 cpu=400
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        SUBMIT 2-1-1 (new)
        job 2
        > assign 1-0-1 m1; 1-1-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        accepted
        accepted
        > assign 2-0-1 m1 evicting 1-0-1; 2-1-1 m1 evicting 1-1-1
        STOP 1-0-1 (evict, preempted by 2-0-1)
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        STOP 1-1-1 (evict, preempted by 2-1-1)
        SCHEDULE 2-1-1 on 1
        accepted
        accepted
        > kill ana/train/0
        STOP 1-0-1 (kill, by ana)
        killed 1
        > silent m1
        DOWN machine 1
        KILL 1-0-1 (by ana)
        EVICT 1-1-1 (machine failure)
        SUBMIT 1-1-2 (evicted: machine failure)
        EVICT 2-0-1 (machine failure)
        SUBMIT 2-0-2 (evicted: machine failure)
        EVICT 2-1-1 (machine failure)
        SUBMIT 2-1-2 (evicted: machine failure)
        > show
        0 s
        job 1 ana/train running
          1-0-1 killed by ana, last: lost: machine m1 went silent
          1-1-2 pending (evicted: machine failure), not before 0 s, last: lost: machine m1 went silent
        job 2 bob/web running
          2-0-2 pending (evicted: machine failure), not before 0 s, last: lost: machine m1 went silent
          2-1-2 pending (evicted: machine failure), not before 0 s, last: lost: machine m1 went silent
        m1 down [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn no_band_of_production_evicts_its_own_and_nobody_a_higher_one() {
    session(&expect![[r#"
        > submit ana/batch 1 priority=110 cpu=900
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/low 1 priority=120 cpu=900
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > submit ana/high 1 priority=359 cpu=900
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > submit ana/watch 1 priority=360 cpu=900
        SUBMIT job 4 (new)
        SUBMIT 4-0-1 (new)
        job 4
        > submit ana/alarm 1 priority=450 cpu=900
        SUBMIT job 5 (new)
        SUBMIT 5-0-1 (new)
        job 5
        > submit ana/beb 1 priority=115 cpu=900
        SUBMIT job 6 (new)
        SUBMIT 6-0-1 (new)
        job 6
        > assign 2-0-1 m1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        > assign 3-0-1 m1 evicting 2-0-1
        refused: 2-0-1 cannot be evicted for it: both are in the same band, whose tasks do not evict each other
        > assign 1-0-1 m1 evicting 2-0-1
        refused: 2-0-1 cannot be evicted for it: its priority is not lower
        > assign 4-0-1 m1 evicting 2-0-1
        STOP 2-0-1 (evict, preempted by 4-0-1)
        SCHEDULE job 4 on 1
        SCHEDULE 4-0-1 on 1
        accepted
        > ended 2-0-1 signal 15
        EVICT 2-0-1 (preempted by 4-0-1)
        SUBMIT 2-0-2 (evicted: preempted by 4-0-1)
        > assign 5-0-1 m1 evicting 4-0-1
        refused: 4-0-1 cannot be evicted for it: both are in the same band, whose tasks do not evict each other
        > assign 1-0-1 m2
        SCHEDULE job 1 on 2
        SCHEDULE 1-0-1 on 2
        accepted
        > assign 6-0-1 m2 evicting 1-0-1
        STOP 1-0-1 (evict, preempted by 6-0-1)
        SCHEDULE job 6 on 2
        SCHEDULE 6-0-1 on 2
        accepted
    "#]]);
}

#[test]
fn a_victim_must_be_there_and_be_enough() {
    session(&expect![[r#"
        > submit ana/train 2 priority=free cpu=400
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > submit bob/web 2 cpu=900
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        SUBMIT 2-1-1 (new)
        job 2
        > assign 1-0-1 m1; 1-1-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 2
        accepted
        accepted
        > assign 2-0-1 m1 evicting 1-1-1
        refused: 1-1-1 cannot be evicted for it: it is not running there, or is already being stopped
        > assign 2-0-1 m1 evicting 1-0-1 1-0-1
        refused: 1-0-1 cannot be evicted for it: it is not running there, or is already being stopped
        > assign 2-0-1 m1 evicting 9-9-9
        refused: 9-9-9 cannot be evicted for it: it is not running there, or is already being stopped
        > assign 2-0-1 m1 evicting 1-0-1
        STOP 1-0-1 (evict, preempted by 2-0-1)
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        > assign 2-1-1 m1 evicting 1-0-1
        refused: 1-0-1 cannot be evicted for it: it is not running there, or is already being stopped
        > submit bob/big 1 cpu=1100
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > assign 3-0-1 m2 evicting 1-1-1
        refused: it does not fit on machine 2: is too small: 1.1 cores of CPU asked, it has 1 core
    "#]]);
}

/// A user who may kill a task may do so without notice, even after another user has killed it with notice.
#[test]
fn a_permitted_user_can_kill_without_notice() {
    session(&expect![[r#"
        > submit ana/web 3
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
        > kill ana/web/0
        STOP 1-0-1 (kill, by ana)
        killed 1
        > kill-now ana/web/0-1
        STOP 1-0-1 (kill, by ana, without notice)
        STOP 1-1-1 (kill, by ana, without notice)
        killed 2
        > kill ana/web/0-1
        killed 0
        > kill-now ana/web/0
        killed 0
        > as ben kill-now ana/web/2
        refused: ben may not kill ana/web: ana, an administrator or a user with the capability administer-jobs may
        > drain m2
        DRAIN machine 2 ()
        STOP 1-2-1 (evict, machine shutdown)
        1 leave
        > kill-now ana/web/2
        STOP 1-2-1 (kill, by ana, without notice)
        killed 1
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 [], stopping (kill, by ana, without notice)
          1-1-1 starting on 1 [], stopping (kill, by ana, without notice)
          1-2-1 starting on 2 [], stopping (kill, by ana, without notice)
        m1 up [1-0-1 1-1-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        m2 up, draining [1-2-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        > ended 1-0-1 signal 9
        KILL 1-0-1 (by ana, without notice)
        > as ana notice-max 60
        refused: ana may not set the longest notice: an administrator may
        > notice-max 60
        NOTICE_MAX the cell
        done
        > notice-max 60
        done
        > notice-max 100000
        refused: a notice of 1 d 3 h: the maximum is 1 d
    "#]]);
}

#[test]
fn a_machine_is_drained_used_again_and_removed() {
    session(&expect![[r#"
        > submit ana/web 2
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1; 1-1-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 2
        accepted
        accepted
        > as ana drain m1
        refused: ana may not drain machine m1: an administrator or a user with the capability drain-machines may
        > drain m1 bad DIMM
        DRAIN machine 1 (bad DIMM)
        STOP 1-0-1 (evict, machine shutdown)
        1 leave
        > drain m1 bad DIMM
        0 leave
        > assign 1-1-1 m1
        refused: task 1/1 is not pending in that generation
        > remove m1
        refused: machine m1 still has tasks (1): drain it first (bourg machine drain m1), and wait until they have left
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 [], stopping (evict, machine shutdown)
          1-1-1 starting on 2 []
        m1 up, draining [1-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [1-1-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        > ended 1-0-1 signal 15
        DRAINED machine 1
        EVICT 1-0-1 (machine shutdown)
        SUBMIT 1-0-2 (evicted: machine shutdown)
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
        > drain m1
        DRAIN machine 1 ()
        STOP 1-0-2 (evict, machine shutdown)
        1 leave
        > silent m1
        DOWN machine 1
        DRAINED machine 1
        EVICT 1-0-2 (machine failure)
        SUBMIT 1-0-3 (evicted: machine failure)
        > remove m1
        REMOVE machine 1
        done
        > back m1
        (nothing)
        > add m1 m1:1
        ADD machine 3
        machine 3
        > drain m9
        refused: there is no machine m9
        > show
        0 s
        job 1 ana/web running
          1-0-3 pending (evicted: machine failure), not before 0 s, last: lost: machine m1 went silent
          1-1-1 starting on 2 []
        m2 up [1-1-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m1 joining [] takes 0 cores, 0 B, ports [], 0 free
    "#]]);
}

#[test]
fn a_machine_that_runs_out_of_resources_evicts() {
    session(&expect![[r#"
        > submit ana/train 1 priority=free memory-slack=yes failures=0 delay=5
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > ended 1-0-1 short it used 90 MiB, its limit is 64 MiB
        EVICT 1-0-1 (the machine ran out of resources)
        SUBMIT 1-0-2 (evicted: the machine ran out of resources)
        > show
        0 s
        job 1 ana/train running
          1-0-2 pending (evicted: the machine ran out of resources), not before 5 s, last: out of resources: it used 90 MiB, its limit is 64 MiB
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > at 5
        > assign 1-0-2 m1
        SCHEDULE 1-0-2 on 1
        accepted
        > started 1-0-2
        START 1-0-2 on 1
        > ended 1-0-2 short again
        EVICT 1-0-2 (the machine ran out of resources)
        SUBMIT 1-0-3 (evicted: the machine ran out of resources)
        > show
        5 s
        job 1 ana/train running
          1-0-3 pending (evicted: the machine ran out of resources), not before 10 s, last: out of resources: again
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}
