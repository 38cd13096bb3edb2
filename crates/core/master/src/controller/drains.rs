//! Machines that are being drained become empty: their tasks are evicted as the disruption budgets
//! allow, over all machines together. Where a budget allows none, a replacement is started first
//! (paper, section 4).

use std::collections::{BTreeMap, BTreeSet};

use cell::{BudgetExhausted, Cell, Drain, Machine, MachineState, Op, Room, UpdateState};
use model::{CollectionId, InstanceId, MachineId, Span, Time};

use super::surge::{self, Surge};
use super::updates::earliest;
use super::{Controller, Turn};
use crate::Action;

/// The minimum time between two looks at the drained machines.
const SPACING: Span = Span::from_millis(20);

/// What it waits for.
#[derive(Clone, Debug)]
pub(crate) struct Drains {
    looked: Time,
    next: Option<Time>,
    /// When operations were proposed and have not been applied yet.
    machines: BTreeMap<MachineId, Time>,
    jobs: BTreeMap<CollectionId, Time>,
    /// The machines whose forced drain is over, and which were told so.
    over: BTreeSet<MachineId>,
}

impl Drains {
    pub(crate) fn new(now: Time) -> Self {
        let (machines, jobs, over) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { looked: now, next: Some(now), machines, jobs, over }
    }
}

impl Controller for Drains {
    fn name(&self) -> &'static str {
        "drains"
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
        let again = settings.propose_again;
        self.machines.retain(|_, proposed| *proposed + again > *now);
        self.jobs.retain(|_, proposed| *proposed + again > *now);
        let awaited = self.machines.values().chain(self.jobs.values()).min();
        self.next = awaited.map(|proposed| *proposed + again);
        self.over.retain(|id| {
            let drain = cell.machine(*id).and_then(|machine| machine.drain.as_deref());
            drain.is_some_and(|drain| drain.is_over(*now))
        });
        let mut rooms = Rooms { cell, now: *now, rooms: BTreeMap::new() };
        let mut blocked = Vec::new();
        for machine in cell.drained_machines() {
            let Some(drain) = machine.drain.as_deref().filter(|drain| drain.expired.is_none())
            else {
                continue;
            };
            if machine.instances().is_empty() || self.machines.contains_key(&machine.id) {
                continue;
            }
            let is_told = self.over.contains(&machine.id);
            let found = step(&mut rooms, machine, is_told, drain, &mut blocked);
            self.next = earliest(self.next, found.1);
            if let Some(op) = found.0 {
                self.machines.insert(machine.id, *now);
                self.next = earliest(self.next, Some(*now + again));
                actions.push(Action::Propose(op));
            }
        }
        for why in blocked {
            let job = why.job();
            if let BudgetExhausted::PerHour { next, .. } = why {
                self.next = earliest(self.next, next);
            } else if !self.jobs.contains_key(&job) && cell.may_start_replacement(job) {
                self.jobs.insert(job, *now);
                actions.push(Action::Propose(Op::StartReplacement { job }));
            }
        }
        for job in cell.jobs_with_replacements() {
            if self.jobs.contains_key(&job.id) {
                continue;
            }
            if is_needed(cell, job.id, *now) {
                self.next = earliest(self.next, surge::waits_until(cell, job, *now));
                continue;
            }
            let (removable, next) = job.removable_replacements(*now);
            self.next = earliest(self.next, next);
            if removable.is_some() || !job.is_alive() {
                self.jobs.insert(job.id, *now);
                actions.push(Action::Propose(Op::RemoveReplacements { job: job.id }));
            }
        }
    }

    fn applied(&mut self, now: Time, cell: &Cell, op: &Op, _: &[MachineId]) {
        match op {
            Op::EvictDraining { machine, .. } | Op::ExpireDrain { machine } => {
                self.machines.remove(machine);
                let drain = cell.machine(*machine).and_then(|machine| machine.drain.as_deref());
                if drain.is_some_and(|drain| drain.is_over(cell.time())) {
                    self.over.insert(*machine);
                }
            }
            Op::StartReplacement { job } | Op::RemoveReplacements { job } => {
                self.jobs.remove(job);
            }
            _ => {}
        }
        let busy = cell.drained_machines().any(|machine| !machine.instances().is_empty());
        if busy || cell.jobs_with_replacements().next().is_some() {
            self.next = earliest(self.next, Some(now.max(self.looked + SPACING)));
        }
    }
}

