//! Unresponsive machines: unreachable, down at a limited rate, and the circuit breaker.

use expect_test::expect;

use super::session::session;

#[test]
fn a_machine_is_unreachable_then_down_and_back_when_it_answers() {
    session(&expect![[r#"
        > cell 3 4
        > silent m2
        > for 7
        16.1 s: unreachable m2
        16.1 s: down m2
        > for 4
        > show
        down: m2
        up: m1 m3
        rescheduling is allowed
        > answer m2
        > for 3
        22.1 s: back m2
        > show
        up: m1 m2 m3
        rescheduling is allowed
    "#]]);
}

#[test]
fn a_machine_that_answers_in_time_keeps_its_tasks() {
    session(&expect![[r#"
        > set rate=0
        > cell 3 4
        > silent m2
        > for 60
        16.1 s: unreachable m2
        > answer m2
        > for 3
        70.1 s: back m2
        > show
        up: m1 m2 m3
        rescheduling is allowed
    "#]]);
}

#[test]
fn a_rack_goes_down_in_bursts_the_first_unreachable_first() {
    session(&expect![[r#"
        > cell 40 30
        > for 60
        > silent m7-m16
        > for 11
        76.2 s: unreachable m7
        76.2 s: down m7
        76.2 s: unreachable m8
        76.2 s: down m8
        76.2 s: unreachable m9
        76.2 s: down m9
        76.2 s: unreachable m10
        76.2 s: unreachable m11
        76.2 s: unreachable m12
        76.2 s: unreachable m13
        76.2 s: unreachable m14
        76.2 s: unreachable m15
        76.2 s: unreachable m16
        78.2 s: down m10
        > for 27
        81.2 s: down m11
        84.2 s: down m12
        87.2 s: down m13
        90.2 s: down m14
        93.2 s: down m15
        96.2 s: down m16
        > show
        down: m10 m11 m12 m13 m14 m15 m16 m7 m8 m9
        up: m1 m17 m18 m19 m2 m20 m21 m22 m23 m24 m25 m26 m27 m28 m29 m3 m30 m31 m32 m33 m34 m35 m36 m37 m38 m39 m4 m40 m5 m6
        rescheduling is allowed
    "#]]);
}

#[test]
fn a_machine_with_more_tasks_than_a_burst_needs_a_full_bucket() {
    session(&expect![[r#"
        > cell 9 250
        > for 60
        > silent m1 m2
        > for 60
        76.2 s: unreachable m1
        76.2 s: down m1
        76.2 s: unreachable m2
        101.2 s: down m2
    "#]]);
}

#[test]
fn a_machine_without_tasks_costs_nothing() {
    session(&expect![[r#"
        > set rate=1 burst=0
        > cell 40 0
        > silent m1-m12
        > for 12
        16.1 s: unreachable m1
        16.1 s: down m1
        16.1 s: unreachable m2
        16.1 s: down m2
        16.1 s: unreachable m3
        16.1 s: down m3
        16.1 s: unreachable m4
        16.1 s: down m4
        16.1 s: unreachable m5
        16.1 s: down m5
        16.1 s: unreachable m6
        16.1 s: down m6
        16.1 s: unreachable m7
        16.1 s: down m7
        16.1 s: unreachable m8
        16.1 s: down m8
        16.1 s: unreachable m9
        16.1 s: down m9
        16.1 s: unreachable m10
        16.1 s: down m10
        16.1 s: unreachable m11
        16.1 s: down m11
        16.1 s: unreachable m12
        16.1 s: down m12
    "#]]);
}

#[test]
fn too_many_silent_machines_are_not_marked_down_until_they_answer() {
    session(&expect![[r#"
        > cell 9 4
        > for 60
        > silent m1-m4
        > for 60
        76.2 s: unreachable m1
        76.2 s: unreachable m2
        76.2 s: unreachable m3
        76.2 s: unreachable m4
        76.2 s: stop: 4 of 9 are silent
        > show
        unreachable: m1 m2 m3 m4
        up: m5 m6 m7 m8 m9
        rescheduling is stopped
        > answer m1
        > for 3
        130.2 s: back m1
        130.2 s: allow
        > show
        unreachable: m2 m3 m4
        up: m1 m5 m6 m7 m8 m9
        rescheduling is allowed
        > for 12
        138.2 s: down m2
        138.2 s: down m3
        138.2 s: down m4
        > show
        down: m2 m3 m4
        up: m1 m5 m6 m7 m8 m9
        rescheduling is allowed
    "#]]);
}

#[test]
fn a_third_is_not_too_many_and_neither_are_two() {
    session(&expect![[r#"
        > cell 9 4
        > for 60
        > silent m1-m3
        > for 12
        76.2 s: unreachable m1
        76.2 s: down m1
        76.2 s: unreachable m2
        76.2 s: down m2
        76.2 s: unreachable m3
        76.2 s: down m3
    "#]]);
}

#[test]
fn a_small_cell_may_lose_two_machines() {
    session(&expect![[r#"
        > cell 3 4
        > for 60
        > silent m1 m2
        > for 12
        76.2 s: unreachable m1
        76.2 s: down m1
        76.2 s: unreachable m2
        76.2 s: down m2
        > show
        down: m1 m2
        up: m3
        rescheduling is allowed
        > silent m3
        > for 12
        88.3 s: unreachable m3
        88.3 s: down m3
        > show
        down: m1 m2 m3
        rescheduling is allowed
    "#]]);
}

#[test]
fn a_person_resumes_rescheduling_and_then_it_stops_again() {
    session(&expect![[r#"
        > cell 12 4
        > for 60
        > resume
        refused: rescheduling is not stopped: there is nothing to resume
        > silent m1-m6
        > for 30
        76.2 s: unreachable m1
        76.2 s: unreachable m2
        76.2 s: unreachable m3
        76.2 s: unreachable m4
        76.2 s: unreachable m5
        76.2 s: stop: 5 of 12 are silent
        76.2 s: unreachable m6
        > resume
        100.0 s: down m1
        100.0 s: down m2
        100.0 s: down m3
        100.0 s: down m4
        100.0 s: down m5
        100.0 s: down m6
        100.0 s: allow
        > for 10
        > show
        down: m1 m2 m3 m4 m5 m6
        up: m10 m11 m12 m7 m8 m9
        rescheduling is allowed
        > silent m7-m9
        > for 12
        116.3 s: unreachable m7
        116.3 s: unreachable m8
        116.3 s: unreachable m9
        116.3 s: stop: 3 of 6 are silent
        > show
        down: m1 m2 m3 m4 m5 m6
        unreachable: m7 m8 m9
        up: m10 m11 m12
        rescheduling is stopped
    "#]]);
}

#[test]
fn machines_that_fall_silent_in_turn_count_together() {
    session(&expect![[r#"
        > cell 9 4
        > for 60
        > silent m1
        > for 2
        > silent m2
        > for 2
        > silent m3
        > for 2
        > silent m4
        > for 12
        76.2 s: unreachable m1
        76.2 s: down m1
        78.2 s: unreachable m2
        80.2 s: unreachable m3
        82.2 s: unreachable m4
        82.2 s: stop: 3 of 8 are silent
        > show
        down: m1
        unreachable: m2 m3 m4
        up: m5 m6 m7 m8 m9
        rescheduling is stopped
    "#]]);
}

#[test]
fn a_machine_that_answers_now_and_then_loses_nothing() {
    session(&expect![[r#"
        > cell 3 4
        > for 60
        > silent m1
        > for 6
        > answer m1
        > for 5
        > silent m1
        > for 6
        > answer m1
        > for 5
        > show
        up: m1 m2 m3
        rescheduling is allowed
    "#]]);
}

#[test]
fn a_flapping_machine_is_back_as_often_as_it_answers() {
    session(&expect![[r#"
        > set rate=0
        > cell 3 4
        > silent m1
        > for 12
        16.1 s: unreachable m1
        > answer m1
        > for 5
        22.1 s: back m1
        > silent m1
        > for 12
        34.1 s: unreachable m1
        > answer m1
        > for 5
        40.1 s: back m1
        > show
        up: m1 m2 m3
        rescheduling is allowed
    "#]]);
}

#[test]
fn a_new_leader_begins_its_polls_anew() {
    session(&expect![[r#"
        > cell 9 4
        > silent m1
        > for 7
        16.1 s: unreachable m1
        16.1 s: down m1
        > restart
        > for 7
        > for 4
        > show
        down: m1
        up: m2 m3 m4 m5 m6 m7 m8 m9
        rescheduling is allowed
    "#]]);
}

#[test]
fn unreachable_machines_recover_or_go_down_by_the_new_leaders_polls() {
    session(&expect![[r#"
        > set rate=0
        > cell 9 4
        > silent m1 m2
        > for 30
        16.1 s: unreachable m1
        16.1 s: unreachable m2
        > show
        unreachable: m1 m2
        up: m3 m4 m5 m6 m7 m8 m9
        rescheduling is allowed
        > set rate=10
        > answer m1
        > restart
        40.0 s: back m1
        > for 7
        > for 10
        48.0 s: down m2
        > show
        down: m2
        up: m1 m3 m4 m5 m6 m7 m8 m9
        rescheduling is allowed
    "#]]);
}

#[test]
fn a_new_leader_that_nobody_answers_marks_nobody_down() {
    session(&expect![[r#"
        > cell 9 4
        > silent m1-m9
        > restart
        > for 60
        18.0 s: unreachable m1
        18.0 s: unreachable m2
        18.0 s: unreachable m3
        18.0 s: unreachable m4
        18.0 s: stop: 4 of 9 are silent
        18.0 s: unreachable m5
        18.0 s: unreachable m6
        18.0 s: unreachable m7
        18.0 s: unreachable m8
        18.0 s: unreachable m9
        > show
        unreachable: m1 m2 m3 m4 m5 m6 m7 m8 m9
        rescheduling is stopped
        > answer m1-m9
        > for 5
        72.0 s: back m1
        72.0 s: back m2
        72.0 s: back m3
        72.0 s: back m4
        72.0 s: back m5
        72.0 s: back m6
        72.0 s: allow
        72.0 s: back m7
        72.0 s: back m8
        72.0 s: back m9
        > show
        up: m1 m2 m3 m4 m5 m6 m7 m8 m9
        rescheduling is allowed
    "#]]);
}

#[test]
fn a_new_leader_finds_rescheduling_stopped() {
    session(&expect![[r#"
        > cell 9 4
        > silent m1-m4
        > for 30
        16.1 s: unreachable m1
        16.1 s: unreachable m2
        16.1 s: unreachable m3
        16.1 s: unreachable m4
        16.1 s: stop: 4 of 9 are silent
        > restart
        > for 30
        > answer m1 m2
        > for 5
        72.0 s: back m1
        72.0 s: allow
        72.0 s: back m2
        > show
        unreachable: m3 m4
        up: m1 m2 m5 m6 m7 m8 m9
        rescheduling is allowed
        > for 30
        80.0 s: down m3
        80.0 s: down m4
        > show
        down: m3 m4
        up: m1 m2 m5 m6 m7 m8 m9
        rescheduling is allowed
    "#]]);
}

#[test]
fn a_proposal_in_flight_is_not_repeated() {
    session(&expect![[r#"
        > set again=10
        > cell 9 4
        > for 60
        > slow 9
        > silent m1
        > for 40
        76.2 s: unreachable m1
        85.2 s: down m1
        > show
        down: m1
        up: m2 m3 m4 m5 m6 m7 m8 m9
        rescheduling is allowed
        > silent m2-m5
        > for 60
        116.3 s: unreachable m2
        116.3 s: unreachable m3
        116.3 s: unreachable m4
        116.3 s: unreachable m5
        125.3 s: stop: 3 of 8 are silent
        > answer m1-m5
        > for 60
        170.2 s: back m1
        170.3 s: back m2
        170.3 s: back m3
        170.3 s: back m4
        170.3 s: back m5
        179.3 s: allow
        > show
        up: m1 m2 m3 m4 m5 m6 m7 m8 m9
        rescheduling is allowed
    "#]]);
}

#[test]
fn a_machine_that_is_removed_counts_no_more() {
    session(&expect![[r#"
        > cell 9 0
        > silent m1
        > for 12
        16.1 s: unreachable m1
        16.1 s: down m1
        > remove m1
        > silent m2-m4
        > for 12
        28.1 s: unreachable m2
        28.1 s: unreachable m3
        28.1 s: unreachable m4
        28.1 s: stop: 3 of 8 are silent
        > show
        unreachable: m2 m3 m4
        up: m5 m6 m7 m8 m9
        rescheduling is stopped
    "#]]);
}
