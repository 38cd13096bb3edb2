//! Replays the churn of a real cell: the jobs, ends, kills and machine removals of Google's trace
//! of 2011, in a simulated cell.
//!
//! What the trace attributes to people and hardware happens at the time of the trace; what followed
//! from Borg's placements is this cell's own. A task runs as long as it did there, whenever it
//! starts here. The world begins at the trace's time 0. Since the trace has little data on usage,
//! and the scheduler places by limits, each task requests a share of its original request.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use borglet::Desired;
use cell::{Cell, Kill, Mutation, Rejection, Reply};
use model::{
    End, Generation, JobName, MachineName, MachineReport, PortRange, Random, Span, TaskIndex,
    TaskSelection, Time, UserName,
};
use trace::google2011::{JobIn, Run as TraceRun, RunOutcome, START, StepKind, Trace};
use trace::{Job, PerMille};

use crate::load::{Action, Load};
use crate::program::{Incarnation, Programs};
use crate::world::BEGIN;

/// When the jobs of time 0 are submitted: the machines have joined by then.
const SUBMITTED: Span = Span::from_secs(120);
/// Number of jobs submitted at once.
const TOGETHER: usize = 50;

/// The churn, as a load and as the behaviour of programs.
#[derive(Clone)]
pub struct Replay {
    shared: Rc<ReplayState>,
    /// How many of the jobs of time 0, and of the steps, are done.
    submitted: usize,
    stepped: usize,
    stopped: bool,
    admitted: BTreeSet<JobName>,
}

struct ReplayState {
    trace: Trace,
    share: PerMille,
    clients: BTreeMap<UserName, usize>,
    users: Vec<UserName>,
    jobs: BTreeMap<JobName, JobIn>,
    /// Number of incarnations of each task that reached their ends.
    lived: RefCell<BTreeMap<(JobName, TaskIndex), usize>>,
}

impl Replay {
    /// The churn of a cell whose tasks request a share of their original requests.
    #[must_use]
    pub fn new(trace: Trace, share: PerMille) -> Self {
        let mut users: Vec<UserName> = UserName::new("root").into_iter().collect();
        let mut clients = BTreeMap::new();
        let mut jobs = BTreeMap::new();
        let snapshot = trace.snapshot.jobs.iter().enumerate();
        let arrivals = trace.churn.arrivals.iter().enumerate();
        let snapshot = snapshot.map(|(place, job)| (JobIn::Snapshot(place), job));
        let arrivals = arrivals.map(|(place, arrival)| (JobIn::Arrivals(place), &arrival.job));
        for (place, job) in snapshot.chain(arrivals) {
            clients.entry(job.owner.clone()).or_insert_with(|| {
                users.push(job.owner.clone());
                users.len() - 1
            });
            jobs.insert(job.name.clone(), place);
        }
        let lived = RefCell::default();
        let shared = Rc::new(ReplayState { trace, share, clients, users, jobs, lived });
        let (submitted, stepped, stopped) = (0, 0, false);
        Self { shared, submitted, stepped, stopped, admitted: BTreeSet::new() }
    }

    /// The owners of the jobs; the first is the administrator.
    #[must_use]
    pub fn users(&self) -> Vec<UserName> {
        self.shared.users.clone()
    }

    /// The machines, with ports for as many tasks as fit.
    #[must_use]
    pub fn machines(&self) -> Vec<(MachineName, Arc<MachineReport>)> {
        let ports = PortRange { first: 31_000, last: 31_999 };
        let machine = |machine: &trace::Machine| {
            let (capacity, attributes) = (machine.capacity, machine.attributes.clone());
            (
                machine.name.clone(),
                Arc::new(MachineReport { capacity, ports, attributes, ..MachineReport::default() }),
            )
        };
        self.shared.trace.snapshot.machines.iter().map(machine).collect()
    }

    /// The length of the trace.
    #[must_use]
    pub fn lasts(&self) -> Span {
        self.shared.trace.churn.until.since(Time::ZERO)
    }

    /// The behaviour of its tasks' programs.
    #[must_use]
    pub fn programs(&self) -> Box<dyn Programs> {
        Box::new(self.clone())
    }

    fn submit(&self, job: &Job) -> Option<Action> {
        let client = *self.shared.clients.get(&job.owner)?;
        Some(Action::Request(client, Mutation::Submit(Arc::new(job.spec(self.shared.share)))))
    }

