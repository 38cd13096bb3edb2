//! Forgetting jobs that have ended.

use model::{CollectionId, JobName, UserName};

use super::Events;
use super::capability::not_allowed;
use crate::apply::mutation::Change;
use crate::state::Tallied;
use crate::{Cell, JobPermission, Permitted, Rejection, Reply};

/// Forget the jobs of a name that have ended, with their tasks. A live job of that name stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgetJob {
    /// The owner of the jobs.
    pub owner: UserName,
    /// Their name.
    pub job: JobName,
}

impl Change for ForgetJob {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        let Self { owner, job } = self;
        if by == owner || cell.is_administrator(by) {
            return Ok(());
        }
        let who = Permitted::OwnerOrAdministrators(owner.clone());
        Err(not_allowed(by, JobPermission::Forget.of(owner, job), who))
    }

    fn apply(&self, cell: &mut Cell, _: &UserName, _: &mut Events) -> Result<Reply, Rejection> {
        let Self { owner, job: name } = self;
        let (user, name) = (owner.clone(), name.clone());
        let (first, last) = (CollectionId(0), CollectionId(u64::MAX));
        let range = (user.clone(), name.clone(), first)..=(user.clone(), name.clone(), last);
        let named: Vec<_> = cell.job_names.range(range).map(|(.., id)| *id).collect();
        if named.is_empty() {
            return Err(Rejection::NoSuchJob { user, name });
        }
        let alive = |id: &CollectionId| cell.jobs.get(*id).is_some_and(|job| job.is_alive());
        if named.iter().all(alive) {
            return Err(Rejection::JobAlive { owner: user, name });
        }
        named.into_iter().for_each(|id| cell.forget(id));
        Ok(Reply::Done)
    }
}

impl Cell {
    /// Removes a dead job. A live one is kept.
    pub(super) fn forget(&mut self, id: CollectionId) {
        let Some(job) = self.jobs.get(id) else { return };
        if job.is_alive() {
            return;
        }
        self.job_names.remove(&(job.owner.clone(), job.spec.name.clone(), id));
        self.tasks = self.tasks.saturating_sub(job.rows().into());
        self.updating.remove(&id);
        self.replaced.remove(&id);
        self.tally.remove(&job.owner, Tallied::of(job));
        self.jobs.remove(id);
    }
}
