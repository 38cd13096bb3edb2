//! Reads of a cell at any moment: the serving view, or a cell rebuilt from the kept history. The
//! answers are functions of the cell, the caller, and a time.

pub(crate) mod drain_plan;
pub(crate) mod gang;
pub(crate) mod moves;
pub(crate) mod notices;
pub(crate) mod problems;
pub(crate) mod queue;
pub(crate) mod reasons;
pub(crate) mod rejections;
pub(crate) mod starting;
pub(crate) mod updates;
pub(crate) mod usage;
pub(crate) mod views;
pub(crate) mod waits;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::v1;
use cell::{Cell, Job, MachineState};
use model::{JobName, LabelQuery, TaskIndex, TaskSelection, Time, UserName};
use tonic::Status;

use self::rejections::{no_such_job, no_such_machine, no_such_task};
use crate::caller::Caller;
use crate::view::View;

/// The maximum number of jobs or machines in a request.
const NAMES_MAX: usize = 1_000;
/// The maximum number of tasks in an answer.
const TASKS_MAX: u64 = 500_000;
/// The maximum number of machines with scores in an answer.
const SCORES_MAX: usize = 100;

/// A cell, as a caller reads it at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reads<'a> {
    pub(super) cell: &'a Cell,
    pub(super) now: Time,
    pub(super) me: &'a UserName,
    /// Whether the caller may act on everybody's jobs like their owners: now, whichever moment is
    /// read.
    pub(super) administers_jobs: bool,
}

impl<'a> Reads<'a> {
    /// The newest view, as a caller reads it.
    pub(super) fn of(view: &'a View, by: &'a Caller) -> Self {
        let administers_jobs = by.administers_jobs(&view.cell);
        Self { cell: &view.cell, now: view.now(), me: &by.user, administers_jobs }
    }
}

