//! A cell drawn in text: why its tasks are pending, and the placement of one task after another without any
//! queue. Machines, jobs and what happens to them are lines of the crate `script`.

mod packages;
mod reasons;
mod smallest;

use std::collections::BTreeSet;

use cell::{Cell, Outcome};
use expect_test::{Expect, expect};
use model::{CollectionId, MachineId, PackingPolicy, TaskIndex, TaskSelection, Time};
use placement::{Engine, Settings, why};
use script::{Script, Step};

/// A cell at 1 s, administered by root, after these lines.
fn cell(machines: &str, jobs: &str) -> Cell {
    let mut cell = Cell::empty();
    for lines in ["at 1\nbootstrap test root", machines, jobs] {
        apply(&mut cell, lines);
    }
    cell
}

/// Applies lines to a cell, from its time on.
fn apply(cell: &mut Cell, lines: &str) -> Vec<Step> {
    let mut script = Script::on(std::mem::take(cell));
    let step = |line| script.command(line).unwrap_or_else(|error| panic!("'{line}': {error}"));
    let steps: Vec<Step> = lines.lines().flat_map(step).collect();
    for Step { applied, .. } in &steps {
        let rejected = matches!(applied.outcome, Outcome::Request(Err(_)));
        assert!(!rejected, "'{lines}': {applied:?}");
    }
    *cell = script.cell().clone();
    steps
}

fn explained(machines: &str, jobs: &str, expected: &Expect) {
    let cell = cell(machines, jobs);
    let job = cell.job(CollectionId(1)).expect("the first job");
    let mut text = String::new();
    for group in why(&cell, job, &TaskSelection::All, Time(1_000_000)).groups {
        let ranges = TaskSelection::Some(group.tasks.clone());
        text += &format!("tasks {ranges}: fits {} of {}\n", group.fits, group.machines);
        for reason in &group.reasons {
            text += &format!("  {} {} ({})\n", reason.machines, reason.text, reason.nearest_text);
        }
        if let Some(change) = group.smallest_change {
            text += &format!("  change: {change}\n");
        }
    }
    expected.assert_eq(&text);
}

