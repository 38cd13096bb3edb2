//! Converts rows to a cell by following every task through its events.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::mem;

use model::{
    CollectionId, JobName, MachineId, MachineName, Resources, Span, TaskIndex, Time, UserName,
};
use spec::limits::TASKS_MAX as TASKS_OF_JOB_MAX;

use super::churn::{
    Arrival, Churn, ChurnCounts, ChurnStep, JobIn, Outage, Run, RunOutcome, StepKind,
};
use super::csv::{ReadError, RowProblem};
use super::row::{EventKind, MachineRow, Removal, TaskEvent, TaskEvents};
use super::scale::{Scale, Users, priority};
use super::{START, TOGETHER, limits, machines, removals};
use crate::cell::{CellSnapshot, Dropped, Job, Machine, Task};

/// The maximum absence of a machine.
const AWAY_MAX: Span = Span::from_secs(600);

/// Collects rows and builds the cell at time 0 and its churn.
///
/// No row is rejected because of others: rows that contradict earlier ones are counted ([`ChurnCounts`])
/// and otherwise ignored.
#[derive(Debug, Default)]
pub struct HistoryBuilder {
    scale: Scale,
    machines: Vec<Machine>,
    places: BTreeMap<MachineId, usize>,
    outages: Vec<Outage>,
    users: Users,
    drafts: Vec<Draft>,
    /// The newest draft of a job at one priority: the trace has jobs with tasks of two priorities.
    newest: BTreeMap<(CollectionId, u8), usize>,
    /// The number of drafts of a job.
    rounds: BTreeMap<CollectionId, u32>,
    tasks: BTreeMap<(CollectionId, TaskIndex), TaskProgress>,
    tasks_in_all: usize,
    unknown_machines: BTreeSet<MachineId>,
    dropped: Dropped,
    now: Time,
    counts: ChurnCounts,
}

/// The cell at time 0 and its churn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The cell at time 0.
    pub snapshot: CellSnapshot,
    /// The events after time 0.
    pub churn: Churn,
}

/// Tasks of one job that were submitted together.
#[derive(Debug)]
struct Draft {
    begun: Time,
    /// When its last task arrived.
    last: Time,
    job: Job,
    /// The runs, for each task of the job.
    runs: Vec<Vec<Run>>,
    /// The positions of tasks that are omitted in the end.
    dropped: BTreeSet<usize>,
    /// The positions of tasks whose request is unknown.
    without_request: BTreeSet<usize>,
    /// Whether its tasks must run on different machines: from the submissions, or, before the
    /// trace, from the placements, which are newer and were enforced.
    apart: bool,
    apart_as_placed: Option<bool>,
}

/// A task's stage and draft.
#[derive(Clone, Copy, Debug)]
struct TaskProgress {
    draft: usize,
    place: usize,
    stage: TaskStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskStage {
    Pending,
    Running {
        since: Time,
    },
    Evicted,
    Ended {
        at: Time,
        /// Whether it may be restarted as the same task.
        again: bool,
    },
    /// It runs on an unknown machine.
    Dropped,
}

impl Trace {
    /// Reads the three tables, decompressed.
    ///
    /// # Errors
    /// At the first invalid row.
    pub fn read(
        scale: Scale,
        of_machines: impl BufRead,
        of_removals: impl BufRead,
        task_events: impl BufRead,
    ) -> Result<Self, ReadError> {
        let (machines, removals) = (machines(of_machines)?, removals(of_removals)?);
        let mut history = HistoryBuilder::new(scale, &machines, &removals);
        history.read(task_events)?;
        Ok(history.finish())
    }
}

impl HistoryBuilder {
    /// A cell of these machines, without tasks.
    #[must_use]
    pub fn new(scale: Scale, machines: &[MachineRow], removals: &[Removal]) -> Self {
        let mut machines: Vec<Machine> = machines.iter().map(|row| machine(&scale, row)).collect();
        machines.sort_by_key(|machine| machine.id);
        machines.dedup_by_key(|machine| machine.id);
        let ids = machines.iter().enumerate();
        let places = ids.map(|(place, machine)| (machine.id, place)).collect();
        let mut counts = ChurnCounts::default();
        let outages = outages(removals, &places, &mut counts);
        Self { scale, machines, places, outages, counts, ..Self::default() }
    }