impl Reads<'_> {
    pub(super) fn status(&self, asked: &v1::StatusRequest) -> Result<v1::StatusResponse, Status> {
        let query = labels(&asked.labels)?;
        let mut jobs: Vec<&Arc<Job>> = match asked.jobs.as_slice() {
            [] => {
                let wanted = |job: &&Arc<Job>| {
                    (asked.dead || job.is_alive()) && (!asked.mine || job.owner == *self.me)
                };
                self.cell.named_jobs().filter(wanted).collect()
            }
            some => {
                let mut shown = BTreeSet::new();
                let mut jobs =
                    some.iter().map(|job| self.find(job)).collect::<Result<Vec<_>, _>>()?;
                jobs.retain(|job| shown.insert(job.id));
                jobs
            }
        };
        jobs.retain(|job| query.is_empty() || job_has(job, &query));
        let tasks: u64 = jobs.iter().map(|job| u64::from(job.size())).sum();
        if asked.tasks && tasks > TASKS_MAX {
            return Err(Status::failed_precondition(format!(
                "these jobs have {tasks} tasks, and at most {TASKS_MAX} are shown: ask without \
                 tasks, or for fewer jobs"
            )));
        }
        Ok(v1::StatusResponse {
            index: self.cell.index().0,
            time: self.now.0,
            jobs: jobs
                .iter()
                .map(|job| {
                    let status = self.chosen(job, asked.tasks, &query);
                    let versions = if asked.versions { updates::versions(job) } else { Vec::new() };
                    v1::JobStatus { versions, ..status }
                })
                .collect(),
        })
    }

    /// A job with those of its tasks that have the labels, if it is shown with tasks.
    fn chosen(&self, job: &Job, with_tasks: bool, query: &LabelQuery) -> v1::JobStatus {
        let mut status = self.job(job, with_tasks);
        status.tasks.retain(|task| task_has(job, TaskIndex(task.index), query));
        status
    }

    /// A job with its description. Only its owner, and users who may act on it like the owner, see
    /// the values of `env`.
    pub(super) fn job(&self, job: &Job, with_tasks: bool) -> v1::JobStatus {
        let mut spec = v1::JobSpec::from(&*job.spec);
        if job.owner != *self.me && !self.administers_jobs {
            spec.hide_env();
        }
        let status = views::job_status(self.cell, job, with_tasks, self.now);
        v1::JobStatus { spec: Some(spec), ..status }
    }

    pub(super) fn why(
        &self,
        asked: &v1::WhyRequest,
        held: &placement::HeldByMachine,
    ) -> Result<v1::WhyResponse, Status> {
        let job = self.find(&asked.job.clone().unwrap_or_default())?;
        let tasks = selection_of(job, asked.tasks.clone())?;
        let mut answer = views::why_pending(self.cell, job, &tasks, self.now);
        let pending = |index: &TaskIndex| {
            let state = job.task(*index).map(|task| &task.state);
            matches!(state, Some(cell::TaskState::Pending { .. }))
        };
        let chosen = || tasks.of(job.size());
        let most = usize::try_from(asked.scores).unwrap_or(usize::MAX).min(SCORES_MAX);
        if most > 0
            && let Some(index) = chosen().find(pending).or_else(|| chosen().next())
        {
            answer.scored_task = index.0;
            answer.scores = views::scores(self.cell, job, index, self.now, held, most);
        }
        if job.counts().queued > 0 && job.waits_for.is_empty() {
            queue::explain(self.cell, job, self.now, &mut answer);
        }
        Ok(answer)
    }

    pub(super) fn machines(
        &self,
        asked: &v1::MachinesRequest,
    ) -> Result<v1::MachinesResponse, Status> {
        let query = labels(&asked.labels)?;
        let names: BTreeSet<&str> = asked.names.iter().map(String::as_str).collect();
        for name in &asked.names {
            self.machine_named(name)?;
        }
        let chosen = self.cell.machines().filter(|machine| {
            let named = names.is_empty() || names.contains(machine.name.as_str());
            named && query.holds(|key| machine.attribute(key))
        });
        let shown = |machine: &Arc<cell::Machine>| v1::MachineStatus {
            placed: match asked.tasks {
                true => views::placed(self.cell, machine, self.now),
                false => Vec::new(),
            },
            drain_waits_for: match asked.tasks {
                true => updates::drain_waits_for(self.cell, machine),
                false => Vec::new(),
            },
            saving: views::saving(self.cell, machine),
            ..views::machine_status(machine, self.now)
        };
        Ok(v1::MachinesResponse {
            index: self.cell.index().0,
            time: self.now.0,
            machines: chosen.map(shown).collect(),
        })
    }

    /// The cell itself; the serving replica adds what only it knows. The digest, if it is asked for,
    /// takes time in proportion to the cell's size.
    pub(super) fn cell_status(&self, state_hash: bool) -> v1::CellStatusResponse {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let (mut up, mut unreachable, mut down) = (0, 0, 0);
        for machine in self.cell.machines() {
            match machine.state {
                MachineState::Joining => {}
                MachineState::Up => up += 1,
                MachineState::Unreachable { .. } => unreachable += 1,
                MachineState::Down { .. } => down += 1,
            }
        }
        let (problems, problem_count) = match state_hash {
            true => problems::problems(self.cell, self.now),
            false => Default::default(),
        };
        v1::CellStatusResponse {
            problems,
            problem_count,
            name: self.cell.name().map(ToString::to_string).unwrap_or_default(),
            index: self.cell.index().0,
            time: self.now.0,
            state_hash: match state_hash {
                true => formats::image::state_hash(self.cell).to_string(),
                false => String::new(),
            },
            level: self.cell.level().0,
            machines: count(self.cell.machine_count()),
            machines_up: up,
            machines_unreachable: unreachable,
            machines_down: down,
            rescheduling: Some(views::rescheduling(self.cell)),
            notices: notices::shares(self.cell.notices()),
            logs: Some(self.cell.log_settings().into()),
            reclamation: Some(views::reclamation(self.cell)),
            packing: self.cell.packing().to_string(),
            notice_max: Some(api::duration(self.cell.notice_max())),
            last_backup: self.cell.last_backup().map(views::last_backup),
            bootstrapped: self.cell.bootstrapped().unwrap_or_default().0,
            jobs: count(self.cell.job_count()),
            tasks: self.cell.task_count(),
            capacity: Some((&views::capacity(self.cell)).into()),
            user: self.me.to_string(),
            schedulers: 0,
            machines_heard: 0,
            term: 0,
            violations: 0,
        }
    }

    /// The newest job of a name, or an error with the nearest name.
    pub(super) fn find(&self, asked: &v1::JobAddress) -> Result<&Arc<Job>, Status> {
        let (user, name) = job_address(self.me, asked)?;
        self.cell.job_named(&user, &name).ok_or_else(|| no_such_job(self.cell, &user, &name))
    }

    /// A machine by its name, or an error with the nearest name.
    pub(super) fn machine_named(&self, name: &str) -> Result<&Arc<cell::Machine>, Status> {
        let bad = |error: model::NameError| Status::invalid_argument(error.to_string());
        let wanted = model::MachineName::new(name).map_err(bad)?;
        self.cell.machine_named(&wanted).ok_or_else(|| no_such_machine(self.cell, name))
    }
}

