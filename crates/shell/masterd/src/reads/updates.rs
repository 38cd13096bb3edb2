//! Updates and drains as they are shown, and the plan of a change that is not made yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::v1;
use cell::{
    Assignment, BudgetExhausted, Cell, ChangeKind, Job, Machine, MachineState, Mutation, Op,
    Rejection, ResizeJob, TaskState, Update, UpdateJob, UpdateState, VersionEnd,
};
use model::{Enabled, SchedulerName, TaskIndex, TaskSelection, Time, UserName};
use spec::{JobSpec, UpdatePolicy};

use super::Reads;
use super::reasons;
use super::rejections::in_words;
use super::views::{job_name, task_name};

/// The maximum number of changing tasks, of skipped tasks, of evictions and of reasons in an answer.
pub(super) const LISTED_MAX: usize = 100;

/// A job's update, at a time.
///
/// With `reasons`, it says why a task waits for a machine.
pub(crate) fn status(
    cell: &Cell,
    job: &Job,
    update: &Update,
    now: Time,
    reasons: bool,
) -> v1::UpdateStatus {
    let waits = Waits { cell, job, update, now, reasons };
    let by = |by: &Option<UserName>| by.as_ref().map(ToString::to_string).unwrap_or_default();
    let (since, state_by) = match &update.state {
        UpdateState::Rolling => (update.opened, String::new()),
        UpdateState::Paused { at, by: who } => (*at, by(who)),
        UpdateState::Succeeded { at } | UpdateState::Closed { at } => (*at, String::new()),
        UpdateState::Undoing { since, by: who } => (*since, by(who)),
        UpdateState::Undone { at, by: who } => (*at, by(who)),
    };
    let closes = match &update.state {
        UpdateState::Succeeded { at } => (*at + update.policy.close_after).0,
        _ => 0,
    };
    let target = update.target();
    let (mut tasks, mut done) = (0, 0);
    for (index, task) in job.tasks().take(job.spec.tasks as usize) {
        let left = job.is_to_change(index) || update.changing.contains_key(&index);
        let changed = task.version == target && !matches!(task.state, TaskState::Dead { .. });
        tasks += u32::from(left || changed);
        done += u32::from(changed && !left);
    }
    let changing = update.changing.iter().take(LISTED_MAX);
    let skipped = update.skipped.iter().take(LISTED_MAX);
    v1::UpdateStatus {
        from: update.from.0,
        to: update.to.0,
        state: state_word(&update.state).into(),
        since: since.0,
        state_by,
        opened: update.opened.0,
        opened_by: update.by.to_string(),
        policy: Some((&update.policy).into()),
        tasks,
        done,
        changing: changing
            .map(|(index, changing)| v1::ChangingTask {
                index: index.0,
                since: changing.since.0,
                waits_for: waits.task(*index),
            })
            .collect(),
        skipped: skipped
            .map(|(index, why)| v1::SkippedTask {
                index: index.0,
                why: v1::SkipReason::from(*why).into(),
                text: why.to_string(),
            })
            .collect(),
        disruptions: update.disruptions,
        failure: update.failure.as_ref().map(Into::into),
        failure_text: update.failure.as_ref().map(|why| failed(job, why)).unwrap_or_default(),
        waits_for: waits.all(),
        closes,
        unhealthy: waits.unhealthy(),
    }
}

/// The versions of a job's description that are kept, oldest first.
pub(crate) fn versions(job: &Job) -> Vec<v1::JobVersion> {
    let mut found: Vec<v1::JobVersion> = Vec::new();
    let mut before: Option<&Arc<JobSpec>> = None;
    let past = job.history.iter().map(|past| {
        let end = match past.end {
            VersionEnd::Submitted => "submitted",
            VersionEnd::Succeeded => "succeeded",
            VersionEnd::Replaced => "replaced",
            VersionEnd::Failed => "failed",
            VersionEnd::Undone => "undone",
        };
        (past.version, past.since, past.by.to_string(), end)
    });
    let newest = match &job.update {
        None => (job.version, job.submitted, job.owner.to_string(), "submitted"),
        Some(update) => {
            let state = match update.state {
                UpdateState::Undone { by: None, .. } => "failed",
                UpdateState::Undone { .. } => "undone",
                UpdateState::Undoing { .. } => "undoing",
                UpdateState::Rolling => "rolling",
                UpdateState::Paused { .. } => "paused",
                UpdateState::Succeeded { .. } | UpdateState::Closed { .. } => "succeeded",
            };
            (update.to, update.opened, update.by.to_string(), state)
        }
    };
    for (version, since, by, state) in past.chain([newest]) {
        let spec = job.description(version);
        let changes = before.zip(spec).map(|(before, spec)| before.changes(spec));
        found.push(v1::JobVersion {
            version: version.0,
            since: since.0,
            by,
            state: state.to_owned(),
            changes: changes.into_iter().flatten().map(|(change, _)| (&change).into()).collect(),
            current: version == job.version,
        });
        before = spec.or(before);
    }
    found
}

