//! The batch queue of a cell: it follows the cell job by job, and says which tasks are enabled next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cell::{Applied, Cell, EventKind, Job, MachineState, Op, Subject, TaskState};
use model::{CollectionId, Enabled, MachineId, QueueSettings, Resources, Span, TaskIndex, Time};
use spec::JobSpec;

use crate::{BadJob, BatchQueue, QueuePolicy, QueuedJob, Runtime, StartReservation};

/// The number of tasks that are enabled at once; the next pass enables more. A gang is enabled whole.
pub const ENABLED_TASKS_MAX: u32 = 10_000;

/// How many small tasks are enabled ahead of the room, while one has a reservation: where tasks are short, the next one
/// need not wait for a commit when one ends.
pub const ENABLED_AHEAD: u32 = 16;

/// After this time a pass looks again at a queue in which a job has a reservation. What is overdue moves the reserved start,
/// so that others may start before it.
const RECONSIDERED_AFTER: Span = Span::from_secs(10);

/// A task is small if it requests at most this part of all machines in each dimension.
const SMALL_PART: u64 = 100;

impl From<QueueSettings> for QueuePolicy {
    fn from(settings: QueueSettings) -> Self {
        let QueueSettings { on: _, poorest, half_life, assumed_runtime } = settings;
        Self { poorest, half_life, assumed_runtime }
    }
}

/// A batch queue that follows a cell.
///
/// Room is what best-effort tasks could use on machines that take tasks, minus what those request that are enabled and
/// have no machine yet.
#[derive(Clone, Debug)]
pub struct QueueAdmission {
    queue: BatchQueue,
    settings: QueueSettings,
    /// The best-effort batch jobs that are alive.
    jobs: BTreeMap<CollectionId, Unplaced>,
    /// Those of them whose next tasks are larger than all machines together.
    too_large: BTreeSet<CollectionId>,
    /// Those with queued tasks that run after others.
    after_others: BTreeSet<CollectionId>,
    /// Jobs with queued tasks that do not wait for room: only some of their tasks may run at once, or they do not belong
    /// in the queue any more.
    roomless: BTreeSet<CollectionId>,
    /// What was proposed and is not decided.
    proposed: BTreeMap<CollectionId, u32>,
    machines: BTreeMap<MachineId, MachineRoom>,
    capacity: Resources,
    free: Resources,
    /// What tasks request that are enabled and have no machine.
    unplaced: Resources,
    unplaced_tasks: u64,
    reserved: Option<StartReservation>,
}

/// The tasks of a job that are enabled and have no machine.
#[derive(Clone, Debug)]
struct Unplaced {
    tasks: u32,
    request: Resources,
    /// The description that requests it.
    spec: Arc<JobSpec>,
}

/// What a machine has for best-effort tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MachineRoom {
    capacity: Resources,
    free: Resources,
}

/// What a pass proposes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionPass {
    /// What is enabled. A job may be in it more than once.
    pub enabled: Vec<Enabled>,
    /// When the next pass is due if nothing happens before: at once if there may be more, and after a while if one waits for
    /// tasks that may run longer than expected.
    pub next: Option<Time>,
}

impl QueueAdmission {
    /// The queue of a cell as it is.
    #[must_use]
    pub fn of(cell: &Cell) -> Self {
        let settings = cell.queue_settings();
        let mut admission = Self {
            queue: BatchQueue::new(settings.into(), Resources::default()),
            settings,
            jobs: BTreeMap::new(),
            too_large: BTreeSet::new(),
            after_others: BTreeSet::new(),
            roomless: BTreeSet::new(),
            proposed: BTreeMap::new(),
            machines: BTreeMap::new(),
            capacity: Resources::default(),
            free: Resources::default(),
            unplaced: Resources::default(),
            unplaced_tasks: 0,
            reserved: None,
        };
        for machine in cell.machines() {
            admission.take_in_machine(cell, machine.id);
        }
        admission.queue.set_capacity(cell.time(), admission.capacity);
        for (user, weights) in cell.all_share_weights() {
            admission.queue.set_weights(cell.time(), user, weights);
        }
        for job in cell.jobs() {
            admission.take_in_job(cell, job.id, &begun(job));
        }
        admission
    }

    /// The queue itself: shares, and what waits.
    #[must_use]
    pub fn queue(&self) -> &BatchQueue {
        &self.queue
    }

    /// What tasks from the queue could use now.
    #[must_use]
    pub fn room(&self) -> Resources {
        self.free.minus(self.unplaced)
    }

    /// The job that was waited for in the last pass, and until when.
    #[must_use]
    pub fn reserved(&self) -> Option<&StartReservation> {
        self.reserved.as_ref()
    }

