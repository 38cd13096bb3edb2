//! Health checks: a GET on a local port, a connection to one, or a command inside a task.
//!
//! Each gives a line of text, whether it passes or not. Checks are bounded in number on a machine, and
//! users share them: one that waits for its turn is late, and does not fail for it.

mod command;

use std::fmt::Display;
use std::net::Ipv4Addr;
use std::time::Duration;

use borglet::Probe;
use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use hyper_util::rt::TokioIo;
use model::{InstanceId, UserName};
use rpc::transport::Turns;
use tokio::net::TcpStream;

use super::tasks::Files;

/// The checks of ports that a machine makes at once; users share them, and the others wait.
const PORT_CHECKS_MAX: usize = 1_024;
/// The commands that check health on a machine at once; users share them, and the others wait.
const CHECK_COMMANDS_MAX: usize = 64;

/// Performs health checks. Clones share the bounds.
#[derive(Clone, Debug)]
pub(crate) struct Checks {
    ports: Turns<UserName>,
    commands: Turns<UserName>,
}

impl Checks {
    pub(crate) fn new() -> Self {
        Self { ports: Turns::new(PORT_CHECKS_MAX), commands: Turns::new(CHECK_COMMANDS_MAX) }
    }

    /// Performs one check when its turn has come; the error says why it failed.
    pub(crate) async fn run(
        &self,
        files: &Files,
        instance: InstanceId,
        user: &UserName,
        probe: Probe,
        timeout: Duration,
    ) -> Result<String, String> {
        match probe {
            Probe::Http { host, port, path } => {
                let _turn = self.ports.of(user).await;
                in_time(timeout, get(host, port, &path)).await
            }
            Probe::Tcp { host, port } => {
                let _turn = self.ports.of(user).await;
                in_time(timeout, connect(host, port))
                    .await
                    .map(|_| format!("connected to port {port}"))
            }
            Probe::Exec { argv } => {
                let turn = self.commands.of(user).await;
                command::run(files, instance, argv, timeout, turn).await
            }
        }
    }
}

async fn in_time<T>(
    timeout: Duration,
    asked: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let answered = tokio::time::timeout(timeout, asked).await;
    answered.unwrap_or_else(|_| Err(format!("no answer within {} ms", timeout.as_millis())))
}

fn text(error: impl Display) -> String {
    error.to_string()
}

async fn connect(host: Ipv4Addr, port: u16) -> Result<TcpStream, String> {
    let connected = TcpStream::connect((host, port)).await;
    connected.map_err(|error| format!("cannot connect to port {port}: {error}"))
}

/// Any status below 400 passes.
async fn get(host: Ipv4Addr, port: u16, path: &str) -> Result<String, String> {
    let stream = connect(host, port).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
    let request = Request::get(path)
        .header(hyper::header::HOST, format!("{host}:{port}"))
        .header(hyper::header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(text)?;
    let answer = async move {
        let response = sender.send_request(request).await.map_err(text)?;
        let status = response.status().as_u16();
        let said = format!("HTTP {status}");
        if status < 400 { Ok(said) } else { Err(said) }
    };
    // A connection error also shows up in the response.
    let (answer, _ended) = tokio::join!(answer, connection);
    answer
}
