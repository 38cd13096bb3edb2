//! What starts, dies, and is started again.

use borglet::Desired;
use cell::EventKind;
use model::{End, Generation, Random, Span, Time};
use replica::Codec;

use super::stage::{Cast, Scene, Stage, running};
use crate::disk::Crash;
use crate::program::{Incarnation, Programs};

pub(super) const HERD: &str = "What many tasks need is gone, a database or a name server: they crash \
as soon as they start, are started again, and crash again, and their restarts are what keeps it from \
coming back. Kubernetes has CrashLoopBackOff for that. Here 300 tasks crash a tenth of a second after \
each start, ten lives long. The restarts of each have to become rarer, so that all of them together \
are bounded; no machine is to blame for it; and once it is there again all of them run, without \
anybody's help, within the longest wait.";

/// So many lives of each task crash.
const CRASHES: u32 = 10;
const TASKS: u64 = 300;

/// Tasks whose first lives crash.
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

pub(super) fn herd<C: Codec>(cast: Cast<C>) -> Stage<C> {
    let scene = Scene { programs: Box::new(Crashing), ..Scene::of(40) };
    let mut stage = Stage::set(cast, scene);
    let begin = stage.world.now();
    for job in 0..10 {
        stage.submit(&format!("web{job}"), 200, (30, 1), "");
    }
    let from = stage.world.age();
    stage.passes(Span::from_secs(60));
    let crashes =
        |stage: &Stage<C>| stage.happened(begin, |_, kind| matches!(kind, EventKind::Fail { .. }));
    // 1 s, 2 s, 4 s, … between them.
    let first = crashes(&stage);
    stage.figure("crashes in the first minute", first, TASKS * 6);
    stage.passes(Span::from_secs(60));
    let second = crashes(&stage) - first;
    stage.figure("crashes in the second", second, TASKS * 2);
    let all = move |cell: &cell::Cell| {
        (0..10).map(|job| running(cell, &format!("web{job}"))).sum::<usize>() as u64 == TASKS
    };
    stage.comes("seconds until all of them run", 2_400, all);
    let to = stage.world.age();
    let every = crashes(&stage);
    stage.figure("crashes of all", every, TASKS * u64::from(CRASHES));
    let operations = stage.world.operations.busiest(from, to);
    stage.figure("operations in the busiest second", operations, 800);
    stage.rests("seconds until all is quiet", 10);
    stage
}

pub(super) const MASTER: &str = "What kills a master once may kill it again as soon as it is back: a \
record that it cannot stand, a machine with bad memory, a supervisor that is too impatient. Here it \
dies forty times, by SIGKILL or by loss of power, from a thousandth of a second to four seconds after \
its start, while tasks run and end and their owner goes on asking. Nothing that was acknowledged is \
lost, no task notices, and no machine is marked down; within seconds after the last time everything is \
as it should be.";

pub(super) fn master<C: Codec>(cast: Cast<C>) -> Stage<C> {
    let mut stage = Stage::set(cast, Scene::of(12));
    stage.submit("service", 200, (40, 2), "");
    stage.submit("batch", 100, (8, 2), "for=40");
    stage.comes("seconds until the service runs", 30, |cell| running(cell, "service") == 40);
    let begin = stage.world.now();
    for round in 0..40_u64 {
        let how = if round.is_multiple_of(2) { Crash::Killed } else { Crash::PowerLost };
        stage.world.crash_master(0, how, Span::from_millis(200));
        stage.submit(&format!("new{round}"), 100, (1, 1), "for=5");
        // From 1 ms to 4 s, each twice as long as the one before, and again from there.
        let lives = Span::from_millis(1 << (round % 13));
        stage.passes(Span::from_millis(200) + lives);
    }
    stage.world.crash_master(0, Crash::PowerLost, Span::from_millis(200));
    stage.rests("seconds until all is as it should be", 90);
    let moved = stage.moved(begin);
    stage.figure("tasks that were moved", moved, 0);
    let down = stage.befell(begin, |kind| matches!(kind, EventKind::MachineDown));
    stage.figure("machines that were marked down", down, 0);
    let there = stage.world.cell().map_or(0, |cell| {
        (0..40).filter(|round| super::stage::named(cell, &format!("new{round}")).is_some()).count()
    });
    stage.must(there == 40, || format!("of 40 jobs that were submitted {there} are there"));
    stage
}
