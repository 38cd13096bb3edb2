//! Gangs: their tasks are placed, stopped and started again together.

use expect_test::expect;

use crate::script::session;

#[test]
fn a_gang_is_placed_whole_or_not_at_all() {
    session(&expect![[r#"
        > submit ana/train 2 gang=yes cpu=600
        > assign 1-0-1 m1
        > assign 1-0-1 m1; 1-1-1 m1
        > show
        > submit ana/small 1 cpu=100
        > assign 2-0-1 m1; 1-0-1 m1; 1-1-1 m2
        > show
    "#]]);
}

#[test]
fn a_gang_that_no_machines_could_hold_is_rejected() {
    session(&expect![[r#"
        > submit ana/train 3 gang=yes cpu=600
        > submit ana/train 3 gang=yes cpu=500
        > submit ana/one 3 gang=yes per-machine=1
        > submit ana/gpu 1 gang=yes on=gpu
        > update ana/train 5 gang=yes cpu=500
    "#]]);
}

#[test]
fn all_start_again_when_one_fails() {
    session(&expect![[r#"
        > submit ana/train 3 gang=yes cpu=300 delay=5 failures=2
        > assign 1-0-1 m1; 1-1-1 m2; 1-2-1 m2
        > ended 1-1-1 exit 1
        > show
        > ended 1-0-1 stopped
        > assign 1-0-2 m1
        > ended 1-2-1 exit 0
        > show
        > assign 1-0-2 m1; 1-1-2 m2
        > at 5
        > assign 1-0-2 m1; 1-1-2 m2
        > started 1-0-2
        > ended 1-0-2 exit 2
        > ended 1-1-2 stopped
        > at 60
        > assign 1-0-3 m1; 1-1-3 m2
        > ended 1-1-3 exit 3
        > ended 1-0-3 stopped
        > show
    "#]]);
}

#[test]
fn a_gang_that_is_never_restarted_fails_as_a_whole() {
    session(&expect![[r#"
        > submit ana/train 3 gang=yes cpu=300 restart=never
        > assign 1-0-1 m1; 1-1-1 m2; 1-2-1 m2
        > ended 1-2-1 exit 0
        > ended 1-1-1 exit 1
        > ended 1-0-1 stopped
        > show
    "#]]);
}

#[test]
fn a_machine_that_is_lost_takes_the_whole_gang_down() {
    session(&expect![[r#"
        > submit ana/train 3 gang=yes cpu=300
        > assign 1-0-1 m1; 1-1-1 m2; 1-2-1 m2
        > silent m2
        > ended 1-0-1 stopped
        > assign 1-0-2 m1; 1-1-2 m1; 1-2-2 m1
        > show
    "#]]);
}

#[test]
fn a_preempted_task_takes_its_gang_with_it_and_a_kill_kills_all() {
    session(&expect![[r#"
        > submit ana/train 2 gang=yes cpu=600 priority=free
        > assign 1-0-1 m1; 1-1-1 m2
        > submit bob/web 1 cpu=900
        > assign 2-0-1 m1 evicting 1-0-1
        > ended 1-0-1 stopped
        > ended 1-1-1 stopped
        > kill ana/train/1
        > show
    "#]]);
}

#[test]
fn a_drain_moves_the_whole_gang_as_one_disruption() {
    session(&expect![[r#"
        > submit ana/train 2 gang=yes cpu=300 at-once=1 per-hour=1
        > assign 1-0-1 m1; 1-1-1 m2
        > started 1-0-1
        > started 1-1-1
        > drain m1
        > ended 1-0-1 stopped
        > ended 1-1-1 stopped
        > assign 1-0-2 m2; 1-1-2 m2
        > started 1-0-2
        > started 1-1-2
        > undrain m1
        > drain m2
        > show
    "#]]);
}

#[test]
fn an_update_restarts_the_whole_gang_at_once() {
    session(&expect![[r#"
        > submit ana/train 3 gang=yes cpu=300 batch=1
        > assign 1-0-1 m1; 1-1-1 m2; 1-2-1 m2
        > started 1-0-1
        > started 1-1-1
        > started 1-2-1
        > update ana/train 3 gang=yes cpu=300 batch=1 cmd=other
        > step 1 2 change=0
        > ended 1-0-1 stopped
        > ended 1-1-1 stopped
        > ended 1-2-1 stopped
        > show
    "#]]);
}

#[test]
fn a_gang_that_is_resized_starts_again_in_its_new_size() {
    session(&expect![[r#"
        > submit ana/train 2 gang=yes cpu=300
        > assign 1-0-1 m1; 1-1-1 m2
        > resize ana/train 3
        > ended 1-0-1 stopped
        > ended 1-1-1 stopped
        > assign 1-0-2 m1; 1-1-2 m2
        > assign 1-0-2 m1; 1-1-2 m2; 1-2-1 m2
        > show
    "#]]);
}
