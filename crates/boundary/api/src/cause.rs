//! The reasons for what happens to tasks: `cell.proto`.

use event::{Death, EvictionCause, KillReason, MoveReason, PendingCause, StopReason};
use model::{CollectionId, MachineId, TaskIndex};

use crate::error::{At, Fault, Malformed};
use crate::{read, v1};

const NOTHING: v1::Nothing = v1::Nothing {};

impl From<&PendingCause> for v1::PendingCause {
    fn from(cause: &PendingCause) -> Self {
        use v1::pending_cause::Cause;

        let cause = match cause {
            PendingCause::Submitted => Cause::Submitted(NOTHING),
            PendingCause::Failed => Cause::Failed(NOTHING),
            PendingCause::Lost => Cause::Lost(NOTHING),
            PendingCause::Finished => Cause::Finished(NOTHING),
            PendingCause::StartLost { tries } => Cause::StartLost(*tries),
            PendingCause::Evicted(cause) => Cause::Evicted(cause.into()),
        };
        Self { cause: Some(cause) }
    }
}

impl TryFrom<v1::PendingCause> for PendingCause {
    type Error = Malformed;

    fn try_from(cause: v1::PendingCause) -> Result<Self, Malformed> {
        use v1::pending_cause::Cause;

        Ok(match cause.cause.ok_or(Fault::UnknownKind)? {
            Cause::Submitted(NOTHING) => Self::Submitted,
            Cause::Failed(NOTHING) => Self::Failed,
            Cause::Lost(NOTHING) => Self::Lost,
            Cause::Finished(NOTHING) => Self::Finished,
            Cause::StartLost(tries) => Self::StartLost { tries },
            Cause::Evicted(cause) => Self::Evicted(cause.try_into().field("evicted")?),
        })
    }
}

impl From<&EvictionCause> for v1::EvictionCause {
    fn from(cause: &EvictionCause) -> Self {
        use v1::eviction_cause::Cause;

        let cause = match cause {
            EvictionCause::Preempted { by } => Cause::PreemptedBy((*by).into()),
            EvictionCause::OutOfResources => Cause::OutOfResources(NOTHING),
            EvictionCause::MachineFailure => Cause::MachineFailure(NOTHING),
            EvictionCause::MachineShutdown => Cause::MachineShutdown(NOTHING),
            EvictionCause::Updated => Cause::Updated(NOTHING),
            EvictionCause::Moved { to, why } => Cause::Moved(task_move(*to, *why)),
            EvictionCause::GangRestarts { task } => Cause::GangRestarts(task.0),
            EvictionCause::Other => Cause::Other(NOTHING),
        };
        Self { cause: Some(cause) }
    }
}

impl TryFrom<v1::EvictionCause> for EvictionCause {
    type Error = Malformed;

    fn try_from(cause: v1::EvictionCause) -> Result<Self, Malformed> {
        use v1::eviction_cause::Cause;

        Ok(match cause.cause.ok_or(Fault::UnknownKind)? {
            Cause::PreemptedBy(by) => Self::Preempted { by: by.into() },
            Cause::OutOfResources(NOTHING) => Self::OutOfResources,
            Cause::MachineFailure(NOTHING) => Self::MachineFailure,
            Cause::MachineShutdown(NOTHING) => Self::MachineShutdown,
            Cause::Updated(NOTHING) => Self::Updated,
            Cause::Moved(moved) => {
                let (to, why) = of_task_move(moved).field("moved")?;
                Self::Moved { to, why }
            }
            Cause::GangRestarts(task) => Self::GangRestarts { task: TaskIndex(task) },
            Cause::Other(NOTHING) => Self::Other,
        })
    }
}

/// The message of a move.
fn task_move(to: MachineId, why: MoveReason) -> v1::TaskMove {
    use v1::task_move::Why;

    let why = match why {
        MoveReason::Fits { task } => Why::Fits(task.into()),
        MoveReason::Empties => Why::Empties(NOTHING),
    };
    v1::TaskMove { to: to.0, why: Some(why) }
}