    /// The same with what the next pass would reserve: a queue that was just made has made none.
    #[must_use]
    pub fn with_next_reservation(mut self, cell: &Cell, now: Time) -> Self {
        let mut next = self.clone();
        next.pass(cell, now);
        self.reserved = next.reserved;
        self
    }

    /// Whether a job waits in vain: its next tasks are larger than all machines together.
    #[must_use]
    pub fn is_too_large(&self, job: CollectionId) -> bool {
        self.too_large.contains(&job)
    }

    /// The jobs with queued tasks that cannot have a turn: they run after others, or are too large.
    pub(crate) fn without_turn(&self) -> impl Iterator<Item = CollectionId> {
        self.too_large.iter().chain(&self.after_others).copied()
    }

    /// A job of the cell as the queue sees it, with all tasks that wait.
    pub(crate) fn as_queued(&self, cell: &Cell, job: &Job) -> QueuedJob {
        queued(cell, job, job.counts().queued, largest(&job.spec))
    }

    /// Takes in an operation: the cell is as it is after it.
    pub fn follow(&mut self, cell: &Cell, op: &Op, applied: &Applied) {
        let (mut jobs, mut machines) = (BTreeSet::new(), BTreeSet::new());
        machines.extend(applied.reordered.iter().copied());
        for event in &applied.events {
            match event.subject {
                Subject::Job(job) => drop(jobs.insert(job)),
                Subject::Task(instance) => drop(jobs.insert(instance.collection)),
                Subject::Machine(machine) => drop(machines.insert(machine)),
                Subject::Cell => {}
            }
            match &event.kind {
                EventKind::QueueWeights { user, weights } => {
                    self.queue.set_weights(cell.time(), user, *weights);
                }
                // They change what other machines count for, too.
                EventKind::Platform { .. } | EventKind::MachineReadiness { .. } => {
                    machines.extend(cell.machines().map(|machine| machine.id));
                }
                _ => {}
            }
            // What waited for that job may wait for its turn now.
            let ends = matches!(
                event.kind,
                EventKind::Finish
                    | EventKind::Fail { .. }
                    | EventKind::Kill { .. }
                    | EventKind::Lost { .. }
            );
            if ends && matches!(event.subject, Subject::Job(_)) {
                let open =
                    |id: &CollectionId| cell.job(*id).is_none_or(|job| !job.is_behind_others());
                jobs.extend(self.after_others.iter().copied().filter(open));
            }
        }
        match op {
            Op::Enable { enabled, .. } => {
                for enabled in enabled {
                    self.decided(*enabled);
                    jobs.insert(enabled.job);
                }
            }
            Op::DescribeMachine { machine, .. } => drop(machines.insert(*machine)),
            Op::Reserve(reservations) => {
                let placed = reservations.iter().filter_map(|it| cell.placement(it.instance));
                machines.extend(placed.map(|placement| placement.machine));
            }
            Op::Forget { collections } => jobs.extend(collections.iter().copied()),
            _ => {}
        }
        let settings = cell.queue_settings();
        if settings != self.settings {
            let switched = settings.on != self.settings.on;
            self.settings = settings;
            self.queue.set_policy(cell.time(), settings.into());
            if switched {
                jobs.extend(self.jobs.keys().copied());
                jobs.extend(self.roomless.iter().copied());
            }
        }
        for machine in machines {
            self.take_in_machine(cell, machine);
        }
        for job in jobs {
            self.take_in_job(cell, job, &[]);
        }
    }

    /// A proposal was not decided, or what became of it is not known: its tasks wait again.
    pub fn not_judged(&mut self, cell: &Cell, enabled: impl IntoIterator<Item = Enabled>) {
        for enabled in enabled {
            self.decided(enabled);
            self.take_in_job(cell, enabled.job, &[]);
        }
    }

    fn decided(&mut self, enabled: Enabled) {
        if let Some(tasks) = self.proposed.get_mut(&enabled.job) {
            *tasks = tasks.saturating_sub(enabled.tasks);
            if *tasks == 0 {
                self.proposed.remove(&enabled.job);
            }
        }
    }

