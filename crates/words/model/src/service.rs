//! A service, as it is set: the cell keeps it as it is.

use std::collections::BTreeSet;

use crate::{JobName, LabelQuery, Labels, PortName, UserName};

/// A service: one name for the tasks of several jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its owner.
    pub owner: UserName,
    /// Its name. No live job of its owner has it.
    pub name: JobName,
    /// The port at which its tasks serve.
    pub port: PortName,
    /// The labels of the jobs behind it.
    pub labels: LabelQuery,
    /// The users beside its owner whose jobs may be behind it.
    pub users: BTreeSet<UserName>,
}

impl Service {
    /// Whether the jobs of a user may be behind it.
    #[must_use]
    pub fn admits(&self, user: &UserName) -> bool {
        self.owner == *user || self.users.contains(user)
    }

    /// Whether the labels of a job match. Its owner does not count.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.labels.holds(|key| labels.get(key).map(String::as_str))
    }
}
