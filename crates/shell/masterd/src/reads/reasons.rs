//! What "why pending?" says beyond the first failed check: who is ahead, what evictions would do, the change with which
//! all tasks fit, maxima, names that machines spell differently, and how what has ended did so. And which tasks would
//! start at once.

use std::collections::{BTreeMap, BTreeSet};

use api::v1;
use cell::{Cell, Death, Job, JobState, KillReason, TaskState};
use model::{Band, CollectionId, MachineId, TaskIndex, TaskSelection, Time};
use placement::Kept;
use placement::why::{self, FailedCheck, Group, Why};
use spec::{Constraint, JobSpec};
use tonic::Status;

use super::Reads;
use super::views::{self, job_name, task_name};
use super::waits::kill_reason;

/// For how many groups of pending tasks is sought which change makes all of them fit, and what evictions would do: each
/// looks at every machine several times.
const EXAMINED_GROUPS: usize = 4;
/// How many victims are named.
const VICTIMS_NAMED: usize = 5;
/// How many groups of ended tasks an answer has.
const ENDED_GROUPS_SHOWN: usize = 20;
/// How many jobs are named because of which one after the other a job ended.
const ENDED_CHAIN_SHOWN: usize = 10;

/// The groups of pending tasks; of the first, everything.
pub(super) fn groups(
    cell: &Cell,
    job: &Job,
    groups: &[Group<'_>],
    now: Time,
) -> Vec<v1::PendingGroup> {
    let kept = match groups {
        [] => BTreeMap::new(),
        _ => Kept::in_cell(cell, now),
    };
    let group = |(place, found): (usize, &Group<'_>)| {
        let shown = views::group(cell, job, found, now);
        match place < EXAMINED_GROUPS {
            true => examined(cell, job, found, &kept, shown),
            false => shown,
        }
    };
    groups.iter().enumerate().map(group).collect()
}

/// A group with the change that makes all of its tasks fit, and with what evictions would do.
fn examined(
    cell: &Cell,
    job: &Job,
    group: &Group<'_>,
    kept: &BTreeMap<MachineId, Vec<Kept>>,
    shown: v1::PendingGroup,
) -> v1::PendingGroup {
    let all = why::for_all(cell, job, group, kept);
    let change: Vec<String> = all.change.iter().map(ToString::to_string).collect();
    v1::PendingGroup {
        fit_at_once: Some(all.fit),
        smallest_change_for_all: change.join(" and "),
        preemption: why::preemption(cell, job, group, kept)
            .map(|found| possible_preemption(cell, &found)),
        ..shown
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn possible_preemption(cell: &Cell, found: &why::Preemption) -> v1::PossiblePreemption {
    let (machine, victims) = match &found.fewest {
        Some((machine, victims)) => (machine.to_string(), victims.as_slice()),
        None => (String::new(), &[][..]),
    };
    v1::PossiblePreemption {
        leaving: count(found.leaving),
        possible: count(found.possible),
        machine,
        victims: victims.iter().take(VICTIMS_NAMED).map(|id| task_name(cell, *id)).collect(),
        victim_count: count(victims.len()),
        production: count(found.production),
        not_lower: count(found.not_lower),
    }
}

/// Every failed check.
pub(super) fn failed_checks(failed: &[FailedCheck]) -> Vec<v1::pending_group::FailedCheck> {
    let check = |check: &FailedCheck| v1::pending_group::FailedCheck {
        check: check.text.clone(),
        machines: count(check.machines),
        alone: count(check.alone),
    };
    failed.iter().map(check).collect()
}

/// What an answer says of the job as a whole.
pub(super) fn of_job(
    cell: &Cell,
    job: &Job,
    chosen: &TaskSelection,
    found: &Why<'_>,
    now: Time,
) -> v1::WhyResponse {
    let queued = match &job.state {
        JobState::Queued => why::why_queued(cell, job, chosen, now).groups,
        _ => Vec::new(),
    };
    let waiting = found.groups.iter().chain(&queued);
    let constraints = waiting.clone().flat_map(|group| group.ask.constraints);
    let waits = waiting.clone().next().is_some();
    let maxima = if waits { why::maximum_rules(cell, job) } else { Vec::new() };
    v1::WhyResponse {
        queued_groups: queued.iter().map(|group| views::group(cell, job, group, now)).collect(),
        ahead: (!found.groups.is_empty()).then(|| tasks_ahead(cell, job)),
        maxima: maxima.iter().map(ToString::to_string).collect(),
        spellings: in_words(&placement::near_spellings(cell, constraints)),
        ended: ended(cell, job, chosen),
        ended_because: ended_because(cell, job),
        ..v1::WhyResponse::default()
    }
}

fn in_words(spellings: &[placement::NearSpelling]) -> Vec<String> {
    spellings.iter().map(ToString::to_string).collect()
}

/// What the constraints of a description want that no machine has.
pub(crate) fn spellings(cell: &Cell, spec: &JobSpec) -> Vec<String> {
    let own = spec.overrides.values().filter_map(|change| change.constraints.as_ref());
    let constraints: BTreeSet<&Constraint> =
        spec.task.constraints.iter().chain(own.flatten()).collect();
    in_words(&placement::near_spellings(cell, constraints))
}

fn tasks_ahead(cell: &Cell, job: &Job) -> v1::TasksAhead {
    let found = why::ahead(cell, job);
    let named = found.named.iter().map(|ahead| v1::tasks_ahead::JobAhead {
        job: job_name(cell, ahead.job),
        priority: ahead.priority.number().into(),
        pending: ahead.pending,
    });
    v1::TasksAhead {
        higher_jobs: found.higher_jobs,
        higher_tasks: found.higher_tasks,
        equal_jobs: found.equal_jobs,
        equal_tasks: found.equal_tasks,
        jobs: named.collect(),
    }
}

/// The chosen tasks that have ended for good, by how.
fn ended(cell: &Cell, job: &Job, chosen: &TaskSelection) -> Vec<v1::EndedTasks> {
    let mut groups: Vec<v1::EndedTasks> = Vec::new();
    for index in chosen.of(job.size()) {
        let Some(task) = job.task(index) else { continue };
        let TaskState::Dead { at, death } = &task.state else { continue };
        let last = task.last_incarnation.as_ref().map(|last| &last.end);
        let (death_message, last_end) = (Some(v1::Death::from(death)), last.map(Into::into));
        let place = groups
            .iter()
            .position(|group| group.death == death_message && group.last_end == last_end);
        if let Some(group) = place.and_then(|place| groups.get_mut(place)) {
            group.at = group.at.max(at.0);
            add(&mut group.tasks, index);
        } else if groups.len() < ENDED_GROUPS_SHOWN {
            groups.push(v1::EndedTasks {
                tasks: vec![v1::IndexRange { first: index.0, last: index.0 }],
                death: death_message,
                how: how(cell, death),
                at: at.0,
                last_end,
                last_end_text: last.map(ToString::to_string).unwrap_or_default(),
                failures: task.failures,
            });
        }
    }
    groups
}

fn add(ranges: &mut Vec<v1::IndexRange>, index: TaskIndex) {
    match ranges.last_mut() {
        Some(range) if range.last.checked_add(1) == Some(index.0) => range.last = index.0,
        _ => ranges.push(v1::IndexRange { first: index.0, last: index.0 }),
    }
}

/// `finished`, `killed by ana`, `killed: its parent ana/all ended`.
fn how(cell: &Cell, death: &Death) -> String {
    match death {
        Death::Finished => "finished".to_owned(),
        Death::Failed => "failed".to_owned(),
        Death::Killed(KillReason::User(user)) => format!("killed by {user}"),
        Death::Killed(KillReason::Now(user)) => format!("killed by {user} without notice"),
        Death::Killed(why) => format!("killed: {}", kill_reason(cell, why)),
    }
}

/// How a job ended, then the job because of which it did, and so on to the first.
fn ended_because(cell: &Cell, job: &Job) -> Vec<String> {
    let mut chain = Vec::new();
    let mut seen: BTreeSet<CollectionId> = BTreeSet::new();
    let mut next = Some(job);
    while let Some(job) = next.filter(|_| chain.len() < ENDED_CHAIN_SHOWN) {
        let JobState::Dead { death, .. } = &job.state else { break };
        if !seen.insert(job.id) {
            break;
        }
        let failure = last_failure(job).map(|failure| format!(" ({failure})")).unwrap_or_default();
        let at =
            if chain.is_empty() { String::new() } else { format!("{} ", job_name(cell, job.id)) };
        chain.push(format!("{at}{}{failure}", how(cell, death)));
        next = match death {
            Death::Killed(
                KillReason::ParentEnded(other)
                | KillReason::AllocSetEnded(other)
                | KillReason::PredecessorEnded(other),
            ) => cell.job(*other).map(|job| &**job),
            _ => None,
        };
    }
    chain
}

/// The last run of the first of a job's tasks that failed: `task 3: exited with 1`.
fn last_failure(job: &Job) -> Option<String> {
    let failed =
        |task: &cell::Task| matches!(task.state, TaskState::Dead { death: Death::Failed, .. });
    let (index, task) = job.tasks().find(|(_, task)| failed(task))?;
    let last = task.last_incarnation.as_ref()?;
    Some(format!("task {index}: {}", last.end))
}

impl Reads<'_> {
    /// Which tasks would start at once, in a band or in each.
    pub(crate) fn shapes(&self, asked: &v1::ShapesRequest) -> Result<v1::ShapesResponse, Status> {
        let named = |band: &Band| asked.band.is_empty() || band.name() == asked.band;
        let bands: Vec<Band> = Band::ALL.into_iter().rev().filter(named).collect();
        if bands.is_empty() {
            let names: Vec<&str> = Band::ALL.iter().map(|band| band.name()).collect();
            return Err(Status::invalid_argument(format!(
                "there is no band {}: the bands are {}",
                asked.band.escape_debug(),
                names.join(", ")
            )));
        }
        let found = placement::shapes(self.cell, &bands, self.now);
        let bands = found.iter().map(|found| v1::BandShapes {
            band: found.band.name().to_owned(),
            shapes: found
                .sizes
                .iter()
                .map(|size| v1::band_shapes::Shape {
                    limit: Some((&size.limit).into()),
                    tasks: size.tasks,
                })
                .collect(),
            largest: found.largest.as_ref().map(|largest| (&largest.limit).into()),
            largest_machine: found
                .largest
                .as_ref()
                .map(|largest| largest.machine.to_string())
                .unwrap_or_default(),
        });
        let (index, time) = (self.cell.index().0, self.now.0);
        Ok(v1::ShapesResponse { index, time, bands: bands.collect() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cell::{Kill, Mutation, Op, RequestId};
    use model::{SessionId, UserName};
    use spec::TaskSpec;

    use super::*;
    use crate::caller::Caller;
    use crate::view::View;

    /// A cell of root's, in which ana has killed her job `extract`, and `load` was to run after it.
    fn cell_with_ended_jobs() -> Cell {
        let mut cell = Cell::empty();
        let name = "lab".parse().expect("a name");
        let user = |name: &str| -> UserName { name.parse().expect("a name") };
        cell.apply(Time(1), &Op::Bootstrap { name, administrator: user("root") });
        cell.apply(Time(2), &Op::OpenSession { user: user("ana") });
        let job = |name: &str, after: &[&str]| {
            let (name, priority) = (name.parse().expect("a name"), "1".parse().expect("one"));
            let task = TaskSpec::of(vec!["x".to_owned()]);
            let mut spec = JobSpec::of(name, priority, 2, task);
            spec.after = after.iter().map(|name| name.parse().expect("a name")).collect();
            Mutation::Submit(Arc::new(spec))
        };
        let kill = Kill {
            owner: user("ana"),
            job: "extract".parse().expect("a name"),
            tasks: TaskSelection::All,
            now: false,
        };
        let mutations = [job("extract", &[]), job("load", &["extract"]), Mutation::Kill(kill)];
        for (sequence, mutation) in (1..).zip(mutations) {
            let id = RequestId { session: SessionId(1), sequence };
            cell.apply(Time(3), &Op::Request { id, by: user("ana"), mutation });
        }
        cell
    }

    #[test]
    fn an_ended_job_says_because_of_which_others() {
        let cell = cell_with_ended_jobs();
        let job = cell.jobs().last().expect("the second job");
        assert_eq!(
            ended_because(&cell, job),
            [
                "killed: ana/extract, which it was to run after, did not finish",
                "ana/extract killed by ana"
            ]
        );
        let groups = ended(&cell, job, &TaskSelection::All);
        let shown: Vec<(&str, usize)> =
            groups.iter().map(|group| (group.how.as_str(), group.tasks.len())).collect();
        let how = "killed: ana/extract, which it was to run after, did not finish";
        assert_eq!(shown, [(how, 1)]);
        let tasks = &groups[0].tasks;
        assert_eq!(tasks[..], [v1::IndexRange { first: 0, last: 1 }]);
    }

    #[test]
    fn shapes_are_of_a_band_that_there_is() {
        let view = View::of(cell_with_ended_jobs());
        let by = Caller::of("ana");
        let reads = Reads::of(&view, &by);
        let asked = |band: &str| reads.shapes(&v1::ShapesRequest { band: band.to_owned() });
        let bands = |band: &str| asked(band).map(|answer| answer.bands.len()).expect("an answer");
        assert_eq!((bands(""), bands("production")), (5, 1));
        let refused = asked("prod").expect_err("there is none");
        assert_eq!(
            refused.message(),
            "there is no band prod: the bands are free, best-effort-batch, mid, production, monitoring"
        );
    }
}