#[test]
fn every_machine_is_counted_under_what_it_fails_with_the_nearest_miss() {
    explained(
        "machine m1 cpu=1000 ram=900 ports=1000-1008
         machine m2 cpu=2000 ram=1000 ports=1000-1008
         machine m3 cpu=4000 ram=500 ports=1000-1008
         add m4 m4:1
         machine m5 cpu=8000 ram=8000 ports=none
         machine m6 cpu=8000 ram=8000 ports=1000-1002 held=\"1000-1001:/ssh.service (sshd)\" held=\"1002-1002:/ssh.service (sshd)\"",
        "submit ana/train 4 priority=110 cpu=1500 ram=1020 ports=1",
        &expect![[r#"
            tasks 0-3: fits 0 of 6
              2 lack ports (1 asked; the nearest miss has 0 free, on m5)
              2 are too small (RAM) (1020 MiB asked; the nearest miss has 1000 MiB in all, on m2)
              1 is too small (CPU) (1.5 cores asked; m1 has 1 core in all)
              1 is not up ()
              change: ram 1020 MiB → 1000 MiB
        "#]],
    );
}

#[test]
fn the_holder_of_ports_that_something_else_holds_is_named() {
    let machines =
        "machine m1 cpu=1000 ram=1000 ports=1000-1005 held=\"1001-1003:/ssh.service (sshd)\"";
    explained(
        machines,
        "submit ana/web 1 priority=200 cpu=100 ram=10 ports=4",
        &expect![[r#"
            tasks 0: fits 0 of 1
              1 lacks ports (4 asked; m1 has 3 free, 3 held by others: 1001-1003 by /ssh.service (sshd))
        "#]],
    );
}

#[test]
fn a_constraint_that_nothing_matches_is_named_with_what_there_is_instead() {
    explained(
        "machine m1 cpu=1000 ram=1000 ports=none is=gpu:H200
         machine m2 cpu=1000 ram=1000 ports=none is=gpu:H200
         machine m3 cpu=1000 ram=1000 ports=none is=gpu:L4
         machine m4 cpu=1000 ram=1000 ports=none",
        "submit ana/train 1 priority=110 cpu=500 ram=500 on=gpu=h200",
        &expect![[r#"
            tasks 0: fits 0 of 4
              4 do not match gpu = "h200" (2 of them have "H200")
              change: without gpu = "h200"
        "#]],
    );
}

#[test]
fn every_answer_has_a_number_or_a_suggestion() {
    // An attribute that no machine has.
    explained(
        "machine m1 cpu=1000 ram=1000 ports=none
         machine m2 cpu=1000 ram=1000 ports=none",
        "submit ana/train 1 priority=110 cpu=500 ram=500 on=gpu=h200",
        &expect![[r#"
            tasks 0: fits 0 of 2
              2 do not match gpu = "h200" (none of them has the attribute gpu)
              change: without gpu = "h200"
        "#]],
    );
    // Whole cores that the machine does not have at all come before room that it lacks now.
    explained(
        "machine m1 cpu=1000 ram=1000 ports=none is=exclusive-cores:1 is=threads-per-core:1
         machine m2 cpu=4000 ram=10 ports=none is=exclusive-cores:3 is=threads-per-core:1",
        "submit ana/web 1 priority=200 cpu=2000 ram=500 cores=exclusive appclass=latency-sensitive",
        &expect![[r#"
            tasks 0: fits 0 of 2
              1 has too few whole cores for tasks (2 asked; m1 has 1 in all)
              1 is too small (RAM) (500 MiB asked; m2 has 10 MiB in all)
              change: ram 500 MiB → 10 MiB
        "#]],
    );
    // As many tasks of the job as it allows.
    explained(
        "machine m1 cpu=1000 ram=1000 ports=none
         machine m2 cpu=1000 ram=10 ports=none",
        "submit ana/web 2 priority=200 cpu=100 ram=100 per-machine=1\nassign 1-0-1 m1",
        &expect![[r#"
            tasks 1: fits 0 of 2
              1 has the maximum number of tasks of the job on it (1 allowed; m1 has 1)
              1 is too small (RAM) (100 MiB asked; m2 has 10 MiB in all)
              change: ram 100 MiB → 10 MiB
        "#]],
    );
}

#[test]
fn a_cell_without_machines_fits_no_task() {
    explained(
        "",
        "submit ana/web 1 priority=200 cpu=100 ram=10",
        &expect![[r#"
        tasks 0: fits 0 of 0
    "#]],
    );
}

/// Comparing each task with each group, or looking at the machines for each, took hours.
#[test]
#[expect(clippy::disallowed_methods, reason = "it is measured that this takes no hours")]
fn a_hundred_thousand_tasks_are_explained_in_a_moment() {
    let cell = cell(
        "machine m1 cpu=1000 ram=1000 ports=none",
        "submit ana/web 100000 priority=200 cpu=100 ram=2000",
    );
    let job = cell.job(CollectionId(1)).expect("the job");
    let begun = std::time::Instant::now();
    let odd = (0..50_000).map(|n| TaskIndex(2 * n + 1)).map(|index| (index, index));
    let groups = why(&cell, job, &TaskSelection::Some(odd.collect()), Time(1_000_000)).groups;
    assert_eq!((groups.len(), groups[0].tasks.len()), (1, 50_000));
    let taken = begun.elapsed();
    assert!(taken < std::time::Duration::from_secs(5), "it took {taken:?}");
}

/// For each of them every machine is looked at.
#[test]
fn at_most_a_hundred_different_requests_are_explained() {
    let mut cell = cell(
        "machine m1 cpu=1000 ram=1000 ports=none",
        "submit ana/web 1 priority=200 cpu=2000 ram=100",
    );
    let cpu = |n| format!(" big={n}:{}", 2_001 + n % 240);
    let odd: String = (0..250).map(cpu).collect();
    apply(&mut cell, &format!("submit ana/odd 250 priority=200 cpu=2000 ram=100{odd}"));
    let job = cell.job(CollectionId(2)).expect("the job");
    let found = why(&cell, job, &TaskSelection::All, Time(1_000_000));
    assert_eq!((found.groups.len(), found.more), (100, 140));
    // Those that ask for what one of the hundred does are with it.
    assert_eq!(found.groups[9].tasks.len(), 2);
    let rest = TaskSelection::Some(vec![(TaskIndex(200), TaskIndex(249))]);
    assert_eq!(why(&cell, job, &rest, Time(1_000_000)).more, 0);
}

/// The order of tasks is the caller's: here the least important goes first, and what it takes is there
/// again for the others when it is not proposed after all.
#[test]
fn tasks_are_placed_in_the_callers_order_with_room_reported_again() {
    let cell = cell(
        "machine m1 cpu=1000 ram=1000 ports=none",
        "submit ana/low 1 priority=25 cpu=900 ram=100
         submit ana/high 1 priority=200 cpu=900 ram=100
         submit ana/huge 1 priority=200 cpu=2000 ram=100",
    );
    let now = Time(1_000_000);
    let mut engine = Engine::new(&cell, Settings::default());
    assert_eq!(engine.begin_pass(&cell, now), BTreeSet::new());
    let [low, high, huge] = [1, 2, 3].map(|id| {
        let job = cell.job(CollectionId(id)).expect("a job");
        let class = engine.join(&cell, job, TaskIndex(0));
        assert!(engine.is_of_class(class, &cell, job, TaskIndex(0)));
        (class, job.instance(TaskIndex(0)).expect("a task"))
    });
    let place = |engine: &mut Engine, (class, instance)| {
        let assignment = engine.place(&cell, class, instance, now);
        assert_eq!(assignment.is_none(), engine.fits_nowhere(class));
        assignment.map(|assignment| assignment.machine)
    };
    assert_eq!(place(&mut engine, low), Some(MachineId(1)));
    assert_eq!([high, huge].map(|task| place(&mut engine, task)), [None, None]);
    assert_eq!(engine.unplanned(&cell, low.1.task()), None);
    assert_eq!(engine.begin_pass(&cell, now), BTreeSet::new(), "nothing happened");

    let changed = engine.not_judged(&cell, [low.1]);
    assert_eq!(changed.tasks, BTreeSet::from([low.1.task()]));
    assert_eq!(engine.unplanned(&cell, low.1.task()), Some(low.1));
    assert_eq!(engine.begin_pass(&cell, now), BTreeSet::from([high.0]), "and not the huge one");
    assert_eq!(place(&mut engine, high), Some(MachineId(1)));
}

#[test]
fn an_image_without_a_variant_for_a_machine_does_not_fit_there() {
    let machines = "machine m1 cpu=1000 ram=1000 ports=none is=arch:x86_64
         machine m2 cpu=1000 ram=1000 ports=none is=arch:aarch64
         machine m3 cpu=1000 ram=1000 ports=none is=arch:aarch64
         machine m4 cpu=1000 ram=1000 ports=none is=arch:aarch64";
    explained(
        machines,
        "image ana/web@1 7 10 arch=amd64
         submit ana/web 1 image=web@1 cpu=2000 ram=500",
        &expect![[r#"
            tasks 0: fits 0 of 4
              3 are arm64, for which image ana/web@1 has no variant ()
              1 is too small (CPU) (2 cores asked; m1 has 1 core in all)
              change: cpu 2 cores → 1 core
        "#]],
    );
    explained(
        machines,
        "image ana/web@1 7 10 arch=amd64 arch=arm64
         package ana/tool@1 8 10 arch=riscv64
         submit ana/web 1 image=web@1 packages=tool@1 cpu=500 ram=500",
        &expect![[r#"
            tasks 0: fits 0 of 4
              3 are arm64, for which package ana/tool@1 has no variant ()
              1 is amd64, for which package ana/tool@1 has no variant ()
        "#]],
    );
    let now = Time(1_000_000);
    // The image's architectures, and where its tasks are placed.
    for (architectures, expected) in
        [("arch=amd64", vec![1]), ("arch=arm64", vec![2, 3, 4]), ("", vec![1, 2, 3, 4])]
    {
        let jobs = format!(
            "image ana/web@1 7 10 {architectures}\nsubmit ana/web 5 image=web@1 cpu=900 ram=500"
        );
        let cell = cell(machines, &jobs);
        let job = cell.job(CollectionId(1)).expect("a job");
        let mut engine = Engine::new(&cell, Settings::default());
        engine.begin_pass(&cell, now);
        let placed = (0..5).filter_map(|index| {
            let class = engine.join(&cell, job, TaskIndex(index));
            let instance = job.instance(TaskIndex(index)).expect("a task");
            engine.place(&cell, class, instance, now).map(|assignment| assignment.machine)
        });
        let placed: BTreeSet<MachineId> = placed.collect();
        assert_eq!(placed, expected.into_iter().map(MachineId).collect(), "{architectures}");
    }
}

#[test]
fn volumes_are_a_reason_and_a_task_is_bound_to_the_machine_of_its_claim() {
    let machines = "machine m1 cpu=4000 ram=4000 ports=none
         machine m2 cpu=4000 ram=4000 ports=none
         machine m3 cpu=4000 ram=4000 ports=none
         volume m1 data /srv/data
         volume m2 data /srv/data";
    // Nobody has it; one has it, and others do not get it; its own machine is drained.
    explained(
        machines,
        "submit ana/db 1 volumes=none:/data",
        &expect![[r#"
        tasks 0: fits 0 of 3
          3 have no volume none ()
    "#]],
    );
    explained(
        machines,
        "submit ana/db 1 volumes=data:/data
         submit ben/db 2 volumes=data:/data
         assign 2-0-1 m1 ; 2-1-1 m2",
        &expect![[r#"
            tasks 0: fits 0 of 3
              1 has no volume data ()
              1 has the volume data claimed by ben/db/0 ()
              1 has the volume data claimed by ben/db/1 ()
        "#]],
    );
    explained(
        machines,
        "submit ana/db 1 volumes=data:/data
         assign 1-0-1 m1
         drain m1
         ended 1-0-1 lost",
        &expect![[r#"
            tasks 0: fits 0 of 3
              2 have not its data, which is in volume data of m1 ()
              1 is draining ()
        "#]],
    );
}

#[test]
fn a_task_of_every_machine_is_compared_with_its_own_machine_only() {
    let machines = "machine m1 cpu=4000 ram=4000 ports=none
         machine m2 cpu=50 ram=4000 ports=none
         machine m3 cpu=4000 ram=4000 ports=none";
    explained(
        machines,
        "submit ana/exporter 1 everywhere=yes
         drain m3",
        &expect![[r#"
            tasks 0: fits 1 of 1
            tasks 1: fits 0 of 1
              1 is too small (CPU) (0.1 cores asked; m2 has 0.05 cores in all)
              change: cpu 0.1 cores → 0.05 cores
            tasks 2: fits 0 of 1
              1 is draining ()
        "#]],
    );
}

#[test]
fn each_task_of_every_machine_is_placed_on_its_own_and_preempts_there() {
    let cell = cell(
        "machine m1 cpu=1000 ram=4000 ports=none
         machine m2 cpu=1000 ram=4000 ports=none",
        "submit ana/batch 1 priority=110 cpu=1000 ram=100
         assign 1-0-1 m2
         submit ana/exporter 1 everywhere=yes",
    );
    let mut engine = Engine::new(&cell, Settings::default());
    let job = cell.job(CollectionId(2)).expect("the exporter");
    let placed: Vec<_> = [TaskIndex(0), TaskIndex(1)]
        .into_iter()
        .map(|index| {
            let class = engine.join(&cell, job, index);
            let instance = job.instance(index).expect("a task");
            let assignment = engine.place(&cell, class, instance, cell.time());
            let assignment = assignment.expect("it fits");
            (assignment.machine, assignment.victims.len())
        })
        .collect();
    assert_eq!(placed, [(MachineId(1), 0), (MachineId(2), 1)]);
}

/// The policy of the cell decides, also when it changes while the engine follows.
#[test]
fn the_policy_of_the_cell_decides_which_machine_is_best() {
    let mut cell = cell(
        "machine m1 cpu=1000 ram=1000 ports=none\nmachine m2 cpu=1000 ram=1000 ports=none",
        "submit ana/first 1 cpu=300 ram=200\nsubmit ana/next 1 cpu=200 ram=300\nassign 1-0-1 m1",
    );
    let now = Time(1_000_000);
    let mut engine = Engine::new(&cell, Settings::default());
    let next = cell.job(CollectionId(2)).expect("a job").instance(TaskIndex(0)).expect("a task");
    let chosen = |cell: &Cell, engine: &mut Engine| {
        let job = cell.job(CollectionId(2)).expect("a job");
        let class = engine.join(cell, job, TaskIndex(0));
        let machine = engine.place(cell, class, next, now).map(|placed| placed.machine);
        engine.not_judged(cell, [next]);
        machine
    };
    assert_eq!(chosen(&cell, &mut engine), Some(MachineId(1)), "hybrid: nothing is stranded");
    for (policy, machine) in [("worst-fit", 2), ("best-fit", 1), ("worst-fit", 2), ("hybrid", 1)] {
        for Step { op, applied, .. } in apply(&mut cell, &format!("pack {policy}")) {
            engine.follow(&cell, &op, &applied);
        }
        assert_eq!(chosen(&cell, &mut engine), Some(MachineId(machine)), "{policy}");
    }
    let fixed = Settings { policy: Some(PackingPolicy::WorstFit), ..Settings::default() };
    assert_eq!(chosen(&cell, &mut Engine::new(&cell, fixed)), Some(MachineId(2)));
}
