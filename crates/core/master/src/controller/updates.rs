//! Open updates go on: tasks are changed, batch by batch, as their health and the disruption budget
//! allow, and an update that fails undoes itself (paper, section 2.3). The cell carries out each step
//! only if it is still possible, so a new leader goes on where the last one ended.

use std::collections::BTreeMap;

use cell::{Cell, Job, Op, SkipReason, TaskState, Update, UpdateFailure, UpdateState, UpdateStep};
use model::{CollectionId, MachineId, Span, TaskIndex, Time};

use super::surge::{self, Surge};
use super::{Controller, Turn};
use crate::Action;

/// The minimum time between two looks at the open updates.
const SPACING: Span = Span::from_millis(20);
/// The maximum number of steps in an operation.
const STEPS_MAX: usize = 1_000;

/// What it waits for.
#[derive(Clone, Debug)]
pub(crate) struct Updates {
    looked: Time,
    next: Option<Time>,
    /// When an operation was proposed for a job and has not been applied yet.
    proposed: BTreeMap<CollectionId, Time>,
}

/// What an update needs next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Next {
    /// The steps that are possible now.
    pub(crate) steps: Vec<UpdateStep>,
    /// Whether a further task has to be started because the budget allows no task to be down.
    pub(crate) replacement: bool,
    /// When to look again, if nothing happens before.
    pub(crate) at: Option<Time>,
}

impl Updates {
    pub(crate) fn new(now: Time) -> Self {
        Self { looked: now, next: Some(now), proposed: BTreeMap::new() }
    }
}

impl Controller for Updates {
    fn name(&self) -> &'static str {
        "updates"
    }

    fn due(&self) -> Option<Time> {
        self.next
    }

    fn run(&mut self, turn: &mut Turn<'_>) {
        let Turn { now, cell, settings, actions } = turn;
        if self.next.is_none_or(|next| next > *now) {
            return;
        }
        (self.looked, self.next) = (*now, None);
        let again = |proposed: Time| proposed + settings.propose_again;
        self.proposed.retain(|_, proposed| again(*proposed) > *now);
        for job in cell.jobs_with_open_updates() {
            if let Some(proposed) = self.proposed.get(&job.id) {
                self.next = earliest(self.next, Some(again(*proposed)));
                continue;
            }
            let Some(update) = job.open_update() else { continue };
            let next = next_steps(cell, job, update, *now);
            self.next = earliest(self.next, next.at);
            if next.replacement && cell.may_start_replacement(job.id) {
                actions.push(Action::Propose(Op::StartReplacement { job: job.id }));
                self.proposed.insert(job.id, *now);
            }
            if !next.steps.is_empty() {
                let (job, version, steps) = (job.id, update.to, next.steps);
                self.proposed.insert(job, *now);
                self.next = earliest(self.next, Some(again(*now)));
                actions.push(Action::Propose(Op::StepUpdate { job, version, steps }));
            }
        }
    }

    fn applied(&mut self, now: Time, cell: &Cell, op: &Op, _: &[MachineId]) {
        if let Op::StepUpdate { job, .. } | Op::StartReplacement { job } = op {
            self.proposed.remove(job);
        }
        if cell.jobs_with_open_updates().next().is_some() {
            let soon = now.max(self.looked + SPACING);
            self.next = earliest(self.next, Some(soon));
        }
    }
}

/// The earlier of two times, either of which may be unknown.
pub(super) fn earliest(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    one.into_iter().chain(other).min()
}

/// What an open update needs next, at a given time.
pub(crate) fn next_steps(cell: &Cell, job: &Job, update: &Update, now: Time) -> Next {
    let mut next = Next::default();
    let undoing = match &update.state {
        UpdateState::Rolling => false,
        UpdateState::Undoing { .. } => true,
        UpdateState::Succeeded { at } => {
            let close = *at + update.policy.close_after;
            match close <= now {
                true => next.steps.push(UpdateStep::Close),
                false => next.at = Some(close),
            }
            return next;
        }
        _ => return next,
    };
    let passed = gate(cell, job, update, undoing, now, &mut next);
    if let Some(UpdateStep::Fail(_)) = next.steps.last() {
        return next;
    }
    let changing = update.changing.len() - passed;
    change(job, update, Rollout { cell, undoing, changing }, now, &mut next);
    let left = changing > 0 || (0..job.spec.tasks).any(|index| job.is_to_change(TaskIndex(index)));
    if !left {
        next.steps.push(UpdateStep::Finish);
    }
    next
}

