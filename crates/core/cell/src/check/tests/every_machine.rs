//! A cell with a job that has one task on every machine, corrupted.

use super::*;

const EVERYWHERE: CollectionId = CollectionId(2);

/// The valid cell, and in it a job with a task for its machine.
fn with_a_task_on_every_machine() -> Cell {
    let mut cell = valid_cell();
    let task = TaskSpec::of(vec!["export".to_owned()]);
    let name = JobName::new("exporter").expect("a name");
    let mut spec = JobSpec::of(name, Band::Production.usual(), 0, task);
    spec.sizing = spec::Sizing::EveryMachine;
    let id = RequestId { session: SessionId(1), sequence: 3 };
    let mutation = Mutation::Submit(Arc::new(spec));
    cell.apply(Time::ZERO, &Op::Request { id, by: user("ana"), mutation });
    assert_eq!(cell.check(), []);
    assert_eq!(job(&mut cell).rows(), 1);
    cell
}

fn job(cell: &mut Cell) -> &mut Job {
    cell.jobs.get_mut(EVERYWHERE).expect("the job")
}

fn tasks(cell: &mut Cell) -> &mut crate::MachineTasks {
    job(cell).machine_tasks.as_mut().expect("its machines")
}

#[test]
fn a_missed_machine_is_named() {
    type Corrupt = fn(&mut Cell);
    let cases: &[(Corrupt, &[&str])] = &[
        (
            |cell| tasks(cell).take_back(MACHINE),
            &[
                "job 2: a task lives without a machine",
                "job 2 has one task on every machine, and 1 suits it and has neither a task nor a reason",
            ],
        ),
        (
            |cell| tasks(cell).leave_out(MACHINE, crate::LeftOut::Quota),
            &[
                "job 2 has one task on every machine, and 1 has a task and is left out",
                "the lists of jobs with one task on every machine are wrong",
            ],
        ),
        (
            |cell| tasks(cell).give(TaskIndex(0), MachineId(9)),
            &[
                "job 2: two rows are for one machine",
                "job 2 has one task on every machine, and 9 does not exist",
            ],
        ),
        (
            |cell| assert!(cell.every_machine.remove(&EVERYWHERE).is_some()),
            &["the lists of jobs with one task on every machine are wrong"],
        ),
    ];
    for (corrupt, expected) in cases {
        let mut cell = with_a_task_on_every_machine();
        corrupt(&mut cell);
        let found: Vec<_> = cell.check().iter().map(ToString::to_string).collect();
        for line in *expected {
            assert!(found.iter().any(|one| one == line), "'{line}' is not in {found:#?}");
        }
    }
}
