use model::{
    Bytes, CollectionId, FinalUsage, InstanceId, MilliCores, Permille, Span, TaskIndex, Time,
};

use poll::{Measured, UsageSubject, UsageWindow, WINDOW};

use super::*;

/// A machine with task 0 and, in an alloc, tasks 1 and 2, on a made-up clock.
struct World {
    recorder: Recorder,
    wall: Time,
    now: Time,
    /// The CPU time of each task so far, and of the machine.
    cpu: [Span; 3],
    machine: Span,
    closed: Vec<UsageWindow>,
}

const ALLOC: InstanceId = instance(9, 0);

const fn instance(collection: u64, index: u32) -> InstanceId {
    InstanceId {
        collection: CollectionId(collection),
        index: TaskIndex(index),
        generation: model::Generation(1),
    }
}

impl World {
    /// A world that begins 10 s before the end of a window.
    fn new() -> Self {
        let wall = Time(WINDOW.0 * 7 - 10_000_000);
        let (cpu, machine, closed) = Default::default();
        let mut world =
            Self { recorder: Recorder::new(1), wall, now: Time(5), cpu, machine, closed };
        world.round();
        world
    }

    fn round(&mut self) {
        let reading = |cpu: Span| Reading {
            cpu_time: Some(cpu),
            memory: Some(Bytes(100)),
            disk_bytes: Some(Bytes(self.now.0)),
            ..Reading::default()
        };
        let tasks = (0..).zip(self.cpu).map(|(index, cpu)| {
            let alloc = (index > 0).then_some(ALLOC);
            let reading = reading(cpu);
            (instance(1, index), TaskReading { alloc, started: Time(0), reading })
        });
        let round = Round {
            wall: self.wall,
            now: self.now,
            tasks: tasks.collect(),
            machine: Reading { memory: Some(Bytes(1_000)), ..reading(self.machine) },
        };
        self.closed.extend(self.recorder.record(&round));
    }

    /// A second passes, in which each task uses so many milliseconds of CPU time.
    fn second(&mut self, cpu_ms: [u64; 3]) {
        self.wall = self.wall + Span::from_secs(1);
        self.now = self.now + Span::from_secs(1);
        for (of_it, ms) in self.cpu.iter_mut().zip(cpu_ms) {
            *of_it = *of_it + Span::from_millis(ms);
        }
        let all = cpu_ms.iter().sum();
        self.machine = self.machine + Span::from_millis(all) + Span::from_millis(50);
        self.round();
    }

    /// A task ends 400 ms after its start.
    fn end(&mut self, instance: InstanceId, cpu_time: Option<Span>) -> Option<UsageWindow> {
        let usage = FinalUsage { cpu_time, memory_peak: Some(Bytes(7)), notice: None };
        let lived = Span::from_millis(400);
        self.recorder.ended(instance, (self.wall, self.now), lived, &usage)
    }

    fn cpu_of(&self, subject: UsageSubject) -> Option<u64> {
        let sample = self.recorder.samples().iter().find(|sample| sample.subject == subject)?;
        sample.measured.cpu.map(|cpu| cpu.0)
    }
}

#[test]
fn usage_sums_tasks_per_alloc_and_leaves_the_rest_to_the_system() {
    let mut world = World::new();
    assert!(world.recorder.samples().is_empty(), "one reading is no sample");
    world.second([100, 200, 300]);
    let of = |subject| world.cpu_of(subject);
    assert_eq!(of(UsageSubject::Instance(instance(1, 0))), Some(100));
    assert_eq!(of(UsageSubject::Instance(ALLOC)), Some(500));
    assert_eq!(of(UsageSubject::Machine), Some(650));
    assert_eq!(of(UsageSubject::System), Some(50));
    let system = world.recorder.samples().iter().find(|s| s.subject == UsageSubject::System);
    let system = system.expect("there is a sample").measured;
    assert_eq!((system.memory, system.disk_rate), (Some(Bytes(700)), Some(Bytes(0))));
}

