//! Task logs, relayed from their machines.

use std::time::Duration;

use cell::{Job, TaskState};
use model::{InstanceId, MachineId, TaskIndex, Version};
use proto::v1;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tonic::{Code, Status};

/// The timeout for a machine's first piece.
const PATIENCE: Duration = Duration::from_secs(10);

/// The incarnation of a task whose logs are wanted: the placed one, or the last.
pub(crate) fn newest_incarnation(job: &Job, index: TaskIndex) -> Option<(InstanceId, MachineId)> {
    let task = job.task(index)?;
    let id = model::TaskId { collection: job.id, index };
    match &task.state {
        TaskState::Running(placement) => Some((id.generation(task.generation), placement.machine)),
        _ => {
            let incarnation = task.last_incarnation.as_ref()?;
            Some((id.generation(incarnation.generation), incarnation.machine))
        }
    }
}

/// The newest incarnation of a task that had a version of its job's description, as far as the cell
/// knows: the placed one, or the last.
pub(crate) fn incarnation_of(
    job: &Job,
    index: TaskIndex,
    version: Version,
) -> Option<(InstanceId, MachineId)> {
    let task = job.task(index)?;
    let id = model::TaskId { collection: job.id, index };
    if let TaskState::Running(placement) = &task.state
        && task.version == version
    {
        return Some((id.generation(task.generation), placement.machine));
    }
    let last = task.last_incarnation.as_ref().filter(|last| last.version == version)?;
    Some((id.generation(last.generation), last.machine))
}

/// The logs of an incarnation that its machine does not have any more, and why.
pub(crate) struct NotKept {
    task: TaskIndex,
    why: String,
}

/// Relays a log from a machine to its reader, until either ends or the machine is revoked. The
/// codes of a machine's errors differ from those of the master's own.
pub(crate) async fn relay(
    mut client: rpc::service::borglet_client::BorgletClient<rpc::transport::Link>,
    request: v1::ReadLogRequest,
    to_client: mpsc::Sender<Result<v1::LogChunk, Status>>,
    is_believed: impl Fn() -> bool,
) -> Option<NotKept> {
    let task = TaskIndex(request.instance.map_or(0, |instance| instance.index));
    let begun = tokio::time::timeout(PATIENCE, client.read_log(request)).await;
    let begun = begun.unwrap_or_else(|_| {
        Err(Status::aborted(format!(
            "its machine did not start sending a log within {} seconds: it does not answer, or \
             there are too many readers",
            PATIENCE.as_secs()
        )))
    });
    let mut chunks = match begun {
        Ok(response) => response.into_inner(),
        Err(status) if status.code() == Code::NotFound => {
            return Some(NotKept { task, why: status.message().to_owned() });
        }
        Err(status) => {
            let said = Status::aborted(rpc::transport::explain(&status));
            let _gone = to_client.send(Err(said)).await;
            return None;
        }
    };
    loop {
        let chunk = tokio::select! {
            chunk = chunks.next() => chunk,
            () = to_client.closed() => None,
        };
        let Some(mut chunk) = chunk else { break };
        if !is_believed() {
            chunk = Err(Status::aborted("its machine was revoked: nothing more of it is shown"));
        }
        let chunk = chunk.map_err(|status| match status.code() {
            Code::Unavailable => Status::aborted(rpc::transport::explain(&status)),
            _ => status,
        });
        let failed = chunk.is_err();
        if to_client.send(chunk).await.is_err() || failed {
            break;
        }
    }
    None
}

/// Reports that some of a job's logs are not kept, after sending all that are.
pub(crate) async fn say_not_kept(
    job: String,
    mut relays: JoinSet<Option<NotKept>>,
    to_client: mpsc::Sender<Result<v1::LogChunk, Status>>,
) {
    let mut gone = Vec::new();
    while let Some(relayed) = relays.join_next().await {
        gone.extend(relayed.ok().flatten());
    }
    gone.sort_unstable_by_key(|gone| gone.task);
    let [NotKept { task, why }, more @ ..] = gone.as_slice() else { return };
    let more = match more.len() {
        0 => String::new(),
        1 => " and another one of its tasks".to_owned(),
        count => format!(" and {count} more of its tasks"),
    };
    let said = format!("the logs of {job}/{task}{more} are not kept any more: {why}");
    let _gone = to_client.send(Err(Status::not_found(said))).await;
}