fn failed(job: &Job, failure: &cell::UpdateFailure) -> String {
    let index = failure.instance.index;
    // Its number of tasks may be another one by now.
    let further = job.update.as_ref().and_then(|update| job.description(update.to));
    let further = match further.is_some_and(|spec| index.0 >= spec.tasks) {
        true => " (started first)",
        false => "",
    };
    match &failure.end {
        Some(end) => format!("task {index}{further}: {end}"),
        None => format!("task {index}{further} was not healthy in time"),
    }
}

/// What an update waits for, at a time.
struct Waits<'a> {
    cell: &'a Cell,
    job: &'a Job,
    update: &'a Update,
    now: Time,
    /// Whether to say why a task waits for a machine.
    reasons: bool,
}

impl Waits<'_> {
    /// What a changed task waits for.
    fn task(&self, index: TaskIndex) -> String {
        let Self { job, update, now, .. } = *self;
        let Some(task) = job.task(index) else { return String::new() };
        match &task.state {
            TaskState::Queued { .. } if !job.is_behind_others() => {
                "waits in the batch queue".to_owned()
            }
            TaskState::Queued { .. } => "waits for other jobs".to_owned(),
            TaskState::Pending { not_before, .. } if *not_before > now => {
                format!("waits for its next retry, in {}", seconds(not_before.since(now)))
            }
            TaskState::Pending { .. } => self.machine(index),
            TaskState::Running(placed) if placed.stop.is_some() => "is stopping".to_owned(),
            TaskState::Running(placed) => match placed.up_since() {
                Some(since) => {
                    let healthy = now.since(since);
                    format!("healthy for {} of {}", seconds(healthy), update.policy.healthy_for)
                }
                None => "starts, or is not healthy yet".to_owned(),
            },
            TaskState::Dead { .. } => "is dead".to_owned(),
        }
    }

    /// Why a task waits for a machine.
    fn machine(&self, index: TaskIndex) -> String {
        let selected = TaskSelection::Some(vec![(index, index)]);
        let why = match self.reasons {
            true => why_unplaced(self.cell, self.job, &selected, self.now),
            false => String::new(),
        };
        match why.as_str() {
            "" => "waits for a machine (bourg why)".to_owned(),
            why => format!("waits for a machine: {why}"),
        }
    }

    /// Until when an update waits for a changed task, and what it does then.
    fn until(&self, index: TaskIndex) -> String {
        let Some(changing) = self.update.changing.get(&index) else { return String::new() };
        let within = self.update.policy.healthy_within;
        let left = (changing.since + within).since(self.now);
        match self.update.state {
            UpdateState::Undoing { .. } => {
                format!("; the undo goes on without it in {}", seconds(left))
            }
            _ => String::new(),
        }
    }

    /// The tasks that are back and not healthy, of an undo.
    fn unhealthy(&self) -> Vec<v1::UnhealthyTask> {
        let Self { job, update, .. } = *self;
        let undo = matches!(update.state, UpdateState::Undoing { .. } | UpdateState::Undone { .. });
        let down = |index: &TaskIndex| {
            let back = |task: &cell::Task| {
                task.version == update.target()
                    && task.up_since().is_none()
                    && !matches!(task.state, TaskState::Dead { .. })
            };
            undo && !update.changing.contains_key(index) && job.task(*index).is_some_and(back)
        };
        let all = (0..job.spec.tasks).map(TaskIndex).filter(down).take(LISTED_MAX);
        all.map(|index| v1::UnhealthyTask { index: index.0, text: self.unhealthy_task(index) })
            .collect()
    }

    fn unhealthy_task(&self, index: TaskIndex) -> String {
        let last = self.job.task(index).and_then(|task| task.last_incarnation.as_deref());
        let failed = last.filter(|last| last.version == self.update.target());
        match failed {
            Some(last) => format!("{}; {}", last.end, self.task(index)),
            None => self.task(index),
        }
    }
}

/// A number of whole seconds.
fn seconds(span: model::Span) -> String {
    match span.0 / 1_000_000 {
        0 => "0 s".to_owned(),
        whole => model::Span::from_secs(whole).to_string(),
    }
}

