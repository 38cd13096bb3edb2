//! The control loop against machines on which latency-sensitive tasks come first.

use model::{CollectionId, Generation, TaskIndex};

use super::*;

fn instance(index: usize) -> InstanceId {
    let index = TaskIndex(u32::try_from(index).expect("a small index"));
    InstanceId { collection: CollectionId(1), index, generation: Generation(1) }
}

/// A machine of two cores whose tasks want some CPU each second: latency-sensitive ones get it first.
struct Machine {
    /// Whether it is batch, its limit, and what it wants, in thousandths.
    tasks: Vec<(bool, u64, u64)>,
    has_pressure: bool,
    loop_: Starvation,
    second: u64,
}

/// What a second was like.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Second {
    batch_used: u64,
    changes: Vec<(usize, Option<u64>)>,
}

const CAPACITY: u64 = 2_000;

impl Machine {
    fn new(tasks: &[(bool, u64, u64)]) -> Self {
        let (tasks, loop_) = (tasks.to_vec(), Starvation::default());
        Self { tasks, has_pressure: true, loop_, second: 0 }
    }

    fn tick(&mut self) -> Second {
        self.second += 1;
        let mut free = CAPACITY;
        let mut seen = vec![None; self.tasks.len()];
        for of_batch in [false, true] {
            for (index, (batch, limit, wants)) in self.tasks.iter().enumerate() {
                if *batch != of_batch {
                    continue;
                }
                let cap = self.loop_.cap(instance(index)).map_or(u64::MAX, |cap| cap.0);
                let used = (*wants).min(cap).min(free);
                free -= used;
                let waited = Permille::at_most_whole((wants - used) * 1_000 / (*wants).max(1));
                seen[index] = Some(Observed {
                    instance: instance(index),
                    batch: *batch,
                    limit: MilliCores(*limit),
                    used: MilliCores(used),
                    waited: self.has_pressure.then_some(waited),
                });
            }
        }
        let seen: Vec<Observed> = seen.into_iter().flatten().collect();
        let batch_used = seen.iter().filter(|task| task.batch).map(|task| task.used.0).sum();
        let now = Time(self.second * 1_000_000);
        let used = MilliCores(CAPACITY - free);
        let changes = self.loop_.observe(now, MilliCores(CAPACITY), Some(used), &seen);
        let index = |id: InstanceId| usize::try_from(id.index.0).expect("an index");
        let changes = changes.iter().map(|(id, cap)| (index(*id), cap.max().map(|max| max.0)));
        Second { batch_used, changes: changes.collect() }
    }

    fn run(&mut self, seconds: u64) -> Vec<Second> {
        (0..seconds).map(|_| self.tick()).collect()
    }
}

/// The changes of a run, with the second of each.
fn changes(run: &[Second]) -> Vec<(usize, usize, Option<u64>)> {
    let each = run.iter().enumerate();
    each.flat_map(|(at, second)| second.changes.iter().map(move |(of, cap)| (at, *of, *cap)))
        .collect()
}

#[test]
fn a_greedy_task_is_capped_late_and_only_as_batch_needs() {
    // A latency-sensitive task with a limit of one core takes both.
    let mut machine = Machine::new(&[(false, 1_000, 2_000), (true, 500, 500)]);
    let run = machine.run(60);
    assert_eq!(changes(&run)[..2], [(5, 0, Some(1_800)), (15, 0, None)]);
    let starved = run.iter().filter(|second| second.batch_used < 100).count();
    assert!((5..=20).contains(&starved), "{starved} of the 60 seconds");
}

#[test]
fn batch_is_starved_for_at_most_a_third_of_any_minute() {
    let tables: [&[(bool, u64, u64)]; 4] = [
        &[(false, 1_000, 2_000), (true, 500, 500)],
        // Two greedy ones, and one that is not.
        &[(false, 500, 900), (false, 300, 700), (false, 400, 400), (true, 500, 500)],
        // Many small batch tasks.
        &[(false, 100, 2_000), (true, 10, 1_000), (true, 10, 1_000), (true, 10, 1_000)],
        // A batch task with a large limit.
        &[(false, 1_500, 2_000), (true, 8_000, 8_000)],
    ];
    for tasks in tables {
        for has_pressure in [true, false] {
            let mut machine = Machine { has_pressure, ..Machine::new(tasks) };
            let run = machine.run(600);
            let wanted: u64 = tasks.iter().filter(|task| task.0).map(|task| task.1).sum();
            let floor = wanted.min(200) / 2;
            for minute in run.windows(60) {
                let starved = minute.iter().filter(|second| second.batch_used < floor).count();
                assert!(starved <= 20, "{starved} s of a minute: {tasks:?}");
            }
            let longest = run.split(|second| second.batch_used >= floor).map(<[_]>::len).max();
            assert!(longest <= Some(6), "{longest:?} s in a row: {tasks:?}");
        }
    }
}

