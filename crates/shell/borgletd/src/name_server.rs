//! The name server of a Borglet by itself: without tasks, at any address. `bourg bench resolver` measures
//! it; a Borglet has the same parts.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use dns::Zone;
use model::CellName;
use process::renewal::Masters;
use rpc::Rotating;

use crate::names::MachineNames;
use crate::owners::Owners;

/// A name server that listens.
pub struct NameServer {
    server: nameserver::Server,
    names: MachineNames,
}

impl NameServer {
    /// Listens. Names that are asked for come from the masters at these addresses, with the
    /// certificate of a machine.
    ///
    /// # Errors
    /// When the certificate has no valid name of a cell, or the address is taken.
    pub async fn bind(
        credentials: Rotating,
        masters: Vec<String>,
        address: SocketAddr,
    ) -> anyhow::Result<Self> {
        let cell = CellName::new(credentials.credentials().cell())?;
        let answers = dns::Settings { zone: Zone::new(&cell, None)?, recursion: true };
        let server = nameserver::Server::bind(nameserver::Settings::new(address, answers)).await;
        let server = server.with_context(|| format!("cannot serve DNS at {address}"))?;
        let at = Some(server.address());
        let names = MachineNames::new(credentials, Masters::new(masters), at, Owners::default());
        Ok(Self { server, names })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Answers until the socket fails.
    ///
    /// # Errors
    /// When the socket fails.
    pub async fn run(self) -> std::io::Result<()> {
        tokio::select! {
            never = self.names.clone().follow() => match never {},
            ended = self.server.serve(Arc::new(self.names)) => ended,
        }
    }
}
