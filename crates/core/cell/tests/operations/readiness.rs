//! Machines that can run no tasks get none, but at most half of a cell is set aside.

use expect_test::expect;

use crate::script::session;

#[test]
fn at_most_half_of_the_machines_are_set_aside() {
    session(&expect![[r#"
        > submit ana/web 4
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        SUBMIT 1-2-1 (new)
        SUBMIT 1-3-1 (new)
        job 1
        > describe m2 not-ready=noexec
        NOT_READY machine 2 (noexec)
        > describe m1 not-ready=full
        NOT_READY machine 1 (full)
        > assign 1-0-1 m1
        refused: it does not fit on machine 1: is not ready: it can run no tasks
        > assign 1-1-1 m2
        SCHEDULE job 1 on 2
        SCHEDULE 1-1-1 on 2
        accepted
        > describe m1
        READY machine 1
        > assign 1-0-1 m1
        SCHEDULE 1-0-1 on 1
        accepted
        > assign 1-2-1 m2
        refused: it does not fit on machine 2: is not ready: it can run no tasks
        > machine m3
        UPDATE machine 3 to 1 core, 1 GiB
        > machine m4 not-ready=noexec
        UPDATE machine 4 to 1 core, 1 GiB
        NOT_READY machine 4 (noexec)
        > assign 1-2-1 m2
        refused: it does not fit on machine 2: is not ready: it can run no tasks
        > assign 1-2-1 m4
        refused: it does not fit on machine 4: is not ready: it can run no tasks
        > describe m2
        READY machine 2
        > assign 1-2-1 m2
        SCHEDULE 1-2-1 on 2
        accepted
        > assign 1-3-1 m4
        refused: it does not fit on machine 4: is not ready: it can run no tasks
    "#]]);
}
