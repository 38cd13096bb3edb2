//! How many tasks with the same request fit on machines at once, by the checks of a pass.

use std::collections::BTreeMap;

use cell::feasibility::{Colocated, Offer, Request, fits};
use cell::{Cell, FailureDomain, Job, TaskState};
use model::{MachineId, Priority, Resources};

use crate::Kept;

/// What a machine or an alloc offers to the tasks of a job.
#[derive(Clone, Debug)]
pub(crate) struct OpenPlace<'a> {
    /// All that is free there.
    pub(crate) offer: Offer<'a>,
    /// What of that is kept for tasks of higher priority that are retried soon.
    pub(crate) kept: Vec<&'a Kept>,
}

impl<'a> OpenPlace<'a> {
    /// What is free there without what is kept.
    pub(crate) fn left(&self) -> Offer<'a> {
        self.kept.iter().fold(self.offer, |offer, kept| kept.taken_from(offer))
    }
}

/// Where tasks of a job may run: machines, or the allocs of its alloc set that are on a machine.
pub(crate) struct OpenPlaces<'a> {
    /// The machines or allocs.
    pub(crate) all: Vec<OpenPlace<'a>>,
    /// Number of allocs that are on no machine, or about to leave it.
    pub(crate) unplaced_allocs: usize,
}

/// Every machine, or every alloc, on which a task of a job might run.
pub(crate) fn places<'a>(
    cell: &'a Cell,
    job: &Job,
    ask: &Request<'_>,
    priority: Priority,
    kept: &'a BTreeMap<MachineId, Vec<Kept>>,
) -> OpenPlaces<'a> {
    let Some(set) = job.alloc_set.and_then(|set| cell.job(set)) else {
        let own = ask.machine;
        let machines = cell.machines().filter(|it| own.is_none_or(|own| own == it.id));
        let place = |machine: &'a std::sync::Arc<cell::Machine>| {
            let kept = kept.get(&machine.id).into_iter().flatten();
            let kept = kept.filter(|kept| kept.is_from(priority)).collect();
            OpenPlace { offer: Offer::to(cell, job, machine), kept }
        };
        return OpenPlaces { all: machines.map(place).collect(), unplaced_allocs: 0 };
    };
    let (mut all, mut unplaced_allocs) = (Vec::new(), 0);
    for (index, alloc) in set.tasks() {
        let placed = match &alloc.state {
            TaskState::Running(placed) if placed.stop.is_none() => cell.machine(placed.machine),
            _ => None,
        };
        let (Some(machine), Some(alloc)) = (placed, set.instance(index)) else {
            unplaced_allocs += 1;
            continue;
        };
        let colocated = Colocated::of(cell, job, machine);
        let offer = Offer { colocated, ..Offer::within(cell, machine, alloc) };
        all.push(OpenPlace { offer, kept: Vec::new() });
    }
    OpenPlaces { all, unplaced_allocs }
}

/// What an offer leaves after that many tasks with a request; `None` if a check other than those of amounts allows
/// only one of them there.
fn after<'a>(ask: &Request<'_>, offer: &Offer<'a>, tasks: u32) -> Option<Offer<'a>> {
    if tasks == 0 {
        return Some(*offer);
    }
    let has_numbers =
        !ask.static_ports.is_empty() || offer.alloc.is_some() && !ask.network.numbers().is_empty();
    if has_numbers || ask.machine.is_some() || ask.volumes.is_some() {
        return None;
    }
    let number = usize::try_from(tasks).unwrap_or(usize::MAX);
    let each = &ask.demand;
    let less = |free: Resources, each: Resources| free.minus(each.times(tasks.into()));
    let whole = if each.exclusive { offer.machine.whole_cores(each.limit.cpu) } else { 0 };
    let addresses = if ask.network.is_own() && offer.alloc.is_none() { number } else { 0 };
    let limits_of_prod = if each.prod { each.limit } else { Resources::default() };
    let Colocated { machine, switch } = offer.colocated;
    Some(Offer {
        free: less(offer.free, each.reservation),
        free_for_prod: less(offer.free_for_prod, limits_of_prod),
        free_ports: offer.free_ports.saturating_sub(ask.ports.saturating_mul(number)),
        free_addresses: offer.free_addresses.saturating_sub(addresses),
        free_cores: offer.free_cores.saturating_sub(whole.saturating_mul(tasks.into())),
        colocated: Colocated {
            machine: machine.saturating_add(tasks),
            switch: switch.saturating_add(tasks),
        },
        ..*offer
    })
}

