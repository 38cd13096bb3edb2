//! All machines at once.

use cell::EventKind;
use model::Span;
use replica::Codec;

use super::stage::{Cast, Scene, Stage, running};
use crate::disk::Crash;
use crate::network::{Nodes, Trouble};

pub(super) const ABOUT: &str = "After an outage everybody comes at the same moment, and what comes is \
more than can be served, so that nobody is served in time and all come again. Here a thousand machines \
with two thousand tasks are without a master for two minutes, and then without a network for three: \
tasks end meanwhile, and others are to be placed. When it is over, the polls and the operations of a \
second stay bounded, no machine is marked down, no task moves, and all is right within seconds.";

const MACHINES: usize = 1_000;
/// A machine with news is polled with an order, for the news, and once more.
const POLLS_MAX: u64 = 3 * MACHINES as u64;
/// That a machine is back, that its tasks have ended, and who comes in their place.
const OPERATIONS_MAX: u64 = 2 * MACHINES as u64;

pub(super) fn play<C: Codec>(cast: Cast<C>) -> Stage<C> {
    let mut stage = Stage::set(cast, Scene::of(MACHINES));
    stage.submit("service", 200, (1_000, 2), "");
    stage.submit("batch", 100, (1_000, 3), "for=400");
    stage.comes("seconds until everything runs", 30, |cell| {
        running(cell, "service") + running(cell, "batch") >= 1_990
    });
    stage.passes(Span::from_secs(5));
    let begin = stage.world.now();

    let from = stage.world.age();
    stage.world.crash_master(0, Crash::PowerLost, Span::from_secs(120));
    stage.passes(Span::from_secs(121));
    stage.rests("seconds after the master's return until all is right", 10);
    bounded(&mut stage, from, "polls in the busiest second after it", "operations in it");

    let from = stage.world.age();
    let number = stage.disturb(Nodes::All, Trouble::Cut);
    stage.passes(Span::from_secs(180));
    stage.world.network.calm(number);
    stage.rests("seconds after the network's return until all is right", 20);
    bounded(&mut stage, from, "polls in the busiest second after that", "operations in that");

    let down = stage.befell(begin, |kind| matches!(kind, EventKind::MachineDown));
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
