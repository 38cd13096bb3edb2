//! The answer to a request: what was done, or why it was rejected.

use model::{
    CollectionId, Dimension, GrantId, JobName, MachineId, MachineName, ReplicaId, Serial,
    SessionId, Span, TaskId, UserName,
};
use thiserror::Error;

use crate::bounds::{
    CERTIFICATE_VALIDITY_MAX, CERTIFICATE_VALIDITY_MIN, TOKEN_VALIDITY_MAX, TOKEN_VALIDITY_MIN,
};
use crate::unschedulable::UnschedulableReason;
use crate::{Certificate, Oversold, Shortfall};

/// A request that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The session is open.
    Session(SessionId),
    /// The job is admitted.
    Submitted {
        /// Its id.
        collection: CollectionId,
        /// What was done for it.
        submission: Submission,
    },
    /// The tasks are dead, or dying where they run.
    Killed {
        /// The job that had the name.
        collection: CollectionId,
        /// How many tasks this request ended; those that were dead before do not count.
        tasks: u32,
    },
    /// The machine is known.
    MachineAdded(MachineId),
    /// The quota is granted.
    Granted(GrantId),
    /// The machine is drained: so many of its tasks are leaving.
    Drained {
        /// How many this request began to move.
        tasks: u32,
    },
    /// The user has that certificate.
    UserAdded(Certificate),
    /// The user's certificates are refused.
    UserRevoked {
        /// Whether the cell knew of the user: had added or revoked them before, or has a job or a
        /// session of theirs. A name that was mistyped is seldom known.
        known: bool,
    },
    /// The token is issued; it is a certificate.
    TokenIssued(Certificate),
    /// The machine has joined with that certificate.
    Enrolled {
        /// The machine.
        machine: MachineId,
        /// Its certificate.
        certificate: Certificate,
    },
    /// The machine has that certificate.
    MachineRenewed(Certificate),
    /// The machine's certificates and tokens are refused.
    MachineRevoked {
        /// Whether the cell knew of the machine: it is there, was revoked before, or could have
        /// joined with a token. A name that was mistyped is seldom known.
        known: bool,
    },
    /// The replica is recorded, and waits.
    ReplicaAdded(ReplicaId),
    /// It is so now.
    Done,
}

/// What was done for a job that was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// It is new.
    New,
    /// It was there before, with the same description.
    Unchanged,
    /// It was there before, and has this description now.
    Updated,
}

