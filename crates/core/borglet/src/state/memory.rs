//! Handles a shortage of memory before the kernel does: evicts tasks until the reservations of the
//! others can be met (paper, sections 5.5 and 6.2).
//!
//! Memory that can be reclaimed, such as the page cache, counts as available. Usage is accounted
//! per task, or per alloc with everything in it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::{Bytes, Dimension, InstanceId, Priority, Span, Time};

use super::{Borglet, Effect, Phase, Rule, StopCause};

/// Available memory below so many times the reserve is low: it is measured often, and tasks that wait
/// for memory then mean a shortage.
const LOW: u64 = 4;
/// The reserve is this part of a machine's memory, ...
const RESERVE_PART: u64 = 32;
/// ... and at most so much.
const RESERVE_MAX: Bytes = Bytes(1 << 30);
/// The memory of an evicted task counts as available for this long at most: if it is not freed by
/// then, others are evicted.
const FREEING_MAX: Span = Span::from_secs(5);

/// The state of a machine's memory, with the usage of each task and alloc.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// What tasks could still use, including what the kernel can reclaim.
    pub available: Bytes,
    /// The amount that should stay available: see [`memory_reserve`].
    pub reserve: Bytes,
    /// Whether tasks wait for memory for a large part of the time (the kernel's pressure stall
    /// information).
    pub pressed: bool,
    /// The usage of each task, and of each alloc with its tasks, without what the kernel can reclaim.
    pub used: BTreeMap<InstanceId, Bytes>,
}

/// What should stay available of an amount of memory: a 32nd, at most 1 GiB.
#[must_use]
pub fn memory_reserve(of: Bytes) -> Bytes {
    Bytes(of.0 / RESERVE_PART).min(RESERVE_MAX)
}

/// What is remembered of memory.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryState {
    /// The reservations below the limits.
    reservations: BTreeMap<InstanceId, Bytes>,
    /// The evicted tasks that may not have freed their memory yet, and since when.
    victims: BTreeMap<InstanceId, Time>,
}

/// A task or alloc that uses memory.
#[derive(Clone, Debug)]
struct Account {
    instance: InstanceId,
    is_alloc: bool,
    priority: Priority,
    limit: Bytes,
    reservation: Bytes,
    used: Bytes,
    standing: Standing,
}

/// What can be expected of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It keeps its memory unless it is evicted.
    Stays,
    /// An alloc without tasks: there is nobody to evict.
    Empty,
    /// It is being evicted: its memory will be available.
    Freeing,
    /// It was evicted long ago, and its processes do not end.
    Stuck,
}

impl MemoryReport {
    /// Whether little memory is available.
    #[must_use]
    pub fn is_low(&self) -> bool {
        self.available.0 < self.reserve.0.saturating_mul(LOW)
    }

    /// Whether tasks may have to be evicted: less than the reserve is available, or memory is low and
    /// tasks wait for it.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.available < self.reserve || self.pressed && self.is_low()
    }

    /// Selects the accounts to evict until the reserve and the reservations of the others can be met:
    /// first those above their limits, the largest excess first; then from the lowest priority up, and
    /// of equals the largest excess over the reservation, then the newest.
    fn select_victims<'a>(&self, accounts: &'a [Account]) -> Vec<(&'a Account, Rule)> {
        if !self.is_short() {
            return Vec::new();
        }
        let (mut available, mut needed) = (u128::from(self.available.0), self.reserve.0.into());
        for account in accounts {
            match account.standing {
                Standing::Freeing => available += u128::from(account.used.0),
                Standing::Stays | Standing::Empty => needed += u128::from(account.unused().0),
                Standing::Stuck => {}
            }
        }
        let candidates = || {
            let stays = |account: &&Account| account.standing == Standing::Stays;
            accounts.iter().filter(stays).filter(|account| account.used.0 > 0)
        };
        let mut above: Vec<_> = candidates().filter(|account| account.excess().0 > 0).collect();
        above.sort_by_key(|account| (Reverse(account.excess()), Reverse(account.instance)));
        let within = |account: &&Account| account.excess().0 == 0 && !account.priority.is_prod();
        let mut within: Vec<_> = candidates().filter(within).collect();
        within.sort_by_key(|account| {
            let over = account.used.0.saturating_sub(account.reservation.0);
            (account.priority, Reverse(over), Reverse(account.instance))
        });
        let above = above.into_iter().map(|account| (account, Rule::MemoryAboveLimit));
        let within = within.into_iter().map(|account| (account, Rule::MemoryPriority));
        let mut chosen = Vec::new();
        for (account, rule) in above.chain(within) {
            if available >= needed {
                break;
            }
            available += u128::from(account.used.0);
            needed -= u128::from(account.unused().0);
            chosen.push((account, rule));
        }
        chosen
    }

    /// The reason given to a task that is evicted.
    fn reason(&self, account: &Account, rule: Rule) -> String {
        let Account { is_alloc, priority, limit, reservation, used, .. } = account;
        let (available, reserve) = (self.available, self.reserve);
        let who = if *is_alloc { "its alloc" } else { "it" };
        let why = match rule {
            Rule::MemoryAboveLimit => format!("{who} used {used}, its limit is {limit}"),
            _ => format!(
                "{who} used {used} of its limit of {limit}, {reservation} were reserved, and nobody with a \
                 priority below its {priority} was left"
            ),
        };
        format!(
            "{why}; the machine had {available} of memory available, and {reserve} must stay available"
        )
    }
}

