//! Histories of a cell: random steps, converted to operations that mostly have an effect.

mod locks;
mod reached;
mod services;
mod updates;

use std::sync::Arc;

use cell::{
    AddMachine, AddReplica, AddUser, Assignment, Cell, DrainMachine, GrantQuota, Image,
    IssueReplicaToken, IssueToken, Job, Kill, Machine, MachineState, Member, MemberChange,
    MeterQuota, Mutation, Observation, Op, Oversell, RemoveMachine, RemoveReplica, Replica,
    RequestId, Reservation, ResumeRescheduling, RevokeMachine, RevokeQuota, RevokeUser,
    SetAttributes, SetCapability, SetPlatform, TaskState, UndrainMachine,
};
use model::{
    Band, Bytes, Capability, CollectionId, DirectoryId, End, GcuFactor, GrantId, InstanceId,
    KeyDigest, MachineName, MachineReport, MilliCores, PortRange, ReplicaId, Resources, Serial,
    SessionId, Span, TaskIndex, TaskSelection, Time, UserName,
};
use proptest::collection::vec;
use proptest::prelude::*;
use spec::{EndCondition, JobReference, JobSpec, Kind, Predecessor};

use crate::arbitrary::end;
use crate::arbitrary::job::valid_job;
use crate::arbitrary::op::op;

/// One step. Numbers select among what exists, so that few steps have no effect.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A job, after that one and a child of that one.
    Submit(Box<JobSpec>, Option<u64>, Option<u64>),
    /// A step of an update by a user or the leader.
    OfUpdate(u64, u64),
    /// A drained machine.
    OfDrain(u64, u64),
    /// The same job, changed or unchanged.
    Update(u64, Option<u32>),
    Kill(u64, u32),
    /// An alloc that tasks run in.
    KillAlloc(u64),
    AddMachine(u8),
    Drain(usize, bool),
    Remove(usize),
    Attribute(usize, Option<u8>),
    Platform(u32),
    /// Whether others may be evicted for it.
    Assign(bool),
    Started,
    Health(bool),
    Ended(u64, End),
    Silent(usize),
    /// A user is added or revoked.
    User(u8),
    Unreachable(usize),
    /// The circuit breaker, or what a user or the master does about it.
    Rescheduling(u32),
    Back(usize),
    ForgetDead,
    /// This many thousandths of its limit for a task of a job.
    Reserve(u64, u64),
    /// A grant, and sometimes a change of the quota settings.
    Quota(u64),
    /// Grants or revokes a capability of ben.
    Capable(usize, bool),
    /// A token is issued or used, a machine's certificate renewed, or a machine revoked.
    Enrolment(u64),
    /// A replica is added, makes its next step, describes itself, or is removed.
    Replica(u64),
    /// Something about a lock session, a lock or a file.
    Lock(u64),
    /// A service is set or deleted.
    Service(u64),
    /// A package is added, shared or deleted.
    Package(u64),
    /// Mostly invalid.
    Anything(Box<Op>),
}

