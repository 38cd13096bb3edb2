//! How many tasks users change: an operation that changes many keeps the core, the scheduler and the
//! events busy for a while, whatever its size in bytes.
//!
//! What a user has changed counts as held until it is worked off, at a fixed rate. Users share the room for
//! it ([`SharedBound`]), and a user who has reached its share waits. A user with nothing to work off can always
//! make one change, however many tasks it concerns. Administrators have no limit, so that they can repair.

use std::collections::BTreeMap;
use std::time::Duration;

use cell::{Cell, Job, Mutation};
use model::{Asker, Beyond, Held, JobName, SharedBound, TaskSelection, Time, UserName};

/// Maximum number of changed tasks that are not worked off yet, for all users together. Users share it;
/// beyond it their changes are rejected with a time to try again.
pub(crate) const CHANGED_TASKS_MAX: SharedBound = SharedBound::new(256_000);
/// How many changed tasks of a user are worked off in a second.
const WORKED_OFF_PER_SECOND: u64 = 5_000;

/// How many jobs are looked at in the time that the change of one task takes.
const JOBS_FOR_A_TASK: usize = 16;

/// The number of tasks that a change may touch, in a cell, or as much work as so many.
pub(crate) fn changed_by(mutation: &Mutation, by: &UserName, cell: &Cell) -> u64 {
    let live =
        |owner: &UserName, name: &JobName| cell.job_named(owner, name).filter(|job| job.is_alive());
    let rows = |owner, name| live(owner, name).map_or(0, |job| job.rows());
    let tasks = match mutation {
        Mutation::Submit(spec) => rows(by, &spec.name).max(spec.tasks),
        Mutation::UpdateJob(update) => {
            rows(&update.owner, &update.spec.name).max(update.spec.tasks)
        }
        Mutation::ResizeJob(resize) => rows(&resize.owner, &resize.job).max(resize.tasks),
        Mutation::ControlUpdate(control) => rows(&control.owner, &control.job),
        Mutation::SetLimits(limits) => rows(&limits.owner, &limits.job),
        Mutation::Kill(kill) => {
            live(&kill.owner, &kill.job).map_or(0, |job| selected(job, &kill.tasks))
        }
        Mutation::RestartJob(restart) => cell
            .job_named(&restart.owner, &restart.job)
            .map_or(0, |job| selected(job, &restart.tasks)),
        // Whether a job uses it is asked of all jobs.
        Mutation::DeletePackage(_) | Mutation::DeleteSecret(_) => {
            u32::try_from(cell.job_count() / JOBS_FOR_A_TASK).unwrap_or(u32::MAX)
        }
        _ => 0,
    };
    tasks.into()
}

fn selected(job: &Job, tasks: &TaskSelection) -> u32 {
    let count = tasks.of(job.rows()).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The changed tasks of each user that are not worked off yet, as of a time. Users without any have no
/// entry.
#[derive(Debug, Default)]
pub(crate) struct ChangedTasks {
    of_users: BTreeMap<UserName, (u64, Time)>,
}

/// A user has its share, and when there is room again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) why: Beyond,
    pub(crate) retry_after: Duration,
}

impl ChangedTasks {
    /// Takes in a change of a user to so many tasks.
    pub(crate) fn take(&mut self, now: Time, user: &UserName, tasks: u64) -> Result<(), Wait> {
        if tasks == 0 {
            return Ok(());
        }
        self.work_off(now);
        let all = self.of_users.values().fold(0_u64, |sum, (tasks, _)| sum.saturating_add(*tasks));
        let own = self.of_users.get(user).map_or(0, |(tasks, _)| *tasks);
        let held = Held { all, own };
        // A user with nothing to work off is always served: others cannot keep it waiting for ever.
        if own > 0
            && let Err(why) = CHANGED_TASKS_MAX.take(held, 1, Asker::User)
        {
            let most = CHANGED_TASKS_MAX.share(held).saturating_sub(1);
            let surplus = own.saturating_sub(most).max(1);
            let millis = surplus.saturating_mul(1_000).div_ceil(WORKED_OFF_PER_SECOND);
            return Err(Wait { why, retry_after: Duration::from_millis(millis) });
        }
        self.of_users.insert(user.clone(), (own.saturating_add(tasks), now));
        Ok(())
    }

