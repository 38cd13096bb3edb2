//! What evictions would do for a pending task: where they make room, what they would take, and why they may not.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use cell::feasibility::{Offer, Sums, fits};
use cell::{Cell, Demand, Job};
use model::{InstanceId, MachineId, MachineName, Priority};

use super::Group;
use crate::Kept;
use crate::evictable::may_leave;
use crate::room::places;

/// The most machines for which the victims are compared.
const COMPARED: usize = 64;

/// On how many machines a task fits only once others have left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preemption {
    /// Machines with room as soon as the tasks that are already leaving have left.
    pub leaving: usize,
    /// Machines where evicting tasks of lower priority makes room: the scheduler does that.
    pub possible: usize,
    /// Of these, the machine with the fewest victims, and them.
    pub fewest: Option<(MachineName, Vec<InstanceId>)>,
    /// Machines where only evicting production of lower priority makes room: production does not preempt production.
    pub production: usize,
    /// Machines where only evicting tasks of the same or a higher priority makes room.
    pub not_lower: usize,
}

/// What preemption would do for the first task of a group; `None` for tasks in allocs, which take the room of their
/// alloc set only.
#[must_use]
pub fn preemption(
    cell: &Cell,
    job: &Job,
    group: &Group<'_>,
    kept: &BTreeMap<MachineId, Vec<Kept>>,
) -> Option<Preemption> {
    let (first, _) = group.tasks.first()?;
    if job.alloc_set.is_some() {
        return None;
    }
    let priority = job.described(*first).priority;
    let mut found = Preemption::default();
    let mut compared = 0;
    for place in places(cell, job, &group.ask, priority, kept).all {
        let helps = |sums: &Sums| {
            let free = sums.offered_by(place.offer.machine);
            let (free, free_for_prod) = (free.free, free.free_for_prod);
            let offer = Offer { free, free_for_prod, ..place.offer };
            let offer = place.kept.iter().fold(offer, |offer, kept| kept.taken_from(offer));
            fits(&group.ask, &offer).is_ok()
        };
        if helps(&Sums::of(place.offer.machine)) || !helps(&Sums::default()) {
            continue;
        }
        let tasks = TasksByEviction::of(cell, &place.offer, priority);
        if helps(&tasks.with_all()) {
            found.leaving += 1;
        } else if helps(&tasks.never.plus(&tasks.protected)) {
            found.possible += 1;
            if compared < COMPARED {
                compared += 1;
                found.keep_fewest(&place.offer, tasks.victims(&helps));
            }
        } else if helps(&tasks.never) {
            found.production += 1;
        } else {
            found.not_lower += 1;
        }
    }
    Some(found)
}

impl Preemption {
    fn keep_fewest(&mut self, offer: &Offer<'_>, victims: Vec<InstanceId>) {
        if self.fewest.as_ref().is_none_or(|(_, fewest)| victims.len() < fewest.len()) {
            self.fewest = Some((offer.machine.name.clone(), victims));
        }
    }
}

/// The tasks of a machine that stay, by who may evict them.
#[derive(Default)]
struct TasksByEviction {
    /// Of the same or a higher priority.
    never: Sums,
    /// Of lower priority, and production as the task is.
    protected: Sums,
    /// The others, which the task may evict.
    evictable: Vec<(Priority, Demand, InstanceId)>,
}

impl TasksByEviction {
    fn of(cell: &Cell, offer: &Offer<'_>, priority: Priority) -> Self {
        let mut tasks = Self::default();
        for instance in offer.machine.instances() {
            if cell.placement(*instance).is_none_or(|placed| placed.stop.is_some()) {
                continue;
            }
            let Some(job) = cell.job(instance.collection) else { continue };
            // Tasks in an alloc leave with the alloc, which counts for them.
            if job.alloc_set.is_some() {
                continue;
            }
            let demand = job.demand(instance.index);
            let theirs = job.described(instance.index).priority;
            if may_leave(theirs, priority) {
                tasks.evictable.push((theirs, demand, *instance));
            } else if theirs < priority {
                tasks.protected.add(&demand);
            } else {
                tasks.never.add(&demand);
            }
        }
        tasks
    }

    /// What all of them hold.
    fn with_all(&self) -> Sums {
        let mut sums = self.never.plus(&self.protected);
        self.evictable.iter().for_each(|(_, demand, _)| sums.add(demand));
        sums
    }

    /// Who leaves, lowest priority first, and the largest of those first; without those whose room is not needed.
    fn victims(mut self, helps: &impl Fn(&Sums) -> bool) -> Vec<InstanceId> {
        let mut staying = self.with_all();
        self.evictable.sort_by_key(|(priority, demand, id)| {
            (*priority, Reverse((demand.reservation.cpu, demand.reservation.ram)), *id)
        });
        let mut leaving = Vec::new();
        for victim in self.evictable {
            if helps(&staying) {
                break;
            }
            staying = staying.without(&victim.1);
            leaving.push(victim);
        }
        let mut victims = Vec::new();
        for (_, demand, id) in leaving.into_iter().rev() {
            let mut with = staying;
            with.add(&demand);
            if helps(&with) {
                staying = with;
            } else {
                victims.push(id);
            }
        }
        victims.reverse();
        victims
    }
}
