//! A leading replica on simulated time, with simulated Borglets and a simulated disk.
//!
//! A Borglet obeys an order at once: what is no longer ordered is gone, and what is new starts. A task
//! of the updated job takes a while for that, drawn by the seed. Without news a Borglet holds a poll,
//! and the next poll ends the hold, as with a real one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use borglet::{Order, Report, TaskReport, TaskStatus};
use cell::{Cell, Job, Mutation, Op, Outcome, Reply, RequestId, UpdateStep};
use master::{Answer, Poll};
use masterd::Records;
use model::{CollectionId, InstanceId, MachineId, MachineReport, Random, Span, Stamp, Term, Time};
use replica::{
    Codec as _, HardState, Input, Output, Persist, Recovered, Replica, Settings, Ticket,
};

use super::made::Made;
use crate::thread_time;

/// The time of a write to the disk, with its fsync.
const WRITE: Span = Span(200);
/// From a poll to its answer, if it has one.
const CALL: Span = Span::from_millis(1);
/// The maximum time of a start.
const START_MAX: Span = Span::from_millis(500);
/// The time in which every machine is polled for the first time, and its tasks are reported.
const WARM_UP: Span = Span::from_secs(20);
/// The number of operations between checkpoints.
const CHECKPOINT_EVERY: u64 = 10_000;

/// What happens later.
enum Later {
    Input(Input),
    /// A task runs.
    Runs(MachineId, InstanceId),
}

/// A machine.
struct Host {
    report: Arc<Report>,
    version: u64,
    /// The end of the held poll.
    held: Option<(Time, u64)>,
}

/// What was committed since the counts were taken last.
#[derive(Debug, Default)]
pub(super) struct CommitCounts {
    pub(super) operations: u64,
    /// Operations with steps of updates, and with observations of machines.
    pub(super) step_operations: u64,
    pub(super) observe_operations: u64,
    pub(super) polls: u64,
    pub(super) orders: u64,
    /// How often the change of each task was committed as a step.
    pub(super) changes: BTreeMap<u32, u32>,
    /// How often a machine started an incarnation of each task of the job.
    pub(super) starts: BTreeMap<u32, u32>,
    /// The maximum number of tasks of the job that were down at once.
    pub(super) down_max: u32,
    /// When the last change was committed, in the world's and in processor time.
    pub(super) last_change: Option<(Time, Duration)>,
}

/// The replica and its world.
pub(super) struct Steered {
    made: Made,
    pub(super) now: Time,
    replica: Replica<Records>,
    inputs: Vec<Input>,
    later: BTreeMap<(Time, u64), Later>,
    number: u64,
    random: Random,
    hosts: BTreeMap<MachineId, Host>,
    /// Processor time of the replica.
    pub(super) cpu: Duration,
    pub(super) counts: CommitCounts,
    /// The number of changes that were handed to the disk and are not durable.
    pub(super) not_durable: usize,
    last_checkpoint: u64,
    reply: Option<Outcome>,
}

impl Steered {
    /// Starts a replica with a cell, and waits until every machine has reported its tasks.
    pub(super) fn start(mut made: Made, seed: u64) -> anyhow::Result<Self> {
        let cell = std::mem::replace(&mut made.cell, Cell::empty());
        let now = cell.time() + Span::from_secs(1);
        let host = |report: &Arc<MachineReport>| Host {
            report: Arc::new(Report { machine: Arc::clone(report), ..Report::default() }),
            version: 1,
            held: None,
        };
        let machines = cell.machines();
        let hosts = machines.map(|machine| (machine.id, host(&machine.report))).collect();
        let mut steered = Self {
            made,
            now,
            replica: replica(now, cell, Term(1))?,
            inputs: Vec::new(),
            later: BTreeMap::new(),
            number: 0,
            random: Random::new(seed),
            hosts,
            cpu: Duration::ZERO,
            counts: CommitCounts::default(),
            not_durable: 0,
            last_checkpoint: 0,
            reply: None,
        };
        steered.run_for(WARM_UP)?;
        let silent = |job: &&Arc<Job>| job.counts().running != job.counts().up;
        let silent = steered.cell().jobs().filter(silent).count();
        ensure!(silent == 0, "tasks of {silent} jobs do not run");
        Ok(steered)
    }

    /// The cell as the replica has applied it.
    pub(super) fn cell(&self) -> &Cell {
        self.replica.cell()
    }

    /// The job that is updated.
    pub(super) fn job(&self) -> anyhow::Result<&Arc<Job>> {
        self.cell().job(self.made.job).context("the job is gone")
    }

