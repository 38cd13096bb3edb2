//! Granting and charging quota: charged at submission and update, released task by task as they
//! die.

use std::collections::BTreeSet;
use std::sync::Arc;

use event::{EventKind, Subject};
use model::{
    Band, Capability, CollectionId, Dimension, Grant, GrantId, Resources, Span, TaskIndex, Time,
    UserName,
};
use spec::JobSpec;

use super::update::Opening;
use super::{Events, full, ids_used_up};
use crate::Total;
use crate::apply::mutation::Change;
use crate::bounds::{
    GRANT_AMOUNT_MAX, GRANTS_MAX, GRANTS_OF_A_USER_MAX, OVERSELL_PERCENT_MAX, TIME_MAX,
};
use crate::shortfall::{Oversold, Shortfall};
use crate::state::{Quota, sharing_capacity};
use crate::{
    Cell, CellPermission, Countable, ExpiringQuota, GrantProblem, Job, OutOfBounds, Permission,
    Rejection, Reply, UserPermission,
};

/// What is charged for a job, by band: nothing in the free band, and nothing for a job that runs in
/// an alloc set, which is charged as a whole. While an update is open, both its descriptions are
/// charged, each task for the larger limit, so that an undo never lacks quota.
pub(crate) fn charges(job: &Job) -> Vec<(Band, Total)> {
    let bands = charged_bands(job);
    if bands.is_empty() {
        return Vec::new();
    }
    let uniform = job.open_update().is_none() && job.other_descriptions().next().is_none();
    let whole = job.counts().alive() == job.spec.tasks && job.rows() == job.spec.tasks;
    let charge: Total = if uniform && whole {
        job.spec.total().into()
    } else {
        let limits = job.tasks().map(|(index, _)| job.charged_limit(index));
        limits.fold(Total::default(), Total::plus)
    };
    bands.into_iter().map(|band| (band, charge)).collect()
}

/// The bands in which a job is charged.
pub(crate) fn charged_bands(job: &Job) -> Vec<Band> {
    let back = job.undo_description().and_then(|spec| spec.charged_band());
    let bands: BTreeSet<_> = job.spec.charged_band().into_iter().chain(back).collect();
    bands.into_iter().collect()
}

/// The part of charges in a band.
fn charged_in(charges: &[(Band, Total)], band: Band) -> Total {
    let found = charges.iter().find(|(other, _)| *other == band);
    found.map_or(Total::default(), |(_, charge)| *charge)
}

/// How long before a grant ends its user is told when they submit a job.
const EXPIRES_SOON: Span = Span::from_secs(7 * 24 * 60 * 60);

/// Grant quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantQuota {
    /// The user.
    pub user: UserName,
    /// The band.
    pub band: Band,
    /// The amount.
    pub amount: Resources,
    /// When it begins; `None`: now.
    pub from: Option<Time>,
    /// When it ends; `None`: never.
    pub until: Option<Time>,
}

impl Change for GrantQuota {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_quota_granters(by, || Permission::OfUser {
            user: self.user.clone(),
            what: UserPermission::GrantQuota,
        })
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Self { user, band, amount, until, .. } = self;
        let (band, amount, until) = (*band, *amount, *until);
        let from = self.from.unwrap_or(cell.time).min(TIME_MAX);
        validate_grant(self, from, cell.time)?;
        // A rejected request changes nothing: old grants are only removed when a new one is added.
        let quota = cell.quota.without_old_grants(cell.time);
        let of_user = Band::ALL.into_iter().map(|band| quota.of(user, band).count()).sum();
        for (what, has, most) in [
            (Countable::Grants, quota.grants.len(), GRANTS_MAX),
            (Countable::GrantsOf(user.clone()), of_user, GRANTS_OF_A_USER_MAX),
        ] {
            full(what, has as u64, most as u64)?;
        }
        let (capacity, percent) = (cell.capacity(), quota.metering.percent(band));
        let most = quota.most_granted(sharing_capacity(band), from, until);
        let left = capacity.percent(percent).minus(most).resources();
        if amount.first_above(&left).is_some() {
            let capacity = capacity.resources();
            let oversold = Oversold { band, asked: amount, left, capacity, percent };
            return Err(Rejection::Oversold(Box::new(oversold)));
        }
        let last = quota.last_grant.0;
        let id = last.checked_add(1).ok_or_else(|| ids_used_up(Countable::GrantIds, last))?;
        let (id, user, by_whom) = (GrantId(id), user.clone(), by.clone());
        cell.quota = Quota { last_grant: id, ..quota };
        cell.used(by, Capability::GrantQuota, Subject::Cell, events);
        let grant = Arc::new(Grant { id, user, band, amount, from, until, by: by_whom });
        events.add(Subject::Cell, EventKind::QuotaGranted(Arc::clone(&grant)));
        cell.quota.keep(grant);
        Ok(Reply::Granted(id))
    }
}

