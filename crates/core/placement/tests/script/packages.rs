//! Machines that have a task's packages are preferred (paper, section 3.2).

use std::collections::BTreeMap;
use std::sync::Arc;

use cell::{Cell, Job};
use model::{
    Bytes, CollectionId, DigestPrefix, HeldPackage, HeldUse, InstanceId, MachineId, Random,
    TaskIndex, Time,
};
use placement::{Engine, HeldByMachine, Settings, Term, Weights, scores};

use super::cell;

const NOW: Time = Time(1_000_000);

/// What a machine has of a package: so many MiB of so many.
fn held(package: u64, bytes: u64, needs: u64) -> HeldPackage {
    let mib = |number: u64| Bytes(number << 20);
    let package = DigestPrefix(package);
    HeldPackage { package, bytes: mib(bytes), needs: mib(needs), held_use: HeldUse::Unused }
}

fn job(cell: &Cell, id: u64) -> &Job {
    cell.job(CollectionId(id)).expect("a job")
}

/// Where the tasks of a job are placed, by number, one after another.
fn placed(engine: &mut Engine, cell: &Cell, id: u64) -> Vec<u64> {
    let job = job(cell, id);
    let class = engine.join(cell, job, TaskIndex(0));
    let place = |index: u32| {
        let instance: InstanceId = job.instance(TaskIndex(index)).expect("a task");
        engine.place(cell, class, instance, NOW).map_or(0, |placed| placed.machine.0)
    };
    let placed = (0..job.spec.tasks).map(place).collect();
    engine.leave(class);
    placed
}

const THREE: &str = "machine m1 cpu=8000 ram=8000 ports=none
    machine m2 cpu=8000 ram=8000 ports=none
    machine m3 cpu=8000 ram=8000 ports=none";

#[test]
fn the_machine_with_most_of_the_packages_is_chosen() {
    let cell = cell(
        THREE,
        "package ana/app@1 11 30
         image ana/base@1 12 70
         submit ana/a 1 priority=110 cpu=1000 ram=1000 packages=app@1 image=base@1",
    );
    for (lists, expected) in [
        (vec![], 1),
        (vec![(2, vec![held(11, 30, 30)])], 2),
        (vec![(2, vec![held(11, 30, 30)]), (3, vec![held(12, 70, 70)])], 3),
        (vec![(2, vec![held(11, 30, 30)]), (3, vec![held(12, 20, 70)])], 2),
        (vec![(2, vec![held(99, 900, 900)])], 1),
        (vec![(7, vec![held(11, 30, 30)])], 1),
        (vec![(3, vec![held(11, 30, 30)]), (3, vec![])], 1),
        // An image for several machines: only the part that is needed counts.
        (vec![(2, vec![held(12, 20, 35)]), (3, vec![held(12, 34, 35)])], 3),
    ] {
        let mut engine = Engine::new(&cell, Settings::default());
        for (machine, list) in &lists {
            engine.set_held(MachineId(*machine), &Arc::from(list.as_slice()));
        }
        assert_eq!(placed(&mut engine, &cell, 1), [expected], "{lists:?}");
    }
}

#[test]
fn a_report_that_comes_later_counts_for_the_next_task() {
    let mut lines = "package ana/app@1 11 30".to_owned();
    for number in 1..=3 {
        lines += &format!("\nsubmit ana/j{number} 1 priority=110 cpu=1000 ram=1000 packages=app@1");
    }
    let cell = cell(THREE, &lines);
    let mut engine = Engine::new(&cell, Settings::default());
    assert_eq!(placed(&mut engine, &cell, 1), [1]);
    engine.set_held(MachineId(3), &Arc::from([held(11, 30, 30)]));
    assert_eq!(placed(&mut engine, &cell, 2), [3]);
    engine.set_held(MachineId(3), &Arc::from([]));
    engine.set_held(MachineId(2), &Arc::from([held(11, 30, 30)]));
    assert_eq!(placed(&mut engine, &cell, 3), [2]);
}

#[test]
fn packages_do_not_draw_the_tasks_of_a_small_job_together() {
    let cell = cell(
        THREE,
        "package ana/app@1 11 30
         submit ana/a 3 priority=110 cpu=1000 ram=1000 packages=app@1",
    );
    let mut engine = Engine::new(&cell, Settings::default());
    engine.set_held(MachineId(2), &Arc::from([held(11, 30, 30)]));
    let mut machines = placed(&mut engine, &cell, 1);
    assert_eq!(machines.first(), Some(&2));
    machines.sort_unstable();
    assert_eq!(machines, [1, 2, 3]);
    let weights = Weights::default();
    // Of a job of two tasks, one is there: half of the whole.
    assert!(weights.of(Term::Packages) * 4_096 < weights.of(Term::SpreadMachine) * 2_048);
}

