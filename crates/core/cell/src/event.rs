//! What happened, for those who follow the cell. The names of the life cycle are those of the
//! published traces (trace v3, "event type"); what the traces do not have is named likewise.

use std::fmt;
use std::sync::Arc;

use model::{
    Band, Capability, CollectionId, End, FinalUsage, GcuFactor, InstanceId, Level, MachineId,
    MachineName, ReplicaId, Resources, Serial, UserName,
};

use crate::lifecycle::Transition;
use crate::{
    Certificate, Death, EvictionCause, Grant, KillReason, MemberChange, PendingCause, StopReason,
};

/// One thing that happened. Its moment, index and actor are those of the operation that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// To whom or what.
    pub subject: Subject,
    /// What.
    pub kind: EventKind,
    /// Of the end of an instance on its machine, what it used; of other events nothing.
    pub usage: FinalUsage,
}

/// To whom or what something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The cell as a whole.
    Cell,
    /// A job.
    Job(CollectionId),
    /// A life of a task.
    Task(InstanceId),
    /// A machine.
    Machine(MachineId),
}

/// Who caused an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A user, by a request.
    User(UserName),
    /// A scheduler, by an assignment.
    Scheduler,
    /// A machine, by what it reported.
    Machine(MachineId),
    /// The master itself.
    Master,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// SUBMIT: it is there; for a task also every later life.
    Submit {
        /// Why it is to be placed.
        cause: PendingCause,
    },
    /// QUEUE: it waits for other jobs.
    Queue,
    /// ENABLE: it waits for nothing but a machine.
    Enable,
    /// SCHEDULE: it was given a machine; a job, with the first of its tasks.
    Schedule {
        /// Which one.
        machine: MachineId,
        /// In which alloc there, where its job runs in an alloc set.
        alloc: Option<InstanceId>,
    },
    /// EVICT: it had to leave its machine.
    Evict {
        /// Why.
        cause: EvictionCause,
    },
    /// FAIL: its program failed; without an end, a job whose tasks did.
    Fail {
        /// How.
        end: Option<End>,
    },
    /// FINISH: it is done.
    Finish,
    /// KILL: it was ended.
    Kill {
        /// Why.
        why: KillReason,
    },
    /// LOST: it is gone, and nobody saw how.
    Lost {
        /// What is known of it.
        end: End,
    },
    /// `UPDATE_PENDING`: what it asks for was changed while it waited.
    UpdatePending,
    /// `UPDATE_RUNNING`: what it asks for was changed while it had a machine.
    UpdateRunning,
    /// Its program runs on its machine.
    Start {
        /// Which one.
        machine: MachineId,
    },
    /// Its health changed.
    Health {
        /// To what.
        healthy: bool,
    },
    /// It is being stopped, and has its notice.
    Stop {
        /// Why.
        why: StopReason,
    },
    /// It crashed, or was crashed on, so often of late that it may be to blame.
    Suspect,
    /// A machine joined, or has a new address.
    MachineAdded,
    /// A machine's capacity is known, or changed.
    MachineUpdated {
        /// What tasks can have of it now.
        capacity: Resources,
    },
    /// Something about a machine changed.
    Attribute {
        /// What.
        name: String,
        /// To what; nothing where it is not so any more.
        value: Option<String>,
    },
    /// A machine does not answer; its tasks stay where they are.
    MachineUnreachable,
    /// A machine is down.
    MachineDown,
    /// A machine is back.
    MachineBack,
    /// A machine is to be emptied.
    MachineDrained {
        /// Why; may be empty.
        reason: String,
    },
    /// A machine is used again.
    MachineUndrained,
    /// A machine is gone for good.
    MachineRemoved {
        /// Its name, which may be given to another one now.
        name: MachineName,
    },
    /// The cores of a platform do more or less than they did.
    Platform {
        /// Which platform.
        platform: String,
        /// How much they do now.
        factor: GcuFactor,
    },
    /// A user was given a certificate.
    UserAdded {
        /// Who.
        user: UserName,
        /// Which.
        certificate: Certificate,
    },
    /// Every certificate that a user had is refused from now on.
    UserRevoked {
        /// Whose.
        user: UserName,
    },
    /// The cell has its name.
    Bootstrapped,
    /// The cell is at a higher level.
    LevelRaised {
        /// Which one.
        to: Level,
    },
    /// Too many machines are silent at once: no machine is marked down any more.
    ReschedulingStopped {
        /// How many are unreachable.
        silent: u32,
        /// Of how many that were up.
        of: u32,
    },
    /// A person had machines marked down again, though many are silent.
    ReschedulingResumed,
    /// Fewer machines are silent again: the breaker is armed anew.
    ReschedulingAllowed,
    /// Quota was granted.
    QuotaGranted(Arc<Grant>),
    /// A grant was revoked.
    QuotaRevoked(Arc<Grant>),
    /// More or less of a band may be granted.
    Oversell {
        /// Of which.
        band: Band,
        /// In percent of the cell's capacity.
        percent: u32,
    },
    /// What has no quota is refused from now on, or no longer.
    Metering {
        /// Whether it is.
        on: bool,
    },
    /// A user may do something beyond what is their own.
    CapabilityGranted {
        /// Who.
        user: UserName,
        /// What.
        capability: Capability,
    },
    /// A user may do that no longer.
    CapabilityRevoked {
        /// Who.
        user: UserName,
        /// What.
        capability: Capability,
    },
    /// Somebody did here what only a capability allows them.
    CapabilityUsed {
        /// Which one.
        capability: Capability,
    },
    /// A token was issued with which a machine may join.
    TokenIssued {
        /// Which machine.
        machine: MachineName,
        /// The token's certificate.
        token: Certificate,
    },
    /// A machine joined with a token.
    MachineEnrolled {
        /// The token, by the number of its certificate.
        token: Serial,
        /// The certificate that the machine was given.
        certificate: Certificate,
    },
    /// A machine was given another certificate.
    MachineRenewed {
        /// Which.
        certificate: Certificate,
    },
    /// Every certificate that a machine had, and every token for it, is refused from now on.
    MachineRevoked {
        /// Whose.
        machine: MachineName,
    },
    /// A token was issued with which a replica's process may join.
    ReplicaTokenIssued {
        /// Which replica.
        replica: ReplicaId,
        /// The token's certificate.
        token: Certificate,
    },
    /// A replica's process joined with a token: it was handed the cell's authority.
    ReplicaJoined {
        /// Which replica.
        replica: ReplicaId,
        /// The token, by the number of its certificate.
        token: Serial,
    },
    /// A replica is to join.
    ReplicaAdded {
        /// Which one.
        replica: ReplicaId,
        /// Where it will answer.
        address: Arc<str>,
    },
    /// A replica is to leave; one that waited has left.
    ReplicaRemoved {
        /// Which one.
        replica: ReplicaId,
    },
    /// A replica's part in consensus has changed.
    ReplicaMember {
        /// Whose.
        replica: ReplicaId,
        /// What became of it.
        to: MemberChange,
    },
    /// A replica said something new of itself, or was recorded as the one that was there.
    ReplicaDescribed {
        /// Which one.
        replica: ReplicaId,
        /// Where it answers; empty where that is not known.
        address: Arc<str>,
        /// The level of the state machine that its build has.
        level: Level,
    },
}

