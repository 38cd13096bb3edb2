//! Machines that are short of a resource: what they still take, and what leaves them.

use expect_test::expect;

use crate::script::session;

#[test]
fn tasks_below_production_leave_a_short_machine_and_return_later() {
    session(&expect![[r#"
        > submit ana/web 1 cpu=300
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/train 2 priority=free cpu=100
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        SUBMIT 2-1-1 (new)
        job 2
        > submit ana/index 1 priority=best-effort-batch cpu=100
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > assign 2-0-1 m1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        > assign 2-1-1 m1
        SCHEDULE 2-1-1 on 1
        accepted
        > assign 3-0-1 m1
        SCHEDULE job 3 on 1
        SCHEDULE 3-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > started 2-0-1
        START 2-0-1 on 1
        > started 2-1-1
        START 2-1-1 on 1
        > started 3-0-1
        START 3-0-1 on 1
        > relieve m1 2-0-1
        (nothing)
        > describe m1 short=cpu:persists
        SHORTAGE machine 1 short of CPU
        > submit ana/more 1 priority=free cpu=100
        SUBMIT job 4 (new)
        SUBMIT 4-0-1 (new)
        job 4
        > assign 4-0-1 m1
        refused: it does not fit on machine 1: is short of CPU, and takes no more tasks below production
        > submit ana/api 1 cpu=100
        SUBMIT job 5 (new)
        SUBMIT 5-0-1 (new)
        job 5
        > assign 5-0-1 m1
        SCHEDULE job 5 on 1
        SCHEDULE 5-0-1 on 1
        accepted
        > relieve m1 1-0-1
        (nothing)
        > relieve m2 2-0-1
        (nothing)
        > relieve m1 2-0-1
        STOP 2-0-1 (evict, the machine ran out of resources)
        > ended 2-0-1 stopped
        EVICT 2-0-1 (the machine ran out of resources)
        SUBMIT 2-0-2 (evicted: the machine ran out of resources)
        > assign 2-0-2 m1
        refused: it does not fit on machine 1: is short of CPU, and takes no more tasks below production
        > describe m1 short=cpu:eased
        SHORTAGE machine 1 lately short of CPU
        > assign 2-0-2 m1
        SCHEDULE 2-0-2 on 1
        accepted
        > submit ana/large 1 priority=free cpu=300
        SUBMIT job 6 (new)
        SUBMIT 6-0-1 (new)
        job 6
        > assign 6-0-1 m1
        refused: it does not fit on machine 1: was short of CPU lately, and keeps some free: 0.3 cores asked, 0.175 cores free
        > describe m1
        SHORTAGE machine 1 over
        > assign 6-0-1 m1
        SCHEDULE job 6 on 1
        SCHEDULE 6-0-1 on 1
        accepted
    "#]]);
}

#[test]
fn a_machine_shrunk_below_production_limits_fits_tasks_by_reservations() {
    session(&expect![[r#"
        > submit ana/web 1 cpu=800
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > reserve 1-0-1 cpu=100 ram=64
        (nothing)
        > describe m1 cpu=500
        UPDATE machine 1 to 0.5 cores, 1 GiB
        > submit ana/index 1 priority=best-effort-batch cpu=300
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > assign 2-0-1 m1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        > submit ana/api 1 cpu=100
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > assign 3-0-1 m1
        refused: it does not fit on machine 1: lacks CPU: 0.1 cores asked, 0 cores free
    "#]]);
}
