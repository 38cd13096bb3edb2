//! What a cell knows for its batch queue.

use model::{QueueSettings, ShareWeights, Span};
use thiserror::Error;

use super::{Counted, Violation, Violations};
use crate::bounds::{RUNTIMES_KEPT_MAX, RUNTIMES_MAX, RUNTIMES_OF_A_USER_MAX, USERS_MAX};
use crate::{Cell, Job, TaskState};

/// A violation in what a cell knows for its batch queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QueueViolation {
    /// A half-life or an assumed runtime out of bounds.
    #[error("the batch queue has a time of {0}")]
    Time(Span),
    /// Weights are kept that users have anyway.
    #[error("weights of 1 are kept")]
    UsualWeights,
}

impl Cell {
    pub(super) fn check_queue(&self, found: &mut Violations) {
        let QueueSettings { half_life, assumed_runtime, .. } = self.queue.settings;
        let mut spans = half_life.into_iter().chain([assumed_runtime]);
        if let Some(span) = spans.find(|span| !QueueSettings::SPANS.contains(span)) {
            found.add(Violation::Queue(QueueViolation::Time(span)));
        }
        let weights = &self.queue.weights;
        found.at_most("users with weights", weights.len(), USERS_MAX);
        if weights.values().any(|weights| *weights == ShareWeights::default()) {
            found.add(Violation::Queue(QueueViolation::UsualWeights));
        }
        let runtimes = &self.queue.runtimes;
        let most = usize::try_from(RUNTIMES_MAX.max()).unwrap_or(usize::MAX);
        found.at_most("names with runtimes", runtimes.by_name.len(), most);
        for kept in runtimes.by_name.values() {
            found.at_most("runtimes of a name", kept.spans.len(), RUNTIMES_KEPT_MAX);
            if kept.last > self.time {
                found.add(Violation::LaterThanTheCell("last runtime of a name"));
            }
        }
        let mut all = 0;
        for (user, number) in &runtimes.of_users {
            let names = runtimes.by_name.keys().filter(|(owner, _)| owner == user).count();
            let of = Counted::User(user.clone());
            found.count(of, "names with runtimes", *number, names as u64);
            let most = usize::try_from(RUNTIMES_OF_A_USER_MAX).unwrap_or(usize::MAX);
            found.at_most("names with runtimes of a user", names, most);
            let listed = runtimes.by_number.contains(&(*number, user.clone()));
            found.count(Counted::User(user.clone()), "listed numbers", listed.into(), 1);
            all += names as u64;
        }
        found.count(Counted::Cell, "names with runtimes", all, runtimes.by_name.len() as u64);
        let (listed, users) = (runtimes.by_number.len(), runtimes.of_users.len());
        found.count(Counted::Cell, "users with runtimes", listed as u64, users as u64);
        self.jobs().for_each(|job| found.first_queued(job));
    }
}

impl Violations {
    fn first_queued(&mut self, job: &Job) {
        let queued = |(_, task): &(_, &crate::Task)| matches!(task.state, TaskState::Queued { .. });
        let first = job.tasks().find(queued).map_or(u32::MAX, |(index, _)| index.0);
        let kept = job.first_queued().0;
        self.count(
            Counted::Job(job.id),
            "tasks before the first queued one",
            kept.into(),
            first.into(),
        );
    }
}
