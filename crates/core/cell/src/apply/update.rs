//! Changing the description of a live job without restarting its tasks (paper, section 2.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{CollectionId, MachineId, TaskIndex};
use spec::JobSpec;

use super::Events;
use super::quota::charge;
use crate::feasibility::{Request, Sums, fits_a_running_task};
use crate::lifecycle::Stage;
use crate::state::Tallied;
use crate::{Cell, EventKind, Job, Rejection, Subject, TaskState};

impl Cell {
    /// Replaces the description of a live job. Either all of its tasks take it over where they are,
    /// or nothing changes.
    pub(super) fn update(
        &mut self,
        id: CollectionId,
        spec: &Arc<JobSpec>,
        events: &mut Events,
    ) -> Result<(), Rejection> {
        let job = self.jobs.get(id).ok_or(Rejection::NoSuchCollection(id))?;
        let fields = job.spec.needs_restart(spec);
        if !fields.is_empty() {
            return Err(Rejection::NeedsRestart {
                owner: job.owner.clone(),
                name: job.spec.name.clone(),
                fields: fields.into_iter().map(str::to_owned).collect(),
            });
        }
        let old = Arc::clone(job);
        self.within_quota(&old.owner, spec).map_err(Rejection::Quota)?;
        self.would_still_fit(id, spec)?;
        self.recharge(&old.owner, charge(&old, &old.spec), charge(&old, spec));
        let Some(job) = self.jobs.get_mut(id) else { return Ok(()) };
        job.spec = Arc::clone(spec);
        self.tally.replace(Tallied::of(&old), Tallied::of(job));
        let kind = |stage| match stage {
            Stage::Running => EventKind::UpdateRunning,
            _ => EventKind::UpdatePending,
        };
        events.add(Subject::Job(id), kind(job.state.stage()));
        for (index, task) in job.tasks() {
            let (stage, Some(instance)) = (task.state.stage(), job.instance(index)) else {
                continue;
            };
            if stage == Stage::Dead {
                continue;
            }
            if let TaskState::Running(placement) = &task.state {
                if let Some(machine) = self.machines.get_mut(placement.machine) {
                    machine.resize(&old.demand(index), &job.demand(index));
                    if let Some(alloc) = placement.alloc() {
                        machine.leave(alloc, old.limit(index));
                        machine.enter(alloc, job.limit(index));
                    }
                }
                events.reorder(placement.machine);
            }
            events.add(Subject::Task(instance), kind(stage));
        }
        self.used_for(&old.owner, id, spec, events);
        Ok(())
    }

    /// Whether, with the new description, every machine still fits and matches its tasks of the
    /// job.
    fn would_still_fit(&self, id: CollectionId, spec: &Arc<JobSpec>) -> Result<(), Rejection> {
        let Some(job) = self.jobs.get(id) else { return Ok(()) };
        let mut changing = Job::clone(job);
        changing.spec = Arc::clone(spec);
        self.would_still_fit_allocs(job, &changing)?;
        // What the job's tasks on a machine take before and after, together.
        let mut changed: BTreeMap<MachineId, (Sums, Sums)> = BTreeMap::new();
        let placed = job.tasks().filter_map(|(index, task)| match &task.state {
            TaskState::Running(placement) => Some((index, placement.machine)),
            _ => None,
        });
        let placed: Vec<(TaskIndex, MachineId)> = placed.collect();
        for (index, machine) in &placed {
            let (less, more) = changed.entry(*machine).or_default();
            less.add(&job.demand(*index));
            more.add(&changing.demand(*index));
        }
        for (index, id) in placed {
            let Some(machine) = self.machines.get(id) else { continue };
            let (less, more) = changed.get(&id).copied().unwrap_or_default();
            // What is free for this task when all the others have changed.
            let mut taken = Sums::of(machine);
            let others = more.without(&changing.demand(index));
            taken = taken.minus(&less).plus(&others);
            let offer = taken.offered_by(machine);
            // Constraints that existed before are not checked again, even if the machine no longer
            // matches.
            let wanted = spec.constraints(index);
            let news = wanted != job.spec.constraints(index);
            let constraints = if news { wanted } else { &[] };
            let demand = changing.demand(index);
            let ask = Request { demand, ports: 0, constraints, ..Request::of(&changing, index) };
            // A task that does not grow stays, even on a machine that became too small.
            // Becoming production counts as growing there.
            let grows = more.reservations.first_above(&less.reservations).is_some()
                || more.limits_of_prod.first_above(&less.limits_of_prod).is_some();
            if let Err(unschedulable_reason) = fits_a_running_task(&ask, &offer, grows) {
                let (task, machine) = (model::TaskId { collection: job.id, index }, &machine.name);
                return Err(Rejection::WouldNotFit {
                    task,
                    machine: machine.clone(),
                    unschedulable_reason,
                });
            }
        }
        Ok(())
    }
}