    /// Reads a table of task events; several tables must be read in order.
    ///
    /// # Errors
    /// At the first invalid row, and at more than [`limits::TASKS_MAX`] tasks.
    pub fn read(&mut self, task_events: impl BufRead) -> Result<(), ReadError> {
        let mut events = TaskEvents::new(task_events);
        while let Some(event) = events.next() {
            self.add(&event?).map_err(|problem| events.error(problem))?;
        }
        Ok(())
    }

    /// Processes a row.
    ///
    /// # Errors
    /// At more than [`limits::TASKS_MAX`] tasks.
    pub fn add(&mut self, event: &TaskEvent) -> Result<(), RowProblem> {
        if self.tasks_in_all >= limits::TASKS_MAX {
            return Err(RowProblem::TooMany { most: limits::TASKS_MAX, what: "tasks" });
        }
        self.counts.rows += 1;
        self.counts.out_of_order += u64::from(event.at < self.now);
        self.now = self.now.max(event.at);
        let known = self.tasks.get(&(event.job, event.index)).copied();
        match event.kind {
            EventKind::Submit => self.submit(event, known),
            EventKind::Schedule => self.schedule(event, known),
            EventKind::Evict | EventKind::Lost => self.evict(event, known),
            EventKind::Finish => self.end(event, known, RunOutcome::Finished),
            EventKind::Fail => self.end(event, known, RunOutcome::Failed),
            EventKind::Kill => self.end(event, known, RunOutcome::Killed),
            EventKind::UpdatePending | EventKind::UpdateRunning => self.counts.updates += 1,
        }
        Ok(())
    }

    fn submit(&mut self, event: &TaskEvent, known: Option<TaskProgress>) {
        let before_the_trace = self.now == Time::ZERO;
        match known.map(|known| (known, known.stage)) {
            None => drop(self.arrive(event)),
            Some((_, TaskStage::Dropped)) if !before_the_trace => drop(self.arrive(event)),
            Some((known, TaskStage::Evicted)) => self.set(event, known, TaskStage::Pending),
            Some((known, TaskStage::Ended { at, again: true }))
                if self.now.since(at) <= TOGETHER =>
            {
                self.counts.restarts += 1;
                let asked = self.drafts.get(known.draft).and_then(|d| d.job.tasks.get(known.place));
                let asks = self.request(event);
                self.counts.updates += u64::from(asked.is_some_and(|task| task.request != asks));
                self.set(event, known, TaskStage::Pending);
            }
            Some((_, TaskStage::Ended { .. })) => drop(self.arrive(event)),
            Some((_, TaskStage::Pending | TaskStage::Running { .. } | TaskStage::Dropped)) => {
                self.counts.impossible += 1;
            }
        }
    }

    fn schedule(&mut self, event: &TaskEvent, known: Option<TaskProgress>) {
        let before_the_trace = self.now == Time::ZERO;
        let known = match known {
            Some(TaskProgress { stage: TaskStage::Dropped, .. }) => {
                self.counts.of_dropped_tasks += 1;
                return;
            }
            Some(known) if !matches!(known.stage, TaskStage::Ended { .. }) => known,
            // Its submission is not in the data.
            None | Some(_) => {
                self.counts.impossible += 1;
                self.arrive(event)
            }
        };
        self.counts.impossible += u64::from(matches!(known.stage, TaskStage::Running { .. }));
        if !before_the_trace {
            self.counts.scheduled += 1;
            return self.set(event, known, TaskStage::Running { since: self.now });
        }
        self.place(event, known);
    }

