//! The machines as they would be: with what is leaving and arriving already, and with the proposals of this plan.

use std::collections::{BTreeMap, BTreeSet};

use cell::feasibility::{Colocated, Offer, Request, Sums, fits};
use cell::{
    Cell, Demand, EvictionCause, Job, Machine, MoveReason, PendingCause, StopReason, TaskState,
};
use model::{CollectionId, InstanceId, MachineId, Resources, TaskId, TaskIndex, Time};

use crate::{PackingMove, PackingProposal, PackingSettings, worth};

/// How many times a plan compares a task with a machine, in all.
const COMPARISONS: u64 = 4_000_000;

/// What moves to a machine.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    sums: Sums,
    ports: usize,
    addresses: usize,
    /// Whether nothing more is moved here: what the last one takes is not counted in sums.
    full: bool,
}

/// The view of a plan.
pub(crate) struct PackingRooms<'a> {
    pub(crate) cell: &'a Cell,
    pub(crate) now: Time,
    pub(crate) largest: Resources,
    moved: &'a BTreeMap<TaskId, Time>,
    settings: &'a PackingSettings,
    arrivals: BTreeMap<MachineId, Arrivals>,
    /// The machines that a proposal of this plan changes: each changes once.
    used: BTreeSet<MachineId>,
    /// The pending tasks for which tasks are moved already.
    helped: BTreeSet<InstanceId>,
    /// How many tasks of each job leave by this plan.
    leaving: BTreeMap<CollectionId, u32>,
    moves: usize,
    comparisons: u64,
}

impl<'a> PackingRooms<'a> {
    pub(crate) fn of(
        cell: &'a Cell,
        now: Time,
        moved: &'a BTreeMap<TaskId, Time>,
        settings: &'a PackingSettings,
    ) -> Self {
        let mut rooms = Self {
            cell,
            now,
            largest: worth::largest(cell),
            moved,
            settings,
            arrivals: BTreeMap::new(),
            used: BTreeSet::new(),
            helped: BTreeSet::new(),
            leaving: BTreeMap::new(),
            moves: 0,
            comparisons: 0,
        };
        rooms.count_moves_under_way();
        rooms
    }

    /// Tasks that were moved, and are not placed again yet, have their room where they go.
    fn count_moves_under_way(&mut self) {
        let leaving = self.cell.machines().flat_map(|machine| machine.instances()).copied();
        let leaving = leaving.filter_map(|instance| {
            match self.cell.placement(instance)?.stop.as_deref()? {
                StopReason::Evict(EvictionCause::Moved { to, why }) => Some((instance, *to, *why)),
                _ => None,
            }
        });
        let pending = self.cell.jobs_with_pending_tasks().flat_map(|job| {
            job.tasks().filter_map(|(index, task)| match task.state {
                TaskState::Pending {
                    cause: PendingCause::Evicted(EvictionCause::Moved { to, why }),
                    ..
                } => Some((job.instance(index)?, to, why)),
                _ => None,
            })
        });
        let all: Vec<_> = leaving.chain(pending).collect();
        for (instance, to, why) in all {
            if let Some(job) = self.cell.job(instance.collection) {
                self.arrives(job, instance.index, to);
            }
            if let MoveReason::Fits { task } = why {
                self.helped.insert(task);
            }
        }
    }

    fn arrives(&mut self, job: &Job, index: TaskIndex, to: MachineId) {
        let ask = Request::of(self.cell, job, index);
        let arrivals = self.arrivals.entry(to).or_default();
        arrivals.sums.add(&ask.demand);
        arrivals.ports += ask.ports;
        arrivals.addresses += usize::from(ask.network.is_own());
        let counted_otherwise = ask.demand.exclusive
            || !ask.static_ports.is_empty()
            || job.spec.has_maxima()
            || ask.volumes.is_some();
        arrivals.full |= counted_otherwise;
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.comparisons >= COMPARISONS
    }

    pub(crate) fn moves_left(&self) -> usize {
        self.settings.moves.saturating_sub(self.moves)
    }