    /// Forgets what was counted.
    pub(super) fn begin_counts(&mut self) {
        (self.counts, self.cpu) = (CommitCounts::default(), Duration::ZERO);
    }

    /// Lets time pass.
    pub(super) fn run_for(&mut self, span: Span) -> anyhow::Result<()> {
        let until = self.now + span;
        while self.next() <= until {
            self.turn()?;
        }
        self.now = until;
        Ok(())
    }

    /// A user of the job makes a request.
    pub(super) fn request(&mut self, mutation: Mutation) -> anyhow::Result<Reply> {
        self.made.sequence += 1;
        let id = RequestId { session: self.made.session, sequence: self.made.sequence };
        let by = self.made.user.clone();
        self.inputs.push(Input::Request(Ticket(self.made.sequence), id, by, mutation));
        self.step()?;
        loop {
            match self.reply.take() {
                Some(Outcome::Request(Ok(reply))) => return Ok(reply),
                Some(other) => bail!("{other:?}"),
                None => self.turn()?,
            }
        }
    }

    /// The replica loses what is not durable, and every connection, and starts again.
    pub(super) fn restart(&mut self) -> anyhow::Result<()> {
        self.inputs.clear();
        self.later.retain(|_, later| matches!(later, Later::Runs(..)));
        self.hosts.values_mut().for_each(|host| host.held = None);
        self.not_durable = 0;
        let (cell, term) = (self.replica.cell().clone(), self.replica.term());
        let cpu = thread_time();
        self.replica = replica(self.now, cell, term)?;
        self.cpu += thread_time().saturating_sub(cpu);
        Ok(())
    }

    fn next(&self) -> Time {
        let later = self.later.keys().next().map(|(at, _)| *at);
        let next = self.replica.next_step();
        later.map_or(next, |at| at.min(next)).max(self.now)
    }

    /// Goes on to the next moment at which something happens.
    pub(super) fn turn(&mut self) -> anyhow::Result<()> {
        self.now = self.next();
        while let Some(entry) = self.later.first_entry()
            && entry.key().0 <= self.now
        {
            match entry.remove() {
                Later::Input(input) => self.inputs.push(input),
                Later::Runs(machine, instance) => self.runs(machine, instance),
            }
        }
        self.step()
    }

    fn step(&mut self) -> anyhow::Result<()> {
        if self.inputs.iter().any(|input| matches!(input, Input::Persisted(_))) {
            self.not_durable = 0;
        }
        let mut outputs = Vec::new();
        let cpu = thread_time();
        self.replica.step(self.now, self.inputs.drain(..), &mut outputs)?;
        self.cpu += thread_time().saturating_sub(cpu);
        for output in outputs {
            match output {
                Output::Persist(persist) => self.write(&persist)?,
                Output::Poll(poll) => self.polled(poll)?,
                Output::Committed { entry, .. } => self.committed(&entry.data)?,
                Output::Reply(_, _, outcome) => self.reply = Some(outcome),
                Output::Refused(_, refusal) => bail!("{refusal}"),
                _ => {}
            }
        }
        Ok(())
    }

    fn later(&mut self, at: Time, later: Later) -> (Time, u64) {
        self.number += 1;
        self.later.insert((at, self.number), later);
        (at, self.number)
    }

    fn write(&mut self, persist: &Persist) -> anyhow::Result<()> {
        for entry in &persist.entries {
            if let Some(Op::StepUpdate { job, steps, .. }) = decoded(&entry.data)?
                && job == self.made.job
            {
                self.not_durable += changes(&steps).count();
            }
        }
        self.later(self.now + WRITE, Later::Input(Input::Persisted(persist.number)));
        Ok(())
    }

    fn committed(&mut self, data: &[u8]) -> anyhow::Result<()> {
        self.counts.operations += 1;
        match decoded(data)? {
            Some(Op::StepUpdate { job, steps, .. }) if job == self.made.job => {
                self.counts.step_operations += 1;
                for index in changes(&steps) {
                    *self.counts.changes.entry(index).or_default() += 1;
                    self.counts.last_change = Some((self.now, self.cpu));
                }
            }
            Some(Op::Observe { .. }) => self.counts.observe_operations += 1,
            _ => {}
        }
        let down = self.job()?.down();
        self.counts.down_max = self.counts.down_max.max(down);
        let index = self.cell().index();
        if index.0 >= self.last_checkpoint + CHECKPOINT_EVERY {
            self.last_checkpoint = index.0;
            self.inputs.push(Input::Checkpointed(index));
        }
        Ok(())
    }

