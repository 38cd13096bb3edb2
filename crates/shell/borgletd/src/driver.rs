//! The async task that owns the Borglet: it processes one input at a time, and has the resulting
//! effects executed.

use std::sync::{Arc, Mutex, PoisonError};

use borglet::{
    Borglet, Effect, Input, Order, RecoveredAttempt, RecoveredData, RecoveredStatus, Report,
    Settings,
};
use model::{Bytes, InstanceId};
use process::clock::{Clock, wall_clock};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, oneshot, watch};

use super::capacity::Described;
use super::cleanup::Remover;
use super::disk;
use super::effects::Provided;
use super::effects::{CapMetrics, EndedByRule, Executor};
use super::memory;
use super::message::{Message, Obeyed};
use super::outputs;
use super::packages::Taken;
use super::ports;
use super::retained_logs;
use super::savers;
use super::tasks::Files;
use super::uids::Uids;
use super::usage::UsageSampler;
use super::volumes;

/// A report with its version, which changes with every change of the report.
#[derive(Clone, Debug)]
pub(crate) struct Versioned {
    pub(crate) version: u64,
    pub(crate) report: Arc<Report>,
}

/// A handle to the driver.
#[derive(Clone, Debug)]
pub(crate) struct Driver {
    messages: mpsc::Sender<Message>,
    reports: watch::Receiver<Versioned>,
    failed: watch::Receiver<Option<String>>,
    usage: UsageSampler,
    caps: CapMetrics,
    /// The reservations that were told last.
    reserved: Arc<Mutex<Vec<(InstanceId, Bytes)>>>,
    shortages: Counter,
    ended_by_rule: EndedByRule,
    layers: Taken,
}

const QUEUE: usize = 1_024;
/// How many messages are processed before the report is made: it lists every task.
const TOGETHER_MAX: usize = 64;

impl Driver {
    /// Gives an order; `None` if the Borglet is stopping.
    pub(crate) async fn order(&self, order: Order) -> Option<Obeyed> {
        let (answer, answered) = oneshot::channel();
        self.messages.send(Message::Order(order, answer)).await.ok()?;
        answered.await.ok()
    }

    /// Passes on the reservations of tasks; most polls repeat those of the one before.
    pub(crate) async fn reserve(&self, reservations: Vec<(InstanceId, Bytes)>) {
        let changed = {
            let mut known = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
            let changed = *known != reservations;
            if changed {
                known.clone_from(&reservations);
            }
            changed
        };
        if changed {
            let input = Message::Input(Input::Reservations(reservations));
            let _stopping = self.messages.send(input).await;
        }
    }

    /// A watch channel of the report.
    pub(crate) fn reports(&self) -> watch::Receiver<Versioned> {
        self.reports.clone()
    }

    /// How often memory ran short.
    pub(crate) fn memory_shortages(&self) -> &Counter {
        &self.shortages
    }

    /// How many tasks each rule has ended.
    pub(crate) fn ended_by_rule(&self) -> &EndedByRule {
        &self.ended_by_rule
    }

    /// The layers of packages and images on this machine.
    pub(crate) fn layers(&self) -> &Taken {
        &self.layers
    }

    /// What tasks use.
    pub(crate) fn usage(&self) -> &UsageSampler {
        &self.usage
    }

    /// How often tasks were capped.
    pub(crate) fn caps(&self) -> &CapMetrics {
        &self.caps
    }

    /// Waits until the driver has ended on its own.
    pub(crate) async fn ended(&self) {
        let mut failed = self.failed.clone();
        let _gone = failed.wait_for(Option::is_some).await;
    }

    /// The error that ended the driver, if any.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        match self.failed.borrow().as_ref() {
            Some(why) => Err(anyhow::anyhow!("{why}")),
            None => Ok(()),
        }
    }
}