    /// Whether tasks are being moved for a pending task already.
    pub(crate) fn is_being_helped(&self, task: InstanceId) -> bool {
        self.helped.contains(&task)
    }

    /// Whether a proposal of this plan changes a machine.
    pub(crate) fn is_used(&self, machine: MachineId) -> bool {
        self.used.contains(&machine)
    }

    /// Takes in a proposal: what follows builds on it.
    pub(crate) fn carry_out(&mut self, proposal: &PackingProposal) {
        if let crate::PackingGain::Fits { task, .. } = proposal.gain {
            self.helped.insert(task);
        }
        for step in &proposal.moves {
            self.used.insert(step.from);
            self.moves += 1;
            *self.leaving.entry(step.instance.collection).or_default() += 1;
            if let Some(job) = self.cell.job(step.instance.collection) {
                self.arrives(job, step.instance.index, step.to);
            }
        }
    }

    /// Whether a task fits on a machine with what is moving there.
    pub(crate) fn fits(&mut self, ask: &Request<'_>, job: &Job, machine: &Machine) -> bool {
        self.fits_with(ask, job, machine, &Arrivals::default())
    }

    /// Whether a pending task fits on a machine as soon as these tasks, and all that are being stopped, have left it.
    pub(crate) fn fits_without(
        &mut self,
        ask: &Request<'_>,
        job: &Job,
        machine: &Machine,
        left: &[InstanceId],
    ) -> bool {
        self.comparisons += 1;
        let leaves = |id: &InstanceId| {
            let stops = self.cell.placement(*id).is_none_or(|placed| placed.stop.is_some());
            stops || left.contains(id)
        };
        let mut sums = Sums::of(machine);
        let mut ports = Vec::new();
        for instance in machine.instances().iter().filter(|id| leaves(id)) {
            if let Some(job) = self.cell.job(instance.collection) {
                sums = sums.without(&job.demand(instance.index));
            }
            if let Some(placed) = self.cell.placement(*instance) {
                ports.extend_from_slice(placed.machine_ports());
            }
        }
        let arrivals = self.arrivals.get(&machine.id).copied().unwrap_or_default();
        let offer = Offer {
            colocated: Colocated::of(self.cell, job, machine),
            leaving_ports: &ports,
            ..sums.plus(&arrivals.sums).offered_by(machine)
        };
        fits(ask, &lessened(offer, &arrivals)).is_ok()
    }

    fn fits_with(
        &mut self,
        ask: &Request<'_>,
        job: &Job,
        machine: &Machine,
        more: &Arrivals,
    ) -> bool {
        self.comparisons += 1;
        let arrivals = self.arrivals.get(&machine.id).copied().unwrap_or_default();
        let sums = Sums::of(machine).plus(&arrivals.sums).plus(&more.sums);
        let colocated = Colocated::of(self.cell, job, machine);
        let offer = Offer { colocated, ..sums.offered_by(machine) };
        fits(ask, &lessened(lessened(offer, &arrivals), more)).is_ok()
    }

    /// The tasks of a machine that may be moved, with the cost of each: the cheapest first.
    pub(crate) fn movable(&mut self, machine: &Machine) -> Vec<(u64, InstanceId)> {
        self.comparisons += machine.instances().len() as u64;
        let mut movable: Vec<_> =
            machine.instances().iter().filter_map(|id| Some((self.cost(*id)?, *id))).collect();
        movable.sort_unstable();
        movable
    }

    /// What moving a task costs; `None` if it may not be moved.
    fn cost(&self, instance: InstanceId) -> Option<u64> {
        let job = self.cell.job(instance.collection)?;
        let ran = self.now.since(self.cell.placement(instance)?.since);
        let lately = self.moved.get(&instance.task());
        let lately = lately.is_some_and(|at| self.now.since(*at) < PackingSettings::AGAIN_AFTER);
        let allowed = !job.is_gang() && self.settings.allows(job, instance.index);
        if lately || !allowed || ran < self.settings.settled {
            return None;
        }
        self.cell.may_move(instance).ok()?;
        self.may_leave(job, 1).then(|| worth::of_move(job, instance.index, ran, self.largest))
    }

