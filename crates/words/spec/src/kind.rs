//! What a description is of: a job, or an alloc set.

use std::collections::BTreeSet;

use model::UserName;

use crate::JobReference;

/// What a description is of (trace v3, `collection_type`).
///
/// As in the paper, "job" stands for either and "task" for a task or an alloc, wherever nothing else is
/// said (section 2.4): an alloc set is submitted, placed, updated, evicted and killed as a job is, and
/// its tasks are allocs, which hold room and run nothing themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A job: its tasks run a program.
    Job {
        /// The alloc set in whose allocs they run. Without one each has room of its own on its
        /// machine.
        alloc_set: Option<JobReference>,
    },
    /// An alloc set: its allocs are reserved room on machines, in which tasks of jobs run.
    AllocSet {
        /// Who may submit jobs into it, beside its owner.
        users: BTreeSet<UserName>,
    },
}

impl Default for Kind {
    /// A job whose tasks have room of their own.
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

    /// The alloc set in which the tasks of a job run, where they do.
    #[must_use]
    pub fn alloc_set(&self) -> Option<&JobReference> {
        match self {
            Self::Job { alloc_set } => alloc_set.as_ref(),
            Self::AllocSet { .. } => None,
        }
    }
}
