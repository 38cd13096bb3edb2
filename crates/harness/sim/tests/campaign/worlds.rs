//! Worlds in which the campaign found a bug, shrunk to the faults that it needs.

use super::*;

/// Runs a world of five replicas with all families of faults, of which only some are injected.
fn is_clean(seed: u64, only: &[usize]) {
    let verdict = run(&Plan { replicas: 5, only: Some(only.to_vec()), ..plan(seed) });
    assert_eq!(verdict.failure, None, "seed {seed}");
}

/// A leader took in a late answer, and then learned of a higher term in the same step.
#[test]
fn a_deposed_leader_says_nothing_more() {
    is_clean(900_237, &[0, 1, 4, 6, 7, 8, 9, 10, 11, 24, 26, 34]);
}

/// The cell was restored, and soon after from a replica that the restoration had discarded.
#[test]
fn two_restorations_that_know_nothing_of_each_other_are_two_cells() {
    is_clean(900_217, &[1, 4, 10, 16, 19, 20]);
    let verdict = run(&Plan { replicas: 5, ..plan(900_217) });
    assert_eq!(verdict.failure, None);
}

/// A replica heard the leader and could store no snapshot: it ordered what it last knew.
#[test]
fn a_replica_that_lags_for_ever_polls_no_machine() {
    is_clean(700_298, &[13, 15, 16]);
}

/// A replica had its vote before it had stored anything, and the one that had given it lost power: neither
/// could elect the other.
#[test]
fn a_replica_that_has_stored_nothing_has_no_vote() {
    let world = Plan::of(1_206, Span::from_secs(720));
    let verdict = run(&Plan { replicas: 3, only: Some(vec![2, 6, 7]), ..world });
    assert_eq!(verdict.failure, None);
}
