//! Gangs: all tasks of such a job are planned together, or none is and nothing is held for it.

use cell::{Assignment, Cell};
use model::{CollectionId, InstanceId, Time};
use placement::{ClassId, Engine};

use crate::queue::Queue;

impl Queue {
    /// Plans all tasks of a gang, one after the other. If one fits nowhere, also not by evictions, the others are
    /// undone, and the gang waits for room. So it does while a task of it is still on a machine or waits for its
    /// retry.
    pub(crate) fn place_gang(
        &mut self,
        engine: &mut Engine,
        cell: &Cell,
        now: Time,
        id: CollectionId,
    ) -> Option<Vec<Assignment>> {
        let job = cell.job(id)?;
        let groups = self.groups_of(id);
        let mut tasks: Vec<(ClassId, InstanceId)> = Vec::new();
        for group in groups.iter().filter_map(|group| self.group(*group)) {
            let instances = group.tasks().filter_map(|index| job.instance(index));
            tasks.extend(instances.map(|instance| (group.class, instance)));
        }
        let whole = job.is_whole_gang_pending()
            && usize::try_from(job.pending()).is_ok_and(|pending| pending == tasks.len());
        let assignments = match whole {
            true => plan_all(engine, cell, now, &tasks),
            false => None,
        };
        if assignments.is_some() {
            for (_, instance) in &tasks {
                self.leave(instance.task(), engine);
            }
        } else {
            self.block_gang(id);
        }
        assignments
    }
}

fn plan_all(
    engine: &mut Engine,
    cell: &Cell,
    now: Time,
    tasks: &[(ClassId, InstanceId)],
) -> Option<Vec<Assignment>> {
    let mut assignments: Vec<Assignment> = Vec::with_capacity(tasks.len());
    for (class, instance) in tasks {
        match engine.place(cell, *class, *instance, now) {
            Some(assignment) => assignments.push(assignment),
            None => {
                engine.undo(cell, assignments.iter().map(|one| one.instance));
                return None;
            }
        }
    }
    Some(assignments)
}