#[test]
fn windows_end_at_multiples_of_their_length_and_average_all_the_time() {
    let mut world = World::new();
    for second in 0..310 {
        world.second([if second % 2 == 0 { 0 } else { 501 }, 0, 0]);
    }
    let of_task = |window: &&UsageWindow| window.subject == UsageSubject::Instance(instance(1, 0));
    let windows: Vec<_> = world.closed.iter().filter(of_task).collect();
    let [first, second] = windows[..] else { panic!("{windows:?}") };
    assert_eq!((first.start, first.length), (Time(WINDOW.0 * 7 - 10_000_000), Span::from_secs(10)));
    assert_eq!((second.start, second.length), (Time(WINDOW.0 * 7), WINDOW));
    assert_eq!((first.samples, second.samples), (9, 300), "the tenth is of the next window");
    assert_eq!(second.average.cpu, Some(MilliCores(251)), "250.5, rounded");
    assert_eq!(second.maximum.cpu, Some(MilliCores(501)));
    let cpu = second.cpu.expect("there are samples");
    assert_eq!(cpu.percentiles.map(|cpu| cpu.0), [0, 0, 0, 0, 0, 251, 501, 501, 501, 501, 501]);
    assert!([0, 501].map(|cpu| Some(MilliCores(cpu))).contains(&second.random_cpu));
    assert_eq!(world.closed.iter().filter(|window| window.length == WINDOW).count(), 6);
    assert_eq!(second.cycles_per_instruction, None, "there are no counters");
}

#[test]
fn a_counter_that_runs_backwards_gives_nothing_once() {
    let mut world = World::new();
    world.second([100; 3]);
    world.cpu[0] = Span::ZERO;
    world.second([70; 3]);
    let task = UsageSubject::Instance(instance(1, 0));
    assert_eq!(world.cpu_of(task), None);
    world.second([70; 3]);
    assert_eq!(world.cpu_of(task), Some(70));
    let window = world.end(instance(1, 0), None);
    assert_eq!(window.expect("it has samples").average.cpu, Some(MilliCores(85)));
}

#[test]
fn a_clock_that_is_set_ends_the_windows_where_it_was() {
    for back in [false, true] {
        let mut world = World::new();
        (0..3).for_each(|_| world.second([100; 3]));
        let (was, day) = (world.wall, Span::from_secs(86_400));
        world.wall = if back { world.wall - day } else { world.wall + day };
        (0..3).for_each(|_| world.second([100; 3]));
        assert_eq!(world.closed.len(), 6, "of three tasks, the alloc, the machine and its system");
        for window in &world.closed {
            assert_eq!(window.start + window.length, was);
            assert_eq!(window.samples, 3);
        }
        let next = world.end(instance(1, 0), None);
        let next = next.expect("it has samples");
        assert_eq!((next.samples, next.average.cpu), (3, Some(MilliCores(100))));
        assert!(next.start + next.length == world.wall && next.length < Span::from_secs(4));
    }
}

#[test]
fn a_task_between_two_rounds_has_a_window_of_its_cpu_time() {
    let mut world = World::new();
    world.now = world.now + Span::from_millis(400);
    world.wall = world.wall + Span::from_millis(400);
    let brief = instance(2, 0);
    let cpu_time = Some(Span::from_millis(100));
    let window = world.end(brief, cpu_time);
    let window = window.expect("its CPU time is known");
    assert_eq!((window.samples, window.cpu, window.random_cpu), (0, None, None));
    assert_eq!(window.average.cpu, Some(MilliCores(250)));
    assert_eq!(window.maximum.memory_peak, Some(Bytes(7)));
    assert_eq!((window.length, window.start + window.length), (Span::from_millis(400), world.wall));
    let unknown = world.end(instance(3, 0), None);
    assert_eq!(unknown, None);
}

#[test]
fn the_rest_of_a_tasks_cpu_time_is_in_its_last_window() {
    let mut world = World::new();
    (0..2).for_each(|_| world.second([100; 3]));
    world.now = world.now + Span::from_millis(500);
    world.wall = world.wall + Span::from_millis(500);
    let all = Some(Span::from_millis(500));
    let window = world.end(instance(1, 0), all);
    let window = window.expect("it has samples");
    assert_eq!(window.average.cpu, Some(MilliCores(200)), "500 ms in 2.5 s");
    assert_eq!(world.cpu_of(UsageSubject::Instance(instance(1, 0))), None);
}

