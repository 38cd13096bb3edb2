//! What the leader does with updates and drains.

use cell::{Op, SkipReason, UpdateFailure, UpdateStep};
use model::{CollectionId, End, LockSessionId, MachineId, TaskIndex, Version};

use super::instance;

/// One operation of each kind.
pub(super) fn of_controllers() -> Vec<Op> {
    let (job, machine) = (CollectionId(1), MachineId(3));
    let fail = |end| UpdateStep::Fail(UpdateFailure { instance: instance(2), end });
    let steps = vec![
        UpdateStep::Change(TaskIndex(0)),
        UpdateStep::Passed(TaskIndex(7)),
        UpdateStep::Skip(TaskIndex(0), SkipReason::Disruptions),
        UpdateStep::Skip(TaskIndex(4), SkipReason::Budget),
        fail(None),
        fail(Some(End::Exited { code: 1 })),
        UpdateStep::Finish,
        UpdateStep::Close,
    ];
    let sessions = vec![LockSessionId(1), LockSessionId(300)];
    vec![
        Op::ExpireLockSessions { sessions },
        Op::StepUpdate { job, version: Version(2), steps },
        Op::EvictDraining { machine, instances: vec![instance(0), instance(4)] },
        Op::ExpireDrain { machine },
        Op::SendElsewhere { tasks: vec![instance(1).task()] },
        Op::TellInputs { job },
        Op::StartReplacement { job },
        Op::RemoveReplacements { job },
    ]
}
