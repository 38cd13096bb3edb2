//! Sessions: they make a repeated request return the first one's answer (design, section 3).

use std::collections::BTreeMap;

use model::{LogIndex, UserName};

use crate::bounds::ANSWERS_MAX;
use crate::{Rejection, Reply};

/// A client's session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its user.
    pub user: UserName,
    /// The index at which it was last used.
    pub used: LogIndex,
    /// The newest answers, by request number.
    pub answers: BTreeMap<u64, Result<Reply, Rejection>>,
    /// Answers to requests up to this number have been discarded.
    pub forgotten: u64,
}

impl Session {
    pub(crate) fn new(user: UserName, used: LogIndex) -> Self {
        Self { user, used, answers: BTreeMap::new(), forgotten: 0 }
    }

    pub(crate) fn remember(&mut self, sequence: u64, answer: Result<Reply, Rejection>) {
        self.answers.insert(sequence, answer.map(Reply::kept));
        while self.answers.len() > ANSWERS_MAX {
            if let Some((dropped, _)) = self.answers.pop_first() {
                self.forgotten = self.forgotten.max(dropped);
            }
        }
    }
}
