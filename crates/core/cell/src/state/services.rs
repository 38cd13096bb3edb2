//! Services: a name and a port, and behind it the live jobs whose labels match.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use model::{JobName, Service, UserName};

/// Names of services by owner and name.
type Key = (UserName, JobName);

/// All services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Services {
    pub(crate) by_name: OrdMap<Key, Arc<Service>>,

    // Derived: recomputed when an image is loaded.
    /// The services behind which the jobs of a user may be, their own included; users without any have
    /// no entry.
    pub(crate) open_to: OrdMap<UserName, OrdSet<Key>>,
}

impl Services {
    /// Inserts a service, or replaces the one of its name.
    pub(crate) fn put(&mut self, service: Arc<Service>) {
        let key = (service.owner.clone(), service.name.clone());
        self.remove(&key);
        for user in service.users.iter().chain([&service.owner]) {
            let mut services = self.open_to.get(user).cloned().unwrap_or_default();
            services.insert(key.clone());
            self.open_to.insert(user.clone(), services);
        }
        self.by_name.insert(key, service);
    }

    /// Removes a service.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<Service>> {
        let service = self.by_name.remove(key)?;
        for user in service.users.iter().chain([&service.owner]) {
            let mut services = self.open_to.remove(user).unwrap_or_default();
            services.remove(key);
            if !services.is_empty() {
                self.open_to.insert(user.clone(), services);
            }
        }
        Some(service)
    }

    /// The same services with everything derived computed anew.
    pub(crate) fn rebuilt(&self) -> Self {
        let mut rebuilt = Self::default();
        self.by_name.values().for_each(|service| rebuilt.put(Arc::clone(service)));
        rebuilt
    }
}

impl crate::Cell {
    /// A service.
    #[must_use]
    pub fn service(&self, owner: &UserName, name: &JobName) -> Option<&Arc<Service>> {
        self.services.by_name.get(&(owner.clone(), name.clone()))
    }

    /// All services, by owner and name.
    pub fn services(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.services.by_name.values()
    }

    /// The services of a user, by name.
    pub fn services_of<'a>(
        &'a self,
        owner: &'a UserName,
    ) -> impl Iterator<Item = &'a Arc<Service>> {
        self.services_open_to(owner).filter(move |service| service.owner == *owner)
    }

    /// The services behind which a user's jobs may be: their own, and those that name the user.
    pub fn services_open_to(&self, user: &UserName) -> impl Iterator<Item = &Arc<Service>> {
        let keys = self.services.open_to.get(user).into_iter().flatten();
        keys.filter_map(|key| self.services.by_name.get(key))
    }
}
