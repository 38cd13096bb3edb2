//! Alloc sets, and jobs that run in them (paper, section 2.4).

use expect_test::expect;

use crate::script::session;

#[test]
fn an_alloc_reserves_unused_room_and_tasks_of_several_users_share_it() {
    session(&expect![[r#"
        > submit ana/room 1 allocs=ben cpu=400 ram=256
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/web 1 in=room cpu=300 ram=128
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > submit ben/saver 1 in=ana/room cpu=100 ram=128
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > submit eve/miner 1 in=ana/room
        refused: eve may not submit jobs into ana/room: ana, the users that its description names, an administrator or a user with the capability administer-jobs may
        > submit ben/lost 1 in=room
        refused: allocSet names ben/room, but there is no such job
        > submit eve/job 1
        SUBMIT job 4 (new)
        SUBMIT 4-0-1 (new)
        job 4
        > submit eve/miner 1 in=job
        refused: allocSet names eve/job, which is not an alloc set
        > assign 2-0-1 m1 in 1-0-1
        refused: the alloc is not on that machine, or is being stopped
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > show
        0 s
        job 1 ana/room running
          1-0-1 healthy on 1 []
        job 2 ana/web pending
          2-0-1 pending (new), not before 0 s
        job 3 ben/saver pending
          3-0-1 pending (new), not before 0 s
        job 4 eve/job pending
          4-0-1 pending (new), not before 0 s
        m1 up [1-0-1] takes 0.4 cores, 256 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > assign 2-0-1 m1
        refused: its job runs in an alloc set, but no alloc is named
        > assign 4-0-1 m1 in 1-0-1
        refused: its job runs in no alloc set, but an alloc is named
        > assign 2-0-1 m2 in 1-0-1
        refused: the alloc is not on that machine, or is being stopped
        > assign 2-0-1 m1 in 2-0-1
        refused: the alloc is not in the alloc set that its job runs in
        > assign 2-0-1 m1 in 1-0-1; 3-0-1 m1 in 1-0-1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1 in 1-0-1
        SCHEDULE job 3 on 1
        SCHEDULE 3-0-1 on 1 in 1-0-1
        accepted
        accepted
        > show
        0 s
        job 1 ana/room running
          1-0-1 healthy on 1 []
        job 2 ana/web running
          2-0-1 starting on 1 []
        job 3 ben/saver running
          3-0-1 starting on 1 []
        job 4 eve/job pending
          4-0-1 pending (new), not before 0 s
        m1 up [1-0-1 2-0-1 3-0-1] takes 0.4 cores, 256 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > started 2-0-1
        START 2-0-1 on 1
        > ended 2-0-1 exit 1
        FAIL 2-0-1 (exit code 1)
        SUBMIT 2-0-2 (failed, will be retried)
        > show
        0 s
        job 1 ana/room running
          1-0-1 healthy on 1 []
        job 2 ana/web running
          2-0-2 pending (failed, will be retried), not before 1 s, failures 1, last: exit code 1
        job 3 ben/saver running
          3-0-1 starting on 1 []
        job 4 eve/job pending
          4-0-1 pending (new), not before 0 s
        m1 up [1-0-1 3-0-1] takes 0.4 cores, 256 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > assign 2-0-2 m1 in 1-0-1
        refused: task 2/0 waits for its next retry
    "#]]);
}

#[test]
fn tasks_in_an_alloc_take_what_it_has_left() {
    session(&expect![[r#"
        > submit ana/room 1 allocs=none cpu=400 ram=256 priority=400
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/web 2 in=room cpu=300 ram=64
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        SUBMIT 2-1-1 (new)
        job 2
        > submit ana/big 1 in=room cpu=500 ram=64
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > submit ana/chief 1 in=room cpu=300 ram=64 priority=400
        SUBMIT job 4 (new)
        SUBMIT 4-0-1 (new)
        job 4
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > assign 2-0-1 m1 in 1-0-1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1 in 1-0-1
        accepted
        > assign 2-1-1 m1 in 1-0-1
        refused: it does not fit on machine 1: lacks CPU: 0.3 cores asked, 0.1 cores free
        > assign 3-0-1 m1 in 1-0-1
        refused: it does not fit on machine 1: is too small: 0.5 cores of CPU asked, it has 0.4 cores
        > assign 4-0-1 m1 in 1-0-1 evicting 2-0-1
        refused: 2-0-1 cannot be evicted for it: it runs in an alloc, and evicting it would not free the machine's resources
        > submit eve/chief 1 cpu=900 priority=400
        SUBMIT job 5 (new)
        SUBMIT 5-0-1 (new)
        job 5
        > assign 5-0-1 m1 evicting 2-0-1
        refused: 2-0-1 cannot be evicted for it: it runs in an alloc, and evicting it would not free the machine's resources
        > submit ana/room 1 allocs=none cpu=200 ram=256 priority=400
        refused: alloc 1/0 would have 0.2 cores of CPU, but the tasks in it use 0.3 cores: nothing was changed
        > submit ana/web 2 in=room cpu=401 ram=64
        UPDATE_OPEN job 2
        UPDATE_RUNNING job 2
        UPDATE_PENDING 2-1-1
        job 2, updated
        > submit ana/web 2 in=room cpu=400 ram=64
        UPDATE_OPEN job 2
        UPDATE_RUNNING job 2
        UPDATE_RUNNING 2-0-1
        UPDATE_PENDING 2-1-1
        job 2, updated
        > submit ana/room 1 allocs=none cpu=900 ram=256 priority=400
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_RUNNING 1-0-1
        job 1, updated
        > assign 2-1-1 m1 in 1-0-1
        SCHEDULE 2-1-1 on 1 in 1-0-1
        accepted
        > submit ana/room 1 allocs=none cpu=1200 ram=256 priority=400
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        job 1, updated
        > submit ana/room 1 allocs=eve cpu=900 ram=256 priority=400
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_RUNNING 1-0-1
        UPDATE_SUCCEED job 1
        job 1, updated
        > submit eve/late 1 in=ana/room
        SUBMIT job 6 (new)
        SUBMIT 6-0-1 (new)
        job 6
    "#]]);
}

#[test]
fn tasks_in_an_alloc_grow_one_by_one_within_its_room() {
    session(&expect![[r#"
        > submit ana/room 2 allocs=ben cpu=400 ram=256
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > submit ana/web 3 in=room cpu=100 ram=64
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        SUBMIT 2-1-1 (new)
        SUBMIT 2-2-1 (new)
        job 2
        > submit ben/saver 1 in=ana/room cpu=50 ram=32
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > assign 1-0-1 m1; 1-1-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 2
        accepted
        accepted
        > assign 2-0-1 m1 in 1-0-1; 2-1-1 m1 in 1-0-1; 2-2-1 m2 in 1-1-1; 3-0-1 m1 in 1-0-1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1 in 1-0-1
        SCHEDULE 2-1-1 on 1 in 1-0-1
        SCHEDULE 2-2-1 on 2 in 1-1-1
        SCHEDULE job 3 on 1
        SCHEDULE 3-0-1 on 1 in 1-0-1
        accepted
        accepted
        accepted
        accepted
        > submit ana/web 3 in=room cpu=176 ram=64
        UPDATE_OPEN job 2
        UPDATE_RUNNING job 2
        UPDATE_RUNNING 2-0-1
        UPDATE_RUNNING 2-2-1
        job 2, updated
        > submit ana/web 3 in=room cpu=175 ram=113
        UPDATE_OPEN job 2
        UPDATE_RUNNING job 2
        job 2, updated
        > submit ana/web 3 in=room cpu=175 ram=112
        UPDATE_OPEN job 2
        UPDATE_RUNNING job 2
        job 2, updated
        > submit ana/room 2 allocs=ben cpu=399 ram=256
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        job 1, updated
        > submit ana/room 2 allocs=ben cpu=400 ram=255
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        job 1, updated
        > submit ana/web 3 in=room cpu=174 ram=111
        UPDATE_OPEN job 2
        UPDATE_RUNNING job 2
        UPDATE_RUNNING 2-1-1
        job 2, updated
        > submit ana/room 2 allocs=ben cpu=398 ram=254
        refused: alloc 1/0 would have 0.398 cores of CPU, but the tasks in it use 0.4 cores: nothing was changed
        > charges
        ana production 0.8 cores and 512 MiB of nothing
    "#]]);
}

#[test]
fn an_evicted_alloc_takes_its_tasks_which_wait_for_its_placement() {
    session(&expect![[r#"
        > submit ana/room 2 allocs=none cpu=400 ram=256
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > submit ana/web 2 in=room cpu=300 ram=64
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
        > assign 2-0-1 m1 in 1-0-1; 2-1-1 m2 in 1-1-1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1 in 1-0-1
        SCHEDULE 2-1-1 on 2 in 1-1-1
        accepted
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > started 2-0-1
        START 2-0-1 on 1
        > started 1-1-1
        START 1-1-1 on 2
        > drain m1
        DRAIN machine 1 ()
        STOP 2-0-1 (evict, machine shutdown)
        STOP 1-0-1 (evict, machine shutdown)
        2 leave
        > assign 2-0-1 m1 in 1-0-1
        refused: task 2/0 is not pending in that generation
        > ended 2-0-1 stopped
        EVICT 2-0-1 (machine shutdown)
        SUBMIT 2-0-2 (evicted: machine shutdown)
        > assign 2-0-2 m1 in 1-0-1
        refused: the alloc is not on that machine, or is being stopped
        > ended 1-0-1 stopped
        DRAINED machine 1
        EVICT 1-0-1 (machine shutdown)
        SUBMIT 1-0-2 (evicted: machine shutdown)
        > show
        0 s
        job 1 ana/room running
          1-0-2 pending (evicted: machine shutdown), not before 0 s, last: stopped
          1-1-1 healthy on 2 []
        job 2 ana/web running
          2-0-2 pending (evicted: machine shutdown), not before 0 s, last: stopped
          2-1-1 starting on 2 []
        m1 up, draining [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [1-1-1 2-1-1] takes 0.4 cores, 256 MiB, ports [], 4 free
        > assign 1-0-2 m2
        SCHEDULE 1-0-2 on 2
        accepted
        > assign 2-0-2 m2 in 1-0-2
        SCHEDULE 2-0-2 on 2 in 1-0-2
        accepted
        > silent m2
        DOWN machine 2
        EVICT 2-0-2 (machine failure)
        SUBMIT 2-0-3 (evicted: machine failure)
        EVICT 2-1-1 (machine failure)
        SUBMIT 2-1-2 (evicted: machine failure)
        EVICT 1-0-2 (machine failure)
        SUBMIT 1-0-3 (evicted: machine failure)
        EVICT 1-1-1 (machine failure)
        SUBMIT 1-1-2 (evicted: machine failure)
        > show
        0 s
        job 1 ana/room running
          1-0-3 pending (evicted: machine failure), not before 0 s, last: lost: machine m2 went silent
          1-1-2 pending (evicted: machine failure), not before 0 s, last: lost: machine m2 went silent
        job 2 ana/web running
          2-0-3 pending (evicted: machine failure), not before 0 s, last: lost: machine m2 went silent
          2-1-2 pending (evicted: machine failure), not before 0 s, last: lost: machine m2 went silent
        m1 up, draining [] takes 0 cores, 0 B, ports [], 4 free
        m2 down [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn an_alloc_that_ends_of_itself_takes_its_tasks_with_it() {
    session(&expect![[r#"
        > submit ana/room 1 allocs=none cpu=400 ram=256
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/web 2 in=room cpu=100 ram=64
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        SUBMIT 2-1-1 (new)
        job 2
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > assign 2-0-1 m1 in 1-0-1; 2-1-1 m1 in 1-0-1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1 in 1-0-1
        SCHEDULE 2-1-1 on 1 in 1-0-1
        accepted
        accepted
        > kill ana/web/1
        STOP 2-1-1 (kill, by ana)
        killed 1
        > ended 1-0-1 not-started no space left
        LOST 2-0-1 (lost: its alloc ended)
        SUBMIT 2-0-2 (was lost)
        KILL 2-1-1 (by ana)
        FAIL 1-0-1 (not started: no space left)
        SUBMIT 1-0-2 (failed, will be retried)
        > ended 2-0-1 stopped
        refused: 2-0-1 is not the current incarnation of a task
        > show
        0 s
        job 1 ana/room running
          1-0-2 pending (failed, will be retried), not before 1 s, failures 1, last: not started: no space left
        job 2 ana/web running
          2-0-2 pending (was lost), not before 0 s, last: lost: its alloc ended
          2-1-1 killed by ana, last: stopped
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn more_important_work_evicts_an_alloc_with_all_that_is_in_it() {
    session(&expect![[r#"
        > submit ana/room 1 allocs=none cpu=800 ram=256 priority=110
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/web 1 in=room cpu=300 ram=64 priority=105
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > assign 2-0-1 m1 in 1-0-1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1 in 1-0-1
        accepted
        > submit eve/chief 1 cpu=900
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > assign 3-0-1 m1 evicting 1-0-1
        STOP 1-0-1 (evict, preempted by 3-0-1)
        STOP 2-0-1 (evict, preempted by 3-0-1)
        SCHEDULE job 3 on 1
        SCHEDULE 3-0-1 on 1
        accepted
        > ended 2-0-1 stopped
        EVICT 2-0-1 (preempted by 3-0-1)
        SUBMIT 2-0-2 (evicted: preempted by 3-0-1)
        > ended 1-0-1 stopped
        EVICT 1-0-1 (preempted by 3-0-1)
        SUBMIT 1-0-2 (evicted: preempted by 3-0-1)
        > show
        0 s
        job 1 ana/room running
          1-0-2 pending (evicted: preempted by 3-0-1), not before 0 s, last: stopped
        job 2 ana/web running
          2-0-2 pending (evicted: preempted by 3-0-1), not before 0 s, last: stopped
        job 3 eve/chief running
          3-0-1 starting on 1 []
        m1 up [3-0-1] takes 0.9 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn an_alloc_set_that_is_killed_ends_the_jobs_in_it() {
    session(&expect![[r#"
        > submit ana/room 2 allocs=ben cpu=400 ram=256
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > submit ana/web 1 in=room cpu=300 ram=64
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > submit ben/saver 1 in=ana/room cpu=100 ram=64
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > assign 2-0-1 m1 in 1-0-1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1 in 1-0-1
        accepted
        > as ben kill ana/room
        refused: ben may not kill ana/room: ana, an administrator or a user with the capability administer-jobs may
        > kill ana/room/0
        STOP 1-0-1 (kill, by ana)
        STOP 2-0-1 (evict, other)
        killed 1
        > ended 2-0-1 stopped
        EVICT 2-0-1 (other)
        SUBMIT 2-0-2 (evicted: other)
        > ended 1-0-1 stopped
        KILL 1-0-1 (by ana)
        > assign 1-1-1 m1
        SCHEDULE 1-1-1 on 1
        accepted
        > assign 2-0-2 m1 in 1-1-1
        SCHEDULE 2-0-2 on 1 in 1-1-1
        accepted
        > kill ana/room
        STOP 2-0-2 (kill, the alloc set that it ran in, job 1, ended)
        KILL 3-0-1 (the alloc set that it ran in, job 1, ended)
        KILL job 3 (the alloc set that it ran in, job 1, ended)
        STOP 1-1-1 (kill, by ana)
        killed 1
        > ended 2-0-2 stopped
        KILL 2-0-2 (the alloc set that it ran in, job 1, ended)
        KILL job 2 (the alloc set that it ran in, job 1, ended)
        > ended 1-1-1 stopped
        KILL 1-1-1 (by ana)
        KILL job 1 (by ana)
        > submit ana/late 1 in=room
        refused: allocSet names ana/room, but that job has ended
    "#]]);
}

#[test]
fn the_owner_of_an_alloc_set_decides_who_uses_it() {
    session(&expect![[r#"
        > submit ana/room 1 allocs=ben cpu=400 ram=256
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ben/saver 1 in=ana/room cpu=100 ram=64
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > submit root/watch 1 in=ana/room cpu=100 ram=64
        USE_CAPABILITY job 1 administer-jobs
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > assign 2-0-1 m1 in 1-0-1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1 in 1-0-1
        accepted
        > submit ana/room 1 allocs=none cpu=400 ram=256
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_RUNNING 1-0-1
        UPDATE_SUCCEED job 1
        job 1, updated
        > submit ben/saver 1 in=ana/room cpu=200 ram=64
        refused: ben may not submit jobs into ana/room: ana, the users that its description names, an administrator or a user with the capability administer-jobs may
        > submit ben/saver 1 in=ana/room cpu=100 ram=64
        job 2, unchanged
        > as eve kill ben/saver
        refused: eve may not kill ben/saver: ben, an administrator or a user with the capability administer-jobs may
        > as ana kill ben/saver
        STOP 2-0-1 (kill, by ana)
        killed 1
        > as ana kill root/watch
        KILL 3-0-1 (by ana)
        KILL job 3 (by ana)
        killed 1
        > as root kill ana/room
        USE_CAPABILITY job 1 administer-jobs
        STOP 1-0-1 (kill, by root)
        killed 1
    "#]]);
}

#[test]
fn the_priority_of_a_task_never_exceeds_that_of_its_alloc() {
    session(&expect![[r#"
        > submit ana/room 1 allocs=ben priority=100
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/web 1 in=room priority=150
        refused: a task in an alloc has at most the priority of the alloc: web would have production(150), and ana/room has best-effort-batch(100); give it best-effort-batch(100) or less, or raise the priority of ana/room first (bourg update), and close that update (bourg update close ana/room)
        > submit ana/web 1 in=room priority=100
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > update ana/web 1 in=room priority=101
        refused: a task in an alloc has at most the priority of the alloc: web would have best-effort-batch(101), and ana/room has best-effort-batch(100); give it best-effort-batch(100) or less, or raise the priority of ana/room first (bourg update), and close that update (bourg update close ana/room)
        > update ana/room 1 allocs=ben priority=99
        refused: a task in an alloc has at most the priority of the alloc: ana/web runs in ana/room with best-effort-batch(100), and ana/room would have free(99); lower the priority of ana/web first (bourg update)
        > update ana/room 1 allocs=ben priority=120
        UPDATE_OPEN job 1
        UPDATE_PENDING job 1
        UPDATE_PENDING 1-0-1
        version 2
        > update ana/web 1 in=room priority=120
        refused: a task in an alloc has at most the priority of the alloc: web would have production(120), and ana/room has best-effort-batch(100); give it best-effort-batch(100) or less, or raise the priority of ana/room first (bourg update), and close that update (bourg update close ana/room)
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > update ana/web 1 in=room priority=120
        refused: a task in an alloc has at most the priority of the alloc: web would have production(120), and ana/room has best-effort-batch(100); give it best-effort-batch(100) or less, or raise the priority of ana/room first (bourg update), and close that update (bourg update close ana/room)
        > update ana/room 1 allocs=ben priority=110
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_RUNNING 1-0-1
        version 3
        > control undo ana/room
        UPDATE_UNDO job 1
        UPDATE_RUNNING 1-0-1
        UPDATE_UNDONE job 1
        version 3
        > kill ana/web
        KILL 2-0-1 (by ana)
        KILL job 2 (by ana)
        killed 1
        > update ana/room 1 allocs=ben priority=90
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        UPDATE_RUNNING 1-0-1
        UPDATE_SUCCEED job 1
        version 4
        > show
        0 s
        job 1 ana/room running
          update 1 to 4 succeeded
          1-0-1 healthy on 1 []
        job 2 ana/web dead
          2-0-1 killed by ana
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}
