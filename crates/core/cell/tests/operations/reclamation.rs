//! The settings of resource reclamation and of packing.

use expect_test::expect;

use crate::script::session;

#[test]
fn an_administrator_sets_how_tasks_are_packed() {
    session(&expect![[r#"
        > pack hybrid
        done
        > as ana pack best-fit
        refused: ana may not set the packing policy: an administrator may
        > pack best-fit
        PACKING best-fit
        done
        > pack worst-fit
        PACKING worst-fit
        done
    "#]]);
}

#[test]
fn an_administrator_sets_how_much_is_reclaimed() {
    session(&expect![[r#"
        > reclaim medium
        done
        > as ana reclaim off
        refused: ana may not set how much is reclaimed: an administrator may
        > reclaim off
        RECLAMATION off
        done
        > reclaim off
        done
        > reclaim aggressive
        RECLAMATION aggressive
        done
    "#]]);
}
