//! The smallest change of a request with which all pending tasks of a group fit now.
//!
//! Tried are: less in one dimension, to the unit; less in two dimensions, in 32nds of what is requested; a higher
//! maximum per machine, per switch or both; one hard constraint less; and one of these two with less in one dimension,
//! or with the other. The first of the smallest cost is taken ([`cost`]). A change counts only if so many tasks fit at
//! once by the checks of a pass.

use std::collections::BTreeMap;

use cell::feasibility::{CountedAt, Offer, Request};
use cell::{Cell, Demand, Job};
use model::{Dimension, MachineId, Resources};
use spec::{Constraint, Maximum, limits};

use super::{Change, Group};
use crate::Kept;
use crate::room::{SharedCounts, copies, places};

/// In how many steps two amounts are lessened together.
const STEPS: u64 = 32;
/// The cost of a whole request: a change costs the part that it takes away.
const WHOLE_REQUEST: u64 = 1_000_000;
/// Where maxima count tasks.
const PLACES: [CountedAt; 2] = [CountedAt::Machine, CountedAt::Switch];
/// The most constraints of which it is tried to drop one.
const DROPPED_AT_MOST: usize = 16;

/// How many pending tasks of a group fit now, and what change makes all of them fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForAll {
    /// Number of tasks in the group.
    pub tasks: u32,
    /// How many of them fit at once as they are, if nothing else is placed.
    pub fit: u32,
    /// The smallest change with which all of them fit at once: one or two parts. Empty if they fit anyway, or if no
    /// change that is tried suffices.
    pub change: Vec<Change>,
}

/// The smallest change with which all pending tasks of a group fit now, beside what is kept in the cell
/// ([`Kept::in_cell`]).
#[must_use]
pub fn for_all(
    cell: &Cell,
    job: &Job,
    group: &Group<'_>,
    kept: &BTreeMap<MachineId, Vec<Kept>>,
) -> ForAll {
    let tasks = group.tasks.iter().map(|(first, last)| last.0 - first.0 + 1).sum();
    let Some((first, _)) = group.tasks.first() else {
        return ForAll { tasks, fit: 0, change: Vec::new() };
    };
    let ask = &group.ask;
    let there = places(cell, job, ask, job.described(*first).priority, kept);
    let offers: Vec<Offer<'_>> = there.all.iter().map(super::OpenPlace::left).collect();
    smallest(ask, &offers, tasks)
}

/// The same for tasks with a request and all offers.
fn smallest(ask: &Request<'_>, offers: &[Offer<'_>], tasks: u32) -> ForAll {
    let as_they_are = Search::of(ask.clone(), offers, tasks);
    let fit = as_they_are.fitting(&ask.demand);
    if fit >= tasks {
        return ForAll { tasks, fit, change: Vec::new() };
    }
    let mut best: Option<(u64, Vec<Change>)> = None;
    let mut offer = |change: Vec<Change>| {
        let cost = change.iter().map(cost).sum();
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, change));
        }
    };
    as_they_are.less_in_one().into_iter().for_each(|change| offer(vec![change]));
    as_they_are.less_in_two().into_iter().for_each(|change| offer(change.into()));
    for place in PLACES {
        match as_they_are.higher_maximum(place) {
            Some(change) => offer(vec![change]),
            None => as_they_are.less_with_higher_maximum(place).into_iter().for_each(&mut offer),
        }
    }
    as_they_are.higher_maxima().into_iter().for_each(&mut offer);
    let hard = ask.constraints.iter().filter(|constraint| constraint.hard);
    for dropped in hard.take(DROPPED_AT_MOST) {
        let others: Vec<Constraint> =
            ask.constraints.iter().filter(|other| *other != dropped).cloned().collect();
        let without = Request { constraints: &others, ..ask.clone() };
        let search = Search::of(without, offers, tasks);
        let change = Change::Without(dropped.clone());
        if search.suffices(&ask.demand) {
            offer(vec![change]);
            continue;
        }
        let more = search.less_in_one().into_iter();
        let more = more.chain(PLACES.into_iter().filter_map(|place| search.higher_maximum(place)));
        more.for_each(|more| offer(vec![change.clone(), more]));
    }
    ForAll { tasks, fit, change: best.map(|(_, change)| change).unwrap_or_default() }
}

