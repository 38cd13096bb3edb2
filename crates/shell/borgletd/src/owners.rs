//! Whose tasks they are: the slots of this machine are shared by users, not by tasks.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use borglet::Launch;
use model::UserName;

/// The users of the user ids and addresses that tasks have, or had last. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owners(Arc<OwnerTable>);

/// Bounded by the ids and addresses of this machine.
#[derive(Debug, Default)]
struct OwnerTable {
    /// Makes numbers of names.
    numbers: RandomState,
    owners: Mutex<HashMap<OwnerKey, u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum OwnerKey {
    Uid(u32),
    Address(Ipv4Addr),
}

impl Owners {
    /// A task is started, or was found.
    pub(crate) fn add(&self, launch: &Launch) {
        let user = self.number(&launch.desired.user);
        let mut owners = self.owners();
        owners.insert(OwnerKey::Uid(launch.uid), user);
        owners.extend(launch.desired.address.map(|address| (OwnerKey::Address(address), user)));
    }

    /// The number of the user whose task has a user id.
    pub(crate) fn of_uid(&self, uid: u32) -> Option<u64> {
        self.owners().get(&OwnerKey::Uid(uid)).copied()
    }

    /// The number of the user whose task has an address.
    pub(crate) fn of_address(&self, address: Ipv4Addr) -> Option<u64> {
        self.owners().get(&OwnerKey::Address(address)).copied()
    }

    fn number(&self, user: &UserName) -> u64 {
        self.0.numbers.hash_one(user)
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<OwnerKey, u64>> {
        self.0.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
