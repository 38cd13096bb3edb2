//! Bootstrapping, and requests that are applied at most once.

use expect_test::expect;

use crate::script::session;

#[test]
fn a_cell_takes_no_requests_before_bootstrap_and_is_bootstrapped_once() {
    session(&expect![[r#"
        > empty
        > nothing
        (nothing)
        > open root
        session 1
        > request 1#1 as root add m1 m1:1
        refused: the cell is not bootstrapped yet
        > bootstrap cc root
        FOUND the cell
        > request 1#1 as root add m1 m1:1
        refused: the cell is not bootstrapped yet
        > request 1#2 as root add m1 m1:1
        ADD machine 1
        machine 1
        > bootstrap other bob
        (nothing)
        > open bob
        session 2
        > request 2#1 as bob add m2 m2:1
        refused: bob may not add machine m2: an administrator may
    "#]]);
}

#[test]
fn a_repeated_request_answers_as_the_first_did_and_does_nothing() {
    session(&expect![[r#"
        > open ana
        session 2
        > request 2#1 as ana submit ana/web 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > request 2#1 as ana submit ana/web 1
        job 1
        > request 2#1 as ana submit ana/other 5
        job 1
        > request 2#2 as ana submit ana/web 2
        UPDATE_OPEN job 1
        UPDATE_PENDING job 1
        SUBMIT 1-1-1 (new)
        UPDATE_PENDING 1-0-1
        job 1, updated
        > request 2#3 as ana kill ana/web
        KILL 1-0-1 (by ana)
        KILL 1-1-1 (by ana)
        KILL job 1 (by ana)
        killed 2
        > request 2#2 as ana submit ana/web 2
        job 1, updated
        > request 2#3 as ana kill ana/web
        killed 2
        > request 2#4 as ana submit ana/web 2
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        SUBMIT 2-1-1 (new)
        job 2
        > request 2#1 as ana submit ana/web 1
        job 1
        > show
        0 s
        job 1 ana/web dead, not the newest of that name
          update 1 to 2 closed, changing 0 1
          1-0-1 killed by ana
          1-1-1 killed by ana
        job 2 ana/web pending
          2-0-1 pending (new), not before 0 s
          2-1-1 pending (new), not before 0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_session_is_its_users_own() {
    session(&expect![[r#"
        > open ana
        session 2
        > request 2#1 as bob submit bob/web 1
        refused: session 2 belongs to ana, not to bob
        > request 2#1 as root submit root/web 1
        refused: session 2 belongs to ana, not to root
        > request 3#1 as ana submit ana/web 1
        refused: session 3 is not open (it expired or never existed): open a new one and check what was done before you repeat a request
        > request 0#1 as ana submit ana/web 1
        refused: session 0 is not open (it expired or never existed): open a new one and check what was done before you repeat a request
        > request 18446744073709551615#1 as ana submit ana/web 1
        refused: session 18446744073709551615 is not open (it expired or never existed): open a new one and check what was done before you repeat a request
        > request 2#1 as ana submit ana/web 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
    "#]]);
}

#[test]
fn requests_may_overtake_each_other_and_each_is_done_once() {
    session(&expect![[r#"
        > open ana
        session 2
        > request 2#0 as ana submit ana/a 1
        refused: request 0 is older than the answers kept for its session: look at the state to see whether it was done
        > request 2#7 as ana submit ana/a 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > request 2#3 as ana submit ana/b 1
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > request 2#18446744073709551615 as ana submit ana/c 1
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > request 2#7 as ana submit ana/x 1
        job 1
        > request 2#3 as ana submit ana/x 1
        job 2
        > request 2#18446744073709551615 as ana submit ana/x 1
        job 3
    "#]]);
}

#[test]
fn a_request_whose_answer_was_dropped_is_not_executed_again() {
    session(&expect![[r#"
        > open ana
        session 2
        > request 2#5 as ana submit ana/web 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > request 2#6-36 as ana kill ana/web
        killed 0
        > request 2#5 as ana submit ana/web 1
        job 1
        > request 2#37 as ana submit ana/web 2
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        SUBMIT 2-1-1 (new)
        job 2
        > request 2#5 as ana submit ana/web 1
        refused: request 5 is older than the answers kept for its session: look at the state to see whether it was done
        > request 2#6 as ana kill ana/web
        killed 1
        > request 2#4 as ana submit ana/other 1
        refused: request 4 is older than the answers kept for its session: look at the state to see whether it was done
        > request 2#37 as ana submit ana/web 2
        job 2
        > show
        0 s
        job 1 ana/web dead, not the newest of that name
          1-0-1 killed by ana
        job 2 ana/web pending
          2-0-1 pending (new), not before 0 s
          2-1-1 pending (new), not before 0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}

#[test]
fn a_request_older_than_all_kept_answers_is_executed_once() {
    session(&expect![[r#"
        > open ana
        session 2
        > request 2#101-132 as ana kill ana/none
        refused: there is no job ana/none
        > request 2#50 as ana submit ana/web 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > request 2#50 as ana submit ana/web 1
        refused: request 50 is older than the answers kept for its session: look at the state to see whether it was done
        > request 2#49 as ana submit ana/other 1
        refused: request 49 is older than the answers kept for its session: look at the state to see whether it was done
        > request 2#51 as ana submit ana/other 1
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > request 2#101 as ana submit ana/x 1
        refused: there is no job ana/none
    "#]]);
}

#[test]
fn the_longest_unused_session_is_closed_beyond_the_bound() {
    session(&expect![[r#"
        > open ana
        session 2
        > request 2#1 as ana submit ana/web 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > open bob
        session 3
        > crowd 9997
        session 10000
        > request 3#1 as bob submit bob/web 1
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > request 2#1 as ana submit ana/web 1
        job 1
        > request 2#2 as ana submit ana/web 1
        job 1, unchanged
        > open dora
        session 10001
        > request 1#9 as root add m3 m3:1
        refused: session 1 is not open (it expired or never existed): open a new one and check what was done before you repeat a request
        > crowd 9997
        session 19998
        > request 3#1 as bob submit bob/web 1
        job 2
        > open dora
        session 19999
        > request 3#1 as bob submit bob/web 1
        refused: session 3 is not open (it expired or never existed): open a new one and check what was done before you repeat a request
        > request 2#1 as ana submit ana/web 1
        job 1
        > open dora
        session 20000
        > request 2#1 as ana submit ana/web 1
        job 1
        > request 2#3 as ana submit ana/web 1
        job 1, unchanged
    "#]]);
}

#[test]
fn a_user_who_opens_too_many_closes_his_own() {
    session(&expect![[r#"
        > open bob
        session 2
        > open ana
        session 3
        > open ana times 999
        session 1002
        > request 3#1 as ana submit ana/web 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > open ana
        session 1003
        > request 4#1 as ana submit ana/web 1
        refused: session 4 is not open (it expired or never existed): open a new one and check what was done before you repeat a request
        > request 3#2 as ana submit ana/web 1
        job 1, unchanged
        > request 2#1 as bob submit bob/web 1
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
    "#]]);
}

#[test]
fn a_repeated_kill_spares_a_new_job_of_the_same_name() {
    session(&expect![[r#"
        > open ana
        session 2
        > request 2#1 as ana kill ana/web
        refused: there is no job ana/web
        > submit ana/web 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > request 2#1 as ana kill ana/web
        refused: there is no job ana/web
        > request 2#2 as ana kill ana/web
        KILL 1-0-1 (by ana)
        KILL job 1 (by ana)
        killed 1
        > submit ana/web 1
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > request 2#2 as ana kill ana/web
        killed 1
        > request 2#3 as ana kill ana/web
        KILL 2-0-1 (by ana)
        KILL job 2 (by ana)
        killed 1
    "#]]);
}