/// A request that was refused. It has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    /// The cell has no name yet.
    #[error("the cell is not bootstrapped yet")]
    NotBootstrapped,
    /// The session was never opened, or has been closed to make room for others.
    #[error(
        "session {0} is not open (it expired, or never was): open a new one and check what was done before you repeat a request"
    )]
    NoSuchSession(SessionId),
    /// The session is somebody else's.
    #[error("session {session} belongs to {owner}, not to {by}")]
    ForeignSession {
        /// The session.
        session: SessionId,
        /// Whose it is.
        owner: UserName,
        /// Who used it.
        by: UserName,
    },
    /// The request is so old that its answer has been dropped.
    #[error(
        "request {sequence} is older than the answers kept for its session: look at the state to see whether it was done"
    )]
    AnswerForgotten {
        /// The request's number.
        sequence: u64,
    },
    /// The description is not valid.
    #[error("the job description is not valid: {0}")]
    Invalid(String),
    /// A living job has that name, and another description that its running tasks cannot take over.
    #[error(
        "{owner}/{name} is alive and differs in {}, which cannot change while it runs: kill it first (bourg kill {owner}/{name})",
        .fields.join(", ")
    )]
    NeedsRestart {
        /// Its owner.
        owner: UserName,
        /// Its name.
        name: JobName,
        /// In which fields it differs.
        fields: Vec<String>,
    },
    /// What is to be the alloc set that a job runs in is a job itself.
    #[error("allocSet names {user}/{name}, which is no alloc set")]
    NotAnAllocSet {
        /// Whose.
        user: UserName,
        /// Which.
        name: JobName,
    },
    /// With its new description an alloc would be smaller than what runs in it.
    #[error(
        "alloc {alloc} would have {} of {dimension}, and the tasks in it take {}: nothing was changed",
        .dimension.show(*asked), .dimension.show(*used)
    )]
    AllocTooSmall {
        /// Which alloc.
        alloc: TaskId,
        /// In which dimension.
        dimension: Dimension,
        /// How much it would have.
        asked: u64,
        /// How much is taken of it.
        used: u64,
    },
    /// With its new description a task would not fit where it runs.
    #[error(
        "{task} would no longer fit where it runs, on {machine}: {unschedulable_reason}; nothing was changed"
    )]
    WouldNotFit {
        /// The task.
        task: TaskId,
        /// Its machine.
        machine: MachineName,
        /// Why not.
        unschedulable_reason: UnschedulableReason,
    },
    /// A job that is named in the description does not exist.
    #[error("{field} names {user}/{name}, and there is no such job{}", if *.dead { " that is alive" } else { "" })]
    NoSuchReference {
        /// Where it is named.
        field: String,
        /// Whose.
        user: UserName,
        /// Which.
        name: JobName,
        /// Whether there was one, which is dead.
        dead: bool,
    },
    /// The job would wait for one that has ended, and not by finishing.
    #[error("after names {user}/{name}, which has ended without finishing: run that again first")]
    PredecessorEnded {
        /// Whose.
        user: UserName,
        /// Which.
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
    /// A text is too long, or holds what cannot be shown.
    #[error("{what} must be 1 to {most} characters, none of them a control character")]
    BadText {
        /// What it is.
        what: String,
        /// How long it may be.
        most: u64,
    },
    /// There is no such job.
    #[error("there is no job {user}/{name}")]
    NoSuchJob {
        /// The owner that was named.
        user: UserName,
        /// The name.
        name: JobName,
    },
    /// There is no job with that id.
    #[error("there is no job {0}")]
    NoSuchCollection(CollectionId),
    /// The tasks asked for are not in the job.
    #[error("the job has tasks 0 to {last} only")]
    NoSuchTask {
        /// The last index there is.
        last: u32,
    },
    /// Only somebody else may do that.
    #[error("{by} may not {what}: {who} may")]
    NotAllowed {
        /// Who asked.
        by: UserName,
        /// For what.
        what: String,
        /// Who may.
        who: String,
    },
    /// The cell is full of something.
    #[error("the cell has {has} {what}, and at most {most}")]
    Full {
        /// Of what.
        what: String,
        /// How many it has.
        has: u64,
        /// How many it may have.
        most: u64,
    },
    /// Another machine answers at that address.
    #[error("machine {0} already has that address")]
    AddressTaken(MachineName),
    /// Who revokes their own certificates could not take it back.
    #[error("{0} cannot revoke {0}: another administrator can")]
    RevokesOneself(UserName),
    /// Nobody could change the cell any more.
    #[error(
        "{0} is the last administrator of the cell whose certificates are accepted: nobody could administer it"
    )]
    LastAdministrator(UserName),
    /// A certificate is not valid for so short or long.
    #[error(
        "a certificate is valid for {CERTIFICATE_VALIDITY_MIN} to {CERTIFICATE_VALIDITY_MAX}, and not for {0}"
    )]
    Validity(Span),
    /// Machines are marked down as always, or again already.
    #[error("rescheduling is not stopped: there is nothing to resume")]
    NotStopped,
    /// The user's quota does not suffice.
    #[error("{0}")]
    Quota(Box<Shortfall>),
    /// The cell cannot promise so much.
    #[error("{0}")]
    Oversold(Box<Oversold>),
    /// There is no such grant, or no longer.
    #[error("there is no grant {0}: look for it with bourg quota show")]
    NoSuchGrant(GrantId),
    /// What is asked for means nothing; the text says why.
    #[error("{0}")]
    Impossible(String),
    /// There is no such token, or no longer.
    #[error(
        "join token {0} is not known, or is no longer: it has expired, or whom it is for was revoked or removed; ask an administrator for another (bourg machine token NAME, bourg master token REPLICA)"
    )]
    NoSuchToken(Serial),
    /// The token has expired.
    #[error(
        "the join token for machine {0} has expired: ask an administrator for another (bourg machine token {0})"
    )]
    TokenExpired(MachineName),
    /// The token is another key's.
    #[error(
        "the join token for machine {0} was used before, with another key: where that was not you, have the machine revoked (bourg machine revoke {0}); ask an administrator for another token (bourg machine token {0})"
    )]
    TokenUsed(MachineName),
    /// A replica's token is another key's.
    #[error(
        "the join token for replica {0} was used before, with another key: where that was not you, whoever has it has the cell's authority; remove the replica (bourg master remove {0}) and add another (bourg master add)"
    )]
    ReplicaTokenUsed(ReplicaId),
    /// A token is not valid for so short or long.
    #[error(
        "a join token is valid for {TOKEN_VALIDITY_MIN} to {TOKEN_VALIDITY_MAX}, and not for {0}"
    )]
    TokenValidity(Span),
    /// The certificate with which a machine asks is refused.
    #[error(
        "the certificates of machine {0} are revoked: ask an administrator for a join token (bourg machine token {0})"
    )]
    MachineRevoked(MachineName),
    /// There is no such replica, or no longer.
    #[error("there is no replica {0}: look for it with bourg master list")]
    NoSuchReplica(ReplicaId),
    /// Another replica answers at that address.
    #[error("replica {0} already has that address")]
    ReplicaAddressTaken(ReplicaId),
    /// Nobody would decide anything any more.
    #[error(
        "replica {0} is the last voter that stays, and without one the cell decides nothing: add another first (bourg master add), and wait until it votes"
    )]
    LastVoter(ReplicaId),
}

/// What a rejection is, whatever its words: whoever serves requests answers with a status of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionClass {
    /// The request would be rejected in every cell.
    InvalidArgument,
    /// It names something that does not exist.
    NotFound,
    /// The user may not do it, or what they show is not accepted.
    PermissionDenied,
    /// The state of the cell is in the way.
    FailedPrecondition,
    /// The cell is not there yet.
    Unavailable,
}

impl Rejection {
    /// What it is.
    #[must_use]
    pub fn class(&self) -> RejectionClass {
        match self {
            Self::NotBootstrapped => RejectionClass::Unavailable,
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
            | Self::NoSuchReplica(_) => RejectionClass::NotFound,
            Self::NotAllowed { .. }
            | Self::ForeignSession { .. }
            | Self::NoSuchToken(_)
            | Self::TokenExpired(_)
            | Self::TokenUsed(_)
            | Self::ReplicaTokenUsed(_)
            | Self::MachineRevoked(_) => RejectionClass::PermissionDenied,
            Self::NoSuchSession(_)
            | Self::AnswerForgotten { .. }
            | Self::NeedsRestart { .. }
            | Self::NotAnAllocSet { .. }
            | Self::AllocTooSmall { .. }
            | Self::WouldNotFit { .. }
            | Self::NoSuchReference { .. }
            | Self::PredecessorEnded { .. }
            | Self::MachineInUse { .. }
            | Self::Full { .. }
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
