//! The operations: everything that can happen to a cell. Each carries all its decisions.

use std::sync::Arc;

use model::{
    Assignment, CellName, CollectionId, DirectoryId, Enabled, End, FinalUsage, InstanceId,
    KeyDigest, Level, LockSessionId, MachineId, MachineName, MachineReport, MemberChange, Package,
    ReplicaId, RequestId, Resources, SchedulerName, Serial, Span, StartLatency, TaskId, Time,
    UserName, Version,
};

use crate::{Mutation, UpdateStep};

/// One operation; the log stores it with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// No change: the entry with which a leader begins its term. It only advances the index.
    Nothing,
    /// The first operation of every cell: its name and its first administrator.
    Bootstrap {
        /// The cell's name.
        name: CellName,
        /// The first administrator.
        administrator: UserName,
    },
    /// A client opens a session.
    OpenSession {
        /// The user.
        user: UserName,
    },
    /// A client's request, applied at most once in its session.
    Request {
        /// The request.
        id: RequestId,
        /// The user, from the client certificate.
        by: UserName,
        /// The mutation.
        mutation: Mutation,
    },
    /// A scheduler's proposals, accepted or rejected one by one; those of a gang together.
    Assign {
        /// The scheduler.
        by: SchedulerName,
        /// What it proposes, in order.
        assignments: Vec<Assignment>,
        /// When the scheduler's pass that made them began, by the cell's time; `None` if it did not say.
        began: Option<Time>,
    },
    /// Tasks that wait in the batch queue may be scheduled from now on: a scheduler's proposals, accepted or rejected
    /// one by one.
    Enable {
        /// The scheduler.
        by: SchedulerName,
        /// What it proposes, in order.
        enabled: Vec<Enabled>,
    },
    /// What a machine's Borglet reported.
    Observe {
        /// The machine.
        machine: MachineId,
        /// The new observations, in order.
        observations: Vec<Observation>,
    },
    /// A machine's capacity or attributes, when they are first seen or change.
    DescribeMachine {
        /// The machine.
        machine: MachineId,
        /// The machine's report.
        report: Arc<MachineReport>,
    },
    /// A machine has not answered for too long: it is marked down and its tasks are lost.
    MachineSilent {
        /// The machine.
        machine: MachineId,
    },
    /// A machine that was unreachable or down answers again.
    MachineBack {
        /// The machine.
        machine: MachineId,
    },
    /// New estimates of what incarnations of tasks need. They count where reservations are
    /// decisive.
    Reserve(Vec<Reservation>),
    /// Removes dead jobs that have been kept long enough.
    Forget {
        /// The jobs. One that is not dead is kept.
        collections: Vec<CollectionId>,
    },
    /// Every replica supports a higher level: from the next operation on, the cell is at that
    /// level. A level below the cell's own, or beyond this build's, changes nothing.
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
    /// So many machines are silent at once that no more are marked down. If rescheduling is not
    /// allowed, or `silent` exceeds `of`, it changes nothing.
    StopRescheduling {
        /// Number of unreachable machines.
        silent: u32,
        /// Out of how many that were up.
        of: u32,
    },
    /// Fewer machines are silent again: the breaker is armed again, whether it had stopped
    /// rescheduling or an administrator had resumed it.
    AllowRescheduling,
    /// Enables quota enforcement, as part of bootstrapping a cell. If it is enabled already, it
    /// changes nothing.
    MeterQuota,
    /// Part of bootstrapping a cell: best-effort batch jobs wait in the batch queue from now on.
    SwitchQueueOn,
    /// A replica's role in consensus changes. This is also the entry by which consensus changes its
    /// membership. If it is not the replica's next step (waiting, learner, voter; out when it is
    /// leaving), it changes nothing.
    ChangeMember {
        /// The replica.
        replica: ReplicaId,
        /// Its new role.
        to: MemberChange,
    },
    /// What a replica reports about itself when it starts. If no replica is recorded, replica 1 is
    /// recorded as the voter that the cell was bootstrapped with; a report of an unrecorded replica
    /// changes nothing.
    DescribeReplica {
        /// The replica.
        replica: ReplicaId,
        /// Its address, as `host:port`. If empty, the recorded one stays.
        address: String,
        /// The level of the state machine that its build implements.
        level: Level,
        /// Its data directory. A report from another directory than the recorded one changes
        /// nothing.
        directory: DirectoryId,
    },
    /// A machine joins with a token: it is added, or its address updated, and it gets its first
    /// certificate. The token belongs to the first key that uses it; that key gets the same answer
    /// again.
    Enrol {
        /// Serial number of the token's certificate.
        token: Serial,
        /// Digest of the enrolling key.
        key: KeyDigest,
        /// What the machine calls itself; `None` for the machine that the token names. A token for
        /// many machines needs it.
        machine: Option<MachineName>,
        /// The address of the machine's Borglet, as `host:port`.
        address: String,
        /// Serial number of the certificate to be issued.
        certificate: Serial,
        /// How long that is valid, from the time of this operation.
        validity: Span,
    },
    /// A replica's process joins with its token. The token belongs to the first key that uses it;
    /// that key gets the same answer again.
    JoinReplica {
        /// The replica.
        replica: ReplicaId,
        /// Serial number of the token's certificate.
        token: Serial,
        /// Digest of the joining key.
        key: KeyDigest,
    },
    /// Renews a machine's certificate before it expires.
    RenewMachine {
        /// The machine.
        machine: MachineName,
        /// Serial number of the certificate that the machine presented.
        old: Serial,
        /// Serial number of the new one.
        certificate: Serial,
        /// How long that is valid, from the time of this operation.
        validity: Span,
    },
    /// Steps of a job's open update. Each that is not possible, or not any more, changes nothing.
    StepUpdate {
        /// The job.
        job: CollectionId,
        /// The version that the update leads to. Steps of another update change nothing.
        version: Version,
        /// The steps, in order.
        steps: Vec<UpdateStep>,
    },
    /// Instances leave a machine that is being drained. One that its disruption budget does not
    /// allow stays, unless the deadline of a forced drain has passed.
    EvictDraining {
        /// The machine.
        machine: MachineId,
        /// The instances.
        instances: Vec<InstanceId>,
    },
    /// A machine stays short of a resource: an instance that is not production leaves it, if its
    /// disruption budget allows it.
    RelieveMachine {
        /// The machine.
        machine: MachineId,
        /// The instance.
        instance: InstanceId,
    },
    /// Pending tasks have waited long enough for the machines of their volumes.
    SendElsewhere {
        /// The tasks.
        tasks: Vec<TaskId>,
    },
    /// Running tasks of a job are told of secrets and addresses that have changed since they have read them, or are
    /// restarted, as their description says. What they know already changes nothing.
    TellInputs {
        /// The job.
        job: CollectionId,
    },
    /// The deadline of a drain has passed, and it is not forced: nothing more is evicted.
    ExpireDrain {
        /// The machine.
        machine: MachineId,
    },
    /// A further task of a job is started because its disruption budget does not allow stopping one
    /// that has to leave. It changes nothing while another one is not up yet.
    StartReplacement {
        /// The job.
        job: CollectionId,
    },
    /// The leases of lock sessions have passed: their locks are released and their ephemeral files
    /// deleted. A session whose lease lasts beyond the time of the operation is not changed, nor are more
    /// than [`crate::bounds::LOCK_SESSIONS_EXPIRED_MAX`].
    ExpireLockSessions {
        /// The sessions.
        sessions: Vec<LockSessionId>,
    },
    /// A machine reads the secrets of an instance that is placed there. It changes nothing, and is recorded.
    ReadSecrets {
        /// The machine.
        machine: MachineName,
        /// The instance.
        instance: InstanceId,
    },
    /// The outputs of an ended task become a version of a package of the job's owner.
    AddOutputs {
        /// The machine, which has kept and uploaded them.
        machine: MachineName,
        /// The instance.
        instance: InstanceId,
        /// What a store has of them.
        package: Arc<Package>,
    },
    /// Further tasks of a job that are not needed any more are removed.
    RemoveReplacements {
        /// The job.
        job: CollectionId,
    },
}