    /// What is enabled next. It counts as enabled from now on, until the operation that decides it is taken in.
    pub fn pass(&mut self, cell: &Cell, now: Time) -> AdmissionPass {
        let mut pass = AdmissionPass::default();
        let mut left = ENABLED_TASKS_MAX;
        for id in self.roomless.clone() {
            let tasks = cell.job(id).map_or(0, |job| self.may_be_enabled(job)).min(left);
            // A gang is enabled whole.
            let gang =
                cell.job(id).filter(|job| job.spec.batch.gang).map(|job| job.counts().queued);
            let tasks = gang.filter(|_| tasks > 0).unwrap_or(tasks);
            if tasks > 0 {
                left = left.saturating_sub(tasks);
                self.propose(cell, Enabled { job: id, tasks }, &mut pass);
            }
        }
        if self.settings.on {
            self.pass_queue(cell, now, left, &mut pass);
        } else {
            self.reserved = None;
        }
        pass.next = match tasks_of(&pass.enabled) >= u64::from(ENABLED_TASKS_MAX) {
            true => Some(now),
            false => self.reserved.map(|_| now + RECONSIDERED_AFTER),
        };
        pass
    }

    fn pass_queue(&mut self, cell: &Cell, now: Time, left: u32, pass: &mut AdmissionPass) {
        if self.queue.capacity() != self.capacity {
            let grows = self.capacity.first_above(&self.queue.capacity()).is_some();
            self.queue.set_capacity(now, self.capacity);
            if grows {
                for id in self.too_large.clone() {
                    self.take_in_job(cell, id, &[]);
                }
            }
        }
        if left > 0 {
            let result = self.queue.pass_up_to(now, self.room(), left);
            self.reserved = result.reserved;
            for enabled in result.enabled {
                self.propose(cell, enabled, pass);
            }
        }
        while self.unplaced_tasks < u64::from(ENABLED_AHEAD)
            && let Some(job) = self.queue.reserved_small(self.capacity, SMALL_PART)
        {
            let tasks = self.queue.enable(now, job);
            if tasks == 0 {
                break;
            }
            self.propose(cell, Enabled { job, tasks }, pass);
            let result = self.queue.pass_up_to(now, self.room(), left);
            self.reserved = result.reserved;
            for enabled in result.enabled {
                self.propose(cell, enabled, pass);
            }
        }
    }

    /// Notes what is proposed.
    fn propose(&mut self, cell: &Cell, enabled: Enabled, pass: &mut AdmissionPass) {
        *self.proposed.entry(enabled.job).or_default() += enabled.tasks;
        match pass.enabled.iter_mut().rev().take(64).find(|other| other.job == enabled.job) {
            Some(other) => other.tasks += enabled.tasks,
            None => pass.enabled.push(enabled),
        }
        self.take_in_job(cell, enabled.job, &[]);
    }

    /// How many tasks of a job that does not wait for room may be enabled now.
    fn may_be_enabled(&self, job: &Job) -> u32 {
        let counts = job.counts();
        let proposed = self.proposed.get(&job.id).copied().unwrap_or_default();
        let waiting = counts.queued.saturating_sub(proposed);
        let enabled = counts.pending.saturating_add(counts.running).saturating_add(proposed);
        let most = job.spec.enabled_at_once().unwrap_or(u32::MAX).saturating_sub(enabled);
        waiting.min(most)
    }

    /// Takes in what a job is now.
    fn take_in_job(&mut self, cell: &Cell, id: CollectionId, begun: &[(Time, u32)]) {
        let job = cell.job(id).filter(|job| job.is_alive());
        let known = self.jobs.remove(&id);
        if let Some(known) = &known {
            self.unplaced = self.unplaced.minus(known.request.times(known.tasks.into()));
            self.unplaced_tasks = self.unplaced_tasks.saturating_sub(known.tasks.into());
        }
        let counts = job.map(|job| job.counts()).unwrap_or_default();
        let is_open = job.is_some_and(|job| !job.is_behind_others());
        let in_queue = self.settings.on && job.is_some_and(|job| job.spec.waits_in_queue());
        if is_open && !in_queue && job.is_some_and(|job| self.may_be_enabled(job) > 0) {
            self.roomless.insert(id);
        } else {
            self.roomless.remove(&id);
        }
        let now = cell.time();
        match counts.queued > 0 && !is_open && job.is_some_and(|job| cell.defers(job)) {
            true => drop(self.after_others.insert(id)),
            false => drop(self.after_others.remove(&id)),
        }
        let Some(job) = job.filter(|job| job.spec.waits_in_queue()) else {
            self.too_large.remove(&id);
            self.queue.remove(now, id);
            return;
        };
        let proposed = self.proposed.get(&id).copied().unwrap_or_default().min(counts.queued);
        let waiting = if in_queue && is_open { counts.queued - proposed } else { 0 };
        let request = match known.filter(|known| Arc::ptr_eq(&known.spec, &job.spec)) {
            Some(known) => known.request,
            None => largest(&job.spec),
        };
        let queued = queued(cell, job, waiting, request);
        let running = counts.pending.saturating_add(counts.running).saturating_add(proposed);
        match self.queue.set(now, queued, running, begun) {
            Err(BadJob::TooLarge { .. }) => drop(self.too_large.insert(id)),
            _ => drop(self.too_large.remove(&id)),
        }
        let tasks = counts.pending.saturating_add(proposed);
        self.unplaced = self.unplaced.plus(request.times(tasks.into()));
        self.unplaced_tasks = self.unplaced_tasks.saturating_add(tasks.into());
        self.jobs.insert(id, Unplaced { tasks, request, spec: Arc::clone(&job.spec) });
    }

