//! Asks every master which packages the machines have that it polls, every few seconds and only for what has changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api::v1;
use model::{HeldPackage, MachineId};
use process::renewal::Masters;
use rpc::service::scheduling_client::SchedulingClient;
use rpc::{Expect, Role, Rotating};
use tokio::sync::mpsc;
use tonic::transport::Channel;

/// How often masters are asked.
const INTERVAL: Duration = Duration::from_secs(3);
/// The timeout of a request to one master.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How many machines' lists wait for the scheduler at most.
const QUEUE: usize = 64;

/// The packages of a machine, all of them.
pub(super) type MachineList = (MachineId, Arc<[HeldPackage]>);

/// Asks masters.
pub(super) struct Collector {
    credentials: Rotating,
    masters: Masters,
    /// By address.
    asked: BTreeMap<String, AskedMaster>,
    to_scheduler: mpsc::Sender<MachineList>,
}

/// A master that was asked.
struct AskedMaster {
    client: SchedulingClient<Channel>,
    /// What was taken in of its answers.
    taken: v1::ListHeldPackagesRequest,
}

impl Collector {
    /// With the end of the queue that the scheduler reads.
    pub(super) fn new(
        credentials: Rotating,
        masters: Masters,
    ) -> (Self, mpsc::Receiver<MachineList>) {
        let (to_scheduler, lists) = mpsc::channel(QUEUE);
        (Self { credentials, masters, asked: BTreeMap::new(), to_scheduler }, lists)
    }

    /// Asks forever.
    pub(super) async fn run(mut self) -> std::convert::Infallible {
        loop {
            let all = self.masters.all();
            self.asked.retain(|address, _| all.contains(address));
            for master in all {
                if let Err(error) = self.ask(&master).await {
                    // Followed masters that fail are told of already.
                    tracing::debug!(
                        "{master} does not say which packages machines have: {error:#}"
                    );
                    // A new connection has the current certificate.
                    self.asked.remove(&master);
                }
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Takes in what has changed at a master.
    async fn ask(&mut self, master: &str) -> anyhow::Result<()> {
        if !self.asked.contains_key(master) {
            let expect = Expect::Role(Role::Master);
            let channel = rpc::transport::connect(master, &self.credentials, &expect)?;
            let most = rpc::transport::MAX_STREAM_MESSAGE_BYTES;
            let client = SchedulingClient::new(channel).max_decoding_message_size(most);
            let taken = v1::ListHeldPackagesRequest::default();
            self.asked.insert(master.to_owned(), AskedMaster { client, taken });
        }
        let asked = self.asked.get_mut(master).context("it was asked")?;
        loop {
            let mut request = tonic::Request::new(asked.taken);
            request.set_timeout(TIMEOUT);
            let answer = asked.client.list_held_packages(request).await;
            let answer =
                answer.map_err(|status| anyhow::anyhow!(rpc::transport::explain(&status)))?;
            let v1::ListHeldPackagesResponse { epoch, after, machines, more } = answer.into_inner();
            for list in machines {
                let packages = list.packages.into_iter().map(HeldPackage::try_from);
                let packages: Arc<[HeldPackage]> = packages.collect::<Result<_, _>>()?;
                self.to_scheduler.send((MachineId(list.machine), packages)).await?;
            }
            asked.taken = v1::ListHeldPackagesRequest { epoch, after };
            if !more {
                return Ok(());
            }
        }
    }
}
