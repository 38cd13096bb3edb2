//! The page with metrics that a task serves itself, fetched for the master.
//!
//! A page is bounded in size and time, and so is the number of pages that are fetched at once, which
//! users share: what a task serves disturbs nothing but its owner's pages.

use std::net::Ipv4Addr;
use std::time::Duration;

use api::v1;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::Body as _;
use hyper_util::rt::TokioIo;
use linux::task::Inspection;
use model::{InstanceId, UserName};
use rpc::transport::Limiter;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tonic::Status;

use super::tasks::Files;

/// The maximum size of a page.
const PAGE_BYTES_MAX: u64 = 8 << 20;
/// The maximum time until its end.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pages that a machine fetches at once; users share them, and the others are rejected.
const PAGES_MAX: usize = 64;
/// Pieces that wait for the master.
const QUEUE: usize = 4;
/// The text format, as Prometheus asks for it.
const ACCEPT: &str = "text/plain;version=0.0.4;q=0.9,*/*;q=0.1";

type Pieces = mpsc::Sender<Result<v1::MetricsChunk, Status>>;

/// Fetches pages. Clones share the bound.
#[derive(Clone, Debug)]
pub(crate) struct Fetcher(Limiter<UserName>);

impl Fetcher {
    pub(crate) fn new() -> Self {
        Self(Limiter::shared(PAGES_MAX))
    }

    /// Begins to fetch a page; its pieces arrive through the channel. Errors of the task and of its
    /// page have the code `Aborted`.
    ///
    /// # Errors
    /// If the request is invalid.
    pub(crate) fn fetch(
        &self,
        files: &Files,
        asked: v1::FetchMetricsRequest,
    ) -> Result<mpsc::Receiver<Result<v1::MetricsChunk, Status>>, Status> {
        let invalid = |why: &str| Status::invalid_argument(why.to_owned());
        let instance: InstanceId =
            asked.instance.ok_or_else(|| invalid("the instance is missing"))?.into();
        let port = u16::try_from(asked.port).map_err(|_| invalid("the port is not one"))?;
        let (to_master, pieces) = mpsc::channel(QUEUE);
        let (files, path, limiter) = (files.clone(), asked.path, self.0.clone());
        tokio::spawn(async move {
            let fetched = async {
                let (host, user) = of_instance(files, instance, port).await?;
                let _held = limiter.acquire(user).map_err(|_| {
                    "its machine fetches as many pages of its owner's tasks as it may already: try \
                     again in a moment"
                        .to_owned()
                })?;
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

/// Where the instance has the port, if it runs here and has it, and its owner.
async fn of_instance(
    files: Files,
    instance: InstanceId,
    port: u16,
) -> Result<(Ipv4Addr, UserName), String> {
    let found = tokio::task::spawn_blocking(move || {
        let task = files.task(instance)?;
        let runs = matches!(task.inspect()?, Inspection::Running(_));
        let launched = if runs { files.launched(&task)? } else { None };
        anyhow::Ok(launched.map(|(launch, _)| launch.desired))
    });
    match found.await.map_err(anyhow::Error::from).and_then(|found| found) {
        Ok(Some(task)) if task.ports.iter().any(|(_, own)| *own == port) => {
            Ok((task.host(), task.user))
        }
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