/// What a part of a change costs: of an amount, the part that it takes away, in millionths; a higher maximum costs as
/// much as a whole amount, and a constraint twice that.
fn cost(change: &Change) -> u64 {
    match change {
        Change::Less { from, to, .. } => {
            let less = u128::from(from.saturating_sub(*to)) * u128::from(WHOLE_REQUEST);
            u64::try_from(less.div_ceil(u128::from(*from.max(&1)))).unwrap_or(WHOLE_REQUEST)
        }
        Change::HigherMaximum { .. } => WHOLE_REQUEST,
        Change::Without(_) => 2 * WHOLE_REQUEST,
    }
}

/// The unit in which an amount is lessened: a milli-core, or a MiB where the request is at least as much.
fn unit(dimension: Dimension, from: u64) -> u64 {
    match dimension {
        Dimension::Cpu => 1,
        Dimension::Ram | Dimension::Disk | Dimension::DiskRate => {
            if from > 1 << 20 {
                1 << 20
            } else {
                1
            }
        }
    }
}

/// The least that a job may request.
fn least(dimension: Dimension) -> u64 {
    match dimension {
        Dimension::Ram => limits::RAM_BYTES_MIN,
        Dimension::Cpu | Dimension::Disk | Dimension::DiskRate => 1,
    }
}

/// A request without its amounts at every offer, so that many amounts can be tried.
struct Search<'a, 'b> {
    ask: Request<'a>,
    /// The offers that pass every check but those of amounts and maxima, with how many tasks then fit at most.
    offers: Vec<(&'b Offer<'b>, u32)>,
    tasks: u32,
}

