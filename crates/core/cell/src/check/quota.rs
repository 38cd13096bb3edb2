//! Quota: the charges are those of the live tasks, nothing was admitted beyond what was granted,
//! and nothing granted beyond the capacity.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use event::{Event, EventKind, PendingCause, Subject};
use model::{Band, Grant, Resources, UserName};

use super::decision::Step;
use super::{Violation, Violations};
use crate::apply::quota::charges;
use crate::bounds::GRANT_AMOUNT_MAX;
use crate::bounds::{
    CAPABILITY_HOLDERS_MAX, GRANTS_MAX, GRANTS_OF_A_USER_MAX, OVERSELL_PERCENT_MAX, TIME_MAX,
};
use crate::state::sharing_capacity;
use crate::{Cell, Total};

impl Cell {
    pub(super) fn check_quota(&self, found: &mut Violations) {
        self.check_charges(found);
        let metering = self.quota.metering;
        for band in [Band::BestEffortBatch, Band::Mid] {
            let (percent, most) = (metering.percent(band), OVERSELL_PERCENT_MAX);
            if !(1..=most).contains(&percent) {
                found.add(Violation::OversoldTo { band, percent, most });
            }
        }
        self.check_grants(found);
        self.check_capabilities(found);
    }

    fn check_grants(&self, found: &mut Violations) {
        let quota = &self.quota;
        let mut of_users: BTreeMap<&UserName, usize> = BTreeMap::new();
        for (id, grant) in &quota.grants {
            found.id("grant", grant.id.0, quota.last_grant.0, *id == grant.id);
            *of_users.entry(&grant.user).or_default() += 1;
            let listed = (grant.user.clone(), grant.band, grant.id);
            let late = grant.until.is_some_and(|until| until > TIME_MAX);
            for (wrong, why) in [
                (!grant.band.is_charged(), "is in the free band"),
                (grant.amount == Resources::default(), "has no amount"),
                (
                    grant.amount.first_above(&GRANT_AMOUNT_MAX).is_some(),
                    "exceeds the maximum of a grant",
                ),
                (grant.until.is_some_and(|until| until <= grant.from), "ends before it begins"),
                (late || grant.from > TIME_MAX, "begins or ends after the year 9999"),
                (!quota.of_users.contains(&listed), "is not in its user's index"),
            ] {
                if wrong {
                    found.add(Violation::Grant { grant: grant.id, why });
                }
            }
        }
        let (kept, listed) = (quota.grants.len() as u64, quota.of_users.len() as u64);
        found.count(super::Counted::Cell, "grants by user", listed, kept);
        found.at_most("grants", quota.grants.len(), GRANTS_MAX);
        for has in of_users.into_values() {
            found.at_most("grants of a user", has, GRANTS_OF_A_USER_MAX);
        }
    }

    fn check_capabilities(&self, found: &mut Violations) {
        for (user, held) in &self.capabilities {
            if held.is_empty() {
                found.add(Violation::NoCapability(user.clone()));
            }
        }
        let holders = self.capabilities.len();
        found.at_most("users with capabilities", holders, CAPABILITY_HOLDERS_MAX);
    }

    /// The charges are the limits of all live tasks that are charged.
    fn check_charges(&self, found: &mut Violations) {
        let mut counted: BTreeMap<(UserName, Band), Total> = BTreeMap::new();
        for job in self.jobs() {
            for (band, charge) in charges(job) {
                let sum = counted.entry((job.owner.clone(), band)).or_default();
                *sum = sum.plus(charge);
            }
        }
        counted.retain(|_, sum| *sum != Total::default());
        let kept: BTreeMap<_, _> =
            self.quota.charged.iter().map(|(whose, charged)| (whose.clone(), *charged)).collect();
        for whose in kept.keys().chain(counted.keys().filter(|whose| !kept.contains_key(whose))) {
            let sum = |of: &BTreeMap<_, Total>| of.get(whose).copied();
            if sum(&kept) != sum(&counted) {
                let (user, band) = whose.clone();
                let of = |sum: Option<Total>| Box::new(sum.unwrap_or_default());
                let (kept, counted) = (of(sum(&kept)), of(sum(&counted)));
                found.add(Violation::Charged { user, band, kept, counted });
            }
        }
    }
}

impl Step<'_> {
    /// Every submission or update left its owner within what was granted at that time, or grew in
    /// no dimension in which it is not.
    pub(super) fn admissions(&mut self, events: &[Event]) {
        if !self.before.quota.metering.on {
            return;
        }
        for event in events {
            let Subject::Job(id) = event.subject else { continue };
            let (EventKind::Submit { cause: PendingCause::Submitted }
            | EventKind::UpdatePending
            | EventKind::UpdateRunning) = event.kind
            else {
                continue;
            };
            let Some(job) = self.cell.job(id) else { continue };
            let Some(band) = job.spec.charged_band() else { continue };
            let user = job.owner.clone();
            let granted = self.cell.granted(&user, band, self.cell.time());
            let (before, charged) =
                (self.before.charged(&user, band), self.cell.charged(&user, band));
            if charged.grows_beyond(&before, &granted) {
                let (charged, granted) = (Box::new(charged), Box::new(granted));
                self.found.add(Violation::BeyondQuota { job: id, user, band, charged, granted });
            }
        }
    }

    /// Every grant leaves production and monitoring together within the cell's capacity, and every
    /// other band within its percentage of it, at every time at which the grant is in effect.
    /// Dimensions of which it grants nothing may have been exceeded before.
    pub(super) fn grants(&mut self, events: &[Event]) {
        let quota = &self.cell.quota;
        for event in events {
            let EventKind::QuotaGranted(new) = &event.kind else { continue };
            let (grant, band) = (new.id, new.band);
            let most = self.cell.capacity().percent(quota.metering.percent(band));
            let together = sharing_capacity(band);
            let beside = |other: &&Arc<Grant>| other.id != grant && together.contains(&other.band);
            let others: Vec<_> = quota.grants.values().filter(beside).collect();
            // The maximum is reached where some grant begins.
            let begins = others.iter().map(|other| other.from).filter(|at| new.runs(*at));
            let moments: BTreeSet<_> = begins.chain([new.from]).collect();
            for at in moments {
                let running = others.iter().filter(|other| other.runs(at));
                let before = running.fold(Total::default(), |sum, other| sum.plus(other.amount));
                let granted = before.plus(new.amount);
                if granted.grows_beyond(&before, &most) {
                    let (granted, most) = (Box::new(granted), Box::new(most));
                    self.found.add(Violation::BeyondCapacity { grant, band, at, granted, most });
                    break;
                }
            }
        }
    }
}
