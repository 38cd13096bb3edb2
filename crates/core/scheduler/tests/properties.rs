//! Random histories of small cells: the scheduler proposes nothing that the master rejects, leaves
//! nothing pending that the master would accept, and finds the same placements possible with and
//! without each of its optimisations.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use cell::feasibility::{Offer, Request, fits};
use cell::{
    AddMachine, Applied, Assignment, Cell, DecisionChecker, DrainMachine, EventKind, Job, Kill,
    Machine, Mutation, Observation, Op, Outcome, PendingCause, RequestId, Reservation,
    SetAttributes, StopReason, Subject, Task, TaskState, UndrainMachine,
};
use model::{
    Bytes, CellName, End, HeldPorts, InstanceId, JobName, MachineId, MachineName, MachineReport,
    MilliCores, PackingPolicy, PortName, PortRange, Priority, Resources, SessionId, Span, Subnet,
    TaskSelection, Time, UserName,
};
use placement::{Kept, Settings};
use proptest::prelude::*;
use scheduler::{Plan, Scheduler};
use spec::{Constraint, JobReference, JobSpec, Kind, Maximum, Network, Relation, TaskSpec};

/// A random history of a cell, with a scheduler that follows it.
struct History {
    scheduler: Scheduler,
    now: Time,
    random: u64,
    sequence: u64,
    watch: DecisionChecker,
}

const PRIORITIES: [i64; 8] = [0, 25, 105, 110, 117, 200, 220, 360];

fn root() -> UserName {
    UserName::new("root").expect("a name")
}

/// A range for one task or five.
fn range_of(machine: MachineId) -> Subnet {
    let number = u8::try_from(machine.0 % 256).expect("small");
    let prefix = if number.is_multiple_of(2) { 30 } else { 29 };
    Subnet::new(Ipv4Addr::new(10, 64, number, 0), prefix).expect("a range")
}

impl History {
    fn begin(random: u64, machines: u64, settings: Settings) -> Self {
        let mut cell = Cell::empty();
        let now = Time(1_000_000_000);
        let name = CellName::new("test").expect("a name");
        cell.apply(now, &Op::Bootstrap { name, administrator: root() });
        cell.apply(now, &Op::OpenSession { user: root() });
        let watch = DecisionChecker::from(&cell);
        let scheduler = Scheduler::with(cell, settings);
        let mut history = Self { scheduler, now, random, sequence: 0, watch };
        (0..machines).for_each(|_| history.machine());
        history
    }

    /// A random number below `end`, from a generator independent of the scheduler's.
    fn draw(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % end
    }

    fn follow(&mut self, op: &Op) -> Applied {
        let applied = self.scheduler.follow(self.now, op);
        assert_eq!(self.watch.after(self.scheduler.cell(), &applied), [], "{op:?}");
        applied
    }

    fn ask(&mut self, mutation: Mutation) {
        self.sequence += 1;
        let id = RequestId { session: SessionId(1), sequence: self.sequence };
        self.follow(&Op::Request { id, by: root(), mutation });
    }

    fn machine(&mut self) {
        let number = self.scheduler.cell().machine_count() + 1;
        let name = MachineName::new(&format!("m{}-{}", number, self.sequence)).expect("a name");
        let address = format!("{name}:1");
        self.ask(Mutation::AddMachine(AddMachine { name: name.clone(), address }));
        let id = self.scheduler.cell().machine_named(&name).expect("added").id;
        let (racks, ports) = (self.draw(3), self.draw(4));
        let attributes = [
            ("rack", format!("r{racks}")),
            ("switch", format!("s{}", racks / 2)),
            ("power-domain", format!("p{}", racks / 2)),
            ("kernel", format!("{}", 5 + self.draw(3))),
        ];
        let capacity = Resources {
            cpu: MilliCores(500 * (1 + self.draw(4))),
            ram: Bytes((1 + self.draw(4)) << 30),
            disk: Bytes(1 << 40),
            ..Resources::default()
        };
        let last = 999 + u16::try_from(ports).expect("few");
        let range = PortRange { first: 1_000, last };
        let report = MachineReport {
            task_network: (self.draw(3) > 0).then(|| range_of(id)),
            capacity,
            ports: if ports == 0 { PortRange::default() } else { range },
            attributes: attributes.map(|(name, value)| (name.to_owned(), value)).into(),
            held_ports: self.held_ports(),
            saving: Vec::new(),
            volumes: Vec::new(),
            shortage: None,
            not_ready: None,
        };
        self.follow(&Op::DescribeMachine { machine: id, report: Arc::new(report) });
    }