/// Number of tasks with a request that fit an offer at once, at most `most`.
pub(crate) fn copies(ask: &Request<'_>, offer: &Offer<'_>, most: u32) -> u32 {
    if most == 0 || fits(ask, offer).is_err() {
        return 0;
    }
    let fits_as =
        |nth: u32| after(ask, offer, nth - 1).is_some_and(|offer| fits(ask, &offer).is_ok());
    // By the amounts alone, which is nearly always the number.
    let by_amount = model::Dimension::ALL.into_iter().filter_map(|dimension| {
        offer.free.get(dimension).checked_div(ask.demand.reservation.get(dimension))
    });
    let by_amount = by_amount.min().map_or(most, |most| u32::try_from(most).unwrap_or(u32::MAX));
    let (mut fitting, mut high) = (1, by_amount.clamp(1, most));
    if high == 1 || fits_as(high) {
        return high;
    }
    // Each further one needs what the ones before have left, so that those that fit come first.
    while high - fitting > 1 {
        let middle = fitting + (high - fitting) / 2;
        if fits_as(middle) {
            fitting = middle;
        } else {
            high = middle;
        }
    }
    fitting
}

/// The groups of machines for which tasks of a job are counted together: a machine with several allocs, and the
/// machines of a switch.
pub(crate) struct SharedCounts<'a> {
    machines: BTreeMap<MachineId, u32>,
    switches: BTreeMap<&'a str, u32>,
    per_machine: Option<u32>,
    per_switch: Option<u32>,
}

impl<'a> SharedCounts<'a> {
    /// Without any task, for the hard maxima of a request.
    pub(crate) fn of(ask: &Request<'_>) -> Self {
        let hard = |maximum: Option<spec::Maximum>| {
            maximum.filter(|maximum| maximum.hard).map(|maximum| maximum.tasks)
        };
        Self {
            machines: BTreeMap::new(),
            switches: BTreeMap::new(),
            per_machine: hard(ask.max_per_machine),
            per_switch: hard(ask.max_per_switch),
        }
    }

    /// How many of so many further tasks the maxima allow at an offer; they are counted there.
    pub(crate) fn allowed(&mut self, offer: &Offer<'a>, tasks: u32) -> u32 {
        let mut allowed = tasks;
        let machine = offer.machine;
        let left = |most: u32, has: u32, added: u32| most.saturating_sub(has).saturating_sub(added);
        let switch = self.per_switch.and_then(|most| {
            let switch = machine.domain(FailureDomain::Switch)?;
            Some((most, self.switches.entry(switch).or_default()))
        });
        let on = self.per_machine.map(|most| (most, self.machines.entry(machine.id).or_default()));
        if let Some((most, added)) = &switch {
            allowed = allowed.min(left(*most, offer.colocated.switch, **added));
        }
        if let Some((most, added)) = &on {
            allowed = allowed.min(left(*most, offer.colocated.machine, **added));
        }
        let counted = [switch.map(|(_, added)| added), on.map(|(_, added)| added)];
        counted.into_iter().flatten().for_each(|added| *added += allowed);
        allowed
    }
}

/// Number of tasks with a request that fit offers at once, at most `most`.
pub(crate) fn tasks_that_fit(ask: &Request<'_>, offers: &[Offer<'_>], most: u32) -> u32 {
    let mut counts = SharedCounts::of(ask);
    let mut total = 0;
    for offer in offers {
        total += counts.allowed(offer, copies(ask, offer, most - total));
        if total >= most {
            break;
        }
    }
    total
}
