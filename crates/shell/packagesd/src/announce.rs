//! Where masters will hear of this store. They have no method for that yet: [`announce`] is the place for the call.

use std::convert::Infallible;
use std::time::Duration;

use package_store::{PackageStore, Totals};
use process::renewal::Masters;
use rpc::{Expect, Role, Rotating};
use tokio::time::{sleep, timeout};
use tonic::Status;
use tonic::transport::Channel;

/// How often the masters hear of this store.
const INTERVAL: Duration = Duration::from_secs(30);

/// The timeout of a call to one master.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What masters hear.
#[derive(Clone, Debug)]
pub struct Announced {
    store: PackageStore,
    address: String,
}

impl Announced {
    /// A store that is reached at an address, as host:port.
    #[must_use]
    pub fn new(store: PackageStore, address: String) -> Self {
        Self { store, address }
    }

    /// Where the store is reached, as host:port.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where the bytes are. Stores with the same location have the same packages.
    #[must_use]
    pub fn location(&self) -> String {
        self.store.location()
    }

    /// How much is there.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.store.totals()
    }
}

/// Tells a master about a store.
///
/// # Errors
/// Why the master did not take it.
#[expect(clippy::unused_async, reason = "the call to the master belongs here")]
pub async fn announce(_master: Channel, announced: &Announced) -> Result<(), Status> {
    tracing::debug!("the store {} is at {}", announced.location(), announced.address());
    Ok(())
}

/// Tells the masters forever: whichever answers first passes it on.
pub(crate) async fn run(
    announced: Announced,
    masters: Masters,
    credentials: Rotating,
) -> Infallible {
    loop {
        for master in masters.all() {
            let expect = Expect::Role(Role::Master);
            let channel = match rpc::transport::connect(&master, &credentials, &expect) {
                Ok(channel) => channel,
                Err(error) => {
                    tracing::warn!("cannot announce this store: {error}");
                    continue;
                }
            };
            match timeout(TIMEOUT, announce(channel, &announced)).await {
                Ok(Ok(())) => break,
                Ok(Err(status)) => {
                    let why = rpc::transport::explain(&status);
                    tracing::info!("cannot announce this store to {master}: {why}");
                }
                Err(_elapsed) => {
                    tracing::info!("cannot announce this store to {master}: it does not answer");
                }
            }
        }
        sleep(INTERVAL).await;
    }
}