    fn polled(&mut self, poll: Poll) -> anyhow::Result<()> {
        let (now, job, machine) = (self.now, self.made.job, poll.machine);
        self.counts.polls += 1;
        self.end_hold(machine);
        let host = self.hosts.get_mut(&machine).context("no such machine")?;
        let had_order = poll.order.is_some();
        let begins = poll.order.map(|order| host.obey(&order, job));
        let held = !had_order && poll.seen == host.version;
        self.counts.orders += u64::from(had_order);
        for instance in begins.into_iter().flatten() {
            *self.counts.starts.entry(instance.index.0).or_default() += 1;
            let takes = Span(self.random.below(START_MAX.0));
            self.later(now + takes, Later::Runs(machine, instance));
        }
        let answer = self.answer(machine, had_order)?;
        let place = self.later(if held { now + poll.hold } else { now + CALL }, answer);
        if held && let Some(host) = self.hosts.get_mut(&machine) {
            host.held = Some(place);
        }
        Ok(())
    }

    /// What a machine answers now.
    fn answer(&self, machine: MachineId, had_order: bool) -> anyhow::Result<Later> {
        let host = self.hosts.get(&machine).context("no such machine")?;
        let (report, version) = (Arc::clone(&host.report), host.version);
        let answer = Answer::Report { report, version, usage: Arc::default() };
        Ok(Later::Input(Input::Answered { machine, had_order, answer }))
    }

    /// The poll that a machine holds is answered with what it knows now.
    fn end_hold(&mut self, machine: MachineId) {
        let Some(host) = self.hosts.get_mut(&machine) else { return };
        if host.held.take().and_then(|held| self.later.remove(&held)).is_some()
            && let Ok(answer) = self.answer(machine, false)
        {
            self.later(self.now + CALL, answer);
        }
    }

    fn runs(&mut self, machine: MachineId, instance: InstanceId) {
        let Some(host) = self.hosts.get_mut(&machine) else { return };
        let mut report = Report::clone(&host.report);
        let Some(task) = report.tasks.iter_mut().find(|task| task.instance == instance) else {
            return;
        };
        task.status = TaskStatus::Running { healthy: Some(true) };
        (host.report, host.version) = (Arc::new(report), host.version + 1);
        self.end_hold(machine);
    }
}

impl Host {
    /// Has exactly what is ordered; returns the instances of a job that begin. Others run at once.
    fn obey(&mut self, order: &Order, job: CollectionId) -> Vec<InstanceId> {
        if order.stamp <= self.report.stamp && self.report.stamp != Stamp::default() {
            return Vec::new();
        }
        let mut had: BTreeMap<InstanceId, TaskStatus> = BTreeMap::new();
        had.extend(self.report.tasks.iter().map(|task| (task.instance, task.status.clone())));
        let mut ordered: Vec<InstanceId> = order.tasks.iter().map(|task| task.instance).collect();
        ordered.extend(order.allocs.iter().map(|alloc| alloc.instance));
        ordered.sort_unstable();
        let mut begins = Vec::new();
        let tasks = ordered.into_iter().map(|instance| {
            let status = had.remove(&instance).unwrap_or_else(|| {
                if instance.collection == job {
                    begins.push(instance);
                    return TaskStatus::Starting;
                }
                TaskStatus::Running { healthy: Some(true) }
            });
            let (check, latency) = (String::new(), model::StartLatency::UNKNOWN);
            TaskReport { instance, status, check, latency }
        });
        let tasks = tasks.collect();
        let machine = Arc::clone(&self.report.machine);
        self.report = Arc::new(Report { stamp: order.stamp, machine, tasks });
        self.version += 1;
        begins
    }
}

/// A replica that goes on from a cell, alone.
fn replica(now: Time, cell: Cell, term: Term) -> anyhow::Result<Replica<Records>> {
    let hard_state = HardState { term, vote: 1, ..HardState::default() };
    let recovered =
        Recovered { checkpoint: Some((cell, term)), hard_state, ..Recovered::default() };
    Ok(Replica::new(Settings::default(), Records, now, recovered, None)?)
}

/// The operation of a record; the first of a term has none.
fn decoded(data: &[u8]) -> anyhow::Result<Option<Op>> {
    if data.is_empty() {
        return Ok(None);
    }
    let (_, op) = Records.decode(data).map_err(anyhow::Error::msg)?;
    Ok(Some(op))
}

/// The tasks that steps change.
fn changes(steps: &[UpdateStep]) -> impl Iterator<Item = u32> {
    steps.iter().filter_map(|step| match step {
        UpdateStep::Change(index) => Some(index.0),
        _ => None,
    })
}
