//! Tells the masters where this store is: they name it to the clients and machines that upload or read packages.

use std::convert::Infallible;
use std::time::Duration;

use api::v1;
use process::renewal::Masters;
use rpc::service::packages_client::PackagesClient;
use rpc::{Expect, Role, Rotating};
use tokio::time::{sleep, timeout};
use tonic::Status;
use tonic::transport::Channel;

/// How often the masters hear of this store, unless they say otherwise.
const INTERVAL: Duration = Duration::from_secs(5);

/// The timeout of a call to one master.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Tells a master where a store is, as host:port. Returns when it is to be told again.
async fn announce(master: Channel, address: &str) -> Result<Duration, Status> {
    let request = v1::AnnounceStoreRequest { address: address.to_owned() };
    let response = PackagesClient::new(master).announce(request).await?.into_inner();
    Ok(Duration::from_secs(response.again_seconds.max(1).into()).min(INTERVAL))
}

/// Tells all masters forever.
pub(crate) async fn run(address: String, masters: Masters, credentials: Rotating) -> Infallible {
    let mut failing = false;
    loop {
        let (mut again, mut failed) = (INTERVAL, None);
        for master in masters.all() {
            let expect = Expect::Role(Role::Master);
            let channel = rpc::transport::connect(&master, &credentials, &expect);
            let told = match channel {
                Ok(channel) => match timeout(TIMEOUT, announce(channel, &address)).await {
                    Ok(Ok(next)) => {
                        again = again.min(next);
                        continue;
                    }
                    Ok(Err(status)) => rpc::transport::explain(&status),
                    Err(_elapsed) => "it does not answer".to_owned(),
                },
                Err(error) => error.to_string(),
            };
            failed = Some((master, told));
        }
        match failed {
            // Said once: the masters are told again every few seconds.
            Some((master, why)) if !failing => {
                tracing::warn!("cannot announce this store to {master}: {why}");
                failing = true;
            }
            Some(_) => {}
            None => failing = false,
        }
        sleep(again).await;
    }
}
