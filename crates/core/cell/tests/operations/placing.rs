//! Assignments, accepted and rejected.

use expect_test::expect;

use crate::script::session;

#[test]
fn an_assignment_takes_resources_and_ports_until_the_end() {
    session(&expect![[r#"
        > submit ana/web 2 cpu=400 ram=100 ports=http,admin
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1 31000,31001 ; 1-1-1 m1 31003,31002
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        accepted
        accepted
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 [31000, 31001]
          1-1-1 starting on 1 [31003, 31002]
        m1 up [1-0-1 1-1-1] takes 0.8 cores, 200 MiB, ports [31000, 31001, 31002, 31003], 0 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        > show
        0 s
        job 1 ana/web running
          1-0-1 finished, last: exit code 0
          1-1-1 starting on 1 [31003, 31002]
        m1 up [1-1-1] takes 0.4 cores, 100 MiB, ports [31002, 31003], 2 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn only_a_pending_incarnation_is_placed() {
    session(&expect![[r#"
        > submit ana/web 2
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 2-0-1 m1
        refused: there is no task 2/0
        > assign 0-0-1 m1
        refused: there is no task 0/0
        > assign 18446744073709551615-4294967295-4294967295 m1
        refused: there is no task 18446744073709551615/4294967295
        > assign 1-2-1 m1
        refused: there is no task 1/2
        > assign 1-0-2 m1
        refused: task 1/0 is not pending in that generation
        > assign 1-0-0 m1
        refused: task 1/0 is not pending in that generation
        > assign 1-0-1 m1 ; 1-0-1 m1 ; 1-0-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        refused: task 1/0 is not pending in that generation
        refused: task 1/0 is not pending in that generation
        > kill ana/web/1
        KILL 1-1-1 (by ana)
        killed 1
        > assign 1-1-1 m1
        refused: task 1/1 is not pending in that generation
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 []
          1-1-1 killed by ana
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_task_that_failed_is_not_placed_before_its_wait_is_over() {
    session(&expect![[r#"
        > submit ana/web 1 delay=10
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > at 5
        > ended 1-0-1 exit 1
        FAIL 1-0-1 (exit code 1)
        SUBMIT 1-0-2 (failed, will be retried)
        > assign 1-0-2 m1
        refused: task 1/0 waits for its next retry
        > at 14
        > assign 1-0-2 m1
        refused: task 1/0 waits for its next retry
        > at 15
        > assign 1-0-1 m1
        refused: task 1/0 is not pending in that generation
        > assign 1-0-2 m1
        SCHEDULE 1-0-2 on 1
        accepted
    "#]]);
}

#[test]
fn a_machine_must_exist_be_up_and_have_room() {
    session(&expect![[r#"
        > add m3 m3:1
        ADD machine 3
        machine 3
        > submit ana/web 3 cpu=600 ram=500
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > assign 1-0-1 m9
        refused: there is no machine 99
        > assign 1-0-1 m3
        refused: it does not fit on machine 3: is not up
        > silent m2
        DOWN machine 2
        > assign 1-0-1 m2
        refused: it does not fit on machine 2: is not up
        > assign 1-0-1 m1 ; 1-1-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        refused: it does not fit on machine 1: lacks CPU: 0.6 cores asked, 0.4 cores free
        > describe m2 cpu=100
        UPDATE machine 2 to 0.1 cores, 1 GiB
        > back m2
        BACK machine 2
        > assign 1-1-1 m2
        refused: it does not fit on machine 2: is too small: 0.6 cores of CPU asked, it has 0.1 cores
        > describe m2 ram=400
        UPDATE machine 2 to 1 core, 400 MiB
        > assign 1-1-1 m2
        refused: it does not fit on machine 2: is too small: 500 MiB of RAM asked, it has 400 MiB
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 []
          1-1-1 pending (new), not before 0 s
          1-2-1 pending (new), not before 0 s
        m1 up [1-0-1] takes 0.6 cores, 500 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        m3 joining [] takes 0 cores, 0 B, ports [], 0 free
    "#]]);
}

#[test]
fn one_task_may_be_bigger_than_the_others() {
    session(&expect![[r#"
        > submit ana/web 2 cpu=100 big=1:901
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1 ; 1-1-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        refused: it does not fit on machine 1: lacks CPU: 0.901 cores asked, 0.9 cores free
        > assign 1-1-1 m2
        SCHEDULE 1-1-1 on 2
        accepted
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 []
          1-1-1 starting on 2 []
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [1-1-1] takes 0.901 cores, 64 MiB, ports [], 4 free
        > ended 1-1-1 exit 0 on m2
        FINISH 1-1-1
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 []
          1-1-1 finished, last: exit code 0
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn ports_are_as_many_as_asked_the_machines_own_and_given_once() {
    session(&expect![[r#"
        > submit ana/web 3 ports=http,admin
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > assign 1-0-1 m1
        refused: ports [] cannot be assigned to it
        > assign 1-0-1 m1 31000
        refused: ports [31000] cannot be assigned to it
        > assign 1-0-1 m1 31000,31001,31002
        refused: ports [31000, 31001, 31002] cannot be assigned to it
        > assign 1-0-1 m1 31000,31000
        refused: ports [31000, 31000] cannot be assigned to it
        > assign 1-0-1 m1 31000,31004
        refused: ports [31000, 31004] cannot be assigned to it
        > assign 1-0-1 m1 0,65535
        refused: ports [0, 65535] cannot be assigned to it
        > assign 1-0-1 m1 31000,31001
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > assign 1-1-1 m1 31001,31002
        refused: ports [31001, 31002] cannot be assigned to it
        > assign 1-1-1 m1 31002,31003
        SCHEDULE 1-1-1 on 1
        accepted
        > assign 1-2-1 m1 31002,31003
        refused: it does not fit on machine 1: lacks ports: 2 asked, 0 free
        > submit ana/quiet 1
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > assign 2-0-1 m1 31000
        refused: ports [31000] cannot be assigned to it
        > assign 2-0-1 m1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 [31000, 31001]
          1-1-1 starting on 1 [31002, 31003]
          1-2-1 pending (new), not before 0 s
        job 2 ana/quiet running
          2-0-1 starting on 1 []
        m1 up [1-0-1 1-1-1 2-0-1] takes 0.3 cores, 192 MiB, ports [31000, 31001, 31002, 31003], 0 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn ports_outside_a_machines_new_range_do_not_count_as_taken() {
    session(&expect![[r#"
        > describe m1 ports=31000-31001
        (nothing)
        > submit ana/web 2 ports=http,admin
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1 31000,31001
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > describe m1 ports=32000-32001
        (nothing)
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 [31000, 31001]
          1-1-1 pending (new), not before 0 s
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [31000, 31001], 2 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > assign 1-1-1 m1 32000,32001
        SCHEDULE 1-1-1 on 1
        accepted
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 [31000, 31001]
          1-1-1 starting on 1 [32000, 32001]
        m1 up [1-0-1 1-1-1] takes 0.2 cores, 128 MiB, ports [31000, 31001, 32000, 32001], 0 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > describe m1 ports=none
        (nothing)
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 [31000, 31001]
          1-1-1 starting on 1 [32000, 32001]
        m1 up [1-0-1 1-1-1] takes 0.2 cores, 128 MiB, ports [31000, 31001, 32000, 32001], 0 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_capacity_lowered_later_ends_nothing() {
    session(&expect![[r#"
        > submit ana/web 2 cpu=400
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > describe m1 cpu=100
        UPDATE machine 1 to 0.1 cores, 1 GiB
        > assign 1-1-1 m1
        refused: it does not fit on machine 1: is too small: 0.4 cores of CPU asked, it has 0.1 cores
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 []
          1-1-1 pending (new), not before 0 s
        m1 up [1-0-1] takes 0.4 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        > show
        0 s
        job 1 ana/web running
          1-0-1 finished, last: exit code 0
          1-1-1 pending (new), not before 0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_port_rests_before_reuse_even_if_no_other_is_left() {
    session(&expect![[r#"
        > describe m1 ports=65533-65535
        (nothing)
        > submit ana/web 3 ports=http
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > assign 1-0-1 m1 65534
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > show ports
        m1 [65535, 65533]
        m2 [31000, 31001, 31002, 31003]
        > assign 1-1-1 m1 65535
        SCHEDULE 1-1-1 on 1
        accepted
        > ended 1-1-1 exit 0
        FINISH 1-1-1
        > show ports
        m1 [65533, 65535]
        m2 [31000, 31001, 31002, 31003]
        > describe m1 ports=31000-31003
        (nothing)
        > show ports
        m1 [31000, 31001, 31002, 31003]
        m2 [31000, 31001, 31002, 31003]
    "#]]);
}

#[test]
fn ports_that_something_else_holds_are_given_to_nobody() {
    session(&expect![[r#"
        > submit ana/web 2 ports=http,admin
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1 31000,31002
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > describe m1 held=31000-31001:/ssh.service
        (nothing)
        > show ports
        m1 [31003]
        m2 [31000, 31001, 31002, 31003]
        > assign 1-1-1 m1 31000,31003
        refused: it does not fit on machine 1: lacks ports: 2 asked, 1 free, 1 held by others: 31000-31001 by /ssh.service
        > describe m1 held=31003-31003:b held=31002-31003:a held=31001-31002:d
        (nothing)
        > show ports
        m1 []
        m2 [31000, 31001, 31002, 31003]
        > assign 1-1-1 m1 31003,31001
        refused: it does not fit on machine 1: lacks ports: 2 asked, 0 free, 2 held by others: 31001-31002 by d
        > describe m1
        (nothing)
        > assign 1-1-1 m1 31003,31001
        SCHEDULE 1-1-1 on 1
        accepted
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 [31000, 31002]
          1-1-1 starting on 1 [31003, 31001]
        m1 up [1-0-1 1-1-1] takes 0.2 cores, 128 MiB, ports [31000, 31001, 31002, 31003], 0 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}