#[test]
fn hardware_counters_are_given_by_instruction() {
    let counted = |cycles, instructions, memory_accesses| {
        let counters = Counters { cycles, instructions, memory_accesses };
        Reading { counters: Some(counters), ..Reading::default() }
    };
    let mut recorder = Recorder::new(1);
    let mut closed = Vec::new();
    let readings = [counted(10, 10, 0), counted(3_010, 2_010, 10), counted(5, 5, 5)];
    for (second, reading) in (0..).zip(readings) {
        let at = Time(second * 1_000_000);
        let round = Round { wall: at, now: at, machine: reading, ..Round::default() };
        closed.extend(recorder.record(&round));
    }
    let later = Time(WINDOW.0);
    let round = Round { wall: later, now: later, machine: counted(5, 5, 5), ..Round::default() };
    closed.extend(recorder.record(&round));
    let machine = closed.iter().find(|window| window.subject == UsageSubject::Machine);
    let machine = machine.expect("a window has closed");
    assert_eq!(machine.cycles_per_instruction, Some(1_500));
    assert_eq!(machine.memory_accesses_per_instruction, Some(5_000));
}

fn of(cpu: Option<u64>, memory: Option<u64>) -> Measured {
    Measured {
        cpu: cpu.map(MilliCores),
        memory: memory.map(Bytes),
        throttled: Some(Permille::WHOLE),
        ..Measured::default()
    }
}

#[test]
fn sums_have_values_of_either_part_and_rests_those_of_the_whole() {
    let shown = |measured: Measured| {
        assert_eq!(measured.throttled, None, "shares cannot be added");
        (measured.cpu.map(|cpu| cpu.0), measured.memory.map(|memory| memory.0))
    };
    assert_eq!(shown(of(Some(3), None).plus(&of(Some(4), Some(7)))), (Some(7), Some(7)));
    assert_eq!(shown(of(None, None).plus(&of(None, None))), (None, None));
    assert_eq!(shown(of(Some(3), None).minus(&of(Some(4), Some(7)))), (Some(0), None));
    assert_eq!(shown(of(Some(9), Some(9)).minus(&of(None, Some(7)))), (Some(9), Some(2)));
}

#[test]
fn a_task_that_starts_between_two_rounds_is_measured_from_its_start() {
    let start = Time(WINDOW.0 * 7);
    let mut recorder = Recorder::new(1);
    let mut at = |ms: u64, tasks: &[(u32, u64, u64)]| {
        let task = |(index, started_ms, cpu_ms): &(u32, u64, u64)| {
            let cpu_time = Some(Span::from_millis(*cpu_ms));
            let (reading, started) = (Reading { cpu_time, ..Reading::default() }, *started_ms);
            let started = Time(0) + Span::from_millis(started);
            (instance(1, *index), TaskReading { alloc: None, started, reading })
        };
        let tasks = tasks.iter().map(task).collect();
        let passed = Span::from_millis(ms);
        let (wall, now) = (start + passed, Time(0) + passed);
        recorder.record(&Round { wall, now, tasks, machine: Reading::default() });
        let cpu = |index| {
            let subject = UsageSubject::Instance(instance(1, index));
            let sample = recorder.samples().iter().find(|sample| sample.subject == subject);
            sample.and_then(|sample| sample.measured.cpu.map(|cpu| cpu.0))
        };
        [cpu(0), cpu(1)]
    };
    // What task 0 has used before the first round may have been used at any time.
    assert_eq!(at(5_000, &[(0, 1_000, 3_000)]), [None, None]);
    assert_eq!(at(6_000, &[(0, 1_000, 3_500), (1, 5_600, 100)]), [Some(500), Some(250)]);
    assert_eq!(at(7_000, &[(0, 1_000, 3_500), (1, 5_600, 400)]), [Some(0), Some(300)]);
    let windows = at_end(&mut recorder, start + Span::from_millis(8_000));
    assert_eq!(windows, [(Span::from_millis(1_400), Some(286))]);
}

/// The length and the average CPU of the windows of task 1 when it is gone.
fn at_end(recorder: &mut Recorder, wall: Time) -> Vec<(Span, Option<u64>)> {
    let now = Time(8_000_000);
    let closed = recorder.record(&Round { wall, now, ..Round::default() });
    let of_it = |window: &&UsageWindow| window.subject == UsageSubject::Instance(instance(1, 1));
    let found = closed.iter().filter(of_it);
    found.map(|window| (window.length, window.average.cpu.map(|cpu| cpu.0))).collect()
}
