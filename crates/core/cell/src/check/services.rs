//! Services: no live job has the name of one, and each is within its bounds.

use super::{Violation, Violations};
use crate::Cell;
use crate::bounds::{
    SERVICE_LABELS_CHARACTERS_MAX, SERVICES_MAX, SERVICES_OF_A_USER_MAX, USERS_OF_A_SERVICE_MAX,
};
use model::Service;

impl Cell {
    pub(super) fn check_services(&self, found: &mut Violations) {
        for (key, service) in &self.services.by_name {
            let Service { owner, name, labels, users, .. } = &**service;
            let mut wrong = |why| {
                let (owner, name) = (owner.clone(), name.clone());
                found.add(Violation::Service { owner, name, why });
            };
            if (owner, name) != (&key.0, &key.1) {
                wrong("is under another name");
            }
            if self.job_named(owner, name).is_some_and(|job| job.is_alive()) {
                wrong("has the name of a live job");
            }
            if labels.is_empty() {
                wrong("has no labels");
            }
            if users.contains(owner) {
                wrong("admits its owner as another user");
            }
            let characters = labels.to_string().chars().count();
            found.at_most("characters of labels", characters, SERVICE_LABELS_CHARACTERS_MAX);
            found.at_most("users of a service", users.len(), USERS_OF_A_SERVICE_MAX);
        }
        for user in self.services.open_to.keys() {
            let of_user = self.services_of(user).count();
            found.at_most("services of a user", of_user, SERVICES_OF_A_USER_MAX);
        }
        if self.services.rebuilt() != self.services {
            found.add(Violation::ServiceIndex);
        }
        let most = usize::try_from(SERVICES_MAX.max()).unwrap_or(usize::MAX);
        found.at_most("services", self.services.by_name.len(), most);
    }
}
