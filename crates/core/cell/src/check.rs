//! The cell's self-check: everything derived is recomputed from jobs and tasks and compared, and
//! invariants between objects are verified. Tests, tools and a running master share it; it changes
//! nothing and costs a pass over the whole cell.
//!
//! Deliberately not checked here: that a machine's tasks are within its capacity.
//! [`DecisionChecker`] checks that for each decision when it is made; a capacity that is lowered
//! later is no violation (design, section 5).

mod backup;
mod counted;
mod decision;
mod enrolment;
mod every_machine;
mod gang;
mod inputs;
mod locks;
mod moves;
mod packages;
mod queue;
mod quota;
mod replicas;
mod secrets;
mod services;
mod start_latency;
mod update;
mod user;
mod violation;
mod volumes;

#[cfg(test)]
mod tests;

pub use counted::Counted;
pub use decision::DecisionChecker;
pub use every_machine::EveryMachineViolation;
pub use gang::HalfGang;
pub use queue::QueueViolation;
pub use update::VersionViolation;
pub use violation::Violation;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use model::{InstanceId, MachineId, MilliCores, Resources, attribute};

use crate::bounds::{ANSWERS_MAX, ATTRIBUTES_MAX, PLATFORMS_MAX, SESSIONS_MAX};
use crate::feasibility::Sums;
use crate::lifecycle::Stage;
use crate::state::{Taken, Tally};
use crate::{
    Cell, Counts, Job, JobState, Machine, MachineState, Placement, Rescheduling, Stages, Task,
    TaskState, crashes,
};

/// What a machine should have, according to the tasks placed on it.
#[derive(Debug, Default)]
struct Load {
    instances: BTreeSet<InstanceId>,
    taken: Resources,
    sums: Sums,
    ports: Vec<u16>,
    /// Those of them that a task has which is being stopped, and another one may wait for.
    leaving_ports: Vec<u16>,
    addresses: Vec<Ipv4Addr>,
    /// The limits of those that have whole cores.
    exclusive: Vec<MilliCores>,
    /// Number of tasks in each alloc, the sum of their limits, and their ports there.
    used: BTreeMap<InstanceId, (u32, Resources, Vec<u16>)>,
}

impl Load {
    fn add(&mut self, job: &Job, instance: InstanceId, placement: &Placement) {
        let demand = job.demand(instance.index);
        self.instances.insert(instance);
        self.taken = self.taken.plus(demand.limit);
        self.sums.add(&demand);
        self.ports.extend_from_slice(placement.machine_ports());
        if placement.stop.is_some() {
            let fixed = job.static_ports(instance.index).values();
            self.leaving_ports
                .extend(fixed.filter(|port| placement.machine_ports().contains(port)));
        }
        self.addresses.extend(placement.machine_address());
        self.exclusive.extend(demand.exclusive.then_some(demand.limit.cpu));
        if let Some(alloc) = placement.alloc() {
            let (tasks, taken, ports) = self.used.entry(alloc).or_default();
            (*tasks, *taken) = (*tasks + 1, taken.plus(job.limit(instance.index)));
            ports.extend_from_slice(placement.alloc_ports());
            ports.sort_unstable();
        }
    }
}

impl Cell {
    /// All violations of invariants in this cell; empty for every cell that [`Cell::apply`]
    /// produced.
    #[must_use]
    pub fn check(&self) -> Vec<Violation> {
        let mut found = Violations { violations: Vec::new() };
        let loads = self.check_jobs(&mut found);
        self.check_relations(&mut found);
        self.check_names(&mut found);
        self.check_machines(&loads, &mut found);
        self.check_rescheduling(&mut found);
        self.check_users(&mut found);
        self.check_replicas(&mut found);
        self.check_enrolment(&mut found);
        self.check_sessions(&mut found);
        self.check_quota(&mut found);
        self.check_updates(&mut found);
        self.check_locks(&mut found);
        self.check_services(&mut found);
        self.check_volumes(&mut found);
        self.check_every_machine(&mut found);
        self.check_packages_kept(&mut found);
        self.check_secrets_kept(&mut found);
        self.check_inputs(&mut found);
        self.check_backups(&mut found);
        self.check_queue(&mut found);
        found.violations
    }

