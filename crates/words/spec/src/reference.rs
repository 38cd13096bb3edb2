//! A job, as the description of another names it.

use std::fmt;
use std::str::FromStr;

use model::{JobName, NameError, UserName};

/// Another job, as a description names it: `extract`, `ana/extract`. Where the user is left out,
/// it is the one who submits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobReference {
    /// Whose.
    pub user: Option<UserName>,
    /// Which.
    pub job: JobName,
}

impl FromStr for JobReference {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let (user, job) = match text.split_once('/') {
            Some((user, job)) => (Some(UserName::new(user)?), job),
            None => (None, text),
        };
        Ok(Self { user, job: JobName::new(job)? })
    }
}

impl fmt::Display for JobReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.user {
            Some(user) => write!(f, "{user}/{}", self.job),
            None => self.job.fmt(f),
        }
    }
}
