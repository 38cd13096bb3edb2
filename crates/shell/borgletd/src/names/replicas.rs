//! The connections over which the replicas are asked for names.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use api::v1;
use process::renewal::Masters;
use rpc::service::names_client::NamesClient;
use rpc::{Expect, Role, Rotating};
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};

/// The timeout of a call to one replica.
const TIMEOUT: Duration = Duration::from_millis(700);

/// The replicas, the one that has answered last first.
pub(super) struct ReplicaClients {
    credentials: Rotating,
    masters: Masters,
    clients: Mutex<Vec<(String, NamesClient<Channel>)>>,
}

impl ReplicaClients {
    pub(super) fn new(credentials: Rotating, masters: Masters) -> Self {
        Self { credentials, masters, clients: Mutex::default() }
    }

    /// The addresses of the replicas.
    pub(super) fn hosts(&self) -> BTreeSet<IpAddr> {
        let host = |address: &String| {
            let (host, _) = address.rsplit_once(':')?;
            host.trim_start_matches('[').trim_end_matches(']').parse().ok()
        };
        self.masters.all().iter().filter_map(host).collect()
    }

    pub(super) async fn get(
        &self,
        request: v1::GetNamesRequest,
    ) -> anyhow::Result<v1::GetNamesResponse> {
        self.ask(request, async |mut client, request| client.get(request).await).await
    }

    /// A watch. Only its beginning has the timeout.
    pub(super) async fn watch(
        &self,
        request: v1::WatchNamesRequest,
    ) -> anyhow::Result<Streaming<v1::NamesChange>> {
        self.ask(request, async |mut client, request| client.watch(request).await).await
    }

    /// Calls one replica after another until one answers.
    async fn ask<M: Clone, T>(
        &self,
        message: M,
        call: impl AsyncFn(NamesClient<Channel>, Request<M>) -> Result<Response<T>, Status>,
    ) -> anyhow::Result<T> {
        let clients = self.clients()?;
        let mut failed = anyhow::anyhow!("no master is known");
        for (address, client) in clients {
            // A connection may take longer than that.
            let called = tokio::time::timeout(TIMEOUT, call(client, Request::new(message.clone())));
            let called = called.await.unwrap_or_else(|_| {
                Err(Status::deadline_exceeded(format!(
                    "no answer within {} ms",
                    TIMEOUT.as_millis()
                )))
            });
            match called {
                Ok(answer) => {
                    self.prefer(&address);
                    return Ok(answer.into_inner());
                }
                // That holds at every replica.
                Err(status) if status.code() == Code::OutOfRange => return Err(status.into()),
                Err(status) => failed = anyhow::Error::from(status).context(address),
            }
        }
        Err(failed)
    }

    /// The connections, made when they are needed first.
    fn clients(&self) -> anyhow::Result<Vec<(String, NamesClient<Channel>)>> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let masters = self.masters.all();
        clients.retain(|(address, _)| masters.contains(address));
        for address in masters {
            if clients.iter().all(|(known, _)| *known != address) {
                let expect = Expect::Role(Role::Master);
                let channel = rpc::transport::connect(&address, &self.credentials, &expect);
                let channel = channel.with_context(|| format!("cannot connect to {address}"))?;
                clients.push((address, NamesClient::new(channel)));
            }
        }
        Ok(clients.clone())
    }

    fn prefer(&self, address: &str) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(position) = clients.iter().position(|(known, _)| known == address) {
            clients[..=position].rotate_right(1);
        }
    }
}