impl EventKind {
    /// The end of a life for good, as a death says.
    #[must_use]
    pub fn of(death: &Death, end: Option<&End>) -> Self {
        match death {
            Death::Finished => Self::Finish,
            Death::Failed => Self::Fail { end: end.cloned() },
            Death::Killed(why) => Self::Kill { why: why.clone() },
        }
    }

    /// Its step in the diagram of lives; nothing for what the traces do not have.
    #[must_use]
    pub fn transition(&self) -> Option<Transition> {
        Some(match self {
            Self::Submit { .. } => Transition::Submit,
            Self::Queue => Transition::Queue,
            Self::Enable => Transition::Enable,
            Self::Schedule { .. } => Transition::Schedule,
            Self::Evict { .. } => Transition::Evict,
            Self::Fail { .. } => Transition::Fail,
            Self::Finish => Transition::Finish,
            Self::Kill { .. } => Transition::Kill,
            Self::Lost { .. } => Transition::Lost,
            Self::UpdatePending => Transition::UpdatePending,
            Self::UpdateRunning => Transition::UpdateRunning,
            _ => return None,
        })
    }

    /// Its name, as events are listed by: for a step of a life the trace's.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Start { .. } => "START",
            Self::Health { healthy: true } => "HEALTHY",
            Self::Health { healthy: false } => "UNHEALTHY",
            Self::Stop { .. } => "STOP",
            Self::Suspect => "SUSPECT",
            Self::MachineAdded => "ADD",
            Self::MachineUpdated { .. } => "UPDATE",
            Self::Attribute { .. } => "ATTRIBUTE",
            Self::MachineUnreachable => "UNREACHABLE",
            Self::MachineDown => "DOWN",
            Self::MachineBack => "BACK",
            Self::MachineDrained { .. } => "DRAIN",
            Self::MachineUndrained => "UNDRAIN",
            Self::MachineRemoved { .. } => "REMOVE",
            Self::Platform { .. } => "PLATFORM",
            Self::UserAdded { .. } => "ADD_USER",
            Self::UserRevoked { .. } => "REVOKE_USER",
            Self::Bootstrapped => "FOUND",
            Self::LevelRaised { .. } => "LEVEL",
            Self::ReschedulingStopped { .. } => "STOP_RESCHEDULING",
            Self::ReschedulingResumed => "RESUME_RESCHEDULING",
            Self::ReschedulingAllowed => "ALLOW_RESCHEDULING",
            Self::QuotaGranted(_) => "GRANT_QUOTA",
            Self::QuotaRevoked(_) => "REVOKE_QUOTA",
            Self::Oversell { .. } => "OVERSELL",
            Self::Metering { .. } => "METER_QUOTA",
            Self::CapabilityGranted { .. } => "GRANT_CAPABILITY",
            Self::CapabilityRevoked { .. } => "REVOKE_CAPABILITY",
            Self::CapabilityUsed { .. } => "USE_CAPABILITY",
            Self::TokenIssued { .. } => "ISSUE_TOKEN",
            Self::MachineEnrolled { .. } => "ENROL",
            Self::MachineRenewed { .. } => "RENEW",
            Self::MachineRevoked { .. } => "REVOKE_MACHINE",
            Self::ReplicaTokenIssued { .. } => "ISSUE_TOKEN",
            Self::ReplicaJoined { .. } => "REPLICA_JOINED",
            Self::ReplicaAdded { .. } => "REPLICA_ADDED",
            Self::ReplicaRemoved { .. } => "REPLICA_REMOVED",
            Self::ReplicaMember { .. } => "REPLICA_MEMBER",
            Self::ReplicaDescribed { .. } => "REPLICA_DESCRIBED",
            incarnation => incarnation.transition().map_or("", Transition::name),
        }
    }
}

