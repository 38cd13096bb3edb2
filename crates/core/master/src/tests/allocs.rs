//! Allocs: ordered separately from tasks, and observed in the same way.

use super::*;
use borglet::DesiredAlloc;
use model::JobName;

/// An alloc set, some of whose allocs are placed on the machine.
fn world(allocs: u32) -> World {
    let mut world = World::new();
    world.tick();
    world.answer(true, 3, &[]);
    let mut task = TaskSpec::of(vec![]);
    task.limit = Resources { cpu: MilliCores(1_500), ram: Bytes(1 << 28), ..Resources::default() };
    let name = JobName::new("room").expect("a name");
    let spec = JobSpec::of(name, model::Band::Production.usual(), allocs, task);
    let kind = spec::Kind::AllocSet { users: BTreeSet::new() };
    world.submit_spec(JobSpec { kind, ..spec });
    (0..allocs).for_each(|index| world.assign(index));
    world
}

fn order(world: &World) -> Order {
    order::for_machine(&world.cell, M1, Stamp::default())
}

#[test]
fn an_order_has_allocs_apart_from_tasks() {
    let mut world = world(1);
    let expected = DesiredAlloc {
        address: None,
        appclass: model::Appclass::Batch,
        instance: instance(0, 1),
        cell: CellName::new("dev").expect("a name"),
        user: UserName::new("ana").expect("a name"),
        name: JobName::new("room").expect("a name"),
        priority: model::Band::Production.usual(),
        limit: Resources { cpu: MilliCores(1_500), ram: Bytes(1 << 28), ..Resources::default() },
        saver: None,
    };
    let none = || Order { logs: Some(spec::LogSettings::default()), ..Order::default() };
    let alone = |alloc| Order { allocs: vec![alloc], ..none() };
    assert_eq!(order(&world), alone(expected));
    world.request(kill("room", TaskSelection::All));
    assert_eq!(order(&world), none(), "it is told to stop as a task is");
}

#[test]
fn an_alloc_is_observed_like_a_task() {
    let mut world = world(2);
    let starting = [(0, TaskStatus::Starting), (1, TaskStatus::Starting)];
    let stamp = world.cell.index().0;
    world.tick();
    assert_eq!(world.answer(true, stamp, &starting), "");
    let running = TaskStatus::Running { healthy: Some(true) };
    let made = [(0, running.clone()), (1, running.clone())];
    let seen = world.answer(false, stamp, &made);
    assert_eq!(seen.matches("Started").count(), 2, "{seen}");
    assert_eq!(seen.matches("Health").count(), 0, "{seen}");
    assert_eq!(world.answer(false, stamp, &made), "");
    let reason = "the disk is full".to_owned();
    let failed = TaskStatus::Ended(End::NotStarted { reason }, model::FinalUsage::UNMEASURED);
    let seen = world.answer(false, stamp, &[(0, running), (1, failed)]);
    assert!(seen.contains("Ended") && seen.contains("the disk is full"), "{seen}");
}