impl Op {
    /// Proposals of the scheduler that a cell has from its start.
    #[must_use]
    pub fn assign(assignments: Vec<Assignment>) -> Self {
        Self::Assign { by: SchedulerName::main(), assignments, began: None }
    }
}

/// The estimate of what an incarnation of a task needs, its reservation (paper, section 5.5). It is
/// initially the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The instance. It is ignored if dead, or not a task's current incarnation.
    pub instance: InstanceId,
    /// The estimate. In each dimension it counts for at most the limit.
    pub amount: Resources,
    /// The time of the newest sample of usage in it, by the machine's clock; none if it has none.
    pub newest_sample: Option<Time>,
}

/// Something that happened to an instance on its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// Its program runs.
    Started {
        /// The instance.
        instance: InstanceId,
        /// How long its machine took to fetch what it needs, and to start it, as far as that was measured.
        latency: StartLatency,
    },
    /// Its health check started or stopped succeeding.
    Health {
        /// The instance.
        instance: InstanceId,
        /// The new state.
        healthy: bool,
        /// What the check said that changed it; the rest of a long text is cut off.
        check: String,
    },
    /// Its health check has not succeeded yet, long after its start.
    NotHealthyYet {
        /// The instance.
        instance: InstanceId,
        /// What the last check said.
        check: String,
    },
    /// It is healthy, and its readiness check fails.
    Unready {
        /// The instance.
        instance: InstanceId,
        /// What the check said; the rest of a long text is cut off.
        check: String,
    },
    /// It has ended.
    Ended {
        /// The instance.
        instance: InstanceId,
        /// How it ended.
        end: End,
        /// What it used until then.
        usage: FinalUsage,
    },
}

impl Observation {
    /// An instance's program runs, and nobody measured how long its start took.
    #[must_use]
    pub fn started(instance: InstanceId) -> Self {
        Self::Started { instance, latency: StartLatency::UNKNOWN }
    }
}