impl Waits<'_> {
    /// What an update that is moving waits for.
    fn all(&self) -> String {
        let Self { cell, job, update, now, .. } = *self;
        if !update.is_moving() {
            return String::new();
        }
        if let Some(index) = update.changing.keys().next() {
            let (text, until) = (self.task(*index), self.until(*index));
            let further = if index.0 >= job.spec.tasks { " (started first)" } else { "" };
            let more = match update.changing.len() {
                1 => String::new(),
                several => format!(", and {} more", several - 1),
            };
            return format!("task {index}{further} {text}{more}{until}");
        }
        let next = (0..job.spec.tasks).map(TaskIndex).find(|index| job.is_to_change(*index));
        let Some(index) = next else { return String::new() };
        if let Some(begins) = update.next_batch().filter(|begins| *begins > now) {
            let left = begins.since(now);
            return format!("task {index} is next after the wait between batches, in {left}");
        }
        let blocked = job.instance(index).and_then(|instance| cell.may_update(instance).err());
        match blocked {
            Some(why) => {
                format!("task {index} waits for the disruption budget: {}", budget(cell, &why))
            }
            None => format!("task {index} is next"),
        }
    }
}

/// Why a budget allows no disruption, with the job's name.
fn budget(cell: &Cell, why: &BudgetExhausted) -> String {
    let name = job_name(cell, why.job());
    match why {
        BudgetExhausted::AtOnce { down, more, most, .. } => {
            format!("{down} of {name} down, {more} more would be, {most} allowed at once")
        }
        BudgetExhausted::PerHour { most, next: Some(_), .. } => {
            format!("{name} had its {most} disruptions of this hour")
        }
        BudgetExhausted::PerHour { .. } => format!("{name} allows no disruption"),
    }
}

/// What the drain of a machine waits for.
pub(crate) fn drain_waits_for(cell: &Cell, machine: &Machine) -> Vec<String> {
    let Some(drain) = machine.drain.as_deref() else { return Vec::new() };
    let mut found = Vec::new();
    let silent = machine.state != MachineState::Up;
    for instance in machine.instances().iter().take(LISTED_MAX) {
        let Some(placed) = cell.placement(*instance) else { continue };
        let name = task_name(cell, *instance);
        let text = match (placed.stop.is_some(), cell.may_disrupt(*instance)) {
            _ if silent => format!("{name}: the machine does not answer"),
            (true, _) => format!("{name} is stopping"),
            (false, Err(why)) => {
                let job = cell.job(instance.collection);
                let starting = job.is_some_and(|job| job.extra_tasks().next().is_some());
                let then = match (drain.expired.is_some(), starting) {
                    (true, _) => "",
                    (false, true) => ": waits for its replacement to be healthy",
                    (false, false) => ": waits",
                };
                format!("{name}{then} ({})", budget(cell, &why))
            }
            (false, Ok(())) => format!("{name} leaves next"),
        };
        found.push(text);
    }
    found
}

/// What is to be planned.
pub(crate) struct UpdatePlanRequest {
    pub(crate) owner: UserName,
    pub(crate) spec: Arc<JobSpec>,
    pub(crate) tasks: TaskSelection,
    pub(crate) policy: Option<UpdatePolicy>,
    /// Whether only the number of tasks changes.
    pub(crate) resize: bool,
}

