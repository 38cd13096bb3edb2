//! What tasks may use, and use: the cell's numbers beside those that the machines measured.

use std::collections::{BTreeMap, BTreeSet};

use api::v1;
use api::v1::usage_request::{Of, Tasks};
use borglet::Measured;
use cell::{Cell, Health, Job, Machine, MachineState, Phase, Task, TaskState};
use model::{Band, DigestPrefix, HeldPackage, HeldUse, Resources, TaskIndex, TaskSelection};
use tonic::Status;

use super::views::health;
use super::views::{machine_status, task_status};
use super::{Reads, selection_of};
use crate::usage::{MachineUsed, TaskUsed, Used};

/// How many packages of a machine are shown at most.
const PACKAGES_SHOWN_MAX: usize = 200;

impl Reads<'_> {
    /// The response: totals, if they are known, and what is requested.
    pub(crate) fn usage(
        &self,
        of: &Of,
        used: &Used,
        has_totals: bool,
    ) -> Result<v1::UsageResponse, Status> {
        let (mut machines, mut jobs, mut tasks) = Default::default();
        match of {
            Of::Cell(_) => {}
            Of::Machines(asked) => machines = self.machines_used(&asked.names, used)?,
            Of::Jobs(asked) => jobs = self.jobs_used(&asked.user, used),
            Of::Tasks(asked) => tasks = self.tasks_used(asked, used)?,
        }
        Ok(v1::UsageResponse {
            index: self.cell.index().0,
            time: self.now.0,
            cell: has_totals.then(|| cell_used(self.cell, used)),
            machines,
            jobs,
            tasks,
            missing: Vec::new(),
            history: Vec::new(),
        })
    }

    fn machines_used(
        &self,
        names: &[String],
        used: &Used,
    ) -> Result<Vec<v1::MachineUsage>, Status> {
        let mut machines = match names {
            [] => self.cell.machines().collect::<Vec<_>>(),
            some => some.iter().map(|name| self.machine_named(name)).collect::<Result<_, _>>()?,
        };
        machines.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let names = (!names.is_empty()).then(|| self.package_names(used));
        let machine = |machine: &Machine| {
            let mut found = self.machine_used(machine, used);
            if let (Some(names), Some(held)) = (&names, used.held.get(&machine.id)) {
                tell_of_packages(&mut found, held, names);
            }
            found
        };
        Ok(machines.into_iter().map(|one| machine(one)).collect())
    }

    fn machine_used(&self, machine: &Machine, used: &Used) -> v1::MachineUsage {
        let status = machine_status(machine, self.now);
        let found = used.machines.get(&machine.id);
        let MachineUsed { at, all, system, tasks, measured } = found.copied().unwrap_or_default();
        v1::MachineUsage {
            id: machine.id.0,
            name: machine.name.to_string(),
            state: status.state,
            capacity: status.capacity,
            at: at.0,
            used: Some((&all).into()),
            system: Some((&system).into()),
            tasks: Some(v1::UsageTotal {
                running: status.tasks,
                measured,
                limit: Some((&machine.taken()).into()),
                reservation: Some((&machine.reserved()).into()),
                used: Some((&tasks).into()),
            }),
            draining: machine.drain.is_some(),
            ..v1::MachineUsage::default()
        }
    }

    /// The names of the packages on machines that the caller may use.
    fn package_names(&self, used: &Used) -> BTreeMap<DigestPrefix, String> {
        let there: BTreeSet<DigestPrefix> =
            used.held.values().flat_map(|held| held.iter()).map(|held| held.package).collect();
        let mut names = BTreeMap::new();
        if there.is_empty() {
            return names;
        }
        for package in self.cell.packages() {
            let prefix = package.digest.prefix();
            if there.contains(&prefix) && (self.administers_jobs || package.admits(self.me)) {
                names.entry(prefix).or_insert_with(|| package.id.to_string());
            }
        }
        names
    }

    fn jobs_used(&self, user: &str, used: &Used) -> Vec<v1::JobUsage> {
        let wanted = |job: &&std::sync::Arc<Job>| {
            job.is_alive() && (user.is_empty() || job.owner.as_str() == user)
        };
        self.cell.named_jobs().filter(wanted).map(|job| self.job_used(job, used)).collect()
    }

    fn job_used(&self, job: &Job, used: &Used) -> v1::JobUsage {
        let healthy = |(_, task): (TaskIndex, &Task)| Self::health(task);
        let healthy = job.tasks().filter_map(healthy).filter(|health| *health == Health::Healthy);
        v1::JobUsage {
            user: job.owner.to_string(),
            job: job.spec.name.to_string(),
            priority: job.spec.priority.number().into(),
            band: v1::Band::from(job.spec.priority.band()).into(),
            alloc_set: job.spec.kind.is_alloc_set(),
            tasks: job.spec.tasks,
            pending: job.pending(),
            healthy: u32::try_from(healthy.count()).unwrap_or(u32::MAX),
            total: Some(Total::of_job(job, used).into()),
            failures: job.tasks().map(|(_, task)| u64::from(task.failures)).sum(),
        }
    }

    fn tasks_used(&self, asked: &Tasks, used: &Used) -> Result<Vec<v1::TaskUsage>, Status> {
        let job = self.find(&asked.job.clone().unwrap_or_default())?;
        let selected: TaskSelection = selection_of(job, asked.tasks.clone())?;
        let tasks = job.tasks().filter(|(index, _)| selected.contains(*index));
        Ok(tasks.map(|(index, task)| self.task_used(job, index, task, used)).collect())
    }

    fn task_used(&self, job: &Job, index: TaskIndex, task: &Task, used: &Used) -> v1::TaskUsage {
        let id = model::TaskId { collection: job.id, index };
        let first = id.generation(model::Generation(0));
        let last = id.generation(model::Generation(u32::MAX));
        let known = used.tasks.range(first..=last);
        let windows = known.flat_map(|(instance, used)| {
            used.windows.values().map(|window| v1::task_usage::Window {
                generation: instance.generation.0,
                window: Some(window.clone()),
            })
        });
        let current: Option<&TaskUsed> = match &task.state {
            TaskState::Running(_) => used.tasks.get(&id.generation(task.generation)),
            _ => None,
        };
        let newest = current.and_then(|used| used.newest);
        let status = task_status(self.cell, job, index, self.now);
        v1::TaskUsage {
            index: index.0,
            generation: task.generation.0,
            state: status.state,
            health: status.health,
            machine: match &task.state {
                TaskState::Running(_) => status.machine,
                _ => String::new(),
            },
            failures: task.failures,
            limit: Some((&job.limit(index)).into()),
            reservation: Some((&job.reservation(index)).into()),
            at: newest.map_or(0, |(at, _)| at.0),
            used: newest.map(|(_, used)| (&used).into()),
            windows: windows.collect(),
        }
    }

    /// The health of a task that runs.
    fn health(task: &Task) -> Option<Health> {
        let TaskState::Running(placement) = &task.state else { return None };
        matches!(placement.phase, Phase::Started { .. }).then(|| health(placement))
    }
}