    /// Checks every job, and computes what the machines should have.
    fn check_jobs(&self, found: &mut Violations) -> BTreeMap<MachineId, Load> {
        let mut loads: BTreeMap<MachineId, Load> = BTreeMap::new();
        let (mut jobs, mut tasks) = (0, 0);
        for job in self.jobs() {
            let kept = self.jobs.get(job.id).is_some_and(|kept| kept.id == job.id);
            found.id("job", job.id.0, self.last_collection.0, kept);
            found.job(job);
            found.gang(job);
            let (pending, listed) = (waiting(job), self.pending.contains(&job.id));
            if listed != (pending > 0) {
                found.add(Violation::PendingList { job: job.id, listed, pending });
            }
            for (instance, placement) in placed(job) {
                let machine = placement.machine;
                if self.machines.get(machine).is_none() {
                    found.add(Violation::NoSuchMachine { instance, machine });
                }
                loads.entry(machine).or_default().add(job, instance, placement);
                self.check_alloc(job, instance, placement, found);
                self.check_start_latency(job, instance, placement, found);
            }
            jobs += 1;
            tasks += u64::from(job.rows());
        }
        for id in self.pending.iter().filter(|id| self.jobs.get(**id).is_none()) {
            found.add(Violation::PendingList { job: *id, listed: true, pending: 0 });
        }
        found.count(Counted::Cell, "jobs", self.jobs.len() as u64, jobs);
        found.count(Counted::Cell, "tasks", self.tasks, tasks);
        let counted = Tally::counted(self.jobs());
        for ((band, kept), counted) in self.stages().zip(counted.bands) {
            found.stages(&Counted::Band(band), kept, counted);
        }
        let users: BTreeSet<_> = counted.users.keys().chain(self.tally.users.keys()).collect();
        for user in users {
            let of = Counted::User(user.clone());
            let (kept, counted) = (self.tally.of_user(user), counted.of_user(user));
            found.stages(&of, kept.stages, counted.stages);
            let bytes = |of: Taken| of.description_bytes;
            found.count(of, "bytes of descriptions", bytes(kept), bytes(counted));
        }
        let (kept, is) = (self.tally.description_bytes, counted.description_bytes);
        found.count(Counted::Cell, "bytes of descriptions", kept, is);
        loads
    }

    /// A task in an alloc is on the alloc's machine, and is stopped when the alloc is.
    fn check_alloc(
        &self,
        job: &Job,
        instance: InstanceId,
        placement: &Placement,
        found: &mut Violations,
    ) {
        let why = match (job.alloc_set, placement.alloc()) {
            (None, None) => return,
            (Some(set), Some(alloc)) if alloc.collection == set => match self.placement(alloc) {
                Some(there) if there.machine != placement.machine => "is on another machine",
                Some(there) if there.stop.is_some() && placement.stop.is_none() => {
                    "is being stopped, while the task is not"
                }
                Some(_) => return,
                None => "is on no machine",
            },
            _ => "is not in its job's alloc set",
        };
        found.add(Violation::Alloc { instance, alloc: placement.alloc(), why });
    }

    /// What a job and its tasks wait for is alive, and named in its description.
    fn check_waits(&self, job: &Job, found: &mut Violations) {
        let whole = job.waits_for.iter().map(|other| (*other, false));
        let by_task = job.follows.iter().map(|other| (*other, true));
        for (other, each_task) in whole.chain(by_task) {
            let alive = self.jobs.get(other).is_some_and(|other| other.is_alive());
            let mut named = job.after.iter();
            if !alive || !named.any(|one| one.job == other && one.each_task == each_task) {
                found.add(Violation::WaitsInVain { job: job.id, other });
            }
        }
        // Those of other jobs may wait in the batch queue, or have waited there.
        let one_by_one = job.spec.follows_task_by_task();
        for (index, task) in job.tasks().filter(|_| one_by_one) {
            let queued = matches!(task.state, TaskState::Queued { .. });
            if queued && job.waits_for.is_empty() && !self.is_held_back(job, index) {
                let task = model::TaskId { collection: job.id, index };
                found.add(Violation::QueuedInVain(task));
            }
        }
    }

