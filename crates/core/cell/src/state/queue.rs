//! The batch queue's part of a cell: its settings, the weights of users, and how long their tasks took. Whose turn it
//! is, and what is enabled next, is decided by the crate `batch`.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use model::{
    CollectionId, Enabled, Held, JobName, QueueSettings, ShareWeights, Span, TaskIndex, Time,
    UserName,
};
use thiserror::Error;

use super::{Cell, Job};
use crate::bounds::{RUNTIMES_KEPT_MAX, RUNTIMES_MAX, RUNTIMES_OF_A_USER_MAX};

/// What a cell knows for its batch queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    pub(crate) settings: QueueSettings,
    /// Users with other weights than 1.
    pub(crate) weights: OrdMap<UserName, ShareWeights>,
    pub(crate) runtimes: JobRuntimes,
}

/// How long tasks of best-effort batch jobs took, by user and name. A user's jobs of one name are taken to be alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobRuntimes {
    pub(crate) by_name: OrdMap<(UserName, JobName), Arc<KeptRuntimes>>,
    /// The number of names of each user; users without any have no entry.
    pub(crate) of_users: OrdMap<UserName, u64>,
    /// Users by that number.
    pub(crate) by_number: OrdSet<(u64, UserName)>,
}

/// How long the last tasks of a name took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRuntimes {
    /// Whose jobs.
    pub user: UserName,
    /// Their name.
    pub name: JobName,
    /// When the last one ended.
    pub last: Time,
    /// How long each took, the last one last.
    pub spans: Vec<Span>,
}

/// Why tasks of a job are not enabled. They stay as they are, and the next pass considers them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EnableRefused {
    /// There is no such job.
    #[error("there is no job {0}")]
    NoSuchJob(CollectionId),
    /// It has not so many tasks in the queue.
    #[error("only {waiting} of its tasks wait in the queue")]
    NotWaiting {
        /// How many it has there.
        waiting: u32,
    },
    /// It runs after others, and they have not finished.
    #[error("it runs after other jobs, which have not finished")]
    WaitsForJobs,
    /// More of its tasks would be enabled than its description allows.
    #[error("{enabled} of its tasks are enabled, and at most {most} may be at once")]
    BeyondAtOnce {
        /// How many are enabled.
        enabled: u32,
        /// How many may be.
        most: u32,
    },
    /// A gang is enabled whole.
    #[error("it is a gang, and {waiting} of its tasks have to be enabled together")]
    NotWhole {
        /// How many wait.
        waiting: u32,
    },
}

impl JobRuntimes {
    /// A task has ended by itself after that time.
    pub(crate) fn ended(&mut self, user: &UserName, name: &JobName, took: Span, now: Time) {
        let key = (user.clone(), name.clone());
        if let Some(kept) = self.by_name.get_mut(&key) {
            let kept = Arc::make_mut(kept);
            if kept.spans.len() >= RUNTIMES_KEPT_MAX {
                kept.spans.remove(0);
            }
            kept.spans.push(took);
            kept.last = now;
            return;
        }
        self.make_room_for(user);
        let (user, name) = key;
        self.keep(KeptRuntimes { user, name, last: now, spans: vec![took] }.into());
    }

    /// Forgets the oldest of a user who has a share, or of the user who has most.
    fn make_room_for(&mut self, user: &UserName) {
        let own = self.of_users.get(user).copied().unwrap_or_default();
        let held = Held { all: self.by_name.len() as u64, own };
        let fits = RUNTIMES_MAX.take(held, 1, model::Asker::User).is_ok();
        if fits && own < RUNTIMES_OF_A_USER_MAX {
            return;
        }
        let whose = match own {
            0 => self.by_number.get_max().map(|(_, most)| most.clone()),
            _ => Some(user.clone()),
        };
        let Some(whose) = whose else { return };
        let oldest = self.of_user(&whose).min_by_key(|kept| kept.last).cloned();
        if let Some(oldest) = oldest {
            self.forget(&oldest);
        }
    }

