//! The threads that talk to the Borglets: one call for each poll that the core orders.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use anyhow::Context;
use api::v1;
use cell::{Credentials, Machine};
use master::{Answer, Poll, Usage};
use model::{MachineId, MachineName, Serial};
use replica::Input;
use rpc::service::borglet_client::BorgletClient;
use rpc::transport::{Link, Refusals};
use rpc::{Expect, Identity, Rotating};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tonic::transport::Channel;

use crate::held_packages::HeldMemory;
use crate::message::Message;
use crate::metrics::Metrics;
use crate::usage::UsageMemory;

/// How long an answer may take in addition to the time for which the Borglet may delay it.
const PATIENCE: Duration = Duration::from_secs(2);
/// The largest answer of a Borglet: a report of ten thousand tasks, or a piece of a log.
pub(crate) const REPORT_BYTES_MAX: usize = 8 << 20;

/// A machine that was not contacted for this long is polled by another replica now, or is gone: its
/// connection is closed.
const UNUSED: Duration = Duration::from_secs(300);
/// How often unused connections are looked for.
const LOOK: Duration = Duration::from_secs(60);

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

/// The connections to the machines, by machine; replaced when a machine's address changes.
struct Links {
    credentials: Rotating,
    refusals: Refusals,
    links: Mutex<HashMap<(MachineId, For), ContactedMachine>>,
    usage: Arc<UsageMemory>,
    held: HeldMemory,
}

/// The purpose of a connection. Logs have their own, so that clients that read many logs do not
/// delay polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum For {
    Polls,
    Logs,
}

/// A machine that was contacted.
struct ContactedMachine {
    address: Arc<str>,
    link: Link,
    used: Instant,
    /// The error of its last poll, if it failed.
    trouble: Option<Box<str>>,
}

pub(crate) fn start(
    credentials: &Rotating,
    refusals: Refusals,
    to_core: mpsc::Sender<Message>,
    metrics: Arc<Metrics>,
) -> anyhow::Result<Agents> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("agents")
        .enable_all()
        .build()
        .context("cannot start the threads that talk to the machines")?;
    let (links, usage) = (Mutex::new(HashMap::new()), Arc::default());
    let held = HeldMemory::default();
    let links = Links { credentials: credentials.clone(), refusals, links, usage, held };
    let (links, thread) = (Arc::new(links), runtime.handle().clone());
    thread.spawn(let_go(Arc::downgrade(&links)));
    let handle = Handle { runtime: thread, links, to_core, metrics };
    Ok(Agents { handle, runtime: Some(runtime) })
}

