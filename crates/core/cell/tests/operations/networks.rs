//! Addresses of tasks and allocs with a network of their own.

use expect_test::expect;

use crate::script::session;

#[test]
fn an_address_is_one_of_the_machines_and_free() {
    session(&expect![[r#"
        > describe m1 network=10.64.5.0/29
        (nothing)
        > submit ana/web 4 ports=http network=own
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        SUBMIT 1-3-1 (new)
        job 1
        > submit ana/old 1 ports=http
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > assign 1-0-1 m1
        refused: it needs an address, and none is assigned
        > assign 1-0-1 m1 at 10.64.5.0
        refused: the address 10.64.5.0 cannot be assigned to it
        > assign 1-0-1 m1 at 10.64.5.1
        refused: the address 10.64.5.1 cannot be assigned to it
        > assign 1-0-1 m1 at 10.64.5.7
        refused: the address 10.64.5.7 cannot be assigned to it
        > assign 1-0-1 m1 at 10.64.6.2
        refused: the address 10.64.6.2 cannot be assigned to it
        > assign 1-0-1 m1 at 10.64.5.2 31000
        refused: ports [31000] cannot be assigned to it
        > assign 1-0-1 m2 at 10.64.5.2
        refused: it does not fit on machine 2: has no network for tasks: its Borglet runs without --task-network
        > assign 2-0-1 m1 at 10.64.5.2 31000
        refused: the address 10.64.5.2 cannot be assigned to it
        > assign 1-0-1 m1 at 10.64.5.2 ; 1-1-1 m1 at 10.64.5.2 ; 1-1-1 m1 at 10.64.5.6
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        accepted
        refused: the address 10.64.5.2 cannot be assigned to it
        accepted
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 [80]
          1-1-1 starting on 1 [80]
          1-2-1 pending (new), not before 0 s
          1-3-1 pending (new), not before 0 s
        job 2 ana/old pending
          2-0-1 pending (new), not before 0 s
        m1 up [1-0-1 1-1-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        > assign 1-2-1 m1 at 10.64.5.2
        SCHEDULE 1-2-1 on 1
        accepted
        > show
        0 s
        job 1 ana/web running
          1-0-1 finished, last: exit code 0
          1-1-1 starting on 1 [80]
          1-2-1 starting on 1 [80]
          1-3-1 pending (new), not before 0 s
        job 2 ana/old pending
          2-0-1 pending (new), not before 0 s
        m1 up [1-1-1 1-2-1] takes 0.2 cores, 128 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn tasks_in_an_alloc_have_its_address_and_other_ports() {
    session(&expect![[r#"
        > describe m1 network=10.64.5.0/30
        (nothing)
        > submit ana/room 1 allocs=none network=own
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1 at 10.64.5.6
        refused: the address 10.64.5.6 cannot be assigned to it
        > assign 1-0-1 m1 at 10.64.5.2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > submit ana/web 2 in=room cpu=10 ram=8 ports=http network=own
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        SUBMIT 2-1-1 (new)
        job 2
        > submit ana/hosted 1 in=room cpu=10 ram=8
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > assign 2-0-1 m1 at 10.64.5.2 in 1-0-1
        refused: the address 10.64.5.2 cannot be assigned to it
        > assign 3-0-1 m1 in 1-0-1
        refused: it does not fit on machine 1: has the alloc in a network of its own, and the task wants that of the host
        > assign 2-0-1 m1 in 1-0-1 ; 2-1-1 m1 in 1-0-1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1 in 1-0-1
        accepted
        refused: it does not fit on machine 1: has port 80 (http) taken by another task in the alloc
        > show
        0 s
        job 1 ana/room running
          1-0-1 starting on 1 []
        job 2 ana/web running
          2-0-1 starting on 1 [80]
          2-1-1 pending (new), not before 0 s
        job 3 ana/hosted pending
          3-0-1 pending (new), not before 0 s
        m1 up [1-0-1 2-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > ended 2-0-1 exit 0
        FINISH 2-0-1
        > assign 2-1-1 m1 in 1-0-1
        SCHEDULE 2-1-1 on 1 in 1-0-1
        accepted
        > submit ana/more 1 network=own
        SUBMIT job 4 (new)
        SUBMIT 4-0-1 (new)
        job 4
        > assign 4-0-1 m1 at 10.64.5.2
        refused: it does not fit on machine 1: lacks addresses: the 1 of 10.64.5.0/30 are all taken
        > show
        0 s
        job 1 ana/room running
          1-0-1 starting on 1 []
        job 2 ana/web running
          2-0-1 finished, last: exit code 0
          2-1-1 starting on 1 [80]
        job 3 ana/hosted pending
          3-0-1 pending (new), not before 0 s
        job 4 ana/more pending
          4-0-1 pending (new), not before 0 s
        m1 up [1-0-1 2-1-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}
