//! Which jobs a command is about: those that are named, or those that have labels.

use client::Connection;
use model::{Address, LabelQuery, TaskIndex, TaskSelection};
use proto::v1;

use super::exit::Failure;
use super::job_address;

/// A job that a command is about, or some of its tasks.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) job: v1::JobAddress,
    pub(super) tasks: TaskSelection,
}

/// Among which jobs labels choose.
#[derive(Clone, Debug)]
pub(super) enum Among {
    /// The jobs of whoever asks that are alive.
    MineAlive,
    /// The newest jobs of whoever asks, dead or alive.
    Mine,
    /// The jobs of everybody that were alive then.
    Alive(Option<v1::Moment>),
}

/// The jobs that are named, or else those with the labels, each with those of its tasks that have
/// them. That there are none is a failure.
pub(super) async fn choose(
    connection: &mut Connection,
    named: &[Address],
    labels: Option<&LabelQuery>,
    among: &Among,
) -> Result<Vec<Chosen>, Failure> {
    let Some(labels) = labels else {
        let of =
            |address: &Address| Chosen { job: job_address(address), tasks: address.tasks.clone() };
        return Ok(named.iter().map(of).collect());
    };
    let request = v1::StatusRequest {
        labels: labels.to_string(),
        mine: !matches!(among, Among::Alive(_)),
        dead: matches!(among, Among::Mine),
        at: if let Among::Alive(at) = among { *at } else { None },
        ..v1::StatusRequest::default()
    };
    let answer =
        connection.ask(request, async |mut client, request| client.status(request).await).await?;
    let chosen: Vec<Chosen> =
        answer.jobs.into_iter().filter_map(|job| with_labels(job, labels)).collect();
    if chosen.is_empty() {
        let (which, all) = match among {
            Among::MineAlive => ("job of yours that is alive", ""),
            Among::Mine => ("job of yours", " -a"),
            Among::Alive(_) => ("job that is alive", ""),
        };
        return Err(Failure::usage(format!("error: no {which} has the labels {labels}"))
            .next(format!("bourg status{all} -o wide shows the labels of all jobs")));
    }
    Ok(chosen)
}

/// A job with those of its tasks that have the labels.
fn with_labels(job: v1::JobStatus, labels: &LabelQuery) -> Option<Chosen> {
    let spec = job.spec?;
    let tasks = match spec.overrides.values().any(|change| !change.labels.is_empty()) {
        // One that was found by its labels has them in every task.
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
    Some(Chosen { job: v1::JobAddress { user: job.user, job: spec.name }, tasks })
}

/// Indexes, rising, out of so many.
fn ranges(indexes: impl Iterator<Item = TaskIndex>, of: u32) -> TaskSelection {
    let chosen = TaskSelection::Some(indexes.map(|index| (index, index)).collect()).normalised();
    let all = TaskSelection::Some(vec![(TaskIndex(0), TaskIndex(of.saturating_sub(1)))]);
    if chosen == all { TaskSelection::All } else { chosen }
}

impl Chosen {
    /// `ana/web`, where the owner is known.
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