impl<'a, 'b> Search<'a, 'b> {
    fn of(ask: Request<'a>, offers: &'b [Offer<'b>], tasks: u32) -> Self {
        let nothing =
            Demand { limit: Resources::default(), reservation: Resources::default(), ..ask.demand };
        let unsized_ask =
            Request { demand: nothing, max_per_machine: None, max_per_switch: None, ..ask.clone() };
        let offers = offers.iter().map(|offer| (offer, copies(&unsized_ask, offer, tasks)));
        Self { offers: offers.filter(|(_, most)| *most > 0).collect(), ask, tasks }
    }

    fn fitting(&self, demand: &Demand) -> u32 {
        self.fitting_within(demand, SharedCounts::of(&self.ask))
    }

    /// How many tasks with these amounts fit at once within maxima, counted up to the number that is wanted.
    fn fitting_within(&self, demand: &Demand, mut counts: SharedCounts<'b>) -> u32 {
        let mut total = 0;
        for (offer, most) in &self.offers {
            let fit = (*most).min(by_amounts(demand, offer)).min(self.tasks - total);
            if fit > 0 {
                total += counts.allowed(offer, fit);
            }
            if total >= self.tasks {
                break;
            }
        }
        total
    }

    fn suffices(&self, demand: &Demand) -> bool {
        self.fitting(demand) >= self.tasks
    }

    /// What is requested in a dimension, as users see it: production by its limit.
    fn asked(&self, dimension: Dimension) -> u64 {
        let Demand { limit, reservation, prod, .. } = &self.ask.demand;
        if *prod { limit.get(dimension) } else { reservation.get(dimension) }
    }

    /// The amounts with less in some dimensions.
    fn with(&self, less: &[(Dimension, u64)]) -> Demand {
        let lessened = |amounts: &Resources| {
            Resources::each(|dimension| {
                let amount = amounts.get(dimension);
                let to = less.iter().find(|(of, _)| *of == dimension);
                to.map_or(amount, |(_, to)| amount.min(*to))
            })
        };
        let Demand { limit, reservation, .. } = &self.ask.demand;
        let (limit, reservation) = (lessened(limit), lessened(reservation));
        Demand { limit, reservation, ..self.ask.demand }
    }

    /// For each dimension, the most with which all fit.
    fn less_in_one(&self) -> Vec<Change> {
        let less = |dimension: Dimension| {
            let from = self.asked(dimension);
            let unit = unit(dimension, from);
            // In units: as many suffice, so many do not.
            let (mut suffice, mut above) = (least(dimension).div_ceil(unit), from.div_ceil(unit));
            if above <= suffice || !self.suffices(&self.with(&[(dimension, suffice * unit)])) {
                return None;
            }
            while above - suffice > 1 {
                let middle = suffice + (above - suffice) / 2;
                match self.suffices(&self.with(&[(dimension, middle * unit)])) {
                    true => suffice = middle,
                    false => above = middle,
                }
            }
            Some(Change::Less { dimension, from, to: suffice * unit })
        };
        Dimension::ALL.into_iter().filter_map(less).collect()
    }

    /// For each two dimensions, the pairs of amounts with which all fit, and with no more of either.
    fn less_in_two(&self) -> Vec<[Change; 2]> {
        let mut found = Vec::new();
        for (place, one) in Dimension::ALL.into_iter().enumerate() {
            for other in Dimension::ALL.into_iter().skip(place + 1) {
                self.less_in_both(one, other, &mut found);
            }
        }
        found
    }

    fn less_in_both(&self, one: Dimension, other: Dimension, found: &mut Vec<[Change; 2]>) {
        let step = |dimension: Dimension, step: u64| {
            let from = self.asked(dimension);
            let unit = unit(dimension, from);
            let to = u128::from(from) * u128::from(step) / u128::from(STEPS);
            let to = u64::try_from(to).unwrap_or(from);
            to / unit * unit
        };
        let suffice = |of_one: u64, of_other: u64| {
            let (of_one, of_other) = (step(one, of_one), step(other, of_other));
            of_one >= least(one)
                && of_other >= least(other)
                && self.suffices(&self.with(&[(one, of_one), (other, of_other)]))
        };
        // The least of both does not suffice: no pair does.
        if self.asked(one) < STEPS
            || self.asked(other) < STEPS
            || !self.suffices(&self.with(&[(one, least(one)), (other, least(other))]))
        {
            return;
        }
        // Before the first step that asks for enough to be allowed at all.
        let allowed = (1..STEPS).find(|of_other| step(other, *of_other) >= least(other));
        let mut of_other = allowed.unwrap_or(STEPS) - 1;
        for of_one in (1..STEPS).rev() {
            let before = of_other;
            while of_other + 1 < STEPS && suffice(of_one, of_other + 1) {
                of_other += 1;
            }
            if of_other > before {
                let less = |dimension, to| {
                    let (from, to) = (self.asked(dimension), step(dimension, to));
                    Change::Less { dimension, from, to }
                };
                found.push([less(one, of_one), less(other, of_other)]);
            }
        }
    }

    /// The same offers for another request, which differs in amounts and maxima alone.
    fn for_request(&self, ask: Request<'a>) -> Self {
        Self { ask, offers: self.offers.clone(), tasks: self.tasks }
    }

    /// The hard maximum at a place.
    fn maximum(&self, place: CountedAt) -> Option<u32> {
        let maximum = match place {
            CountedAt::Machine => self.ask.max_per_machine,
            CountedAt::Switch => self.ask.max_per_switch,
        };
        maximum.filter(|maximum| maximum.hard).map(|maximum| maximum.tasks)
    }

    /// The maximum at a place beyond which no higher one helps: with the tasks that are there already.
    fn highest(&self, place: CountedAt) -> Option<u32> {
        let there = self.offers.iter().map(|(offer, _)| match place {
            CountedAt::Machine => offer.colocated.machine,
            CountedAt::Switch => offer.colocated.switch,
        });
        Some(there.max()?.saturating_add(self.tasks))
    }

    /// The request with another hard maximum at a place.
    fn with_maximum(&self, place: CountedAt, tasks: u32) -> Request<'a> {
        let (higher, ask) = (Some(Maximum { tasks, hard: true }), self.ask.clone());
        match place {
            CountedAt::Machine => Request { max_per_machine: higher, ..ask },
            CountedAt::Switch => Request { max_per_switch: higher, ..ask },
        }
    }

