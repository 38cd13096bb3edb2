//! Dead jobs are removed when they have been kept long enough, or are too many.

use cell::{Cell, JobState, Op};
use model::{CollectionId, Span, Time};

use super::{Controller, Turn};
use crate::{Action, Settings};

/// How long after one search for dead jobs the next is made.
const FORGET_INTERVAL: Span = Span::from_secs(10);
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
        self.next = turn.now + FORGET_INTERVAL;
        let collections = forgettable(turn.settings, turn.now, turn.cell);
        if !collections.is_empty() {
            turn.actions.push(Action::Propose(Op::Forget { collections }));
        }
    }
}

/// How long a dead job is kept: at least as long as the logs of its tasks, which are found by its name.
fn kept_for(settings: &Settings, cell: &Cell, job: CollectionId) -> Span {
    let policy = cell.job(job).map(|job| job.spec.task.logs).unwrap_or_default();
    settings.dead_jobs_for.max(cell.log_settings().of(policy).0)
}

/// Dead jobs that have been kept long enough, or are too many, oldest first.
fn forgettable(settings: &Settings, now: Time, cell: &Cell) -> Vec<CollectionId> {
    let mut dead: Vec<(Time, CollectionId)> = cell
        .jobs()
        .filter_map(|job| match job.state {
            JobState::Dead { at, .. } => Some((at, job.id)),
            _ => None,
        })
        .collect();
    dead.sort_unstable();
    let too_many = dead.len().saturating_sub(settings.dead_jobs_max);
    let old = |(position, (at, id)): &(usize, (Time, CollectionId))| {
        *position < too_many || now.since(*at) >= kept_for(settings, cell, *id)
    };
    dead.into_iter().enumerate().filter(old).map(|(_, (_, id))| id).take(FORGET_BATCH).collect()
}
