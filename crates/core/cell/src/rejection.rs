//! The answer to a request: what was done, or why it was rejected.

use std::sync::Arc;

use model::{
    Beyond, CollectionId, Dimension, FilePath, GrantId, JobName, LockMode, LockSessionId, LogIndex,
    MachineId, MachineName, ReplicaId, Sequencer, Serial, SessionId, Span, TaskId, UserName,
    Version,
};
use spec::FieldChange;
use thiserror::Error;

use crate::bounds::{
    CERTIFICATE_VALIDITY_MAX, CERTIFICATE_VALIDITY_MIN, TOKEN_VALIDITY_MAX, TOKEN_VALIDITY_MIN,
};
use crate::{Certificate, ExpiringQuota, Oversold, Service, Shortfall};

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
    /// The replica is recorded as waiting to join.
    ReplicaAdded(ReplicaId),
    /// Done; there is nothing more to report.
    Done,
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

/// A request that was rejected. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    /// The cell is not bootstrapped yet.
    #[error("the cell is not bootstrapped yet")]
    NotBootstrapped,
    /// The session was never opened, or was closed to make room for others.
    #[error(
        "session {0} is not open (it expired or never existed): open a new one and check what was done before you repeat a request"
    )]
    NoSuchSession(SessionId),
    /// The session belongs to another user.
    #[error("session {session} belongs to {owner}, not to {by}")]
    ForeignSession {
        /// The session.
        session: SessionId,
        /// Its owner.
        owner: UserName,
        /// Who used it.
        by: UserName,
    },
    /// The request is so old that its answer has been discarded.
    #[error(
        "request {sequence} is older than the answers kept for its session: look at the state to see whether it was done"
    )]
    AnswerForgotten {
        /// The request's number.
        sequence: u64,
    },
    /// The job description is invalid.
    #[error("the job description is not valid: {0}")]
    Invalid(String),
    /// Fields differ that cannot change while the job is alive.
    #[error(
        "{owner}/{name} is alive and differs in {}, which cannot change while it is: kill it first (bourg kill {owner}/{name})",
        .fields.join(", ")
    )]
    Fixed {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: JobName,
        /// The fields that differ.
        fields: Vec<String>,
    },
    /// The job has ended.
    #[error("{owner}/{name} has ended: run it again (bourg run FILE)")]
    JobEnded {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: JobName,
    },
    /// Somebody else has changed the job since the user looked at it.
    #[error(
        "{owner}/{name} has changed meanwhile, from version {seen} to {now}: {what}; look at it (bourg update status {owner}/{name}) and decide again"
    )]
    ChangedMeanwhile {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: JobName,
        /// The last version that the user has seen.
        seen: Version,
        /// The last version now.
        now: Version,
        /// Who did what.
        what: String,
    },
    /// The job is being killed: it ends when its tasks have ended where they run.
    #[error(
        "{owner}/{name} is being killed, and its tasks are still stopping: wait for its end (bourg status {owner}/{name}), and run it again (bourg run FILE)"
    )]
    BeingKilled {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: JobName,
    },
    /// The state of the object does not allow it; the text says why.
    #[error("{0}")]
    WrongState(String),
    /// The job that `allocSet` names is not an alloc set.
    #[error("allocSet names {user}/{name}, which is not an alloc set")]
    NotAnAllocSet {
        /// Owner of the named job.
        user: UserName,
        /// Name of that job.
        name: JobName,
    },
    /// The new description would make an alloc smaller than what runs in it.
    #[error(
        "alloc {alloc} would have {} of {dimension}, but the tasks in it use {}: nothing was changed",
        .dimension.show(*asked), .dimension.show(*used)
    )]
    AllocTooSmall {
        /// The alloc.
        alloc: TaskId,
        /// The dimension.
        dimension: Dimension,
        /// The size it would have.
        asked: u64,
        /// The amount in use.
        used: u64,
    },
    /// A job that the description refers to does not exist.
    #[error("{field} names {user}/{name}, but {}", if *.dead { "that job has ended" } else { "there is no such job" })]
    NoSuchReference {
        /// The field that names it.
        field: String,
        /// Owner of the named job.
        user: UserName,
        /// Name of that job.
        name: JobName,
        /// Whether the job exists but is dead.
        dead: bool,
    },
    /// The job would wait for one that ended without finishing.
    #[error("after names {user}/{name}, which has ended without finishing: run that again first")]
    PredecessorEnded {
        /// Owner of the job to wait for.
        user: UserName,
        /// Name of that job.
        name: JobName,
    },
    /// There is no such machine.
    #[error("there is no machine {0}")]
    NoSuchMachine(MachineName),
    /// The machine still has tasks.
    #[error(
        "machine {machine} still has tasks ({tasks}): drain it first (bourg machine drain {machine}), and wait until they have left"
    )]
    MachineInUse {
        /// The machine.
        machine: MachineName,
        /// How many tasks are placed there.
        tasks: u64,
    },
    /// A text is too long, empty, or contains control characters.
    #[error("{what} must be 1 to {most} characters, none of them a control character")]
    BadText {
        /// Which text.
        what: String,
        /// The maximum length in characters.
        most: u64,
    },
    /// There is no such job.
    #[error("there is no job {user}/{name}")]
    NoSuchJob {
        /// The owner in the request.
        user: UserName,
        /// The name in the request.
        name: JobName,
    },
    /// There is no job with that id.
    #[error("there is no job {0}")]
    NoSuchCollection(CollectionId),
    /// The requested tasks are not in the job.
    #[error("the job has tasks 0 to {last} only")]
    NoSuchTask {
        /// The last task index of the job.
        last: u32,
    },
    /// The user is not allowed to do that.
    #[error("{by} may not {what}: {who} may")]
    NotAllowed {
        /// The user.
        by: UserName,
        /// The action.
        what: String,
        /// Who is allowed.
        who: String,
    },
    /// A bound of the cell is reached.
    #[error("the cell has {has} {what}, and the maximum is {most}")]
    Full {
        /// What the cell has too many of.
        what: String,
        /// How many it has.
        has: u64,
        /// The maximum.
        most: u64,
    },
    /// A bound that users share leaves no more to the user.
    #[error("no more {what}: {why}; {next}")]
    Shared {
        /// What is shared.
        what: String,
        /// How much there is, and who has it.
        why: Beyond,
        /// What to do next.
        next: String,
    },
    /// Another machine has that address.
    #[error("machine {0} already has that address")]
    AddressTaken(MachineName),
    /// Users cannot revoke their own certificates: they could not undo it.
    #[error("{0} cannot revoke {0}: another administrator can")]
    RevokesOneself(UserName),
    /// No administrator would be left.
    #[error(
        "{0} is the last administrator of the cell whose certificates are accepted: nobody would be left to administer it"
    )]
    LastAdministrator(UserName),
    /// The validity of a certificate is too short or too long.
    #[error(
        "a certificate can be valid for {CERTIFICATE_VALIDITY_MIN} to {CERTIFICATE_VALIDITY_MAX}, not for {0}"
    )]
    Validity(Span),
    /// Rescheduling is already allowed.
    #[error("rescheduling is not stopped: there is nothing to resume")]
    NotStopped,
    /// The user's quota is insufficient.
    #[error("{0}")]
    Quota(Box<Shortfall>),
    /// The cell has too little capacity for the grant.
    #[error("{0}")]
    Oversold(Box<Oversold>),
    /// The grant does not exist, or not any more.
    #[error("there is no grant {0}: look for it with bourg quota show")]
    NoSuchGrant(GrantId),
    /// The request makes no sense; the text says why.
    #[error("{0}")]
    Impossible(String),
    /// The join token does not exist, or not any more.
    #[error(
        "join token {0} is unknown: it has expired, or the machine or replica it was issued for was revoked or removed; ask an administrator for another (bourg machine token NAME, bourg master token REPLICA)"
    )]
    NoSuchToken(Serial),
    /// The join token has expired.
    #[error(
        "the join token for machine {0} has expired: ask an administrator for another (bourg machine token {0})"
    )]
    TokenExpired(MachineName),
    /// The join token was used with another key.
    #[error(
        "the join token for machine {0} was already used with another key: if that was not you, have the machine revoked (bourg machine revoke {0}); ask an administrator for another token (bourg machine token {0})"
    )]
    TokenUsed(MachineName),
    /// A replica's join token was used with another key.
    #[error(
        "the join token for replica {0} was already used with another key: if that was not you, whoever used it has the cell's authority; remove the replica (bourg master remove {0}) and add another (bourg master add)"
    )]
    ReplicaTokenUsed(ReplicaId),
    /// The validity of a join token is too short or too long.
    #[error(
        "a join token can be valid for {TOKEN_VALIDITY_MIN} to {TOKEN_VALIDITY_MAX}, not for {0}"
    )]
    TokenValidity(Span),
    /// The certificate that the machine presented is revoked.
    #[error(
        "the certificates of machine {0} are revoked: ask an administrator for a join token (bourg machine token {0})"
    )]
    MachineRevoked(MachineName),
    /// The replica does not exist, or not any more.
    #[error("there is no replica {0}: look for it with bourg master list")]
    NoSuchReplica(ReplicaId),
    /// Another replica has that address.
    #[error("replica {0} already has that address")]
    ReplicaAddressTaken(ReplicaId),
    /// No voter would be left to commit operations.
    #[error(
        "replica {0} is the last remaining voter, and the cell cannot commit anything without one: add another first (bourg master add), and wait until it votes"
    )]
    LastVoter(ReplicaId),
    /// There is no such file, or it has no content.
    #[error("there is no file {0}")]
    NoSuchFile(FilePath),
    /// The lock session does not exist, or not any more.
    #[error(
        "lock session {0} is lost: its lease has passed, or it was closed; its locks are released"
    )]
    NoSuchLockSession(LockSessionId),
    /// Somebody else holds the lock.
    #[error("the lock of {path} is held by {by} ({mode}, session {session})")]
    LockTaken {
        /// Its file.
        path: FilePath,
        /// The user of the holder.
        by: UserName,
        /// The session of the holder.
        session: LockSessionId,
        /// How it is held.
        mode: LockMode,
    },
    /// The file has another generation than the user expects.
    #[error(
        "{path} has generation {now}, not {expected}: it has changed meanwhile (bourg lock show {path})"
    )]
    FileChanged {
        /// The file.
        path: FilePath,
        /// The generation that the user expects; 0: no content.
        expected: LogIndex,
        /// Its generation; 0: it has no content.
        now: LogIndex,
    },
    /// There is no such service.
    #[error("there is no service {user}/{name}")]
    NoSuchService {
        /// The owner.
        user: UserName,
        /// The name.
        name: JobName,
    },
    /// A service would have the name of a live job of its owner.
    #[error(
        "{user}/{name} is a job, and {name}.{user} means that job in BNS and DNS: give the service another name"
    )]
    NameOfJob {
        /// The owner.
        user: UserName,
        /// The name.
        name: JobName,
    },
    /// A job would have the name of a service of its owner.
    #[error(
        "{user}/{name} is a service, and {name}.{user} means that service in BNS and DNS: give the job another name, or delete the service (bourg service delete {name})"
    )]
    NameOfService {
        /// The owner.
        user: UserName,
        /// The name.
        name: JobName,
    },
    /// The lock of the sequencer is not held by its holder any more.
    #[error("sequencer {0} is not valid any more: that holder has lost the lock")]
    StaleSequencer(Sequencer),
}

