//! Addresses of tasks and allocs with a network of their own.

use expect_test::expect;

use crate::script::session;

#[test]
fn an_address_is_one_of_the_machines_and_free() {
    session(&expect![[r#"
        > describe m1 network=10.64.5.0/29
        > submit ana/web 4 ports=http network=own
        > submit ana/old 1 ports=http
        > assign 1-0-1 m1
        > assign 1-0-1 m1 at 10.64.5.0
        > assign 1-0-1 m1 at 10.64.5.1
        > assign 1-0-1 m1 at 10.64.5.7
        > assign 1-0-1 m1 at 10.64.6.2
        > assign 1-0-1 m1 at 10.64.5.2 31000
        > assign 1-0-1 m2 at 10.64.5.2
        > assign 2-0-1 m1 at 10.64.5.2 31000
        > assign 1-0-1 m1 at 10.64.5.2 ; 1-1-1 m1 at 10.64.5.2 ; 1-1-1 m1 at 10.64.5.6
        > show
        > ended 1-0-1 exit 0
        > assign 1-2-1 m1 at 10.64.5.2
        > show
    "#]]);
}

#[test]
fn tasks_in_an_alloc_have_its_address_and_other_ports() {
    session(&expect![[r#"
        > describe m1 network=10.64.5.0/30
        > submit ana/room 1 allocs=none network=own
        > assign 1-0-1 m1 at 10.64.5.6
        > assign 1-0-1 m1 at 10.64.5.2
        > submit ana/web 2 in=room cpu=10 ram=8 ports=http network=own
        > submit ana/hosted 1 in=room cpu=10 ram=8
        > assign 2-0-1 m1 at 10.64.5.2 in 1-0-1
        > assign 3-0-1 m1 in 1-0-1
        > assign 2-0-1 m1 in 1-0-1 ; 2-1-1 m1 in 1-0-1
        > show
        > ended 2-0-1 exit 0
        > assign 2-1-1 m1 in 1-0-1
        > submit ana/more 1 network=own
        > assign 4-0-1 m1 at 10.64.5.2
        > show
    "#]]);
}