impl Reads<'_> {
    /// What submitting or updating a job would do now. It changes nothing.
    pub(crate) fn plan(&self, asked: UpdatePlanRequest) -> v1::PlanResponse {
        let UpdatePlanRequest { owner, spec: given, tasks, policy, resize } = asked;
        let spec = match resize {
            true => Arc::clone(&given),
            false => self.cell.as_applied(&owner, &given, &tasks),
        };
        let living = self.cell.job_named(&owner, &spec.name).filter(|job| job.is_alive());
        let mut plan = v1::PlanResponse {
            index: self.cell.index().0,
            time: self.now.0,
            user: owner.to_string(),
            job: spec.name.to_string(),
            new: living.is_none(),
            version: living.map_or(0, |job| job.last_version.0),
            size: spec.tasks,
            total: Some((&spec.total()).into()),
            every_machine: spec.is_on_every_machine(),
            spellings: reasons::spellings(self.cell, &spec),
            ..v1::PlanResponse::default()
        };
        let mutation: Mutation = match living {
            None => Mutation::Submit(given),
            Some(_) if resize => {
                let (owner, job) = (owner.clone(), spec.name.clone());
                ResizeJob { owner, job, tasks: spec.tasks, expected: None }.into()
            }
            Some(_) => {
                let (owner, spec, tasks) = (owner.clone(), given, tasks.clone());
                UpdateJob { owner, spec, tasks, policy, expected: None }.into()
            }
        };
        if let Some(job) = living {
            let changes = job.spec.changes(&spec).into_iter();
            plan.changes = changes
                .map(|(change, class)| v1::PlannedChange {
                    change: Some((&change).into()),
                    effect: class.to_string(),
                })
                .collect();
            self.plan_tasks(job, &spec, &tasks, policy.as_ref(), &mut plan);
        } else {
            let kind = v1::ChangeKind::Add.into();
            let all = v1::IndexRange { first: 0, last: spec.tasks.saturating_sub(1) };
            let tasks = (spec.tasks > 0).then_some(all).into_iter().collect();
            plan.tasks = vec![v1::PlannedTasks { kind, count: spec.tasks, tasks }];
        }
        match self.cell.preview(self.now, self.me, &mutation) {
            Err(rejection) => plan.rejected = self.why_rejected(&rejection),
            Ok(preview) => match preview.job_named(&owner, &spec.name) {
                Some(job) if living.is_some_and(|old| old.last_version == job.last_version) => {
                    plan.unchanged = true;
                    plan.changes.clear();
                }
                Some(job) => {
                    plan_placements(&preview, job, self.now, &mut plan);
                    if let Some(set) = living.filter(|set| set.spec.kind.is_alloc_set()) {
                        plan.evictions.extend(self.leave_with_allocs(set, spec.tasks));
                    }
                }
                None => {}
            },
        }
        plan
    }

    /// The tasks in the allocs that are removed when an alloc set shrinks.
    fn leave_with_allocs(&self, set: &Job, size: u32) -> Vec<v1::PlannedEviction> {
        let children = self.cell.children(set.id).filter_map(|id| self.cell.job(id));
        let inside = children.filter(|job| job.alloc_set == Some(set.id));
        let tasks = inside.flat_map(|job| job.tasks().map(move |(index, task)| (job, index, task)));
        let leave = tasks.filter_map(|(job, index, task)| {
            let TaskState::Running(placement) = &task.state else { return None };
            placement.alloc().filter(|alloc| alloc.index.0 >= size)?;
            let machine = self.cell.machine(placement.machine);
            Some(v1::PlannedEviction {
                task: format!("{}/{index}", job_name(self.cell, job.id)),
                machine: machine.map(|machine| machine.name.to_string()).unwrap_or_default(),
                priority: job.spec.priority.number().into(),
            })
        });
        leave.take(LISTED_MAX).collect()
    }

    fn why_rejected(&self, rejection: &Rejection) -> String {
        in_words(self.cell, rejection)
    }

    fn plan_tasks(
        &self,
        job: &Job,
        spec: &JobSpec,
        tasks: &TaskSelection,
        policy: Option<&UpdatePolicy>,
        plan: &mut v1::PlanResponse,
    ) {
        let mut kinds: BTreeMap<ChangeKind, Vec<v1::IndexRange>> = BTreeMap::new();
        let mut counts: BTreeMap<ChangeKind, u32> = BTreeMap::new();
        for index in (0..job.size().max(spec.tasks)).map(TaskIndex) {
            let kind = match self.cell.change_kind(job, spec, index) {
                kind @ (ChangeKind::Add | ChangeKind::Remove) if job.task(index).is_none() => kind,
                ChangeKind::Remove => ChangeKind::Remove,
                _ if !tasks.contains(index) => ChangeKind::Unchanged,
                kind => kind,
            };
            *counts.entry(kind).or_default() += 1;
            let ranges = kinds.entry(kind).or_default();
            match ranges.last_mut() {
                Some(range) if range.last + 1 == index.0 => range.last = index.0,
                _ => ranges.push(v1::IndexRange { first: index.0, last: index.0 }),
            }
        }
        let of = |kind| counts.get(&kind).copied().unwrap_or_default();
        let policy = policy.copied().unwrap_or(spec.update);
        let disruptive = of(ChangeKind::Restart) + of(ChangeKind::Move);
        let never = spec.disruptions.per_hour == Some(0);
        let most = if never { 0 } else { policy.disruptions.unwrap_or(u32::MAX) };
        plan.disruptions = disruptive.min(most);
        plan.skipped = disruptive.saturating_sub(most);
        let at_once = spec.down_max();
        plan.at_once = (at_once != u32::MAX).then_some(at_once);
        if disruptive > 0 {
            plan.blocked = match (never, at_once) {
                (true, _) => {
                    "its disruption budget has perHour: 0, which allows no restart ever: those \
                     tasks are skipped"
                        .to_owned()
                }
                (false, 0) => {
                    "its disruption budget has atOnce: 0: a further task is started first, and each \
                     change waits until it is healthy"
                        .to_owned()
                }
                _ => {
                    let in_an_hour = job.room(self.now).per_hour.min(spec.disruptions.per_hour.unwrap_or(u32::MAX));
                    match plan.disruptions.checked_sub(in_an_hour) {
                        None | Some(0) => String::new(),
                        Some(later) => format!(
                            "its disruption budget allows {in_an_hour} within this hour: {later} \
                             wait"
                        ),
                    }
                }
            };
        }
        plan.tasks = kinds
            .into_iter()
            .map(|(kind, tasks)| v1::PlannedTasks {
                kind: kind_word(kind).into(),
                count: of(kind),
                tasks,
            })
            .collect();
    }
}