/// The changed tasks that were healthy for long enough, and the first that was not healthy in time.
/// Returns how many passed.
fn gate(
    cell: &Cell,
    job: &Job,
    update: &Update,
    undoing: bool,
    now: Time,
    next: &mut Next,
) -> usize {
    let policy = &update.policy;
    let healthy_for = if undoing { Span::ZERO } else { policy.healthy_for };
    let mut passed = 0;
    for (index, changing) in &update.changing {
        let Some(task) = job.task(*index) else { continue };
        if !undoing && let Some((instance, end)) = job.failed_change(*index) {
            let end = Some(end.clone());
            next.steps = vec![UpdateStep::Fail(UpdateFailure { instance, end })];
            return 0;
        }
        // The update goes on without a further task for which there is no room.
        let may_be_given_up = index.0 >= job.spec.tasks
            && surge::is_usual(job)
            && matches!(task.state, TaskState::Pending { .. });
        let up = task.up_since().filter(|_| task.version == update.target());
        let healthy = up.map(|since| since + healthy_for);
        let late = changing.since + policy.healthy_within;
        // Nor does it wait for a task whose only machine takes none.
        let dead =
            matches!(task.state, TaskState::Dead { .. }) || cell.waits_for_its_machine(job, *index);
        if dead || healthy.is_some_and(|at| at <= now) || undoing && late <= now {
            if next.steps.len() < STEPS_MAX {
                next.steps.push(UpdateStep::Passed(*index));
                passed += 1;
            }
            continue;
        }
        if late <= now
            && !may_be_given_up
            && let Some(instance) = job.instance(*index)
        {
            next.steps = vec![UpdateStep::Fail(UpdateFailure { instance, end: None })];
            return 0;
        }
        let until = Some(late).filter(|_| !may_be_given_up);
        next.at = earliest(next.at, earliest(healthy, until));
    }
    passed
}

/// How far an update is.
#[derive(Clone, Copy)]
struct Rollout<'a> {
    cell: &'a Cell,
    /// Whether it goes back to the description before.
    undoing: bool,
    /// The number of tasks that are changed and not through yet.
    changing: usize,
}

/// The tasks that can be changed now, beside those that are being changed.
fn change(job: &Job, update: &Update, rollout: Rollout<'_>, now: Time, next: &mut Next) {
    let Rollout { cell, undoing, changing } = rollout;
    let policy = &update.policy;
    let Some(target) = job.description(update.target()) else { return };
    let usual = job.spec.down_max().clamp(1, job.spec.tasks.max(1));
    let batch = policy.batch.unwrap_or(usual) as usize;
    let mut free = batch.saturating_sub(changing);
    if !undoing && policy.wait > Span::ZERO && (changing > 0 || !next.steps.is_empty()) {
        free = 0;
    } else if let Some(begins) = update.next_batch().filter(|begins| *begins > now) {
        (free, next.at) = (0, earliest(next.at, Some(begins)));
    }
    let mut room = job.room_for_update(now);
    let surge = surge::of(cell, job, update, now);
    match surge {
        Surge::Up => room.at_once = room.at_once.saturating_sub(1),
        Surge::Awaited(until) => next.at = earliest(next.at, until),
        Surge::No | Surge::Start => {}
    }
    let most = policy.disruptions.filter(|_| !undoing);
    let mut left = most.map(|most| most.saturating_sub(update.disruptions));
    for index in (0..job.spec.tasks).map(TaskIndex) {
        if next.steps.len() >= STEPS_MAX {
            return;
        }
        if !job.is_to_change(index) {
            continue;
        }
        let Some(task) = job.task(index) else { continue };
        let TaskState::Running(placement) = &task.state else {
            next.steps.push(UpdateStep::Change(index));
            continue;
        };
        if placement.stop.is_some() {
            if placement.killed().is_none() {
                next.steps.push(UpdateStep::Change(index));
            }
            continue;
        }
        if !update.restarts_all() && !disrupts(cell, job, target, index) {
            if free > 0 {
                free -= 1;
                next.steps.push(UpdateStep::Change(index));
            }
            continue;
        }
        if left == Some(0) {
            next.steps.push(UpdateStep::Skip(index, SkipReason::Disruptions));
            continue;
        }
        if job.spec.disruptions.per_hour == Some(0) && !undoing {
            next.steps.push(UpdateStep::Skip(index, SkipReason::Budget));
            continue;
        }
        if free == 0 {
            // Whether further tasks have to be skipped is seen later.
            if left.is_none() {
                return;
            }
            continue;
        }
        let up = task.up_since().is_some();
        if up && matches!(surge, Surge::Start | Surge::Awaited(_)) {
            next.replacement |= surge == Surge::Start;
            continue;
        }
        if up && room.now() == 0 {
            if room.at_once == 0 && job.spec.down_max() == 0 {
                next.replacement = true;
            }
            next.at = earliest(next.at, room.next.filter(|_| room.per_hour == 0));
            if undoing {
                // Others may be given up until then.
                next.at = earliest(next.at, Some(now + Span::from_secs(1)));
            }
            continue;
        }
        if up {
            room.at_once -= 1;
            room.per_hour = room.per_hour.saturating_sub(1);
        }
        left = left.map(|left| left.saturating_sub(1));
        free -= 1;
        next.steps.push(UpdateStep::Change(index));
    }
}

/// Whether a change of a running task restarts or moves it.
fn disrupts(cell: &Cell, job: &Job, target: &spec::JobSpec, index: TaskIndex) -> bool {
    use cell::ChangeKind::{Move, Restart};
    matches!(cell.change_kind(job, target, index), Restart | Move)
}
