//! Every check that a request fails, and not only the first on each machine.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use cell::feasibility::{CHECKS, Offer, Request, UnschedulableReason};
use model::Dimension;

use super::{Kind, kind, words};

/// The longest list of failed checks.
const FAILED_CHECKS_SHOWN: usize = 50;

/// A check that some machines fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCheck {
    /// Number of machines, whichever others they fail.
    pub machines: usize,
    /// Number of those that fail no other.
    pub alone: usize,
    /// The failed check as text: `lack RAM`.
    pub text: String,
}

/// The machines by each check that they fail.
#[derive(Default)]
pub(super) struct EveryFailure {
    counts: BTreeMap<Kind, (usize, usize)>,
}

impl EveryFailure {
    /// Counts a machine under each check that it fails.
    pub(super) fn add(&mut self, ask: &Request<'_>, offer: &Offer<'_>) {
        let kinds = every_failure(ask, offer);
        let alone = usize::from(kinds.len() == 1);
        for kind in kinds {
            let (machines, only) = self.counts.entry(kind).or_default();
            *machines += 1;
            *only += alone;
        }
    }

    /// Counts machines that fail only this.
    pub(super) fn add_alone(&mut self, kind: Kind, machines: usize) {
        let (all, only) = self.counts.entry(kind).or_default();
        *all += machines;
        *only += machines;
    }

    /// The checks, most frequent first.
    pub(super) fn into_listed(self) -> Vec<FailedCheck> {
        let listed = self.counts.into_iter().map(|(kind, (machines, alone))| {
            let text = words(&kind, machines == 1);
            FailedCheck { machines, alone, text }
        });
        let mut listed: Vec<FailedCheck> = listed.collect();
        listed.sort_by_key(|check| Reverse(check.machines));
        listed.truncate(FAILED_CHECKS_SHOWN);
        listed
    }
}

/// Every check that a request fails there.
fn every_failure(ask: &Request<'_>, offer: &Offer<'_>) -> BTreeSet<Kind> {
    let mut kinds = BTreeSet::new();
    for check in CHECKS {
        match check(ask, offer) {
            // Of these the check names only the first: see below.
            Ok(())
            | Err(
                UnschedulableReason::Constraint { .. }
                | UnschedulableReason::TooSmall { .. }
                | UnschedulableReason::Lacks { .. },
            ) => {}
            Err(reason) => drop(kinds.insert(kind(&reason))),
        }
    }
    let attributes = offer.machine.attributes();
    let unmatched = ask.constraints.iter().filter(|it| it.hard && !it.matches(attributes));
    kinds.extend(unmatched.map(|constraint| Kind::Constraint(Box::new(constraint.clone()))));
    let demand = &ask.demand;
    let judged = if demand.prod { &demand.limit } else { &demand.reservation };
    for dimension in Dimension::ALL {
        let of_prod = if demand.prod { demand.limit.get(dimension) } else { 0 };
        if judged.get(dimension) > offer.capacity.get(dimension) {
            kinds.insert(Kind::TooSmall(dimension));
        } else if demand.reservation.get(dimension) > offer.free.get(dimension)
            || of_prod > offer.free_for_prod.get(dimension)
        {
            kinds.insert(Kind::Lacks(dimension));
        }
    }
    kinds
}