    fn work_off(&mut self, now: Time) {
        self.of_users.retain(|_, (tasks, at)| {
            let micros = now.since(*at).0;
            let done = micros.saturating_mul(WORKED_OFF_PER_SECOND) / 1_000_000;
            if done > 0 {
                (*tasks, *at) = (tasks.saturating_sub(done), now);
            }
            *tasks > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cell::{DeletePackage, Op, RequestId};
    use model::{Band, SessionId};
    use spec::{JobSpec, TaskSpec};

    use super::*;

    #[test]
    fn a_user_at_the_limit_of_task_changes_waits_alone() {
        let name = |name: &str| name.parse::<UserName>().expect("a name");
        let (ana, bob) = (name("ana"), name("bob"));
        let mut changed = ChangedTasks::default();
        let second = |second: u64| Time(second * 1_000_000);
        let mut taken = 0;
        let wait = loop {
            match changed.take(second(1), &ana, 100_000) {
                Ok(()) => taken += 1,
                Err(wait) => break wait,
            }
        };
        assert_eq!(taken, 2, "a burst is possible");
        assert!(wait.retry_after > Duration::from_secs(10), "{wait:?}");
        // Another is served at once, however much is held.
        for user in [&bob, &name("eve")] {
            assert_eq!(changed.take(second(1), user, 100_000), Ok(()));
        }
        // What was said holds, also while others are there.
        let later = Time(second(1).0 + u64::try_from(wait.retry_after.as_micros()).expect("short"));
        assert_eq!(changed.take(second(60), &ana, 100_000), Ok(()));
        assert!(later < second(60));
        // What is worked off is forgotten.
        changed.work_off(second(3_600));
        assert_eq!(changed.of_users.len(), 0);
    }

    #[test]
    fn a_check_of_all_jobs_counts_as_their_part_of_tasks() {
        let (mut cell, ana) = (Cell::empty(), "ana".parse::<UserName>().expect("a name"));
        let name = "lab".parse().expect("a name");
        cell.apply(Time(1), &Op::Bootstrap { name, administrator: ana.clone() });
        cell.apply(Time(2), &Op::OpenSession { user: ana.clone() });
        let delete = DeletePackage("ana/app@1".parse().expect("a version")).into();
        assert_eq!(changed_by(&delete, &ana, &cell), 0);
        for sequence in 1..=40 {
            let name = format!("job-{sequence}").parse().expect("a name");
            let task = TaskSpec::of(vec!["x".to_owned()]);
            let spec = JobSpec::of(name, Band::Free.usual(), 1, task);
            let id = RequestId { session: SessionId(1), sequence };
            let mutation = Mutation::Submit(Arc::new(spec));
            cell.apply(Time(3), &Op::Request { id, by: ana.clone(), mutation });
        }
        assert_eq!(cell.job_count(), 40);
        assert_eq!(changed_by(&delete, &ana, &cell), 2);
    }

    #[test]
    fn a_user_changes_tasks_at_the_rate_of_their_completion() {
        let ana = "ana".parse::<UserName>().expect("a name");
        let (mut changed, mut taken) = (ChangedTasks::default(), 0_u64);
        for tenth in 0..10_000_u64 {
            let now = Time(tenth * 100_000);
            taken += changed.take(now, &ana, 100_000).map_or(0, |()| 100_000);
        }
        let worked_off = 1_000 * WORKED_OFF_PER_SECOND;
        assert!((worked_off..worked_off + 300_000).contains(&taken), "{taken}");
    }
}
