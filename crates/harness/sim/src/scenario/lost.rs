//! Machines that are lost and return.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use cell::{EventKind, EvictionCause};
use model::{InstanceId, Span, TaskId, Time};
use replica::Codec;

use super::removals::REMOVALS;
use super::stage::{Parameters, Stage, WorldSetup, running};
use crate::network::{Nodes, Trouble};

pub(super) const FLAPPING: &str = "A machine with a bad power supply or a bad link fails and \
returns, and each time its tasks move, sometimes together with everything else. In Google's trace \
of 2011 one machine was removed 165 times in 21 days, mostly two and a quarter hours after the \
previous time. Here a machine does the same, 250 times as fast, and is away for half of each \
interval. Tasks that can run nowhere else are interrupted no more often than it fails; others \
leave it once, and do not return without need; no other tasks move; and each failure costs a \
bounded number of records in the log.";

/// The factor by which it is faster than the trace.
const FASTER: u64 = 250;

pub(super) fn flapping<C: Codec>(parameters: Parameters<C>) -> Stage<C> {
    let mut setup = WorldSetup::of(10);
    setup.settings.master.missed_polls_max = 2;
    setup.settings.raft_tick = Span::from_millis(500);
    let mut stage = Stage::new(parameters, setup);
    stage.ask("say m0 special=yes");
    let pinned = "cpu=1000 ram=4096 failures=10 cmd=run on=special=yes";
    stage.ask(&format!("submit ana/pinned 2 priority=200 {pinned}"));
    stage.wait_until("seconds until the pinned tasks run", 30, |cell| running(cell, "pinned") == 2);
    stage.submit("service", 200, 20, 2, "");
    stage.wait_until("seconds until the service runs", 30, |cell| running(cell, "service") == 20);
    let (begin, from) = (stage.world.now(), stage.world.age());
    let first = REMOVALS.first().copied().unwrap_or(0);
    let moment =
        |removal: u32| from + Span::from_millis(u64::from(removal - first) * 1_000 / FASTER);
    let operations = stage.world.counts().operations;
    for (number, removal) in REMOVALS.iter().enumerate() {
        stage.world.run_to(moment(*removal));
        stage.world.power_off(0);
        let next = REMOVALS.get(number + 1).map_or(removal + 8_000, |next| *next);
        // Ensures that there is always something to be placed.
        stage.submit(&format!("batch{number}"), 100, 2, 1, "for=10");
        stage.world.run_to(moment(removal.midpoint(next)));
        stage.world.boot(0);
    }
    stage.wait_until_settled("seconds until the cell has settled after the last loss", 60);
    let times = REMOVALS.len() as u64;
    let bounced = stage.bounces(begin, |id| stage.is_of(id, "pinned"));
    let most = bounced.values().max().copied().unwrap_or(0);
    stage.figure("interruptions of a pinned task", most, times);
    let marked = stage.other_events(begin, |kind| matches!(kind, EventKind::MachineDown));
    stage.require(marked > times / 2, || format!("the machine was down only {marked} times"));
    stage.figure("times that a machine was down", marked, times);
    let service = stage.bounces(begin, |id| stage.is_of(id, "service"));
    stage.figure("evicted tasks of a service", service.len() as u64, 4);
    let most = service.values().max().copied().unwrap_or(0);
    stage.figure("evictions of one of them", most, 1);
    // Unreachable, down, back and described; two tasks end, are placed, start and end twice.
    let operations = stage.world.counts().operations - operations;
    stage.figure("operations", operations, times * 24);
    stage
}

impl<C: Codec> Stage<C> {
    fn is_of(&self, id: InstanceId, name: &str) -> bool {
        let job = self.world.cell().and_then(|cell| cell.job(id.collection));
        job.is_some_and(|job| job.spec.name.as_str() == name)
    }

