//! A mixed load: services and batch jobs of several users at all priorities, failing jobs, jobs
//! that wait for others and end with others, alloc sets and jobs that run in them; quota and
//! capabilities; savers of tasks and of allocs; kills, updates, drained machines, attributes of
//! machines; volumes; locks; moves of running tasks. Occasionally a client repeats a request that was answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use cell::{
    AddMachine, Cell, ControlUpdate, DrainMachine, GrantQuota, Job, JobState, Kill, MeterQuota,
    Mutation, Oversell, Rejection, RemoveMachine, Reply, ResizeJob, RevokeQuota, SetAttributes,
    SetCapability, UndrainMachine, UpdateAction, UpdateJob,
};
use model::{
    Band, Bytes, Capability, GrantId, JobName, MachineName, MachineReport, MilliCores, PortName,
    Priority, Random, Resources, Span, TaskIndex, TaskSelection, Time, UserName,
};
use spec::{
    Constraint, EndCondition, HealthCheck, JobReference, JobSpec, Kind, Network, OnFailure,
    Predecessor, Relation, RestartWhen, Saver, Sizing, TaskSpec, UpdatePolicy,
};

use crate::load::{Action, Load};
use crate::lock_load::LockUsers;
use crate::move_load::MoveLoad;
use crate::secret_load::SecretLoad;
use crate::volume_load::VolumeLoad;
use crate::world::address;

/// How the tasks of a job wait in the batch queue: by its number, so that nothing else that is drawn changes.
fn wait_as_batch(number: u64, spec: &mut JobSpec) {
    let one_by_one = spec.follows_task_by_task();
    let is_gang = spec.kind.alloc_set().is_none() && !spec.is_on_every_machine() && !one_by_one;
    spec.batch.gang = (number.is_multiple_of(11) || number.is_multiple_of(3) && spec.tasks > 1)
        && is_gang
        && spec.tasks <= 4;
    spec.batch.at_once = (number % 7 == 3 && !spec.batch.gang && !one_by_one).then_some(2);
    spec.batch.requeue = number.is_multiple_of(2);
    spec.batch.expected_runtime = number.is_multiple_of(5).then_some(Span::from_secs(60));
}

/// A mixed load.
#[derive(Debug)]
pub struct Mixed {
    random: Random,
    users: Vec<UserName>,
    machines: Vec<(MachineName, Arc<MachineReport>)>,
    /// Mean time between two requests.
    mean: Span,
    jobs: u64,
    stopped: bool,
    drained: BTreeMap<usize, bool>,
    locks: LockUsers,
    volumes: VolumeLoad,
    secrets: SecretLoad,
    moves: MoveLoad,
    /// Whether users may have static ports.
    granted: bool,
}

impl Mixed {
    /// A load of these users on these machines; the first user is an administrator.
    #[must_use]
    pub fn new(
        mut random: Random,
        users: Vec<UserName>,
        machines: Vec<(MachineName, Arc<MachineReport>)>,
    ) -> Self {
        let mean = Span(random.within(500_000..8_000_000));
        let (drained, locks) = (BTreeMap::new(), LockUsers::new(&users, random.fork()));
        let names = machines.iter().map(|(name, _)| name.clone());
        let volumes = VolumeLoad::new(mean.0, names, users.len());
        let secrets = SecretLoad::new(mean.0, users.len());
        let moves = MoveLoad::new(mean.0, users.len());
        let (stopped, granted) = (false, false);
        Self {
            random,
            users,
            machines,
            mean,
            jobs: 0,
            stopped,
            drained,
            locks,
            volumes,
            secrets,
            moves,
            granted,
        }
    }

    fn owner(&mut self) -> usize {
        1 + self.random.index(self.users.len().saturating_sub(1))
    }