    /// The relations between jobs: who waits for whom, and who ends with whom.
    fn check_relations(&self, found: &mut Violations) {
        let (mut waiting, mut children) = (BTreeSet::new(), BTreeSet::new());
        for job in self.jobs() {
            let itself = Some(job.id);
            if job.parent == itself
                || job.alloc_set == itself
                || job.after.iter().any(|after| after.job == job.id)
            {
                found.add(Violation::OwnParent(job.id));
            }
        }
        for job in self.jobs().filter(|job| job.is_alive()) {
            waiting.extend(job.waits_or_follows().map(|other| (other, job.id)));
            children.extend(job.parent.into_iter().chain(job.alloc_set).map(|with| (with, job.id)));
            self.check_waits(job, found);
            let dead = |parent| self.jobs.get(parent).is_none_or(|parent| !parent.is_alive());
            let stays = |task: &Task| match &task.state {
                TaskState::Running(placement) => placement.killed().is_none(),
                TaskState::Queued { .. } | TaskState::Pending { .. } => true,
                TaskState::Dead { .. } => false,
            };
            if let Some(set) = job.alloc_set.and_then(|set| self.jobs.get(set))
                && set.is_alive()
                && job.highest_priority() > set.priority_for_inside()
            {
                found.add(Violation::PriorityInside { job: job.id, set: set.id });
            }
            let with = job.parent.into_iter().chain(job.alloc_set);
            if let Some(parent) = with.into_iter().find(|parent| dead(*parent))
                && let Some((index, _)) = job.tasks().find(|(_, task)| stays(task))
            {
                let task = model::TaskId { collection: job.id, index };
                found.add(Violation::OutlivesParent { task, parent });
            }
        }
        let kept: BTreeSet<_> = self.waiting.iter().copied().collect();
        for (other, job) in waiting.symmetric_difference(&kept).copied() {
            found.add(Violation::Relation { what: "waits for", job, other });
        }
        let kept: BTreeSet<_> = self.children.iter().copied().collect();
        for (other, job) in children.symmetric_difference(&kept).copied() {
            found.add(Violation::Relation { what: "is a child of", job, other });
        }
    }

    fn check_names(&self, found: &mut Violations) {
        let mut named = BTreeSet::new();
        let mut living = BTreeMap::new();
        for job in self.jobs() {
            let (owner, name) = (job.owner.clone(), job.spec.name.clone());
            named.insert((owner.clone(), name.clone(), job.id));
            if job.is_alive()
                && let Some(first) = living.insert((owner.clone(), name.clone()), job.id)
            {
                found.add(Violation::TwoLiving { owner, name, first, second: job.id });
            }
        }
        let kept: BTreeSet<_> = self.job_names.iter().cloned().collect();
        for (owner, name, job) in named.symmetric_difference(&kept).cloned() {
            found.add(Violation::JobName { owner, name, job });
        }
        let kept: BTreeSet<_> = self.machine_names.iter().map(|(n, id)| (n.clone(), *id)).collect();
        let named = self.machines().map(|machine| (machine.name.clone(), machine.id)).collect();
        for (name, machine) in kept.symmetric_difference(&named).cloned() {
            found.add(Violation::MachineName { name, machine });
        }
        let kept: BTreeSet<_> =
            self.machine_addresses.iter().map(|(at, id)| (at.to_string(), *id)).collect();
        let at: BTreeSet<_> =
            self.machines().map(|machine| (machine.address.to_string(), machine.id)).collect();
        for (address, machine) in kept.symmetric_difference(&at).cloned() {
            found.add(Violation::MachineAddress { address, machine });
        }
    }

