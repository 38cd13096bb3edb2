//! Bugs that are injected to verify that the simulation finds them. They are injected at the
//! boundaries of the production code, which itself has no switch for them.

use cell::bounds::LOCK_LEASE_MIN;
use cell::{
    Cell, EvictionCause, Mutation, Observation, Op, StopReason, TaskState, UpdateState, UpdateStep,
};
use model::InstanceId;

/// An injected bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedBug {
    /// A write is acknowledged before it is durable.
    LostWrite,
    /// An assignment for an earlier incarnation of a task is applied to its current one.
    StaleAssignment,
    /// A Borglet obeys an order that is older than one it has already obeyed.
    OldOrder,
    /// A Borglet that restarts forgets what it had done, and repeats it.
    OrderTwice,
    /// The end of a victim never reaches the cell.
    ForgottenVictim,
    /// A machine is ordered to assign the same port to two tasks.
    PortTwice,
    /// After a restart of the master, a reader of the events skips one operation.
    SkippedEvent,
    /// The names keep an incarnation that has ended.
    DeadName,
    /// A replica tells the changes of names between two of its views, not those of the log.
    NamesFromViews,
    /// A scheduler's copy misses an operation.
    MissedOperation,
    /// A follower acknowledges records before they are on disk.
    EarlyAcknowledgement,
    /// Two restorations that know nothing of each other have one epoch.
    EpochTwice,
    /// A leader that is deposed announces itself once more, in the new term.
    StaleRole,
    /// What a replica answers counts for another one, too, as if it were a member twice.
    MemberTwice,
    /// A replica that restarts forgets its vote.
    ForgottenVote,
    /// A replica that restarts forgets that a membership change is committed: as if it had applied
    /// it before that was durable.
    ForgottenAgreement,
    /// A replica that believes it is the leader answers reads from local state without a quorum.
    LeaderReads,
    /// A machine starts each incarnation of a task with the description of the first.
    StaleDescription,
    /// The leader never finds that an update has nothing left to do.
    ForgottenFinish,
    /// An undo changes only the tasks that do not run.
    ForgottenUndo,
    /// The leader never evicts what a budget allows after the drain was requested.
    ForgottenEviction,
    /// A Borglet that restarts forgets the data that it kept for savers.
    ForgottenData,
    /// A Borglet that restarts forgets that savers run, and starts them again.
    SaverTwice,
    /// A lock session has a shorter lease than its client asked for.
    ShortLease,
    /// A write is applied without a look at its sequencer.
    IgnoredSequencer,
    /// The reservation of a silent task never returns to its limit.
    ReservationKeptAfterSilence,
    /// Reservations are an eighth of what was estimated.
    ReservationBelowUsage,
    /// The newest machine never gets the task of a job that has one on every machine.
    MissedMachine,
    /// A Borglet takes the lowest priority for the highest when it evicts tasks.
    KillsProductionFirst,
    /// A stale mount: a machine gives a task a volume while the incarnation before still has it.
    StaleMount,
    /// The leader tells no task that its secret, or an address that it has, has changed.
    ForgottenRotation,
    /// What a scheduler enables of the batch queue never gets into the log, and the scheduler is told that it did.
    StarvedQueue,
    /// A machine keeps a secret after its task has ended, or the secret was deleted.
    SecretAfterRemoval,
}

impl InjectedBug {
    /// All bugs.
    pub const ALL: [Self; 33] = [
        Self::LostWrite,
        Self::StaleAssignment,
        Self::OldOrder,
        Self::OrderTwice,
        Self::ForgottenVictim,
        Self::PortTwice,
        Self::SkippedEvent,
        Self::DeadName,
        Self::NamesFromViews,
        Self::MissedOperation,
        Self::EarlyAcknowledgement,
        Self::EpochTwice,
        Self::StaleRole,
        Self::MemberTwice,
        Self::ForgottenVote,
        Self::ForgottenAgreement,
        Self::LeaderReads,
        Self::StaleDescription,
        Self::ForgottenFinish,
        Self::ForgottenUndo,
        Self::ForgottenEviction,
        Self::ForgottenData,
        Self::SaverTwice,
        Self::ShortLease,
        Self::IgnoredSequencer,
        Self::ReservationKeptAfterSilence,
        Self::ReservationBelowUsage,
        Self::KillsProductionFirst,
        Self::MissedMachine,
        Self::StaleMount,
        Self::ForgottenRotation,
        Self::SecretAfterRemoval,
        Self::StarvedQueue,
    ];
}

