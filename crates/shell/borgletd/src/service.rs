//! The services of a Borglet, for the master only: polls, logs and commands. The transport rejects all other
//! peers ([`rpc::transport`]).

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use api::v1;
use borglet::Order;
use model::{Time, held_version};
use process::renewal::Masters;
use rpc::Rotating;
use rpc::service::borglet_server::BorgletServer;
use rpc::service::package_peers_server::PackagePeersServer;
use rpc::transport::{Refusals, check_address};
use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use super::driver::Driver;
use super::exec::{Outputs, Sessions};
use super::health_endpoints::{self, Metrics, PackageCounts};
use super::logs;
use super::message::Obeyed;
use super::outputs::{self, OutputReaders};
use super::packages::Packages;
use super::packages::{FetchCounts, Sharing};
use super::task_metrics::Fetcher;
use super::tasks::Files;
use super::unpolled::UNPOLLED;

/// The services of a Borglet.
#[derive(Clone)]
pub(crate) struct Service {
    driver: Driver,
    files: Files,
    cell: String,
    /// Counts the polls: a new one ends the hold of the previous one.
    polls: Arc<watch::Sender<u64>>,
    metrics: Arc<Metrics>,
    pages: Fetcher,
    sessions: Sessions,
    readers: logs::Readers,
    output_readers: OutputReaders,
    masters: Masters,
    packages: Packages,
}

/// The longest hold, whatever the master requests.
const HOLD_MAX: Duration = Duration::from_secs(60);
/// The capacity of the queue of log chunks for a slow reader.
const LOG_QUEUE: usize = 16;

impl Service {
    pub(crate) fn new(
        driver: Driver,
        files: Files,
        cell: String,
        masters: Masters,
        packages: Packages,
    ) -> Self {
        let (polls, _) = watch::channel(0);
        let kept_outputs = files.outputs.bytes.clone();
        let metrics = Metrics { kept_outputs, ..Metrics::default() };
        let (polls, metrics) = (Arc::new(polls), Arc::new(metrics));
        Self {
            driver,
            files,
            cell,
            polls,
            metrics,
            pages: Fetcher::new(),
            sessions: Sessions::new(),
            readers: logs::Readers::new(),
            output_readers: OutputReaders::new(),
            masters,
            packages,
        }
    }

    /// The packages on this machine, unless the master has this list.
    fn packages(&self, seen: u64) -> Option<v1::HeldPackages> {
        let held = self.packages.held();
        let version = held_version(&held);
        (version != seen)
            .then(|| v1::HeldPackages { version, packages: held.iter().map(Into::into).collect() })
    }

    /// Watches whether masters poll this machine, forever.
    pub(crate) fn unpolled(&self) -> impl Future<Output = Infallible> + use<> {
        self.metrics.unpolled.clone().follow(self.polls.subscribe(), UNPOLLED)
    }

    pub(crate) fn routes(
        self,
        refusals: &Refusals,
        dns: Option<Arc<nameserver::Metrics>>,
        credentials: Rotating,
        sharing: Sharing,
        fetched: &FetchCounts,
    ) -> Routes {
        let most = rpc::transport::MAX_STREAM_MESSAGE_BYTES;
        let packages = PackageCounts { fetched: fetched.clone(), sent: sharing.sent() };
        let (metrics, driver) = (&self.metrics, self.driver.clone());
        let pages = health_endpoints::pages(
            &self.cell,
            driver,
            metrics,
            refusals,
            dns,
            credentials,
            &packages,
        );
        let server = BorgletServer::new(self);
        let server = server.max_decoding_message_size(most).max_encoding_message_size(most);
        let peers = PackagePeersServer::new(sharing);
        let peers = peers.max_decoding_message_size(rpc::transport::MAX_REQUEST_BYTES);
        let calls = Routes::new(server)
            .add_service(peers)
            .into_axum_router()
            .fallback(process::health::not_found);
        Routes::from(calls.merge(pages))
    }
}

#[tonic::async_trait]
impl rpc::service::borglet_server::Borglet for Service {
    type ReadLogStream = Pin<Box<dyn Stream<Item = Result<v1::LogChunk, Status>> + Send>>;
    type ExecInTaskStream = Outputs;
    type ReadOutputsStream = ReceiverStream<Result<v1::OutputChunk, Status>>;
    type FetchMetricsStream = ReceiverStream<Result<v1::MetricsChunk, Status>>;

    async fn poll(
        &self,
        request: Request<v1::PollRequest>,
    ) -> Result<Response<v1::PollResponse>, Status> {
        let asked = request.into_inner();
        let bad = |error: api::Malformed| Status::invalid_argument(error.to_string());
        let hold = asked.hold.as_ref().map(api::span).transpose().map_err(bad)?;
        let hold = hold.unwrap_or_default().to_std().min(HOLD_MAX);
        let order: Option<Order> = asked.order.map(TryInto::try_into).transpose().map_err(bad)?;

        let reservations = asked.reservations.into_iter().map(TryInto::try_into);
        let reservations = reservations.collect::<Result<_, _>>().map_err(bad)?;
        self.driver.reserve(reservations).await;
        let is_address = |address: &String| check_address(address).is_ok();
        self.masters.told(asked.masters.into_iter().filter(is_address).collect());

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
        let news = self.driver.usage().news(Time(asked.samples_after), asked.usage_after).await;
        Ok(Response::new(v1::PollResponse {
            report: Some(newest.report.as_ref().into()),
            version: newest.version,
            order_refused: obeyed == Obeyed::TooOld,
            usage: (!news.is_empty()).then(|| (&news).into()),
            packages: self.packages(asked.packages_seen),
        }))
    }

    async fn read_usage(
        &self,
        request: Request<v1::ReadUsageRequest>,
    ) -> Result<Response<v1::ReadUsageResponse>, Status> {
        let read = self.driver.usage().read(request.into_inner()).await;
        read.map(Response::new).map_err(|error| Status::internal(format!("{error:#}")))
    }

    async fn fetch_metrics(
        &self,
        request: Request<v1::FetchMetricsRequest>,
    ) -> Result<Response<Self::FetchMetricsStream>, Status> {
        let pieces = self.pages.fetch(&self.files, request.into_inner())?;
        Ok(Response::new(ReceiverStream::new(pieces)))
    }

    async fn exec_in_task(
        &self,
        request: Request<Streaming<v1::ExecInTaskRequest>>,
    ) -> Result<Response<Self::ExecInTaskStream>, Status> {
        self.sessions.exec(&self.files, request.into_inner()).await.map(Response::new)
    }

    async fn read_outputs(
        &self,
        request: Request<v1::ReadOutputsRequest>,
    ) -> Result<Response<Self::ReadOutputsStream>, Status> {
        let sent = outputs::read(&self.files, &self.output_readers, &request.into_inner())?;
        Ok(Response::new(sent))
    }

    async fn read_log(
        &self,
        request: Request<v1::ReadLogRequest>,
    ) -> Result<Response<Self::ReadLogStream>, Status> {
        let (to_master, stream) = mpsc::channel(LOG_QUEUE);
        logs::read(&self.files, &self.readers, &request.into_inner(), to_master)?;
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}