    /// A task runs at time 0. Of its rows at that time, the placement is newer than the submission:
    /// it has the current request and the current setting for different machines.
    fn place(&mut self, event: &TaskEvent, known: TaskProgress) {
        let request = event.request.map(|request| self.scale.request(&request));
        let Some(draft) = self.drafts.get_mut(known.draft) else { return };
        let apart = event.different_machines == Some(true);
        draft.apart_as_placed = Some(apart || draft.apart_as_placed == Some(true));
        let machine = event.machine.and_then(|machine| self.places.get(&machine)).copied();
        if let Some(task) = draft.job.tasks.get_mut(known.place) {
            task.machine = machine;
            task.request = request.unwrap_or(task.request);
        }
        if request.is_some() {
            draft.without_request.remove(&known.place);
        }
        if machine.is_none() {
            draft.dropped.insert(known.place);
            self.dropped.tasks_on_unknown_machines += 1;
            self.unknown_machines.extend(event.machine);
            return self.set(event, known, TaskStage::Dropped);
        }
        self.set(event, known, TaskStage::Running { since: START });
    }

    fn evict(&mut self, event: &TaskEvent, known: Option<TaskProgress>) {
        let Some(known) = self.alive(known) else { return };
        match event.kind {
            EventKind::Lost => self.counts.lost += 1,
            _ => self.counts.evictions += 1,
        }
        let ran = matches!(known.stage, TaskStage::Running { .. });
        self.counts.impossible += u64::from(!ran);
        self.set(event, known, TaskStage::Evicted);
    }

    fn end(&mut self, event: &TaskEvent, known: Option<TaskProgress>, outcome: RunOutcome) {
        let Some(known) = self.alive(known) else { return };
        let run = match known.stage {
            TaskStage::Running { since } => Some(self.now.since(since)),
            _ => None,
        };
        self.counts.impossible += u64::from(run.is_none() && outcome != RunOutcome::Killed);
        match outcome {
            RunOutcome::Finished => self.counts.finished += 1,
            RunOutcome::Failed => self.counts.failed += 1,
            RunOutcome::Killed => self.counts.killed += 1,
        }
        let end = Run { outcome, run, at: self.now };
        let runs = self.drafts.get_mut(known.draft).and_then(|d| d.runs.get_mut(known.place));
        runs.into_iter().for_each(|runs| runs.push(end));
        let again = outcome != RunOutcome::Finished;
        self.set(event, known, TaskStage::Ended { at: self.now, again });
    }

    /// Passes on a task that can lose its machine or end, and counts any other row as impossible.
    fn alive(&mut self, known: Option<TaskProgress>) -> Option<TaskProgress> {
        match known.map(|known| known.stage) {
            Some(TaskStage::Pending | TaskStage::Running { .. } | TaskStage::Evicted) => {
                return known;
            }
            Some(TaskStage::Dropped) => self.counts.of_dropped_tasks += 1,
            Some(TaskStage::Ended { .. }) | None => self.counts.impossible += 1,
        }
        None
    }

    fn set(&mut self, event: &TaskEvent, known: TaskProgress, stage: TaskStage) {
        self.tasks.insert((event.job, event.index), TaskProgress { stage, ..known });
    }

    /// A task arrives, with others of its job or as the first of a new draft.
    fn arrive(&mut self, event: &TaskEvent) -> TaskProgress {
        self.counts.submitted += u64::from(self.now > Time::ZERO);
        self.tasks_in_all += 1;
        let request = self.request(event);
        let owner = self.users.name(event.user.as_deref());
        let number = self.open_draft(event).unwrap_or_else(|| self.new_draft(event, &owner));
        let mut known = TaskProgress { draft: number, place: 0, stage: TaskStage::Pending };
        if let Some(draft) = self.drafts.get_mut(number) {
            let class = event.scheduling_class.unwrap_or_default();
            let contradicts = draft.job.owner != owner || draft.job.class != class;
            self.counts.contradicting += u64::from(contradicts);
            known.place = draft.job.tasks.len();
            draft.last = self.now;
            draft.apart |= event.different_machines == Some(true);
            if event.request.is_none() {
                draft.without_request.insert(known.place);
            }
            draft.job.tasks.push(Task { index: event.index, request, machine: None });
            draft.runs.push(Vec::new());
        }
        self.set(event, known, TaskStage::Pending);
        known
    }

