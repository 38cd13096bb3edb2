//! Tasks and masters that start, die, and are restarted.

use borglet::Desired;
use cell::EventKind;
use model::{End, Generation, Random, Span, Time};
use replica::Codec;

use super::stage::{Parameters, Stage, WorldSetup, running};
use crate::disk::Crash;
use crate::program::{Incarnation, Programs};

pub(super) const HERD: &str = "A dependency of many tasks is gone, such as a database or a name \
server: they crash as soon as they start, are restarted, and crash again, and their restarts keep \
the dependency from recovering. Kubernetes has CrashLoopBackOff for that. Here 300 tasks crash a \
tenth of a second after each start, for ten incarnations. The restarts of each have to become \
rarer, so that their total is bounded; no machine is blamed for it; and once the dependency is \
back all of them run, without intervention, within the longest delay.";

/// The number of incarnations of each task that crash.
const CRASHES: u32 = 10;
const TASKS: u64 = 300;

/// Tasks whose first incarnations crash.
#[derive(Debug)]
struct Crashing;

impl Programs for Crashing {
    fn incarnation(
        &self,
        _: Time,
        _: &Desired,
        generation: Generation,
        random: &mut Random,
    ) -> Incarnation {
        let mut incarnation =
            Incarnation { begins: Span(20_000 + random.below(20_000)), ..Incarnation::default() };
        if generation.0 <= CRASHES {
            incarnation.runs = Some(Span::from_millis(100));
            incarnation.end = End::Exited { code: 111 };
        }
        incarnation
    }
}

pub(super) fn herd<C: Codec>(parameters: Parameters<C>) -> Stage<C> {
    let setup = WorldSetup { programs: Box::new(Crashing), ..WorldSetup::of(40) };
    let mut stage = Stage::new(parameters, setup);
    let begin = stage.world.now();
    for job in 0..10 {
        stage.submit(&format!("web{job}"), 200, 30, 1, "");
    }
    let from = stage.world.age();
    stage.passes(Span::from_secs(60));
    let crashes = |stage: &Stage<C>| {
        stage.task_events(begin, |_, kind| matches!(kind, EventKind::Fail { .. }))
    };
    // After delays of 1 s, 2 s, 4 s, ….
    let first = crashes(&stage);
    stage.figure("crashes in the first minute", first, TASKS * 6);
    stage.passes(Span::from_secs(60));
    let second = crashes(&stage) - first;
    stage.figure("crashes in the second minute", second, TASKS * 2);
    let all = move |cell: &cell::Cell| {
        (0..10).map(|job| running(cell, &format!("web{job}"))).sum::<usize>() as u64 == TASKS
    };
    stage.wait_until("seconds until all of them run", 2_400, all);
    let to = stage.world.age();
    let every = crashes(&stage);
    stage.figure("crashes in total", every, TASKS * u64::from(CRASHES));
    let operations = stage.world.operations.busiest(from, to);
    stage.figure("operations in the busiest second", operations, 800);
    stage.wait_until_settled("seconds until the cell has settled", 10);
    stage
}

pub(super) const MASTER: &str = "What kills a master may kill it again as soon as it restarts: a \
record that it cannot process, a machine with bad memory, an impatient supervisor. Here it dies \
forty times, by SIGKILL or power loss, from a millisecond to four seconds after its start, while \
tasks run and end and clients keep making requests. Nothing that was acknowledged is lost, no task \
is affected, and no machine is marked down; the cell settles within seconds after the last crash.";

pub(super) fn master<C: Codec>(parameters: Parameters<C>) -> Stage<C> {
    let mut stage = Stage::new(parameters, WorldSetup::of(12));
    stage.submit("service", 200, 40, 2, "");
    stage.submit("batch", 100, 8, 2, "for=40");
    stage.wait_until("seconds until the service runs", 30, |cell| running(cell, "service") == 40);
    let begin = stage.world.now();
    for round in 0..40_u64 {
        let how = if round.is_multiple_of(2) { Crash::Killed } else { Crash::PowerLost };
        stage.world.crash_master(0, how, Span::from_millis(200));
        stage.submit(&format!("new{round}"), 100, 1, 1, "for=5");
        // From 1 ms to 4 s, each twice as long as the one before, and then from the start.
        let lives = Span::from_millis(1 << (round % 13));
        stage.passes(Span::from_millis(200) + lives);
    }
    stage.world.crash_master(0, Crash::PowerLost, Span::from_millis(200));
    stage.wait_until_settled("seconds until the cell has settled", 90);
    let moved = stage.moved(begin);
    stage.figure("tasks that were moved", moved, 0);
    let down = stage.other_events(begin, |kind| matches!(kind, EventKind::MachineDown));
    stage.figure("machines that were marked down", down, 0);
    let there = stage.world.cell().map_or(0, |cell| {
        (0..40).filter(|round| super::stage::named(cell, &format!("new{round}")).is_some()).count()
    });
    stage.require(there == 40, || format!("of 40 jobs that were submitted {there} are there"));
    stage
}
