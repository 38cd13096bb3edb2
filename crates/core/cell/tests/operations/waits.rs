//! Jobs that run after the end of others in a certain way, and tasks that run after tasks.

use expect_test::expect;

use crate::script::session;

#[test]
fn each_predecessor_has_to_end_in_its_way() {
    session(&expect![[r#"
        > submit ana/extract 1 failures=0
        > submit ana/report 1 after=extract:ended
        > submit ana/clean 1 after=extract:failed
        > submit ana/load 1 after=extract
        > assign 1-0-1 m1
        > ended 1-0-1 exit 3
        > submit ana/late 1 after=extract:failed
        > submit ana/later 1 after=extract:ended
        > submit ana/never 1 after=extract
        > submit ana/extract 1
        > submit ana/clean 1 after=extract:failed
        > submit ana/twice 1 after=extract,extract:failed
        > assign 8-0-1 m1
        > ended 8-0-1 exit 0
        > submit ana/rescue 1 after=extract:failed
        > show
    "#]]);
}

#[test]
fn a_kill_is_an_end_that_is_no_finish() {
    session(&expect![[r#"
        > submit ana/extract 1
        > submit ana/report 1 after=extract:ended
        > submit ana/clean 1 after=extract:failed
        > kill ana/extract
        > show
    "#]]);
}

#[test]
fn each_task_waits_for_the_task_of_its_index() {
    session(&expect![[r#"
        > submit ana/extract 4 failures=0
        > submit ana/load 3 after=extract:each-task
        > submit ana/load 4 after=extract:each-task
        > submit ana/sum 4 after=load
        > assign 1-0-1 m1; 1-1-1 m1
        > ended 1-1-1 exit 0
        > assign 2-1-1 m2
        > ended 1-0-1 exit 1
        > show
        > kill ana/extract/2
        > assign 1-3-1 m1
        > ended 1-3-1 exit 0
        > show
        > ended 2-1-1 exit 0
    "#]]);
}

#[test]
fn tasks_may_wait_for_a_job_and_for_a_task_of_another() {
    session(&expect![[r#"
        > submit ana/setup 1
        > submit ana/rows 2 failures=0
        > submit ana/load 2 after=setup,rows:ended:each-task
        > assign 2-0-1 m1; 2-1-1 m1
        > ended 2-0-1 exit 1
        > assign 1-0-1 m1
        > ended 1-0-1 exit 0
        > show
        > ended 2-1-1 exit 0
    "#]]);
}

#[test]
fn what_has_ended_before_is_seen_at_the_submission() {
    session(&expect![[r#"
        > submit ana/rows 3 failures=0
        > assign 1-0-1 m1; 1-1-1 m1
        > ended 1-0-1 exit 0
        > ended 1-1-1 exit 1
        > submit ana/load 3 after=rows:each-task
        > kill ana/rows/2
        > submit ana/again 3 after=rows:each-task
        > submit ana/rescue 3 after=rows:failed:each-task
        > show
    "#]]);
}

#[test]
fn a_resize_leaves_tasks_without_a_counterpart_alone() {
    session(&expect![[r#"
        > submit ana/rows 2
        > submit ana/load 2 after=rows:each-task
        > submit ana/load 3 after=rows:each-task
        > submit ana/rows 1
        > show
        > restart ana/load/1
        > show
    "#]]);
}

#[test]
fn a_task_over_its_maximum_has_failed_for_good_unless_it_always_runs() {
    session(&expect![[r#"
        > submit ana/once 1 max-runtime=60
        > submit ana/ever 1 max-runtime=60 restart=always
        > assign 1-0-1 m1; 2-0-1 m1
        > started 1-0-1
        > started 2-0-1
        > ended 1-0-1 over-runtime 60
        > ended 2-0-1 over-runtime 60
        > show
    "#]]);
}
