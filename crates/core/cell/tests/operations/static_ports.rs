//! Ports with static numbers: who may ask for them, and who has one.

use expect_test::expect;

use crate::script::session;

#[test]
fn a_static_port_needs_a_capability_and_has_one_task_on_a_machine() {
    session(&expect![[r#"
        > submit ana/web 3 static-ports=https:443 ports=admin
        refused: ana may not submit a job with static ports: an administrator or a user with the capability static-ports may
        > allow-to ana static-ports
        GRANT_CAPABILITY ana static-ports
        done
        > submit ana/web 3 static-ports=https:443 ports=admin
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        USE_CAPABILITY job 1 static-ports
        job 1
        > assign 1-0-1 m1 31000
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > assign 1-1-1 m1 31001
        refused: it does not fit on machine 1: has port 443 (https) taken by another task
        > assign 1-1-1 m2 443 31000
        refused: ports [443, 31000] cannot be assigned to it
        > assign 1-1-1 m2 31000
        SCHEDULE 1-1-1 on 2
        accepted
        > show
        0 s
        job 1 ana/web running
          1-0-1 starting on 1 [31000, 443]
          1-1-1 starting on 2 [31000, 443]
          1-2-1 pending (new), not before 0 s
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [443, 31000], 3 free
        m2 up [1-1-1] takes 0.1 cores, 64 MiB, ports [443, 31000], 3 free
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        > assign 1-2-1 m1 31001
        SCHEDULE 1-2-1 on 1
        accepted
        > show
        0 s
        job 1 ana/web running
          1-0-1 finished, last: exit code 0
          1-1-1 starting on 2 [31000, 443]
          1-2-1 starting on 1 [31001, 443]
        m1 up [1-2-1] takes 0.1 cores, 64 MiB, ports [443, 31001], 3 free
        m2 up [1-1-1] takes 0.1 cores, 64 MiB, ports [443, 31000], 3 free
    "#]]);
}

#[test]
fn a_static_port_is_not_in_the_range_that_machines_give_themselves() {
    session(&expect![[r#"
        > allow-to ana static-ports
        GRANT_CAPABILITY ana static-ports
        done
        > submit ana/web 1 static-ports=http:31001
        refused: port http cannot have the static number 31001: the cell's machines give the ports 31000-31003 to tasks that ask for one by its name alone; choose a number beyond that, or no number
        > describe m2 ports=none
        (nothing)
        > submit ana/web 1 static-ports=http:31001
        refused: port http cannot have the static number 31001: the cell's machines give the ports 31000-31003 to tasks that ask for one by its name alone; choose a number beyond that, or no number
        > describe m2 ports=40000-40009
        (nothing)
        > submit ana/web 1 static-ports=http:31001
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        USE_CAPABILITY job 1 static-ports
        job 1
        > assign 1-0-1 m1
        refused: it does not fit on machine 1: gives port 31001 (http) to tasks itself: it is in its range 31000-31003
        > assign 1-0-1 m2
        SCHEDULE job 1 on 2
        SCHEDULE 1-0-1 on 2
        accepted
        > submit ana/borglet 1 static-ports=http:1
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        USE_CAPABILITY job 2 static-ports
        job 2
        > assign 2-0-1 m1
        refused: it does not fit on machine 1: has port 1 (http) taken by its Borglet
    "#]]);
}

#[test]
fn a_task_of_higher_priority_takes_a_static_port_and_waits_for_its_holder() {
    session(&expect![[r#"
        > allow-to ana static-ports
        GRANT_CAPABILITY ana static-ports
        done
        > submit ana/low 1 priority=110 static-ports=https:443
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        USE_CAPABILITY job 1 static-ports
        job 1
        > submit ana/web 1 static-ports=https:443
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        USE_CAPABILITY job 2 static-ports
        job 2
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > assign 2-0-1 m1
        refused: it does not fit on machine 1: has port 443 (https) taken by another task
        > assign 2-0-1 m1 evicting 1-0-1
        STOP 1-0-1 (evict, preempted by 2-0-1)
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        > show
        0 s
        job 1 ana/low running
          1-0-1 starting on 1 [443], stopping (evict, preempted by 2-0-1)
        job 2 ana/web running
          2-0-1 starting on 1 [443]
        m1 up [1-0-1 2-0-1] takes 0.2 cores, 128 MiB, ports [443, 443], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        FINISH job 1
        > show
        0 s
        job 1 ana/low dead
          1-0-1 finished, last: exit code 0
        job 2 ana/web running
          2-0-1 starting on 1 [443]
        m1 up [2-0-1] takes 0.1 cores, 64 MiB, ports [443], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > assign 1-0-2 m1
        refused: task 1/0 is not pending in that generation
    "#]]);
}

#[test]
fn a_task_that_is_not_ready_goes_on_and_is_not_healthy() {
    session(&expect![[r#"
        > submit ana/web 1 ports=http readiness=http
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1 31000
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > show
        0 s
        job 1 ana/web running
          1-0-1 unknown on 1 [31000]
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [31000], 3 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > health 1-0-1 good HTTP 200
        HEALTHY 1-0-1
        > not-ready 1-0-1 HTTP 503
        UNREADY 1-0-1
        > not-ready 1-0-1 HTTP 503
        refused: 1-0-1: nothing new
        > show
        0 s
        job 1 ana/web running
          1-0-1 unready (HTTP 503) on 1 [31000]
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [31000], 3 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > health 1-0-1 good HTTP 200
        HEALTHY 1-0-1
        > health 1-0-1 bad HTTP 500
        UNHEALTHY 1-0-1
        > not-ready 1-0-1 HTTP 503
        UNREADY 1-0-1
    "#]]);
}