    fn submit(&mut self, cell: &Cell) -> Option<Action> {
        let owner = self.owner();
        self.jobs += 1;
        let name = JobName::new(&format!("j{}", self.jobs)).ok()?;
        let numbers = [0, 25, 99, 100, 110, 119, 120, 200, 359, 360, 450];
        let priority = Priority::new(*self.random.one_of(&numbers)?).ok()?;
        let tasks = match self.random.below(10) {
            0..6 => 1,
            6..9 => self.random.within(2..8),
            _ => self.random.within(8..40),
        };
        let task = self.task()?;
        let mut spec = JobSpec::of(name, priority, u32::try_from(tasks).ok()?, task);
        if self.random.chance(150) {
            let others: Vec<_> = cell.jobs().filter(|job| job.is_alive()).collect();
            let other = self.random.one_of(&others)?;
            let user = Some(other.owner.clone());
            let reference = JobReference { user, job: other.spec.name.clone() };
            if self.random.chance(600) {
                let mut after = Predecessor::finished(reference);
                // Without a random number, too.
                after.when = match spec.task.limit.ram.0 % 8 {
                    0..=4 => EndCondition::Finished,
                    5 | 6 => EndCondition::Ended,
                    _ => EndCondition::Failed,
                };
                after.each_task = other.spec.tasks == spec.tasks && spec.tasks > 1;
                spec.after.insert(after);
            } else {
                spec.parent = Some(reference);
            }
        }
        if self.random.chance(200) {
            spec.restart.failures_max = Some(u32::try_from(self.random.below(4)).ok()?);
        }
        if self.random.chance(150) {
            spec.restart.when = *self.random.one_of(&RestartWhen::ALL)?;
        }
        match self.random.below(20) {
            0 | 1 => self.as_alloc_set(&mut spec),
            2..6 => self.in_alloc_set(cell, owner, &mut spec),
            6 => (spec.tasks, spec.sizing) = (0, Sizing::EveryMachine),
            _ => {}
        }
        // Without a random number, too.
        if !spec.kind.is_alloc_set() && spec.task.limit.cpu.0.is_multiple_of(3) {
            let seconds = 15 + spec.task.limit.ram.0 % 90;
            spec.batch.max_runtime = Some(Span::from_secs(seconds));
        }
        if !spec.kind.is_alloc_set() {
            wait_as_batch(self.jobs, &mut spec);
        }
        self.volumes.ask(owner, &mut spec);
        // A gang has no volumes.
        spec.batch.gang &= spec.task.volumes.is_empty();
        self.secrets.ask(cell, self.users.get(owner)?, &mut spec);
        Some(Action::Request(owner, Mutation::Submit(Arc::new(spec))))
    }

    /// Makes it an alloc set for tasks of its owner and of some other users.
    fn as_alloc_set(&mut self, spec: &mut JobSpec) {
        let users = self.users.iter().filter(|_| self.random.chance(500)).cloned().collect();
        spec.kind = Kind::AllocSet { users };
        spec.tasks = spec.tasks.min(6);
        spec.task = TaskSpec {
            limit: spec.task.limit,
            constraints: std::mem::take(&mut spec.task.constraints),
            saver: self.random.chance(500).then(|| self.saver()),
            ..TaskSpec::of(Vec::new())
        };
        if spec.task.limit.cpu.0.is_multiple_of(3) {
            spec.task.network = Network::Own { ports: BTreeMap::new() };
        }
    }

    /// Runs it in an existing alloc set, with tasks small enough for several to fit one alloc.
    fn in_alloc_set(&mut self, cell: &Cell, owner: usize, spec: &mut JobSpec) {
        let user = self.users.get(owner);
        let sets: Vec<&Arc<Job>> = cell
            .jobs()
            .filter(|job| match &job.spec.kind {
                Kind::AllocSet { users } => {
                    job.is_alive() && user.is_some_and(|by| job.owner == *by || users.contains(by))
                }
                Kind::Job { .. } => false,
            })
            .collect();
        let Some(set) = self.random.one_of(&sets) else { return };
        let (alloc, part) = (set.limit(TaskIndex(0)), self.random.within(2..6));
        spec.task.limit = Resources {
            cpu: MilliCores((alloc.cpu.0 / part).max(1)),
            ram: Bytes((alloc.ram.0 / part).max(4 << 20)),
            ..Resources::default()
        };
        let reference = JobReference { user: Some(set.owner.clone()), job: set.spec.name.clone() };
        spec.kind = Kind::Job { alloc_set: Some(reference) };
        // In most cases the one of its alloc set; else it waits.
        match set.network(TaskIndex(0)).is_own() {
            true => own_network(&mut spec.task),
            false if spec.task.limit.ram.0.is_multiple_of(2) => host_network(&mut spec.task),
            false => {}
        }
    }

