//! The outputs of ended tasks, relayed from the machines that keep them.

use std::sync::Arc;
use std::time::Duration;

use api::v1;
use cell::{Job, Task, TaskState};
use model::{Capability, InstanceId, MachineId, TaskId, TaskIndex};
use rpc::transport::Permit;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status};

use crate::caller::tasks::may_touch;
use crate::reads::Reads;
use crate::reads::rejections::no_such_task;
use crate::reads::views::outputs_package;
use crate::service::door::split;
use crate::service::holding::holding;
use crate::service::machines::revoked;
use crate::service::tasks::Tasks;
use crate::service::{Answer, Streamed, gate};
use crate::streams::StreamHolder;

/// Pieces that wait for a slow reader.
const QUEUE: usize = 4;
/// How long a machine may take for the first piece: it counts the files before.
const PATIENCE: Duration = Duration::from_secs(60);

/// An ended incarnation of a task, and the machine that keeps its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LeftOutputs {
    instance: InstanceId,
    machine: MachineId,
}

impl Tasks {
    /// For those who may read the logs of the job.
    pub(super) async fn relay_outputs(
        &self,
        request: Request<v1::OutputsRequest>,
    ) -> Answer<Streamed<v1::OutputChunk>> {
        gate::led(&self.door.core).await?;
        let caller = self.door.anyone(&request).await?;
        let user = &caller.user;
        let (asked, asks) = split(request);
        let (address, index) = (asked.job.clone().unwrap_or_default(), TaskIndex(asked.task));
        let mut view = self.door.core.view();
        // It may have ended a moment ago, and this replica may not know it yet.
        let is_known = {
            let reads = Reads::of(&view, &caller);
            reads.find(&address).is_ok_and(|job| ended(job, index).is_ok())
        };
        if !is_known {
            view = gate::newest(&self.door.core).await?;
        }
        let reads = Reads::of(&view, &caller);
        let job = reads.find(&address)?;
        self.door.own(&caller, &asks, || may_touch(user, &job.owner, &job.spec.name))?;
        // Before who may: others may run commands in a task that has not ended, and a copy does.
        let task = ended(job, index)?;
        let name = format!("{}/{}/{index}", job.owner, job.spec.name);
        if job.owner != *user && !caller.administers_jobs(&view.cell) {
            return Err(Status::permission_denied(format!(
                "{user} may not fetch the outputs of {name}: {}, an administrator or a user with the \
                 capability {} may",
                job.owner,
                Capability::AdministerJobs
            )));
        }
        let left = left(job, index, task)?;
        if job.owner != *user {
            self.door.record_use(&caller, Capability::AdministerJobs, job.id).await?;
        }
        // The machine has them until they are a version. One of that name may also be somebody else's.
        let in_package = outputs_package(&view.cell, job, index).map(|package| {
            let (instance, package) = (Some(left.instance.into()), package.to_string());
            let begin = v1::OutputsBegin { instance, package, ..v1::OutputsBegin::default() };
            v1::OutputChunk { begin: Some(begin), ..v1::OutputChunk::default() }
        });
        if let (Some(only), None) = (&in_package, view.cell.machine(left.machine)) {
            let stream: Streamed<_> = Box::pin(tokio_stream::once(Ok(only.clone())));
            return Ok(Response::new(stream));
        }
        let holder = StreamHolder { user, asker: caller.asker(&view.cell) };
        let place: Permit<_> = self.output_readers.begin(holder)?;
        let machine = view.cell.machine(left.machine).ok_or_else(|| {
            Status::not_found(format!(
                "the outputs of {name} are gone with its machine, which is not in the cell any more"
            ))
        })?;
        let client = self.agents.client_for_command(machine);
        let mut client = client.map_err(|error| Status::aborted(error.to_string()))?;
        let (id, was, there) = (machine.id, revoked(machine), machine.name.to_string());
        let known = asked.known.map(InstanceId::from);
        let request = v1::ReadOutputsRequest {
            instance: Some(left.instance.into()),
            path: asked.path,
            offset: if known == Some(left.instance) { asked.offset } else { 0 },
        };
        let core = self.door.core.clone();
        drop(view);
        let (to_client, stream) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            let mut is_begun = false;
            let is_believed = || core.view().cell.machine(id).map(revoked) == Some(was);
            let relayed = async {
                let late = || {
                    let seconds = PATIENCE.as_secs();
                    Status::aborted(format!("machine {there} did not send them within {seconds} s"))
                };
                let begun = timeout(PATIENCE, client.read_outputs(request)).await;
                let mut pieces = begun.map_err(|_| late())??.into_inner();
                let mut next = timeout(PATIENCE, pieces.next()).await.map_err(|_| late())?;
                while let Some(piece) = next {
                    if !is_believed() {
                        return Err(Status::failed_precondition(
                            "its machine was revoked: nothing more of it is relayed",
                        ));
                    }
                    if to_client.send(Ok(piece?)).await.is_err() {
                        break;
                    }
                    is_begun = true;
                    next = pieces.next().await;
                }
                Ok(())
            };
            let relayed = tokio::select! {
                relayed = relayed => relayed,
                () = to_client.closed() => return,
            };
            if let (Err(_), Some(only), false) = (&relayed, in_package, is_begun) {
                let _gone = to_client.send(Ok(only)).await;
            } else if let Err(status) = relayed {
                let _gone = to_client.send(Err(of_machine(&name, &there, &status))).await;
            }
        });
        let stream = holding(place, ReceiverStream::new(stream));
        Ok(self.door.while_accepted(caller, Response::new(stream)))
    }
}

/// A task that has ended.
fn ended(job: &Arc<Job>, index: TaskIndex) -> Result<&Task, Status> {
    let name = format!("{}/{}", job.owner, job.spec.name);
    let Some(task) = job.task(index) else { return Err(no_such_task(job)) };
    match task.state {
        TaskState::Dead { .. } => Ok(task),
        _ => Err(Status::failed_precondition(format!(
            "{name}/{index} has not ended, and its outputs are kept when it has"
        ))),
    }
}

/// The last incarnation of an ended task.
fn left(job: &Arc<Job>, index: TaskIndex, task: &Task) -> Result<LeftOutputs, Status> {
    let name = format!("{}/{}/{index}", job.owner, job.spec.name);
    if job.described(index).task.outputs.paths.is_empty() {
        return Err(Status::invalid_argument(format!(
            "{name} has ended, and its files are removed: what is to be kept is named in the description \
             of the job, as outputs: ['result.txt', 'out']"
        )));
    }
    let Some(last) = task.last_incarnation.as_deref() else {
        return Err(Status::not_found(format!("{name} has left nothing: it has never run")));
    };
    let task = TaskId { collection: job.id, index };
    Ok(LeftOutputs { instance: task.generation(last.generation), machine: last.machine })
}

/// What a machine's error means to a reader.
fn of_machine(name: &str, machine: &str, status: &Status) -> Status {
    match status.code() {
        Code::NotFound => Status::not_found(format!(
            "the outputs of {name} are not on machine {machine}: {}",
            status.message()
        )),
        code @ (Code::InvalidArgument | Code::ResourceExhausted | Code::FailedPrecondition) => {
            Status::new(code, format!("{name}: {}", status.message()))
        }
        _ => Status::aborted(format!(
            "the outputs of {name} cannot be fetched now from machine {machine}: {}",
            rpc::transport::explain(status)
        )),
    }
}
