//! Single scenarios of bugs that were found under faults.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::network::Host;
use super::world::{MACHINES, World};
use crate::eventually::{eventually, until};

fn all(world: &World) -> Vec<Host> {
    world.replicas.keys().copied().collect()
}

#[test]
fn an_isolated_replica_does_not_claim_that_a_job_is_absent() {
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

/// How long a machine can be unreachable only for its own replica: it used to be marked down after
/// 31 s.
const CUT_OFF: Duration = Duration::from_secs(45);

/// A job that runs until it is told to end.
const SITS: &str =
    "(import 'borg.libsonnet').service('sits', cmd=['sleep', '1000000']) { priority: 'free' }";

/// A replica's view of a machine: its state, who polls it, and who cannot reach it.
fn says(world: &World, host: Host, machine: &str) -> Option<[Value; 3]> {
    let told = world.types_to(host, &format!("bourg machine show {machine} -o json"));
    let mut machine: Value = serde_json::from_str(&told.stdout).ok()?;
    Some(["state", "polledBy", "notReachedBy"].map(|field| machine[field].take()))
}

/// Waits until every replica has this view of a machine.
#[track_caller]
fn all_say(world: &World, machine: &str, expected: &[Value; 3]) {
    for host in all(world) {
        until(&format!("replica on {host} says {expected:?}"), || {
            says(world, host, machine).as_ref() == Some(expected)
        });
    }
}

#[test]
fn a_machine_unreached_by_one_replica_stays_up_on_all_replicas() {
    let mut world = World::start_with(3, &[]);
    let (host, machine) = (MACHINES[0], format!("m{}", MACHINES[0]));
    world.ok(&format!("bourg machine drain m{}", MACHINES[1]));
    let id = |world: &World, host: Host| Value::from(world.replicas[&host].id.to_string());
    let polled_by = |world: &World, own| ["up".into(), id(world, own), Value::Array(Vec::new())];
    // Machines are handed over while the replicas learn of each other.
    let own = eventually("every replica says the same", || {
        let told = world.types(&format!("bourg machine show {machine} -o polledBy")).stdout;
        let own: u64 = told.trim().parse().ok()?;
        let own =
            world.replicas.iter().find(|(_, replica)| replica.id == own).map(|(host, _)| *host)?;
        let expected = polled_by(&world, own);
        let mut said = all(&world).into_iter().map(|host| says(&world, host, &machine));
        said.all(|said| said.as_ref() == Some(&expected)).then_some(own)
    });
    let before = polled_by(&world, own);

    world.cuts(own, &[host], true, true);
    let cut = Instant::now();
    let second = eventually("another replica polls it", || {
        let [state, by, not_by] = says(&world, own, &machine)?;
        assert_eq!(state, "up");
        let failed = Value::Array(vec![id(&world, own)]);
        (by != id(&world, own) && not_by == failed).then_some(by)
    });
    let during = ["up".into(), second, Value::Array(vec![id(&world, own)])];
    all_say(&world, &machine, &during);
    for replica in all(&world) {
        let text = world.types_to(replica, &format!("bourg machine show {machine}")).stdout;
        let why = format!("\nnot reached  by replica {}: ", world.replicas[&own].id);
        assert!(text.contains(&why), "{text}");
        let who = format!("; replica {} does not reach it\n", world.replicas[&own].id);
        assert!(text.contains(&who), "{text}");
    }
    // It gets orders, and its reports arrive.
    world.write("sits.bcl", SITS);
    world.ok("bourg run sits.bcl");
    while cut.elapsed() < CUT_OFF {
        all(&world).into_iter().for_each(|replica| {
            assert_eq!(says(&world, replica, &machine).as_ref(), Some(&during));
        });
    }
    let events = world.ok(&format!("bourg events --machine {machine} --all"));
    assert!(!events.contains("UNREACHABLE"), "{events}");

    // If no replica reaches it, it is down, and every replica shows that.
    for replica in all(&world) {
        world.cuts(replica, &[host], true, true);
    }
    let down = ["down".into(), id(&world, own), Value::Array(vec![id(&world, own)])];
    all_say(&world, &machine, &down);

    world.network.heal();
    all_say(&world, &machine, &before);
    world.ok("bourg kill sits");
}
