//! A machine whose disk is nearly full: who used more of it than they asked for is ended, so that
//! everybody else, and the Borglet, can go on.
//!
//! While there is room nobody is held to a request of disk. What asked for room is one account: a
//! task, or an alloc with all that is in it.

use std::collections::BTreeMap;

use model::{Bytes, InstanceId, Priority, Resources, Span, Time};

use super::{Borglet, Effect, Local, Phase};

/// So many files are anybody's, however little disk they asked for.
const FILES_MIN: u64 = 100;
/// What has less than this part of what is to stay free is not worth an end, ...
const WORTH: u64 = 64;
/// ... nor what has less than so many bytes.
const WORTH_MIN: Bytes = Bytes(256 << 10);
/// For so long after somebody was ended nobody else is, unless there was room meanwhile: a file system
/// may take as long to count as free what was deleted.
const SETTLING: Span = Span::from_secs(6);
/// And for as long as what they had is being deleted, up to this.
const DELETING_MAX: Span = Span::from_secs(30);

/// So much of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskAmount {
    /// In bytes.
    pub bytes: Bytes,
    /// In files and directories.
    pub files: u64,
}

/// What an instance has of its machine's disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// As far as it was counted.
    pub amount: DiskAmount,
    /// Whether it has more, which could not be counted.
    pub more: bool,
}

/// A machine's disk, and how much of it each task and alloc uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskReport {
    /// Its size; 0 files where there is no bound on them.
    pub size: DiskAmount,
    /// What is free of it.
    pub free: DiskAmount,
    /// What is to stay free.
    pub reserve: DiskAmount,
    /// Whether what others left is being deleted.
    pub deleting: bool,
    /// What each task has, and what each alloc has beside its tasks.
    pub used: BTreeMap<InstanceId, DiskUse>,
}

/// What is remembered of a disk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watched {
    /// Since when it is short of something.
    short_since: Option<Time>,
    /// When somebody was ended for it last.
    ended: Option<Time>,
}

/// What a disk can be short of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Short {
    Bytes,
    Files,
}

/// Somebody who asked for room, with all that is theirs.
#[derive(Debug)]
struct Account {
    instance: InstanceId,
    is_alloc: bool,
    request: Bytes,
    priority: Priority,
    used: DiskUse,
}

impl DiskReport {
    /// What there is too little of, and how much is missing of what is to stay free.
    fn short(&self) -> impl Iterator<Item = (Short, u64)> {
        let bytes = self.reserve.bytes.0.saturating_sub(self.free.bytes.0);
        let files = self.reserve.files.saturating_sub(self.free.files);
        [(Short::Bytes, bytes), (Short::Files, files)].into_iter().filter(|(_, by)| *by > 0)
    }

    /// The least that somebody must have for their end to help.
    fn worth(&self, short: Short) -> u64 {
        match short {
            Short::Bytes => (self.reserve.bytes.0 / WORTH).max(WORTH_MIN.0),
            Short::Files => self.reserve.files / WORTH,
        }
    }

    /// How many files a request of bytes stands for: as large a part of all that the disk can have.
    fn files_for(&self, request: Bytes) -> u64 {
        let part = u128::from(request.0) * u128::from(self.size.files);
        let part = part.checked_div(u128::from(self.size.bytes.0)).unwrap_or_default();
        u64::try_from(part).unwrap_or(u64::MAX).max(FILES_MIN)
    }

    /// Whom to end so that enough is free again: of all who have more than they asked for the one with
    /// the largest excess first, and the least important one among equals.
    fn whom_to_end<'a>(&self, accounts: &'a [Account]) -> Vec<(&'a Account, Short)> {
        let mut chosen: Vec<(&Account, Short)> = Vec::new();
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

    /// How much more than its request an account has; none where it has no more, or nothing to speak of.
    fn excess(&self, account: &Account, short: Short) -> Option<u64> {
        let request = match short {
            Short::Bytes => account.request.0,
            Short::Files => self.files_for(account.request),
        };
        let used = account.has(short);
        let over = used > request || account.used.more;
        (over && used >= self.worth(short)).then(|| used.saturating_sub(request))
    }

    /// The reason that a task is given when it is ended.
    fn reason(&self, account: &Account, short: Short) -> String {
        let Account { is_alloc, request, used, .. } = account;
        let who = if *is_alloc { "its alloc" } else { "it" };
        let more = if used.more { " at least" } else { "" };
        match short {
            Short::Bytes => format!(
                "{who} used{more} {} of disk, its request is {request}, and the machine ran out of disk",
                used.amount.bytes
            ),
            Short::Files => format!(
                "{who} used{more} {} files, its request of {request} of disk stands for {}, and the \
                 machine ran out of room for files",
                used.amount.files,
                self.files_for(*request)
            ),
        }
    }
}

impl Account {
    fn has(&self, short: Short) -> u64 {
        match short {
            Short::Bytes => self.used.amount.bytes.0,
            Short::Files => self.used.amount.files,
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
    pub(super) fn see_disk(&mut self, now: Time, disk: &DiskReport, effects: &mut Vec<Effect>) {
        if disk.short().next().is_none() {
            self.disk.short_since = None;
            return;
        }
        let since = *self.disk.short_since.get_or_insert(now);
        // Let that be free first which is on its way.
        let ended = self.disk.ended.filter(|ended| *ended >= since);
        let wait = if disk.deleting { DELETING_MAX } else { SETTLING };
        match ended {
            Some(ended) if now.since(ended) < wait => return,
            None if disk.deleting && now.since(since) < wait => return,
            _ => {}
        }
        let accounts = self.accounts(disk);
        let chosen: Vec<_> = disk
            .whom_to_end(&accounts)
            .into_iter()
            .map(|(account, short)| (account.instance, disk.reason(account, short)))
            .collect();
        for (instance, reason) in chosen {
            self.disk.ended = Some(now);
            self.allocs.overflow(instance);
            for local in self.tasks.values_mut() {
                if local.launch.instance == instance || local.launch.desired.alloc == Some(instance)
                {
                    local.broke_rule(now, self.settings.kill_again, reason.clone(), effects);
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
                // What stops has it until it has ended, and may go on to take more.
                None => {
                    accounts.push(account(*id, false, local.takes(), desired.priority, used(*id)));
                }
            }
        }
        accounts.extend(allocs.into_values());
        accounts
    }
}
