//! What a request that was carried out answers.
//!
//! Sessions keep answers, so they are part of the replicated state.

use std::sync::Arc;

use model::{
    Certificate, CollectionId, GrantId, LockSessionId, LogIndex, MachineId, ReplicaId, Service,
    SessionId, Version,
};
use spec::FieldChange;

use crate::ExpiringQuota;
use crate::bounds::ANSWER_CHANGES_BYTES_MAX;

/// A request that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The session is open.
    Session(SessionId),
    /// The job is admitted.
    Submitted {
        /// Its id.
        collection: CollectionId,
        /// Whether it is new, unchanged or updated.
        submission: Submission,
        /// The version of its description; if it is updated, the version that the update leads to.
        version: Version,
        /// What the update changes.
        changes: Arc<[FieldChange]>,
        /// The quota of its owner that expires soon, without which it would not have been admitted.
        expiring_quota: Option<ExpiringQuota>,
    },
    /// The job has an open update, or its update was controlled.
    Updated {
        /// Its id.
        collection: CollectionId,
        /// The version that the update leads to.
        version: Version,
        /// Whether there was nothing to change, so that no update was opened.
        unchanged: bool,
        /// The fields that the opened update changes, in the description of the job.
        changes: Arc<[FieldChange]>,
    },
    /// The tasks are dead, or are being stopped where they run.
    Killed {
        /// The job that had the name.
        collection: CollectionId,
        /// Number of tasks that this request killed; tasks that were already dead do not count.
        tasks: u32,
    },
    /// Tasks were started, or are being restarted.
    Restarted {
        /// The job that had the name.
        collection: CollectionId,
        /// Number of tasks that had ended and start again.
        started: u32,
        /// The version that the update leads to that restarts the others; `None` if none was alive.
        version: Option<Version>,
    },
    /// The machine was added, or already existed.
    MachineAdded(MachineId),
    /// The quota is granted.
    Granted(GrantId),
    /// The machine is drained: tasks are being moved off it.
    Drained {
        /// Number of tasks that this request began to move.
        tasks: u32,
    },
    /// The certificate is recorded for the user.
    UserAdded(Certificate),
    /// The user's certificates are revoked.
    UserRevoked {
        /// Whether the cell knew the user: they had been added or revoked before, or have a job or
        /// a session. A mistyped name is seldom known.
        known: bool,
    },
    /// The token is issued; a token is a certificate.
    TokenIssued(Certificate),
    /// The machine has enrolled and has this certificate.
    Enrolled {
        /// The machine.
        machine: MachineId,
        /// Its certificate.
        certificate: Certificate,
    },
    /// The machine's new certificate.
    MachineRenewed(Certificate),
    /// The machine's certificates and tokens are revoked.
    MachineRevoked {
        /// Whether the cell knew the machine: it exists, was revoked before, or could have joined
        /// with a token. A mistyped name is seldom known.
        known: bool,
    },
    /// The lock session is open.
    LockSession(LockSessionId),
    /// The generation of a file that was written, or of a lock that was acquired.
    FileGeneration(LogIndex),
    /// The service is set.
    ServiceSet {
        /// The service of that name until then; `None` if there was none.
        before: Option<Arc<Service>>,
    },
    /// The secret has a new version.
    SecretSet {
        /// Its number.
        version: u32,
    },
    /// The package is set.
    PackageSet {
        /// Whether the version existed.
        existed: bool,
    },
    /// The replica is recorded as waiting to join.
    ReplicaAdded(ReplicaId),
    /// Done; there is nothing more to report.
    Done,
}

impl Reply {
    /// What a session keeps of this answer: of the changed fields only the first, at most
    /// [`ANSWER_CHANGES_BYTES_MAX`] bytes of them.
    pub(crate) fn kept(mut self) -> Self {
        if let Self::Submitted { changes, .. } | Self::Updated { changes, .. } = &mut self {
            let mut bytes = 0;
            let fits = |change: &&FieldChange| {
                bytes += change.field.len() + change.old.len() + change.new.len();
                bytes <= ANSWER_CHANGES_BYTES_MAX
            };
            let kept = changes.iter().take_while(fits).count();
            if kept < changes.len() {
                *changes = changes[..kept].into();
            }
        }
        self
    }
}

/// What submitting a job did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// The job is new.
    New,
    /// The job existed with the same description.
    Unchanged,
    /// The job existed and now has this description.
    Updated,
}