/// Revoke a grant. No task is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokeQuota {
    /// The grant.
    pub grant: GrantId,
}

impl Change for RevokeQuota {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_quota_granters(by, || Permission::RevokeGrant(self.grant))
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let id = self.grant;
        let grant = cell.quota.drop_grant(id).ok_or(Rejection::NoSuchGrant(id))?;
        cell.used(by, Capability::GrantQuota, Subject::Cell, events);
        events.add(Subject::Cell, EventKind::QuotaRevoked(grant));
        Ok(Reply::Done)
    }
}

/// Set the percentage of a band that may be granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oversell {
    /// Best-effort batch or mid: no other band can be oversold.
    pub band: Band,
    /// Percent of the cell's capacity.
    pub percent: u32,
}

impl Change for Oversell {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_quota_granters(by, || Permission::Oversell(self.band))
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Self { band, percent } = *self;
        let metering = &mut cell.quota.metering;
        let kept = match band {
            Band::BestEffortBatch => &mut metering.best_effort_batch_percent,
            Band::Mid => &mut metering.mid_percent,
            Band::Free | Band::Production | Band::Monitoring => {
                return Err(Rejection::NeverOversold(band));
            }
        };
        if !(1..=OVERSELL_PERCENT_MAX).contains(&percent) {
            return Err(Rejection::OutOfBounds(OutOfBounds::OversellPercent(percent)));
        }
        if *kept != percent {
            *kept = percent;
            cell.used(by, Capability::GrantQuota, Subject::Cell, events);
            events.add(Subject::Cell, EventKind::Oversell { band, percent });
        }
        Ok(Reply::Done)
    }
}

/// Switch quota enforcement on or off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterQuota {
    /// Whether it is on.
    pub on: bool,
}

impl Change for MeterQuota {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.only_quota_granters(by, || Permission::OfCell(CellPermission::MeterQuota))
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let on = self.on;
        if cell.quota.metering.on != on {
            cell.used(by, Capability::GrantQuota, Subject::Cell, events);
        }
        cell.set_metering(on, events);
        Ok(Reply::Done)
    }
}

impl Cell {
    /// Whether a further task of a job, beyond those of its description, is within its owner's quota.
    #[must_use]
    pub fn one_more_is_within_quota(&self, job: &Job) -> bool {
        let more: Total = job.charged_limit(TaskIndex(job.rows())).into();
        let fits = |band| {
            let before = self.quota.charged(&job.owner, band);
            let granted = self.quota.granted(&job.owner, band, self.time);
            !before.plus(more).grows_beyond(&before, &granted)
        };
        !self.quota.metering.on || charged_bands(job).into_iter().all(fits)
    }

