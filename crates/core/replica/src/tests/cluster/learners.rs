//! When a new replica gets its vote.

use super::*;

/// The vote of a replica that never ran would be missing, and the cell would be stuck.
#[test]
fn an_added_replica_that_does_not_run_gets_no_vote() {
    let mut cluster = Cluster::bootstrapped(LEVEL);
    let added = cluster.change(id(1), Mutation::AddReplica(AddReplica { address: address(id(2)) }));
    assert_eq!(added, Some(Ok(Reply::ReplicaAdded(id(2)))));
    cluster.run(500);
    assert_eq!(cluster.cell(id(1)).replica(id(2)).map(|r| r.member), Some(Member::Learner));
    let name = MachineName::new("m9").expect("a name");
    let added = cluster
        .change(id(1), Mutation::AddMachine(AddMachine { name, address: "m9:1".to_owned() }));
    assert!(matches!(added, Some(Ok(Reply::MachineAdded(_)))), "{added:?}");
    cluster.start(id(2), LEVEL);
    cluster.until("it votes", |cluster| {
        cluster.cell(id(1)).replica(id(2)).map(|r| r.member) == Some(Member::Voter)
    });
}

/// It votes for nobody, so the others could not elect a leader without the one that gave it its vote.
#[test]
fn an_added_replica_that_has_stored_nothing_gets_no_vote() {
    let mut cluster = Cluster::bootstrapped(LEVEL);
    let added = cluster.change(id(1), Mutation::AddReplica(AddReplica { address: address(id(2)) }));
    assert_eq!(added, Some(Ok(Reply::ReplicaAdded(id(2)))));
    cluster.stuck.insert(id(2), Vec::new());
    cluster.start(id(2), LEVEL);
    let recorded = |cluster: &Cluster| cluster.cell(id(1)).replica(id(2)).cloned();
    cluster.until("it runs", |cluster| recorded(cluster).is_some_and(|it| it.level == LEVEL));
    cluster.run(200);
    assert_eq!(recorded(&cluster).map(|it| it.member), Some(Member::Learner));
    let waits = cluster.stuck.remove(&id(2)).expect("it is stuck");
    let host = cluster.hosts.get_mut(&id(2)).expect("a host");
    waits.into_iter().for_each(|persist| host.writes(persist));
    cluster.until("it votes", |cluster| {
        recorded(cluster).is_some_and(|it| it.member == Member::Voter)
    });
    cluster.crash(id(1));
    cluster.start(id(1), LEVEL);
    cluster.elected();
}