    /// No ports, or a few of the first.
    fn held_ports(&mut self) -> Vec<HeldPorts> {
        let (first, count) = (1_000 + u16::try_from(self.draw(2)).expect("few"), self.draw(3));
        let last = (first + u16::try_from(count).expect("few")).wrapping_sub(1);
        let held = HeldPorts { ports: PortRange { first, last }, by: "sshd".to_owned() };
        if count == 0 { Vec::new() } else { vec![held] }
    }

    fn submit(&mut self) {
        let mut task = TaskSpec::of(vec!["x".to_owned()]);
        task.limit = Resources {
            cpu: MilliCores(50 * (1 + self.draw(12))),
            ram: Bytes((64 << 20) * (1 + self.draw(16))),
            ..Resources::default()
        };
        if self.draw(6) == 0 {
            task.ports.insert(PortName::new("http").expect("a name"));
        }
        if self.draw(4) == 0 {
            let ports = std::mem::take(&mut task.ports).into_iter().zip(80..).collect();
            task.network = Network::Own { ports };
        } else if self.draw(4) == 0 {
            let name = PortName::new("https").expect("a name");
            task.static_ports = [(name, 443)].into();
        }
        if self.draw(3) == 0 {
            let (value, hard) = (format!("{}", 5 + self.draw(3)), self.draw(2) == 0);
            let (attribute, relation) = ("kernel".to_owned(), Relation::GreaterThanEqual);
            task.constraints.push(Constraint { attribute, relation, value, hard });
        }
        let name = JobName::new(&format!("j{}", self.sequence)).expect("a name");
        let priority = PRIORITIES[usize::try_from(self.draw(8)).expect("small")];
        let priority = Priority::new(priority).expect("in range");
        let tasks = u32::try_from(1 + self.draw(5)).expect("few");
        let mut spec = JobSpec::of(name, priority, tasks, task);
        spec.restart.delay = Span::from_millis(10);
        let maximum = |tasks, hard| Some(Maximum { tasks, hard });
        match self.draw(6) {
            0 => spec.max_per_machine = maximum(1, true),
            1 => spec.max_per_switch = maximum(2, true),
            2 => spec.max_per_machine = maximum(1, false),
            _ => {}
        }
        let sets: Vec<_> = self
            .scheduler
            .cell()
            .jobs()
            .filter(|job| job.is_alive() && job.spec.kind.is_alloc_set())
            .map(|set| set.spec.name.clone())
            .collect();
        match self.draw(8) {
            0 => {
                spec.kind = Kind::AllocSet { users: [root()].into() };
                spec.task = TaskSpec {
                    limit: spec.task.limit.times(3),
                    constraints: spec.task.constraints,
                    ..TaskSpec::of(Vec::new())
                };
                if self.draw(2) == 0 {
                    spec.task.network = Network::Own { ports: BTreeMap::new() };
                }
            }
            1 | 2 if !sets.is_empty() => {
                let which = usize::try_from(self.draw(sets.len() as u64)).expect("small");
                let alloc_set = Some(JobReference { user: None, job: sets[which].clone() });
                spec.kind = Kind::Job { alloc_set };
            }
            _ => {}
        }
        self.ask(Mutation::Submit(Arc::new(spec)));
    }

    /// Some live task, if there is one.
    fn task(&mut self, placed: bool) -> Option<(InstanceId, Option<MachineId>)> {
        let mut all = Vec::new();
        for job in self.scheduler.cell().jobs() {
            for (index, task) in job.tasks() {
                let machine = match &task.state {
                    TaskState::Running(placement) => Some(placement.machine),
                    TaskState::Pending { .. } if !placed => None,
                    _ => continue,
                };
                all.extend(job.instance(index).map(|instance| (instance, machine)));
            }
        }
        let which = self.draw(all.len().max(1) as u64);
        all.get(usize::try_from(which).expect("small")).copied()
    }

