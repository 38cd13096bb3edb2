//! An idle cell: the leader still knows which other replicas are alive.

use super::{Cluster, id};
use crate::Input;

impl Cluster {
    /// The replicas that answer, as seen by the leader.
    fn answering(&self) -> Vec<u64> {
        let leader = self.leader().expect("somebody leads");
        let leader = self.hosts[&leader].replica.as_ref().expect("it runs");
        let progress = leader.progress(self.now).into_iter();
        progress.filter(|of| of.answers).map(|of| of.replica.0).collect()
    }
}

#[test]
fn healthy_followers_of_an_idle_cell_answer_at_every_moment() {
    let mut cluster = Cluster::of(3);
    // Many of the intervals after which consensus clears its activity flags.
    for turn in 0..1_000 {
        cluster.turn();
        assert_eq!(cluster.answering(), [1, 2, 3], "in turn {turn}");
    }
}

#[test]
fn a_replica_that_is_gone_does_not_answer_until_it_is_back() {
    let mut cluster = Cluster::of(3);
    let leader = cluster.leader().expect("somebody leads");
    let other = id(if leader == id(3) { 2 } else { 3 });
    cluster.cut.insert(other);
    cluster.until("it is missed", |cluster| cluster.answering().len() == 2);
    assert!(!cluster.answering().contains(&other.0));
    cluster.cut.remove(&other);
    cluster.until("it is heard again", |cluster| cluster.answering().len() == 3);
}

#[test]
fn an_idle_leader_hands_over_at_any_moment() {
    let mut cluster = Cluster::of(3);
    for round in 0..30 {
        let leader = cluster.elected();
        // Consensus clears its activity flags after 50 turns.
        cluster.run(40 + round);
        cluster.hosts.get_mut(&leader).expect("a host").inbox.push(Input::Transfer(None));
        cluster.run(100);
        assert!(cluster.leader().is_some_and(|now| now != leader), "in round {round}");
    }
}
