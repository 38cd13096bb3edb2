//! The page with metrics that a task serves itself, relayed from its machine.

use std::time::Duration;

use api::v1;
use cell::{Job, TaskState};
use model::{Capability, InstanceId, MachineId, TaskIndex};
use rpc::service::borglet_client::BorgletClient;
use rpc::transport::Link;
use spec::MetricsPage;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status};

use crate::caller::tasks::may_touch;
use crate::reads::Reads;
use crate::reads::rejections::no_such_task;
use crate::service::door::split;
use crate::service::holding::holding;
use crate::service::tasks::Tasks;
use crate::service::{Answer, Streamed, gate};
use crate::streams::StreamHolder;

/// The maximum time of a page: that of its Borglet, and a little for the way.
const PATIENCE: Duration = Duration::from_secs(12);
/// Pieces that wait for a slow reader.
const QUEUE: usize = 4;

/// A page and the incarnation that serves it.
struct Served {
    instance: InstanceId,
    machine: MachineId,
    port: u16,
    path: String,
}

impl Tasks {
    /// For those who may read the logs of the job.
    pub(super) async fn relay_metrics(
        &self,
        request: Request<v1::TaskMetricsRequest>,
    ) -> Answer<Streamed<v1::MetricsChunk>> {
        gate::led(&self.door.core).await?;
        let caller = self.door.anyone(&request).await?;
        let user = &caller.user;
        let (asked, asks) = split(request);
        let view = self.door.core.view();
        let reads = Reads::of(&view, &caller);
        let job = reads.find(&asked.job.unwrap_or_default())?;
        let name = format!("{}/{}", job.owner, job.spec.name);
        self.door.own(&caller, &asks, || may_touch(user, &job.owner, &job.spec.name))?;
        if job.owner != *user && !caller.administers_jobs(&view.cell) {
            return Err(Status::permission_denied(format!(
                "{user} may not read the metrics of {name}: {}, an administrator or a user with the \
                 capability {} may",
                job.owner,
                Capability::AdministerJobs
            )));
        }
        let served = served(job, TaskIndex(asked.task))?;
        if job.owner != *user {
            self.door.record_use(&caller, Capability::AdministerJobs, job.id).await?;
        }
        let place =
            self.metrics_readers.begin(StreamHolder { user, asker: caller.asker(&view.cell) })?;
        let gone = || Status::aborted(format!("the machine of {name}/{} is gone", asked.task));
        let machine = view.cell.machine(served.machine).ok_or_else(gone)?;
        let client = self
            .agents
            .client_for_logs(machine)
            .map_err(|error| Status::aborted(error.to_string()))?;
        let request = v1::FetchMetricsRequest {
            instance: Some(served.instance.into()),
            port: served.port.into(),
            path: served.path,
        };
        let (to_client, stream) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            let late = format!("its machine did not send it within {} s", PATIENCE.as_secs());
            let relayed = tokio::select! {
                relayed = tokio::time::timeout(PATIENCE, relay(client, request, &to_client)) => relayed,
                () = to_client.closed() => return,
            };
            if let Err(why) = relayed.unwrap_or(Err(late)) {
                let why = format!("cannot fetch the metrics of {name}/{}: {why}", asked.task);
                let _gone = to_client.send(Err(Status::aborted(why))).await;
            }
        });
        let stream = holding(place, ReceiverStream::new(stream));
        Ok(self.door.while_accepted(caller, Response::new(stream)))
    }
}

/// The page of a task, in the version of the description that it runs with.
fn served(job: &Job, index: TaskIndex) -> Result<Served, Status> {
    let name = format!("{}/{}", job.owner, job.spec.name);
    let Some(task) = job.task(index) else { return Err(no_such_task(job)) };
    let Some(page) = &job.described(index).metrics else {
        return Err(Status::failed_precondition(format!(
            "{name} names no page with metrics: add metrics: {{ port: 'http' }} to its description"
        )));
    };
    let not_running = || {
        Status::failed_precondition(format!(
            "{name}/{index} does not run: bourg status {name} shows its state"
        ))
    };
    let TaskState::Running(placement) = &task.state else { return Err(not_running()) };
    let instance = job.instance(index).ok_or_else(not_running)?;
    let port = port_of(job, index, page, &placement.ports).ok_or_else(not_running)?;
    Ok(Served { instance, machine: placement.machine, port, path: page.path.clone() })
}

/// The number of the port with the metrics.
pub(crate) fn port_of(
    job: &Job,
    index: TaskIndex,
    page: &MetricsPage,
    given: &[u16],
) -> Option<u16> {
    let names = job.ports(index);
    let at = names.iter().position(|name| *name == page.port)?;
    given.get(at).copied()
}

async fn relay(
    mut client: BorgletClient<Link>,
    request: v1::FetchMetricsRequest,
    to_client: &mpsc::Sender<Result<v1::MetricsChunk, Status>>,
) -> Result<(), String> {
    let said = |status: Status| match status.code() {
        Code::Aborted => status.message().to_owned(),
        _ => rpc::transport::explain(&status),
    };
    let mut pieces = client.fetch_metrics(request).await.map_err(said)?.into_inner();
    while let Some(piece) = pieces.next().await {
        if to_client.send(Ok(piece.map_err(said)?)).await.is_err() {
            break;
        }
    }
    Ok(())
}