fn step() -> impl Strategy<Value = Step> {
    let some = || prop_oneof![3 => Just(None), 2 => any::<u64>().prop_map(Some)];
    let submit = (valid_job(), some(), some())
        .prop_map(|(job, after, parent)| Step::Submit(Box::new(job), after, parent));
    let on_machines = prop_oneof![
        2 => (0..4_u8).prop_map(Step::AddMachine),
        2 => any::<(usize, bool)>().prop_map(|(which, drain)| Step::Drain(which, drain)),
        1 => any::<usize>().prop_map(Step::Remove),
        2 => (any::<usize>(), proptest::option::of(0..3_u8))
            .prop_map(|(which, value)| Step::Attribute(which, value)),
        1 => (1..=GcuFactor::MAX).prop_map(Step::Platform),
        2 => any::<usize>().prop_map(Step::Silent),
        2 => any::<u8>().prop_map(Step::User),
        2 => any::<usize>().prop_map(Step::Unreachable),
        2 => (0..4_u32).prop_map(Step::Rescheduling),
        3 => any::<usize>().prop_map(Step::Back),
    ];
    prop_oneof![
        4 => submit,
        5 => any::<(u64, Option<u32>)>().prop_map(|(job, change)| Step::Update(job, change)),
        2 => any::<(u64, u32)>().prop_map(|(job, task)| Step::Kill(job, task)),
        7 => any::<(u64, u64)>().prop_map(|(job, which)| Step::OfUpdate(job, which)),
        5 => any::<(u64, u64)>().prop_map(|(machine, which)| Step::OfDrain(machine, which)),
        1 => any::<u64>().prop_map(Step::KillAlloc),
        4 => on_machines,
        9 => any::<bool>().prop_map(Step::Assign),
        7 => Just(Step::Started),
        2 => any::<bool>().prop_map(Step::Health),
        9 => (any::<u64>(), end()).prop_map(|(which, end)| Step::Ended(which, end)),
        6 => any::<u64>().prop_map(|which| Step::Ended(which, End::Exited { code: 0 })),
        1 => Just(Step::ForgetDead),
        3 => (any::<u64>(), 0..1_200_u64).prop_map(|(job, part)| Step::Reserve(job, part)),
        3 => any::<u64>().prop_map(Step::Quota),
        1 => any::<(usize, bool)>().prop_map(|(which, held)| Step::Capable(which, held)),
        3 => any::<u64>().prop_map(Step::Replica),
        2 => any::<u64>().prop_map(Step::Enrolment),
        2 => any::<u64>().prop_map(Step::Lock),
        1 => any::<u64>().prop_map(Step::Service),
        1 => any::<u64>().prop_map(Step::Package),
        1 => op().prop_map(|op| Step::Anything(Box::new(op))),
    ]
}

/// The operations of a cell's history, from the first on.
pub(crate) fn history(most: usize) -> impl Strategy<Value = Vec<(Time, Op)>> {
    vec((step(), 0..10_000_000_u64), 0..most).prop_map(|steps| {
        let mut history = History::begin();
        for (step, wait) in steps {
            history.now = history.now + Span(wait);
            history.take(step);
        }
        history.ops
    })
}

/// The final cell of a history.
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
    formats::image::write_image(image, &mut |part| parts.push(part.to_vec()));
    parts
}

struct History {
    cell: Cell,
    now: Time,
    sequence: u64,
    ops: Vec<(Time, Op)>,
}

fn ben() -> UserName {
    UserName::new("ben").expect("a name")
}

fn ana() -> UserName {
    UserName::new("ana").expect("a name")
}

impl History {
    fn begin() -> Self {
        let now = Time(1_000_000_000_000_000);
        let mut history = Self { cell: Cell::empty(), now, sequence: 0, ops: Vec::new() };
        history.apply(Op::Bootstrap { name: "dev".parse().expect("a name"), administrator: ana() });
        history.apply(Op::OpenSession { user: ana() });
        history.apply(Op::OpenSession { user: ben() });
        (0..3).for_each(|number| history.take(Step::AddMachine(number)));
        history
    }

    fn apply(&mut self, op: Op) {
        self.cell.apply(self.now, &op);
        self.ops.push((self.now, op));
    }

    fn request(&mut self, mutation: Mutation) {
        self.request_of(ana(), mutation);
    }

