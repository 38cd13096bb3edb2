//! Selects the jobs of a command: by name or by label.

use api::v1;
use client::Connection;
use command::{Failure, job_address};
use model::{Address, LabelQuery, TaskIndex, TaskSelection};

/// A selected job, or some of its tasks.
#[derive(Clone, Debug)]
pub(super) struct Selected {
    pub(super) job: v1::JobAddress,
    pub(super) tasks: TaskSelection,
}

/// The set of jobs in which labels select.
#[derive(Clone, Debug)]
pub(super) enum Among {
    /// The caller's jobs that are alive.
    MineAlive,
    /// The newest jobs of the caller, dead or alive.
    Mine,
    /// Every user's jobs that are alive, or were at that moment.
    Alive(Option<v1::Moment>),
}

/// The named jobs, or else those with the labels, each with its tasks that have them. Errors if
/// none matches.
pub(super) async fn choose(
    connection: &mut Connection,
    named: &[Address],
    labels: Option<&LabelQuery>,
    among: &Among,
) -> Result<Vec<Selected>, Failure> {
    let Some(labels) = labels else {
        let of = |address: &Address| Selected {
            job: job_address(address),
            tasks: address.tasks.clone(),
        };
        return Ok(named.iter().map(of).collect());
    };
    let request = v1::StatusRequest {
        labels: labels.to_string(),
        mine: !matches!(among, Among::Alive(_)),
        dead: matches!(among, Among::Mine),
        at: if let Among::Alive(at) = among { *at } else { None },
        ..v1::StatusRequest::default()
    };
    let answer = connection
        .ask(request, async |mut client, request| client.jobs.status(request).await)
        .await?;
    let chosen: Vec<Selected> =
        answer.jobs.into_iter().filter_map(|job| with_labels(job, labels)).collect();
    if chosen.is_empty() {
        let (which, all) = match among {
            Among::MineAlive => ("job of yours that is alive", ""),
            Among::Mine => ("job of yours", " -a"),
            Among::Alive(_) => ("job that is alive", ""),
        };
        return Err(Failure::usage(format!("error: no {which} matches the labels {labels}"))
            .next(format!("bourg status{all} -o wide shows the labels of all jobs")));
    }
    Ok(chosen)
}

/// The job with those of its tasks that have the labels.
fn with_labels(job: v1::JobStatus, labels: &LabelQuery) -> Option<Selected> {
    let spec = job.spec?;
    let tasks = match spec.overrides.values().any(|change| !change.labels.is_empty()) {
        // A job that matches by its own labels matches in every task.
        false => TaskSelection::All,
        true => {
            let label = |index: u32, key: &str| {
                let own = spec.overrides.get(&index).and_then(|change| change.labels.get(key));
                own.or_else(|| spec.labels.get(key)).map(String::as_str)
            };
            let has = |index: &TaskIndex| labels.holds(|key| label(index.0, key));
            ranges((0..spec.tasks).map(TaskIndex).filter(has), spec.tasks)
        }
    };
    Some(Selected { job: v1::JobAddress { user: job.user, job: spec.name }, tasks })
}

/// Ascending indexes as ranges; `of` is the number of tasks of the job.
fn ranges(indexes: impl Iterator<Item = TaskIndex>, of: u32) -> TaskSelection {
    let chosen = TaskSelection::Some(indexes.map(|index| (index, index)).collect()).normalised();
    let all = TaskSelection::Some(vec![(TaskIndex(0), TaskIndex(of.saturating_sub(1)))]);
    if chosen == all { TaskSelection::All } else { chosen }
}

impl Selected {
    /// `user/job`, with the tasks if it is not the whole job: `user/job/0-2`.
    pub(super) fn address(&self) -> String {
        match &self.tasks {
            TaskSelection::All => self.name(),
            some => format!("{}/{some}", self.name()),
        }
    }

    /// `ana/web`, or `web` without an owner.
    pub(super) fn name(&self) -> String {
        match self.job.user.as_str() {
            "" => self.job.job.clone(),
            user => format!("{user}/{}", self.job.job),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tasks_are_all_and_others_are_ranges() {
        let of = |indexes: &[u32]| ranges(indexes.iter().copied().map(TaskIndex), 5).to_string();
        assert_eq!(of(&[0, 1, 2, 3, 4]), "", "all");
        assert_eq!(of(&[0, 1, 3]), "0-1,3");
        assert_eq!(of(&[1, 2, 3, 4]), "1-4");
    }
}
