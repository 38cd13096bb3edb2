//! Quota: what is charged is what lives, and nothing was admitted beyond what was granted.

use std::collections::BTreeMap;

use model::{Band, UserName};

use super::decision::Step;
use super::{Found, Violation};
use crate::apply::quota::{charge, charged_band};
use crate::state::bounds::{CAPABILITY_HOLDERS_MAX, GRANTS_MAX};
use crate::{CAPABILITIES, Cell, Event, EventKind, Metering, PendingCause, QUOTA, Subject, Total};

impl Cell {
    pub(super) fn check_quota(&self, found: &mut Found) {
        self.check_charges(found);
        let quota = &self.quota;
        let early = quota.metering != Metering::default() || !quota.grants.is_empty();
        if self.level < QUOTA && early {
            let (what, needs) = ("there is quota".to_owned(), QUOTA);
            found.add(Violation::TooEarly { what, level: self.level, needs });
        }
        for grant in quota.grants.values() {
            found.id("grant", grant.id.0, quota.last_grant.0, true);
            let listed = quota.of(&grant.user, grant.band).any(|other| other.id == grant.id);
            let ends = grant.until.is_none_or(|until| until > grant.from);
            let something = grant.amount != model::Resources::default();
            if !(listed && ends && something && grant.band.is_charged()) {
                found.add(Violation::Grant(grant.id));
            }
        }
        let (kept, listed) = (quota.grants.len() as u64, quota.of_users.len() as u64);
        found.count(super::Counted::Cell, "grants by user", listed, kept);
        found.at_most("grants", quota.grants.len(), GRANTS_MAX);
        if self.level < CAPABILITIES && !self.capabilities.is_empty() {
            let (what, needs) = ("users hold capabilities".to_owned(), CAPABILITIES);
            found.add(Violation::TooEarly { what, level: self.level, needs });
        }
        for (user, held) in &self.capabilities {
            if held.is_empty() {
                found.add(Violation::NoCapability(user.clone()));
            }
        }
        let holders = self.capabilities.len();
        found.at_most("users with capabilities", holders, CAPABILITY_HOLDERS_MAX);
    }

    /// What is charged is the limits of all that lives and is charged.
    fn check_charges(&self, found: &mut Found) {
        let mut counted: BTreeMap<(UserName, Band), Total> = BTreeMap::new();
        for job in self.jobs() {
            let Some((band, charge)) = charge(job, &job.spec) else { continue };
            let sum = counted.entry((job.owner.clone(), band)).or_default();
            *sum = sum.plus(charge);
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
    /// Whatever was submitted or updated left its owner within what was granted at that moment, or
    /// grew in no dimension in which it is not.
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
            let Some(band) = charged_band(&job.spec) else { continue };
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
}
