//! All machines return at once.

use cell::EventKind;
use model::Span;
use replica::Codec;

use super::stage::{Parameters, Stage, WorldSetup, running};
use crate::disk::Crash;
use crate::network::{Nodes, Trouble};

pub(super) const ABOUT: &str = "After an outage all clients reconnect at once, and their load is \
too high to be served in time, so that all of them retry. Here a thousand machines with two \
thousand tasks are without a master for two minutes, and then without a network for three: tasks \
end meanwhile, and others have to be placed. Afterwards, the polls and operations per second stay \
bounded, no machine is marked down, no task moves, and the cell settles within seconds.";

const MACHINES: usize = 1_000;
/// A machine with news is polled with an order, for the news, and once more.
const POLLS_MAX: u64 = 3 * MACHINES as u64;
/// One for a machine's return and its ended tasks, and one for their successors.
const OPERATIONS_MAX: u64 = 2 * MACHINES as u64;

pub(super) fn play<C: Codec>(parameters: Parameters<C>) -> Stage<C> {
    let mut stage = Stage::new(parameters, WorldSetup::of(MACHINES));
    stage.submit("service", 200, 1_000, 2, "");
    stage.submit("batch", 100, 1_000, 3, "for=400");
    stage.wait_until("seconds until everything runs", 30, |cell| {
        running(cell, "service") + running(cell, "batch") >= 1_990
    });
    stage.passes(Span::from_secs(5));
    let begin = stage.world.now();

    let from = stage.world.age();
    stage.world.crash_master(0, Crash::PowerLost, Span::from_secs(120));
    stage.passes(Span::from_secs(121));
    stage.wait_until_settled("seconds after the master's return until the cell has settled", 10);
    bounded(
        &mut stage,
        from,
        "polls in the busiest second after the master's return",
        "operations in that second",
    );

    let from = stage.world.age();
    let number = stage.disturb(Nodes::All, Trouble::Cut);
    stage.passes(Span::from_secs(180));
    stage.world.network.calm(number);
    stage.wait_until_settled("seconds after the network's return until the cell has settled", 20);
    bounded(
        &mut stage,
        from,
        "polls in the busiest second after the network's return",
        "operations in that second",
    );

    let down = stage.other_events(begin, |kind| matches!(kind, EventKind::MachineDown));
    stage.figure("machines that were marked down", down, 0);
    let moved = stage.moved(begin);
    stage.figure("tasks that were moved", moved, 0);
    stage
}

fn bounded<C: Codec>(stage: &mut Stage<C>, from: Span, polls: &'static str, ops: &'static str) {
    let to = stage.world.age() + Span::from_secs(1);
    let (busiest, most) = (stage.world.polls.busiest(from, to), POLLS_MAX);
    stage.figure(polls, busiest, most);
    let (busiest, most) = (stage.world.operations.busiest(from, to), OPERATIONS_MAX);
    stage.figure(ops, busiest, most);
}