    /// The draft that an arriving task belongs to: that of the tasks that arrived with it.
    fn open_draft(&self, event: &TaskEvent) -> Option<usize> {
        let number = self.newest.get(&(event.job, event.priority)).copied()?;
        let draft = self.drafts.get(number)?;
        let together = match self.now {
            Time::ZERO => true,
            now => draft.begun > Time::ZERO && now.since(draft.last) <= TOGETHER,
        };
        let earlier = self.tasks.get(&(event.job, event.index));
        // A draft older than the task's newest one may contain it too.
        let is_in_it = earlier.is_some_and(|known| known.draft >= number);
        let room = draft.job.tasks.len() < TASKS_OF_JOB_MAX as usize;
        (together && room && !is_in_it).then_some(number)
    }

    fn new_draft(&mut self, event: &TaskEvent, owner: &UserName) -> usize {
        let number = self.drafts.len();
        self.newest.insert((event.job, event.priority), number);
        let round = self.rounds.entry(event.job).or_default();
        *round += 1;
        let job = Job {
            id: event.job,
            owner: owner.clone(),
            name: job_name(event.job, *round),
            priority: priority(event.priority),
            class: event.scheduling_class.unwrap_or_default(),
            different_machines: false,
            constraints: Vec::new(),
            tasks: Vec::new(),
        };
        self.drafts.push(Draft {
            begun: self.now,
            last: self.now,
            job,
            runs: Vec::new(),
            dropped: BTreeSet::new(),
            without_request: BTreeSet::new(),
            apart: false,
            apart_as_placed: None,
        });
        number
    }

    fn request(&self, event: &TaskEvent) -> Resources {
        event.request.map(|request| self.scale.request(&request)).unwrap_or_default()
    }

