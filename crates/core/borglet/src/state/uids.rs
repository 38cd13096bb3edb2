//! The user ids of tasks: each instance has its own.

use model::{End, FinalUsage, InstanceId};

use super::saver::Savers;
use super::{Borglet, Effect, Phase};
use crate::limit::Limit;

impl Borglet {
    /// A user id that is used neither by an instance here nor, as far as is known, by a foreign
    /// process.
    pub(super) fn free_uid(&self) -> Option<u32> {
        self.free_uid_beside(&self.savers)
    }

    pub(super) fn free_uid_beside(&self, savers: &Savers) -> Option<u32> {
        let mut taken: Vec<u32> = self.tasks.values().map(|local| local.launch.uid).collect();
        taken.extend(savers.uids());
        taken.sort_unstable();
        let free =
            |uid: &u32| taken.binary_search(uid).is_err() && !self.foreign_uids.contains(uid);
        self.settings.all_uids().find(free)
    }

    /// An instance was not started: it gets another user id if it is still desired.
    pub(super) fn uid_taken(&mut self, instance: InstanceId, effects: &mut Vec<Effect>) {
        let Some(local) = self.tasks.get(&instance) else { return };
        let is_wanted = matches!(local.phase, Phase::Starting);
        self.foreign_uids.insert(local.launch.uid);
        let free = self.free_uid();
        match (self.tasks.get_mut(&instance), free) {
            (Some(local), Some(uid)) if is_wanted => {
                local.launch.uid = uid;
                local.limit = Limit::new(local.target());
                effects.push(Effect::Start(Box::new(local.launch.clone())));
            }
            (_, Some(_)) => self.ended(instance, End::Stopped, FinalUsage::UNMEASURED),
            (_, None) => {
                // By the next attempt some may be free again.
                self.foreign_uids.clear();
                let all = self.settings.all_uids();
                let reason = format!(
                    "no user id is free on its machine: all from {} to {} are taken",
                    all.start(),
                    all.end()
                );
                self.ended(instance, End::Lost { reason }, FinalUsage::UNMEASURED);
            }
        }
    }
}
