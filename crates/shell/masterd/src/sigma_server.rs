//! Sigma at a replica, the paper's backup UI (section 3.1): its pages call the services of this process,
//! each with the certificate of the user who has signed in.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use client::Connection;
use rpc::transport::{HttpService, Peer, Refusals};
use rpc::{Authority, Identity, Validity};
use sigma::{Sessions, Sigma};

/// How long the certificate of the pages is valid. It is renewed when a third of that has passed.
const VALIDITY: Duration = Duration::from_secs(90 * 86_400);

/// Where a replica serves Sigma.
#[derive(Clone, Debug)]
pub(crate) struct SigmaOptions {
    pub(crate) address: SocketAddr,
    /// The name or the IP address by which browsers reach it.
    pub(crate) host: String,
}

/// The socket of Sigma, and who is signed in.
pub(crate) struct Bound {
    listener: TcpListener,
    names: Vec<String>,
    pub(crate) sessions: Sessions,
}

/// Listens.
pub(crate) fn bind(options: &SigmaOptions) -> anyhow::Result<Bound> {
    let listener = TcpListener::bind(options.address)
        .with_context(|| format!("cannot serve Sigma at {}", options.address))?;
    let port = listener.local_addr()?.port();
    let mut names = vec![options.host.clone(), "localhost".to_owned()];
    if !options.address.ip().is_unspecified() {
        names.push(options.address.ip().to_string());
    }
    names.sort_unstable();
    names.dedup();
    let host = match options.host.contains(':') {
        true => format!("[{}]", options.host),
        false => options.host.clone(),
    };
    Ok(Bound { listener, names, sessions: Sessions::new(format!("https://{host}:{port}")) })
}

impl Bound {
    /// Serves the pages; returns only if that fails.
    pub(crate) async fn serve(
        self,
        services: impl HttpService,
        authority: &Arc<Authority>,
        refusals: &Refusals,
    ) -> anyhow::Result<()> {
        let certificate = || authority.issue_for_web(&self.names, Validity::lasting(VALIDITY));
        let credentials = certificate()?;
        let cell = authority.cell().to_owned();
        let here = Here { services, cell: cell.clone(), refusals: refusals.clone() };
        let sigma = Sigma::new(here, self.sessions);
        let renewing = async {
            loop {
                tokio::time::sleep(VALIDITY / 3).await;
                match certificate() {
                    Ok(renewed) => credentials.replace(&renewed),
                    Err(error) => tracing::error!(%error, "cannot renew the certificate of Sigma"),
                }
            }
        };
        tokio::select! {
            served = sigma.serve(self.listener, &credentials, refusals, std::future::pending()) => served,
            never = renewing => never,
        }
    }
}

/// The services of this process.
struct Here<S> {
    services: S,
    cell: String,
    refusals: Refusals,
}

impl<S: HttpService> sigma::Cell for Here<S> {
    fn name(&self) -> &str {
        &self.cell
    }

    fn connect(&self, peer: &Peer) -> Result<Connection, client::Error> {
        let user = match &peer.identity {
            Identity::User(user) => user.clone(),
            other => other.to_string(),
        };
        let services = self.services.clone();
        let channel =
            rpc::transport::in_process(services, peer.clone(), &self.cell, &self.refusals);
        Ok(Connection::over(channel, user, self.cell.clone(), |_| {}))
    }
}
