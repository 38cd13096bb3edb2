//! The page with metrics that a task serves itself, fetched for the master.
//!
//! A page is bounded in size and time, and so is the number of pages that are fetched at once:
//! what a task serves disturbs nothing but its own page.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::Body as _;
use hyper_util::rt::TokioIo;
use linux::task::Inspection;
use model::InstanceId;
use proto::v1;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tonic::Status;

use super::tasks::Files;

/// The maximum size of a page.
const PAGE_BYTES_MAX: u64 = 8 << 20;
/// The maximum time until its end.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum number of pages that are fetched at once.
const AT_ONCE: usize = 16;
/// Pieces that wait for the master.
const QUEUE: usize = 4;
/// The text format, as Prometheus asks for it.
const ACCEPT: &str = "text/plain;version=0.0.4;q=0.9,*/*;q=0.1";

type Pieces = mpsc::Sender<Result<v1::MetricsChunk, Status>>;

/// Fetches pages. Clones share the bound.
#[derive(Clone, Debug)]
pub(crate) struct Fetcher(Arc<Semaphore>);

impl Fetcher {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }

    /// Begins to fetch a page; its pieces arrive through the channel. Errors of the task and of its
    /// page have the code `Aborted`.
    ///
    /// # Errors
    /// If the request is invalid, or too many pages are fetched.
    pub(crate) fn fetch(
        &self,
        files: &Files,
        asked: v1::FetchMetricsRequest,
    ) -> Result<mpsc::Receiver<Result<v1::MetricsChunk, Status>>, Status> {
        let invalid = |why: &str| Status::invalid_argument(why.to_owned());
        let instance: InstanceId =
            asked.instance.ok_or_else(|| invalid("the instance is missing"))?.into();
        let port = u16::try_from(asked.port).map_err(|_| invalid("the port is not one"))?;
        let permit = Arc::clone(&self.0).try_acquire_owned().map_err(|_| {
            Status::aborted(format!(
                "its machine fetches {AT_ONCE} pages already: try again in a moment"
            ))
        })?;
        let (to_master, pieces) = mpsc::channel(QUEUE);
        let (files, path) = (files.clone(), asked.path);
        tokio::spawn(async move {
            let _held: OwnedSemaphorePermit = permit;
            let fetched = async {
                let host = of_instance(files, instance, port).await?;
                relay(host, port, &path, &to_master).await
            };
            let fetched = tokio::select! {
                fetched = tokio::time::timeout(PATIENCE, fetched) => fetched,
                () = to_master.closed() => return,
            };
            let late = format!("the page did not end within {} s", PATIENCE.as_secs());
            if let Err(why) = fetched.unwrap_or(Err(late)) {
                let _gone = to_master.send(Err(Status::aborted(why))).await;
            }
        });
        Ok(pieces)
    }
}

/// Where the instance has the port, if it runs here and has it.
async fn of_instance(files: Files, instance: InstanceId, port: u16) -> Result<Ipv4Addr, String> {
    let found = tokio::task::spawn_blocking(move || {
        let task = files.task(instance)?;
        let runs = matches!(task.inspect()?, Inspection::Running(_));
        let launched = if runs { files.launched(&task)? } else { None };
        anyhow::Ok(launched.map(|(launch, _)| (launch.desired.host(), launch.desired.ports)))
    });
    match found.await.map_err(anyhow::Error::from).and_then(|found| found) {
        Ok(Some((host, ports))) if ports.iter().any(|(_, own)| *own == port) => Ok(host),
        Ok(Some(_)) => Err(format!("port {port} is not one of the task's")),
        Ok(None) => Err("the task does not run".to_owned()),
        Err(error) => Err(format!("{error:#}")),
    }
}

async fn relay(host: Ipv4Addr, port: u16, path: &str, to_master: &Pieces) -> Result<(), String> {
    let stream = TcpStream::connect((host, port))
        .await
        .map_err(|error| format!("cannot connect to port {port} of the task: {error}"))?;
    let broken = |error: hyper::Error| format!("port {port} of the task: {error}");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let request = Request::get(path)
        .header(hyper::header::HOST, format!("{host}:{port}"))
        .header(hyper::header::ACCEPT, ACCEPT)
        .header(hyper::header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let page = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        if !response.status().is_success() {
            return Err(format!("GET {path} → HTTP {}", response.status().as_u16()));
        }
        let mut body = response.into_body();
        let mut seen = 0;
        if body.size_hint().lower() > PAGE_BYTES_MAX {
            return Err(too_large());
        }
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
            seen += data.len() as u64;
            if seen > PAGE_BYTES_MAX {
                return Err(too_large());
            }
            let piece = v1::MetricsChunk { data: data.into() };
            if to_master.send(Ok(piece)).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    };
    // What the connection says of an error, the page says too.
    tokio::select! {
        page = page => page,
        never = async { let _ended = connection.await; std::future::pending().await } => never,
    }
}

fn too_large() -> String {
    format!("the page has more than {} MiB", PAGE_BYTES_MAX >> 20)
}
