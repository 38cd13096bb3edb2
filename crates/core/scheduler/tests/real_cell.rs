//! The slice of Google's real cell of 2011 in the repository, scheduled from scratch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cell::{AddMachine, Cell, Mutation, Op, Outcome, Reply, RequestId, Reservation, TaskState};
use model::{
    CellName, CollectionId, Generation, MachineReport, Resources, TaskId, TaskIndex, Time, UserName,
};
use placement::Settings;
use scheduler::Scheduler;
use spec::Maximum;
use trace::google2011::{Scale, slice};
use trace::{CellSnapshot, PerMille};

const NOW: Time = Time(1_000_000_000);

/// A cell with the machines and jobs of a snapshot, nothing placed; every task's reservation is 60
/// % of its limit.
fn cell(snapshot: &CellSnapshot) -> Cell {
    let root = UserName::new("root").expect("a name");
    let mut cell = Cell::empty();
    let name = CellName::new("slice").expect("a name");
    cell.apply(NOW, &Op::Bootstrap { name, administrator: root.clone() });
    let mut sequences = BTreeMap::new();
    let mut ask = |cell: &mut Cell, by: &UserName, mutation| {
        let (session, sequence) = sequences.entry(by.clone()).or_insert_with(|| {
            let opened = cell.apply(NOW, &Op::OpenSession { user: by.clone() }).outcome;
            let Outcome::Request(Ok(Reply::Session(session))) = opened else {
                panic!("{opened:?}")
            };
            (session, 0)
        });
        *sequence += 1;
        let id = RequestId { session: *session, sequence: *sequence };
        let outcome = cell.apply(NOW, &Op::Request { id, by: by.clone(), mutation }).outcome;
        let Outcome::Request(Ok(reply)) = outcome else { panic!("{outcome:?}") };
        reply
    };
    for machine in &snapshot.machines {
        let (name, address) = (machine.name.clone(), format!("{}:1", machine.name));
        let reply = ask(&mut cell, &root, Mutation::AddMachine(AddMachine { name, address }));
        let Reply::MachineAdded(machine_id) = reply else { panic!("{reply:?}") };
        let (capacity, attributes) = (machine.capacity, machine.attributes.clone());
        let report = Arc::new(MachineReport { capacity, attributes, ..MachineReport::default() });
        cell.apply(NOW, &Op::DescribeMachine { machine: machine_id, report });
    }
    for job in &snapshot.jobs {
        let mut spec = job.spec(PerMille::ALL);
        spec.max_per_machine = job.different_machines.then_some(Maximum { tasks: 1, hard: true });
        let reserved = |(index, collection): (u32, CollectionId)| {
            let index = TaskIndex(index);
            let instance = TaskId { collection, index }.generation(Generation(1));
            Reservation {
                instance,
                amount: PerMille(600).of(spec.limit(index)),
                newest_sample: None,
            }
        };
        let reply = ask(&mut cell, &job.owner, Mutation::Submit(Arc::new(spec.clone())));
        let Reply::Submitted { collection, .. } = reply else { panic!("{reply:?}") };
        let all = (0..spec.tasks).map(|index| reserved((index, collection)));
        cell.apply(NOW, &Op::Reserve(all.collect()));
    }
    cell
}

/// Every task is placed and every placement accepted; then the decisive sums are recomputed from
/// the tasks, independently of the scheduler and the cell.
#[test]
fn a_slice_of_the_real_cell_is_placed_whole() {
    let snapshot = slice::read(Scale::default()).snapshot;
    for settings in [Settings::default(), Settings { enough: 16, ..Settings::default() }] {
        let mut scheduler = Scheduler::with(cell(&snapshot), settings);
        let mut placed = 0;
        loop {
            let plan = scheduler.pass(NOW);
            if plan.assignments.is_empty() {
                assert!(plan.unplaced * 500 <= placed, "{} of {placed} pend", plan.unplaced);
                break;
            }
            placed += plan.assignments.len();
            let outcome = scheduler.follow(NOW, &Op::assign(plan.assignments)).outcome;
            let Outcome::Assigned(judged) = outcome else { panic!("{outcome:?}") };
            assert!(judged.iter().all(Result::is_ok));
        }
        assert!(placed > 4_000, "{placed} tasks");
        within_what_there_is(scheduler.cell());
    }
}

fn within_what_there_is(cell: &Cell) {
    let mut sums: BTreeMap<_, [Resources; 2]> = BTreeMap::new();
    for job in cell.jobs() {
        let mut machines = BTreeSet::new();
        for (index, task) in job.tasks() {
            let TaskState::Running(placement) = &task.state else { continue };
            let alone = machines.insert(placement.machine);
            assert!(alone || job.spec.max_per_machine.is_none(), "{} shares a machine", job.id);
            let [reserved, prod] = sums.entry(placement.machine).or_default();
            *reserved = reserved.plus(PerMille(600).of(job.limit(index)));
            if job.spec.priority.is_prod() {
                *prod = prod.plus(job.limit(index));
            }
        }
    }
    for (id, sums) in sums {
        let capacity = cell.machine(id).expect("there").capacity();
        assert!(sums.iter().all(|sum| sum.first_above(&capacity).is_none()), "{id}: {sums:?}");
    }
}
