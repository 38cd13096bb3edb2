//! A cell with replicas, corrupted; and membership changes that no operation makes.

use model::{DirectoryId, Level, Member, ReplicaId};

use super::*;
use crate::{Applied, DecisionChecker, Replica};

fn replica(id: u64, member: Member) -> Replica {
    Replica::new(ReplicaId(id), format!("h{id}:1"), Level(1), member)
}

fn keep(cell: &mut Cell, replica: Replica) {
    cell.replicas.records.insert(replica.id, replica);
}

/// Replicas 1 and 2 vote, 3 learns and 4 waits.
fn of_four() -> Cell {
    let mut cell = valid_cell();
    cell.replicas.last = ReplicaId(4);
    let members = [Member::Voter, Member::Voter, Member::Learner, Member::Waiting];
    (1..).zip(members).for_each(|(id, member)| keep(&mut cell, replica(id, member)));
    assert_eq!(cell.check(), []);
    cell
}

fn corrupted(cell: &mut Cell, id: u64, corrupt: impl FnOnce(&mut Replica)) {
    corrupt(cell.replicas.records.get_mut(&ReplicaId(id)).expect("a replica"));
}

#[test]
fn every_corruption_of_replicas_is_named() {
    type Corrupt = fn(&mut Cell);
    let cases: &[(Corrupt, &[&str])] = &[
        (
            |cell| cell.replicas.last = ReplicaId(3),
            &["replica 4 is greater than the last id assigned (3), or stored under another id"],
        ),
        (
            |cell| corrupted(cell, 3, |replica| replica.id = ReplicaId(2)),
            &["replica 2 is greater than the last id assigned (4), or stored under another id"],
        ),
        (
            |cell| corrupted(cell, 4, |replica| replica.leaving = true),
            &["replica 4 is leaving but still waits to join"],
        ),
        (
            |cell| {
                corrupted(cell, 1, |replica| replica.leaving = true);
                corrupted(cell, 2, |replica| replica.member = Member::Learner);
            },
            &["every voter is leaving or there is none: the cell could not commit anything"],
        ),
        (
            |cell| corrupted(cell, 2, |replica| replica.address = "a".repeat(257).into()),
            &["257 characters of a replica's address, the maximum is 256"],
        ),
        (
            |cell| {
                cell.replicas.last = ReplicaId(10);
                (5..=10).for_each(|id| keep(cell, replica(id, Member::Waiting)));
            },
            &["10 replicas, the maximum is 9"],
        ),
    ];
    for (corrupt, expected) in cases {
        let mut cell = of_four();
        corrupt(&mut cell);
        let says: Vec<String> = cell.check().iter().map(ToString::to_string).collect();
        assert_eq!(says, *expected);
    }
}

#[test]
fn a_replica_keeps_its_directory() {
    let directory = |number| move |replica: &mut Replica| replica.directory = DirectoryId(number);
    let says = |before, after| {
        let mut cell = of_four();
        corrupted(&mut cell, 2, directory(before));
        let mut watch = DecisionChecker::from(&cell);
        let applied: Applied = cell.clone().apply(Time::ZERO, &Op::Nothing);
        corrupted(&mut cell, 2, directory(after));
        let violations = watch.after(&cell, &applied);
        violations.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(says(0, 7), [""; 0]);
    for after in [0, 8] {
        assert_eq!(says(7, after), ["replica 2 has another data directory than before, or none"]);
    }
}

#[test]
fn one_replica_at_a_time_changes_its_part_in_consensus() {
    type Change = fn(&mut Cell);
    let cases: &[(Change, &[&str])] = &[
        (|_| {}, &[]),
        (|cell| corrupted(cell, 3, |replica| replica.member = Member::Voter), &[]),
        (|cell| corrupted(cell, 1, |replica| replica.leaving = true), &[]),
        (|cell| keep(cell, replica(5, Member::Waiting)), &[]),
        (
            |cell| {
                corrupted(cell, 3, |replica| replica.member = Member::Voter);
                corrupted(cell, 4, |replica| replica.member = Member::Learner);
            },
            &["replicas [ReplicaId(3), ReplicaId(4)] changed their role in consensus at once; \
                 only one at a time may"],
        ),
        (
            |cell| cell.replicas.records.clear(),
            &["replicas [ReplicaId(2), ReplicaId(3)] changed their role in consensus at once; \
                 only one at a time may"],
        ),
    ];
    for (change, expected) in cases {
        let mut cell = of_four();
        let mut watch = DecisionChecker::from(&cell);
        let applied: Applied = cell.clone().apply(Time::ZERO, &Op::Nothing);
        change(&mut cell);
        let violations = watch.after(&cell, &applied);
        let says: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert_eq!(says, *expected);
    }
}
