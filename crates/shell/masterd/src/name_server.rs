//! DNS at a replica: the names of its newest view. It answers without a leader, too.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bns::{Stage, TaskRecord};
use cell::{Cell, Job};
use dns::{Answer, Endpoint, Lookup, Owner, Question, Zone};
use model::CellName;
use nameserver::{Server, Settings, Source};
use process::renewal;
use tokio::sync::watch;

use crate::names::Names;
use crate::view::View;

/// How long a request waits at the start, while the log is applied.
const START_PATIENCE: Duration = Duration::from_secs(2);

/// Where a replica serves DNS.
#[derive(Clone, Debug)]
pub(crate) struct DnsOptions {
    pub(crate) address: SocketAddr,
    pub(crate) domain: Option<String>,
}

/// Listens.
pub(crate) async fn bind(options: &DnsOptions, cell: &str) -> anyhow::Result<Server> {
    let zone = Zone::new(&CellName::new(cell)?, options.domain.as_deref())?;
    let settings = Settings::new(options.address, dns::Settings { zone, recursion: false });
    let server = Server::bind(settings).await;
    server.with_context(|| format!("cannot serve DNS at {}", options.address))
}

/// The names of a replica. Before the log is applied there is nothing.
#[derive(Debug)]
pub(crate) struct ReplicaNames(pub(crate) watch::Receiver<Arc<View>>);

impl dns::Names for ReplicaNames {
    fn lookup(&self, question: &Question) -> Lookup {
        let view = Arc::clone(&self.0.borrow());
        match view.caught_up {
            true => Lookup::Fresh(answer(view.names(), question)),
            false => Lookup::Missing,
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a serial number has the low bits")]
    fn serial(&self) -> u32 {
        self.0.borrow().cell.index().0 as u32
    }
}

impl Source for ReplicaNames {
    async fn resolve(&self, question: Question) -> Lookup {
        let mut views = self.0.clone();
        let there = views.wait_for(|view| view.caught_up);
        let there = tokio::time::timeout(START_PATIENCE, there).await;
        let view = there.ok().and_then(Result::ok).map(|view| Arc::clone(&view));
        view.map_or(Lookup::Missing, |view| Lookup::Fresh(answer(view.names(), &question)))
    }
}

/// The answer that a cell gives.
fn answer(names: Names<'_>, question: &Question) -> Answer {
    let cell = names.cell;
    match question {
        Question::Master => {
            let addresses: BTreeSet<IpAddr> = renewal::addresses(cell.member_addresses())
                .iter()
                .filter_map(|address| host(address.rsplit_once(':')?.0))
                .collect();
            Answer::Found(addresses.into_iter().map(master).collect())
        }
        Question::User(user) => {
            let mut jobs = cell.named_jobs().filter(|job| bns::is_named(job));
            let has_service = || cell.services_of(user).next().is_some();
            match has_service() || jobs.any(|job| job.owner == *user) {
                true => Answer::Found(Arc::default()),
                false => Answer::NoSuchName,
            }
        }
        Question::Job { user, job } => match bns::named(cell, user, job) {
            Some(job) => {
                let tasks = bns::tasks(cell, job);
                Answer::Found(tasks.filter_map(|task| endpoint(job, &task)).collect())
            }
            None => match cell.service(user, job) {
                Some(service) => {
                    let tasks = bns::service_tasks(cell, names.changes, service);
                    Answer::Found(tasks.filter_map(|(job, task)| endpoint(job, &task)).collect())
                }
                None => Answer::NoSuchName,
            },
        },
        Question::Task { user, job, index } => match bns::named(cell, user, job) {
            Some(job) if index.0 < job.spec.tasks => {
                let task = bns::task(cell, job, *index);
                Answer::Found(task.and_then(|task| endpoint(job, &task)).into_iter().collect())
            }
            _ => Answer::NoSuchName,
        },
        Question::Address(address) => Answer::Found(at(cell, *address).into()),
    }
}

/// What has an address: the replicas, and the tasks on its machines.
fn at(cell: &Cell, address: IpAddr) -> Vec<Endpoint> {
    let mut found = Vec::new();
    for machine in cell.machines() {
        let of_machine = machine.address.rsplit_once(':').and_then(|(text, _)| host(text));
        let is_there = match address {
            IpAddr::V4(address) => machine.addresses_taken().binary_search(&address).is_ok(),
            IpAddr::V6(_) => false,
        };
        if of_machine != Some(address) && !is_there {
            continue;
        }
        for instance in machine.instances() {
            let job = cell.job(instance.collection).filter(|job| bns::is_named(job));
            let task = job.and_then(|job| Some((job, bns::task(cell, job, instance.index)?)));
            let task = task.and_then(|(job, task)| endpoint(job, &task));
            // Those with an address of their own have no other.
            found.extend(task.filter(|task| task.address == address));
        }
    }
    found
}

fn master(address: IpAddr) -> Endpoint {
    Endpoint { owner: Owner::Master, address, ports: Vec::new(), running: true, healthy: true }
}

/// A task, if its host is an address.
fn endpoint(job: &Job, task: &TaskRecord<'_>) -> Option<Endpoint> {
    Some(Endpoint {
        owner: Owner::Task {
            user: job.owner.clone(),
            job: job.spec.name.clone(),
            index: task.index,
        },
        address: task.host.parse().ok()?,
        ports: task.ports().map(|(name, port)| (name.clone(), port)).collect(),
        running: task.stage != Stage::Starting,
        healthy: task.serves(),
    })
}

/// A host that is an address.
fn host(text: &str) -> Option<IpAddr> {
    text.trim_start_matches('[').trim_end_matches(']').parse().ok()
}