#[test]
fn a_machine_that_has_them_is_found_in_a_cell_of_any_size() {
    let machines: Vec<String> = (1..=3_000)
        .map(|number| format!("machine m{number} cpu=8000 ram=8000 ports=none"))
        .collect();
    let cell = cell(
        &machines.join("\n"),
        "package ana/app@1 11 30
         submit ana/a 1 priority=110 cpu=1000 ram=1000 packages=app@1",
    );
    for machine in [1, 700, 1_400, 2_100, 3_000] {
        let mut engine = Engine::new(&cell, Settings::default());
        engine.set_held(MachineId(machine), &Arc::from([held(11, 30, 30)]));
        assert_eq!(placed(&mut engine, &cell, 1), [machine]);
    }
}

#[test]
fn scores_say_what_a_machine_has() {
    let cell = cell(
        THREE,
        "package ana/app@1 11 50
         submit ana/a 1 priority=110 cpu=1000 ram=1000 packages=app@1
         submit ana/b 1 priority=110 cpu=1000 ram=1000",
    );
    let reports = HeldByMachine::from([(MachineId(2), Arc::from([held(11, 48, 50)]))]);
    let of = |id| {
        let all =
            scores(&cell, job(&cell, id), TaskIndex(0), NOW, Settings::default(), &reports, 9);
        let shown = all.iter().map(|one| {
            (one.machine.0, one.packages.map(|there| (there.has.0 >> 20, there.of.0 >> 20)))
        });
        shown.collect::<Vec<_>>()
    };
    assert_eq!(of(1), [(2, Some((47, 50))), (1, Some((0, 50))), (3, Some((0, 50)))]);
    assert_eq!(of(2), [(1, None), (2, None), (3, None)]);
}

/// What starts cost: the MiB that machines fetch, and the mean start at 100 MiB a second, in milliseconds.
#[derive(Debug, PartialEq, Eq)]
struct StartCosts {
    fetched: u64,
    mean: u64,
}

/// Starts tasks of single-task jobs with packages of 10 to 200 MiB, drawn with a seed, on machines that keep what they
/// have fetched.
fn started(weight: u32) -> StartCosts {
    const PACKAGES: u64 = 20;
    const JOBS: u64 = 300;
    let mut random = Random::new(7);
    let mut machines = String::new();
    for number in 1..=60 {
        machines += &format!("machine m{number} cpu=16000 ram=16000 ports=none\n");
    }
    let sizes: Vec<u64> = (0..PACKAGES).map(|_| 10 + random.index(191) as u64).collect();
    let mut lines: Vec<String> = (1..=PACKAGES)
        .zip(&sizes)
        .map(|(package, size)| format!("package ana/p{package}@1 {package} {size}"))
        .collect();
    let mut wants = Vec::new();
    for number in 1..=JOBS {
        let package = 1 + random.index(sizes.len()) as u64;
        let (cpu, ram) = (500 + 100 * random.index(10), 500 + 100 * random.index(10));
        wants.push(package);
        lines.push(format!(
            "submit ana/j{number} 1 priority=110 cpu={cpu} ram={ram} packages=p{package}@1"
        ));
    }
    let cell = cell(machines.trim_end(), &lines.join("\n"));
    let weights = Weights { packages: weight, ..Weights::default() };
    let mut engine = Engine::new(&cell, Settings { weights, ..Settings::default() });
    let mut there: BTreeMap<MachineId, Vec<HeldPackage>> = BTreeMap::new();
    let mut fetched = 0;
    for (id, package) in (1..=JOBS).zip(wants) {
        let machine = MachineId(placed(&mut engine, &cell, id)[0]);
        assert_ne!(machine.0, 0, "job {id} fits");
        let size = sizes[usize::try_from(package).expect("few") - 1];
        let of_it = there.entry(machine).or_default();
        if !of_it.iter().any(|one| one.package.0 == package) {
            fetched += size;
            of_it.push(held(package, size, size));
            engine.set_held(machine, &Arc::from(of_it.as_slice()));
        }
    }
    StartCosts { fetched, mean: fetched * 1_000 / 100 / JOBS }
}

#[test]
fn less_is_fetched_and_tasks_start_sooner() {
    let (without, with) = (started(0), started(Weights::default().packages));
    assert!(with.fetched * 2 < without.fetched, "{with:?}, without the term {without:?}");
    assert!(with.mean < without.mean);
    assert_eq!(with, started(Weights::default().packages), "the same each time");
}