    /// How often each of some tasks lost its machine.
    fn bounces(&self, since: Time, of: impl Fn(InstanceId) -> bool) -> BTreeMap<TaskId, u64> {
        let mut bounces = BTreeMap::new();
        for (at, event) in self.world.invariants.told() {
            if let cell::Subject::Task(id) = event.subject
                && matches!(event.kind, EventKind::Evict { .. } | EventKind::Lost { .. })
                && *at >= since
                && of(id)
            {
                *bounces.entry(id.task()).or_default() += 1;
            }
        }
        bounces
    }
}

pub(super) const RACK: &str = "A rack loses power, and with it everything that ran there: too few \
machines to suspect the network, and enough for restarting everything elsewhere at once to be a \
load of its own. Here four machines of forty fail with 32 tasks. Their tasks run elsewhere, no \
faster than the master's rate limit allows; no other tasks move; and when the rack has power again \
nothing moves back, and nothing runs twice.";

pub(super) fn rack<C: Codec>(parameters: Parameters<C>) -> Stage<C> {
    let mut setup = WorldSetup::of(40);
    (setup.settings.master.reschedule_rate, setup.settings.master.reschedule_burst) = (2, 8);
    let mut stage = Stage::new(parameters, setup);
    // Enough to fill 25 machines, so each of the rack has eight.
    stage.fills(0..25, 200);
    let all = |cell: &cell::Cell| running(cell, "service") == 200;
    stage.passes(Span::from_secs(10));
    let begin = stage.world.now();
    let there = stage.run_on(0..4);
    stage.require(there == 32, || format!("{there} tasks run in the rack, not 32"));
    (0..4).for_each(|machine| stage.world.power_off(machine));
    stage.wait_until("seconds until the master takes action", 60, |cell| down(cell) > 0);
    // A machine's eight at once, and two per second after that.
    stage.wait_until("seconds from then until all of them run again", 16, |cell| {
        all(cell) && down(cell) == 4
    });
    let evicted = stage.task_events(begin, failed_machine);
    stage.figure("tasks that moved", evicted, 32);
    let busiest = stage.busiest(begin, failed_machine);
    stage.figure("of them in the same second", busiest, 10);
    let stopped =
        stage.other_events(begin, |kind| matches!(kind, EventKind::ReschedulingStopped { .. }));
    stage.figure("times that rescheduling was stopped", stopped, 0);
    let back = stage.world.now();
    (0..4).for_each(|machine| stage.world.boot(machine));
    stage.wait_until_settled("seconds after the rack's return until the cell has settled", 30);
    let moved = stage.moved(back);
    stage.figure("tasks that moved after its return", moved, 0);
    stage
}

fn down(cell: &cell::Cell) -> usize {
    let down =
        |machine: &&Arc<cell::Machine>| matches!(machine.state, cell::MachineState::Down { .. });
    cell.machines().filter(down).count()
}

fn failed_machine(_: InstanceId, kind: &EventKind) -> bool {
    matches!(kind, EventKind::Evict { cause: EvictionCause::MachineFailure })
}

pub(super) const HALF: &str = "A switch fails, or the master's own link: half of the cell is \
silent, and is as alive as before. A master that treats all of it as dead starts half of the cell \
a second time on the other half. The Kubernetes node controller therefore evicts more slowly, or \
not at all, if many nodes of a zone are not ready. Here twenty machines of forty fall silent for \
five minutes: rescheduling stops, nothing moves, and nothing is killed; they return, and \
rescheduling is allowed again. The second time an administrator resumes rescheduling: now their \
tasks run elsewhere, at the limited rate, and when the machines return after all, their copies are \
stopped.";

