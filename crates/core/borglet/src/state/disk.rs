//! Handles a nearly full disk: ends tasks that exceed their disk request, so that all others, and
//! the Borglet, can continue.
//!
//! While there is enough free space, requests are not enforced. Usage is accounted per task, or per
//! alloc with everything in it.

use std::collections::BTreeMap;

use model::{Bytes, InstanceId, Priority, Resources, Span, Time};

use super::{Borglet, Effect, Local, Phase, Rule, StopCause};

/// Every account may have this many files, however small its disk request.
const FILES_MIN: u64 = 100;
/// An excess below this fraction of the reserve is not worth ending a task for, ...
const WORTH: u64 = 64;
/// ... nor is an excess below this many bytes.
const WORTH_MIN: Bytes = Bytes(256 << 10);
/// After a task was ended, no other is ended for this long, unless there was enough space in
/// between: a file system may take that long to account for deleted files.
const SETTLING: Span = Span::from_secs(6);
/// The same while the ended tasks' files are being deleted, up to this maximum.
const DELETING_MAX: Span = Span::from_secs(30);

/// An amount of disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskAmount {
    /// Bytes.
    pub bytes: Bytes,
    /// Files and directories.
    pub files: u64,
}

/// The disk usage of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// The amount counted.
    pub amount: DiskAmount,
    /// Whether there is more that could not be counted.
    pub more: bool,
}

/// The state of a machine's disk, with the usage of each task and alloc.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskReport {
    /// The size; 0 files if the file system does not limit them.
    pub size: DiskAmount,
    /// The free amount.
    pub free: DiskAmount,
    /// The amount that should stay free.
    pub reserve: DiskAmount,
    /// Whether files of ended instances are being deleted.
    pub deleting: bool,
    /// The usage of each task, and of each alloc without its tasks.
    pub used: BTreeMap<InstanceId, DiskUse>,
}

/// What is remembered of the disk.
#[derive(Clone, Debug, Default)]
pub(super) struct DiskState {
    /// Since when there is a shortage.
    short_since: Option<Time>,
    /// When a task was last ended for it.
    ended: Option<Time>,
    /// What each account had in the last report of a shortage.
    before: BTreeMap<InstanceId, DiskAmount>,
}

/// What the disk is short of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shortage {
    Bytes,
    Files,
}

/// A task or alloc with its request and total usage.
#[derive(Debug)]
struct Account {
    instance: InstanceId,
    is_alloc: bool,
    request: Bytes,
    priority: Priority,
    used: DiskUse,
}

impl DiskReport {
    /// The shortages, each with the amount missing to the reserve.
    fn short(&self) -> impl Iterator<Item = (Shortage, u64)> {
        let bytes = self.reserve.bytes.0.saturating_sub(self.free.bytes.0);
        let files = self.reserve.files.saturating_sub(self.free.files);
        [(Shortage::Bytes, bytes), (Shortage::Files, files)].into_iter().filter(|(_, by)| *by > 0)
    }

    /// The minimum excess for which a task is ended.
    fn worth(&self, short: Shortage) -> u64 {
        match short {
            Shortage::Bytes => (self.reserve.bytes.0 / WORTH).max(WORTH_MIN.0),
            Shortage::Files => self.reserve.files / WORTH,
        }
    }

    /// The number of files that a request of bytes stands for: the same fraction of the disk's
    /// maximum.
    fn files_for(&self, request: Bytes) -> u64 {
        let part = u128::from(request.0) * u128::from(self.size.files);
        let part = part.checked_div(u128::from(self.size.bytes.0)).unwrap_or_default();
        u64::try_from(part).unwrap_or(u64::MAX).max(FILES_MIN)
    }

    /// Selects accounts to end until enough is free: the largest excess first, and the lowest
    /// priority among equals.
    fn select_victims<'a>(&self, accounts: &'a [Account]) -> Vec<(&'a Account, Shortage)> {
        let mut chosen: Vec<(&Account, Shortage)> = Vec::new();
        for (short, missing) in self.short() {
            let mut over: Vec<_> = accounts
                .iter()
                .filter_map(|account| Some((self.excess(account, short)?, account)))
                .collect();
            over.sort_by_key(|(excess, account)| {
                (u64::MAX - excess, account.priority, account.instance)
            });
            let mut freed: u64 = chosen.iter().map(|(account, _)| account.has(short)).sum();
            for (_, account) in over {
                let known = chosen.iter().any(|(other, _)| other.instance == account.instance);
                if freed >= missing {
                    break;
                }
                if !known {
                    freed = freed.saturating_add(account.has(short));
                    chosen.push((account, short));
                }
            }
        }
        chosen
    }

    /// The usage of an account beyond its request; `None` if there is none or it is negligible.
    fn excess(&self, account: &Account, short: Shortage) -> Option<u64> {
        let request = match short {
            Shortage::Bytes => account.request.0,
            Shortage::Files => self.files_for(account.request),
        };
        let used = account.has(short);
        let over = used > request || account.used.more;
        (over && used >= self.worth(short)).then(|| used.saturating_sub(request))
    }

    /// Whether an account has taken more of what is short since it had `before`.
    fn has_grown(&self, account: &Account, before: DiskAmount) -> bool {
        self.short().any(|(short, _)| {
            let before = match short {
                Shortage::Bytes => before.bytes.0,
                Shortage::Files => before.files,
            };
            account.has(short) >= before.saturating_add(self.worth(short).max(1))
        })
    }

    /// The reason given to a task that is ended.
    fn reason(&self, account: &Account, short: Shortage) -> String {
        let Account { is_alloc, request, used, .. } = account;
        let who = if *is_alloc { "its alloc" } else { "it" };
        let more = if used.more { " at least" } else { "" };
        match short {
            Shortage::Bytes => format!(
                "{who} used{more} {} of disk, its request is {request}, and the machine ran out of disk",
                used.amount.bytes
            ),
            Shortage::Files => format!(
                "{who} used{more} {} files, its request of {request} of disk stands for {}, and the \
                 machine ran out of room for files",
                used.amount.files,
                self.files_for(*request)
            ),
        }
    }
}

