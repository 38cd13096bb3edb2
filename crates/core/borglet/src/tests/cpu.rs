//! Whole cores, and caps.

use model::Permille;
use spec::Cores;

use super::*;
use crate::{CpuReading, CpuRound, Topology};

/// A Borglet on a machine with physical cores of so many threads.
fn world(cores: u32, threads: u32) -> World {
    let mut world = World::new();
    let of = |core: u32| (0..threads).map(|thread| core + thread * cores).collect();
    let topology = Topology { cores: (0..cores).map(of).collect(), rest: Vec::new() };
    let borglet =
        Borglet::new(Settings::default(), machine(1 << 20), Stamp::default(), vec![], vec![]);
    world.borglet = borglet.with_cpus(topology);
    world
}

/// A task with so many whole cores.
fn exclusive(index: u32, cores: u64) -> Desired {
    let mut desired = sized(index, 64);
    let spec = Arc::make_mut(&mut desired.spec);
    (spec.cores, spec.limit.cpu, spec.health_check) =
        (Cores::Exclusive, MilliCores(cores * 1_000), None);
    desired
}

fn cpus(world: &World, index: u32) -> Vec<u32> {
    world.borglet.launch(instance(index)).expect("it is here").cpus.clone()
}

fn end(world: &mut World, index: u32) -> String {
    world.input(Input::Ended(instance(index), End::Stopped, FinalUsage::UNMEASURED))
}

#[test]
fn whole_cores_are_taken_from_those_that_share_and_given_back() {
    let mut world = world(4, 1);
    assert_eq!(world.obey(1, vec![]), "persist 1, share [0, 1, 2, 3]");
    let effects = world.obey(2, vec![sized(0, 64), exclusive(1, 2)]);
    assert_eq!(
        effects,
        "persist 2, share [0, 1], start 1-0-1 [serve 31000 0] as 200000, start 1-1-1 [serve 31001 1] as \
         200001"
    );
    assert_eq!((cpus(&world, 0), cpus(&world, 1)), (vec![], vec![2, 3]));
    // There is one left, and another that always stays shared.
    let all = vec![sized(0, 64), exclusive(1, 2), exclusive(2, 1), exclusive(3, 1)];
    let effects = world.obey(3, all.clone());
    assert!(effects.starts_with("persist 3, share [0], start 1-2-1"), "{effects}");
    assert_eq!(cpus(&world, 2), [1]);
    assert_eq!(cpus(&world, 3), [0; 0], "it waits");
    // What one gives back another gets.
    let effects = end(&mut world, 1);
    assert!(effects.starts_with("share [0, 2], start 1-3-1"), "{effects}");
    assert_eq!(cpus(&world, 3), [3]);
    for index in [2, 3] {
        end(&mut world, index);
    }
    assert_eq!(
        world.obey(4, vec![sized(0, 64)]),
        "persist 4, retire 1-1-1, retire 1-2-1, retire 1-3-1"
    );
}

#[test]
fn threads_of_a_core_go_together() {
    let mut world = world(3, 2);
    world.obey(1, vec![exclusive(0, 1), exclusive(1, 2)]);
    assert_eq!((cpus(&world, 0), cpus(&world, 1)), (vec![2, 5], vec![1, 4]));
}

#[test]
fn a_task_with_impossible_cores_ends_with_the_reason() {
    let mut world = world(2, 1);
    world.obey(1, vec![exclusive(0, 2)]);
    let reason = "it asks for 2 whole cores, and tasks can have 1 on its machine";
    assert_eq!(world.state(), format!("0: Ended(Lost {{ reason: \"{reason}\" }})"));
}

#[test]
fn adopted_tasks_keep_their_cores() {
    let mut launch = Launch::new(exclusive(0, 1), None, 200_000);
    launch.cpus = vec![1];
    let status = RecoveredStatus::Running(Time(1));
    let borglet = Borglet::new(
        Settings::default(),
        machine(1 << 20),
        Stamp::default(),
        vec![],
        vec![Recovered { launch, status }],
    );
    let cores = vec![vec![0], vec![1], vec![2]];
    let mut world = World::new();
    world.borglet = borglet.with_cpus(Topology { cores, rest: Vec::new() });
    let effects = world.obey(1, vec![exclusive(0, 1), exclusive(1, 1)]);
    assert!(effects.contains(", share [0], start 1-1-1 "), "{effects}");
    assert_eq!((cpus(&world, 0), cpus(&world, 1)), (vec![1], vec![2]));
}

#[test]
fn a_greedy_task_is_capped_until_batch_has_had_its_share() {
    let mut world = World::new();
    let mut batch = sized(1, 64);
    batch.appclass = Appclass::Batch;
    world.obey(1, vec![sized(0, 64), batch]);
    for index in [0, 1] {
        world.input(Input::Started(instance(index)));
    }
    // Of a machine with a thousand cores; the limits are a tenth of a core.
    let mut round = |ls: u64, batch: u64, waited: u64| {
        world.now = world.now + Span::from_secs(1);
        let reading = |index, used, waited| CpuReading {
            instance: instance(index),
            used: MilliCores(used),
            waited: Some(Permille::at_most_whole(waited)),
        };
        let tasks = vec![reading(0, ls, 0), reading(1, batch, waited)];
        let mut said = Vec::new();
        world.borglet.step(world.now, Input::Cpu(CpuRound { tasks, machine: None }), &mut said);
        let caps = said.iter().filter(|effect| matches!(effect, Effect::CapCpu { .. }));
        words(&caps.cloned().collect::<Vec<_>>())
    };
    let starved: Vec<String> = (0..6).map(|_| round(900, 0, 1_000)).collect();
    assert_eq!(starved, ["", "", "", "", "", "cap 1-0-1 at 0.8 cores"]);
    let relieved: Vec<String> = (0..10).map(|_| round(800, 100, 800)).collect();
    assert_eq!(relieved.concat(), "lift the cap of 1-0-1");
    // A new limit replaces the cap, so that it is set again.
    for _ in 0..6 {
        round(900, 0, 1_000);
    }
    let resized = world.input(Input::Resized(instance(0), Some(limit(100, 64))));
    assert!(resized.contains("cap 1-0-1 at 0.8 cores"), "{resized}");
}