    /// Takes in what a machine has now.
    fn take_in_machine(&mut self, cell: &Cell, id: MachineId) {
        let known = self.machines.remove(&id).unwrap_or_default();
        let takes_tasks = |machine: &&Arc<cell::Machine>| {
            machine.state == MachineState::Up && machine.drain.is_none() && !machine.is_set_aside()
        };
        let is = cell.machine(id).filter(takes_tasks).map(|machine| {
            let capacity = machine.capacity();
            MachineRoom { capacity, free: capacity.minus(machine.reserved()) }
        });
        let new = is.unwrap_or_default();
        self.capacity = self.capacity.minus(known.capacity).plus(new.capacity);
        self.free = self.free.minus(known.free).plus(new.free);
        if is.is_some() {
            self.machines.insert(id, new);
        }
    }
}

/// Since when the enabled tasks of a job are it, as far as that is known.
fn begun(job: &Job) -> Vec<(Time, u32)> {
    let mut begun: BTreeMap<Time, u32> = BTreeMap::new();
    if job.spec.waits_in_queue() && job.is_alive() {
        for (_, task) in job.tasks() {
            let since = match &task.state {
                TaskState::Pending { since, .. } => *since,
                TaskState::Running(placement) => placement.since,
                TaskState::Queued { .. } | TaskState::Dead { .. } => continue,
            };
            *begun.entry(since).or_default() += 1;
        }
    }
    begun.into_iter().collect()
}

fn tasks_of(enabled: &[Enabled]) -> u64 {
    enabled.iter().map(|enabled| u64::from(enabled.tasks)).sum()
}

impl BatchQueue {
    /// The job that has the reservation, if its next task is a small one.
    pub(crate) fn reserved_small(&self, capacity: Resources, part: u64) -> Option<CollectionId> {
        let held = self.jobs.get(&self.reserved?)?;
        let small = held.job.needs().times(part).first_above(&capacity).is_none();
        (small && !held.job.gang && !held.is_throttled()).then_some(held.job.id)
    }

    /// Forgets a job: its tasks neither wait nor run any more.
    pub(crate) fn remove(&mut self, now: Time, id: CollectionId) {
        self.withdraw(now, id);
        self.ended(now, id, u32::MAX);
    }
}

/// A job as the queue sees it.
fn queued(cell: &Cell, job: &Job, tasks: u32, request: Resources) -> QueuedJob {
    let first = job.task(job.first_queued()).map(|task| &task.state);
    let since = match first {
        Some(TaskState::Queued { since }) => *since,
        _ => job.submitted,
    };
    let batch = &job.spec.batch;
    let longest = || cell.runtimes(&job.owner, &job.spec.name)?.spans.iter().max().copied();
    let runtime = match (batch.max_runtime, batch.expected_runtime) {
        (Some(most), _) => Runtime::Bounded(most),
        (None, Some(expected)) => Runtime::Expected(expected),
        (None, None) => longest().map_or(Runtime::Unknown, Runtime::Earlier),
    };
    QueuedJob {
        id: job.id,
        user: job.owner.clone(),
        priority: job.spec.priority.number(),
        since,
        tasks,
        request,
        gang: batch.gang,
        at_once: job.spec.enabled_at_once(),
        runtime,
    }
}

/// What a task of a job requests. Tasks that differ count as the largest of them, and those of a gang, which is enabled
/// whole, as their mean.
fn largest(spec: &JobSpec) -> Resources {
    let tasks = u64::from(spec.tasks);
    if spec.batch.gang && !spec.overrides.is_empty() && tasks > 0 {
        let limits = (0..spec.tasks).map(|index| spec.limit(TaskIndex(index)));
        let all = limits.fold(Resources::default(), Resources::plus);
        return Resources::each(|dimension| all.get(dimension).div_ceil(tasks));
    }
    let own = spec.overrides.keys().map(|index| spec.limit(*index));
    own.fold(spec.task.limit, Resources::most)
}
