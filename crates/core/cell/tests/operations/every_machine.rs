//! Jobs with one task on every machine: they grow and shrink with the cell.

use expect_test::expect;

use crate::script::session;

/// The task of a machine begins with the operation that adds it, and nowhere else.
#[test]
fn a_machine_that_joins_gets_its_task() {
    session(&expect![[r#"
        > submit ana/exporter 1 everywhere=yes
        > assign 1-1-1 m1
        > assign 1-0-1 m1
        > assign 1-1-1 m2
        > machine m3 cpu=4000 ram=8192
        > assign 1-2-1 m3
        > resize ana/exporter 5
    "#]]);
}

/// An attribute that no longer matches ends the task; when it matches again, the row is used again.
#[test]
fn constraints_decide_which_machines_have_one() {
    session(&expect![[r#"
        > say m1 gpu=H200
        > submit ana/exporter 1 everywhere=yes on=gpu
        > assign 1-0-1 m1
        > started 1-0-1
        > say m2 gpu=A100
        > say m1 gpu
        > ended 1-0-1 stopped
        > say m3 gpu=A100
        > say m2 gpu
    "#]]);
}

/// A job without a machine goes on; killed, it ends.
#[test]
fn a_job_without_machines_waits_for_some() {
    session(&expect![[r#"
        > submit ana/exporter 1 everywhere=yes on=gpu
        > submit ana/exporter 1 everywhere=yes on=gpu
        > submit ana/exporter 3
        > say m1 gpu=H200
        > say m1 gpu
        > kill ana/exporter
    "#]]);
}

/// Where quota does not suffice, a machine is left out until it does.
#[test]
fn growth_beyond_the_quota_waits_for_quota() {
    session(&expect![[r#"
        > grant ana production cpu=300 ram=1024
        > meter on
        > submit ana/exporter 1 everywhere=yes cpu=150
        > machine m3 cpu=4000 ram=8192
        > grant ana production cpu=150 ram=64
    "#]]);
}

/// Everything else leaves a machine first.
#[test]
fn its_task_leaves_a_drained_machine_last() {
    session(&expect![[r#"
        > submit ana/exporter 1 everywhere=yes
        > submit ana/web 1
        > assign 1-0-1 m1
        > assign 2-0-1 m1
        > drain m1
        > evict m1 1-0-1
        > ended 2-0-1 stopped
        > evict m1 1-0-1
        > ended 1-0-1 stopped
        > assign 1-0-2 m2
        > undrain m1
        > assign 1-0-2 m1
    "#]]);
}
