//! Replicas: added, joined to consensus step by step, and removed.

use cell::{Cell, Op};
use expect_test::expect;
use model::{DirectoryId, Level, ReplicaId, Time};

use crate::script::session;

#[test]
fn a_replica_comes_and_goes_step_by_step() {
    session(&expect![[r#"
        > replica 1 has 2 h1:1
        REPLICA_DESCRIBED 1 at 'h1:1' level 2
        > show replicas
        1 voter at 'h1:1' level 2
        voters 1; learners; last id 1
        > add-replica h2:1
        REPLICA_ADDED 2 at h2:1
        replica 2
        > show replicas
        1 voter at 'h1:1' level 2
        2 waiting at 'h2:1' level 0
        voters 1; learners; last id 2
        > member 2 learner
        REPLICA_MEMBER 2 learner
        > show replicas
        1 voter at 'h1:1' level 2
        2 learner at 'h2:1' level 0
        voters 1; learners 2; last id 2
        > replica 2 has 2
        REPLICA_DESCRIBED 2 at 'h2:1' level 2
        > member 2 voter
        REPLICA_MEMBER 2 voter
        > show replicas
        1 voter at 'h1:1' level 2
        2 voter at 'h2:1' level 2
        voters 1 2; learners; last id 2
        > remove-replica 1
        REPLICA_REMOVED 1
        done
        > show replicas
        1 voter, leaving at 'h1:1' level 2
        2 voter at 'h2:1' level 2
        voters 1 2; learners; last id 2
        > remove-replica 1
        done
        > member 1 out
        REPLICA_MEMBER 1 out
        > show replicas
        2 voter at 'h2:1' level 2
        voters 2; learners; last id 2
    "#]]);
}

#[test]
fn a_learner_leaves_by_consensus_and_one_that_waits_at_once() {
    session(&expect![[r#"
        > replica 1 has 2 h1:1
        REPLICA_DESCRIBED 1 at 'h1:1' level 2
        > add-replica h2:1
        REPLICA_ADDED 2 at h2:1
        replica 2
        > add-replica h3:1
        REPLICA_ADDED 3 at h3:1
        replica 3
        > member 2 learner
        REPLICA_MEMBER 2 learner
        > remove-replica 2
        REPLICA_REMOVED 2
        done
        > remove-replica 3
        REPLICA_REMOVED 3
        done
        > show replicas
        1 voter at 'h1:1' level 2
        2 learner, leaving at 'h2:1' level 0
        voters 1; learners 2; last id 3
        > member 2 voter
        (nothing)
        > member 2 out
        REPLICA_MEMBER 2 out
        > show replicas
        1 voter at 'h1:1' level 2
        voters 1; learners; last id 3
    "#]]);
}

#[test]
fn a_step_out_of_order_changes_nothing() {
    session(&expect![[r#"
        > member 1 out
        (nothing)
        > member 1 out
        (nothing)
        > member 1 learner
        (nothing)
        > replica 1 has 2 h1:1
        REPLICA_DESCRIBED 1 at 'h1:1' level 2
        > add-replica h2:1
        REPLICA_ADDED 2 at h2:1
        replica 2
        > member 2 voter
        (nothing)
        > member 2 out
        (nothing)
        > member 2 learner
        REPLICA_MEMBER 2 learner
        > member 2 learner
        (nothing)
        > member 2 out
        (nothing)
        > member 2 voter
        REPLICA_MEMBER 2 voter
        > member 2 voter
        (nothing)
        > member 2 learner
        (nothing)
        > member 2 out
        (nothing)
        > member 9 learner
        (nothing)
        > member 9 out
        (nothing)
        > remove-replica 2
        REPLICA_REMOVED 2
        done
        > member 2 learner
        (nothing)
        > member 2 voter
        (nothing)
        > show replicas
        1 voter at 'h1:1' level 2
        2 voter, leaving at 'h2:1' level 0
        voters 1 2; learners; last id 2
    "#]]);
}

#[test]
fn a_voter_stays() {
    session(&expect![[r#"
        > remove-replica 1
        refused: replica 1 is the last remaining voter, and the cell cannot commit anything without one: add another first (bourg master add), and wait until it votes
        > remove-replica 2
        refused: there is no replica 2: look for it with bourg master list
        > replica 1 has 2 h1:1
        REPLICA_DESCRIBED 1 at 'h1:1' level 2
        > remove-replica 1
        refused: replica 1 is the last remaining voter, and the cell cannot commit anything without one: add another first (bourg master add), and wait until it votes
        > add-replica h2:1
        REPLICA_ADDED 2 at h2:1
        replica 2
        > remove-replica 1
        refused: replica 1 is the last remaining voter, and the cell cannot commit anything without one: add another first (bourg master add), and wait until it votes
        > member 2 learner
        REPLICA_MEMBER 2 learner
        > remove-replica 1
        refused: replica 1 is the last remaining voter, and the cell cannot commit anything without one: add another first (bourg master add), and wait until it votes
        > member 2 voter
        REPLICA_MEMBER 2 voter
        > remove-replica 2
        REPLICA_REMOVED 2
        done
        > remove-replica 1
        refused: replica 1 is the last remaining voter, and the cell cannot commit anything without one: add another first (bourg master add), and wait until it votes
        > member 2 out
        REPLICA_MEMBER 2 out
        > remove-replica 1
        refused: replica 1 is the last remaining voter, and the cell cannot commit anything without one: add another first (bourg master add), and wait until it votes
        > show replicas
        1 voter at 'h1:1' level 2
        voters 1; learners; last id 2
    "#]]);
}

#[test]
fn no_id_is_given_twice() {
    session(&expect![[r#"
        > add-replica h2:1
        REPLICA_DESCRIBED 1 at '' level 1
        REPLICA_ADDED 2 at h2:1
        replica 2
        > remove-replica 2
        REPLICA_REMOVED 2
        done
        > add-replica h2:1
        REPLICA_ADDED 3 at h2:1
        replica 3
        > member 3 learner
        REPLICA_MEMBER 3 learner
        > remove-replica 3
        REPLICA_REMOVED 3
        done
        > member 3 out
        REPLICA_MEMBER 3 out
        > add-replica h2:1
        REPLICA_ADDED 4 at h2:1
        replica 4
        > remove-replica 3
        refused: there is no replica 3: look for it with bourg master list
        > show replicas
        1 voter at '' level 1
        4 waiting at 'h2:1' level 0
        voters 1; learners; last id 4
    "#]]);
}

#[test]
fn the_first_replica_is_recorded_by_its_description_or_an_addition() {
    session(&expect![[r#"
        > show replicas
        voters 1; learners; last id 1
        > replica 2 has 2 h2:1
        (nothing)
        > show replicas
        voters 1; learners; last id 1
        > add-replica h2:1
        REPLICA_DESCRIBED 1 at '' level 1
        REPLICA_ADDED 2 at h2:1
        replica 2
        > show replicas
        1 voter at '' level 1
        2 waiting at 'h2:1' level 0
        voters 1; learners; last id 2
        > replica 1 has 2 h1:1
        REPLICA_DESCRIBED 1 at 'h1:1' level 2
        > replica 2 has 3
        REPLICA_DESCRIBED 2 at 'h2:1' level 3
        > show replicas
        1 voter at 'h1:1' level 2
        2 waiting at 'h2:1' level 3
        voters 1; learners; last id 2
    "#]]);
}

#[test]
fn a_replica_describes_its_changes_and_unknown_fields_stay() {
    session(&expect![[r#"
        > replica 1 has 2
        REPLICA_DESCRIBED 1 at '' level 2
        > replica 1 has 2
        (nothing)
        > replica 1 has 2 h1:1
        REPLICA_DESCRIBED 1 at 'h1:1' level 2
        > replica 1 has 2 h1:1
        (nothing)
        > replica 1 has 3
        REPLICA_DESCRIBED 1 at 'h1:1' level 3
        > replica 1 has 2 h1:2
        REPLICA_DESCRIBED 1 at 'h1:2' level 2
        > replica 9 has 2 h9:1
        (nothing)
        > add-replica h2:1
        REPLICA_ADDED 2 at h2:1
        replica 2
        > member 2 learner
        REPLICA_MEMBER 2 learner
        > remove-replica 2
        REPLICA_REMOVED 2
        done
        > replica 2 has 2 h2:2
        REPLICA_DESCRIBED 2 at 'h2:2' level 2
        > show replicas
        1 voter at 'h1:2' level 2
        2 learner, leaving at 'h2:2' level 2
        voters 1; learners 2; last id 2
    "#]]);
}

#[test]
fn an_address_is_that_of_one_replica_that_stays() {
    session(&expect![[r#"
        > add-replica
        refused: a replica's address must be 1 to 256 characters, none of them a control character
        > replica 1 has 2 h1:1
        REPLICA_DESCRIBED 1 at 'h1:1' level 2
        > add-replica h1:1
        refused: replica 1 already has that address
        > add-replica h2:1
        REPLICA_ADDED 2 at h2:1
        replica 2
        > add-replica h2:1
        refused: replica 2 already has that address
        > member 2 learner
        REPLICA_MEMBER 2 learner
        > remove-replica 2
        REPLICA_REMOVED 2
        done
        > add-replica h2:1
        REPLICA_ADDED 3 at h2:1
        replica 3
        > show replicas
        1 voter at 'h1:1' level 2
        2 learner, leaving at 'h2:1' level 0
        3 waiting at 'h2:1' level 0
        voters 1; learners 2; last id 3
    "#]]);
}

#[test]
fn replicas_are_bounded_those_that_wait_and_leave_included() {
    session(&expect![[r#"
        > add-replica h2:1
        REPLICA_DESCRIBED 1 at '' level 1
        REPLICA_ADDED 2 at h2:1
        replica 2
        > add-replica h3:1
        REPLICA_ADDED 3 at h3:1
        replica 3
        > add-replica h4:1
        REPLICA_ADDED 4 at h4:1
        replica 4
        > add-replica h5:1
        REPLICA_ADDED 5 at h5:1
        replica 5
        > add-replica h6:1
        REPLICA_ADDED 6 at h6:1
        replica 6
        > add-replica h7:1
        REPLICA_ADDED 7 at h7:1
        replica 7
        > add-replica h8:1
        REPLICA_ADDED 8 at h8:1
        replica 8
        > add-replica h9:1
        REPLICA_ADDED 9 at h9:1
        replica 9
        > add-replica h10:1
        refused: the cell has 9 replicas, and the maximum is 9
        > member 2 learner
        REPLICA_MEMBER 2 learner
        > remove-replica 2
        REPLICA_REMOVED 2
        done
        > add-replica h10:1
        refused: the cell has 9 replicas, and the maximum is 9
        > member 2 out
        REPLICA_MEMBER 2 out
        > add-replica h10:1
        REPLICA_ADDED 10 at h10:1
        replica 10
    "#]]);
}

#[test]
fn only_administrators_add_and_remove() {
    session(&expect![[r#"
        > as ana add-replica h2:1
        refused: ana may not add a replica at h2:1: an administrator may
        > as ana remove-replica 1
        refused: ana may not remove replica 1: an administrator may
        > add-replica h2:1
        REPLICA_DESCRIBED 1 at '' level 1
        REPLICA_ADDED 2 at h2:1
        replica 2
        > open root
        session 3
        > request 3#1 as root add-replica h3:1
        REPLICA_ADDED 3 at h3:1
        replica 3
        > request 3#1 as root add-replica h3:1
        replica 3
        > show replicas
        1 voter at '' level 1
        2 waiting at 'h2:1' level 0
        3 waiting at 'h3:1' level 0
        voters 1; learners; last id 3
    "#]]);
}

#[test]
fn an_address_that_is_none_leaves_the_one_that_is_known() {
    let mut cell = Cell::empty();
    let replica = ReplicaId(1);
    for (address, level, is) in [
        ("h1:1", 2, "h1:1"),
        ("", 3, "h1:1"),
        ("h1:1\u{7}", 4, "h1:1"),
        (&"h".repeat(257), 5, "h1:1"),
        (&"h".repeat(256), 6, &"h".repeat(256)),
    ] {
        let (address, level) = (address.to_owned(), Level(level));
        let directory = DirectoryId::default();
        cell.apply(Time::ZERO, &Op::DescribeReplica { replica, address, level, directory });
        let known = cell.replica(replica).expect("recorded");
        assert_eq!((&*known.address, known.level), (is, level));
    }
}
