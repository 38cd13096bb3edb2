//! Who is ahead of a job in the scheduler's queue: pending tasks of higher priority go first, and at the same priority
//! users take turns.

use cell::{Cell, Job};
use model::{CollectionId, Priority};

/// The most jobs that are named.
const AHEAD_NAMED: usize = 5;

/// The pending tasks of other jobs that are considered before those of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Number of jobs with pending tasks of a higher priority.
    pub higher_jobs: u32,
    /// Number of those tasks.
    pub higher_tasks: u64,
    /// Number of other jobs with pending tasks of the same priority.
    pub equal_jobs: u32,
    /// Number of those tasks.
    pub equal_tasks: u64,
    /// The first of those of higher priority, highest first.
    pub named: Vec<AheadJob>,
}

/// A job that is ahead of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AheadJob {
    /// Its id.
    pub job: CollectionId,
    /// Its priority.
    pub priority: Priority,
    /// Number of its pending tasks.
    pub pending: u32,
}

/// Who is ahead of a job.
#[must_use]
pub fn ahead(cell: &Cell, job: &Job) -> Ahead {
    let ours = job.spec.priority;
    let mut found = Ahead::default();
    for other in cell.jobs_with_pending_tasks().filter(|other| other.id != job.id) {
        let (job, priority, pending) = (other.id, other.spec.priority, other.pending());
        if priority > ours {
            found.higher_jobs += 1;
            found.higher_tasks += u64::from(pending);
            found.named.push(AheadJob { job, priority, pending });
            if found.named.len() > 4 * AHEAD_NAMED {
                found.keep_highest();
            }
        } else if priority == ours {
            found.equal_jobs += 1;
            found.equal_tasks += u64::from(pending);
        }
    }
    found.keep_highest();
    found
}

impl Ahead {
    fn keep_highest(&mut self) {
        self.named.sort_by_key(|ahead| (std::cmp::Reverse(ahead.priority), ahead.job));
        self.named.truncate(AHEAD_NAMED);
    }
}
