//! The kinds of description: a job or an alloc set.

use std::collections::BTreeSet;

use model::UserName;

use crate::JobReference;

/// The kind of a description (trace v3, `collection_type`).
///
/// As in the paper (section 2.4), "job" stands for either and "task" for a task or an alloc unless
/// stated otherwise: an alloc set is submitted, placed, updated, evicted and killed as a job is.
/// Its tasks are allocs, which reserve resources and run no program themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A job: its tasks run a program.
    Job {
        /// The alloc set in whose allocs the tasks run. Without one, each task has its own
        /// resources on its machine.
        alloc_set: Option<JobReference>,
    },
    /// An alloc set: its allocs reserve resources on machines, in which tasks of jobs run.
    AllocSet {
        /// The users who may submit jobs into it, besides its owner.
        users: BTreeSet<UserName>,
    },
}

impl Default for Kind {
    /// A job whose tasks have their own resources.
    fn default() -> Self {
        Self::Job { alloc_set: None }
    }
}

impl Kind {
    /// Whether it is an alloc set.
    #[must_use]
    pub fn is_alloc_set(&self) -> bool {
        matches!(self, Self::AllocSet { .. })
    }

    /// The alloc set in whose allocs the job's tasks run, if any.
    #[must_use]
    pub fn alloc_set(&self) -> Option<&JobReference> {
        match self {
            Self::Job { alloc_set } => alloc_set.as_ref(),
            Self::AllocSet { .. } => None,
        }
    }
}
