//! Gangs: the tasks of such a job are placed together or not at all, end together when one ends badly, and
//! start again together. A task that has finished leaves the others alone.

use std::collections::{BTreeMap, BTreeSet};

use event::{EvictionCause, KillReason, StopReason};
use model::{CollectionId, Dimension, InstanceId, Resources, TaskId, TaskIndex, Time, UserName};
use spec::{JobSpec, Maximum};

use super::Events;
use crate::feasibility::{VariantsOfPackage, suits_with};
use crate::{Assignment, AssignmentRefused, Cell, Job, Machine, Rejection, TaskState};

impl Job {
    /// Whether its tasks are placed together or not at all.
    #[must_use]
    pub fn is_gang(&self) -> bool {
        self.spec.batch.gang
    }

    /// Whether its gang can be placed: every task of it that is alive is pending.
    #[must_use]
    pub fn is_whole_gang_pending(&self) -> bool {
        self.is_gang() && self.counts.pending > 0 && self.counts.pending == self.counts.alive()
    }
}

impl Cell {
    /// Accepts or rejects assignments: those of a gang together, each other one on its own.
    pub(super) fn assign_each(
        &mut self,
        assignments: &[Assignment],
        began: Option<Time>,
        events: &mut Events,
    ) -> Vec<Result<(), AssignmentRefused>> {
        let mut gangs: BTreeMap<CollectionId, Vec<usize>> = BTreeMap::new();
        for (position, assignment) in assignments.iter().enumerate() {
            let id = assignment.instance.collection;
            if self.jobs.get(id).is_some_and(|job| job.is_gang()) {
                gangs.entry(id).or_default().push(position);
            }
        }
        let mut judged: Vec<Option<Result<(), AssignmentRefused>>> = vec![None; assignments.len()];
        for (position, assignment) in assignments.iter().enumerate() {
            if judged[position].is_some() {
                continue;
            }
            let Some(members) = gangs.remove(&assignment.instance.collection) else {
                judged[position] = Some(self.assign(assignment, began, events));
                continue;
            };
            let together: Vec<&Assignment> = members.iter().map(|at| &assignments[*at]).collect();
            let results = self.assign_gang(&together, began, events);
            for (at, result) in members.into_iter().zip(results) {
                judged[at] = Some(result);
            }
        }
        judged.into_iter().flatten().collect()
    }

    /// Accepts all assignments of a gang, or rejects all.
    fn assign_gang(
        &mut self,
        together: &[&Assignment],
        began: Option<Time>,
        events: &mut Events,
    ) -> Vec<Result<(), AssignmentRefused>> {
        let assigned: BTreeSet<InstanceId> = together.iter().map(|one| one.instance).collect();
        let job = together.first().and_then(|one| self.jobs.get(one.instance.collection));
        let of = job.map_or(0, |job| job.counts.alive());
        let has = u32::try_from(assigned.len()).unwrap_or(u32::MAX);
        if has != of {
            let part = AssignmentRefused::PartOfGang { assigned: has, of };
            return together.iter().map(|_| Err(part.clone())).collect();
        }
        // What one assignment takes is not there for the next, so they are tried in turn.
        let (before, mut of_gang) = (self.clone(), Events::default());
        for (position, one) in together.iter().enumerate() {
            if let Err(why) = self.assign(one, began, &mut of_gang) {
                *self = before;
                let because = one.instance.task();
                let refuse = |(at, _)| match at == position {
                    true => Err(why.clone()),
                    false => Err(AssignmentRefused::WithItsGang { because }),
                };
                return together.iter().enumerate().map(refuse).collect();
            }
        }
        events.append(of_gang);
        together.iter().map(|_| Ok(())).collect()
    }