/// Adopts the existing instances and starts the driver.
pub(super) fn start(
    files: Files,
    provided: Provided,
    machine: Described,
    uids: Uids,
    probed: Result<(), String>,
) -> anyhow::Result<Driver> {
    let clock = Clock::start();
    let stamp = files.read_stamp()?;
    let allocs = files.recover_allocs()?;
    let recovered = files.recover(clock.now())?;
    // After the tasks: those that ended meanwhile may have left data.
    let data = files.recover_data()?;
    let runs = |found: &&RecoveredData| matches!(found.attempt, RecoveredAttempt::Running { .. });
    let saving: Vec<_> = data.iter().filter(runs).map(|found| found.kept.instance).collect();
    let adopted: Vec<_> = recovered.iter().map(|found| found.launch.instance).collect();
    if !adopted.is_empty() {
        tracing::info!("adopting {} tasks", adopted.len());
    }
    let users: Vec<_> =
        recovered.iter().map(|found| (found.launch.instance, found.launch.uid)).collect();
    provided.clients.adopt(&users);
    provided.secrets.adopt(&adopted);
    for found in &recovered {
        let instance = found.launch.instance;
        match files.binds(instance) {
            Ok(sources) => provided.packages.adopt(instance, sources),
            Err(error) => tracing::error!("cannot tell the packages of {instance}: {error:#}"),
        }
    }
    recovered.iter().for_each(|found| files.owners.add(&found.launch));
    if !allocs.is_empty() {
        tracing::info!("adopting {} allocs", allocs.len());
    }
    let Described { report, disk, topology } = machine;
    let range = report.ports;
    // An earlier process cannot lift its caps any more.
    for found in &recovered {
        if let Err(error) = files.cap_cpu(found.launch.instance, None) {
            tracing::warn!("cannot lift the cap of {}: {error:#}", found.launch.instance);
        }
    }
    let reads = recovered.iter().filter(|found| {
        found.launch.asks_master() && matches!(found.status, RecoveredStatus::Running(_))
    });
    let reads: Vec<_> = reads.map(|found| found.launch.clone()).collect();
    let running = recovered.iter().filter_map(|found| match found.status {
        RecoveredStatus::Running(since) => Some((found.launch.instance, since)),
        RecoveredStatus::Starting | RecoveredStatus::Ended(..) => None,
    });
    let running = running.collect();
    let (messages, from_all) = mpsc::channel(QUEUE);
    let usage = UsageSampler::start(files.clone(), clock, running, messages.clone())?;
    let settings = Settings { kept_data: savers::room(&files.directory), ..uids.settings() };
    let borglet = Borglet::new(settings, Arc::clone(&report), stamp, allocs, recovered)
        .with_data(clock.now(), data)
        .with_cpus(topology)
        .with_probe(clock.now(), probed);
    // Report versions must differ from those of earlier processes.
    let first = Versioned { version: wall_clock().0, report: Arc::new(borglet.report()) };
    let (to_reports, reports) = watch::channel(first);
    let (to_failed, failed) = watch::channel(None);
    let remover = Remover::start(files.clone())?;
    tokio::spawn(retained_logs::clean(files.clone(), remover.clone()));
    tokio::spawn(outputs::clean(files.clone(), remover.clone()));
    let shortages = memory::watch(&files, report.capacity.ram, messages.clone())?;
    disk::watch(files.clone(), report, disk, messages.clone())?;
    volumes::watch(files.clone(), messages.clone())?;
    tokio::spawn(ports::watch(files.clone(), range, messages.clone()));
    let layers = provided.packages.taken();
    let mut executor = Executor::new(files, provided, remover, messages.clone(), stamp, uids);
    let caps = executor.caps().clone();
    let ended_by_rule = executor.ended_by_rule().clone();
    for instance in adopted {
        executor.watch(instance);
    }
    reads.into_iter().for_each(|launch| executor.read_what_was_interrupted(launch));
    for instance in saving {
        executor.watch_saver(instance);
    }
    let to_usage = usage.clone();
    tokio::spawn(async move {
        let context = DriverContext {
            clock,
            executor: &mut executor,
            usage: &to_usage,
            reports: &to_reports,
        };
        drive(borglet, from_all, context).await;
        to_failed.send_replace(Some("the Borglet's driver has ended".to_owned()));
    });
    let reserved = Arc::default();
    Ok(Driver {
        messages,
        reports,
        failed,
        usage,
        caps,
        reserved,
        shortages,
        ended_by_rule,
        layers,
    })
}

/// What the effects and reports of a Borglet go to.
struct DriverContext<'a> {
    clock: Clock,
    executor: &'a mut Executor,
    usage: &'a UsageSampler,
    reports: &'a watch::Sender<Versioned>,
}

async fn drive(
    mut borglet: Borglet,
    mut from_all: mpsc::Receiver<Message>,
    context: DriverContext<'_>,
) {
    let DriverContext { clock, executor, usage, reports } = context;
    let mut effects: Vec<Effect> = Vec::new();
    let mut messages = Vec::new();
    let mut answers = Vec::new();
    loop {
        let next = borglet.next_tick().map(|next| clock.instant(next));
        let tick = async {
            match next {
                Some(next) => tokio::time::sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            received = from_all.recv_many(&mut messages, TOGETHER_MAX) => if received == 0 { return },
            () = tick => messages.push(Message::Input(Input::Tick)),
        }
        for message in messages.drain(..) {
            match message {
                Message::Input(input) => {
                    match input {
                        Input::Started(instance) => usage.started(instance, clock.now()),
                        Input::Ended(instance, _, used) => usage.ended(instance, clock.now(), used),
                        _ => {}
                    }
                    borglet.step(clock.now(), input, &mut effects);
                }
                Message::Order(order, waiting) => {
                    // Before executing any of it: otherwise a restarted Borglet could obey an older
                    // order.
                    let obeyed = match executor.persist(order.stamp, order.overrules).await {
                        Ok(()) => match borglet.obey(clock.now(), order, &mut effects) {
                            Ok(()) => Obeyed::Yes,
                            Err(refused) => {
                                tracing::warn!("{refused}");
                                Obeyed::TooOld
                            }
                        },
                        Err(error) => {
                            tracing::error!("cannot obey an order yet: {error:#}");
                            borglet.step(clock.now(), Input::OrderNotKept, &mut effects);
                            Obeyed::NotNow
                        }
                    };
                    answers.push((waiting, obeyed));
                }
            }
            for effect in effects.drain(..) {
                executor.execute(effect);
            }
        }
        let report = borglet.report();
        reports.send_if_modified(|known| {
            let changed = *known.report != report;
            if changed {
                known.version += 1;
                known.report = Arc::new(report);
            }
            changed
        });
        // Answer only now, so that the sender of an order sees a report that reflects it.
        for (waiting, obeyed) in answers.drain(..) {
            let _gone = waiting.send(obeyed);
        }
    }
}
