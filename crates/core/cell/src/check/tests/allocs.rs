//! A cell with an alloc and a task in it, corrupted.

use model::{CollectionId, TaskIndex};
use spec::{JobReference, Kind};

use super::*;

const SET: CollectionId = CollectionId(2);
const INSIDE: CollectionId = CollectionId(3);

fn incarnation(collection: CollectionId) -> model::InstanceId {
    TaskId { collection, index: TaskIndex(0) }.generation(model::Generation(1))
}

/// The valid cell, and in it an alloc of 0.3 cores with a task of 0.1 cores.
fn with_an_alloc() -> Cell {
    let mut cell = valid_cell();
    let request = |sequence, spec: JobSpec| Op::Request {
        id: RequestId { session: SessionId(1), sequence },
        by: user("ana"),
        mutation: Mutation::Submit(Arc::new(spec)),
    };
    let named = |name: &str, cmd: &[&str], cpu| {
        let mut task = TaskSpec::of(cmd.iter().map(|word| (*word).to_owned()).collect());
        task.limit.cpu = MilliCores(cpu);
        let name = JobName::new(name).expect("a name");
        JobSpec::of(name, Band::Production.usual(), 1, task)
    };
    let (mut set, mut inside) = (named("room", &[], 300), named("saver", &["save"], 100));
    set.kind = Kind::AllocSet { users: [].into() };
    let reference = JobReference { user: None, job: set.name.clone() };
    inside.kind = Kind::Job { alloc_set: Some(reference) };
    let place = |collection, alloc| {
        Op::assign(vec![Assignment {
            address: None,
            instance: incarnation(collection),
            alloc,
            machine: MACHINE,
            ports: Vec::new(),
            victims: Vec::new(),
        }])
    };
    for op in [
        request(3, set),
        request(4, inside),
        place(SET, None),
        place(INSIDE, Some(incarnation(SET))),
    ] {
        cell.apply(Time::ZERO, &op);
    }
    assert_eq!(cell.check(), []);
    assert!(cell.placement(incarnation(INSIDE)).is_some());
    cell
}

fn placed(cell: &mut Cell, collection: CollectionId) -> &mut crate::Placement {
    let job = cell.jobs.get_mut(collection).expect("there");
    match &mut job.tasks.get_mut(0).expect("a task").state {
        TaskState::Running(placement) => placement,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_corruption_of_allocs_is_named() {
    type Corrupt = fn(&mut Cell);
    let cases: &[(Corrupt, &[&str])] = &[
        (
            |cell| machine(cell).used.clear(),
            &["machine 1 has a wrong record of what is used of its allocs"],
        ),
        (
            |cell| machine(cell).used[0].taken = resources(301, 0),
            &[
                "machine 1 has a wrong record of what is used of its allocs",
                "the tasks in alloc 2-0-1 take 0.301 cores, 0 B of 0.3 cores, 64 MiB",
            ],
        ),
        (
            |cell| placed(cell, INSIDE).alloc = None,
            &[
                "3-0-1 runs in no alloc, which is not in its job's alloc set",
                "machine 1 has a wrong record of what is used of its allocs",
            ],
        ),
        (
            |cell| placed(cell, INSIDE).alloc = Some(Arc::new(incarnation(JOB))),
            &[
                "3-0-1 runs in alloc 1-0-1, which is not in its job's alloc set",
                "machine 1 has a wrong record of what is used of its allocs",
            ],
        ),
        (
            |cell| {
                let why = crate::StopReason::Evict(crate::EvictionCause::Other);
                placed(cell, SET).stop = Some(Arc::new(why));
            },
            &["3-0-1 runs in alloc 2-0-1, which is being stopped, while the task is not"],
        ),
        (
            |cell| cell.children.clear(),
            &["the index and the jobs disagree on whether job 3 is a child of job 2"],
        ),
    ];
    for (corrupt, expected) in cases {
        let mut cell = with_an_alloc();
        corrupt(&mut cell);
        let says: Vec<String> = cell.check().iter().map(ToString::to_string).collect();
        assert_eq!(says, *expected);
    }
}
