//! Quota: how much users may run in each band, granted for a period, and how much they are charged
//! (paper, section 2.5).
//!
//! Quota affects admission only, never scheduling: a grant does not guarantee a machine, and the
//! end of a grant stops no task.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use model::{Band, Grant, GrantId, Span, Time, UserName};

use crate::Total;

/// How long an ended grant is kept for display.
const ENDED_KEPT: Span = Span::from_secs(30 * 24 * 60 * 60);

/// The quota settings of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metering {
    /// Whether quota is enforced.
    pub on: bool,
    /// Maximum granted in best-effort batch, in percent of the cell's capacity.
    pub best_effort_batch_percent: u32,
    /// Maximum granted in the mid band, in percent of the cell's capacity.
    pub mid_percent: u32,
}

/// The grants of a cell, and the charges.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quota {
    pub(crate) metering: Metering,
    pub(crate) last_grant: GrantId,
    pub(crate) grants: OrdMap<GrantId, Arc<Grant>>,

    // Derived.
    pub(crate) of_users: OrdSet<(UserName, Band, GrantId)>,
    /// The limits of all charged tasks, by user and band; a missing entry is zero. Maintained
    /// whether quota is enforced or not.
    pub(crate) charged: OrdMap<(UserName, Band), Total>,
}

impl Default for Metering {
    /// Not enforced; best-effort batch may be granted four times, mid twice.
    fn default() -> Self {
        Self { on: false, best_effort_batch_percent: 400, mid_percent: 200 }
    }
}

impl Metering {
    /// How much of a band may be granted, in percent of the cell's capacity. Production and
    /// monitoring share the capacity; nothing is granted in the free band.
    #[must_use]
    pub fn percent(&self, band: Band) -> u32 {
        match band {
            Band::Free => 0,
            Band::BestEffortBatch => self.best_effort_batch_percent,
            Band::Mid => self.mid_percent,
            Band::Production | Band::Monitoring => 100,
        }
    }
}

/// The bands whose grants share one limit with those of a band.
#[must_use]
pub(crate) fn sharing_capacity(band: Band) -> &'static [Band] {
    match band {
        Band::Free => &[],
        Band::BestEffortBatch => &[Band::BestEffortBatch],
        Band::Mid => &[Band::Mid],
        Band::Production | Band::Monitoring => &[Band::Production, Band::Monitoring],
    }
}

impl Quota {
    /// What a user is granted in a band at a given time.
    pub(crate) fn granted(&self, user: &UserName, band: Band, at: Time) -> Total {
        let running = self.of(user, band).filter(|grant| grant.runs(at));
        running.fold(Total::default(), |sum, grant| sum.plus(grant.amount))
    }

    /// The grants of a user in a band.
    pub(crate) fn of(&self, user: &UserName, band: Band) -> impl Iterator<Item = &Arc<Grant>> {
        let under = |id| (user.clone(), band, GrantId(id));
        let ids = self.of_users.range(under(0)..=under(u64::MAX));
        ids.filter_map(|(_, _, id)| self.grants.get(id))
    }

    pub(crate) fn charged(&self, user: &UserName, band: Band) -> Total {
        self.charged.get(&(user.clone(), band)).copied().unwrap_or_default()
    }

    pub(crate) fn charge(&mut self, user: &UserName, band: Band, more: Total) {
        if more != Total::default() {
            let charged = self.charged.entry((user.clone(), band)).or_default();
            *charged = charged.plus(more);
        }
    }

    pub(crate) fn refund(&mut self, user: &UserName, band: Band, less: Total) {
        let key = (user.clone(), band);
        let Some(charged) = self.charged.get_mut(&key) else { return };
        *charged = charged.minus(less);
        if *charged == Total::default() {
            self.charged.remove(&key);
        }
    }

    pub(crate) fn keep(&mut self, grant: Arc<Grant>) {
        self.of_users.insert((grant.user.clone(), grant.band, grant.id));
        self.grants.insert(grant.id, grant);
    }

    pub(crate) fn drop_grant(&mut self, id: GrantId) -> Option<Arc<Grant>> {
        let grant = self.grants.remove(&id)?;
        self.of_users.remove(&(grant.user.clone(), grant.band, id));
        Some(grant)
    }

    /// A copy without the grants that ended long ago.
    pub(crate) fn without_old_grants(&self, now: Time) -> Self {
        let old =
            |grant: &&Arc<Grant>| grant.until.is_some_and(|until| now.since(until) > ENDED_KEPT);
        let mut kept = self.clone();
        for grant in self.grants.values().filter(old) {
            kept.drop_grant(grant.id);
        }
        kept
    }

    /// The maximum granted in some bands at any one time in a period, in each dimension.
    pub(crate) fn most_granted(&self, bands: &[Band], from: Time, until: Option<Time>) -> Total {
        let mut changes = Vec::new();
        let overlaps = |grant: &&Arc<Grant>| {
            bands.contains(&grant.band)
                && until.is_none_or(|until| grant.from < until)
                && grant.until.is_none_or(|end| end > from)
        };
        for grant in self.grants.values().filter(overlaps) {
            // At the same instant, ends come before beginnings.
            changes.push((grant.from, true, grant.amount));
            changes.extend(grant.until.map(|end| (end, false, grant.amount)));
        }
        changes.sort_by_key(|(at, begins, _)| (*at, *begins));
        let (mut now, mut most) = (Total::default(), Total::default());
        for (_, begins, amount) in changes {
            now = if begins { now.plus(amount) } else { now.minus(amount) };
            most = most.most(now);
        }
        most
    }
}