    /// Builds the result.
    #[must_use]
    pub fn finish(mut self) -> Trace {
        let mut trace = Trace::default();
        let mut steps = Vec::new();
        for draft in mem::take(&mut self.drafts) {
            let begun = draft.begun;
            let without_request = draft.without_request.difference(&draft.dropped).count() as u64;
            match begun {
                Time::ZERO => self.dropped.tasks_without_request += without_request,
                _ => self.counts.without_request += without_request,
            }
            let (job, runs) = draft.in_order();
            let number = match begun {
                Time::ZERO if job.tasks.is_empty() => {
                    self.dropped.jobs += 1;
                    continue;
                }
                Time::ZERO => JobIn::Snapshot(trace.snapshot.jobs.len()),
                _ => JobIn::Arrivals(trace.churn.arrivals.len()),
            };
            steps.extend(kills(number, &runs));
            match number {
                JobIn::Snapshot(_) => {
                    trace.snapshot.jobs.push(job);
                    trace.churn.standing.push(runs);
                }
                JobIn::Arrivals(place) => {
                    steps.push(ChurnStep { at: begun, what: StepKind::Arrive(place) });
                    trace.churn.arrivals.push(Arrival { at: begun, job, runs });
                }
            }
        }
        let removals = self.outages.iter().enumerate();
        steps.extend(
            removals.map(|(n, outage)| ChurnStep { at: outage.at, what: StepKind::Remove(n) }),
        );
        steps.sort_by(|one, two| (one.at, &one.what).cmp(&(two.at, &two.what)));
        trace.snapshot.machines = self.machines;
        trace.snapshot.dropped = self.dropped;
        trace.snapshot.dropped.unknown_machines = self.unknown_machines.len() as u64;
        trace.churn.steps = steps;
        trace.churn.outages = self.outages;
        trace.churn.until = self.now;
        trace.churn.counts = self.counts;
        trace
    }
}

impl Draft {
    /// The job and the runs of its tasks, ordered by index, without the omitted ones.
    fn in_order(self) -> (Job, Vec<Vec<Run>>) {
        let Self { mut job, runs, dropped, .. } = self;
        job.different_machines = self.apart_as_placed.unwrap_or(self.apart);
        let tasks = mem::take(&mut job.tasks).into_iter().zip(runs).enumerate();
        let kept = tasks.filter(|(place, _)| !dropped.contains(place)).map(|(_, kept)| kept);
        let mut kept: Vec<(Task, Vec<Run>)> = kept.collect();
        kept.sort_by_key(|(task, _)| task.index);
        let (tasks, runs) = kept.into_iter().unzip();
        job.tasks = tasks;
        (job, runs)
    }
}

fn machine(scale: &Scale, row: &MachineRow) -> Machine {
    let platform = row.platform.iter().map(|text| ("platform".to_owned(), text.to_string()));
    let name = format!("m{}", row.id);
    Machine {
        id: row.id,
        name: MachineName::new(&name).unwrap_or_else(|error| unreachable!("{error}")),
        capacity: scale.capacity(row),
        attributes: platform.collect(),
    }
}

/// `j7`, and `j7-2` if its tasks arrive a second time.
fn job_name(id: CollectionId, round: u32) -> JobName {
    let name = match round {
        1 => format!("j{id}"),
        _ => format!("j{id}-{round}"),
    };
    JobName::new(&name).unwrap_or_else(|error| unreachable!("{error}"))
}

/// The kills that ended tasks for good, those at the same time combined, and all other ends without
/// a run, because no run of a replay can produce those.
fn kills(job: JobIn, runs: &[Vec<Run>]) -> Vec<ChurnStep> {
    let last = runs.iter().enumerate().filter_map(|(place, runs)| Some((place, runs.last()?)));
    let killed = last.filter(|(_, end)| end.outcome == RunOutcome::Killed || end.run.is_none());
    let mut killed: Vec<(Time, usize)> = killed.map(|(place, end)| (end.at, place)).collect();
    killed.sort_unstable();
    let together = killed.chunk_by(|(one, _), (two, _)| two.since(*one) <= TOGETHER);
    let step = |kills: &[(Time, usize)]| {
        let mut tasks: Vec<usize> = kills.iter().map(|(_, place)| *place).collect();
        tasks.sort_unstable();
        let at = kills.first().map_or(Time::ZERO, |(at, _)| *at);
        ChurnStep { at, what: StepKind::Kill { job, tasks } }
    };
    together.map(step).collect()
}

/// The absences of machines.
fn outages(
    removals: &[Removal],
    places: &BTreeMap<MachineId, usize>,
    counts: &mut ChurnCounts,
) -> Vec<Outage> {
    let known = removals.iter().filter_map(|removal| {
        let place = places.get(&removal.machine).copied();
        counts.removals_unknown += u64::from(place.is_none());
        Some((removal.at, place?))
    });
    let mut known: Vec<(Time, usize)> = known.collect();
    known.sort_unstable();
    let before = known.len();
    known.dedup();
    counts.removals_doubled = (before - known.len()) as u64;

    let mut next: BTreeMap<usize, Time> = BTreeMap::new();
    let backwards = known.into_iter().rev().map(|(at, machine)| {
        let half_way = next.insert(machine, at).map(|next| Span(next.since(at).0 / 2));
        Outage { at, machine, lasts: half_way.unwrap_or(AWAY_MAX).min(AWAY_MAX) }
    });
    let mut outages: Vec<Outage> = backwards.collect();
    outages.reverse();
    outages
}