    fn step(&mut self) {
        self.now = self.now + Span::from_millis(7);
        match self.draw(16) {
            0..7 => self.submit(),
            7..10 => {
                if let Some((instance, Some(machine))) = self.task(true) {
                    let code = u8::from(self.draw(2) == 0);
                    let end = End::Exited { code };
                    let observations = vec![Observation::Ended {
                        instance,
                        end,
                        usage: model::FinalUsage::UNMEASURED,
                    }];
                    self.follow(&Op::Observe { machine, observations });
                }
            }
            10 => {
                if let Some((instance, _)) = self.task(false) {
                    let limit = self.scheduler.cell().job(instance.collection).expect("a job");
                    let limit = limit.limit(instance.index);
                    let part = self.draw(12);
                    let ram = Bytes(limit.ram.0 / 10 * part);
                    let amount =
                        Resources { cpu: MilliCores(limit.cpu.0 / 10 * part), ram, ..limit };
                    self.follow(&Op::Reserve(vec![Reservation {
                        instance,
                        amount,
                        newest_sample: None,
                    }]));
                }
            }
            11 => {
                if let Some((instance, _)) = self.task(false) {
                    let job = self.scheduler.cell().job(instance.collection).expect("a job");
                    let kill = Kill::of(job, TaskSelection::All);
                    self.ask(Mutation::Kill(kill));
                }
            }
            12 => self.machine(),
            _ => self.change_a_machine(),
        }
    }

    fn change_a_machine(&mut self) {
        let count = self.scheduler.cell().machine_count() as u64;
        let nth = usize::try_from(self.draw(count)).expect("few");
        let Some(machine) = self.scheduler.cell().machines().nth(nth).cloned() else { return };
        let (id, name) = (machine.id, machine.name.clone());
        match self.draw(6) {
            0 => drop(self.follow(&Op::MachineSilent { machine: id })),
            1 | 2 => drop(self.follow(&Op::MachineBack { machine: id })),
            3 => self.ask(Mutation::DrainMachine(DrainMachine::of(name, ""))),
            4 => self.ask(Mutation::UndrainMachine(UndrainMachine { machine: name })),
            _ => {
                let kernel = format!("{}", 5 + self.draw(3));
                let changes = [("kernel".to_owned(), Some(kernel))].into();
                self.ask(Mutation::SetAttributes(SetAttributes { machine: name, changes }));
            }
        }
    }

    /// Runs passes until nothing more is placed; the master accepts every proposal, and victims
    /// have left afterwards.
    fn schedule(&mut self) {
        for _ in 0..100 {
            let plan = self.scheduler.pass(self.now);
            if plan.assignments.is_empty() {
                return;
            }
            let applied = self.follow(&Op::assign(plan.assignments.clone()));
            let all = Outcome::Assigned(vec![Ok(()); plan.assignments.len()]);
            assert_eq!(applied.outcome, all, "{plan:?}");
            self.leave(&applied);
        }
        panic!("a hundred passes each placed something");
    }

    fn leave(&mut self, applied: &Applied) {
        for event in &applied.events {
            let stop = matches!(event.kind, EventKind::Stop { why: StopReason::Evict(_) });
            if let (Subject::Task(instance), true) = (event.subject, stop)
                && let Some(placement) = self.scheduler.cell().placement(instance)
            {
                let machine = placement.machine;
                let observations = vec![Observation::Ended {
                    instance,
                    end: End::Stopped,
                    usage: model::FinalUsage::UNMEASURED,
                }];
                self.follow(&Op::Observe { machine, observations });
            }
        }
    }

    /// The master rejects whatever is pending on every machine, but in room that is kept for others.
    fn nothing_is_left_that_fits(&mut self) {
        let cell = self.scheduler.cell().clone();
        let kept = Kept::in_cell(&cell, self.now);
        for job in cell.jobs_with_pending_tasks() {
            for (index, task) in job.tasks() {
                let TaskState::Pending { not_before, .. } = task.state else { continue };
                if not_before > self.now {
                    continue;
                }
                let instance = job.instance(index).expect("a task");
                for (machine, alloc) in places(&cell, job, task) {
                    let kept = kept.get(&machine.id).into_iter().flatten();
                    let kept = kept.filter(|kept| kept.is_from(job.described(index).priority));
                    let offer = Offer::to(&cell, job, machine);
                    let left = kept.fold(offer, |offer, kept| kept.taken_from(offer));
                    if alloc.is_none() && fits(&Request::of(&cell, job, index), &left).is_err() {
                        continue;
                    }
                    let ports = machine.free_ports(job.port_count(index), &[]);
                    let takes = job.network(index).is_own() && alloc.is_none();
                    let address = takes.then(|| machine.free_address(&[])).flatten();
                    let (machine, victims) = (machine.id, Vec::new());
                    let assignment =
                        Assignment { instance, alloc, machine, address, ports, victims };
                    let outcome =
                        cell.clone().apply(self.now, &Op::assign(vec![assignment])).outcome;
                    let Outcome::Assigned(judged) = outcome else { panic!("{outcome:?}") };
                    assert!(judged[0].is_err(), "{instance} fits on {machine} in {alloc:?}");
                }
            }
        }
    }
}