/// The kind of a rejection: servers map it to a status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionClass {
    /// The request would be rejected by every cell.
    InvalidArgument,
    /// It names something that does not exist.
    NotFound,
    /// The user may not do it, or their credentials are not accepted.
    PermissionDenied,
    /// The state of the cell does not allow it.
    FailedPrecondition,
    /// Somebody else has changed it since the user looked at it.
    Conflict,
    /// Somebody else holds the lock.
    Taken,
    /// The cell is not bootstrapped yet.
    Unavailable,
}

impl Rejection {
    /// The class of this rejection.
    #[must_use]
    pub fn class(&self) -> RejectionClass {
        match self {
            Self::NotBootstrapped => RejectionClass::Unavailable,
            Self::ChangedMeanwhile { .. } | Self::FileChanged { .. } | Self::StaleSequencer(_) => {
                RejectionClass::Conflict
            }
            Self::LockTaken { .. } => RejectionClass::Taken,
            Self::Invalid(_)
            | Self::NoSuchTask { .. }
            | Self::BadText { .. }
            | Self::Impossible(_)
            | Self::Validity(_)
            | Self::TokenValidity(_) => RejectionClass::InvalidArgument,
            Self::NoSuchJob { .. }
            | Self::NoSuchCollection(_)
            | Self::NoSuchMachine(_)
            | Self::NoSuchGrant(_)
            | Self::NoSuchFile(_)
            | Self::NoSuchService { .. }
            | Self::NoSuchReplica(_) => RejectionClass::NotFound,
            Self::NotAllowed { .. }
            | Self::ForeignSession { .. }
            | Self::NoSuchToken(_)
            | Self::TokenExpired(_)
            | Self::TokenUsed(_)
            | Self::ReplicaTokenUsed(_)
            | Self::MachineRevoked(_) => RejectionClass::PermissionDenied,
            Self::NoSuchSession(_)
            | Self::NoSuchLockSession(_)
            | Self::NameOfJob { .. }
            | Self::NameOfService { .. }
            | Self::AnswerForgotten { .. }
            | Self::Fixed { .. }
            | Self::JobEnded { .. }
            | Self::BeingKilled { .. }
            | Self::WrongState(_)
            | Self::NotAnAllocSet { .. }
            | Self::AllocTooSmall { .. }
            | Self::NoSuchReference { .. }
            | Self::PredecessorEnded { .. }
            | Self::MachineInUse { .. }
            | Self::Full { .. }
            | Self::Shared { .. }
            | Self::AddressTaken(_)
            | Self::RevokesOneself(_)
            | Self::LastAdministrator(_)
            | Self::NotStopped
            | Self::Quota(_)
            | Self::Oversold(_)
            | Self::ReplicaAddressTaken(_)
            | Self::LastVoter(_) => RejectionClass::FailedPrecondition,
        }
    }
}
