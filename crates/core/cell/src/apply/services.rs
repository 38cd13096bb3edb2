//! Services: see [`crate::Service`].

use std::sync::Arc;

use model::{Capability, JobName, LabelQuery, UserName};

use super::capability::not_allowed;
use super::{Events, full};
use crate::apply::mutation::Change;
use crate::bounds::{
    SERVICE_LABELS_CHARACTERS_MAX, SERVICES_OF_A_USER_MAX, USERS_OF_A_SERVICE_MAX,
};
use crate::{Cell, EventKind, Rejection, Reply, Service, Subject};

/// Create a service, or replace the one of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetService(pub Arc<Service>);

impl Change for SetService {
    fn within_bounds(&self) -> Result<(), Rejection> {
        let impossible = |why| Err(Rejection::Impossible(why));
        let Service { owner, name, labels, users, .. } = &*self.0;
        if labels.is_empty() {
            return impossible(format!(
                "service {owner}/{name} has no labels: all jobs would be behind it"
            ));
        }
        let text = labels.to_string();
        let characters = text.chars().count();
        if characters > SERVICE_LABELS_CHARACTERS_MAX || text.chars().any(char::is_control) {
            let most = SERVICE_LABELS_CHARACTERS_MAX as u64;
            return Err(Rejection::BadText { what: "the labels of a service".to_owned(), most });
        }
        if text.parse::<LabelQuery>().as_ref() != Ok(labels) {
            return impossible(format!("the labels of service {owner}/{name} are no label query"));
        }
        if users.contains(owner) {
            return impossible(format!(
                "the jobs of {owner} may be behind service {owner}/{name} already: name only others"
            ));
        }
        let (has, most) = (users.len(), USERS_OF_A_SERVICE_MAX);
        if has > most {
            return impossible(format!(
                "service {owner}/{name} has {has} other users: the maximum is {most}"
            ));
        }
        Ok(())
    }

    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        cell.may_change_service(by, &self.0.owner, &self.0.name, "set")
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
            full(&format!("services of {owner}"), of_user as u64, SERVICES_OF_A_USER_MAX as u64)?;
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
        cell.may_change_service(by, &self.owner, &self.name, "delete")
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
        what: &str,
    ) -> Result<(), Rejection> {
        if by == owner || self.may(by, Capability::AdministerJobs) {
            return Ok(());
        }
        let what = format!("{what} service {owner}/{name}");
        Err(not_allowed(by, what, &format!("{owner}, "), Capability::AdministerJobs))
    }

    /// Emits the event that somebody used a capability for a service of another user.
    fn change_of_service(&self, by: &UserName, owner: &UserName, events: &mut Events) {
        if by != owner {
            self.used(by, Capability::AdministerJobs, Subject::Cell, events);
        }
    }
}