/// Where a task may be placed: every machine, or the allocs of its job's set. If its alloc was
/// evicted, the task waits for that alloc.
fn places<'a>(
    cell: &'a Cell,
    job: &Job,
    task: &Task,
) -> Vec<(&'a Arc<Machine>, Option<InstanceId>)> {
    let Some(set) = job.alloc_set.and_then(|set| cell.job(set)) else {
        return cell.machines().map(|machine| (machine, None)).collect();
    };
    let last = task.last_incarnation.as_ref().and_then(|incarnation| incarnation.alloc);
    let moved = matches!(
        task.state,
        TaskState::Pending {
            cause: PendingCause::Evicted(_) | PendingCause::Lost | PendingCause::StartLost { .. },
            ..
        }
    );
    let home = last.filter(|_| moved).and_then(|index| set.task(index));
    if home.is_some_and(|alloc| match &alloc.state {
        TaskState::Queued { .. } | TaskState::Pending { .. } => true,
        TaskState::Running(placement) => placement.stop.is_some(),
        TaskState::Dead { .. } => false,
    }) {
        return Vec::new();
    }
    let placed = set.tasks().filter_map(|(index, alloc)| match &alloc.state {
        TaskState::Running(placement) => {
            Some((cell.machine(placement.machine)?, set.instance(index)))
        }
        _ => None,
    });
    placed.collect()
}

/// Every combination of the switches, and every policy.
fn all_settings() -> Vec<Settings> {
    let mut all = Vec::new();
    for bits in 0..8 {
        let policy = Some(PackingPolicy::ALL[bits % 3]);
        let on = |bit: usize| bits & (1 << bit) != 0;
        let (classes, score_cache, relaxed) = (on(0), on(1), on(2));
        // Few enough for relaxation to take effect.
        all.push(Settings {
            policy,
            classes,
            score_cache,
            relaxed,
            enough: 3,
            ..Settings::default()
        });
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn the_scheduler_and_the_master_never_disagree(random in any::<u64>(), which in 0..8_usize) {
        let mut history = History::begin(random, 8, all_settings()[which].clone());
        for _ in 0..60 {
            history.step();
            if history.draw(3) == 0 {
                history.schedule();
                history.nothing_is_left_that_fits();
                // A scheduler started here finds nothing either: the caches kept between passes
                // hide nothing, and no eviction is forgotten.
                let settings = all_settings()[which].clone();
                let plan = Scheduler::with(history.scheduler.cell().clone(), settings).pass(history.now);
                prop_assert_eq!(plan.assignments, []);
            }
        }
        prop_assert_eq!(history.scheduler.cell().check(), []);
    }

    #[test]
    fn a_refused_plan_is_rolled_back(random in any::<u64>(), which in 0..8_usize) {
        let mut history = History::begin(random, 8, all_settings()[which].clone());
        for _ in 0..30 {
            history.step();
            let plan = history.scheduler.pass(history.now);
            let all = plan.assignments.iter().map(|assignment| assignment.instance);
            history.scheduler.not_judged(all);
        }
        history.schedule();
        history.nothing_is_left_that_fits();
    }

    #[test]
    fn the_same_seed_gives_the_same_plans(random in any::<u64>(), which in 0..8_usize) {
        let plans = || -> Vec<Plan> {
            let mut history = History::begin(random, 70, all_settings()[which].clone());
            let plans = (0..20).map(|_| {
                history.step();
                history.scheduler.pass(history.now)
            });
            plans.collect()
        };
        prop_assert_eq!(plans(), plans());
    }

    /// The result for one task in the same cell.
    #[test]
    fn the_switches_never_change_what_is_feasible(random in any::<u64>()) {
        let mut history = History::begin(random, 90, Settings::default());
        (0..40).for_each(|_| history.submit());
        history.schedule();
        history.submit();
        let cell = history.scheduler.cell();
        let tasks = |settings| {
            let plan = Scheduler::with(cell.clone(), settings).pass(history.now);
            plan.assignments.is_empty()
        };
        let expected = tasks(Settings::exhaustive());
        for settings in all_settings() {
            prop_assert_eq!(tasks(settings.clone()), expected, "{:?}", settings);
        }
    }
}
