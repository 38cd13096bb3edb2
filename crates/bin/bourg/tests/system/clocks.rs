//! Jumps of the wall clock: nothing except dates in the logs may change.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::cell::{Cell, Role};
use crate::eventually::until;
use crate::terminal::Terminal;
use crate::wall_clock::WallClock;

/// A cell under a clock that can be set, with a service whose health is checked.
struct World {
    cell: Cell,
    clock: WallClock,
    /// The service's programs.
    tasks: BTreeMap<u32, i32>,
    /// The times before and after the service was submitted.
    submitted: [Instant; 2],
    /// The number of jobs tried.
    tried: u32,
}

/// The possible length of the one-second wait, including the restarts during it.
const WAIT: Range<Duration> = Duration::from_secs(1)..Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3_600);

impl World {
    fn new() -> Self {
        let mut terminal = Terminal::new();
        let clock = WallClock::of(&mut terminal);
        let directory = terminal.path("cell");
        let cell = Cell::start_in(terminal, &directory, &[]);
        for role in [Role::Master, Role::Scheduler, Role::Borglet] {
            let pid = cell.pid(role).expect("it runs");
            let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
            assert!(maps.contains(WallClock::LIBRARY), "the {role:?} has another clock");
        }
        cell.write(
            "web.bcl",
            "local borg = import 'borg.libsonnet';
             borg.service('web', tasks=3, cmd=[
               'bourg', 'example-server', '--port', borg.port('http')
             ]) { healthCheck+: { interval: '200ms' } }",
        );
        let before = Instant::now();
        cell.ok("bourg run web.bcl");
        let (tasks, submitted) = (cell.tasks("web"), [before, Instant::now()]);
        assert_eq!(tasks.len(), 3);
        Self { cell, clock, tasks, submitted, tried: 0 }
    }

    /// How often each task's health has been checked.
    fn checks(&self) -> Vec<usize> {
        let log = |task| self.cell.types(&format!("bourg logs web/{task}")).stdout;
        (0..3).map(|task| log(task).matches("GET /").count()).collect()
    }

    /// Asserts that the tasks are unchanged, healthy, and still being checked.
    fn goes_on(&self) {
        let before = self.checks();
        until("health checks go on", || {
            self.checks().iter().zip(&before).all(|(now, before)| *now > before + 2)
        });
        self.cell.is_healthy("web");
        assert_eq!(self.cell.tasks("web"), self.tasks, "no task notices");
        for task in 0..3 {
            let field = format!("bourg status web -o tasks.{task}.generation");
            assert_eq!(self.cell.ok(&field), "1\n");
        }
        assert_eq!(self.cell.ok("bourg machines -o state"), "up\n");
    }

    /// The number of operations so far.
    fn index(&self) -> u64 {
        self.cell.ok("bourg cell -o index").trim().parse().expect("a number")
    }

    /// Runs a task that fails twice with a second's wait in between, during which `something` is
    /// done; returns how long the wait was.
    fn wait_while(&mut self, something: impl FnOnce(&Self)) -> Duration {
        self.tried += 1;
        let name = format!("fails-{}", self.tried);
        let job = format!(
            "(import 'borg.libsonnet').batch('{name}', cmd=['sh', '-c', 'date +%s%N; exit 3']) {{
               restart: {{ failures: 1, delay: '1s' }} }}"
        );
        self.cell.write("fails.bcl", job);
        let index = self.index();
        self.cell.ok("bourg run --detach fails.bcl");
        let status =
            self.cell.job(&name, "has failed once", |job| job["tasks"][0]["failures"].is_u64());
        let collection = status["collection"].as_str().expect("a number").to_owned();
        something(self);
        self.cell.job(&name, "has failed", |job| job["state"] == "failed");
        // There are no failed attempts meanwhile.
        let operations = self.index() - index;
        assert!(operations < 20, "there were {operations} operations");
        // Tasks have the right time.
        let log = format!("cat cell/borglet/tasks/{collection}-0-*/logs/stdout.000001");
        let starts: Vec<u64> =
            self.cell.ok(&log).lines().map(|line| line.parse().expect("a time")).collect();
        let [first, second] = starts[..] else { panic!("started at {starts:?}") };
        Duration::from_nanos(second - first)
    }

    /// The age of the service in its status.
    fn age(&self) -> Duration {
        let status = self.cell.ok("bourg status web");
        let age = status.split_once("submitted ").and_then(|(_, rest)| rest.split_once(" ago"));
        let words: Vec<&str> = age.expect("an age").0.split(' ').collect();
        let units = words.chunks(2).map(|pair| {
            let [number, unit] = pair else { panic!("{words:?}") };
            let number: f64 = number.parse().expect("a number");
            number
                * match *unit {
                    "µs" => 1e-6,
                    "ms" => 1e-3,
                    "s" => 1.0,
                    "m" => 60.0,
                    "h" => 3_600.0,
                    _ => panic!("{words:?}"),
                }
        });
        Duration::from_secs_f64(units.sum())
    }
}

#[test]
fn a_clock_that_jumps_changes_nothing() {
    let mut world = World::new();
    for hours in [5, -3, 0, -7, 20] {
        let wait = world.wait_while(|world| world.clock.set(hours));
        assert!(WAIT.contains(&wait), "{hours} h: {wait:?}");
        world.goes_on();
        let least = world.submitted[1].elapsed();
        let age = world.age();
        // Shown in tenths of a second at first, later in seconds.
        let ages = least.saturating_sub(Duration::from_secs(1))..world.submitted[0].elapsed();
        assert!(ages.contains(&age), "{hours} h: {age:?}, and not {ages:?}");
        let why = world.cell.ok("bourg why web");
        assert_eq!(why, "root/web: no task is pending\n");
    }
    // A notice keeps its length.
    world.cell.write(
        "deaf.bcl",
        r"(import 'borg.libsonnet').service('deaf', cmd=[
            'sh', '-c', 'trap \'echo stays\' TERM; echo ready; while :; do sleep 0.1; done'
          ]) { notice: '2s' }",
    );
    world.cell.ok("bourg run deaf.bcl");
    until("it listens", || world.cell.ok("bourg logs deaf/0") == "ready\n");
    let begun = Instant::now();
    world.cell.ok("bourg kill --detach deaf");
    until("it is asked to go", || world.cell.ok("bourg logs deaf/0").contains("stays"));
    world.clock.set(0);
    world.cell.job("deaf", "is killed", |job| job["state"] == "killed");
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn a_process_that_starts_under_another_clock_changes_nothing() {
    let mut world = World::new();
    for (hours, role) in [
        (5, Role::Scheduler),
        (-6, Role::Borglet),
        (-6, Role::Master),
        (4, Role::Borglet),
        (4, Role::Master),
        (0, Role::Master),
        (0, Role::Scheduler),
    ] {
        let again = |world: &World| {
            world.clock.set(hours);
            world.cell.kill(role);
            until("it answers", || world.cell.types("bourg cell").code == 0);
        };
        let wait = world.wait_while(again);
        assert!(wait < WAIT.end, "{role:?} at {hours} h: {wait:?}");
        // A starting master accepts a clock that is ahead, and a wait is over then.
        if (hours, role) != (4, Role::Master) {
            assert!(wait >= WAIT.start, "{role:?} at {hours} h: {wait:?}");
        }
        let wait = world.wait_while(|_| {});
        assert!(WAIT.contains(&wait), "after {role:?} at {hours} h: {wait:?}");
        world.goes_on();
        assert!(world.age() < 6 * HOUR, "{role:?} at {hours} h: {:?}", world.age());
    }
}
