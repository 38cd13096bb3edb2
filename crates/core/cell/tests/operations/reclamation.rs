//! The setting of resource reclamation.

use expect_test::expect;

use crate::script::session;

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