    fn step(&self, what: &StepKind) -> Option<Action> {
        let churn = &self.shared.trace.churn;
        match what {
            StepKind::Remove(place) => {
                let outage = churn.outages.get(*place)?;
                Some(Action::Remove(outage.machine, outage.lasts))
            }
            StepKind::Arrive(place) => self.submit(&churn.arrivals.get(*place)?.job),
            StepKind::Kill { job, tasks } => {
                let job = self.shared.job(*job)?;
                let client = *self.shared.clients.get(&job.owner)?;
                // A job that was never admitted here cannot be killed.
                self.admitted.get(&job.name)?;
                let index = |place: &usize| Some(TaskIndex(u32::try_from(*place).ok()?));
                let ranges = tasks.iter().filter_map(index).map(|index| (index, index));
                let tasks = TaskSelection::Some(ranges.collect());
                let (owner, job) = (job.owner.clone(), job.name.clone());
                Some(Action::Request(
                    client,
                    Mutation::Kill(Kill { owner, job, tasks, now: false }),
                ))
            }
        }
    }
}

impl ReplayState {
    fn job(&self, job: JobIn) -> Option<&Job> {
        match job {
            JobIn::Snapshot(place) => self.trace.snapshot.jobs.get(place),
            JobIn::Arrivals(place) => Some(&self.trace.churn.arrivals.get(place)?.job),
        }
    }

    fn runs(&self, job: JobIn, index: TaskIndex) -> Option<&[TraceRun]> {
        let place = usize::try_from(index.0).ok()?;
        let runs = match job {
            JobIn::Snapshot(job) => self.trace.churn.standing.get(job)?.get(place)?,
            JobIn::Arrivals(job) => self.trace.churn.arrivals.get(job)?.runs.get(place)?,
        };
        Some(runs)
    }
}

impl Load for Replay {
    fn next(&mut self, now: Time) -> Option<Time> {
        if self.stopped {
            return None;
        }
        if self.submitted < self.shared.trace.snapshot.jobs.len() {
            return Some((BEGIN + SUBMITTED).max(now + Span::from_millis(1)));
        }
        let step = self.shared.trace.churn.steps.get(self.stepped)?;
        Some(BEGIN + step.at.since(Time::ZERO))
    }

    fn action(&mut self, now: Time, _: Option<&Cell>, _: &mut Random) -> Vec<Action> {
        let shared = Rc::clone(&self.shared);
        let jobs = &shared.trace.snapshot.jobs;
        if self.submitted < jobs.len() {
            let some = &jobs[self.submitted..(self.submitted + TOGETHER).min(jobs.len())];
            self.submitted += some.len();
            return some.iter().filter_map(|job| self.submit(job)).collect();
        }
        let mut actions = Vec::new();
        while let Some(step) = shared.trace.churn.steps.get(self.stepped)
            && BEGIN + step.at.since(Time::ZERO) <= now
        {
            actions.extend(self.step(&step.what));
            self.stepped += 1;
        }
        actions
    }

    fn answered(&mut self, _: &UserName, what: &Mutation, answer: &Result<Reply, Rejection>) {
        if let (Mutation::Submit(spec), Ok(Reply::Submitted { .. })) = (what, answer) {
            self.admitted.insert(spec.name.clone());
        }
    }

    fn stop(&mut self) {
        self.stopped = true;
    }
}

impl Programs for Replay {
    fn incarnation(
        &self,
        now: Time,
        desired: &Desired,
        _: Generation,
        _: &mut Random,
    ) -> Incarnation {
        let (name, index) = (&desired.job, desired.instance.index);
        let Some(job) = self.shared.jobs.get(name) else { return Incarnation::default() };
        let lived = self.shared.lived.borrow().get(&(name.clone(), index)).copied().unwrap_or(0);
        let runs = self.shared.runs(*job, index).unwrap_or_default();
        let Some(incarnation) = runs.get(lived) else { return Incarnation::default() };
        let is_last = lived + 1 == runs.len();
        let end = match incarnation.outcome {
            RunOutcome::Finished => End::Exited { code: 0 },
            RunOutcome::Failed => End::Exited { code: 1 },
            // The kill will be requested.
            RunOutcome::Killed if is_last => return Incarnation::default(),
            RunOutcome::Killed => End::Signalled { signal: 9 },
        };
        let before = match job {
            JobIn::Snapshot(_) if lived == 0 => (BEGIN + START.since(Time::ZERO)).since(now),
            _ => Span::ZERO,
        };
        let runs = Some(before + incarnation.run.unwrap_or_default());
        Incarnation { runs, end, ..Incarnation::default() }
    }

    fn came_to_its_end(&self, desired: &Desired) {
        let task = (desired.job.clone(), desired.instance.index);
        *self.shared.lived.borrow_mut().entry(task).or_default() += 1;
    }
}
