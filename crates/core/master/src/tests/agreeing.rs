//! If report and cell agree, they are not compared again; no difference is overlooked.

use cell::{DrainMachine, UndrainMachine};
use proptest::prelude::*;

use super::*;
use crate::link::Link;

impl LinkShard {
    /// Machines whose reports are marked as agreeing with the cell but do not.
    pub(super) fn overlooked(&self, now: Time, cell: &Cell) -> Vec<MachineId> {
        let differs = |(id, link): &(&MachineId, &Link)| {
            let (mut actions, settings) = (Vec::new(), Settings::default());
            let mut looked_at = Link::clone(link);
            observe::compare(now, cell, **id, &mut looked_at, &settings, &mut actions);
            link.agrees && !actions.is_empty()
        };
        self.links.iter().filter(differs).map(|(id, _)| *id).collect()
    }

    /// The last report of a machine.
    fn last_report(&self, machine: MachineId) -> Option<Arc<Report>> {
        self.links.get(&machine)?.report.clone()
    }

    /// Whether the last report of a machine is marked as agreeing with the cell.
    pub(super) fn agrees(&self, machine: MachineId) -> bool {
        self.links[&machine].agrees
    }
}

/// A change of the cell, or of the machine's report.
#[derive(Clone, Debug)]
enum Step {
    Submit(u32),
    Assign(u32),
    Kill(u32),
    Op(Op),
    Request(Mutation),
    /// The machine obeys the newest order, or reports with an older stamp; each task that it runs
    /// is in one of four states.
    Report {
        current: bool,
        attribute: u8,
        tasks: Vec<(u32, u32, u8)>,
        version: u64,
    },
    Fail,
}

fn step() -> impl Strategy<Value = Step> {
    let name = || MachineName::new("m1").expect("a name");
    let task = (0..3_u32, 1..3_u32, 0..4_u8);
    prop_oneof![
        2 => (1..4_u32).prop_map(Step::Submit),
        4 => (0..3_u32).prop_map(Step::Assign),
        1 => (0..3_u32).prop_map(Step::Kill),
        1 => Just(Step::Op(Op::MachineUnreachable { machine: M1 })),
        1 => Just(Step::Op(Op::MachineSilent { machine: M1 })),
        1 => Just(Step::Op(Op::MachineBack { machine: M1 })),
        1 => Just(Step::Request(Mutation::DrainMachine(DrainMachine::of(name(), "")))),
        1 => Just(Step::Request(Mutation::UndrainMachine(UndrainMachine { machine: name() }))),
        10 => (any::<bool>(), 0..2_u8, prop::collection::vec(task, 0..4), 0..3_u64).prop_map(
            |(current, attribute, tasks, version)| Step::Report { current, attribute, tasks, version }
        ),
        2 => Just(Step::Fail),
    ]
}

impl World {
    fn take(&mut self, step: &Step) {
        match step {
            Step::Submit(limit) => {
                let name = model::JobName::new("web").expect("a name");
                let mut task = TaskSpec::of(vec!["x".to_owned()]);
                // A live job is updated in place.
                task.limit.cpu = MilliCores((*limit).into());
                let spec = JobSpec::of(name, model::Band::Production.usual(), 3, task);
                match self.answered(Mutation::Submit(Arc::new(spec))) {
                    // A job that is being killed takes no new description before it has ended.
                    Ok(_) | Err(cell::Rejection::BeingKilled { .. }) => {}
                    Err(rejection) => panic!("{rejection:?}"),
                }
            }
            Step::Assign(index) => {
                let living = self.cell.jobs().find(|job| job.is_alive());
                let next = living.and_then(|job| job.instance(TaskIndex(*index)));
                let Some(instance) = next else { return };
                let (machine, ports, victims) = (M1, vec![], vec![]);
                self.apply(&Op::assign(vec![Assignment {
                    address: None,
                    instance,
                    alloc: None,
                    machine,
                    ports,
                    victims,
                }]));
            }
            Step::Kill(index) => {
                let Some(job) = self.cell.jobs().find(|job| job.is_alive()) else { return };
                let tasks = TaskSelection::Some(vec![(TaskIndex(*index), TaskIndex(*index))]);
                let kill = Mutation::Kill(cell::Kill::of(job, tasks));
                self.request(kill);
            }
            Step::Op(op) => drop(self.apply(op)),
            Step::Request(mutation) => self.request(mutation.clone()),
            Step::Report { current, attribute, tasks, version } => {
                self.reports(*current, *attribute, tasks, *version);
            }
            Step::Fail => drop(self.fail()),
        }
        self.said();
    }

    fn reports(&mut self, current: bool, attribute: u8, tasks: &[(u32, u32, u8)], version: u64) {
        let collection = self.cell.jobs().last().map_or(CollectionId(1), |job| job.id);
        let status = |number: u8| match number {
            0 => TaskStatus::Starting,
            1 => TaskStatus::Running { healthy: Some(true) },
            2 => TaskStatus::Running { healthy: Some(false) },
            _ => TaskStatus::Ended(End::Exited { code: 0 }, model::FinalUsage::UNMEASURED),
        };
        let task = |(index, generation, number): &(u32, u32, u8)| TaskReport {
            check: String::new(),
            latency: StartLatency::UNKNOWN,
            instance: InstanceId {
                collection,
                index: TaskIndex(*index),
                generation: Generation(*generation),
            },
            status: status(*number),
        };
        let index = if current { self.cell.index() } else { LogIndex(0) };
        let mut said = MachineReport::clone(&machine());
        said.attributes.insert("gpu".to_owned(), attribute.to_string());
        let report = Arc::new(Report {
            stamp: Stamp { restore_epoch: RestoreEpoch::NEVER, term: Term(3), index },
            machine: Arc::new(said),
            tasks: tasks.iter().map(task).collect(),
        });
        // Reports are repeated, and a version may be reused for another report.
        for _ in 0..2 {
            let answer =
                Answer::Report { report: Arc::clone(&report), version, usage: Arc::default() };
            let (now, cell) = (self.now, &self.cell);
            self.shard.answered(now, cell, M1, false, &answer, &mut self.actions);
            assert_eq!(self.shard.overlooked(now, cell), []);
            assert_eq!(self.shard.last_report(M1).as_ref(), Some(&report));
            self.said();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn no_difference_to_the_cell_is_overlooked(steps in prop::collection::vec(step(), 0..40)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
            prop_assert!(world.master.counts_right(world.now, &world.cell));
            prop_assert_eq!(world.shard.overlooked(world.now, &world.cell), []);
        }
    }
}

#[test]
fn a_report_that_is_repeated_is_compared_once() {
    let mut world = World::new();
    world.tick();
    world.answer(true, 3, &[]);
    assert!(world.shard.agrees(M1), "it was described, and that is applied");
    world.submit(1);
    assert!(world.shard.agrees(M1), "a job that is nowhere is no news of a machine");
    world.assign(0);
    assert!(!world.shard.agrees(M1));
    let running = [(0, TaskStatus::Running { healthy: None })];
    assert!(world.answer(false, 6, &running).contains("Started"));
    assert!(world.shard.agrees(M1), "what it said was applied, and compared again");
    assert_eq!(world.answer(false, 6, &running), "");
    assert!(world.shard.agrees(M1));
    // A restarted Borglet uses the same version with another report.
    let ended = [(0, TaskStatus::Ended(End::Exited { code: 1 }, model::FinalUsage::UNMEASURED))];
    assert!(world.answer(false, 6, &ended).contains("Exited"));
}
