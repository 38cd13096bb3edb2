//! Mistakes that are made on purpose, to see that they are found. They are made at the seams of the
//! production code, which itself has no switch for them.

use cell::{Cell, EvictionCause, Observation, Op, StopReason, TaskState};
use model::InstanceId;

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedBug {
    /// A write is acknowledged before it is durable.
    LostWrite,
    /// An assignment for an earlier life of a task is taken for its present one.
    StaleAssignment,
    /// A Borglet obeys an order that is older than the newest it has obeyed.
    OldOrder,
    /// A Borglet that restarts forgets what it had done, and does it again.
    OrderTwice,
    /// The end of a victim never reaches the cell.
    ForgottenVictim,
    /// A machine is told to give two tasks the same port.
    PortTwice,
    /// A reader of the events goes on one operation too far after a restart of the master.
    SkippedEvent,
    /// The names keep a life that is over.
    DeadName,
    /// A scheduler's copy misses an operation.
    MissedOperation,
    /// A follower acknowledges records while they are on their way to the disk.
    EarlyAcknowledgement,
    /// A replica that restarts does not know for whom it has voted.
    ForgottenVote,
    /// One that restarts does not know that a change of who takes part is agreed upon: as if it had
    /// acted on it before that was durable.
    ForgottenAgreement,
    /// A replica that believes that it leads answers reads from what it knows.
    LeaderReads,
}

impl InjectedBug {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::LostWrite,
        Self::StaleAssignment,
        Self::OldOrder,
        Self::OrderTwice,
        Self::ForgottenVictim,
        Self::PortTwice,
        Self::SkippedEvent,
        Self::DeadName,
        Self::MissedOperation,
        Self::EarlyAcknowledgement,
        Self::ForgottenVote,
        Self::ForgottenAgreement,
        Self::LeaderReads,
    ];
}

/// What is proposed instead of an operation.
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
    op
}

/// What is applied instead of an operation.
pub(crate) fn applied(injected_bug: InjectedBug, cell: &Cell, mut op: Op) -> Op {
    if let (InjectedBug::StaleAssignment, Op::Assign(assignments)) = (injected_bug, &mut op) {
        for assignment in assignments {
            if let Some(task) = cell.task(assignment.instance.task())
                && matches!(task.state, TaskState::Pending { .. })
            {
                assignment.instance.generation = task.generation;
            }
        }
    }
    op
}
