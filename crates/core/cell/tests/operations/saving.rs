//! What is left of tasks that end: the notice that they had, and the data that their machine keeps
//! for savers.

use expect_test::expect;

use crate::script::session;

#[test]
fn notices_are_counted_by_reason_and_delivery() {
    session(&expect![[r#"
        > submit ana/train 4 priority=free cpu=200
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        SUBMIT 1-3-1 (new)
        job 1
        > submit bob/web 1 cpu=900 victim-notice=5
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > assign 1-0-1 m1 ; 1-1-1 m1 ; 1-2-1 m2 ; 1-3-1 m2
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        SCHEDULE 1-2-1 on 2
        SCHEDULE 1-3-1 on 2
        accepted
        accepted
        accepted
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > started 1-1-1
        START 1-1-1 on 1
        > started 1-2-1
        START 1-2-1 on 2
        > assign 2-0-1 m1 evicting 1-0-1 1-1-1
        STOP 1-0-1 (evict, preempted by 2-0-1)
        STOP 1-1-1 (evict, preempted by 2-0-1)
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        > ended 1-0-1 stopped notice full
        EVICT 1-0-1 (preempted by 2-0-1), notice in full
        SUBMIT 1-0-2 (evicted: preempted by 2-0-1)
        > ended 1-1-1 stopped notice partial
        EVICT 1-1-1 (preempted by 2-0-1), notice in part
        SUBMIT 1-1-2 (evicted: preempted by 2-0-1)
        > show notices
        preempted: full 1
        preempted: partial 1
        > as ana kill ana/train
        KILL 1-0-2 (by ana)
        KILL 1-1-2 (by ana)
        STOP 1-2-1 (kill, by ana)
        STOP 1-3-1 (kill, by ana)
        killed 4
        > ended 1-2-1 stopped
        KILL 1-2-1 (by ana)
        > ended 1-3-1 stopped
        KILL 1-3-1 (by ana)
        KILL job 1 (by ana)
        > show notices
        killed: none 1
        preempted: full 1
        preempted: partial 1
    "#]]);
}

#[test]
fn a_machine_that_goes_down_gives_no_pending_notices() {
    session(&expect![[r#"
        > submit ana/web 2
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1 ; 1-1-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        accepted
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > started 1-1-1
        START 1-1-1 on 1
        > as ana kill ana/web/0
        STOP 1-0-1 (kill, by ana)
        killed 1
        > silent m1
        DOWN machine 1
        KILL 1-0-1 (by ana)
        EVICT 1-1-1 (machine failure)
        SUBMIT 1-1-2 (evicted: machine failure)
        > show notices
        killed: none 1
    "#]]);
}

#[test]
fn the_outcome_of_saving_data_is_one_event() {
    session(&expect![[r#"
        > submit ana/web 1 saver=save
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        FINISH job 1
        > describe m1 saving=1-0-1:kept
        (nothing)
        > describe m1 saving=1-0-1:saved
        SAVED 1-0-1 on 1 (2 attempts)
        > describe m1 saving=1-0-1:saved
        (nothing)
        > describe m1
        (nothing)
    "#]]);
}

#[test]
fn an_owner_and_administrators_end_savers_and_nobody_else() {
    session(&expect![[r#"
        > submit ana/web 2 saver=save
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > describe m1 saving=1-0-1:kept saving=1-1-1:saved saving=9-0-1:kept
        SAVED 1-1-1 on 1 (2 attempts)
        > as bob end-saver m1 1-0-1
        refused: bob may not end savers of ana: an administrator may
        > as ana end-saver m1 1-0-1
        done
        > as ana end-saver m1 1-0-1
        done
        > end-saver m1 1-0-1
        done
        > as ana end-saver m1 1-1-1
        refused: machine m1 keeps no data of instance 1-1-1 any more: bourg saver list shows what is kept
        > as ana end-saver m1 1-5-1
        refused: machine m1 keeps no data of instance 1-5-1 any more: bourg saver list shows what is kept
        > as ana end-saver m9 1-0-1
        refused: there is no machine m9
        > as ana end-saver m1 9-0-1
        refused: ana may not end savers of a forgotten job: an administrator may
        > end-saver m1 9-0-1
        done
        > describe m1 saving=1-0-1:ana-has-ended-it saving=9-0-1:kept
        SAVER_GIVEN_UP 1-0-1 on 1 (ana-has-ended-it)
        > end-saver m1 1-0-1
        refused: machine m1 keeps no data of instance 1-0-1 any more: bourg saver list shows what is kept
    "#]]);
}

#[test]
fn abandoned_data_is_an_event_even_if_merely_gone() {
    session(&expect![[r#"
        > describe m1 saving=1-0-1:kept saving=1-1-1:too-late
        SAVER_GIVEN_UP 1-1-1 on 1 (too-late)
        > describe m1
        SAVER_GIVEN_UP 1-0-1 on 1 (its machine does not have its data any more)
        > describe m2 saving=1-2-1:kept saving=1-3-1:saved
        SAVED 1-3-1 on 2 (2 attempts)
        > remove m2
        SAVER_GIVEN_UP 1-2-1 on 2 (its machine was removed from the cell)
        REMOVE machine 2
        done
    "#]]);
}