/// Adds the packages of a machine: those being fetched first, then the largest.
fn tell_of_packages(
    machine: &mut v1::MachineUsage,
    held: &[HeldPackage],
    names: &BTreeMap<DigestPrefix, String>,
) {
    let mut shown: Vec<&HeldPackage> = held.iter().collect();
    shown.sort_by_key(|held| {
        (held.held_use != HeldUse::Fetching, std::cmp::Reverse(held.bytes), held.package)
    });
    shown.truncate(PACKAGES_SHOWN_MAX);
    let package = |held: &HeldPackage| {
        let name = names.get(&held.package);
        v1::MachinePackage {
            name: name.cloned().unwrap_or_default(),
            digest: name.map(|_| held.package.to_string()).unwrap_or_default(),
            bytes: held.bytes.0,
            needs: held.needs.0,
            r#use: v1::HeldUse::from(held.held_use).into(),
        }
    };
    machine.packages = shown.into_iter().map(package).collect();
    machine.package_count = u32::try_from(held.len()).unwrap_or(u32::MAX);
    machine.package_bytes = held.iter().map(|held| held.bytes.0).fold(0, u64::saturating_add);
}

/// The totals of a cell.
pub(crate) fn cell_used(cell: &Cell, used: &Used) -> v1::CellUsage {
    let mut bands: BTreeMap<Band, Total> = BTreeMap::new();
    let mut pending = 0;
    for job in cell.named_jobs().filter(|job| job.is_alive()) {
        pending += job.pending();
        if !job.spec.kind.is_alloc_set() {
            let total = bands.entry(job.spec.priority.band()).or_default();
            total.add(&Total::of_job(job, used));
        }
    }
    let mut all = Total::default();
    bands.values().for_each(|total| all.add(total));
    let is_up = |machine: &&std::sync::Arc<Machine>| machine.state == MachineState::Up;
    let up = || cell.machines().filter(is_up);
    let capacity = up().fold(Resources::default(), |sum, machine| sum.plus(machine.capacity()));
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    v1::CellUsage {
        machines: count(cell.machine_count()),
        machines_up: count(up().count()),
        capacity: Some((&capacity).into()),
        used: Some((&used.all).into()),
        system: Some((&used.system).into()),
        tasks: Some(all.into()),
        bands: bands.into_iter().map(|(band, total)| of_band(band, total)).collect(),
        pending,
        work: Some(used.work),
    }
}

/// What running tasks may use, and use.
#[derive(Default)]
struct Total {
    running: u32,
    measured: u32,
    limit: Resources,
    reservation: Resources,
    used: Measured,
}

impl Total {
    fn of_job(job: &Job, used: &Used) -> Self {
        let mut total = Self::default();
        for (index, task) in job.tasks() {
            if matches!(task.state, TaskState::Running(_)) {
                total.running += 1;
                total.limit = total.limit.plus(job.limit(index));
                total.reservation = total.reservation.plus(job.reservation(index));
            }
        }
        if let Some((measured, used)) = used.jobs.get(&job.id) {
            (total.measured, total.used) = (*measured, *used);
        }
        total
    }

    fn add(&mut self, other: &Self) {
        self.running += other.running;
        self.measured += other.measured;
        self.limit = self.limit.plus(other.limit);
        self.reservation = self.reservation.plus(other.reservation);
        self.used = self.used.plus(&other.used);
    }
}

impl From<Total> for v1::UsageTotal {
    fn from(total: Total) -> Self {
        Self {
            running: total.running,
            measured: total.measured,
            limit: Some((&total.limit).into()),
            reservation: Some((&total.reservation).into()),
            used: Some((&total.used).into()),
        }
    }
}

fn of_band(band: Band, total: Total) -> v1::cell_usage::Band {
    v1::cell_usage::Band { band: v1::Band::from(band).into(), total: Some(total.into()) }
}