/// What became of the replica, in words.
impl fmt::Display for MemberChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Learner => "learner",
            Self::Voter => "voter",
            Self::Out => "out",
        })
    }
}

/// Why a task waits, in words.
impl fmt::Display for PendingCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Submitted => f.write_str("new"),
            Self::Failed => f.write_str("failed, and is tried again"),
            Self::Lost => f.write_str("was lost"),
            Self::Evicted(cause) => write!(f, "evicted: {cause}"),
        }
    }
}

/// The cause, in words.
impl fmt::Display for EvictionCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Preempted { by } => write!(f, "preempted by {by}"),
            Self::OutOfResources => f.write_str("the machine ran out of resources"),
            Self::MachineFailure => f.write_str("machine failure"),
            Self::MachineShutdown => f.write_str("machine shutdown"),
            Self::Other => f.write_str("other"),
        }
    }
}

/// The reason, in words.
impl fmt::Display for KillReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(user) => write!(f, "by {user}"),
            Self::ParentEnded(parent) => write!(f, "its parent, job {parent}, ended"),
            Self::AllocSetEnded(set) => {
                write!(f, "the alloc set that it ran in, job {set}, ended")
            }
            Self::PredecessorEnded(job) => {
                write!(f, "job {job}, which it was to run after, did not finish")
            }
        }
    }
}
