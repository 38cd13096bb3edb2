//! The service for what runs inside tasks: their logs, their own metrics, their outputs, and commands, relayed from and
//! to their machines.

use api::v1;
use model::{MachineId, UserName};
use rpc::service::tasks_server;
use rpc::transport::Limiter;
use tonic::{Request, Streaming};

use crate::agents;
use crate::service::door::Door;
use crate::service::{Answer, Streamed};
use crate::streams::Streams;

/// The maximum number of task logs that are read at once, shared by users.
const LOG_READERS_MAX: usize = 8_192;
/// The maximum number of task logs that one user reads at once on one machine: the connection to it has
/// room for 1,024.
pub(super) const LOG_READERS_OF_ONE_THERE: usize = 256;
/// The maximum number of pages of task metrics that are relayed at once, shared by users.
const METRICS_READERS_MAX: usize = 256;
/// The maximum number of commands that are relayed at once, shared by users.
const COMMANDS_MAX: usize = 1_024;
/// The maximum number of tasks whose outputs are relayed at once, shared by users.
const OUTPUT_READERS_MAX: usize = 1_024;

/// The service.
#[derive(Clone)]
pub(super) struct Tasks {
    pub(super) door: Door,
    pub(super) agents: agents::Handle,
    pub(super) log_readers: Streams,
    pub(super) log_readers_there: Limiter<(MachineId, UserName)>,
    pub(super) metrics_readers: Streams,
    pub(super) commands: Streams,
    pub(super) output_readers: Streams,
}

impl Tasks {
    pub(super) fn new(door: Door, agents: agents::Handle) -> Self {
        Self {
            door,
            agents,
            log_readers: Streams::new("read-logs", LOG_READERS_MAX),
            log_readers_there: Limiter::new(LOG_READERS_MAX, LOG_READERS_OF_ONE_THERE),
            metrics_readers: Streams::new("read-metrics-of-tasks", METRICS_READERS_MAX),
            commands: Streams::new("run-commands", COMMANDS_MAX),
            output_readers: Streams::new("fetch-outputs", OUTPUT_READERS_MAX),
        }
    }

    /// The bounds that users share.
    pub(super) fn limits(&self) -> [&Streams; 4] {
        [&self.log_readers, &self.metrics_readers, &self.commands, &self.output_readers]
    }
}

#[tonic::async_trait]
impl tasks_server::Tasks for Tasks {
    type LogsStream = Streamed<v1::LogChunk>;
    type MetricsStream = Streamed<v1::MetricsChunk>;
    type ExecStream = Streamed<v1::ExecOutput>;
    type OutputsStream = Streamed<v1::OutputChunk>;

    async fn logs(&self, request: Request<v1::LogsRequest>) -> Answer<Self::LogsStream> {
        Box::pin(self.relay_logs(request)).await
    }

    async fn metrics(
        &self,
        request: Request<v1::TaskMetricsRequest>,
    ) -> Answer<Self::MetricsStream> {
        Box::pin(self.relay_metrics(request)).await
    }

    async fn exec(&self, request: Request<Streaming<v1::ExecRequest>>) -> Answer<Self::ExecStream> {
        self.run(request).await
    }

    async fn outputs(&self, request: Request<v1::OutputsRequest>) -> Answer<Self::OutputsStream> {
        Box::pin(self.relay_outputs(request)).await
    }
}
