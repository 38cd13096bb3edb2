//! The operations: everything that can happen to a cell. Each carries its decisions filled in.

use std::sync::Arc;

use model::{
    CellName, CollectionId, DirectoryId, End, FinalUsage, InstanceId, KeyDigest, Level, MachineId,
    MachineName, MachineReport, ReplicaId, Resources, Serial, SessionId, Span, UserName,
};

use crate::{MemberChange, Mutation};

/// One operation, as the log holds it beside the moment at which it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Nothing: the entry with which a leader begins its term. It only counts.
    Nothing,
    /// The first operation of every cell: its name and who administers it.
    Bootstrap {
        /// The cell's name.
        name: CellName,
        /// The user who may do everything.
        administrator: UserName,
    },
    /// A client begins a session.
    OpenSession {
        /// Whose.
        user: UserName,
    },
    /// A client's request, done at most once in its session.
    Request {
        /// Which one.
        id: RequestId,
        /// Who asks, as their certificate says.
        by: UserName,
        /// For what.
        mutation: Mutation,
    },
    /// A scheduler's proposals, accepted or refused one by one.
    Assign(Vec<Assignment>),
    /// What a machine's Borglet was seen to report.
    Observe {
        /// The machine.
        machine: MachineId,
        /// What is new, in order.
        observations: Vec<Observation>,
    },
    /// A machine's capacity or attributes, when they are first seen or change.
    DescribeMachine {
        /// The machine.
        machine: MachineId,
        /// What it says of itself.
        report: Arc<MachineReport>,
    },
    /// A machine does not answer, and is not waited for any longer: it is down, its tasks are lost.
    MachineSilent {
        /// The machine.
        machine: MachineId,
    },
    /// A machine that was unreachable or down answers again.
    MachineBack {
        /// The machine.
        machine: MachineId,
    },
    /// What lives of tasks are estimated to need, from now on. It is what they count for where
    /// reservations decide.
    Reserve(Vec<Reservation>),
    /// Dead jobs that have been kept long enough are removed.
    Forget {
        /// Which ones. One that is not dead is kept.
        collections: Vec<CollectionId>,
    },
    /// Every replica can do more now: from the next operation on, the cell is at a higher level.
    /// A level below the cell's own, or beyond this build's, changes nothing.
    RaiseLevel {
        /// The level.
        to: Level,
    },
    /// A machine did not answer several polls: nothing new is placed on it, and its tasks stay. For
    /// a machine that is not up it changes nothing.
    MachineUnreachable {
        /// The machine.
        machine: MachineId,
    },
    /// So many machines are silent at once that none is marked down any more. Where
    /// rescheduling is not allowed, or more are silent than there are, it changes nothing.
    StopRescheduling {
        /// How many machines are unreachable.
        silent: u32,
        /// Of how many that were up.
        of: u32,
    },
    /// Fewer machines are silent again: the breaker is armed anew, whether it had stopped
    /// rescheduling or a person had resumed that.
    AllowRescheduling,
    /// What has no quota is refused from now on: a cell is bootstrapped so. Where it is so
    /// already, it changes nothing.
    MeterQuota,
    /// A replica's part in consensus changes. It is an entry of consensus itself, which makes the
    /// change there. Where it is not the replica's next step (waiting, a learner, a voter; out when
    /// it is leaving), it changes nothing.
    ChangeMember {
        /// The replica.
        replica: ReplicaId,
        /// What becomes of it.
        to: MemberChange,
    },
    /// What a replica says of itself when it starts. Where nothing is recorded,
    /// replica 1 is the voter that the cell was bootstrapped with; of one that is not recorded it changes
    /// nothing.
    DescribeReplica {
        /// The replica.
        replica: ReplicaId,
        /// Where it answers, as `host:port`. Empty where it does not know: what is known stays.
        address: String,
        /// The level of the state machine that its build has.
        level: Level,
        /// Its data directory. What another directory than the one that is
        /// recorded says changes nothing.
        directory: DirectoryId,
    },
    /// A machine joins with a token: it is added, or gets its new address, and its first certificate.
    /// The token is the key's that used it first, which is answered again.
    Enrol {
        /// The token, by the number of its certificate.
        token: Serial,
        /// The digest of the key that asks.
        key: KeyDigest,
        /// Where the machine's Borglet answers, as `host:port`.
        address: String,
        /// The number of the certificate that it will have.
        certificate: Serial,
        /// How long that is valid, from the moment of this.
        validity: Span,
    },
    /// A replica's process joins with its token, which is the key's that used it first: that one is
    /// answered again.
    JoinReplica {
        /// Which replica.
        replica: ReplicaId,
        /// The token, by the number of its certificate.
        token: Serial,
        /// The digest of the key that asks.
        key: KeyDigest,
    },
    /// A machine gets another certificate before the one that it has expires.
    RenewMachine {
        /// Which machine.
        machine: MachineName,
        /// The number of the certificate with which it asks.
        old: Serial,
        /// The number of the one that it will have.
        certificate: Serial,
        /// How long that is valid, from the moment of this.
        validity: Span,
    },
}

/// A request's place in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId {
    /// The session, from [`Op::OpenSession`].
    pub session: SessionId,
    /// Its number there, from 1, rising.
    pub sequence: u64,
}

/// A proposal: this life of a task, on this machine, with these ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// What is to be placed.
    pub instance: InstanceId,
    /// Where.
    pub machine: MachineId,
    /// In which alloc of that machine, for a task of a job that runs in an alloc set.
    pub alloc: Option<InstanceId>,
    /// Its ports, in the order of the names in its description.
    pub ports: Vec<u16>,
    /// What has to leave the machine for it. It starts when they have ended.
    pub victims: Vec<InstanceId>,
}

/// The estimate of what a life of a task needs, its reservation (paper, section 5.5). A life
/// begins with its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Whose. One that is dead, or not a task's present life, has none.
    pub instance: InstanceId,
    /// How much. In no dimension does it count for more than the limit.
    pub amount: Resources,
}

/// Something that happened to an instance on its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// Its program runs.
    Started {
        /// Whose.
        instance: InstanceId,
    },
    /// Its health check succeeds, or does no longer.
    Health {
        /// Whose.
        instance: InstanceId,
        /// The new state.
        healthy: bool,
    },
    /// It has ended.
    Ended {
        /// Which.
        instance: InstanceId,
        /// How.
        end: End,
        /// What it used until then.
        usage: FinalUsage,
    },
}