/// Closes unused connections, until the links are dropped.
async fn let_go(links: Weak<Links>) {
    while let Some(links) = links.upgrade() {
        links.let_go(Instant::now());
        drop(links);
        tokio::time::sleep(LOOK).await;
    }
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
    /// Polls a machine and sends the result to the core. `said` is what the cell requires of the
    /// machine's certificates, and `masters` are the addresses of its replicas.
    pub(crate) fn poll(&self, poll: Poll, said: Option<Arc<Credentials>>, masters: Vec<String>) {
        let (links, to_core) = (Arc::clone(&self.links), self.to_core.clone());
        let metrics = Arc::clone(&self.metrics);
        self.runtime.spawn(async move {
            let (machine, had_order) = (poll.machine, poll.order.is_some());
            let answer = match links.poll(&poll, said, masters).await {
                Ok(answer) => {
                    links.troubles(machine, None);
                    answer
                }
                Err(error) => {
                    tracing::debug!("machine {machine} at {}: {error:#}", poll.address);
                    links.troubles(machine, Some(format!("{error:#}")));
                    metrics.polls.failed.inc();
                    Answer::Failed
                }
            };
            metrics.polls.made.inc();
            let answered = Input::Answered { machine, had_order, answer };
            let _gone = to_core.send(Message::Input(answered)).await;
        });
    }

    /// A client for a machine's Borglet, for reading task logs.
    pub(crate) fn client_for_logs(&self, machine: &Machine) -> anyhow::Result<BorgletClient<Link>> {
        let _inside = self.runtime.enter();
        let said = machine.credentials.clone();
        self.links.client((machine.id, For::Logs), &machine.name, &machine.address, said)
    }

    /// A client for a machine's Borglet, for running one command inside a task. Links send requests of
    /// one message only, so a command has a connection of its own.
    pub(crate) fn client_for_command(
        &self,
        machine: &Machine,
    ) -> anyhow::Result<BorgletClient<Channel>> {
        let is_revoked = machine.credentials.as_ref().is_some_and(|said| said.revoked.is_some());
        anyhow::ensure!(
            !is_revoked,
            "certificates of machine {} were revoked: no commands run on it until it is removed and \
             added again",
            machine.name
        );
        let _inside = self.runtime.enter();
        let expect = Expect::Identity(Identity::Borglet(machine.name.to_string()));
        let channel = rpc::transport::connect(&machine.address, &self.links.credentials, &expect)?;
        Ok(BorgletClient::new(channel))
    }

    /// What is used on the machines that this replica polls.
    pub(crate) fn usage(&self) -> &Arc<UsageMemory> {
        &self.links.usage
    }

    /// The packages on the machines that this replica polls.
    pub(crate) fn held(&self) -> &HeldMemory {
        &self.links.held
    }

    /// The error of the last poll of a machine, if this replica polls it and the poll failed.
    pub(crate) fn trouble(&self, machine: MachineId) -> Option<String> {
        let links = self.links.links.lock().ok()?;
        links.get(&(machine, For::Polls))?.trouble.as_deref().map(str::to_owned)
    }
}

impl Links {
    fn client(
        &self,
        key: (MachineId, For),
        name: &MachineName,
        address: &Arc<str>,
        said: Option<Arc<Credentials>>,
    ) -> anyhow::Result<BorgletClient<Link>> {
        let mut links = self.links.lock().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
        let used = Instant::now();
        let link = match links.get_mut(&key) {
            Some(known) if known.address == *address => {
                known.used = used;
                known.link.clone()
            }
            _ => {
                // This exact machine: a Borglet may only report about itself.
                let expect = Expect::Identity(Identity::Borglet(name.to_string()));
                let link = rpc::transport::link(address, &self.credentials, &expect)?;
                let (address, trouble) = (Arc::clone(address), None);
                links.insert(key, ContactedMachine { address, link: link.clone(), used, trouble });
                link
            }
        };
        let link = match said.filter(|said| said.revoked.is_some()) {
            None => link,
            Some(said) => link.where_accepted(move |serial| {
                Serial::from_bytes(serial).is_some_and(|serial| said.accepts(serial))
            }),
        };
        let most = rpc::transport::MAX_STREAM_MESSAGE_BYTES;
        let client = BorgletClient::new(link).max_encoding_message_size(most);
        Ok(client.max_decoding_message_size(REPORT_BYTES_MAX))
    }

    fn let_go(&self, now: Instant) {
        let Ok(mut links) = self.links.lock() else { return };
        links.retain(|_, known| now.saturating_duration_since(known.used) <= UNUSED);
    }

    fn troubles(&self, machine: MachineId, trouble: Option<String>) {
        let Ok(mut links) = self.links.lock() else { return };
        if let Some(known) = links.get_mut(&(machine, For::Polls)) {
            known.trouble = trouble.map(String::into_boxed_str);
        }
    }

