//! The plan of a drain that is not begun yet.

use std::collections::BTreeMap;

use api::v1;
use cell::{Cell, Job, Machine};
use model::{CollectionId, InstanceId, MachineName, TaskIndex, TaskSelection};
use tonic::Status;

use super::Reads;
use super::rejections::no_such_machine;
use super::updates::{planned_evictions, why_unplaced};
use super::views::job_name;

/// The maximum number of jobs whose budgets are listed.
const WAITS_MAX: usize = 10;

impl Reads<'_> {
    /// Where everything on these machines would go if they were drained now. It changes nothing.
    pub(crate) fn plan_drain(
        &self,
        machines: &[MachineName],
    ) -> Result<v1::PlanDrainResponse, Status> {
        let found = machines.iter().map(|name| {
            let machine = self.cell.machine_named(name);
            machine.ok_or_else(|| no_such_machine(self.cell, name.as_str()))
        });
        let found: Vec<_> = found.collect::<Result<_, _>>()?;
        let ids: Vec<_> = found.iter().map(|machine| machine.id).collect();
        let mut room: BTreeMap<CollectionId, u32> = BTreeMap::new();
        let mut waiting = 0;
        let leaves = |instance: InstanceId| {
            let Some(job) = self.cell.job(instance.collection) else { return true };
            let is_up = self.cell.placement(instance).is_some_and(|it| it.up_since().is_some());
            let room = room.entry(job.id).or_insert_with(|| within_an_hour(self, job));
            let may = !is_up || *room > 0;
            *room = room.saturating_sub(u32::from(is_up));
            waiting += u32::from(!may && job.alloc_set.is_none());
            may
        };
        let (preview, left) = self.cell.preview_drain(self.now, self.me, &ids, leaves);
        // Tasks in an alloc leave with it.
        let tasks = left.iter().filter_map(|instance| {
            let job: &Job = preview.job(instance.collection)?;
            job.alloc_set.is_none().then_some((job, instance.index))
        });
        let tasks: Vec<(&Job, TaskIndex)> = tasks.collect();
        let plan = scheduler::preview_of(&preview, tasks.iter().copied(), self.now);
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let placed = |job: CollectionId, index: TaskIndex| {
            let mut assignments = plan.assignments.iter();
            assignments.any(|it| it.instance.collection == job && it.instance.index == index)
        };
        let stuck = (plan.unplaced > 0).then(|| {
            tasks.iter().find(|(job, index)| !placed(job.id, *index)).map(|(job, index)| {
                let only = TaskSelection::Some(vec![(*index, *index)]);
                let why = why_unplaced(&preview, job, &only, self.now);
                format!("{}/{index}: {why}", job_name(&preview, job.id))
            })
        });
        Ok(v1::PlanDrainResponse {
            index: self.cell.index().0,
            time: self.now.0,
            leaving: count(tasks.len()).saturating_add(waiting),
            waiting,
            placed: count(plan.assignments.len()),
            unplaced: count(plan.unplaced),
            why_unplaced: stuck.flatten().unwrap_or_default(),
            waits: self.budgets_that_delay(&found),
            evictions: planned_evictions(&preview, &plan.assignments),
        })
    }

    /// The jobs of which fewer tasks may leave at once than run on the machines.
    fn budgets_that_delay(&self, machines: &[&std::sync::Arc<Machine>]) -> Vec<String> {
        let mut up: BTreeMap<CollectionId, u32> = BTreeMap::new();
        for instance in machines.iter().flat_map(|machine| machine.instances()) {
            if self.cell.placement(*instance).is_some_and(|placed| placed.up_since().is_some()) {
                *up.entry(instance.collection).or_default() += 1;
            }
        }
        let waits = up.into_iter().filter_map(|(id, leaving)| {
            let job = self.cell.job(id)?;
            delay(self.cell, job, leaving, job.room(self.now)).map(|why| (job, why))
        });
        let mut waits: Vec<_> =
            waits.map(|(job, why)| format!("{} {why}", job_name(self.cell, job.id))).collect();
        if waits.len() > WAITS_MAX {
            let more = waits.len() - WAITS_MAX;
            waits.truncate(WAITS_MAX);
            waits.push(format!("{more} more jobs wait for their budgets"));
        }
        waits
    }
}

/// How many of a job's tasks may leave within an hour.
fn within_an_hour(reads: &Reads<'_>, job: &Job) -> u32 {
    match job.spec.down_max() {
        0 if !reads.cell.may_start_replacement(job.id) => 0,
        _ => job.room(reads.now).per_hour,
    }
}

/// What a job's disruption budget means for the tasks that leave; `None` if all may leave at once.
fn delay(cell: &Cell, job: &Job, leaving: u32, room: cell::Room) -> Option<String> {
    let tasks =
        |count: u32| if count == 1 { "1 task".to_owned() } else { format!("{count} tasks") };
    let replaced = match cell.may_start_replacement(job.id) {
        true => ", so a replacement starts first",
        false => "",
    };
    match (room.now(), job.spec.down_max()) {
        (now, _) if now >= leaving => None,
        (0, 0) => Some(format!("allows no task to be down{replaced}")),
        (0, most) if room.at_once == 0 => {
            Some(format!("has its {} down that its budget allows{replaced}", tasks(most)))
        }
        (0, _) if room.next.is_some() => Some("had its disruptions of this hour".to_owned()),
        (0, _) => Some("has perHour: 0, which allows no disruption".to_owned()),
        (now, _) => Some(format!("may have {now} more down, and {} leave", tasks(leaving))),
    }
}