#[test]
fn a_task_within_its_limit_is_never_capped() {
    // Together they use the whole machine, each within its limit or only a little above.
    for wants in [1_000, 1_049] {
        let mut machine =
            Machine::new(&[(false, 1_000, wants), (false, 1_000, 1_000), (true, 500, 500)]);
        assert_eq!(changes(&machine.run(300)), []);
    }
    // One is greedy: the other keeps what it has, and the greedy one keeps its limit.
    let mut machine = Machine::new(&[(false, 1_000, 1_000), (false, 900, 1_000), (true, 500, 500)]);
    let run = machine.run(120);
    let capped = changes(&run);
    assert!(
        !capped.is_empty()
            && capped.iter().all(|(_, of, cap)| { *of == 1 && cap.is_none_or(|cap| cap >= 900) }),
        "{capped:?}"
    );
}

#[test]
fn no_task_is_capped_while_batch_has_enough_cpu() {
    let tables: [&[(bool, u64, u64)]; 4] = [
        &[],
        // Nobody waits.
        &[(false, 1_000, 2_000)],
        &[(false, 1_000, 2_000), (true, 500, 0)],
        // Batch has its share.
        &[(false, 1_000, 1_800), (true, 500, 500)],
    ];
    for tasks in tables {
        assert_eq!(changes(&Machine::new(tasks).run(200)), [], "{tasks:?}");
    }
    // A burst of five seconds, then a pause.
    let mut machine = Machine::new(&[(false, 1_000, 2_000), (true, 500, 500)]);
    for _ in 0..20 {
        machine.tasks[0].2 = 2_000;
        let burst = machine.run(4);
        machine.tasks[0].2 = 1_000;
        assert_eq!(changes(&[burst, machine.run(16)].concat()), []);
    }
}

#[test]
fn caps_are_proportional_to_excess_and_fall_if_others_take_over() {
    let mut machine = Machine::new(&[
        (false, 500, 1_100),
        (false, 600, 900),
        (false, 10, 10),
        (true, 1_000, 900),
    ]);
    let run = machine.run(6);
    // 200 are wanted; 600 and 290 are the excesses, of what is there: the second one has 900.
    assert_eq!(changes(&run), [(5, 0, Some(966)), (5, 1, Some(833))]);
    // A third one becomes greedy.
    machine.tasks[2].2 = 500;
    let then = changes(&machine.run(4));
    assert_eq!(then, [(1, 0, Some(500)), (1, 1, Some(600)), (1, 2, Some(10))]);
}

#[test]
fn an_ended_task_leaves_no_cap_and_a_pause_is_ignored() {
    let mut machine = Machine::new(&[(false, 1_000, 2_000), (true, 500, 500)]);
    assert_eq!(changes(&machine.run(6)).len(), 1);
    machine.tasks = vec![(true, 500, 500)];
    // Another task takes the place of the first, so its cap would hit the wrong one.
    let before = machine.loop_.cap(instance(0));
    machine.loop_.observe(Time(7_000_000), MilliCores(CAPACITY), None, &[]);
    assert_eq!((before, machine.loop_.cap(instance(0))), (Some(MilliCores(1_800)), None));
    // A minute without readings stands for five seconds at most.
    let mut machine = Machine::new(&[(false, 1_000, 2_000), (true, 500, 500)]);
    machine.run(1);
    machine.second += 60;
    let found = changes(&machine.run(1));
    assert_eq!(found, [(0, 0, Some(1_800))], "five seconds are enough");
}

#[test]
fn the_rule_is_told_with_its_numbers() {
    let greed = Greed {
        used: MilliCores(1_990),
        limit: MilliCores(1_000),
        batch_used: MilliCores(3),
        batch_wanted: MilliCores(200),
        starved: Span::from_secs(6),
    };
    assert_eq!(
        CpuCap::At(MilliCores(1_793), greed).to_string(),
        "capped at 1.793 cores: it used 1.99 cores, more than its limit of 1 core, while batch tasks had \
         0.003 cores of the 0.2 cores that they are to have; they were starved for 6 s of the last 1 m"
    );
    assert_eq!(CpuCap::Lifted(Span::from_secs(10)).to_string(), "no longer capped, after 10 s");
}
