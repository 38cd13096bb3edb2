//! Ends tasks whose files take more than their disk request, however much space is free (paper,
//! section 5.5: a task that uses more disk space than it requested is killed). One count is enough if it
//! is far above. Where the disk is nearly full, [`super::disk`] ends tasks without waiting for a second count.
//!
//! A task or alloc that requests no disk may use what is free.

use std::collections::BTreeMap;

use model::{Bytes, InstanceId, Time};

use super::{Borglet, Effect, Rule, StopCause};

/// A request may be exceeded by this part of it, ...
const TOLERANCE_PART: u64 = 16;
/// ... and by this much: directories and small files take more than their content.
const TOLERANCE_MIN: Bytes = Bytes(1 << 20);

/// A count of more than this many times what is tolerated is no mistake of the count, for which files may
/// have been renamed: it ends the task at once.
const CERTAIN_TIMES: u64 = 2;

/// What the files of an instance took when they were last counted.
#[derive(Clone, Copy, Debug)]
struct Counted {
    bytes: Bytes,
    /// Whether its account exceeded its request then.
    above: bool,
}

/// The last count of each instance.
#[derive(Clone, Debug, Default)]
pub(super) struct DiskCounts(BTreeMap<InstanceId, Counted>);

impl Borglet {
    /// The files of a task, or those that the tasks of an alloc share, were counted. A count far above the
    /// request, or a second one above it in a row, ends the task, or all tasks in the alloc.
    pub(super) fn disk_counted(
        &mut self,
        now: Time,
        instance: InstanceId,
        bytes: Bytes,
        effects: &mut Vec<Effect>,
    ) {
        let alloc = self.tasks.get(&instance).and_then(|local| local.launch.desired.alloc);
        let account = alloc.unwrap_or(instance);
        let members: Vec<InstanceId> = self.members(account).collect();
        let exists = |instance: &InstanceId| members.contains(instance) || account == *instance;
        self.counts.0.retain(|known, _| self.tasks.contains_key(known) || self.allocs.has(*known));
        if !exists(&instance) {
            return;
        }
        let before = self.counts.0.get(&instance).is_some_and(|counted| counted.above);
        self.counts.0.insert(instance, Counted { bytes, above: false });
        let of = |instance: &InstanceId| self.counts.0.get(instance).map_or(0, |it| it.bytes.0);
        let others = members.iter().filter(|member| **member != account).map(of);
        let used = Bytes(others.fold(of(&account), u64::saturating_add));
        let Some(request) = self.disk_request(account).filter(|request| request.0 > 0) else {
            return;
        };
        let tolerated = request.0.saturating_add(request.0 / TOLERANCE_PART);
        let tolerated = tolerated.saturating_add(TOLERANCE_MIN.0);
        let above = used.0 > tolerated;
        let certain = used.0 > tolerated.saturating_mul(CERTAIN_TIMES);
        if let Some(counted) = self.counts.0.get_mut(&instance) {
            counted.above = above;
        }
        if !above || !(before || certain) {
            return;
        }
        let (is_alloc, mut ended) = (self.allocs.has(account), false);
        let who = if is_alloc { "its alloc" } else { "it" };
        let reason = format!("{who} used {used} of disk, its request is {request}");
        for member in members {
            if let Some(local) = self.tasks.get_mut(&member) {
                let why = StopCause::BrokeRule(reason.clone());
                let rule = Rule::DiskAboveRequest;
                ended |= local.end_by_rule(now, self.settings.kill_again, rule, why, effects);
            }
        }
        if is_alloc && ended {
            // What its tasks share would end the next ones, too.
            self.allocs.overflow(account);
            self.counts.0.remove(&account);
        }
    }

    /// The tasks of an account that have processes: one task, or those in an alloc.
    fn members(&self, account: InstanceId) -> impl Iterator<Item = InstanceId> {
        let here = self.tasks.iter().filter(|(_, local)| local.is_here());
        here.filter(move |(instance, local)| {
            local.launch.desired.alloc.map_or(**instance == account, |alloc| alloc == account)
        })
        .map(|(instance, _)| *instance)
    }

    fn disk_request(&self, account: InstanceId) -> Option<Bytes> {
        if let Some(local) = self.tasks.get(&account) {
            return Some(local.takes().disk);
        }
        let mut allocs = self.allocs.with_room();
        allocs.find(|(id, ..)| *id == account).map(|(_, limit, _)| limit.disk)
    }
}
