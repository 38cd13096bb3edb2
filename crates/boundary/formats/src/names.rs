//! Records of the name service: `names.proto`.

use bns::{Stage, TaskRecord};

use crate::v1;

/// The record of a task.
#[must_use]
pub fn name_task(task: &TaskRecord<'_>) -> v1::NameTask {
    let state = match task.stage {
        Stage::Starting => v1::TaskState::Starting,
        Stage::Running => v1::TaskState::Running,
        Stage::Stopping => v1::TaskState::Stopping,
    };
    let health = match task.health {
        cell::Health::Unknown => v1::Health::Unknown,
        cell::Health::Healthy => v1::Health::Healthy,
        cell::Health::Unhealthy => v1::Health::Unhealthy,
        cell::Health::Unready => v1::Health::Unready,
    };
    let port = |(name, port): (&model::PortName, u16)| v1::NamedPort {
        name: name.to_string(),
        port: port.into(),
    };
    v1::NameTask {
        index: task.index.0,
        generation: task.generation.0,
        version: task.version.0,
        machine: task.machine.to_string(),
        host: task.host.clone().into_owned(),
        ports: task.ports().map(port).collect(),
        state: state.into(),
        health: health.into(),
        reachable: task.reachable,
        serves: task.serves(),
        user: String::new(),
        job: String::new(),
    }
}
