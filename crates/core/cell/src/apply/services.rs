//! Services: see [`crate::Service`].

use std::sync::Arc;

use event::{EventKind, Subject};
use model::{Capability, JobName, LabelQuery, Service, UserName};

use super::capability::not_allowed;
use super::{Events, full};
use crate::apply::mutation::Change;
use crate::bounds::{
    SERVICE_LABELS_CHARACTERS_MAX, SERVICES_OF_A_USER_MAX, USERS_OF_A_SERVICE_MAX,
};
use crate::{
    Cell, Countable, Permission, Permitted, Rejection, Reply, ServicePermission, ServiceProblem,
    TextField,
};

/// Create a service, or replace the one of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetService(pub Arc<Service>);

impl Change for SetService {
    fn within_bounds(&self) -> Result<(), Rejection> {
        let Service { owner, name, labels, users, .. } = &*self.0;
        let invalid = |why| {
            let (owner, name) = (owner.clone(), name.clone());
            Err(Rejection::InvalidService { owner, name, why })
        };
        if labels.is_empty() {
            return invalid(ServiceProblem::NoLabels);
        }
        let text = labels.to_string();
        let characters = text.chars().count();
        if characters > SERVICE_LABELS_CHARACTERS_MAX || text.chars().any(char::is_control) {
            let most = SERVICE_LABELS_CHARACTERS_MAX as u64;
            return Err(Rejection::BadText { what: TextField::ServiceLabels, most });
        }
        if text.parse::<LabelQuery>().as_ref() != Ok(labels) {
            return invalid(ServiceProblem::NoQuery);
        }
        if users.contains(owner) {
            return invalid(ServiceProblem::OwnerAsUser);
        }
        if users.len() > USERS_OF_A_SERVICE_MAX {
            return invalid(ServiceProblem::Users { number: users.len() as u64 });
        }
        Ok(())
    }

    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.may_change_service(by, &self.0.owner, &self.0.name, ServicePermission::Set)
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        self.within_bounds()?;
        let Self(service) = self;
        let Service { owner, name, .. } = &**service;
        let before = cell.service(owner, name).cloned();
        if before.as_ref() == Some(service) {
            return Ok(Reply::ServiceSet { before });
        }
        if cell.job_named(owner, name).is_some_and(|job| job.is_alive()) {
            return Err(Rejection::NameOfJob { user: owner.clone(), name: name.clone() });
        }
        if before.is_none() {
            let of_user = cell.services_of(owner).count();
            let what = Countable::ServicesOf(owner.clone());
            full(what, of_user as u64, SERVICES_OF_A_USER_MAX as u64)?;
            cell.room_for_service(by, of_user as u64)?;
        }
        cell.services.put(Arc::clone(service));
        cell.change_of_service(by, owner, events);
        let (service, replaced) = (Arc::clone(service), before.is_some());
        events.add(Subject::Cell, EventKind::ServiceSet { service, replaced });
        Ok(Reply::ServiceSet { before })
    }
}

/// Delete a service. The jobs behind it are unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteService {
    /// Its owner.
    pub owner: UserName,
    /// Its name.
    pub name: JobName,
}

impl Change for DeleteService {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.may_change_service(by, &self.owner, &self.name, ServicePermission::Delete)
    }

    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let (owner, name) = (self.owner.clone(), self.name.clone());
        if cell.services.remove(&(owner.clone(), name.clone())).is_none() {
            return Err(Rejection::NoSuchService { user: owner, name });
        }
        cell.change_of_service(by, &owner, events);
        events.add(Subject::Cell, EventKind::ServiceDeleted { owner, name });
        Ok(Reply::Done)
    }
}

impl Cell {
    /// A user may change a service who may change its owner's jobs.
    fn may_change_service(
        &self,
        by: &UserName,
        owner: &UserName,
        name: &JobName,
        what: ServicePermission,
    ) -> Result<(), Rejection> {
        let capability = Capability::AdministerJobs;
        if by == owner || self.may(by, capability) {
            return Ok(());
        }
        let owner = owner.clone();
        let what = Permission::OfService { owner: owner.clone(), name: name.clone(), what };
        Err(not_allowed(by, what, Permitted::OwnerOrHolders { owner, capability }))
    }

    /// Emits the event that somebody used a capability for a service of another user.
    fn change_of_service(&self, by: &UserName, owner: &UserName, events: &mut Events) {
        if by != owner {
            self.used(by, Capability::AdministerJobs, Subject::Cell, events);
        }
    }
}
