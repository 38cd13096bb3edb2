//! Every state that two jobs and two machines can reach in a few operations.
//!
//! The machines have room for one task and two ports each, and job b may evict job a. Operations
//! are built for the current cell (current incarnations, free ports), along with some that are
//! deliberately wrong. Time does not advance, so many sequences lead to one state, and each state
//! is explored once.

use std::collections::BTreeSet;

use cell::{
    AddMachine, Assignment, Cell, DecisionChecker, DrainMachine, Kill, Mutation, Observation, Op,
    RequestId, UndrainMachine,
};
use model::{
    CellName, CollectionId, End, Generation, InstanceId, JobName, MachineId, MachineName,
    SessionId, TaskIndex, TaskSelection, Time,
};

use crate::script::{report, submitted, user};

/// Depth of the search, in operations.
const DEPTH: usize = 7;

type Letter = fn(&Cell) -> Option<Op>;

const LETTERS: &[Letter] = &[
    |cell| submit(cell, "a", "priority=free"),
    |cell| submit(cell, "b", "priority=120"),
    |cell| submit(cell, "b", "after=a"),
    |cell| submit(cell, "b", "parent=a"),
    |cell| kill(cell, "a"),
    |cell| kill(cell, "b"),
    |cell| assign(cell, "a", 1),
    |cell| assign(cell, "a", 2),
    |cell| assign(cell, "b", 1),
    |cell| assign(cell, "b", 2),
    |cell| preempt(cell, 1),
    |cell| drain(cell, 1),
    |cell| undrain(cell, 1),
    |cell| observe(cell, "a", 1, Observation::started),
    |cell| {
        observe(cell, "a", 1, |instance| Observation::Ended {
            instance,
            end: exit(0),
            usage: model::FinalUsage::UNMEASURED,
        })
    },
    |cell| {
        observe(cell, "a", 1, |instance| Observation::Ended {
            instance,
            end: exit(1),
            usage: model::FinalUsage::UNMEASURED,
        })
    },
    |cell| {
        observe(cell, "b", 1, |instance| Observation::Ended {
            instance,
            end: exit(1),
            usage: model::FinalUsage::UNMEASURED,
        })
    },
    |cell| {
        observe(cell, "b", 2, |instance| Observation::Ended {
            instance,
            end: End::Stopped,
            usage: model::FinalUsage::UNMEASURED,
        })
    },
    |cell| observe(cell, "a", 1, |instance| Observation::started(last(instance))),
    |cell| {
        observe(cell, "a", 1, |instance| Observation::Ended {
            instance: last(instance),
            end: exit(0),
            usage: model::FinalUsage::UNMEASURED,
        })
    },
    |_| Some(Op::MachineUnreachable { machine: MachineId(1) }),
    |_| Some(Op::MachineSilent { machine: MachineId(1) }),
    |_| Some(Op::MachineSilent { machine: MachineId(2) }),
    |_| Some(Op::MachineBack { machine: MachineId(1) }),
    |_| Some(Op::MachineBack { machine: MachineId(2) }),
    |cell| {
        Some(Op::Forget {
            collections: newest(cell, "a").into_iter().map(|i| i.collection).collect(),
        })
    },
    |_| Some(Op::Forget { collections: vec![CollectionId(1)] }),
];

fn request(cell: &Cell, mutation: Mutation) -> Op {
    let id = RequestId { session: SessionId(1), sequence: cell.index().0 };
    Op::Request { id, by: user("root"), mutation }
}

fn newest(cell: &Cell, name: &str) -> Option<InstanceId> {
    let name = JobName::new(name).expect("a name");
    cell.job_named(&user("root"), &name)?.instance(TaskIndex(0))
}

fn last(instance: InstanceId) -> InstanceId {
    InstanceId { generation: Generation(instance.generation.0 - 1), ..instance }
}

fn exit(code: u8) -> End {
    End::Exited { code }
}

fn submit(cell: &Cell, name: &str, option: &str) -> Option<Op> {
    let spec = submitted(name, 1, &["cpu=600", "ports=http", "delay=0", option]);
    Some(request(cell, Mutation::Submit(spec)))
}