/// The owner and the name of a requested job.
pub(super) fn job_address(
    me: &UserName,
    asked: &v1::JobAddress,
) -> Result<(UserName, JobName), Status> {
    let bad = |error: model::NameError| Status::invalid_argument(error.to_string());
    let user = match asked.user.as_str() {
        "" => me.clone(),
        user => UserName::new(user).map_err(bad)?,
    };
    Ok((user, JobName::new(&asked.job).map_err(bad)?))
}

/// Rejects a request with too many names.
pub(super) fn few(what: &str, has: usize) -> Result<(), Status> {
    match has <= NAMES_MAX {
        true => Ok(()),
        false => {
            let text = format!("names: has {has} {what}, at most {NAMES_MAX} are allowed");
            Err(Status::invalid_argument(text))
        }
    }
}

/// Whether a job has the labels, or one of its tasks by an override or an earlier version.
pub(super) fn job_has(job: &Job, query: &LabelQuery) -> bool {
    let whole = query.holds(|key| job.spec.labels.get(key).map(String::as_str));
    let mut overridden = job.spec.overrides.iter().filter(|(_, change)| !change.labels.is_empty());
    let has_others = job.other_descriptions().next().is_some();
    whole
        || overridden.any(|(index, _)| task_has(job, *index, query))
        || has_others && job.tasks().any(|(index, _)| task_has(job, index, query))
}

/// Whether a task has the labels: its job's, and those of its override.
pub(super) fn task_has(job: &Job, index: TaskIndex, query: &LabelQuery) -> bool {
    query.holds(|key| job.described(index).label(index, key))
}

pub(super) fn labels(text: &str) -> Result<LabelQuery, Status> {
    if text.is_empty() {
        return Ok(LabelQuery::default());
    }
    text.parse()
        .map_err(|error: model::LabelQueryError| Status::invalid_argument(error.to_string()))
}

pub(super) fn selection(tasks: Option<v1::TaskSelection>) -> Result<TaskSelection, Status> {
    match tasks {
        None => Ok(TaskSelection::All),
        Some(tasks) => tasks.asked().map_err(|error| Status::invalid_argument(error.to_string())),
    }
}

/// The requested tasks of a job, which have to exist.
pub(super) fn selection_of(
    job: &Job,
    tasks: Option<v1::TaskSelection>,
) -> Result<TaskSelection, Status> {
    selection_within(job, tasks, job.size())
}