    fn task(&mut self) -> Option<TaskSpec> {
        let random = &mut self.random;
        let mut cmd = vec!["run".to_owned(), format!("heeds={}", 1 << random.below(14))];
        match random.below(10) {
            0..4 => {}
            4..8 => cmd.push(format!("for={}", 5 << random.below(9))),
            8 => cmd.extend([format!("for={}", 30 << random.below(5)), "fails=400".to_owned()]),
            _ if random.chance(300) => cmd.push("broken".to_owned()),
            _ => cmd.push("fails=900".to_owned()),
        }
        let mut task = TaskSpec::of(cmd);
        let largest = self.machines.first()?.1.capacity;
        let share = |of: u64, random: &mut Random| (of / 64 * random.within(1..40)).max(1);
        task.limit = Resources {
            cpu: MilliCores(share(largest.cpu.0, random)),
            ram: Bytes(share(largest.ram.0, random)),
            ..Resources::default()
        };
        // Without a random number: the others stay those of the seed.
        task.memory_slack = task.limit.ram.0.is_multiple_of(5);
        task.notice = Span::from_millis(random.below(12_000));
        if random.chance(300) {
            let port = PortName::new("http").ok()?;
            task.ports.insert(port.clone());
            if random.chance(500) {
                task.health_check = Some(HealthCheck::on(port));
                task.cmd.push("sick=100".to_owned());
            }
            match task.notice.as_millis() % 6 {
                0 | 3 => own_network(&mut task),
                // At most as many of these as machines run at once.
                1 => task.static_ports = [(PortName::new("https").ok()?, 443)].into(),
                2 => task.readiness = task.health_check.clone(),
                _ => {}
            }
        }
        if random.chance(250) {
            task.saver = Some(self.saver());
        }
        if self.random.chance(200) {
            task.constraints.extend(self.constraint());
        }
        Some(task)
    }

    /// A saver that succeeds at once, late or never.
    fn saver(&mut self) -> Saver {
        let random = &mut self.random;
        let often = |random: &mut Random| [0, 0, 300, 900][random.index(4)];
        let mut cmd = vec!["save".to_owned(), format!("takes={}", 1 << random.below(15))];
        cmd.push(format!("fails={}", often(random)));
        cmd.push(format!("hangs={}", often(random) / 3));
        let time_limit = Span::from_secs(random.within(5..60));
        Saver { time_limit, interval: Span::from_secs(random.within(1..10)), ..Saver::of(cmd) }
    }

    fn alive(&mut self, cell: &Cell) -> Option<(usize, Arc<Job>)> {
        let alive = |job: &&Arc<Job>| !matches!(job.state, JobState::Dead { .. });
        let jobs: Vec<_> = cell.jobs().filter(alive).cloned().collect();
        let job = self.random.one_of(&jobs)?.clone();
        let owner = self.users.iter().position(|user| *user == job.owner)?;
        Some((owner, job))
    }

    fn kill(&mut self, cell: &Cell) -> Option<Action> {
        let (owner, job) = self.alive(cell)?;
        let tasks = if self.random.chance(600) {
            TaskSelection::All
        } else {
            let index =
                TaskIndex(u32::try_from(self.random.below(job.spec.tasks.max(1).into())).ok()?);
            TaskSelection::Some(vec![(index, index)])
        };
        Some(Action::Request(owner, Mutation::Kill(Kill::of(&job, tasks))))
    }