/// Where the tasks would be placed that are then pending, and who would be evicted.
fn plan_placements(preview: &Cell, job: &Job, now: Time, plan: &mut v1::PlanResponse) {
    // What waits in the batch queue is placed as if it were its turn.
    let mut enabled = preview.clone();
    let most = job.spec.enabled_at_once().unwrap_or(u32::MAX);
    let counts = job.counts();
    let already = counts.pending.saturating_add(counts.running);
    let tasks = counts.queued.min(most.saturating_sub(already));
    let enable = vec![Enabled { job: job.id, tasks }];
    enabled.apply(now, &Op::Enable { by: SchedulerName::main(), enabled: enable });
    let (preview, job) = match enabled.job(job.id) {
        Some(job) => (&enabled, job.as_ref()),
        None => (preview, job),
    };
    let found = scheduler::preview(preview, job, now);
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    plan.placed = count(found.assignments.len());
    plan.unplaced = count(found.unplaced);
    if found.unplaced > 0 {
        plan.why_unplaced = why_unplaced(preview, job, &TaskSelection::All, now);
    }
    plan.evictions = planned_evictions(preview, &found.assignments);
}

/// Why tasks fit nowhere, in short.
pub(super) fn why_unplaced(cell: &Cell, job: &Job, tasks: &TaskSelection, now: Time) -> String {
    let why = placement::why(cell, job, tasks, now);
    let reasons = why.groups.iter().flat_map(|group| &group.reasons).take(3);
    let texts = reasons.map(|reason| match reason.machines {
        1 => format!("1 machine: {}", reason.text),
        several => format!("{several} machines: {}", reason.text),
    });
    texts.collect::<Vec<_>>().join("; ")
}

/// Who would be evicted for assignments.
pub(super) fn planned_evictions(
    preview: &Cell,
    assignments: &[Assignment],
) -> Vec<v1::PlannedEviction> {
    let victims = assignments.iter().flat_map(|assignment| {
        assignment.victims.iter().map(|victim| (assignment.machine, *victim))
    });
    let evicted = victims.take(LISTED_MAX).map(|(machine, victim)| {
        let priority = preview.job(victim.collection).map(|job| job.spec.priority.number());
        let machine = preview.machine(machine);
        v1::PlannedEviction {
            task: task_name(preview, victim),
            machine: machine.map(|machine| machine.name.to_string()).unwrap_or_default(),
            priority: priority.unwrap_or_default().into(),
        }
    });
    evicted.collect()
}

/// The state of an update, as a word.
fn state_word(state: &UpdateState) -> v1::UpdateState {
    match state {
        UpdateState::Rolling => v1::UpdateState::Rolling,
        UpdateState::Paused { .. } => v1::UpdateState::Paused,
        UpdateState::Succeeded { .. } => v1::UpdateState::Succeeded,
        UpdateState::Undoing { .. } => v1::UpdateState::Undoing,
        UpdateState::Undone { .. } => v1::UpdateState::Undone,
        UpdateState::Closed { .. } => v1::UpdateState::Closed,
    }
}

/// What happens to a task, as a word.
fn kind_word(kind: ChangeKind) -> v1::ChangeKind {
    match kind {
        ChangeKind::Unchanged => v1::ChangeKind::Unchanged,
        ChangeKind::InPlace => v1::ChangeKind::InPlace,
        ChangeKind::Restart => v1::ChangeKind::Restart,
        ChangeKind::Move => v1::ChangeKind::Move,
        ChangeKind::Add => v1::ChangeKind::Add,
        ChangeKind::Remove => v1::ChangeKind::Remove,
    }
}