    fn check_machines(&self, loads: &BTreeMap<MachineId, Load>, found: &mut Violations) {
        let mut machines = 0;
        for machine in self.machines() {
            let kept = self.machines.get(machine.id).is_some_and(|kept| kept.id == machine.id);
            found.id("machine", machine.id.0, self.last_machine.0, kept);
            match loads.get(&machine.id) {
                Some(load) => found.machine(machine, load),
                None => found.machine(machine, &Load::default()),
            }
            let mut derived = Machine::clone(machine);
            derived.derive(&self.platforms);
            if (&derived.attributes, derived.gcu) != (&machine.attributes, machine.gcu) {
                found.add(Violation::Attributes(machine.id));
            }
            let (most, crashes) = (ATTRIBUTES_MAX, machine.crashes.len());
            found.at_most("attributes of a machine", machine.operator_attributes.len(), most);
            found.at_most("attributes of a machine", machine.report.attributes.len(), most);
            found.at_most("crashes of a machine", crashes, crashes::TASKS_MAX);
            self.check_state(machine, found);
            for used in &machine.used {
                let limit = self.job(used.alloc.collection).map(|set| set.limit(used.alloc.index));
                let (limit, taken) = (limit.unwrap_or_default(), used.taken);
                if taken.first_above(&limit).is_some() {
                    found.add(Violation::AllocOverfull { alloc: used.alloc, taken, limit });
                }
            }
            machines += 1;
        }
        let switches = self.machines().filter_map(|machine| {
            Some((Arc::from(machine.attribute(attribute::SWITCH)?), machine.id))
        });
        let (kept, said) = (self.switches.iter().cloned().collect(), switches.collect());
        for (switch, machine) in BTreeSet::symmetric_difference(&kept, &said) {
            found.add(Violation::Switch { machine: *machine, switch: switch.to_string() });
        }
        for machine in self.machines() {
            let range = machine.report.task_network;
            let first = range.map(|range| range.network().to_bits());
            let is_kept =
                first.is_none_or(|first| self.task_networks.get(&first) == Some(&machine.id));
            if !is_kept {
                found.add(Violation::TaskNetwork(machine.id));
            }
        }
        found.count(Counted::Cell, "machines", self.machines.len() as u64, machines);
        if let Some(problem) = self.logs.problem() {
            found.add(Violation::LogSettings(problem));
        }
        found.at_most("platforms", self.platforms.len(), PLATFORMS_MAX);
        if !crate::has_level(self.level) {
            found.add(Violation::Level(self.level));
        }
    }

    fn check_state(&self, machine: &Machine, found: &mut Violations) {
        let (id, tasks) = (machine.id, machine.instances.len());
        match machine.state {
            MachineState::Down { .. } if tasks > 0 => {
                found.add(Violation::TasksOnDownMachine { machine: id, tasks });
            }
            _ => {}
        }
    }

    fn check_rescheduling(&self, found: &mut Violations) {
        if let Rescheduling::Stopped { silent, of, .. } = self.rescheduling
            && silent > of
        {
            found.add(Violation::MoreSilentThanThere { silent, of });
        }
    }