    /// The quota of a job's owner that expires soon, in the band in which the job is charged.
    pub(super) fn expiring_quota(&self, job: CollectionId) -> Option<ExpiringQuota> {
        let (quota, now) = (&self.quota, self.time);
        let job = self.jobs.get(job).filter(|_| quota.metering.on)?;
        let (user, band) = (&job.owner, job.spec.charged_band()?);
        let charged = quota.charged(user, band);
        let running = quota.of(user, band).filter(|grant| grant.runs(now));
        let soon = now + EXPIRES_SOON;
        let ends = running.filter_map(|grant| grant.until).filter(|end| *end <= soon);
        let ends: BTreeSet<Time> = ends.collect();
        let expiring = |at| {
            let above = charged.minus(quota.granted(user, band, at)).resources();
            (above != Resources::default()).then_some(ExpiringQuota { band, at, above })
        };
        ends.into_iter().find_map(expiring)
    }

    /// Whether quota suffices for submitting a description now: as a new job, or as an update of
    /// the live job of that name.
    ///
    /// # Errors
    /// What is missing, and what would be admitted.
    pub fn within_quota(&self, owner: &UserName, spec: &JobSpec) -> Result<(), Box<Shortfall>> {
        if !self.quota.metering.on {
            return Ok(());
        }
        let living = self.job_named(owner, &spec.name).filter(|job| job.is_alive());
        let had = living.map(|job| charges(job)).unwrap_or_default();
        let asked = match living {
            Some(job) => self.charges_if_updated(job, spec),
            None => {
                spec.charged_band().map(|band| (band, spec.total().into())).into_iter().collect()
            }
        };
        self.admits(owner, spec, &had, asked, living.is_some())
    }

    /// Whether a job that `had` these charges may have those that are `asked`.
    pub(super) fn admits(
        &self,
        owner: &UserName,
        spec: &JobSpec,
        had: &[(Band, Total)],
        asked: Vec<(Band, Total)>,
        exists: bool,
    ) -> Result<(), Box<Shortfall>> {
        if !self.quota.metering.on {
            return Ok(());
        }
        let others = |band| self.quota.charged(owner, band).minus(charged_in(had, band));
        let granted = |band| self.quota.granted(owner, band, self.time);
        let fits = |band, asked| {
            let (before, after) = (self.quota.charged(owner, band), others(band).plus(asked));
            !after.grows_beyond(&before, &granted(band))
        };
        let Some((band, asked)) = asked.into_iter().find(|(band, asked)| !fits(*band, *asked))
        else {
            return Ok(());
        };
        let left = granted(band).minus(others(band));
        let passes = |other: &Band| *other != band && other.is_charged() && fits(*other, asked);
        Err(Box::new(Shortfall {
            user: owner.clone(),
            band,
            job: spec.name.clone(),
            asked: asked.resources(),
            had: charged_in(had, band).resources(),
            others: others(band).resources(),
            granted: granted(band).resources(),
            tasks: spec.tasks,
            tasks_that_pass: if exists { 0 } else { tasks_within(spec, left) },
            bands_that_pass: Band::ALL.into_iter().rev().filter(passes).collect(),
        }))
    }

    /// What would be charged for a job as soon as it is updated to a description.
    fn charges_if_updated(&self, job: &Arc<Job>, spec: &JobSpec) -> Vec<(Band, Total)> {
        let mut cell = self.clone();
        let spec = Arc::new(spec.clone());
        cell.open_unchecked(&job.owner, job.id, &Opening::to(&spec), &mut Events::default());
        cell.charges_of(job.id)
    }

