//! Outputs of ended tasks that become versions of packages.

use expect_test::expect;

use crate::script::session;

#[test]
fn the_last_machine_of_an_ended_task_adds_its_outputs_for_the_owner() {
    session(&expect![[r#"
        > submit ana/web 1 outputs=out:words
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > add-outputs m1 1-0-1 ana/words@1-0-1 1 5
        refused: ana/web/0 has just ended or been restarted: try again
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        FINISH job 1
        > add-outputs m2 1-0-1 ana/words@1-0-1 1 5
        refused: ana/web/0 has just ended or been restarted: try again
        > add-outputs m1 1-0-1 ben/words@1-0-1 1 5
        refused: there is no package ben/words@1-0-1 (bourg package list shows those that you may use)
        > add-outputs m1 1-0-1 ana/words@2 1 5
        refused: there is no package ana/words@2 (bourg package list shows those that you may use)
        > add-outputs m1 1-0-1 ana/words@1-0-1 7 5
        SET_PACKAGE ana/words@1-0-1 5 MiB
        new
        > add-outputs m1 1-0-1 ana/words@1-0-1 7 5
        existed
        > add-outputs m1 1-0-1 ana/words@1-0-1 8 5
        refused: ana/words@1-0-1 exists with another content, 0000000000000007000000000000000000000000000000000000000000000000: a version never changes; give the new content another version
        > package ana/words@1-0-1 7 5 bob
        SET_PACKAGE ana/words@1-0-1 5 MiB for bob replaced
        existed
        > add-outputs m1 1-0-1 ana/words@1-0-1 7 5
        existed
        > show packages
        ana/words@1-0-1 5 MiB for bob
        > add-outputs m1 9-0-1 ana/words@9-0-1 1 5
        refused: there is no job 9
    "#]]);
}