    fn check_sessions(&self, found: &mut Violations) {
        let kept: BTreeSet<_> = self.sessions_by_use.iter().copied().collect();
        let used = self.sessions.iter().map(|(id, session)| (session.used, *id)).collect();
        for (used, session) in kept.symmetric_difference(&used).copied() {
            found.add(Violation::SessionUse { session, used });
        }
        let kept: BTreeSet<_> = self.sessions_of_users.iter().cloned().collect();
        let of_users = self.sessions.iter();
        let of_users =
            of_users.map(|(id, session)| (session.user.clone(), session.used, *id)).collect();
        for (_, used, session) in kept.symmetric_difference(&of_users).cloned() {
            found.add(Violation::SessionUse { session, used });
        }
        for (number, user) in &self.users_by_sessions {
            let (kept, is) = (*number as u64, self.own_sessions(user).count() as u64);
            found.count(Counted::User(user.clone()), "sessions", kept, is);
        }
        for (id, session) in &self.sessions {
            found.id("session", id.0, self.last_session.0, true);
            found.at_most("answers of a session", session.answers.len(), ANSWERS_MAX);
            if session.used > self.index {
                found.add(Violation::SessionUse { session: *id, used: session.used });
            }
        }
        found.at_most("sessions", self.sessions.len(), SESSIONS_MAX);
    }
}

fn waiting(job: &Job) -> u64 {
    job.tasks().filter(|(_, task)| task.state.stage() == Stage::Pending).count() as u64
}

fn placed(job: &Job) -> impl Iterator<Item = (InstanceId, &Placement)> {
    job.tasks().filter_map(|(index, task)| match &task.state {
        TaskState::Running(placement) => Some((job.instance(index)?, placement)),
        _ => None,
    })
}

pub(super) struct Violations {
    violations: Vec<Violation>,
}

impl Violations {
    fn add(&mut self, violation: Violation) {
        self.violations.push(violation);
    }

    fn id(&mut self, what: &'static str, id: u64, last: u64, kept_under_it: bool) {
        if id == 0 || id > last || !kept_under_it {
            self.add(Violation::IdNotGiven { what, id, last });
        }
    }

    fn count(&mut self, of: Counted, what: &'static str, kept: u64, counted: u64) {
        if kept != counted {
            self.add(Violation::Count { of, what, kept, counted });
        }
    }

    fn stages(&mut self, of: &Counted, kept: Stages, counted: Stages) {
        let of = |what| (of.clone(), what);
        for ((of, what), kept, counted) in [
            (of("queued tasks"), kept.queued, counted.queued),
            (of("pending tasks"), kept.pending, counted.pending),
            (of("running tasks"), kept.running, counted.running),
            (of("dead tasks"), kept.dead, counted.dead),
        ] {
            self.count(of, what, kept, counted);
        }
    }

    fn at_least(&mut self, what: &'static str, of: Counted, has: u32, least: u32) {
        if has < least {
            self.count(of, what, has.into(), least.into());
        }
    }

    fn at_most(&mut self, what: &'static str, has: usize, most: usize) {
        if has > most {
            self.add(Violation::TooMany { what, has, most });
        }
    }

    fn job(&mut self, job: &Job) {
        let (of, mut counts) = (Counted::Job(job.id), Counts::default());
        job.tasks().for_each(|(_, task)| counts.count(task));
        for (what, kept, counted) in [
            ("tasks", u64::from(job.rows()), job.tasks().count() as u64),
            ("tasks that are up", job.counts.up.into(), counts.up.into()),
            ("queued tasks", job.counts.queued.into(), counts.queued.into()),
            ("pending tasks", job.counts.pending.into(), counts.pending.into()),
            ("running tasks", job.counts.running.into(), counts.running.into()),
        ] {
            self.count(of.clone(), what, kept, counted);
        }
        self.at_least("tasks", of, job.rows(), job.spec.tasks);
        let Counts { queued, pending, running, .. } = counts;
        // One with a task on every machine may have no task for a while, and is killed then.
        let none = job.spec.is_on_every_machine() && counts.alive() == 0;
        // It was resized to no tasks, and lives on.
        let empty = job.spec.tasks == 0;
        let agrees = match &job.state {
            JobState::Queued => (queued > 0 || none || empty) && pending == 0 && running == 0,
            JobState::Pending => (queued + pending > 0 || none || empty) && running == 0,
            JobState::Running => queued + running + pending > 0 || none || empty,
            JobState::Dead { death, .. } => {
                counts.alive() == 0 && (none || empty || *death == job.worst_death())
            }
        };
        let waits = !job.waits_for.is_empty();
        if !agrees || (waits && job.state != JobState::Queued) {
            self.add(Violation::JobState { job: job.id, state: job.state.clone(), counts });
        }
        for (index, task) in job.tasks() {
            let crashes = task.crashes.as_ref().map_or(0, |crashes| crashes.len());
            self.at_most("crashes of a task", crashes, crashes::MACHINES_MAX);
            if task.generation.0 == 0 {
                let task = model::TaskId { collection: job.id, index };
                self.add(Violation::NoGeneration(task));
            }
        }
        if let Some(problem) = job.spec.problems_of_resized().first() {
            self.add(Violation::Description { job: job.id, problem: problem.to_string() });
        }
        if !job.ports.iter().eq(&job.spec.task.all_ports()) {
            self.add(Violation::PortNames(job.id));
        }
        for (instance, placement) in placed(job) {
            let (has, asks) = (placement.ports.len(), job.ports(instance.index).len());
            if has != asks {
                self.add(Violation::PortCount { instance, has, asks });
            }
            let (has, asks) = (placement.address.is_some(), job.network(instance.index).is_own());
            if has != asks {
                self.add(Violation::Address { instance, has: placement.address });
            }
        }
    }