    /// The same for several descriptions submitted one after the other at a given time: each that
    /// is admitted is charged before the next is checked.
    #[must_use]
    pub fn all_within_quota<'a>(
        &self,
        owner: &UserName,
        specs: impl IntoIterator<Item = &'a JobSpec>,
        at: Time,
    ) -> Vec<Result<(), Box<Shortfall>>> {
        let mut cell = self.clone();
        cell.time = cell.time.max(at);
        let judge = |spec: &JobSpec| {
            let spec = &*cell.as_autoscaled(owner, &Arc::new(spec.clone()));
            cell.within_quota(owner, spec)?;
            let living = cell.job_named(owner, &spec.name).filter(|job| job.is_alive()).cloned();
            let before = living.as_ref().map(|job| charges(job)).unwrap_or_default();
            let after = match &living {
                Some(job) => cell.charges_if_updated(job, spec),
                None => {
                    let charge = spec.charged_band().map(|band| (band, spec.total().into()));
                    charge.into_iter().collect()
                }
            };
            cell.recharge(owner, &before, &after);
            Ok(())
        };
        specs.into_iter().map(judge).collect()
    }

    /// Replaces what was charged for a job.
    pub(crate) fn recharge(
        &mut self,
        owner: &UserName,
        before: &[(Band, Total)],
        after: &[(Band, Total)],
    ) {
        if before == after {
            return;
        }
        for (band, charge) in after {
            self.quota.charge(owner, *band, *charge);
        }
        for (band, charge) in before {
            self.quota.refund(owner, *band, *charge);
        }
    }

    pub(super) fn set_metering(&mut self, on: bool, events: &mut Events) {
        if self.quota.metering.on != on {
            self.quota.metering.on = on;
            events.add(Subject::Cell, EventKind::Metering { on });
        }
    }

    fn only_quota_granters(
        &self,
        by: &UserName,
        what: impl FnOnce() -> Permission,
    ) -> Result<(), Rejection> {
        self.only_holders(by, Capability::GrantQuota, what)
    }

    /// How much of a band can be granted from now on without end.
    #[must_use]
    pub fn grantable(&self, band: Band) -> Resources {
        let allowed = self.capacity().percent(self.quota.metering.percent(band));
        allowed.minus(self.most_granted(band)).resources()
    }

    /// The capacity of all machines together, whatever their state.
    #[must_use]
    pub fn capacity(&self) -> Total {
        self.machines().fold(Total::default(), |sum, machine| sum.plus(machine.capacity()))
    }
}

/// Whether a grant is valid by itself.
fn validate_grant(action: &GrantQuota, from: Time, now: Time) -> Result<(), Rejection> {
    let problem = if !action.band.is_charged() {
        GrantProblem::NotCharged
    } else if action.amount == Resources::default() {
        GrantProblem::NoAmount
    } else if let Some(dimension) = action.amount.first_above(&GRANT_AMOUNT_MAX) {
        return Err(Rejection::OutOfBounds(OutOfBounds::GrantAmount(dimension)));
    } else if action.until.is_some_and(|until| until <= from) {
        GrantProblem::EndsBeforeItBegins
    } else if action.until.is_some_and(|until| until <= now) {
        GrantProblem::Ended
    } else if action.until.is_some_and(|until| until > TIME_MAX) {
        GrantProblem::EndsTooLate
    } else {
        return Ok(());
    };
    Err(Rejection::InvalidGrant(problem))
}

/// How many tasks of a job, counted from the first, request no more than is left.
fn tasks_within(spec: &JobSpec, left: Total) -> u32 {
    let (mut left, mut passed) = (left, 0);
    let fits = |limit: Resources, left: &Total| {
        let asked = Dimension::ALL.into_iter().filter(|dimension| limit.get(*dimension) > 0);
        let times = asked.map(|of| left.get(of) / u128::from(limit.get(of))).min();
        times.map_or(u32::MAX, |times| u32::try_from(times).unwrap_or(u32::MAX))
    };
    let overridden = spec.overrides.keys().map(|index| index.0).filter(|index| *index < spec.tasks);
    for end in overridden.chain([spec.tasks]) {
        // The tasks before it that have no override, and then itself.
        let usual = end.saturating_sub(passed);
        let many = usual.min(fits(spec.task.limit, &left));
        passed = passed.saturating_add(many);
        if many < usual || end == spec.tasks {
            return passed;
        }
        left = left.minus(spec.task.limit.times(many.into()));
        let limit = spec.limit(TaskIndex(end));
        if fits(limit, &left) == 0 {
            return passed;
        }
        left = left.minus(limit);
        passed = passed.saturating_add(1);
    }
    passed
}
