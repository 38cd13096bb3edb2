//! When what waits is expected to start.

use std::collections::BTreeMap;

use model::{CollectionId, Resources, Time};

use crate::BatchQueue;

impl BatchQueue {
    /// The moments at which waiting jobs get their first tasks, if every task runs as long as expected, nothing is
    /// submitted, and the room of others stays as it is. Looks at up to `ends_max` ends of tasks; a job that does not
    /// start until then is not in it.
    #[must_use]
    pub fn forecast(
        &self,
        now: Time,
        room: Resources,
        ends_max: usize,
    ) -> BTreeMap<CollectionId, Time> {
        let (mut queue, mut now, mut room) = (self.clone(), now, room);
        let mut starts = BTreeMap::new();
        for _ in 0..=ends_max {
            for enabled in queue.pass(now, room).enabled {
                starts.entry(enabled.job).or_insert(now);
                let held = queue.jobs.get(&enabled.job);
                let request = held.map_or_else(Resources::default, |held| held.job.request);
                room = room.minus(request.times(enabled.tasks.into()));
            }
            if queue.turns.is_empty() {
                break;
            }
            let Some(((end, _), running)) = queue.running.first_key_value() else { break };
            let (job, tasks) = (running.job, running.tasks);
            now = now.max(*end);
            room = room.plus(running.request.times(tasks.into()));
            queue.ended(now, job, tasks);
        }
        starts
    }
}