    fn of_user<'a>(&'a self, user: &'a UserName) -> impl Iterator<Item = &'a Arc<KeptRuntimes>> {
        let first = (user.clone(), JobName::first());
        let from = self.by_name.range(first..);
        from.take_while(move |((owner, _), _)| owner == user).map(|(_, kept)| kept)
    }

    pub(crate) fn keep(&mut self, kept: Arc<KeptRuntimes>) -> Option<Arc<KeptRuntimes>> {
        let (user, key) = (kept.user.clone(), (kept.user.clone(), kept.name.clone()));
        let before = self.by_name.insert(key, kept);
        if before.is_none() {
            self.count(&user, |number| number.saturating_add(1));
        }
        before
    }

    fn forget(&mut self, kept: &KeptRuntimes) {
        if self.by_name.remove(&(kept.user.clone(), kept.name.clone())).is_some() {
            self.count(&kept.user, |number| number.saturating_sub(1));
        }
    }

    fn count(&mut self, user: &UserName, change: impl Fn(u64) -> u64) {
        let before = self.of_users.get(user).copied().unwrap_or_default();
        let after = change(before);
        self.by_number.remove(&(before, user.clone()));
        if after == 0 {
            self.of_users.remove(user);
        } else {
            self.of_users.insert(user.clone(), after);
            self.by_number.insert((after, user.clone()));
        }
    }
}

impl Cell {
    /// The settings of the batch queue.
    #[must_use]
    pub fn queue_settings(&self) -> QueueSettings {
        self.queue.settings
    }

    /// The weights of a user in the batch queue.
    #[must_use]
    pub fn share_weights(&self, user: &UserName) -> ShareWeights {
        self.queue.weights.get(user).copied().unwrap_or_default()
    }

    /// The users with other weights than 1, by name.
    pub fn all_share_weights(&self) -> impl Iterator<Item = (&UserName, ShareWeights)> {
        self.queue.weights.iter().map(|(user, weights)| (user, *weights))
    }

    /// How long the last tasks of a user's best-effort batch jobs of a name took.
    #[must_use]
    pub fn runtimes(&self, user: &UserName, name: &JobName) -> Option<&Arc<KeptRuntimes>> {
        self.queue.runtimes.by_name.get(&(user.clone(), name.clone()))
    }

    /// The runtimes of all names, by user and name.
    pub fn all_runtimes(&self) -> impl Iterator<Item = &Arc<KeptRuntimes>> {
        self.queue.runtimes.by_name.values()
    }

    /// Whether the tasks of a job wait until they are enabled: in the batch queue, or because not all of them may run at
    /// once.
    #[must_use]
    pub fn defers(&self, job: &Job) -> bool {
        (self.queue.settings.on && job.spec.waits_in_queue())
            || job.spec.enabled_at_once().is_some()
    }

    /// Whether tasks of a job can be enabled now, without regard to room.
    ///
    /// # Errors
    /// Why they cannot.
    pub fn can_be_enabled(&self, enabled: Enabled) -> Result<(), EnableRefused> {
        let no_job = EnableRefused::NoSuchJob(enabled.job);
        let job = self.jobs.get(enabled.job).ok_or(no_job)?;
        let (counts, tasks) = (job.counts(), enabled.tasks);
        let waiting = counts.queued;
        if job.is_behind_others() {
            return Err(EnableRefused::WaitsForJobs);
        }
        if tasks == 0 || tasks > waiting {
            return Err(EnableRefused::NotWaiting { waiting });
        }
        let already = counts.pending.saturating_add(counts.running);
        if let Some(most) = job.spec.enabled_at_once().filter(|most| already + tasks > *most) {
            return Err(EnableRefused::BeyondAtOnce { enabled: already, most });
        }
        if job.spec.batch.gang && tasks < waiting {
            return Err(EnableRefused::NotWhole { waiting });
        }
        Ok(())
    }
}

impl Job {
    /// The first of its tasks that waits to be enabled, or for other jobs; beyond all of them if none does.
    #[must_use]
    pub fn first_queued(&self) -> TaskIndex {
        self.first_queued
    }
}