    /// For each dimension, the most with which all fit if the maximum at a place is raised too, and the lowest with
    /// which they do.
    fn less_with_higher_maximum(&self, place: CountedAt) -> Vec<Vec<Change>> {
        let (Some(_), Some(highest)) = (self.maximum(place), self.highest(place)) else {
            return Vec::new();
        };
        let raised = self.for_request(self.with_maximum(place, highest));
        let with_maximum = |less: Change| {
            let Change::Less { dimension, to, .. } = &less else { return None };
            let demand = self.with(&[(*dimension, *to)]);
            let lessened = self.for_request(Request { demand, ..self.ask.clone() });
            let higher = lessened.higher_maximum(place)?;
            Some(vec![less, higher])
        };
        raised.less_in_one().into_iter().filter_map(with_maximum).collect()
    }

    /// Higher maxima at both places with which all fit: the lowest per machine, and the lowest per switch with that.
    fn higher_maxima(&self) -> Option<Vec<Change>> {
        let [machine, switch] = PLACES;
        self.maximum(switch)?;
        let raised = self.for_request(self.with_maximum(switch, self.highest(switch)?));
        let change = raised.higher_maximum(machine)?;
        let Change::HigherMaximum { to, .. } = change else { return None };
        let raised = self.for_request(self.with_maximum(machine, to));
        Some(vec![change, raised.higher_maximum(switch)?])
    }

    /// The lowest maximum with which all fit; `None` if they do with the present one, or with none.
    fn higher_maximum(&self, place: CountedAt) -> Option<Change> {
        let from = self.maximum(place)?;
        let suffices = |tasks: u32| {
            let counts = SharedCounts::of(&self.with_maximum(place, tasks));
            self.fitting_within(&self.ask.demand, counts) >= self.tasks
        };
        let (mut above, mut below) = (self.highest(place)?, from);
        if above <= below || !suffices(above) || suffices(below) {
            return None;
        }
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            if suffices(middle) { above = middle } else { below = middle }
        }
        Some(Change::HigherMaximum { place, from, to: above })
    }
}

/// How many tasks fit an offer by their amounts alone.
fn by_amounts(demand: &Demand, offer: &Offer<'_>) -> u32 {
    let shortage = offer.machine.report.shortage;
    let short = shortage.filter(|_| !demand.prod && offer.alloc.is_none());
    let mut fit = u64::MAX;
    for dimension in Dimension::ALL {
        let asked = demand.reservation.get(dimension);
        let mut free = offer.free.get(dimension);
        if short.is_some_and(|short| short.dimension == dimension) {
            free = free.saturating_sub(offer.capacity.get(dimension) / 8);
        }
        fit = fit.min(free.checked_div(asked).unwrap_or(u64::MAX));
        if demand.prod {
            let (asked, free) = (demand.limit.get(dimension), offer.free_for_prod.get(dimension));
            fit = fit.min(free.checked_div(asked).unwrap_or(u64::MAX));
        }
    }
    if demand.exclusive {
        let each = offer.machine.whole_cores(demand.limit.cpu);
        fit = fit.min(offer.free_cores.checked_div(each).unwrap_or(u64::MAX));
    }
    u32::try_from(fit).unwrap_or(u32::MAX)
}
