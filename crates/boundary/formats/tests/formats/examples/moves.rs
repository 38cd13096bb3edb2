//! What clients change that stand beside the users: where a task runs, and what it may take.

use cell::{MoveReason, MoveTask, Mutation, SetLimits};
use model::{Bytes, MilliCores, Version};
use spec::CpuRam;

use super::{instance, name};

pub(super) fn move_task() -> Mutation {
    Mutation::MoveTask(MoveTask {
        instance: instance(4),
        to: name("m2"),
        why: MoveReason::Fits { task: instance(5) },
        sequencer: "/packer/lock:exclusive:7".parse().ok(),
    })
}

pub(super) fn set_limits() -> Mutation {
    Mutation::SetLimits(SetLimits {
        owner: name("ana"),
        job: name("web"),
        limit: CpuRam { cpu: MilliCores(0), ram: Bytes(96 << 20) },
        reason: "ram 1 GiB → 96 MiB".to_owned(),
        expected: Some(Version(3)),
        sequencer: "/scaler/lock:exclusive:7".parse().ok(),
    })
}