    /// A task of a gang waits again, is told to stop or is new: the others that are placed stop, and start again
    /// with it.
    pub(super) fn gang_restarts(&mut self, id: CollectionId, task: TaskIndex, events: &mut Events) {
        let Some(job) = self.jobs.get(id).filter(|job| job.is_gang()) else { return };
        let goes_on = |state: &TaskState| matches!(state, TaskState::Running(placement) if placement.stop.is_none());
        let others = job.tasks().filter(|(index, other)| *index != task && goes_on(&other.state));
        let others: Vec<_> = others.filter_map(|(index, _)| job.instance(index)).collect();
        let why = StopReason::Evict(EvictionCause::GangRestarts { task });
        for instance in others {
            self.stop(instance, &why, events);
        }
    }

    /// A task of a gang failed for good, and with it the gang: the others are killed.
    pub(super) fn gang_fails(&mut self, failed: TaskId, events: &mut Events) {
        let TaskId { collection: id, index } = failed;
        let Some(job) = self.jobs.get(id).filter(|job| job.is_gang()) else { return };
        let why = KillReason::GangFailed { task: index };
        for other in (0..job.rows()).map(TaskIndex).filter(|other| *other != index) {
            self.kill_task(id, other, &why, events);
        }
    }

    /// The same for a gang that an update makes larger. Other changes are possible also while machines are away.
    pub(super) fn larger_gang_could_fit(&self, job: &Job, spec: &JobSpec) -> Result<(), Rejection> {
        let grows =
            spec.tasks > job.spec.tasks || smallest_limit(spec) != smallest_limit(&job.spec);
        if grows { self.gang_could_fit(&job.owner, spec) } else { Ok(()) }
    }

    /// Whether all machines together would hold a gang if nothing else ran. It is an upper bound: where tasks
    /// differ, the smallest of each dimension counts.
    pub(super) fn gang_could_fit(&self, owner: &UserName, spec: &JobSpec) -> Result<(), Rejection> {
        if !spec.batch.gang || spec.tasks == 0 {
            return Ok(());
        }
        let limit = smallest_limit(spec);
        let variants = VariantsOfPackage::of(self, owner, spec);
        let differ = spec.overrides.values().any(|own| own.constraints.is_some());
        let suits = |machine: &Machine| differ || suits_with(&variants, spec, machine);
        let (mut machines, mut fits) = (0u32, 0u64);
        for machine in self.machines().filter(|machine| suits(machine)) {
            machines = machines.saturating_add(1);
            fits = fits.saturating_add(hold(machine, spec, limit));
        }
        if fits >= u64::from(spec.tasks) {
            return Ok(());
        }
        let fits = u32::try_from(fits).unwrap_or(u32::MAX);
        Err(Rejection::GangTooLarge { tasks: spec.tasks, limit, fits, machines })
    }
}

/// The smallest limit of any task, in each dimension.
fn smallest_limit(spec: &JobSpec) -> Resources {
    let usual = (0..spec.tasks).map(TaskIndex).find(|index| !spec.overrides.contains_key(index));
    let own = spec.overrides.keys().copied().filter(|index| index.0 < spec.tasks);
    let limits = usual.into_iter().chain(own).map(|index| spec.limit(index));
    limits.reduce(Resources::least).unwrap_or_default()
}

/// How many tasks of a job an empty machine holds.
fn hold(machine: &Machine, spec: &JobSpec, limit: Resources) -> u64 {
    let capacity = machine.capacity();
    let by_dimension = |dimension: Dimension| match limit.get(dimension) {
        0 => u64::MAX,
        asked => capacity.get(dimension) / asked,
    };
    let by_resources = Dimension::ALL.into_iter().map(by_dimension).min().unwrap_or(u64::MAX);
    let by_maximum = match spec.max_per_machine {
        Some(Maximum { tasks, hard: true }) => tasks.into(),
        _ => u64::MAX,
    };
    let by_ports = if spec.task.static_ports.is_empty() { u64::MAX } else { 1 };
    by_resources.min(by_maximum).min(by_ports)
}
