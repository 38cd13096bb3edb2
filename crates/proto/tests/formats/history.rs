//! Histories of a cell: random steps, made into operations that mostly do something.

use std::sync::Arc;

use cell::{
    Assignment, Cell, Image, Job, Machine, MachineState, Mutation, Observation, Op, RequestId,
    TaskState,
};
use model::{
    Bytes, CollectionId, End, MachineReport, MilliCores, PortRange, Resources, SessionId,
    TaskIndex, TaskSelection, Time, UserName,
};
use proptest::collection::vec;
use proptest::prelude::*;
use spec::JobSpec;

use crate::arbitrary::{end, op, valid_job};

/// One thing that happens. Numbers choose among what is there, so that few steps do nothing.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Submit(Box<JobSpec>),
    Kill(u64, u32),
    AddMachine(u8),
    Assign,
    Started,
    Health(bool),
    Ended(u64, End),
    Silent(usize),
    Back(usize),
    ForgetDead,
    /// Mostly nonsense.
    Anything(Box<Op>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => valid_job().prop_map(|job| Step::Submit(Box::new(job))),
        1 => any::<(u64, u32)>().prop_map(|(job, task)| Step::Kill(job, task)),
        1 => (0..4_u8).prop_map(Step::AddMachine),
        4 => Just(Step::Assign),
        3 => Just(Step::Started),
        2 => any::<bool>().prop_map(Step::Health),
        3 => (any::<u64>(), end()).prop_map(|(which, end)| Step::Ended(which, end)),
        1 => any::<usize>().prop_map(Step::Silent),
        2 => any::<usize>().prop_map(Step::Back),
        1 => Just(Step::ForgetDead),
        1 => op().prop_map(|op| Step::Anything(Box::new(op))),
    ]
}

/// The operations of a cell's life, from its first on.
pub(crate) fn history(most: usize) -> impl Strategy<Value = Vec<(Time, Op)>> {
    vec((step(), 0..10_000_000_u64), 0..most).prop_map(|steps| {
        let mut life = Life::begin();
        for (step, wait) in steps {
            life.now = life.now + model::Span(wait);
            life.take(step);
        }
        life.ops
    })
}

/// The cell that a history leads to.
pub(crate) fn replay<'a>(ops: impl IntoIterator<Item = &'a (Time, Op)>) -> Cell {
    let mut cell = Cell::empty();
    for (at, op) in ops {
        cell.apply(*at, op);
    }
    cell
}

/// An image as a list of parts, each with its length.
pub(crate) fn parts(image: &Image) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    proto::image::write_image(image, &mut |part| parts.push(part.to_vec()));
    parts
}

struct Life {
    cell: Cell,
    now: Time,
    sequence: u64,
    ops: Vec<(Time, Op)>,
}

fn ana() -> UserName {
    UserName::new("ana").expect("a name")
}

impl Life {
    fn begin() -> Self {
        let now = Time(1_000_000_000_000_000);
        let mut life = Self { cell: Cell::empty(), now, sequence: 0, ops: Vec::new() };
        life.apply(Op::Found { name: "dev".parse().expect("a name"), administrator: ana() });
        life.apply(Op::OpenSession { user: ana() });
        life.take(Step::AddMachine(0));
        life
    }

    fn apply(&mut self, op: Op) {
        self.cell.apply(self.now, &op);
        self.ops.push((self.now, op));
    }

