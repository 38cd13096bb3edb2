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
        > submit ana/web 1 static-ports=http:31001
        > describe m2 ports=none
        > submit ana/web 1 static-ports=http:31001
        > describe m2 ports=40000-40009
        > submit ana/web 1 static-ports=http:31001
        > assign 1-0-1 m1
        > assign 1-0-1 m2
        > submit ana/borglet 1 static-ports=http:1
        > assign 2-0-1 m1
    "#]]);
}

#[test]
fn a_task_of_higher_priority_takes_a_static_port_and_waits_for_its_holder() {
    session(&expect![[r#"
        > allow-to ana static-ports
        > submit ana/low 1 priority=110 static-ports=https:443
        > submit ana/web 1 static-ports=https:443
        > assign 1-0-1 m1
        > assign 2-0-1 m1
        > assign 2-0-1 m1 evicting 1-0-1
        > show
        > ended 1-0-1 exit 0
        > show
        > assign 1-0-2 m1
    "#]]);
}

#[test]
fn a_task_that_is_not_ready_goes_on_and_is_not_healthy() {
    session(&expect![[r#"
        > submit ana/web 1 ports=http readiness=http
        > assign 1-0-1 m1 31000
        > started 1-0-1
        > show
        > health 1-0-1 good HTTP 200
        > not-ready 1-0-1 HTTP 503
        > not-ready 1-0-1 HTTP 503
        > show
        > health 1-0-1 good HTTP 200
        > health 1-0-1 bad HTTP 500
        > not-ready 1-0-1 HTTP 503
    "#]]);
}
