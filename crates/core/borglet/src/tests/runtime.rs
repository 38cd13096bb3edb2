//! Tasks that run longer than their job allows.

use super::*;

fn bounded(most: Option<u64>) -> Vec<Desired> {
    let max_runtime = most.map(Span::from_secs);
    vec![Desired { appclass: Appclass::Batch, max_runtime, ..desired(0, 31_000) }]
}

fn ends(world: &mut World, code: u8) -> String {
    world.input(Input::Ended(instance(0), End::Exited { code }, FinalUsage::UNMEASURED));
    world.state()
}

#[test]
fn a_task_that_ran_as_long_as_it_may_has_its_notice_and_is_killed() {
    let mut world = World::new();
    world.obey(5, bounded(Some(60)));
    world.after(90_000);
    world.input(Input::Started(instance(0)));
    assert_eq!(world.after(59_999), "check 1-0-1 31000/");
    assert_eq!(world.after(1), "terminate 1-0-1", "its time begins with its program");
    assert_eq!(world.after(9_999), "");
    assert_eq!(world.after(1), "kill 1-0-1");
    let ended = ends(&mut world, 0);
    assert_eq!(ended, "0: Ended(OverRuntime { most: Span(60000000) })");
}

#[test]
fn an_order_moves_the_end_of_a_running_task() {
    let mut world = World::new();
    world.obey(5, bounded(Some(60)));
    world.input(Input::Started(instance(0)));
    assert_eq!(world.obey(6, bounded(Some(120))), "persist 6");
    assert_eq!(world.after(60_000), "check 1-0-1 31000/");
    assert_eq!(world.obey(7, bounded(None)), "persist 7");
    assert_eq!(world.after(90_000), "");
    assert_eq!(world.obey(8, bounded(Some(150))), "persist 8");
    assert_eq!(world.after(0), "terminate 1-0-1", "it has run for so long already");
}

#[test]
fn a_found_task_is_ended_once_an_order_says_its_maximum_again() {
    let launch = Launch::new(bounded(Some(60)).remove(0), None, 200_000);
    let found = Recovered { launch, status: RecoveredStatus::Running(Time(1_000_000)) };
    let borglet =
        Borglet::new(Settings::default(), machine(1 << 20), Stamp::default(), vec![], vec![found]);
    let mut world = World { borglet, now: Time(31_000_000) };
    assert!(!world.after(40_000).contains("terminate"), "it may have more time by now");
    world.obey(6, bounded(Some(80)));
    assert_eq!(world.after(9_999), "");
    assert_eq!(world.after(1), "terminate 1-0-1", "80 s from its start");
}
