//! Replicas whose directories were emptied, copied, or restored from older copies.

use super::*;

impl Cluster {
    /// Three replicas, the third of which is cut off while the others acknowledge three machines;
    /// then all are stopped.
    fn of_three_and_the_third_is_behind() -> Self {
        let mut cluster = Self::of(3);
        cluster.agree();
        cluster.cut = [id(3)].into();
        for name in ["m1", "m2", "m3"] {
            assert!(cluster.add_machine(id(1), name));
        }
        cluster.run(20);
        (1..=3).for_each(|number| cluster.crash(id(number)));
        cluster.cut.clear();
        cluster.network.clear();
        cluster
    }

    fn disk(&mut self, number: u64) -> &mut Disk {
        &mut self.hosts.get_mut(&id(number)).expect("a host").disk
    }

    fn failure(&self) -> String {
        self.failed.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    fn machines(&self, number: u64) -> usize {
        self.cell(id(number)).machine_count()
    }
}

/// With its old vote it would elect the replica that is behind, and all would be lost.
#[test]
fn an_emptied_replica_does_not_vote() {
    // Whether it states another directory or none.
    for directory in [DirectoryId(77), DirectoryId::default()] {
        let mut cluster = Cluster::of_three_and_the_third_is_behind();
        *cluster.disk(2) = Disk { directory, ..Disk::default() };
        [2, 3].into_iter().for_each(|number| cluster.start(id(number), LEVEL));
        cluster.run(1_000);
        assert_eq!(cluster.leader(), None, "there is no majority");
        cluster.start(id(1), LEVEL);
        assert_eq!(cluster.elected(), id(1));
        cluster.until("the third knows all", |cluster| cluster.machines(3) == 3);
        assert!(cluster.add_machine(id(1), "m4"));
    }
}

/// The first replica then knows no others, and must not become a cell of its own.
#[test]
fn an_emptied_first_replica_leads_nothing() {
    let mut cluster = Cluster::of(3);
    cluster.agree();
    (1..=3).for_each(|number| cluster.crash(id(number)));
    *cluster.disk(1) = Disk { directory: DirectoryId(77), ..Disk::default() };
    cluster.founds = false;
    cluster.start(id(1), LEVEL);
    cluster.run(1_000);
    assert_eq!(cluster.leader(), None);
    [2, 3].into_iter().for_each(|number| cluster.start(id(number), LEVEL));
    let leader = cluster.elected();
    assert_ne!(leader, id(1));
    assert!(cluster.add_machine(leader, "m1"));
}

#[test]
fn a_replica_in_a_foreign_directory_is_ignored_and_stops() {
    let mut cluster = Cluster::of(3);
    cluster.agree();
    cluster.crash(id(3));
    // It has a log, as in a copy of another replica's directory.
    cluster.disk(3).directory = DirectoryId(77);
    cluster.start(id(3), LEVEL);
    cluster.until("it stops", |cluster| cluster.failed.is_some());
    assert_eq!(
        cluster.failure(),
        "the cell knows replica 3 by data directory 0000000000000003, and this is directory \
         000000000000004d: it was emptied, or is another replica's"
    );
    // What it had sent meanwhile is ignored.
    cluster.crash(id(2));
    assert!(!cluster.add_machine(id(1), "m1"), "two of three are gone");
}

#[test]
fn a_replica_that_knows_committed_entries_keeps_them() {
    let mut cluster = Cluster::of(3);
    cluster.agree();
    let copy = cluster.disk(2).clone();
    cluster.cut = [id(3)].into();
    for name in ["m1", "m2", "m3"] {
        assert!(cluster.add_machine(id(1), name));
    }
    cluster.run(20);
    (1..=3).for_each(|number| cluster.crash(id(number)));
    (cluster.cut, cluster.network) = Default::default();
    // A replica that acknowledged is restored from an older copy, and elects the other one.
    *cluster.disk(2) = copy;
    [2, 3].into_iter().for_each(|number| cluster.start(id(number), LEVEL));
    let leader = cluster.elected();
    assert_eq!(cluster.cell(leader).machine_count(), 0, "the machines are gone");
    let before = cluster.disk(1).entries.len();
    cluster.start(id(1), LEVEL);
    cluster.until("it stops", |cluster| cluster.failed.is_some());
    let failure = cluster.failure();
    assert!(failure.contains(&format!("replica {leader} leads without record")), "{failure}");
    assert!(failure.contains("This replica stops to preserve those records"), "{failure}");
    // All its records are still there.
    assert_eq!(cluster.disk(1).entries.len(), before);
}

#[test]
fn records_that_were_never_committed_are_replaced_and_counted() {
    let mut cluster = Cluster::of(3);
    cluster.agree();
    cluster.cut = [id(1)].into();
    assert!(!cluster.add_machine(id(1), "m1"));
    let second = cluster.elected();
    assert!(cluster.add_machine(second, "m2"));
    cluster.cut.clear();
    cluster.agree();
    let replaced = cluster.hosts[&id(1)].outputs.iter().find_map(|output| match output {
        Output::Replaced { records, .. } => Some(*records),
        _ => None,
    });
    assert_eq!(replaced, Some(1));
    assert_eq!(cluster.failure(), "");
}

/// The first message replaces its record and has it committed, before the log has the new one.
#[test]
fn a_replaced_record_that_arrives_twice_at_once_is_no_contradiction() {
    let mut cluster = Cluster::of(3);
    cluster.agree();
    cluster.cut = [id(1)].into();
    assert!(!cluster.add_machine(id(1), "m1"));
    let second = cluster.elected();
    assert!(cluster.add_machine(second, "m2"));
    cluster.cut.clear();
    for _ in 0..100 {
        let twice = cluster.network.iter().flat_map(|message| [message.clone(), message.clone()]);
        cluster.network = twice.collect();
        cluster.turn();
        assert_eq!(cluster.failure(), "");
    }
    assert_eq!(cluster.machines(1), 1);
}
