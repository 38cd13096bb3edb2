//! What was found to be wrong under faults, each alone.

use super::network::Host;
use super::world::World;
use crate::eventually::until;

fn all(world: &World) -> Vec<Host> {
    world.replicas.keys().copied().collect()
}

#[test]
fn a_replica_that_hears_nobody_does_not_say_that_a_job_is_not_there() {
    let mut world = World::start(3);
    let leader = world.leader().expect("somebody leads");
    let deaf = all(&world).into_iter().find(|host| *host != leader).expect("there are others");
    world.cuts(deaf, &all(&world), false, true);
    let job =
        "(import 'borg.libsonnet').batch('late', cmd=['true']) { priority: 'free', cpu: 900 }";
    world.write("late.bcl", job);
    world.ok("bourg run --detach late.bcl");
    let told = world.types_to(deaf, "bourg kill --detach late");
    assert_eq!(told.code, 6, "{}", told.stderr);
    assert!(told.stderr.contains("nothing can be changed now, only read"), "{}", told.stderr);
    world.network.heal();
    until("it hears again", || world.types_to(deaf, "bourg kill --detach late").code == 0);
}
