//! Asks a master which packages there are, and removes what none of them needs.

use std::collections::HashSet;
use std::convert::Infallible;
use std::time::Duration;

use api::v1;
use model::Digest;
use process::renewal::Masters;
use rpc::service::packages_client::PackagesClient;
use rpc::{Expect, Role, Rotating};
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::collecting::Manifests;
use crate::service::Service;

/// How often a store collects, and how long after its start for the first time.
const COLLECT_INTERVAL: Duration = Duration::from_secs(3_600);
const COLLECT_FIRST: Duration = Duration::from_secs(600);

/// How long a master may take to answer, and to send the next manifests.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The manifests of all packages of the cell.
///
/// # Errors
/// Why the master did not send all.
pub async fn manifests(master: Channel) -> Result<HashSet<Digest>, Status> {
    let request = v1::ManifestsRequest {};
    let mut stream = within(PackagesClient::new(master).manifests(request)).await?.into_inner();
    let mut manifests = Manifests::default();
    while let Some(next) = within(stream.message()).await? {
        manifests.add(&next.manifests, next.complete)?;
    }
    manifests.all()
}

async fn within<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let done = timeout(TIMEOUT, call).await;
    done.unwrap_or_else(|_| Err(Status::deadline_exceeded("it does not answer")))
}

/// Collects forever, by what a master says.
pub(crate) async fn run(service: Service, masters: Masters, credentials: Rotating) -> Infallible {
    sleep(COLLECT_FIRST).await;
    loop {
        for master in masters.all() {
            let expect = Expect::Role(Role::Master);
            let channel = rpc::transport::connect(&master, &credentials, &expect);
            let channel = channel.map_err(|error| Status::internal(error.to_string()));
            match async { manifests(channel?).await }.await {
                Ok(manifests) => {
                    match service.collect_all_but(&manifests, false).await {
                        Ok(_) => {}
                        // Another process does it.
                        Err(status) if status.code() == Code::Aborted => {}
                        Err(status) => tracing::error!("not collected: {}", status.message()),
                    }
                    break;
                }
                Err(status) => {
                    let why = rpc::transport::explain(&status);
                    tracing::info!("cannot learn from {master} which packages there are: {why}");
                }
            }
        }
        sleep(COLLECT_INTERVAL).await;
    }
}