    fn request(&mut self, mutation: Mutation) {
        self.sequence += 1;
        let id = RequestId { session: SessionId(1), sequence: self.sequence };
        self.apply(Op::Request { id, by: ana(), mutation });
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Submit(job) => self.request(Mutation::Submit(Arc::new(*job))),
            Step::Kill(job, task) => {
                let job = self.some(self.cell.jobs(), job).map(|job| (job.id, job.spec.tasks));
                let (collection, tasks) = job.unwrap_or((CollectionId(7), 1));
                let (first, last) = (TaskIndex(task % tasks), TaskIndex(tasks - 1));
                let tasks = match task % 2 {
                    0 => TaskSelection::All,
                    _ => TaskSelection::Some(vec![(first, last)]),
                };
                self.request(Mutation::Kill { collection, tasks });
            }
            Step::AddMachine(number) => self.add_machine(number),
            Step::Assign => self.apply(Op::Assign(self.assignments())),
            Step::Started => self.observe(|instance, _| Observation::Started { instance }),
            Step::Health(healthy) => {
                self.observe(|instance, _| Observation::Health { instance, healthy });
            }
            Step::Ended(which, end) => self.observe(|instance, position| {
                let end = if position == which % 3 { end.clone() } else { End::Exited { code: 1 } };
                Observation::Ended { instance, end }
            }),
            Step::Silent(which) => {
                if let Some(machine) = self.machine(which) {
                    self.apply(Op::MachineSilent { machine: machine.id });
                }
            }
            Step::Back(which) => {
                if let Some(machine) = self.machine(which) {
                    self.apply(Op::MachineBack { machine: machine.id });
                }
            }
            Step::ForgetDead => {
                let dead = self.cell.jobs().filter(|job| !job.is_alive());
                let collections = dead.map(|job| job.id).collect();
                self.apply(Op::Forget { collections });
            }
            Step::Anything(op) => self.apply(*op),
        }
    }

    fn some<'a, T>(&self, all: impl Iterator<Item = &'a T>, which: u64) -> Option<&'a T> {
        let all: Vec<&T> = all.collect();
        let count = u64::try_from(all.len()).ok().filter(|count| *count > 0)?;
        usize::try_from(which % count).ok().map(|position| all[position])
    }

    fn machine(&self, which: usize) -> Option<Arc<Machine>> {
        self.some(self.cell.machines(), which as u64).cloned()
    }

    fn add_machine(&mut self, number: u8) {
        let name = format!("m{number}").parse().expect("a name");
        self.request(Mutation::AddMachine { name, address: format!("10.0.0.{number}:1") });
        let added = self.cell.machines().last().map(|machine| machine.id);
        let Some(machine) = added.filter(|_| number % 4 != 3) else { return };
        let capacity = Resources {
            cpu: MilliCores(1 << 23),
            ram: Bytes(1 << 43),
            disk: Bytes(1 << 43),
            disk_rate: Bytes(1 << 43),
        };
        let attributes = [("kernel".to_owned(), format!("6.{number}"))].into();
        let ports = PortRange { first: 31_000, last: 31_255 };
        let report = Arc::new(MachineReport { capacity, ports, attributes });
        self.apply(Op::DescribeMachine { machine, report });
    }

    /// The first pending task of each job, on the next machine that is up.
    fn assignments(&self) -> Vec<Assignment> {
        let up = |machine: &&Arc<Machine>| machine.state == MachineState::Up;
        let machines: Vec<_> = self.cell.machines().filter(up).collect();
        let mut taken = Vec::new();
        let mut proposals = Vec::new();
        for (machine, job) in machines.iter().cycle().zip(self.cell.jobs_with_pending_tasks()) {
            let Some(index) = first_pending(job) else { continue };
            let ports = machine.free_ports(job.ports(index).len(), &taken);
            taken.extend_from_slice(&ports);
            let instance = job.instance(index).expect("there");
            proposals.push(Assignment { instance, machine: machine.id, ports });
        }
        proposals
    }

    /// Something that happens to every second instance of the first machine that has one.
    fn observe(&mut self, what: impl Fn(model::InstanceId, u64) -> Observation) {
        let busy = self.cell.machines().find(|machine| !machine.instances().is_empty());
        let Some(machine) = busy.cloned() else { return };
        let chosen = (0..).zip(machine.instances().iter().step_by(2));
        let observations = chosen.map(|(position, id)| what(*id, position)).collect();
        self.apply(Op::Observe { machine: machine.id, observations });
    }
}

fn first_pending(job: &Job) -> Option<TaskIndex> {
    let pending = |state: &TaskState| matches!(state, TaskState::Pending { .. });
    job.tasks().find(|(_, task)| pending(&task.state)).map(|(index, _)| index)
}

#[test]
fn histories_reach_every_state() {
    use cell::{Health, JobState, PendingCause, Phase};
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    use std::collections::BTreeSet;

    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for _ in 0..40 {
        let ops = history(60).new_tree(&mut runner).expect("a history").current();
        for length in 0..=ops.len() {
            let cell = replay(&ops[..length]);
            seen.extend(cell.machines().map(|machine| match machine.state {
                MachineState::Joining => "joining".to_owned(),
                MachineState::Up => "up".to_owned(),
                MachineState::Down { .. } => "down".to_owned(),
            }));
            for job in cell.jobs() {
                seen.insert(match job.state {
                    JobState::Pending => "job pending".to_owned(),
                    JobState::Running => "job running".to_owned(),
                    JobState::Dead { .. } => "job dead".to_owned(),
                });
                seen.extend(job.tasks().map(|(_, task)| match &task.state {
                    TaskState::Pending { cause, .. } => format!("pending {cause:?}"),
                    TaskState::Running(placement) if placement.killed_by.is_some() => {
                        "dying".to_owned()
                    }
                    TaskState::Running(placement) => match placement.phase {
                        Phase::Starting => "starting".to_owned(),
                        Phase::Started { health, .. } => format!("{health:?}"),
                    },
                    TaskState::Dead { death, .. } => format!("{death:?}"),
                }));
            }
        }
    }
    let causes = [PendingCause::Submitted, PendingCause::Failed, PendingCause::Lost];
    let deaths = [cell::Death::Finished, cell::Death::Failed, cell::Death::Killed];
    let words = ["joining", "up", "down", "job pending", "job running", "job dead", "dying"];
    let expected: BTreeSet<String> = words
        .map(str::to_owned)
        .into_iter()
        .chain(causes.map(|cause| format!("pending {cause:?}")))
        .chain(["starting".to_owned()])
        .chain([Health::Unknown, Health::Healthy, Health::Unhealthy].map(|h| format!("{h:?}")))
        .chain(deaths.map(|death| format!("{death:?}")))
        .collect();
    assert_eq!(seen, expected);
}
