//! Changes of a request: the smallest that lets one task start now on a machine.

use std::cmp::Reverse;

use cell::MachineState;
use cell::feasibility::{
    CountedAt, Offer, Request, UnschedulableReason, fits, maxima, static_ports, variants,
};
use model::Dimension;
use spec::Constraint;

/// A change of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Request less in one dimension.
    Less {
        /// The dimension.
        dimension: Dimension,
        /// The amount requested now.
        from: u64,
        /// The amount that would fit now.
        to: u64,
    },
    /// Drop a constraint.
    Without(Constraint),
    /// Allow more tasks of the job in one place.
    HigherMaximum {
        /// Where they are counted.
        place: CountedAt,
        /// The maximum now.
        from: u32,
        /// One that would do.
        to: u32,
    },
}

/// The single change that would make the task fit on a machine now.
pub(super) fn only_change(ask: &Request<'_>, offer: &Offer<'_>) -> Option<Change> {
    let machine = offer.machine;
    // No other change gives it an address, or another network of the alloc.
    if offer.alloc.is_some_and(|alloc| alloc.own_network != ask.network.is_own())
        || offer.alloc.is_none() && ask.network.is_own() && offer.free_addresses == 0
    {
        return None;
    }
    // Nor does it get a port that another has.
    if static_ports::check(ask, offer).is_err() {
        return None;
    }
    if let Err(UnschedulableReason::Maximum { place, has, most }) = maxima::check(ask, offer) {
        let change = Change::HigherMaximum { place, from: most, to: has.saturating_add(1) };
        return fits(&with_higher_maximum(ask, place), offer).is_ok().then_some(change);
    }
    let whole = machine.whole_cores(ask.demand.limit.cpu);
    let volumes = ask.volumes.as_ref();
    if volumes.is_some_and(|volumes| volumes.find(machine).is_err())
        || ask.demand.exclusive && whole > offer.free_cores
        || machine.state != MachineState::Up
        || machine.is_set_aside()
        || machine.drain.is_some()
    {
        return None;
    }
    // Neither less nor fewer constraints make a variant for its architecture.
    if variants::check(ask, offer).is_err() {
        return None;
    }
    // Less would help only on a machine that was short and is not any more, until it has forgotten it.
    if !ask.demand.prod && offer.alloc.is_none() && machine.report.shortage.is_some() {
        return None;
    }
    let mut unmatched = ask
        .constraints
        .iter()
        .filter(|constraint| constraint.hard && !constraint.matches(machine.attributes()));
    let (constraint, another) = (unmatched.next(), unmatched.next().is_some());
    // Production is also limited by its limits, and by what they leave.
    let room = |dimension: Dimension| {
        let (demand, free) = (&ask.demand, offer.free.get(dimension));
        match demand.prod {
            true => (demand.limit.get(dimension), free.min(offer.free_for_prod.get(dimension))),
            false => (demand.reservation.get(dimension), free),
        }
    };
    let above = |dimension: &Dimension| {
        let (asked, free) = room(*dimension);
        asked > free
    };
    let mut lacking = Dimension::ALL.into_iter().filter(above);
    match (constraint, lacking.next(), ask.ports <= offer.free_ports) {
        (Some(constraint), None, true) if !another => Some(Change::Without(constraint.clone())),
        (None, Some(dimension), true) if lacking.next().is_none() => {
            let (from, to) = room(dimension);
            (to > 0).then_some(Change::Less { dimension, from, to })
        }
        _ => None,
    }
}

/// The request without the maximum there.
fn with_higher_maximum<'a>(ask: &Request<'a>, place: CountedAt) -> Request<'a> {
    let ask = ask.clone();
    match place {
        CountedAt::Machine => Request { max_per_machine: None, ..ask },
        CountedAt::Switch => Request { max_per_switch: None, ..ask },
    }
}

/// Requesting less is better than dropping a constraint or raising a maximum, keeping more is better than
/// keeping less, and of maxima the lowest is best.
pub(super) fn better(one: Option<Change>, other: Option<Change>) -> Option<Change> {
    let kept = |change: &Change| match change {
        Change::Less { from, to, .. } => {
            (1 + u128::from(*to) * 1_000_000 / u128::from(*from.max(&1)), Reverse(0))
        }
        Change::Without(_) => (0, Reverse(0)),
        Change::HigherMaximum { to, .. } => (0, Reverse(*to)),
    };
    match (one, other) {
        (Some(one), Some(other)) => Some(if kept(&other) > kept(&one) { other } else { one }),
        (one, other) => one.or(other),
    }
}

/// `ram 61 GiB → 60 GiB`, `without gpu = "h200"`, `maxPerMachine 1 → 2`.
impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (dimension, from, to) = match self {
            Self::Less { dimension, from, to } => (dimension, from, to),
            Self::Without(constraint) => return write!(f, "without {constraint}"),
            Self::HigherMaximum { place, from, to } => {
                let field = match place {
                    CountedAt::Machine => "maxPerMachine",
                    CountedAt::Switch => "maxPerSwitch",
                };
                return write!(f, "{field} {from} → {to}");
            }
        };
        let field = match dimension {
            Dimension::Cpu => "cpu",
            Dimension::Ram => "ram",
            Dimension::Disk => "disk",
            Dimension::DiskRate => "diskRate",
        };
        write!(f, "{field} {} → {}", dimension.show(*from), dimension.show(*to))
    }
}