pub(super) fn half<C: Codec>(parameters: Parameters<C>) -> Stage<C> {
    let mut stage = Stage::new(parameters, WorldSetup::of(40));
    stage.fills(0..20, 150);
    let all = |cell: &cell::Cell| running(cell, "service") == 150;
    stage.passes(Span::from_secs(15));

    let begin = stage.world.now();
    let there = stage.run_on(0..20);
    stage.require(there == 150, || {
        format!("{there} tasks run on the machines that fall silent, not 150")
    });
    let before = stage.processes();
    let number = stage.disturb(Nodes::Machines(0..20), Trouble::Cut);
    stage.passes(Span::from_secs(300));
    let stopped =
        stage.other_events(begin, |kind| matches!(kind, EventKind::ReschedulingStopped { .. }));
    stage.require(stopped == 1, || format!("rescheduling was stopped {stopped} times, not once"));
    stage.world.network.calm(number);
    stage.wait_until_settled("seconds after their return until the cell has settled", 20);
    let marked = stage.other_events(begin, |kind| matches!(kind, EventKind::MachineDown));
    stage.figure("machines that were marked down", marked, 0);
    let moved = stage.moved(begin);
    stage.figure("tasks that were moved", moved, 0);
    stage.require(stage.processes() == before, || {
        "the running processes differ from before".to_owned()
    });

    let begin = stage.world.now();
    let number = stage.disturb(Nodes::Machines(0..20), Trouble::Cut);
    stage.passes(Span::from_secs(60));
    let moved = stage.moved(begin);
    stage.figure("tasks that moved before rescheduling was resumed", moved, 0);
    stage.ask("resume");
    stage.wait_until("seconds until all of them run elsewhere", 15, |cell| {
        all(cell) && down(cell) == 20
    });
    let busiest = stage.busiest(begin, failed_machine);
    stage.figure("tasks that moved in the same second", busiest, 110);
    stage.world.network.calm(number);
    stage.wait_until_settled("seconds after their return until the cell has settled", 30);
    let allowed = stage.other_events(begin, |kind| matches!(kind, EventKind::ReschedulingAllowed));
    stage.require(allowed == 1, || format!("rescheduling was allowed {allowed} times, not once"));
    stage
}

impl<C: Codec> Stage<C> {
    /// Runs a service of this many tasks on some machines only, whatever a scheduler would prefer:
    /// the others are drained until it runs.
    fn fills(&mut self, machines: Range<usize>, tasks: u32) {
        let count = self.world.machines.len();
        let others: Vec<_> = (0..count).filter(|machine| !machines.contains(machine)).collect();
        others.iter().for_each(|machine| self.ask(&format!("drain m{machine} repair")));
        let drained = move |cell: &cell::Cell| {
            cell.machines().filter(|machine| machine.drain.is_some()).count()
        };
        let most = others.len();
        self.wait_until("seconds until the other machines are drained", 10, |cell| {
            drained(cell) == most
        });
        self.submit("service", 200, tasks, 1, "");
        self.wait_until("seconds until the service runs", 30, |cell| {
            running(cell, "service") == tasks as usize
        });
        others.iter().for_each(|machine| self.ask(&format!("undrain m{machine}")));
        self.wait_until("seconds until every machine is used", 10, |cell| drained(cell) == 0);
    }

    /// Number of tasks that run on some machines.
    fn run_on(&self, machines: Range<usize>) -> usize {
        let machines = self.world.machines.get(machines).unwrap_or_default();
        machines.iter().map(|machine| machine.running().count()).sum()
    }

    /// The instances that run on each machine.
    fn processes(&self) -> Vec<Vec<InstanceId>> {
        self.world.machines.iter().map(|machine| machine.running().collect()).collect()
    }

    /// The maximum number of matching task events in any second since a given time.
    fn busiest(&self, since: Time, is: fn(InstanceId, &EventKind) -> bool) -> u64 {
        let mut seconds: BTreeMap<u64, u64> = BTreeMap::new();
        for (at, event) in self.world.invariants.told() {
            if let cell::Subject::Task(id) = event.subject
                && *at >= since
                && is(id, &event.kind)
            {
                *seconds.entry(at.0 / 1_000_000).or_default() += 1;
            }
        }
        seconds.into_values().max().unwrap_or(0)
    }
}
