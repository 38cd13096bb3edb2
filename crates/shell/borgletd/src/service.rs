//! The services of a Borglet, for the master only: polls and logs. The transport rejects all other
//! peers ([`rpc::transport`]).

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use borglet::Order;
use proto::v1;
use rpc::service::borglet_server::BorgletServer;
use rpc::transport::Refusals;
use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use super::driver::Driver;
use super::health_endpoints::{self, Metrics};
use super::logs;
use super::message::Obeyed;
use super::tasks::Files;

/// The services of a Borglet.
#[derive(Clone)]
pub(crate) struct Service {
    driver: Driver,
    files: Files,
    cell: String,
    /// Counts the polls: a new one ends the hold of the previous one.
    polls: Arc<watch::Sender<u64>>,
    metrics: Arc<Metrics>,
}

/// The longest hold, whatever the master requests.
const HOLD_MAX: Duration = Duration::from_secs(60);
/// The capacity of the queue of log chunks for a slow reader.
const LOG_QUEUE: usize = 16;

impl Service {
    pub(crate) fn new(driver: Driver, files: Files, cell: &str) -> Self {
        let (polls, _) = watch::channel(0);
        let (cell, polls, metrics) = (cell.to_owned(), Arc::new(polls), Arc::default());
        Self { driver, files, cell, polls, metrics }
    }

    pub(crate) fn routes(self, refusals: &Refusals) -> Routes {
        let most = rpc::transport::MAX_STREAM_MESSAGE_BYTES;
        let pages =
            health_endpoints::pages(&self.cell, self.driver.clone(), &self.metrics, refusals);
        let server = BorgletServer::new(self);
        let server = server.max_decoding_message_size(most).max_encoding_message_size(most);
        let calls = Routes::new(server).into_axum_router().fallback(process::health::not_found);
        Routes::from(calls.merge(pages))
    }
}

#[tonic::async_trait]
impl rpc::service::borglet_server::Borglet for Service {
    type ReadLogStream = Pin<Box<dyn Stream<Item = Result<v1::LogChunk, Status>> + Send>>;

    async fn poll(
        &self,
        request: Request<v1::PollRequest>,
    ) -> Result<Response<v1::PollResponse>, Status> {
        let asked = request.into_inner();
        let bad = |error: proto::Malformed| Status::invalid_argument(error.to_string());
        let hold = asked.hold.as_ref().map(proto::span).transpose().map_err(bad)?;
        let hold = hold.unwrap_or_default().to_std().min(HOLD_MAX);
        let order: Option<Order> = asked.order.map(TryInto::try_into).transpose().map_err(bad)?;

        self.polls.send_modify(|polls| *polls += 1);
        let mut polls = self.polls.subscribe();
        let obeyed = match order {
            None => Obeyed::Yes,
            Some(order) => {
                let obeyed = self.driver.order(order).await;
                let obeyed =
                    obeyed.ok_or_else(|| Status::unavailable("the Borglet is stopping"))?;
                self.metrics.ordered(obeyed);
                obeyed
            }
        };
        let mut reports = self.driver.reports();
        tokio::select! {
            _ = reports.wait_for(|report| report.version != asked.seen) => {}
            _ = polls.changed() => {}
            () = tokio::time::sleep(hold) => {}
        }
        let newest = reports.borrow().clone();
        self.metrics.polls.inc();
        Ok(Response::new(v1::PollResponse {
            report: Some(newest.report.as_ref().into()),
            version: newest.version,
            order_refused: obeyed == Obeyed::TooOld,
            // Nothing is sampled yet.
            usage: None,
        }))
    }

    async fn read_log(
        &self,
        request: Request<v1::ReadLogRequest>,
    ) -> Result<Response<Self::ReadLogStream>, Status> {
        let (to_master, stream) = mpsc::channel(LOG_QUEUE);
        logs::read(&self.files, request.into_inner(), to_master)?;
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}
