//! Secrets of users, sealed: the cell knows names and versions, and cannot read them.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::OrdMap;
use model::{Secret, SecretKeyId, SecretName, UserName};

/// Names of secrets by owner and name.
type OwnedSecret = (UserName, SecretName);

/// All secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Secrets {
    pub(crate) by_name: OrdMap<OwnedSecret, Arc<Secret>>,

    // Derived: recomputed when an image is loaded.
    /// What users have of them; users without any have no entry.
    pub(crate) of_users: OrdMap<UserName, HeldSecrets>,
    /// The sum of it.
    pub(crate) all: HeldSecrets,
}

/// An amount of secrets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldSecrets {
    /// Their number.
    pub(crate) number: u64,
    /// The bytes of all their versions, sealed.
    pub(crate) bytes: u64,
}

impl HeldSecrets {
    fn of(secret: &Secret) -> Self {
        Self { number: 1, bytes: secret.bytes() }
    }

    fn plus(self, more: Self) -> Self {
        Self {
            number: self.number.saturating_add(more.number),
            bytes: self.bytes.saturating_add(more.bytes),
        }
    }

    fn minus(self, less: Self) -> Self {
        Self {
            number: self.number.saturating_sub(less.number),
            bytes: self.bytes.saturating_sub(less.bytes),
        }
    }
}

impl Secrets {
    /// Inserts a secret, or replaces the one of its name.
    pub(crate) fn put(&mut self, secret: Arc<Secret>) {
        let key = (secret.owner.clone(), secret.name.clone());
        self.remove(&key);
        let more = HeldSecrets::of(&secret);
        self.all = self.all.plus(more);
        let held = self.held_by(&secret.owner).plus(more);
        self.of_users.insert(secret.owner.clone(), held);
        self.by_name.insert(key, secret);
    }

    /// Removes a secret.
    pub(crate) fn remove(&mut self, key: &OwnedSecret) -> Option<Arc<Secret>> {
        let secret = self.by_name.remove(key)?;
        let less = HeldSecrets::of(&secret);
        self.all = self.all.minus(less);
        let held = self.held_by(&key.0).minus(less);
        if held == HeldSecrets::default() {
            self.of_users.remove(&key.0);
        } else {
            self.of_users.insert(key.0.clone(), held);
        }
        Some(secret)
    }

    /// What a user has.
    pub(crate) fn held_by(&self, user: &UserName) -> HeldSecrets {
        self.of_users.get(user).copied().unwrap_or_default()
    }

    /// The same secrets with everything derived computed anew.
    pub(crate) fn rebuilt(&self) -> Self {
        let mut rebuilt = Self::default();
        self.by_name.values().for_each(|secret| rebuilt.put(Arc::clone(secret)));
        rebuilt
    }
}

impl crate::Cell {
    /// A secret.
    #[must_use]
    pub fn secret(&self, owner: &UserName, name: &SecretName) -> Option<&Arc<Secret>> {
        self.secrets.by_name.get(&(owner.clone(), name.clone()))
    }

    /// All secrets, by owner and name.
    pub fn secrets(&self) -> impl Iterator<Item = &Arc<Secret>> {
        self.secrets.by_name.values()
    }

    /// The secrets of a user, by name.
    pub fn secrets_of<'a>(&'a self, owner: &'a UserName) -> impl Iterator<Item = &'a Arc<Secret>> {
        let is_theirs = move |((of, _), _): &(&OwnedSecret, &Arc<Secret>)| of == owner;
        let all: Vec<_> = match SecretName::new("0") {
            // The first of all names.
            Ok(first) => {
                let from = (owner.clone(), first);
                self.secrets.by_name.range(from..).take_while(is_theirs).collect()
            }
            Err(_) => Vec::new(),
        };
        all.into_iter().map(|(_, secret)| secret)
    }

    /// The keys with which secrets are sealed.
    #[must_use]
    pub fn secret_keys(&self) -> BTreeSet<SecretKeyId> {
        let versions = self.secrets().flat_map(|secret| &secret.versions);
        versions.map(|version| version.sealed.key).collect()
    }
}