/// The room of each job's budget, with what is evicted in this turn already counted.
struct Rooms<'a> {
    cell: &'a Cell,
    now: Time,
    rooms: BTreeMap<CollectionId, Room>,
}

impl Rooms<'_> {
    /// Takes the room for an instance that leaves.
    fn take(&mut self, instance: InstanceId) -> Result<(), BudgetExhausted> {
        let up = self.cell.placement(instance).is_some_and(|placed| placed.up_since().is_some());
        // The budgets of what runs in an alloc are compared by the cell.
        self.cell.may_disrupt(instance)?;
        let Some(job) = self.cell.job(instance.collection).filter(|_| up) else { return Ok(()) };
        let room = self.rooms.entry(job.id).or_insert_with(|| job.room(self.now));
        if room.now() == 0 {
            let (down, most) = (job.down(), job.spec.down_max());
            return Err(BudgetExhausted::AtOnce { job: job.id, down, more: 1, most });
        }
        room.at_once -= 1;
        room.per_hour = room.per_hour.saturating_sub(1);
        Ok(())
    }
}

/// What a machine that is being drained needs next, and when to look again. What is blocked by a
/// budget is added to `blocked`.
fn step(
    rooms: &mut Rooms<'_>,
    machine: &Machine,
    is_told: bool,
    drain: &Drain,
    blocked: &mut Vec<BudgetExhausted>,
) -> (Option<Op>, Option<Time>) {
    let (cell, now, id) = (rooms.cell, rooms.now, machine.id);
    let leaving = cell.to_leave(id);
    if drain.deadline.is_some_and(|deadline| deadline <= now) {
        let op = match drain.force {
            // What is being stopped already is told that its time is over, once.
            true if leaving.is_empty() && is_told => None,
            true => Some(Op::EvictDraining { machine: id, instances: leaving }),
            false => Some(Op::ExpireDrain { machine: id }),
        };
        return (op, None);
    }
    // Nothing can be stopped on a machine that does not answer; when it is down, its tasks move.
    if machine.state != MachineState::Up {
        return (None, drain.deadline);
    }
    let (mut instances, mut next) = (Vec::new(), drain.deadline);
    for instance in leaving {
        // Its notice ends at the deadline.
        let notice = cell.notice_of(instance);
        if drain.is_over(now + notice) {
            instances.push(instance);
            continue;
        }
        let forced = drain.deadline.filter(|_| drain.force);
        next = earliest(next, forced.map(|deadline| Time(deadline.0.saturating_sub(notice.0))));
        // Tasks that are on every machine leave when nothing else is left.
        if !cell.may_leave_now(instance) {
            continue;
        }
        match rooms.take(instance) {
            Ok(()) => instances.push(instance),
            // What else leaves in this turn may be the reason.
            Err(why) if cell.may_disrupt(instance).is_err() => blocked.push(why),
            Err(_) => {}
        }
    }
    let op = (!instances.is_empty()).then_some(Op::EvictDraining { machine: id, instances });
    (op, next)
}

/// Whether a job still needs its replacements, even if all its tasks are up: one has to leave a
/// machine, or its update may take none down.
fn is_needed(cell: &Cell, job: CollectionId, now: Time) -> bool {
    let Some(found) = cell.job(job).filter(|job| job.is_alive()) else { return false };
    let updating = found.open_update().is_some_and(|update| {
        let moving = matches!(update.state, UpdateState::Rolling | UpdateState::Undoing { .. });
        moving && found.spec.down_max() == 0 || surge::of(cell, found, update, now) != Surge::No
    });
    let drained = cell.drained_machines().any(|machine| {
        let goes_on = machine.drain.as_ref().is_some_and(|drain| drain.expired.is_none());
        goes_on && machine.tasks_of(job) > 0
    });
    updating || drained
}