impl Account {
    /// What it uses beyond its limit.
    fn excess(&self) -> Bytes {
        Bytes(self.used.0.saturating_sub(self.limit.0))
    }

    /// What is reserved for it and not used.
    fn unused(&self) -> Bytes {
        Bytes(self.reservation.0.saturating_sub(self.used.0))
    }
}

impl Borglet {
    /// The reservations of memory below the limits, all of them.
    pub(super) fn reserve_memory(&mut self, reservations: Vec<(InstanceId, Bytes)>) {
        self.memory.reservations = reservations.into_iter().collect();
    }

    /// Evicts tasks while the machine is short of memory.
    pub(super) fn handle_memory(
        &mut self,
        now: Time,
        report: &MemoryReport,
        effects: &mut Vec<Effect>,
    ) {
        let tasks = &self.tasks;
        self.memory.victims.retain(|instance, _| {
            // One that has ended may still be in the report: it was measured before.
            tasks.get(instance).is_some_and(super::Local::is_here)
                || report.used.contains_key(instance)
        });
        self.shortages.look(Dimension::Ram, report.is_short(), now);
        let accounts = self.memory_accounts(now, report);
        let chosen: Vec<_> = report
            .select_victims(&accounts)
            .into_iter()
            .map(|(account, rule)| (account.instance, rule, report.reason(account, rule)))
            .collect();
        if !chosen.is_empty() {
            self.shortages.evicted(Dimension::Ram, now);
        }
        self.report_shortage();
        for (victim, rule, reason) in chosen {
            for (instance, local) in &mut self.tasks {
                let is_in = local.launch.desired.alloc == Some(victim) && local.is_here();
                if *instance == victim || is_in {
                    self.memory.victims.entry(*instance).or_insert(now);
                    let why = StopCause::OutOfResources(reason.clone());
                    local.end_by_rule(now, self.settings.kill_again, rule, why, effects);
                }
            }
        }
    }

    /// The tasks and allocs that use memory, and those whose end the report does not show yet. An
    /// alloc has its limit reserved, and the highest priority of itself and its tasks.
    fn memory_accounts(&self, now: Time, report: &MemoryReport) -> Vec<Account> {
        let used = |instance| report.used.get(&instance).copied().unwrap_or_default();
        let mut allocs: BTreeMap<InstanceId, Account> = BTreeMap::new();
        for (instance, limit, priority) in self.allocs.with_room() {
            let (limit, used) = (limit.ram, used(instance));
            let (reservation, standing) = (limit, Standing::Empty);
            let is_alloc = true;
            let account =
                Account { instance, is_alloc, priority, limit, reservation, used, standing };
            allocs.insert(instance, account);
        }
        let mut accounts = Vec::new();
        for (instance, local) in &self.tasks {
            let standing = match (self.memory.victims.get(instance), &local.phase) {
                (Some(since), _) if now.since(*since) < FREEING_MAX => Standing::Freeing,
                (Some(_), _) => Standing::Stuck,
                (None, Phase::Waiting | Phase::Ended(..)) => continue,
                (None, _) => Standing::Stays,
            };
            let desired = &local.launch.desired;
            if let Some(alloc) = desired.alloc.and_then(|alloc| allocs.get_mut(&alloc)) {
                alloc.priority = alloc.priority.max(desired.priority);
                alloc.standing = alloc.standing.with(standing);
                continue;
            }
            let limit = local.takes().ram;
            let reserved = self.memory.reservations.get(instance).copied();
            accounts.push(Account {
                instance: *instance,
                is_alloc: false,
                priority: desired.priority,
                limit,
                reservation: reserved.unwrap_or(limit).min(limit),
                used: used(*instance),
                standing,
            });
        }
        accounts.extend(allocs.into_values());
        accounts
    }
}

impl Standing {
    /// That of an alloc with another task.
    fn with(self, task: Self) -> Self {
        match (self, task) {
            (Self::Stays, _) | (_, Self::Stays) => Self::Stays,
            (Self::Freeing, _) | (_, Self::Freeing) => Self::Freeing,
            _ => task,
        }
    }
}
