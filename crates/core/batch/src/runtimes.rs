//! Estimates of runtimes from those of earlier tasks.

use std::collections::{BTreeMap, VecDeque};

use model::{JobName, Span, UserName};

use crate::Runtime;

/// The number of runtimes that are remembered of each name.
pub const RUNTIMES_KEPT: usize = 16;

/// How long tasks of jobs took, by user and name. A user's jobs of one name are taken to be alike.
#[derive(Clone, Debug, Default)]
pub struct Runtimes {
    of: BTreeMap<(UserName, JobName), VecDeque<Span>>,
    /// The maximum number of names; those that are first in order are forgotten when there are more.
    names_max: usize,
}

impl Runtimes {
    /// None yet, with room for this number of names.
    #[must_use]
    pub fn new(names_max: usize) -> Self {
        Self { of: BTreeMap::new(), names_max: names_max.max(1) }
    }

    /// A task has finished after that time.
    pub fn finished(&mut self, user: &UserName, name: &JobName, took: Span) {
        let key = (user.clone(), name.clone());
        if !self.of.contains_key(&key) && self.of.len() >= self.names_max {
            self.of.pop_first();
        }
        let kept = self.of.entry(key).or_default();
        if kept.len() >= RUNTIMES_KEPT {
            kept.pop_front();
        }
        kept.push_back(took);
    }

    /// What the next task of that name takes, if any has finished: the longest of the last ones. An estimate
    /// that is too short would delay others that wait.
    #[must_use]
    pub fn estimate(&self, user: &UserName, name: &JobName) -> Runtime {
        let kept = self.of.get(&(user.clone(), name.clone()));
        kept.and_then(|kept| kept.iter().max())
            .map_or(Runtime::Unknown, |span| Runtime::Earlier(*span))
    }
}