fn kill(cell: &Cell, name: &str) -> Option<Op> {
    let job = cell.job(newest(cell, name)?.collection)?;
    let kill = Kill::of(job, TaskSelection::All);
    Some(request(cell, Mutation::Kill(kill)))
}

fn assign(cell: &Cell, name: &str, machine: u64) -> Option<Op> {
    let (instance, machine) = (newest(cell, name)?, MachineId(machine));
    let ports = cell.machine(machine)?.free_ports(1, &[]);
    Some(Op::assign(vec![Assignment {
        address: None,
        instance,
        alloc: None,
        machine,
        ports,
        victims: Vec::new(),
    }]))
}

/// Job b preempts job a, which keeps its port until it has ended.
fn preempt(cell: &Cell, machine: u64) -> Option<Op> {
    let (instance, victim) = (newest(cell, "b")?, newest(cell, "a")?);
    let machine = MachineId(machine);
    let ports = cell.machine(machine)?.free_ports(1, &[]);
    Some(Op::assign(vec![Assignment {
        address: None,
        instance,
        alloc: None,
        machine,
        ports,
        victims: vec![victim],
    }]))
}

fn drain(cell: &Cell, machine: u64) -> Option<Op> {
    let machine = cell.machine(MachineId(machine))?.name.clone();
    Some(request(cell, Mutation::DrainMachine(DrainMachine::of(machine, ""))))
}

fn undrain(cell: &Cell, machine: u64) -> Option<Op> {
    let machine = cell.machine(MachineId(machine))?.name.clone();
    Some(request(cell, Mutation::UndrainMachine(UndrainMachine { machine })))
}

fn observe(
    cell: &Cell,
    name: &str,
    machine: u64,
    what: fn(InstanceId) -> Observation,
) -> Option<Op> {
    let observations = vec![what(newest(cell, name)?)];
    Some(Op::Observe { machine: MachineId(machine), observations })
}

fn begun() -> Cell {
    let mut cell = Cell::empty();
    let name = CellName::new("cc").expect("a name");
    cell.apply(Time::ZERO, &Op::Bootstrap { name, administrator: user("root") });
    cell.apply(Time::ZERO, &Op::OpenSession { user: user("root") });
    for id in [1, 2] {
        let name = MachineName::new(&format!("m{id}")).expect("a name");
        let add =
            request(&cell, Mutation::AddMachine(AddMachine { address: format!("{name}:1"), name }));
        cell.apply(Time::ZERO, &add);
        let report = report(&["ports=31000-31001"]);
        cell.apply(Time::ZERO, &Op::DescribeMachine { machine: MachineId(id), report });
    }
    cell
}

/// The key of a state: everything that can differ between states while time does not advance.
fn key(cell: &Cell) -> String {
    let mut key = String::new();
    for job in cell.jobs() {
        let task = job.task(TaskIndex(0));
        let (waits, parent) = ((&job.waits_for, &job.follows), job.parent);
        let name = &job.spec.name;
        key += &format!("{} {name} {:?} {waits:?} {parent:?} {task:?}\n", job.id, job.state);
    }
    for machine in cell.machines() {
        let drained = machine.drain.is_some();
        key +=
            &format!("{:?} {drained} {} {:?}\n", machine.state, machine.next_port, machine.crashes);
    }
    key
}

#[test]
fn every_state_that_is_reached_is_whole_and_loads_as_it_is() {
    let mut met = BTreeSet::new();
    let mut frontier = vec![begun()];
    for _ in 0..DEPTH {
        let mut next = Vec::new();
        for cell in &frontier {
            for letter in LETTERS {
                let Some(op) = letter(cell) else { continue };
                let (mut cell, mut watch) = (cell.clone(), DecisionChecker::from(cell));
                let applied = cell.apply(Time::ZERO, &op);
                assert_eq!(watch.after(&cell, &applied), [], "{op:?}");
                if !met.insert(key(&cell)) {
                    continue;
                }
                assert_eq!(cell.check(), [], "after {op:?}");
                let loaded = Cell::from_image(cell.image()).expect("the image of a cell");
                assert_eq!(loaded.check(), []);
                assert_eq!(loaded.image(), cell.image());
                next.push(cell);
            }
        }
        frontier = next;
    }
    assert!(met.len() > 10_000, "{} states", met.len());
}