    /// An update, of some tasks or of all, or something that is done with an open one.
    fn update(&mut self, cell: &Cell) -> Option<Action> {
        let (by, job) = self.alive(cell)?;
        let (owner, name) = (job.owner.clone(), job.spec.name.clone());
        if job.open_update().is_some() && self.random.chance(600) {
            let actions = [
                UpdateAction::Pause,
                UpdateAction::Resume,
                UpdateAction::Resume,
                UpdateAction::Undo,
                UpdateAction::Close,
            ];
            let action = *self.random.one_of(&actions)?;
            let control = ControlUpdate { owner, job: name, action, to: None, expected: None };
            return Some(Action::Request(by, control.into()));
        }
        if self.random.chance(150) {
            let tasks = 1 + u32::try_from(self.random.below(12)).ok()?;
            let resize = ResizeJob { owner, job: name, tasks, expected: None };
            return Some(Action::Request(by, resize.into()));
        }
        let mut spec = self.changed_spec(&job)?;
        if self.random.chance(300) {
            spec.disruptions.at_once = Some(u32::try_from(self.random.below(3)).ok()?);
        }
        if self.random.chance(100) {
            spec.disruptions.per_hour = Some(u32::try_from(self.random.below(6)).ok()?);
        }
        if self.random.chance(300) {
            return Some(Action::Request(by, Mutation::Submit(Arc::new(spec))));
        }
        let tasks = match self.random.chance(700) {
            true => TaskSelection::All,
            false => TaskSelection::Some(vec![(TaskIndex(0), TaskIndex(spec.tasks / 2))]),
        };
        let most = self.random.chance(200).then(|| self.random.below(4));
        let policy = UpdatePolicy {
            batch: self.random.chance(500).then_some(1 + spec.tasks / 4),
            healthy_for: Span::from_secs(self.random.below(4)),
            healthy_within: Span::from_secs(self.random.within(5..40)),
            wait: Span::from_secs(self.random.below(3)),
            disruptions: most.and_then(|most| u32::try_from(most).ok()),
            on_failure: *self.random.one_of(&[
                OnFailure::Undo,
                OnFailure::Undo,
                OnFailure::Pause,
            ])?,
            close_after: Span::from_secs(self.random.below(60)),
        };
        let (spec, policy) = (Arc::new(spec), Some(policy));
        let update = UpdateJob { owner, spec, tasks, policy, expected: None };
        Some(Action::Request(by, update.into()))
    }

    /// The description of a job with a change: in place, one that restarts tasks, or one that fails.
    fn changed_spec(&mut self, job: &Job) -> Option<JobSpec> {
        let mut spec = JobSpec::clone(&job.spec);
        match self.random.below(20) {
            12..18 if !spec.kind.is_alloc_set() => {
                spec.task.cmd.push(format!("version={}", self.random.below(1_000)));
                spec.task.cmd.retain(|word| word != "broken");
            }
            18 if !spec.kind.is_alloc_set() => spec.task.cmd.push("broken".to_owned()),
            19 if !spec.kind.is_alloc_set() => spec.task.cmd.push("fails=500".to_owned()),
            0 => spec.priority = Priority::new(i64::try_from(self.random.below(451)).ok()?).ok()?,
            1 => spec.task.constraints.clear(),
            2 => spec.task.constraints.extend(self.constraint()),
            3 => {
                spec.restart.failures_max = Some(u32::try_from(self.random.below(6)).ok()?);
                spec.restart.delay = Span::from_millis(self.random.within(100..3_000));
            }
            4 => {
                let index =
                    TaskIndex(u32::try_from(self.random.below(spec.tasks.max(1).into())).ok()?);
                let limit = Some(self.changed(spec.task.limit));
                match spec.sizing {
                    Sizing::Number => spec.overrides.entry(index).or_default().limit = limit,
                    Sizing::EveryMachine => {}
                }
            }
            _ => spec.task.limit = self.changed(spec.task.limit),
        }
        Some(spec)
    }

    /// Scales it by 0.5 to 1.5.
    fn changed(&mut self, limit: Resources) -> Resources {
        let ram = Bytes((limit.ram.0 / 100 * self.random.within(50..140)).max(1));
        let cpu = MilliCores((limit.cpu.0 * self.random.within(50..140) / 100).max(1));
        Resources { ram, cpu, ..limit }
    }

    fn constraint(&mut self) -> Option<Constraint> {
        let value = format!("r{}", self.random.below(self.machines.len() as u64 / 4 + 2));
        let (relation, hard) = (Relation::Equal, self.random.chance(500));
        Some(Constraint { attribute: "rack".to_owned(), relation, value, hard })
    }

    /// What the jobs of all users need, granted once; it may be revoked later.
    fn rights(&mut self) -> Vec<Action> {
        if std::mem::replace(&mut self.granted, true) {
            return Vec::new();
        }
        let grant = |user: &UserName| {
            let (user, capability) = (user.clone(), Capability::StaticPorts);
            let granted = SetCapability { user, capability, granted: true };
            Action::Request(0, Mutation::SetCapability(granted))
        };
        self.users.iter().skip(1).map(grant).collect()
    }

