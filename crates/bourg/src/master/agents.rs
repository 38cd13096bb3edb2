//! The threads that talk to the Borglets: one call for each poll that the core wants made.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use master::{Answer, Poll};
use model::{MachineId, MachineName};
use proto::v1;
use replica::Input;
use rpc::service::borglet_client::BorgletClient;
use rpc::transport::Link;
use rpc::{Expect, Identity, Rotating};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::core::Message;
use super::metrics::Metrics;

/// How long an answer may take beyond the time for which it may be held back.
const PATIENCE: Duration = Duration::from_secs(3);

/// The threads; they end when this is dropped.
pub(crate) struct Agents {
    handle: Handle,
    runtime: Option<Runtime>,
}

/// A handle on the threads.
#[derive(Clone)]
pub(crate) struct Handle {
    runtime: tokio::runtime::Handle,
    links: Arc<Links>,
    to_core: mpsc::Sender<Message>,
    metrics: Arc<Metrics>,
}

/// The links to the machines, by machine; remade where a machine has a new address.
struct Links {
    credentials: Rotating,
    links: Mutex<HashMap<MachineId, (Arc<str>, Link)>>,
}

pub(crate) fn start(
    credentials: &Rotating,
    to_core: mpsc::Sender<Message>,
    metrics: Arc<Metrics>,
) -> anyhow::Result<Agents> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("agents")
        .enable_all()
        .build()
        .context("cannot start the threads that talk to the machines")?;
    let links = Links { credentials: credentials.clone(), links: Mutex::new(HashMap::new()) };
    let (links, thread) = (Arc::new(links), runtime.handle().clone());
    let handle = Handle { runtime: thread, links, to_core, metrics };
    Ok(Agents { handle, runtime: Some(runtime) })
}

impl Agents {
    pub(crate) fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Handle {
    /// Makes a poll and tells the core what came of it.
    pub(crate) fn poll(&self, poll: Poll) {
        let (links, to_core) = (Arc::clone(&self.links), self.to_core.clone());
        let metrics = Arc::clone(&self.metrics);
        self.runtime.spawn(async move {
            let (machine, had_order) = (poll.machine, poll.order.is_some());
            let answer = match links.poll(&poll).await {
                Ok(answer) => answer,
                Err(error) => {
                    tracing::debug!("machine {machine} at {}: {error:#}", poll.address);
                    metrics.polls.failed.inc();
                    Answer::Failed
                }
            };
            metrics.polls.made.inc();
            let answered = Input::Answered { machine, had_order, answer };
            let _gone = to_core.send(Message::Input(answered)).await;
        });
    }

    /// A client for a machine's Borglet.
    pub(crate) fn client(
        &self,
        machine: MachineId,
        name: &MachineName,
        address: &Arc<str>,
    ) -> anyhow::Result<BorgletClient<Link>> {
        let _inside = self.runtime.enter();
        self.links.client(machine, name, address)
    }
}

impl Links {
    fn client(
        &self,
        machine: MachineId,
        name: &MachineName,
        address: &Arc<str>,
    ) -> anyhow::Result<BorgletClient<Link>> {
        let mut links = self.links.lock().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
        let link = match links.get(&machine) {
            Some((known, link)) if known == address => link.clone(),
            _ => {
                // That very machine: a Borglet may speak about itself only.
                let expect = Expect::Identity(Identity::Borglet(name.to_string()));
                let link = rpc::transport::link(address, &self.credentials, &expect)?;
                links.insert(machine, (Arc::clone(address), link.clone()));
                link
            }
        };
        let most = rpc::transport::MAX_STREAM_MESSAGE_BYTES;
        Ok(BorgletClient::new(link).max_decoding_message_size(most).max_encoding_message_size(most))
    }

    async fn poll(&self, poll: &Poll) -> anyhow::Result<Answer> {
        let mut client = self.client(poll.machine, &poll.name, &poll.address)?;
        let mut request = tonic::Request::new(v1::PollRequest {
            order: poll.order.as_ref().map(Into::into),
            hold: Some(proto::duration(poll.hold)),
            seen: poll.seen,
        });
        request.set_timeout(poll.hold.to_std() + PATIENCE);
        let response = client
            .poll(request)
            .await
            .map_err(|status| anyhow::anyhow!(rpc::transport::explain(&status)))?
            .into_inner();
        let report = response.report.context("an answer without a report")?.try_into()?;
        Ok(Answer::Report { report: Arc::new(report), version: response.version })
    }
}
