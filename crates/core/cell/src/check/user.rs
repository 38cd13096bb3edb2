//! Invariants of the recorded users.

use super::{Violation, Violations};
use crate::Cell;
use crate::bounds::{CERTIFICATES_OF_A_USER_MAX, USERS_MAX};

impl Cell {
    pub(super) fn check_users(&self, found: &mut Violations) {
        found.at_most("users", self.users.len(), USERS_MAX);
        for (name, user) in &self.users {
            let most = CERTIFICATES_OF_A_USER_MAX;
            found.at_most("certificates of a user", user.certificates.len(), most);
            let revoked = user.revoked.as_ref().map(|act| act.at);
            for certificate in &user.certificates {
                let backwards = certificate.expires < certificate.issued;
                if backwards || revoked.is_some_and(|revoked| certificate.issued < revoked) {
                    let (user, serial) = (name.clone(), certificate.serial);
                    found.add(Violation::Certificate { user, serial });
                }
            }
            if user.added.is_none() && user.revoked.is_none() {
                found.add(Violation::NothingSaid(name.clone()));
            }
        }
    }
}