    fn request_of(&mut self, by: UserName, mutation: Mutation) {
        self.sequence += 1;
        let session = SessionId(if by == ana() { 1 } else { 2 });
        let id = RequestId { session, sequence: self.sequence };
        self.apply(Op::Request { id, by, mutation });
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Submit(job, after, parent) => self.submit(*job, after, parent),
            Step::Update(job, change) => self.update(job, change),
            Step::OfUpdate(which, change) => {
                let open = self.some(self.cell.jobs_with_open_updates(), which).cloned();
                if let Some(job) = open.or_else(|| self.job(which)) {
                    let by = job.owner.clone();
                    self.change(by, updates::of_update(&job, change));
                }
            }
            Step::OfDrain(which, change) => {
                if let Some(machine) = self.some(self.cell.machines(), which).cloned() {
                    self.change(ana(), updates::of_drain(&self.cell, &machine, change));
                }
            }
            Step::Kill(job, task) => {
                let job = self.job(job);
                let (owner, name) = match &job {
                    Some(job) => (job.owner.clone(), job.spec.name.clone()),
                    None => ("ana".parse().expect("a name"), "nobodys".parse().expect("a name")),
                };
                let tasks = job.as_ref().map_or(1, |job| job.spec.tasks);
                let (first, last) = (TaskIndex(task % tasks), TaskIndex(tasks - 1));
                let tasks = match task % 2 {
                    0 => TaskSelection::All,
                    _ => TaskSelection::Some(vec![(first, last)]),
                };
                self.request(Mutation::Kill(Kill { owner, job: name, tasks, now: false }));
            }
            Step::KillAlloc(which) => self.kill_alloc(which),
            Step::Lock(which) => self.change(ana(), locks::of_locks(&self.cell, which)),
            Step::Service(which) => self.change(ana(), services::of_services(which)),
            Step::Package(which) => self.change(ana(), services::of_packages(which)),
            Step::AddMachine(number) => self.add_machine(number),
            Step::Drain(which, drain) => self.on_machine(which, |machine| match drain {
                true => Mutation::DrainMachine(DrainMachine {
                    machine,
                    reason: "a new kernel".to_owned(),
                    deadline: None,
                    force: false,
                }),
                false => Mutation::UndrainMachine(UndrainMachine { machine }),
            }),
            Step::Remove(which) => {
                self.on_machine(which, |machine| {
                    Mutation::RemoveMachine(RemoveMachine { machine, force: false })
                });
            }
            Step::Attribute(which, value) => self.on_machine(which, |machine| {
                let value = value.map(|value| format!("r{value}"));
                Mutation::SetAttributes(SetAttributes {
                    machine,
                    changes: [("rack".to_owned(), value)].into(),
                })
            }),
            Step::Platform(milli) => {
                let (platform, factor) = ("p".to_owned(), GcuFactor::from_milli(milli));
                let factor = factor.expect("a factor");
                self.request(Mutation::SetPlatform(SetPlatform { platform, factor }));
            }
            Step::Assign(evict) => self.apply(Op::assign(self.assignments(evict))),
            Step::Started => self.observe(|instance, _| Observation::started(instance)),
            Step::Health(healthy) => {
                let check = "HTTP 503".to_owned();
                self.observe(|instance, _| Observation::Health {
                    instance,
                    healthy,
                    check: check.clone(),
                });
            }
            Step::Ended(which, end) => self.observe(|instance, position| {
                let end = if position == which % 3 { end.clone() } else { End::Exited { code: 1 } };
                Observation::Ended { instance, end, usage: model::FinalUsage::UNMEASURED }
            }),
            Step::User(which) => {
                let user = UserName::new(["ana", "ben", "cleo"][usize::from(which % 3)]);
                let user = user.expect("a name");
                let serial = Serial::from_bytes(&[which]).expect("short enough");
                let validity = Span::from_secs(u64::from(which) * 60);
                self.request(match which % 5 {
                    0 => Mutation::RevokeUser(RevokeUser { user }),
                    _ => Mutation::AddUser(AddUser { user, serial, validity }),
                });
            }
            Step::Unreachable(which) => {
                if let Some(machine) = self.machine(which) {
                    self.apply(Op::MachineUnreachable { machine: machine.id });
                }
            }
            Step::Rescheduling(what) => match what {
                0 => self.apply(Op::AllowRescheduling),
                1 => self.request(Mutation::ResumeRescheduling(ResumeRescheduling)),
                silent => self.apply(Op::StopRescheduling { silent, of: 4 }),
            },
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
            Step::Reserve(job, part) => {
                if let Some(job) = self.job(job) {
                    let amount = |index| {
                        let limit = job.limit(index);
                        let ram = Bytes(limit.ram.0 / 1_000 * part);
                        Resources { ram, ..limit }
                    };
                    let index = TaskIndex(u32::try_from(part).unwrap_or(0) % job.spec.tasks);
                    let newest_sample = Some(Time(part)).filter(|_| part % 2 == 0);
                    let one =
                        |instance| Reservation { instance, amount: amount(index), newest_sample };
                    self.apply(Op::Reserve(job.instance(index).map(one).into_iter().collect()));
                }
            }
            Step::Quota(what) => self.quota(what),
            Step::Capable(which, granted) => {
                let capability = Capability::ALL[which % Capability::ALL.len()];
                let user = "ben".parse().expect("a name");
                self.request(Mutation::SetCapability(SetCapability { user, capability, granted }));
            }
            Step::Enrolment(what) => self.enrolment(what),
            Step::Replica(what) => self.replica(what),
            Step::Anything(op) => self.apply(*op),
        }
    }

    fn kill_alloc(&mut self, which: u64) {
        let placed = self.cell.machines().flat_map(|machine| machine.instances());
        let allocs = placed.filter_map(|instance| self.cell.placement(*instance)?.alloc());
        let allocs: Vec<InstanceId> = allocs.collect();
        let Some(alloc) = self.some(allocs.iter(), which) else { return };
        let Some(set) = self.cell.job(alloc.collection).cloned() else { return };
        let tasks = TaskSelection::Some(vec![(alloc.index, alloc.index)]);
        self.request(Mutation::Kill(Kill::of(&set, tasks)));
    }

    fn quota(&mut self, what: u64) {
        let band = Band::ALL[1 + (what / 8) as usize % 4];
        let grant = self.some(self.cell.grants(), what).map(|grant| grant.id);
        let amount = Resources { cpu: MilliCores(1 << 42), ..Resources::each(|_| 1 << 41) };
        let until = what.is_multiple_of(3).then(|| self.now + Span::from_secs(what % 100));
        let grant_it =
            Mutation::GrantQuota(GrantQuota { user: ana(), band, amount, from: None, until });
        let request = match what % 8 {
            0 => Mutation::MeterQuota(MeterQuota { on: what.is_multiple_of(16) }),
            1 => Mutation::Oversell(Oversell { band: Band::Mid, percent: 300 }),
            2 => Mutation::RevokeQuota(RevokeQuota { grant: grant.unwrap_or(GrantId(9)) }),
            _ => grant_it,
        };
        self.request(request);
    }

    fn enrolment(&mut self, what: u64) {
        let number = |number: u64| Serial::from_bytes(&number.to_be_bytes()).expect("short enough");
        let (few, validity) = (number(what / 8 % 3), Span::from_secs(3_600));
        let machine: MachineName = format!("m{}", what / 8 % 4).parse().expect("a name");
        let most = (what / 32).is_multiple_of(2).then_some(2);
        match what % 8 {
            0 => self.request(Mutation::RevokeMachine(RevokeMachine { machine })),
            1 | 2 => {
                self.request(Mutation::IssueToken(IssueToken {
                    machine,
                    serial: few,
                    validity,
                    most,
                }));
            }
            3 => self.apply(Op::RenewMachine { machine, old: few, certificate: few, validity }),
            _ => {
                let key = KeyDigest([u8::from(what % 8 == 4); KeyDigest::BYTES]);
                let token = self.cell.tokens().map(|(serial, token)| (serial, token.clone()));
                let tokens: Vec<_> = token.collect();
                let Some((token, of)) = self.some(tokens.iter(), what / 8) else { return };
                let (token, address) = (*token, format!("10.0.1.{}:1", of.machine));
                let machine =
                    of.many.as_ref().and_then(|_| format!("{}1", of.machine).parse().ok());
                self.apply(Op::Enrol { token, key, machine, address, certificate: few, validity });
            }
        }
    }

    fn replica(&mut self, what: u64) {
        if self.cell.replicas().next().is_none() {
            let (address, level) = ("h1:1".to_owned(), cell::LEVEL);
            let (replica, directory) = (ReplicaId(1), DirectoryId(what));
            return self.apply(Op::DescribeReplica { replica, address, level, directory });
        }
        let next = |replica: &Replica| match replica.member {
            _ if replica.leaving => Some(MemberChange::Out),
            Member::Waiting => Some(MemberChange::Learner),
            Member::Learner => Some(MemberChange::Voter),
            Member::Voter => None,
        };
        let steps = self.cell.replicas().filter_map(|it| Some((it.id, next(it)?)));
        let steps: Vec<_> = steps.collect();
        let step = self.some(steps.iter(), what / 4).copied();
        let any = self.some(self.cell.replicas(), what / 4).map(|replica| replica.id);
        let token = Serial::from_bytes(&[7]).expect("short enough");
        let (validity, key) = (Span::from_secs(3_600), KeyDigest([1; KeyDigest::BYTES]));
        if let (true, Some(replica)) = (what.is_multiple_of(3), any) {
            return match what.is_multiple_of(2) {
                true => {
                    self.request(Mutation::IssueReplicaToken(IssueReplicaToken {
                        replica,
                        serial: token,
                        validity,
                    }));
                }
                false => self.apply(Op::JoinReplica { replica, token, key }),
            };
        }
        match (what % 4, any, step) {
            (0, Some(replica), _) => {
                self.request(Mutation::RemoveReplica(RemoveReplica { replica }));
            }
            (1 | 2, _, Some((replica, to))) => self.apply(Op::ChangeMember { replica, to }),
            _ => self.request(Mutation::AddReplica(AddReplica { address: format!("h{what}:1") })),
        }
    }

    fn some<'a, T>(&self, all: impl Iterator<Item = &'a T>, which: u64) -> Option<&'a T> {
        let all: Vec<&T> = all.collect();
        let count = u64::try_from(all.len()).ok().filter(|count| *count > 0)?;
        usize::try_from(which % count).ok().map(|position| all[position])
    }

    fn job(&self, which: u64) -> Option<Arc<Job>> {
        self.some(self.cell.jobs(), which).cloned()
    }

    fn machine(&self, which: usize) -> Option<Arc<Machine>> {
        self.some(self.cell.machines(), which as u64).cloned()
    }

    fn on_machine(&mut self, which: usize, mutation: impl FnOnce(MachineName) -> Mutation) {
        if let Some(machine) = self.machine(which) {
            self.request(mutation(machine.name.clone()));
        }
    }

    fn submit(&mut self, mut job: JobSpec, after: Option<u64>, parent: Option<u64>) {
        // Most are so small that all of their tasks change.
        job.tasks = if job.tasks > 80 { job.tasks } else { 1 + job.tasks % 4 };
        job.overrides.retain(|index, _| index.0 < job.tasks);
        // An alloc set, a job in an existing one, or one with resources of its own.
        let is_set = |job: &&Arc<Job>| job.spec.kind.is_alloc_set() && job.is_alive();
        let set = self.cell.jobs().filter(is_set).last().map(|job| reference(job));
        if let Kind::Job { alloc_set } = &mut job.kind
            && alloc_set.is_some()
        {
            *alloc_set = set;
            // What fits into the smallest alloc.
            job.task.limit =
                Resources { cpu: MilliCores(1), ram: Bytes(4 << 20), ..Resources::default() };
            job.overrides.values_mut().for_each(|change| change.limit = None);
            // At most that of its allocs.
            job.priority = model::Priority::new(0).expect("the lowest");
        }
        let named = |which| self.job(which).map(|job| reference(&job));
        let when = EndCondition::ALL[job.tasks as usize % EndCondition::ALL.len()];
        let each_task = !job.batch.gang && !job.is_on_every_machine() && job.tasks > 1;
        let waits = |job| Predecessor { job, when, each_task };
        job.after = after.and_then(named).map(waits).into_iter().collect();
        job.parent = parent.and_then(named);
        // What no machine has is only preferred.
        let report = report(0);
        let changes = job.overrides.values_mut().flat_map(|change| &mut change.constraints);
        for constraint in std::iter::once(&mut job.task.constraints).chain(changes).flatten() {
            constraint.hard &= constraint.matches(&report.attributes);
        }
        // Most are ana's, who has quota.
        let by = if job.tasks == 4 { ben() } else { ana() };
        self.request_of(by, Mutation::Submit(Arc::new(job)));
    }

    fn change(&mut self, by: UserName, change: updates::Change) {
        match change {
            updates::Change::Request(mutation) => self.request_of(by, mutation),
            updates::Change::Op(op) => self.apply(op),
        }
    }

    fn update(&mut self, which: u64, change: Option<u32>) {
        let Some(job) = self.job(which) else { return };
        let (by, mut job) = (job.owner.clone(), JobSpec::clone(&job.spec));
        match change {
            None => {}
            Some(change) if change % 4 == 0 => job.task.cmd.push(change.to_string()),
            Some(change) if change % 4 == 1 => job.task.limit.ram = Bytes(u64::from(change) << 20),
            Some(_) => job.priority = Band::Free.usual(),
        }
        self.request_of(by, Mutation::Submit(Arc::new(job)));
    }

    fn add_machine(&mut self, number: u8) {
        let name: MachineName = format!("m{number}").parse().expect("a name");
        let address = format!("10.0.0.{number}:1");
        self.request(Mutation::AddMachine(AddMachine { name: name.clone(), address }));
        let added = self.cell.machine_named(&name).map(|machine| machine.id);
        let Some(machine) = added.filter(|_| number % 4 != 3) else { return };
        self.apply(Op::DescribeMachine { machine, report: Arc::new(report(number)) });
    }

    /// The first pending task of each job, on the next machine that is up, and its victims.
    fn assignments(&self, evict: bool) -> Vec<Assignment> {
        let up =
            |machine: &&Arc<Machine>| machine.state == MachineState::Up && machine.drain.is_none();
        let machines: Vec<_> = self.cell.machines().filter(up).collect();
        let mut taken = Vec::new();
        let mut proposals = Vec::new();
        for (machine, job) in machines.iter().cycle().zip(self.cell.jobs_with_pending_tasks()) {
            let Some(index) = first_pending(job) else { continue };
            let instance = job.instance(index).expect("there");
            let alloc = job.alloc_set.and_then(|set| self.alloc(set));
            let (machine, alloc) = match alloc {
                Some((machine, alloc)) => (machine, Some(alloc)),
                None => (*machine, None),
            };
            let victims = match evict && alloc.is_none() {
                true => self.victims(machine, job),
                false => Vec::new(),
            };
            let ports = machine.free_ports(job.ports(index).len(), &taken);
            taken.extend_from_slice(&ports);
            proposals.push(Assignment {
                address: None,
                instance,
                alloc,
                machine: machine.id,
                ports,
                victims,
            });
        }
        proposals
    }

    /// An alloc of a set that accepts tasks, and its machine.
    fn alloc(&self, set: CollectionId) -> Option<(&Arc<Machine>, InstanceId)> {
        let set = self.cell.job(set)?;
        set.tasks().find_map(|(index, task)| match &task.state {
            TaskState::Running(placement) if placement.stop.is_none() => {
                Some((self.cell.machine(placement.machine)?, set.instance(index)?))
            }
            _ => None,
        })
    }

    /// One task on a machine that a job may evict.
    fn victims(&self, machine: &Machine, job: &Job) -> Vec<InstanceId> {
        let may = |id: &&InstanceId| {
            let stays = self.cell.placement(**id).is_some_and(|placed| placed.stop.is_none());
            let theirs = self.cell.job(id.collection).map(|other| other.spec.priority);
            stays
                && theirs.is_some_and(|theirs| {
                    theirs < job.spec.priority && theirs.band() < Band::Production
                })
        };
        machine.instances().iter().find(may).copied().into_iter().collect()
    }

    /// Something that happens to every second instance of the first machine that has one.
    fn observe(&mut self, what: impl Fn(InstanceId, u64) -> Observation) {
        let busy = self.cell.machines().find(|machine| !machine.instances().is_empty());
        let Some(machine) = busy.cloned() else { return };
        let chosen = (0..).zip(machine.instances().iter().step_by(2));
        let observations = chosen.map(|(position, id)| what(*id, position)).collect();
        self.apply(Op::Observe { machine: machine.id, observations });
    }
}

fn reference(job: &Job) -> JobReference {
    JobReference { user: Some(job.owner.clone()), job: job.spec.name.clone() }
}

fn report(number: u8) -> MachineReport {
    let capacity = Resources {
        cpu: MilliCores(1 << 43),
        ram: Bytes(1 << 43),
        disk: Bytes(1 << 43),
        disk_rate: Bytes(1 << 43),
    };
    let attributes = [("kernel", format!("{}", 6 + number)), ("platform", "p".to_owned())];
    let attributes = attributes.map(|(name, value)| (name.to_owned(), value)).into();
    let ports = PortRange { first: 31_000, last: 31_255 };
    let held_ports =
        if number.is_multiple_of(2) { Vec::new() } else { crate::examples::held_ports() };
    MachineReport {
        task_network: None,
        capacity,
        ports,
        attributes,
        held_ports,
        saving: Vec::new(),
        shortage: None,
        not_ready: None,
        volumes: Vec::new(),
    }
}

fn first_pending(job: &Job) -> Option<TaskIndex> {
    let pending = |state: &TaskState| matches!(state, TaskState::Pending { .. });
    job.tasks().find(|(_, task)| pending(&task.state)).map(|(index, _)| index)
}
