//! Machines that go, and come back.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use cell::{EventKind, EvictionCause};
use model::{InstanceId, Span, TaskId, Time};
use replica::Codec;

use super::removals::REMOVALS;
use super::stage::{Cast, Scene, Stage, running};
use crate::network::{Nodes, Trouble};

pub(super) const FLAPPING: &str = "A machine with a bad power supply or a bad link goes and returns, \
and each time all that runs there moves, and sometimes everything else with it. In Google's trace of \
2011 one machine was removed 165 times in 21 days, most often two hours and a quarter after the time \
before. Here a machine does the same, 250 times as fast, for half of the time to the next. Tasks that \
can run nowhere else are interrupted no more often than it goes; those that can leave once, and do \
not come back while there is no need; nobody else's tasks move; and each time costs a bounded number \
of records in the log.";

/// How much faster it goes than it did.
const FASTER: u64 = 250;

pub(super) fn flapping<C: Codec>(cast: Cast<C>) -> Stage<C> {
    let mut scene = Scene::of(10);
    scene.settings.master.missed_polls_max = 2;
    scene.settings.raft_tick = Span::from_millis(500);
    let mut stage = Stage::set(cast, scene);
    stage.ask("say m0 special=yes");
    let pinned = "cpu=1000 ram=4096 failures=10 cmd=run on=special=yes";
    stage.ask(&format!("submit ana/pinned 2 priority=200 {pinned}"));
    stage.comes("seconds until what can run nowhere else runs", 30, |cell| {
        running(cell, "pinned") == 2
    });
    stage.submit("service", 200, (20, 2), "");
    stage.comes("seconds until the service runs", 30, |cell| running(cell, "service") == 20);
    let (begin, from) = (stage.world.now(), stage.world.age());
    let first = REMOVALS.first().copied().unwrap_or(0);
    let moment =
        |removal: u32| from + Span::from_millis(u64::from(removal - first) * 1_000 / FASTER);
    let operations = stage.world.counts().operations;
    for (number, removal) in REMOVALS.iter().enumerate() {
        stage.world.run_to(moment(*removal));
        stage.world.power_off(0);
        let next = REMOVALS.get(number + 1).map_or(removal + 8_000, |next| *next);
        // Something is always there to be placed.
        stage.submit(&format!("batch{number}"), 100, (2, 1), "for=10");
        stage.world.run_to(moment(removal.midpoint(next)));
        stage.world.boot(0);
    }
    stage.rests("seconds until all is quiet after the last time", 60);
    let times = REMOVALS.len() as u64;
    let bounced = stage.bounces(begin, |id| stage.is_of(id, "pinned"));
    let most = bounced.values().max().copied().unwrap_or(0);
    stage.figure("interruptions of a task that can run nowhere else", most, times);
    let marked = stage.befell(begin, |kind| matches!(kind, EventKind::MachineDown));
    stage.must(marked > times / 2, || format!("the machine was down only {marked} times"));
    stage.figure("times that a machine was down", marked, times);
    let service = stage.bounces(begin, |id| stage.is_of(id, "service"));
    stage.figure("tasks of a service that had to leave", service.len() as u64, 4);
    let most = service.values().max().copied().unwrap_or(0);
    stage.figure("times that one of them had to", most, 1);
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

pub(super) const RACK: &str = "A rack loses power, and with it all that ran there: too few machines to \
think that the network is to blame, and enough that to start everything elsewhere at once is a load \
of its own. Here four machines of forty go with 32 tasks. Their tasks run elsewhere, no faster than \
the master's rate allows; nobody else's move; and when the rack has power again nothing moves back, \
and nothing runs twice.";

pub(super) fn rack<C: Codec>(cast: Cast<C>) -> Stage<C> {
    let mut scene = Scene::of(40);
    (scene.settings.master.reschedule_rate, scene.settings.master.reschedule_burst) = (2, 8);
    let mut stage = Stage::set(cast, scene);
    // As many as fill 25 machines, so each of the rack has its eight.
    stage.fills(0..25, 200);
    let all = |cell: &cell::Cell| running(cell, "service") == 200;
    stage.passes(Span::from_secs(10));
    let begin = stage.world.now();
    let there = stage.run_on(0..4);
    stage.must(there == 32, || format!("{there} tasks run in the rack, 32 should"));
    (0..4).for_each(|machine| stage.world.power_off(machine));
    stage.comes("seconds until the master takes action", 60, |cell| down(cell) > 0);
    // A machine's eight at once, and two a second after that.
    stage.comes("seconds from there until all of them run again", 16, |cell| {
        all(cell) && down(cell) == 4
    });
    let evicted = stage.happened(begin, failed_machine);
    stage.figure("tasks that had to move", evicted, 32);
    let busiest = stage.busiest(begin, failed_machine);
    stage.figure("of them in the same second", busiest, 10);
    let stopped = stage.befell(begin, |kind| matches!(kind, EventKind::ReschedulingStopped { .. }));
    stage.figure("times that rescheduling was stopped", stopped, 0);
    let back = stage.world.now();
    (0..4).for_each(|machine| stage.world.boot(machine));
    stage.rests("seconds after the rack's return until all is quiet", 30);
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

pub(super) const HALF: &str = "A switch dies, or the master's own link: half of the cell is silent, and \
is as alive as before. Whoever takes all of it for dead starts half of the cell a second time on the \
other half. The Kubernetes node controller therefore evicts more slowly, or not at all, where many \
nodes of a zone are not ready. Here twenty machines of forty fall silent for five minutes: \
rescheduling stops, nothing is moved, and nothing is killed; they return, and it is allowed again. \
The second time an administrator says that they are gone: now their tasks run elsewhere, at the \
limited rate, and when the machines return after all, their copies end.";

pub(super) fn half<C: Codec>(cast: Cast<C>) -> Stage<C> {
    let mut stage = Stage::set(cast, Scene::of(40));
    stage.fills(0..20, 150);
    let all = |cell: &cell::Cell| running(cell, "service") == 150;
    stage.passes(Span::from_secs(15));

    let begin = stage.world.now();
    let there = stage.run_on(0..20);
    stage.must(there == 150, || format!("{there} tasks run on what falls silent, 150 should"));
    let before = stage.processes();
    let number = stage.disturb(Nodes::Machines(0..20), Trouble::Cut);
    stage.passes(Span::from_secs(300));
    let stopped = stage.befell(begin, |kind| matches!(kind, EventKind::ReschedulingStopped { .. }));
    stage.must(stopped == 1, || format!("rescheduling was stopped {stopped} times, not once"));
    stage.world.network.calm(number);
    stage.rests("seconds after their return until all is as before", 20);
    let marked = stage.befell(begin, |kind| matches!(kind, EventKind::MachineDown));
    stage.figure("machines that were marked down", marked, 0);
    let moved = stage.moved(begin);
    stage.figure("tasks that were moved", moved, 0);
    stage.must(stage.processes() == before, || "other processes run than before".to_owned());

    let begin = stage.world.now();
    let number = stage.disturb(Nodes::Machines(0..20), Trouble::Cut);
    stage.passes(Span::from_secs(60));
    let moved = stage.moved(begin);
    stage.figure("tasks that were moved before somebody said so", moved, 0);
    stage.ask("resume");
    stage
        .comes("seconds until all of them run elsewhere", 15, |cell| all(cell) && down(cell) == 20);
    let busiest = stage.busiest(begin, failed_machine);
    stage.figure("tasks that moved in the same second", busiest, 110);
    stage.world.network.calm(number);
    stage.rests("seconds after their return until nothing runs twice", 30);
    let allowed = stage.befell(begin, |kind| matches!(kind, EventKind::ReschedulingAllowed));
    stage.must(allowed == 1, || format!("rescheduling was allowed {allowed} times, not once"));
    stage
}

impl<C: Codec> Stage<C> {
    /// A service of so many tasks runs, on some machines alone wherever a scheduler would rather have
    /// put them: nothing may go on the others before it does.
    fn fills(&mut self, machines: Range<usize>, tasks: u32) {
        let count = self.world.machines.len();
        let others: Vec<_> = (0..count).filter(|machine| !machines.contains(machine)).collect();
        others.iter().for_each(|machine| self.ask(&format!("drain m{machine} repair")));
        let drained = move |cell: &cell::Cell| {
            cell.machines().filter(|machine| machine.drain.is_some()).count()
        };
        let most = others.len();
        self.comes("seconds until the other machines are drained", 10, |cell| {
            drained(cell) == most
        });
        self.submit("service", 200, (tasks, 1), "");
        self.comes("seconds until the service runs", 30, |cell| {
            running(cell, "service") == tasks as usize
        });
        others.iter().for_each(|machine| self.ask(&format!("undrain m{machine}")));
        self.comes("seconds until every machine is used", 10, |cell| drained(cell) == 0);
    }

    /// How many tasks run on some machines.
    fn run_on(&self, machines: Range<usize>) -> usize {
        let machines = self.world.machines.get(machines).unwrap_or_default();
        machines.iter().map(|machine| machine.running().count()).sum()
    }

    /// What runs on each machine.
    fn processes(&self) -> Vec<Vec<InstanceId>> {
        self.world.machines.iter().map(|machine| machine.running().collect()).collect()
    }

    /// How often something happened to tasks in the busiest second since a moment.
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
