//! Dead jobs are removed when they have been kept long enough, or are too many: then first the oldest of
//! whoever has most.

use std::collections::{BTreeMap, VecDeque};

use cell::{Cell, Job, JobState, Op};
use model::{CollectionId, Span, Time, UserName};

use super::{Controller, Turn};
use crate::{Action, Settings};

/// How long after one search for dead jobs the next is made.
const FORGET_INTERVAL: Span = Span::from_secs(10);
/// The same where more are to be forgotten than one operation does.
const FORGET_SOON: Span = Span::from_millis(200);
/// How many dead jobs one operation forgets at most.
const FORGET_BATCH: usize = 1_000;

/// When they are looked for next.
#[derive(Clone, Debug)]
pub(crate) struct DeadJobs {
    next: Time,
}

impl DeadJobs {
    pub(crate) fn new(now: Time) -> Self {
        Self { next: now + FORGET_INTERVAL }
    }
}

impl Controller for DeadJobs {
    fn name(&self) -> &'static str {
        "dead-jobs"
    }

    fn due(&self) -> Option<Time> {
        Some(self.next)
    }

    fn run(&mut self, turn: &mut Turn<'_>) {
        if self.next > turn.now {
            return;
        }
        let mut collections = forgettable(turn.settings, turn.now, turn.cell);
        let more = collections.len() > FORGET_BATCH;
        self.next = turn.now + if more { FORGET_SOON } else { FORGET_INTERVAL };
        collections.truncate(FORGET_BATCH);
        if !collections.is_empty() {
            turn.actions.push(Action::Propose(Op::Forget { collections }));
        }
    }
}

/// How long a dead job is kept: at least as long as the logs of its tasks, which are found by its name.
fn kept_for(settings: &Settings, cell: &Cell, job: &Job) -> Span {
    settings.dead_jobs_for.max(cell.log_settings().of(job.spec.task.logs).0)
}

/// Dead jobs that have been kept long enough, or are too many.
fn forgettable(settings: &Settings, now: Time, cell: &Cell) -> Vec<CollectionId> {
    let mut kept = RetainedJobs::default();
    let mut dead: Vec<(Time, &Job)> = cell
        .jobs()
        .filter_map(|job| match job.state {
            JobState::Dead { at, .. } => Some((at, &**job)),
            _ => None,
        })
        .collect();
    dead.sort_unstable_by_key(|(at, job)| (*at, job.id));
    let mut forgotten = Vec::new();
    for (at, job) in dead {
        match now.since(at) >= kept_for(settings, cell, job) {
            true => forgotten.push(job.id),
            false => kept.add(job),
        }
    }
    while kept.jobs > settings.dead_jobs_max
        && let Some(job) = kept.oldest_of_most(|amount| amount.jobs)
    {
        forgotten.push(job);
    }
    while kept.tasks > settings.dead_tasks_max
        && let Some(job) = kept.oldest_of_most(|amount| amount.tasks)
    {
        forgotten.push(job);
    }
    forgotten
}

/// The dead jobs that are kept, by owner.
#[derive(Default)]
struct RetainedJobs<'a> {
    jobs: usize,
    tasks: u64,
    /// Those of each user, oldest first.
    of_users: BTreeMap<&'a UserName, Amount>,
}

#[derive(Default)]
struct Amount {
    jobs: u64,
    tasks: u64,
    oldest_first: VecDeque<(CollectionId, u64)>,
}

impl<'a> RetainedJobs<'a> {
    fn add(&mut self, job: &'a Job) {
        let tasks = job.rows().into();
        (self.jobs, self.tasks) = (self.jobs + 1, self.tasks.saturating_add(tasks));
        let own = self.of_users.entry(&job.owner).or_default();
        (own.jobs, own.tasks) = (own.jobs + 1, own.tasks.saturating_add(tasks));
        own.oldest_first.push_back((job.id, tasks));
    }

    /// Takes the oldest job of the user who has most.
    fn oldest_of_most(&mut self, of: impl Fn(&Amount) -> u64) -> Option<CollectionId> {
        let own = self.of_users.values_mut().max_by_key(|own| of(own))?;
        let (job, tasks) = own.oldest_first.pop_front()?;
        (own.jobs, own.tasks) = (own.jobs.saturating_sub(1), own.tasks.saturating_sub(tasks));
        (self.jobs, self.tasks) = (self.jobs.saturating_sub(1), self.tasks.saturating_sub(tasks));
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cell::{Death, Image, JobParts, Task, TaskState};
    use model::{Generation, Level, Version};
    use spec::{JobSpec, TaskSpec};

    use super::*;

    /// A job that ended in that second.
    fn dead(id: u64, owner: &str, second: u64, tasks: u32) -> Arc<Job> {
        let at = Time(second * 1_000_000);
        let task = Task {
            generation: Generation(1),
            version: Version(1),
            finishes: 0,
            ends_in_row: 0,
            failures: 0,
            last_incarnation: None,
            crashes: None,
            reserved: None,
            state: TaskState::Dead { at, death: Death::Failed },
        };
        let name = format!("j{id}").parse().expect("a name");
        let of = TaskSpec::of(vec!["x".to_owned()]);
        let spec = JobSpec::of(name, model::Band::Free.usual(), tasks, of);
        Arc::new(Job::from_parts(JobParts {
            machine_tasks: None,
            id: CollectionId(id),
            owner: owner.parse().expect("a name"),
            spec: Arc::new(spec),
            version: Version(1),
            last_version: Version(1),
            others: Vec::new(),
            update: None,
            history: Vec::new(),
            disrupted: Vec::new(),
            submitted: Time::ZERO,
            state: JobState::Dead { at, death: Death::Failed },
            after: Vec::new(),
            waits_for: Vec::new(),
            follows: Vec::new(),
            parent: None,
            alloc_set: None,
            tasks: vec![task; tasks as usize],
        }))
    }

    /// A second, the dead jobs, and which are forgotten then.
    type Case = (u64, Vec<Arc<Job>>, &'static [u64]);

    /// What is forgotten of these at a second, if at most four jobs with 100 tasks are kept.
    fn forgotten(second: u64, jobs: Vec<Arc<Job>>) -> Vec<u64> {
        let image =
            Image { level: Level(1), last_collection: CollectionId(99), jobs, ..Image::default() };
        let cell = Cell::from_image(image).expect("an image");
        let settings = Settings { dead_jobs_max: 4, dead_tasks_max: 100, ..Settings::default() };
        let found = forgettable(&settings, Time(second * 1_000_000), &cell);
        found.into_iter().map(|id| id.0).collect()
    }

    #[test]
    fn the_user_with_most_dead_jobs_loses_the_oldest_first() {
        let day = 24 * 3_600;
        let bobs = || dead(1, "bob", 1, 1);
        let anas = |jobs: std::ops::RangeInclusive<u64>, tasks| {
            [bobs()].into_iter().chain(jobs.map(move |id| dead(id, "ana", id, tasks))).collect()
        };
        let cases: [Case; 6] = [
            (9, anas(2..=4, 1), &[]),
            (9, anas(2..=6, 1), &[2, 3]),
            // By the weight in tasks.
            (9, anas(2..=4, 40), &[2]),
            (9, vec![bobs(), dead(2, "ana", 2, 101)], &[2]),
            (day + 1, anas(2..=4, 1), &[1]),
            (day + 2, anas(2..=6, 1), &[1, 2]),
        ];
        for (second, jobs, expected) in cases {
            assert_eq!(forgotten(second, jobs), expected, "at {second}");
        }
    }
}
