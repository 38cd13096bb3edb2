//! What tasks write, relayed from their machines.

use std::time::Duration;

use cell::{Job, TaskState};
use model::{InstanceId, MachineId};
use proto::v1;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic::Status;

/// How long a machine may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);

/// The life of a task whose logs are of interest: the one on a machine now, or the last.
pub(super) fn newest_life(job: &Job, index: model::TaskIndex) -> Option<(InstanceId, MachineId)> {
    let task = job.task(index)?;
    let id = model::TaskId { collection: job.id, index };
    match &task.state {
        TaskState::Running(placement) => Some((id.generation(task.generation), placement.machine)),
        _ => {
            let life = task.last_life.as_ref()?;
            Some((id.generation(life.generation), life.machine))
        }
    }
}

/// Relays a log from a machine to whoever reads it, for as long as both want and the machine is believed.
pub(super) async fn relay(
    mut client: rpc::service::borglet_client::BorgletClient<rpc::transport::Link>,
    request: v1::ReadLogRequest,
    to_client: mpsc::Sender<Result<v1::LogChunk, Status>>,
    is_believed: impl Fn() -> bool,
) {
    let begun = tokio::time::timeout(PATIENCE, client.read_log(request)).await;
    let begun = begun.unwrap_or_else(|_| {
        Err(Status::unavailable(format!(
            "its machine does not begin to send a log within {} seconds: it does not answer, or too many \
             read logs there",
            PATIENCE.as_secs()
        )))
    });
    let mut chunks = match begun {
        Ok(response) => response.into_inner(),
        Err(status) => {
            let said = Status::unavailable(rpc::transport::explain(&status));
            let _gone = to_client.send(Err(said)).await;
            return;
        }
    };
    loop {
        let chunk = tokio::select! {
            chunk = chunks.next() => chunk,
            () = to_client.closed() => None,
        };
        let Some(mut chunk) = chunk else { break };
        if !is_believed() {
            chunk =
                Err(Status::unavailable("its machine was revoked: nothing more of it is shown"));
        }
        let failed = chunk.is_err();
        if to_client.send(chunk).await.is_err() || failed {
            break;
        }
    }
}