    fn machine(&mut self, machine: &Machine, load: &Load) {
        let id = machine.id;
        for instance in &load.instances {
            let times = machine.instances.iter().filter(|listed| *listed == instance).count();
            if times != 1 {
                self.add(Violation::NotListedOnce { instance: *instance, machine: id, times });
            }
        }
        for instance in machine.instances.iter().filter(|listed| !load.instances.contains(listed)) {
            self.add(Violation::ListedInVain { machine: id, instance: *instance });
        }
        if machine.taken != load.taken {
            let (kept, counted) = (machine.taken, load.taken);
            self.add(Violation::Taken { machine: id, kept, counted });
        }
        if Sums::of(machine) != load.sums {
            let (kept, counted) = (Box::new(Sums::of(machine)), Box::new(load.sums));
            self.add(Violation::Sums { machine: id, kept, counted });
        }
        let mut counted = load.ports.clone();
        counted.sort_unstable();
        let mut held = counted.clone();
        for port in &load.leaving_ports {
            if let Ok(position) = held.binary_search(port) {
                held.remove(position);
            }
        }
        for pair in held.windows(2).filter(|pair| pair[0] == pair[1]) {
            self.add(Violation::PortTwice { machine: id, port: pair[0] });
        }
        let mut exclusive = load.exclusive.clone();
        exclusive.sort_unstable();
        if machine.exclusive != exclusive {
            self.add(Violation::WholeCores(id));
        }
        let used = machine.used.iter().map(|it| (&it.alloc, (&it.tasks, &it.taken, &it.ports)));
        if !used.eq(load
            .used
            .iter()
            .map(|(alloc, (tasks, taken, ports))| (alloc, (tasks, taken, ports))))
        {
            self.add(Violation::AllocUse(id));
        }
        for (alloc, (_, _, ports)) in &load.used {
            for pair in ports.windows(2).filter(|pair| pair[0] == pair[1]) {
                self.add(Violation::AllocPortTwice { alloc: *alloc, port: pair[0] });
            }
        }
        let mut addresses = load.addresses.clone();
        addresses.sort_unstable();
        for pair in addresses.windows(2).filter(|pair| pair[0] == pair[1]) {
            self.add(Violation::AddressTwice { machine: id, address: pair[0] });
        }
        if machine.addresses_taken != addresses {
            let (kept, counted) = (machine.addresses_taken.clone(), addresses);
            self.add(Violation::AddressesTaken { machine: id, kept, counted });
        }
        if machine.ports_taken != counted {
            let kept = machine.ports_taken.clone();
            self.add(Violation::PortsTaken { machine: id, kept, counted });
        }
    }
}