    /// A request about quota or capabilities. Enforcement is switched now and then, since charges
    /// have to be right in any case.
    fn quota(&mut self, now: Time) -> Option<Action> {
        let user = self.random.one_of(&self.users)?.clone();
        let mutation = match self.random.below(10) {
            0..5 => {
                let bands = [Band::Production, Band::Mid, Band::BestEffortBatch, Band::Monitoring];
                let band = *self.random.one_of(&bands)?;
                let largest = self.machines.first()?.1.capacity;
                let amount = largest.times(self.random.within(1..4));
                let until =
                    self.random.chance(500).then(|| now + self.random.wait(Span::from_secs(120)));
                Mutation::GrantQuota(GrantQuota { user, band, amount, from: None, until })
            }
            5 => Mutation::RevokeQuota(RevokeQuota { grant: GrantId(self.random.within(1..30)) }),
            6 => {
                let percent = u32::try_from(self.random.within(50..500)).ok()?;
                Mutation::Oversell(Oversell { band: Band::Mid, percent })
            }
            7 => Mutation::MeterQuota(MeterQuota { on: self.random.chance(600) }),
            _ => {
                let capability = *self.random.one_of(&Capability::ALL)?;
                // The administrator of the world repairs it to the end.
                let stays =
                    capability == Capability::AdministerCell && self.users.first() == Some(&user);
                let granted = self.random.chance(700) || stays;
                Mutation::SetCapability(SetCapability { user, capability, granted })
            }
        };
        // Users without permission are rejected.
        let by = if self.random.chance(900) { 0 } else { self.owner() };
        Some(Action::Request(by, mutation))
    }

    fn machine(&mut self, now: Time) -> Option<Action> {
        let number = self.random.index(self.machines.len());
        let machine = self.machines.get(number)?.0.clone();
        let is_drained = self.drained.get(&number).copied().unwrap_or(false);
        let mutation = match (self.random.below(5), is_drained) {
            (0, true) => {
                // Only if nothing is on it; the world adds it again at the end.
                self.drained.insert(number, false);
                Mutation::RemoveMachine(RemoveMachine { machine, force: true })
            }
            (1, _) => Mutation::AddMachine(AddMachine { name: machine, address: address(number) }),
            (0, _) => {
                let value = format!("r{}", self.random.below(self.machines.len() as u64 / 4 + 1));
                let changes = [("rack".to_owned(), Some(value))].into();
                Mutation::SetAttributes(SetAttributes { machine, changes })
            }
            (_, false) => {
                self.drained.insert(number, true);
                let mut drain = DrainMachine::of(machine, "repair");
                if self.random.chance(400) {
                    drain.deadline = Some(now + Span::from_secs(self.random.within(1..60)));
                    drain.force = self.random.chance(500);
                }
                drain.into()
            }
            (_, true) => {
                self.drained.insert(number, false);
                Mutation::UndrainMachine(UndrainMachine { machine })
            }
        };
        Some(Action::Request(0, mutation))
    }
}

impl Load for Mixed {
    fn next(&mut self, now: Time) -> Option<Time> {
        (!self.stopped).then(|| now + self.random.wait(self.mean))
    }

    fn action(&mut self, now: Time, cell: Option<&Cell>, _: &mut Random) -> Vec<Action> {
        let Some(cell) = cell.filter(|_| !self.stopped) else { return Vec::new() };
        let action = match self.random.below(21) {
            20 => self.quota(cell.time()),
            0..11 => self.submit(cell),
            11..14 => self.kill(cell),
            14..16 => self.update(cell),
            16..18 => self.machine(cell.time()),
            _ => Some(Action::Repeat(self.random.index(self.users.len()))),
        };
        let locks = self.locks.actions(now);
        let (volumes, secrets) = (self.volumes.actions(), self.secrets.actions());
        let rights = self.rights();
        let moves = self.moves.actions(cell);
        let others = locks.into_iter().chain(volumes).chain(secrets).chain(moves);
        rights.into_iter().chain(action).chain(others).collect()
    }

    fn answered(&mut self, _: &UserName, what: &Mutation, answer: &Result<Reply, Rejection>) {
        self.locks.answered(what, answer);
    }

    fn stop(&mut self) {
        self.stopped = true;
    }
}

/// Gives a task a network of its own, and its ports numbers.
fn own_network(task: &mut TaskSpec) {
    task.static_ports.clear();
    let names = std::mem::take(&mut task.ports).into_iter();
    let known = task.network.numbers().clone();
    task.network = Network::Own { ports: names.zip(80..).chain(known).collect() };
}

/// The reverse.
fn host_network(task: &mut TaskSpec) {
    task.ports.extend(task.network.numbers().keys().cloned());
    task.network = Network::Host;
}