impl Account {
    fn has(&self, short: Shortage) -> u64 {
        match short {
            Shortage::Bytes => self.used.amount.bytes.0,
            Shortage::Files => self.used.amount.files,
        }
    }
}

impl DiskUse {
    fn plus(self, other: Self) -> Self {
        let bytes = Bytes(self.amount.bytes.0.saturating_add(other.amount.bytes.0));
        let files = self.amount.files.saturating_add(other.amount.files);
        Self { amount: DiskAmount { bytes, files }, more: self.more || other.more }
    }
}

impl Borglet {
    /// Ends tasks that exceed their request while the disk is nearly full.
    pub(super) fn handle_disk(&mut self, now: Time, disk: &DiskReport, effects: &mut Vec<Effect>) {
        if disk.short().next().is_none() {
            self.disk.short_since = None;
            self.disk.before.clear();
            return;
        }
        let since = *self.disk.short_since.get_or_insert(now);
        let mut accounts = self.accounts(disk);
        let used = accounts.iter().map(|account| (account.instance, account.used.amount));
        let before = std::mem::replace(&mut self.disk.before, used.collect());
        // First wait until the space being freed is free. A task that takes it meanwhile is ended at once.
        let ended = self.disk.ended.filter(|ended| *ended >= since);
        let wait = if disk.deleting { DELETING_MAX } else { SETTLING };
        let settling = match ended {
            Some(ended) => now.since(ended) < wait,
            None => disk.deleting && now.since(since) < wait,
        };
        if settling {
            accounts.retain(|account| {
                let before = before.get(&account.instance);
                before.is_some_and(|before| disk.has_grown(account, *before))
            });
        }
        let chosen: Vec<_> = disk
            .select_victims(&accounts)
            .into_iter()
            .map(|(account, short)| (account.instance, disk.reason(account, short)))
            .collect();
        // Nobody exceeds a request: then what ended tasks left behind.
        if chosen.is_empty() && !settling && self.savers.give_up_oldest() {
            self.disk.ended = Some(now);
        }
        for (instance, reason) in chosen {
            self.disk.ended = Some(now);
            self.allocs.overflow(instance);
            for local in self.tasks.values_mut() {
                if local.launch.instance == instance || local.launch.desired.alloc == Some(instance)
                {
                    let why = StopCause::BrokeRule(reason.clone());
                    local.end_by_rule(now, self.settings.kill_again, Rule::DiskFull, why, effects);
                }
            }
        }
    }

    /// The tasks and allocs that use the disk. Tasks in an alloc count for the alloc.
    fn accounts(&self, disk: &DiskReport) -> Vec<Account> {
        let used = |instance| disk.used.get(&instance).copied().unwrap_or_default();
        let account = |instance, is_alloc, limit: Resources, priority, used| Account {
            instance,
            is_alloc,
            request: limit.disk,
            priority,
            used,
        };
        let mut allocs: BTreeMap<InstanceId, Account> = self
            .allocs
            .with_room()
            .map(|(id, limit, priority)| (id, account(id, true, limit, priority, used(id))))
            .collect();
        let mut accounts = Vec::new();
        let is_here = |local: &Local| !matches!(local.phase, Phase::Waiting | Phase::Ended(..));
        for (id, local) in self.tasks.iter().filter(|(_, local)| is_here(local)) {
            let desired = &local.launch.desired;
            match desired.alloc.and_then(|alloc| allocs.get_mut(&alloc)) {
                Some(alloc) => alloc.used = alloc.used.plus(used(*id)),
                // A stopping task has its space until it has ended, and may use even more.
                None => {
                    accounts.push(account(*id, false, local.takes(), desired.priority, used(*id)));
                }
            }
        }
        accounts.extend(allocs.into_values());
        accounts
    }
}
