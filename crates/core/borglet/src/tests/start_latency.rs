//! How long starts take, by the machine's own clock.

use super::*;

fn latencies(world: &World) -> String {
    let tasks = world.borglet.report().tasks.into_iter();
    let latency = |task: TaskReport| format!("{}: {}", task.instance.index, task.latency);
    tasks.map(latency).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_fetch_and_the_rest_of_a_start_are_measured_from_the_order_on() {
    let mut world = World::new();
    world.order(5, &[(0, 31_000), (1, 31_001), (2, 31_002)]);
    world.after(20_000);
    world.input(Input::Fetched(instance(0), Span::from_secs(20)));
    world.input(Input::Fetched(instance(1), Span::ZERO));
    // Longer than it was here: its clock stood still.
    world.input(Input::Fetched(instance(2), Span::from_secs(60)));
    assert_eq!(latencies(&world), "0: ; 1: ; 2: ", "they do not run yet");
    world.after(80);
    for index in 0..3 {
        world.input(Input::Started(instance(index)));
    }
    let known = "0: fetch 20 s, start 80 ms; 1: fetch 0 s, start 20 s; 2: fetch 1 m, start 0 s";
    assert_eq!(latencies(&world), known);
    world.after(60_000);
    world.input(Input::Started(instance(0)));
    world.input(Input::Fetched(instance(0), Span::from_secs(9)));
    assert_eq!(latencies(&world), known, "a report that differs ends the hold of a poll");
}

#[test]
fn the_wait_for_a_port_is_part_of_a_start() {
    let mut world = World::new();
    world.order(5, &[(0, 31_000)]);
    world.input(Input::Started(instance(0)));
    // It waits for the port of the other one, which has to leave first.
    world.order(6, &[(1, 31_000)]);
    world.after(3_000);
    let ended = Input::Ended(instance(0), End::Stopped, FinalUsage::UNMEASURED);
    assert!(world.input(ended).contains("start 1-1-1"));
    world.after(200);
    world.input(Input::Started(instance(1)));
    assert!(latencies(&world).contains("1: fetch 0 s, start 3.2 s"), "{}", latencies(&world));
}

#[test]
fn a_borglet_does_not_know_how_long_the_start_took_of_a_task_that_it_finds() {
    let mut world = World::new();
    let launch = Launch::new(desired(0, 31_000), None, 200_000);
    let recovered = vec![Recovered { launch, status: RecoveredStatus::Starting }];
    world.borglet =
        Borglet::new(Settings::default(), machine(1 << 20), Stamp::default(), vec![], recovered);
    world.input(Input::Fetched(instance(0), Span::from_secs(20)));
    world.input(Input::Started(instance(0)));
    assert_eq!(latencies(&world), "0: ");
}
