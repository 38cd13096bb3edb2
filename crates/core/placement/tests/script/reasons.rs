//! What "why pending?" says beyond the first failed check of each machine.

use cell::Cell;
use expect_test::expect;
use model::{Band, TaskSelection, Time};
use placement::why::{ahead, maximum_rules, preemption, why_queued};
use placement::{Kept, near_spellings, shapes, why};

use super::cell;

const NOW: Time = Time(1_000_000);

/// Every check that the tasks of the last job fail.
fn failed(cell: &Cell) -> String {
    let job = cell.jobs().last().expect("the job");
    let groups = why(cell, job, &TaskSelection::All, NOW).groups;
    let failed = groups.iter().flat_map(|group| &group.failed);
    failed.map(|check| format!("{} ({}) {}\n", check.machines, check.alone, check.text)).collect()
}

#[test]
fn a_machine_counts_under_each_check_that_it_fails() {
    let cell = cell(
        "machine m1 cpu=1000 ram=1000 ports=none
         machine m2 cpu=500 ram=100 ports=none is=gpu:h200
         machine m3 cpu=1000 ram=100 ports=1000-1008 is=gpu:h200
         add m4 m4:1",
        "submit ana/train 1 priority=110 cpu=800 ram=500 ports=1 on=gpu=h200",
    );
    expect![[r#"
        3 (0) lack ports
        3 (1) are too small (RAM)
        2 (0) are too small (CPU)
        2 (0) do not match gpu = "h200"
        1 (0) is not up
    "#]]
    .assert_eq(&failed(&cell));
}

#[test]
fn what_evictions_would_do_and_may_not() {
    let cell = cell(
        "machine m1 cpu=1000 ram=1000 ports=none
         machine m2 cpu=1000 ram=1000 ports=none
         machine m3 cpu=1000 ram=1000 ports=none
         machine m4 cpu=100 ram=1000 ports=none",
        "submit ana/low 2 priority=25 cpu=400 ram=100
         assign 1-0-1 m1
         assign 1-1-1 m1
         submit ana/prod 1 priority=200 cpu=800 ram=100
         assign 2-0-1 m2
         submit ana/high 1 priority=370 cpu=800 ram=100
         assign 3-0-1 m3
         submit ben/first 3 priority=360 cpu=5000 ram=100
         submit ben/equal 2 priority=210 cpu=5000 ram=100
         submit ana/wants 1 priority=210 cpu=600 ram=100",
    );
    let job = cell.jobs().last().expect("the job");
    let groups = why(&cell, job, &TaskSelection::All, NOW).groups;
    let found = preemption(&cell, job, &groups[0], &Kept::in_cell(&cell, NOW));
    expect![[r#"
        Some(
            Preemption {
                leaving: 0,
                possible: 1,
                fewest: Some(
                    (
                        MachineName(m1),
                        [
                            InstanceId {
                                collection: CollectionId(
                                    1,
                                ),
                                index: TaskIndex(
                                    0,
                                ),
                                generation: Generation(
                                    1,
                                ),
                            },
                        ],
                    ),
                ),
                production: 1,
                not_lower: 1,
            },
        )
    "#]]
    .assert_debug_eq(&found);
    expect![[r#"
        Ahead {
            higher_jobs: 1,
            higher_tasks: 3,
            equal_jobs: 1,
            equal_tasks: 2,
            named: [
                AheadJob {
                    job: CollectionId(
                        4,
                    ),
                    priority: Priority(
                        360,
                    ),
                    pending: 3,
                },
            ],
        }
    "#]]
    .assert_debug_eq(&ahead(&cell, job));
}

#[test]
fn maxima_are_rules_with_numbers() {
    let cell = cell(
        "machine m1 cpu=1000 ram=1000 ports=none is=switch:s1
         machine m2 cpu=1000 ram=1000 ports=none is=switch:s1
         machine m3 cpu=1000 ram=1000 ports=none is=switch:s2",
        "submit ana/web 4 priority=200 cpu=100 ram=100 per-machine=1 per-switch=2
         assign 1-0-1 m1
         assign 1-1-1 m2",
    );
    let job = cell.jobs().last().expect("the job");
    let rules = maximum_rules(&cell, job).into_iter().map(|rule| format!("{rule}\n"));
    expect![[r#"
        at most 1 task of the job on a machine: 2 of 3 machines have so many
        at most 2 tasks of the job at a switch: 1 of 2 switches has so many
    "#]]
    .assert_eq(&rules.collect::<String>());
}

#[test]
fn names_that_machines_spell_differently_are_named() {
    let cell = cell(
        "machine m1 cpu=1000 ram=1000 ports=none is=gpu:H200 is=kernel:6.1
         machine m2 cpu=1000 ram=1000 ports=none is=gpu:H200
         machine m3 cpu=1000 ram=1000 ports=none is=gpu:L4",
        "submit ana/a 1 priority=110 cpu=1 ram=10 on=gpuu=H200
         submit ana/b 1 priority=110 cpu=1 ram=10 on=gpu=h200
         submit ana/c 1 priority=110 cpu=1 ram=10 on=gpu=h100
         submit ana/d 1 priority=110 cpu=1 ram=10 on=gpu=L4
         submit ana/e 1 priority=110 cpu=1 ram=10 on=tpu-generation=5
         submit ana/f 1 priority=110 cpu=1 ram=10 on=GPU=L4",
    );
    let constraints = cell.jobs().flat_map(|job| &job.spec.task.constraints);
    let found = near_spellings(&cell, constraints);
    let found: String = found.iter().map(|spelling| format!("{spelling}\n")).collect();
    expect![[r#"
        no machine has the attribute GPU: did you mean gpu, which 3 machines have?
        no machine has the attribute gpuu: did you mean gpu, which 3 machines have?
        no machine has the attribute tpu-generation
        no machine has gpu = "h200": did you mean "H200", which 2 machines have?
    "#]]
    .assert_eq(&found);
}

#[test]
fn a_queued_job_is_told_what_it_will_meet() {
    let cell = cell(
        "machine m1 cpu=1000 ram=1000 ports=none",
        "submit ana/first 1 priority=200 cpu=100 ram=100
         submit ana/second 1 priority=200 cpu=2000 ram=100 after=first",
    );
    let job = cell.jobs().last().expect("the job");
    assert!(why(&cell, job, &TaskSelection::All, NOW).groups.is_empty(), "it is not pending");
    let groups = why_queued(&cell, job, &TaskSelection::All, NOW).groups;
    let texts: Vec<&str> = groups[0].reasons.iter().map(|reason| reason.text.as_str()).collect();
    assert_eq!((groups.len(), texts), (1, vec!["is too small (CPU)"]));
}

#[test]
fn shapes_count_tasks_of_one_size_and_name_the_largest() {
    let cell = cell(
        "machine m1 cpu=4000 ram=8192 ports=none
         machine m2 cpu=20000 ram=65536 ports=none
         add m3 m3:1",
        "submit ana/prod 1 priority=200 cpu=2000 ram=1024
         assign 1-0-1 m2",
    );
    let mut text = String::new();
    for found in shapes(&cell, &[Band::Free, Band::Production], NOW) {
        text += found.band.name();
        for size in &found.sizes {
            text += &format!("; {} × {}", size.tasks, size.limit);
        }
        if let Some(largest) = &found.largest {
            text += &format!("; {} on {}", largest.limit, largest.machine);
        }
        text += "\n";
    }
    expect![[r#"
        free; 22 × 1 core, 1 GiB; 17 × 1 core, 4 GiB; 5 × 4 cores, 8 GiB; 0 × 16 cores, 64 GiB; 18 cores, 63 GiB on m2
        production; 22 × 1 core, 1 GiB; 17 × 1 core, 4 GiB; 5 × 4 cores, 8 GiB; 0 × 16 cores, 64 GiB; 18 cores, 63 GiB on m2
    "#]].assert_eq(&text);
}
