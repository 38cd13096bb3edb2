//! The cell's own check: everything derived is derived again from jobs and tasks and compared, and
//! what must hold between objects is looked at. Tests, tools and a running master share it; it
//! changes nothing and costs a pass over the whole cell.
//!
//! What is deliberately not checked: that a machine's tasks are within its capacity. That is judged
//! when a task is placed; a capacity lowered later breaks nothing (design, section 5).

mod violation;

#[cfg(test)]
mod tests;

pub use violation::{Counted, Violation};

use std::collections::{BTreeMap, BTreeSet};

use model::{InstanceId, MachineId, Resources};

use crate::state::bounds::{ANSWERS_MAX, SESSIONS_MAX};
use crate::{Cell, Job, JobState, Machine, Placement, TaskState};

/// What a machine should have, by the tasks that are placed on it.
#[derive(Debug, Default)]
struct Load {
    instances: BTreeSet<InstanceId>,
    taken: Resources,
    ports: Vec<u16>,
}

impl Cell {
    /// Everything in it that contradicts the rest; empty for every cell that [`Cell::apply`] made.
    #[must_use]
    pub fn check(&self) -> Vec<Violation> {
        let mut found = Found { violations: Vec::new() };
        let loads = self.check_jobs(&mut found);
        self.check_names(&mut found);
        self.check_machines(&loads, &mut found);
        self.check_sessions(&mut found);
        found.violations
    }

    /// Looks at every job, and gives what the machines should have.
    fn check_jobs(&self, found: &mut Found) -> BTreeMap<MachineId, Load> {
        let mut loads: BTreeMap<MachineId, Load> = BTreeMap::new();
        let (mut jobs, mut tasks) = (0, 0);
        for job in self.jobs() {
            let kept = self.jobs.get(job.id).is_some_and(|kept| kept.id == job.id);
            found.id("job", job.id.0, self.last_collection.0, kept);
            found.job(job);
            let (pending, listed) = (waiting(job), self.pending.contains(&job.id));
            if listed != (pending > 0) {
                found.add(Violation::PendingList { job: job.id, listed, pending });
            }
            for (instance, placement) in placed(job) {
                let machine = placement.machine;
                if self.machines.get(machine).is_none() {
                    found.add(Violation::NoSuchMachine { instance, machine });
                }
                let load = loads.entry(machine).or_default();
                load.instances.insert(instance);
                load.taken = load.taken.plus(job.limit(instance.index));
                load.ports.extend_from_slice(&placement.ports);
            }
            jobs += 1;
            tasks += u64::from(job.spec.tasks);
        }
        for id in self.pending.iter().filter(|id| self.jobs.get(**id).is_none()) {
            found.add(Violation::PendingList { job: *id, listed: true, pending: 0 });
        }
        found.count(Counted::Cell, "jobs", self.jobs.len() as u64, jobs);
        found.count(Counted::Cell, "tasks", self.tasks, tasks);
        loads
    }

    fn check_names(&self, found: &mut Found) {
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
    }

    fn check_machines(&self, loads: &BTreeMap<MachineId, Load>, found: &mut Found) {
        let mut machines = 0;
        for machine in self.machines() {
            let kept = self.machines.get(machine.id).is_some_and(|kept| kept.id == machine.id);
            found.id("machine", machine.id.0, self.last_machine.0, kept);
            match loads.get(&machine.id) {
                Some(load) => found.machine(machine, load),
                None => found.machine(machine, &Load::default()),
            }
            machines += 1;
        }
        found.count(Counted::Cell, "machines", self.machines.len() as u64, machines);
    }

    fn check_sessions(&self, found: &mut Found) {
        let kept: BTreeSet<_> = self.sessions_by_use.iter().copied().collect();
        let used = self.sessions.iter().map(|(id, session)| (session.used, *id)).collect();
        for (used, session) in kept.symmetric_difference(&used).copied() {
            found.add(Violation::SessionUse { session, used });
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
    job.tasks().filter(|(_, task)| matches!(task.state, TaskState::Pending { .. })).count() as u64
}

fn placed(job: &Job) -> impl Iterator<Item = (InstanceId, &Placement)> {
    job.tasks().filter_map(|(index, task)| match &task.state {
        TaskState::Running(placement) => Some((job.instance(index)?, placement)),
        _ => None,
    })
}

struct Found {
    violations: Vec<Violation>,
}

impl Found {
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

    fn at_most(&mut self, what: &'static str, has: usize, most: usize) {
        if has > most {
            self.add(Violation::TooMany { what, has, most });
        }
    }

    fn job(&mut self, job: &Job) {
        let (of, pending, running) = (Counted::Job(job.id), waiting(job), placed(job).count());
        let running = running as u64;
        self.count(of, "tasks", job.tasks().count() as u64, job.spec.tasks.into());
        self.count(of, "pending tasks", job.pending.into(), pending);
        self.count(of, "running tasks", job.running.into(), running);
        let agrees = match job.state {
            JobState::Pending => running == 0 && pending > 0,
            JobState::Running => running + pending > 0,
            JobState::Dead { .. } => running + pending == 0,
        };
        if !agrees {
            self.add(Violation::JobState { job: job.id, state: job.state, pending, running });
        }
        if !job.ports.iter().eq(&job.spec.task.all_ports()) {
            self.add(Violation::PortNames(job.id));
        }
        for (instance, placement) in placed(job) {
            let (has, asks) = (placement.ports.len(), job.ports(instance.index).len());
            if has != asks {
                self.add(Violation::PortCount { instance, has, asks });
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
        let mut counted = load.ports.clone();
        counted.sort_unstable();
        for pair in counted.windows(2).filter(|pair| pair[0] == pair[1]) {
            self.add(Violation::PortTwice { machine: id, port: pair[0] });
        }
        if machine.ports_taken != counted {
            let kept = machine.ports_taken.clone();
            self.add(Violation::PortsTaken { machine: id, kept, counted });
        }
    }
}