    /// Whether so many more tasks of a job may leave by this plan.
    fn may_leave(&self, job: &Job, more: u32) -> bool {
        let leaving = self.leaving.get(&job.id).copied().unwrap_or_default();
        leaving.saturating_add(more) <= job.room(self.cell.time()).now()
    }

    /// Whether the budgets allow all these tasks to leave.
    fn may_all_leave(&self, tasks: &[(u64, InstanceId)]) -> bool {
        let mut more: BTreeMap<CollectionId, u32> = BTreeMap::new();
        for (_, instance) in tasks {
            *more.entry(instance.collection).or_default() += 1;
        }
        let mut jobs = more.into_iter();
        jobs.all(|(id, more)| self.cell.job(id).is_some_and(|job| self.may_leave(job, more)))
    }

    /// Moves of these tasks away from a machine, each to the machine where the least room is left; `None` if one has
    /// none, or a budget does not allow all. With `only_used` they move to machines that have tasks.
    pub(crate) fn moves(
        &mut self,
        from: &Machine,
        tasks: &[(u64, InstanceId)],
        only_used: bool,
    ) -> Option<Vec<PackingMove>> {
        if tasks.len() > self.moves_left() || !self.may_all_leave(tasks) {
            return None;
        }
        let mut planned: BTreeMap<MachineId, Arrivals> = BTreeMap::new();
        let mut moves = Vec::new();
        for (cost, instance) in tasks.iter().copied() {
            let job = self.cell.job(instance.collection)?;
            let ask = Request::of(self.cell, job, instance.index);
            let mut best: Option<(u64, MachineId)> = None;
            for machine in self.cell.machines() {
                self.comparisons += 1;
                if self.is_exhausted() {
                    return None;
                }
                let full = |arrivals: &Arrivals| arrivals.full;
                if machine.id == from.id
                    || self.is_used(machine.id)
                    || planned.get(&machine.id).is_some_and(full)
                    || self.arrivals.get(&machine.id).is_some_and(full)
                    || only_used && machine.instances().is_empty()
                    || machine.is_suspect(self.now)
                    || !has_amount(machine, &ask.demand)
                {
                    continue;
                }
                let more = planned.get(&machine.id).copied().unwrap_or_default();
                if !self.fits_with(&ask, job, machine, &more) {
                    continue;
                }
                let left = machine.capacity().minus(machine.reserved());
                let left = worth::share(left.minus(ask.demand.reservation), self.largest);
                let found = (left, machine.id);
                best = Some(best.map_or(found, |best| best.min(found)));
            }
            let (_, to) = best?;
            let arrivals = planned.entry(to).or_default();
            arrivals.sums.add(&ask.demand);
            arrivals.ports += ask.ports;
            arrivals.addresses += usize::from(ask.network.is_own());
            arrivals.full |= ask.demand.exclusive || !ask.static_ports.is_empty();
            arrivals.full |= job.spec.has_maxima();
            moves.push(PackingMove { instance, from: from.id, to, cost });
        }
        Some(moves)
    }

    /// Whether something is moving to a machine.
    pub(crate) fn is_awaited(&self, machine: MachineId) -> bool {
        self.arrivals.contains_key(&machine)
    }
}

/// Whether a machine has the amounts that a task reserves, whatever else it checks.
fn has_amount(machine: &Machine, demand: &Demand) -> bool {
    let free = machine.capacity().minus(machine.reserved());
    demand.reservation.first_above(&free).is_none()
}

/// An offer without the ports and addresses that others take.
fn lessened<'a>(offer: Offer<'a>, arrivals: &Arrivals) -> Offer<'a> {
    Offer {
        free_ports: offer.free_ports.saturating_sub(arrivals.ports),
        free_addresses: offer.free_addresses.saturating_sub(arrivals.addresses),
        ..offer
    }
}
