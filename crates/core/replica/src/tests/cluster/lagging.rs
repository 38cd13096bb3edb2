//! A replica that is heard and does not keep up.

use super::*;

/// It hears the leader all the time, and would order what the cell wanted when it last could write.
#[test]
fn a_replica_that_cannot_write_polls_only_after_catching_up() {
    let mut cluster = Cluster::of(3);
    assert_eq!(cluster.elected(), id(1));
    let names = (1..=6).map(|number| format!("m{number}"));
    names.for_each(|name| assert!(cluster.add_machine(id(1), &name)));
    let up = |cluster: &Cluster| {
        let machines = cluster.cell(id(1)).machines();
        machines.filter(|machine| machine.state == MachineState::Up).count()
    };
    cluster.until("all are up", |cluster| up(cluster) == 6);
    let active = |cluster: &Cluster, of: ReplicaId| {
        let replica = cluster.hosts[&of].replica.as_ref().expect("it runs");
        replica.spread().active.clone()
    };
    cluster.stuck.insert(id(3), Vec::new());
    for number in 7..=12 {
        assert!(cluster.add_machine(id(1), &format!("m{number}")));
    }
    cluster.until("the others poll all machines", |cluster| up(cluster) == 12);
    assert_eq!(active(&cluster, id(1)), [id(1), id(2)]);
    cluster.run(50);
    assert!(!cluster.held.iter().any(|(_, by, _)| *by == id(3)), "it polls nobody");
    let waits = cluster.stuck.remove(&id(3)).expect("it is stuck");
    let host = cluster.hosts.get_mut(&id(3)).expect("a host");
    waits.into_iter().for_each(|persist| host.writes(persist));
    cluster.until("it polls again", |cluster| active(cluster, id(3)).contains(&id(3)));
    cluster.agree();
}