/// A move in a message.
fn of_task_move(moved: v1::TaskMove) -> Result<(MachineId, MoveReason), Malformed> {
    use v1::task_move::Why;

    let why = match moved.why.ok_or(Fault::UnknownKind)? {
        Why::Fits(task) => MoveReason::Fits { task: task.into() },
        Why::Empties(NOTHING) => MoveReason::Empties,
    };
    Ok((MachineId(moved.to), why))
}

impl From<&StopReason> for v1::StopReason {
    fn from(reason: &StopReason) -> Self {
        use v1::stop_reason::Why;

        let why = match reason {
            StopReason::Kill(why) => Why::Kill(why.into()),
            StopReason::Evict(cause) => Why::Evict(cause.into()),
        };
        Self { why: Some(why) }
    }
}

impl TryFrom<v1::StopReason> for StopReason {
    type Error = Malformed;

    fn try_from(reason: v1::StopReason) -> Result<Self, Malformed> {
        use v1::stop_reason::Why;

        Ok(match reason.why.ok_or(Fault::UnknownKind)? {
            Why::Kill(why) => Self::Kill(why.try_into().field("kill")?),
            Why::Evict(cause) => Self::Evict(cause.try_into().field("evict")?),
        })
    }
}

impl From<&KillReason> for v1::KillReason {
    fn from(reason: &KillReason) -> Self {
        use v1::kill_reason::Why;

        let why = match reason {
            KillReason::User(user) => Why::User(user.to_string()),
            KillReason::ParentEnded(job) => Why::ParentEnded(job.0),
            KillReason::PredecessorEnded(job) => Why::PredecessorEnded(job.0),
            KillReason::PredecessorFinished(job) => Why::PredecessorFinished(job.0),
            KillReason::CounterpartEnded(task) => Why::CounterpartEnded((*task).into()),
            KillReason::CounterpartFinished(task) => Why::CounterpartFinished((*task).into()),
            KillReason::AllocSetEnded(set) => Why::AllocSetEnded(set.0),
            KillReason::Removed => Why::Removed(NOTHING),
            KillReason::MachineLeft(machine) => Why::MachineLeft(machine.to_string()),
            KillReason::Now(user) => Why::Now(user.to_string()),
            KillReason::GangFailed { task } => Why::GangFailed(task.0),
        };
        Self { why: Some(why) }
    }
}

impl TryFrom<v1::KillReason> for KillReason {
    type Error = Malformed;

    fn try_from(reason: v1::KillReason) -> Result<Self, Malformed> {
        use v1::kill_reason::Why;

        Ok(match reason.why.ok_or(Fault::UnknownKind)? {
            Why::User(user) => Self::User(read::name(&user, "user")?),
            Why::ParentEnded(job) => Self::ParentEnded(CollectionId(job)),
            Why::PredecessorEnded(job) => Self::PredecessorEnded(CollectionId(job)),
            Why::PredecessorFinished(job) => Self::PredecessorFinished(CollectionId(job)),
            Why::CounterpartEnded(task) => Self::CounterpartEnded(task.into()),
            Why::CounterpartFinished(task) => Self::CounterpartFinished(task.into()),
            Why::AllocSetEnded(set) => Self::AllocSetEnded(CollectionId(set)),
            Why::Removed(NOTHING) => Self::Removed,
            Why::GangFailed(task) => Self::GangFailed { task: TaskIndex(task) },
            Why::MachineLeft(machine) => Self::MachineLeft(read::name(&machine, "machineLeft")?),
            Why::Now(user) => Self::Now(read::name(&user, "now")?),
        })
    }
}

impl From<&Death> for v1::Death {
    fn from(death: &Death) -> Self {
        use v1::death::How;

        let how = match death {
            Death::Finished => How::Finished(NOTHING),
            Death::Failed => How::Failed(NOTHING),
            Death::Killed(why) => How::Killed(why.into()),
        };
        Self { how: Some(how) }
    }
}

impl TryFrom<v1::Death> for Death {
    type Error = Malformed;

    fn try_from(death: v1::Death) -> Result<Self, Malformed> {
        use v1::death::How;

        Ok(match death.how.ok_or(Fault::UnknownKind)? {
            How::Finished(NOTHING) => Self::Finished,
            How::Failed(NOTHING) => Self::Failed,
            How::Killed(why) => Self::Killed(why.try_into().field("killed")?),
        })
    }
}
