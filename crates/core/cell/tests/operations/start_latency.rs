//! Where the time of the starts of tasks goes.

use expect_test::expect;

use crate::script::session;

#[test]
fn a_start_is_split_into_its_parts() {
    session(&expect![[r#"
        > submit ana/web 1 check=http
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > at 5
        > assign began=4 1-0-1 m1 31000
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > at 30
        > started 1-0-1 fetch=20 start=2
        START 1-0-1 on 1 (queue 4 s, decide 1 s, fetch 20 s, start 2 s)
        > at 33
        > health 1-0-1 good
        HEALTHY 1-0-1 (healthy 3 s)
        > at 40
        > health 1-0-1 bad HTTP 503
        UNHEALTHY 1-0-1
        > at 50
        > health 1-0-1 good
        HEALTHY 1-0-1
        > show
        50 s
        job 1 ana/web running
          1-0-1 healthy on 1 [31000] (queue 4 s, decide 1 s, fetch 20 s, start 2 s, healthy 3 s)
        m1 up [1-0-1] takes 0.1 cores, 64 MiB, ports [31000], 3 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

/// A machine's clock may be wrong, and a scheduler's idea of when it began, too.
#[test]
fn parts_fit_into_the_time_that_passed_for_the_cell() {
    session(&expect![[r#"
        > at 10
        > submit ana/web 3
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        job 1
        > at 15
        > assign began=2 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > assign began=99 1-1-1 m1
        SCHEDULE 1-1-1 on 1
        accepted
        > assign 1-2-1 m2
        SCHEDULE 1-2-1 on 2
        accepted
        > at 18
        > started 1-0-1 fetch=20 start=2
        START 1-0-1 on 1 (queue 0 s, decide 5 s, fetch 3 s, start 0 s)
        > started 1-1-1 fetch=1 start=20
        START 1-1-1 on 1 (queue 5 s, decide 0 s, fetch 1 s, start 2 s)
        > started 1-2-1
        START 1-2-1 on 2
    "#]]);
}

#[test]
fn a_delay_before_a_restart_is_no_queue_and_lost_starts_are_known_while_it_starts() {
    session(&expect![[r#"
        > submit ana/web 1 restart=on-failure failures=1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > ended 1-0-1 lost cannot fetch package ana/app@3
        LOST 1-0-1 (lost: cannot fetch package ana/app@3)
        SUBMIT 1-0-2 (could not start, tried once)
        > at 3
        > assign began=2 1-0-2 m1
        SCHEDULE 1-0-2 on 1
        accepted
        > show
        3 s
        job 1 ana/web running
          1-0-2 starting on 1 [] (queue 1 s, decide 1 s), after 1 lost starts, last: lost: cannot fetch package ana/app@3
        m1 up [1-0-2] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > at 5
        > started 1-0-2 start=1
        START 1-0-2 on 1 (queue 1 s, decide 1 s, start 1 s)
    "#]]);
}
