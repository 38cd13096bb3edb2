//! Outputs of ended tasks that become versions of packages.

use expect_test::expect;

use crate::script::session;

#[test]
fn the_last_machine_of_an_ended_task_adds_its_outputs_for_the_owner() {
    session(&expect![[r#"
        > machine m1
        > machine m2
        > submit ana/web 2 outputs=out:words
        > assign 1-0-1 m1 ; 1-1-1 m2
        > started 1-0-1
        > add-outputs m1 1-0-1 ana/words@1-0-1 1 5
        > ended 1-0-1 exit 0
        > add-outputs m2 1-0-1 ana/words@1-0-1 1 5
        > add-outputs m1 1-0-1 ben/words@1-0-1 1 5
        > add-outputs m1 1-0-1 ana/words@2 1 5
        > add-outputs m1 1-0-1 ana/words@1-0-1 1 9999999
        > add-outputs m1 1-0-1 ana/words@1-0-1 1 5
        > add-outputs m1 1-0-1 ana/words@1-0-1 1 5
        > add-outputs m1 1-0-1 ana/words@1-0-1 2 5
        > package ana/words@1-0-1 1 5 ben
        > add-outputs m1 1-0-1 ana/words@1-0-1 1 5
        > delete-package ana/words@1-0-1
        > add-outputs m1 9-0-1 ana/words@9-0-1 1 5
    "#]]);
}