/// The same, with replacements and removed tasks that have ended.
pub(super) fn selection_with_ended(
    job: &Job,
    tasks: Option<v1::TaskSelection>,
) -> Result<TaskSelection, Status> {
    selection_within(job, tasks, job.rows())
}

fn selection_within(
    job: &Job,
    tasks: Option<v1::TaskSelection>,
    of: u32,
) -> Result<TaskSelection, Status> {
    let tasks = selection(tasks)?;
    match tasks.is_within(of) {
        true => Ok(tasks),
        false => Err(no_such_task(job)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cell::{Mutation, Op, RequestId, ResizeJob, SetCapability};
    use model::{Capability, SessionId};
    use spec::{JobSpec, TaskOverride, TaskSpec};

    use super::*;

    /// A cell with jobs of ana.
    fn cell(jobs: &[(&str, u32)]) -> Cell {
        let mut cell = Cell::empty();
        let ana: UserName = "ana".parse().expect("a name");
        let name = "lab".parse().expect("a name");
        cell.apply(Time(1), &Op::Bootstrap { name, administrator: ana.clone() });
        cell.apply(Time(2), &Op::OpenSession { user: ana.clone() });
        for (sequence, (name, tasks)) in (1..).zip(jobs) {
            let (name, priority) = (name.parse().expect("a name"), "1".parse().expect("one"));
            let spec = JobSpec::of(name, priority, *tasks, TaskSpec::of(vec!["x".to_owned()]));
            let id = RequestId { session: SessionId(1), sequence };
            let mutation = Mutation::Submit(Arc::new(spec));
            cell.apply(Time(3), &Op::Request { id, by: ana.clone(), mutation });
        }
        cell
    }

    /// The requested jobs that ana is shown, or the error.
    fn shown(cell: &Cell, jobs: &[&str], tasks: bool) -> Result<Vec<String>, String> {
        let me: UserName = "ana".parse().expect("a name");
        let address = |job: &&str| v1::JobAddress { job: (*job).to_owned(), ..Default::default() };
        let jobs = jobs.iter().map(address).collect();
        let asked = v1::StatusRequest { jobs, tasks, ..v1::StatusRequest::default() };
        let reads = Reads { cell, now: Time(4), me: &me, administers_jobs: false };
        let answer = reads.status(&asked);
        let name = |job: v1::JobStatus| job.spec.map(|spec| spec.name).unwrap_or_default();
        let names = |answer: v1::StatusResponse| answer.jobs.into_iter().map(name).collect();
        answer.map(names).map_err(|status| status.message().to_owned())
    }

    /// A cell of root's with a job of ana's that has variables; cho may administer jobs, dan
    /// something else.
    fn cell_with_env() -> Cell {
        let mut cell = Cell::empty();
        let user = |name: &str| -> UserName { name.parse().expect("a name") };
        let name = "lab".parse().expect("a name");
        cell.apply(Time(1), &Op::Bootstrap { name, administrator: user("root") });
        let env = |name: &str| BTreeMap::from([(name.to_owned(), "hunter2".to_owned())]);
        let mut task = TaskSpec::of(vec!["x".to_owned()]);
        let (name, priority) = ("keys".parse().expect("a name"), "1".parse().expect("one"));
        task.env = env("KEY");
        let mut keys = JobSpec::of(name, priority, 2, task);
        let own = TaskOverride { env: env("OWN"), ..TaskOverride::default() };
        keys.overrides.insert(TaskIndex(1), own);
        let capability = |name: &str, capability| {
            let user = user(name);
            ("root", Mutation::SetCapability(SetCapability { user, capability, granted: true }))
        };
        for (session, (by, mutation)) in (1..).zip([
            ("ana", Mutation::Submit(Arc::new(keys))),
            capability("cho", Capability::AdministerJobs),
            capability("dan", Capability::GrantQuota),
        ]) {
            let by = user(by);
            cell.apply(Time(2), &Op::OpenSession { user: by.clone() });
            let id = RequestId { session: SessionId(session), sequence: 1 };
            cell.apply(Time(3), &Op::Request { id, by, mutation });
        }
        cell
    }

    #[test]
    fn values_of_env_are_for_the_owner_and_job_administrators() {
        let view = View::of(cell_with_env());
        for (by, shown) in [
            (Caller::of("ana"), true),
            (Caller::task_of("ana"), true),
            (Caller::of("ben"), false),
            (Caller::task_of("ben"), false),
            (Caller::of("root"), true),
            (Caller::task_of("root"), false),
            (Caller::of("cho"), true),
            (Caller::task_of("cho"), false),
            (Caller::of("dan"), false),
        ] {
            let job = view.cell.jobs().next().expect("the job");
            let status = Reads::of(&view, &by).job(job, true);
            let spec = status.spec.expect("its description");
            let own = &spec.overrides[&1];
            let value = |env: &BTreeMap<String, String>| env.values().cloned().collect::<String>();
            let names = [spec.hidden_env.concat(), own.hidden_env.concat()];
            let seen = [value(&spec.env), value(&own.env), names.concat()];
            let expected = if shown { ["hunter2", "hunter2", ""] } else { ["", "", "KEYOWN"] };
            assert_eq!(seen, expected, "{by:?}");
        }
    }

    #[test]
    fn a_job_that_is_named_twice_is_shown_once() {
        let cell = cell(&[("web", 2), ("log", 1)]);
        let twice = shown(&cell, &["log", "web", "log", "log"], true);
        assert_eq!(twice, Ok(vec!["log".to_owned(), "web".to_owned()]));
        let none = shown(&cell, &["web", "wep"], true);
        assert_eq!(none, Err("there is no job ana/wep; the nearest is ana/web".to_owned()));
    }

    #[test]
    fn a_task_that_a_job_does_not_have_is_named_with_those_it_has() {
        let mut cell = cell(&[("web", 3), ("none", 1)]);
        let owner: UserName = "ana".parse().expect("a name");
        let id = RequestId { session: SessionId(1), sequence: 3 };
        let job = "none".parse().expect("a name");
        let none = ResizeJob { owner: owner.clone(), job, tasks: 0, expected: None };
        let mutation = Mutation::ResizeJob(none);
        cell.apply(Time(4), &Op::Request { id, by: owner, mutation });
        for (name, why) in [
            ("web", "ana/web has tasks 0 to 2 only"),
            ("none", "ana/none has no tasks: bourg resize ana/none 1 starts one"),
        ] {
            let job = cell.jobs().find(|job| job.spec.name.as_str() == name).expect("a job");
            let range = v1::IndexRange { first: 3, last: 3 };
            let tasks = Some(v1::TaskSelection { all: false, ranges: vec![range] });
            let refused = selection_of(job, tasks).expect_err("there is none");
            assert_eq!((refused.code(), refused.message()), (tonic::Code::InvalidArgument, why));
        }
    }

    #[test]
    fn so_many_are_named_and_so_many_tasks_shown_at_once() {
        assert!(few("jobs", NAMES_MAX).is_ok());
        let refused = few("jobs", NAMES_MAX + 1).expect_err("that is one too many");
        assert_eq!(refused.message(), "names: has 1001 jobs, at most 1000 are allowed");
        let cell = cell(&[
            ("a", 100_000),
            ("b", 100_000),
            ("c", 100_000),
            ("d", 100_000),
            ("e", 99_999),
            ("f", 2),
        ]);
        let why = "these jobs have 500001 tasks, and at most 500000 are shown: ask without tasks, or for \
                   fewer jobs";
        assert_eq!(shown(&cell, &[], true), Err(why.to_owned()));
        assert_eq!(shown(&cell, &[], false).map(|jobs| jobs.len()), Ok(6));
        assert_eq!(shown(&cell, &["f", "b"], true).map(|jobs| jobs.len()), Ok(2));
    }
}
