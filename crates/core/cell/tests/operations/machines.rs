//! Machines join, describe themselves, fall silent and return.

use expect_test::expect;

use crate::script::session;

#[test]
fn only_administrators_add_machines() {
    session(&expect![[r#"
        > as ana add m3 m3:1
        refused: ana may not add machine m3: an administrator may
        > add m3 m3:1
        ADD machine 3
        machine 3
        > add m3 m3:1
        machine 3
        > show
        0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        m3 joining [] takes 0 cores, 0 B, ports [], 0 free
        > describe m3
        UPDATE machine 3 to 1 core, 1 GiB
        > describe m3
        (nothing)
        > describe m3 cpu=2000
        UPDATE machine 3 to 2 cores, 1 GiB
        > describe m9
        (nothing)
    "#]]);
}

#[test]
fn an_address_is_one_machines_and_a_name_may_move() {
    session(&expect![[r#"
        > add m3 m1:1
        refused: machine m1 already has that address
        > add m2 m1:1
        refused: machine m1 already has that address
        > add m1 elsewhere:1
        ADD machine 1
        machine 1
        > add m3 m1:1
        ADD machine 3
        machine 3
        > add m1 m1:1
        refused: machine m3 already has that address
        > show
        0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        m3 joining [] takes 0 cores, 0 B, ports [], 0 free
    "#]]);
}

#[test]
fn a_machine_without_resources_comes_up_as_an_event() {
    session(&expect![[r#"
        > add m3 m3:1
        ADD machine 3
        machine 3
        > describe m3 cpu=0 ram=0 ports=none
        UPDATE machine 3 to 0 cores, 0 B
        > show
        0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        m3 up [] takes 0 cores, 0 B, ports [], 0 free
    "#]]);
}

#[test]
fn tasks_of_a_silent_machine_restart_and_dying_ones_are_dead() {
    session(&expect![[r#"
        > submit ana/web 4 failures=0 ports=http
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        SUBMIT 1-3-1 (new)
        job 1
        > assign 1-0-1 m1 31000 ; 1-1-1 m1 31001 ; 1-2-1 m1 31002 ; 1-3-1 m2 31000
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        SCHEDULE 1-2-1 on 1
        SCHEDULE 1-3-1 on 2
        accepted
        accepted
        accepted
        accepted
        > started 1-1-1
        START 1-1-1 on 1
        > kill ana/web/2
        STOP 1-2-1 (kill, by ana)
        killed 1
        > at 7
        > silent m1
        DOWN machine 1
        EVICT 1-0-1 (machine failure)
        SUBMIT 1-0-2 (evicted: machine failure)
        EVICT 1-1-1 (machine failure)
        SUBMIT 1-1-2 (evicted: machine failure)
        KILL 1-2-1 (by ana)
        > silent m1
        (nothing)
        > show
        7 s
        job 1 ana/web running
          1-0-2 pending (evicted: machine failure), not before 7 s, last: lost: machine m1 went silent
          1-1-2 pending (evicted: machine failure), not before 7 s, last: lost: machine m1 went silent
          1-2-1 killed by ana, last: lost: machine m1 went silent
          1-3-1 starting on 2 [31000]
        m1 down [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [1-3-1] takes 0.1 cores, 64 MiB, ports [31000], 3 free
        > started 1-0-1
        refused: 1-0-1 is not the current incarnation of a task
        > ended 1-2-1 exit 0
        refused: 1-2-1: FINISH is not allowed from dead; allowed: SUBMIT
        > assign 1-0-2 m1 31000
        refused: it does not fit on machine 1: is not up
        > assign 1-0-2 m2 31001
        SCHEDULE 1-0-2 on 2
        accepted
        > back m1
        BACK machine 1
        > back m1
        (nothing)
        > ended 1-0-1 exit 0
        refused: 1-0-1 is not the current incarnation of a task
        > assign 1-1-2 m1 31001
        SCHEDULE 1-1-2 on 1
        accepted
        > show
        7 s
        job 1 ana/web running
          1-0-2 starting on 2 [31001], last: lost: machine m1 went silent
          1-1-2 starting on 1 [31001], last: lost: machine m1 went silent
          1-2-1 killed by ana, last: lost: machine m1 went silent
          1-3-1 starting on 2 [31000]
        m1 up [1-1-2] takes 0.1 cores, 64 MiB, ports [31001], 3 free
        m2 up [1-0-2 1-3-1] takes 0.2 cores, 128 MiB, ports [31000, 31001], 2 free
    "#]]);
}

#[test]
fn a_dying_task_of_a_later_incarnation_ends_with_its_machine() {
    session(&expect![[r#"
        > submit ana/web 1 delay=0
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
        > at 1
        > assign 1-0-2 m1
        SCHEDULE 1-0-2 on 1
        accepted
        > kill ana/web
        STOP 1-0-2 (kill, by ana)
        killed 1
        > silent m1
        DOWN machine 1
        KILL 1-0-2 (by ana)
        KILL job 1 (by ana)
        > show
        1 s
        job 1 ana/web dead
          1-0-2 killed by ana, failures 1, last: lost: machine m1 went silent
        m1 down [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_machine_can_go_silent_before_it_said_what_it_is() {
    session(&expect![[r#"
        > add m3 m3:1
        ADD machine 3
        machine 3
        > back m3
        (nothing)
        > silent m3
        DOWN machine 3
        > silent m9
        (nothing)
        > back m9
        (nothing)
        > describe m3
        UPDATE machine 3 to 1 core, 1 GiB
        > back m3
        BACK machine 3
        > submit ana/web 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m3
        SCHEDULE job 1 on 3
        SCHEDULE 1-0-1 on 3
        accepted
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 3 []
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        m3 up [1-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
    "#]]);
}