/// The operation that is proposed instead.
pub(crate) fn proposed(injected_bug: InjectedBug, cell: &Cell, op: &Op) -> Op {
    let mut op = op.clone();
    if let (InjectedBug::ForgottenVictim, Op::Observe { observations, .. }) =
        (injected_bug, &mut op)
    {
        let preempted = |instance: &InstanceId| {
            let stop = cell.placement(*instance).and_then(|placed| placed.stop.as_deref());
            matches!(stop, Some(StopReason::Evict(EvictionCause::Preempted { .. })))
        };
        observations.retain(
            |observed| !matches!(observed, Observation::Ended { instance, .. } if preempted(instance)),
        );
    }
    match (injected_bug, &mut op) {
        (InjectedBug::ForgottenFinish, Op::StepUpdate { steps, .. }) => {
            steps.retain(|step| *step != UpdateStep::Finish);
        }
        (InjectedBug::ForgottenUndo, Op::StepUpdate { job, steps, .. }) => {
            let update = cell.job(*job).and_then(|job| job.update.as_ref());
            let undone =
                update.is_some_and(|update| matches!(update.state, UpdateState::Undoing { .. }));
            steps.retain(|step| !undone || !matches!(step, UpdateStep::Change(_)));
        }
        (InjectedBug::ReservationKeptAfterSilence, Op::Reserve(reservations)) => {
            let limit = |instance: &InstanceId| {
                cell.job(instance.collection).map(|job| job.limit(instance.index))
            };
            reservations.retain(|one| limit(&one.instance) != Some(one.amount));
        }
        (InjectedBug::ReservationBelowUsage, Op::Reserve(reservations)) => {
            for one in reservations {
                one.amount.cpu.0 /= 8;
                one.amount.ram.0 /= 8;
            }
        }
        (InjectedBug::ForgottenRotation, Op::TellInputs { .. })
        | (InjectedBug::StarvedQueue, Op::Enable { .. }) => op = Op::Nothing,
        (InjectedBug::ForgottenEviction, Op::EvictDraining { instances, .. }) => instances.clear(),
        _ => {}
    }
    op
}

/// The operation that is applied instead.
pub(crate) fn applied(injected_bug: InjectedBug, cell: &Cell, mut op: Op) -> Op {
    if let (InjectedBug::StaleAssignment, Op::Assign { assignments, .. }) = (injected_bug, &mut op)
    {
        for assignment in assignments {
            if let Some(task) = cell.task(assignment.instance.task())
                && matches!(task.state, TaskState::Pending { .. })
            {
                assignment.instance.generation = task.generation;
            }
        }
    }
    if let (InjectedBug::MissedMachine, Op::Assign { assignments, .. }) = (injected_bug, &mut op) {
        let newest = cell.machines().last().map(|machine| machine.id);
        for assignment in assignments {
            let job = cell.job(assignment.instance.collection);
            let own = job.and_then(|job| job.machine_of(assignment.instance.index));
            if own.is_some() && own == newest {
                assignment.instance.generation.0 += 1;
            }
        }
    }
    if let Op::Request { mutation, .. } = &mut op {
        match (injected_bug, mutation) {
            (InjectedBug::ShortLease, Mutation::OpenLockSession(open)) => {
                open.lease = LOCK_LEASE_MIN;
            }
            (InjectedBug::IgnoredSequencer, Mutation::WriteFile(write)) => write.sequencer = None,
            _ => {}
        }
    }
    op
}