    async fn poll(
        &self,
        poll: &Poll,
        said: Option<Arc<Credentials>>,
        masters: Vec<String>,
    ) -> anyhow::Result<Answer> {
        let mut client =
            self.client((poll.machine, For::Polls), &poll.name, &poll.address, said)?;
        let known = self.usage.known(poll.machine);
        let mut request = tonic::Request::new(v1::PollRequest {
            order: poll.order.as_ref().map(Into::into),
            hold: Some(api::duration(poll.hold)),
            seen: poll.seen,
            usage_after: known.cursor,
            samples_after: known.sampled.0,
            reservations: poll.reservations.iter().map(Into::into).collect(),
            masters,
            packages_seen: self.held.version(poll.machine),
        });
        request.set_timeout(poll.hold.to_std() + PATIENCE);
        let response =
            client.poll(request).await.map_err(|status| self.failed(poll, &status))?.into_inner();
        let report = response.report.context("an answer without a report")?.try_into()?;
        let usage = Arc::new(usage(&poll.name, response.usage));
        self.usage.take_in(poll.machine, &usage, Instant::now());
        self.held.take_in(poll.machine, response.packages, Instant::now());
        Ok(Answer::Report { report: Arc::new(report), version: response.version, usage })
    }

    /// The error of a failed poll; counted if the machine has the wrong identity.
    fn failed(&self, poll: &Poll, status: &tonic::Status) -> anyhow::Error {
        let Poll { name, address, .. } = poll;
        let why = rpc::transport::explain(status);
        if let Some(cause) = rpc::transport::distrusts(status) {
            self.refusals.count(cause, || format!("machine {name} at {address}: {why}"));
        }
        anyhow::anyhow!(why)
    }
}

/// A machine's report of its instances' usage. Unreadable entries are left out: the poll still
/// succeeded.
fn usage(machine: &MachineName, said: Option<v1::MeasuredUsage>) -> Usage {
    let read = said.map(Usage::try_from).transpose();
    let read = read.inspect_err(|error| tracing::debug!("usage of machine {machine}: {error}"));
    read.ok().flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rpc::{Authority, Validity};

    use super::*;

    #[test]
    fn usage_that_cannot_be_read_is_left_out() {
        let machine = MachineName::new("m1").expect("a name");
        assert_eq!(usage(&machine, None), Usage::default());
        let subject = Some(v1::usage_sample::Subject::Machine(v1::Nothing {}));
        let sample = v1::UsageSample { subject, at: 7, measured: Some(v1::Measured::default()) };
        let said = |sample| {
            Some(v1::MeasuredUsage { samples: vec![sample], ..v1::MeasuredUsage::default() })
        };
        assert_eq!(usage(&machine, said(sample)).samples.len(), 1);
        let bad = v1::UsageSample { measured: None, ..sample };
        assert_eq!(usage(&machine, said(bad)), Usage::default());
    }

    #[tokio::test]
    async fn a_machine_that_is_not_talked_to_any_more_is_let_go() {
        let place = tempfile::tempdir().expect("a directory");
        let authority = Authority::create(place.path(), "test").expect("an authority");
        let validity = Validity::lasting(Duration::from_secs(60));
        let credentials = authority.issue(&Identity::Master, validity).expect("a certificate");
        let credentials = Rotating::new(credentials).expect("a certificate");
        let (refusals, links, usage, held) = Default::default();
        let links = Links { credentials, refusals, links, usage, held };
        let name = MachineName::new("m1").expect("a name");
        let talk_for = |what| {
            let key = (MachineId(1), what);
            links.client(key, &name, &"m1:7801".into(), None).map(drop)
        };
        let talk = || talk_for(For::Polls);
        talk().expect("an address");
        let begun = Instant::now();
        let are = |after: Duration| {
            links.let_go(begun + after);
            links.links.lock().expect("no thread panicked").len()
        };
        assert_eq!(are(UNUSED - LOOK), 1);
        assert_eq!(are(UNUSED + LOOK), 0);
        talk().expect("an address");
        assert_eq!(are(Duration::ZERO), 1, "it is talked to again");
        talk_for(For::Logs).expect("an address");
        assert_eq!(are(Duration::ZERO), 2, "who reads logs takes no place of a poll's");
    }
}
